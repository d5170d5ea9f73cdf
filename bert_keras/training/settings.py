"""Turns the flags of a program into the settings of a run: a dict of values by flag name, with absolute paths."""

import logging
import math
import os
from typing import Any

from absl import flags

from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling.config import released_names
from bert_keras.modeling.optimization import SCHEDULES
from bert_keras.settings.devices import ACCUMULATION, Devices
from bert_keras.settings.fields import define_group
from bert_keras.storage.paths import is_file, is_remote, join, real
from bert_keras.training.distribution.tpu import check_computing, check_paths
from bert_keras.training.precision import take_precision
from bert_keras.training.run_dir import MODEL_DIR, RUN_CONFIG, RunDir, read_run_config

log = logging.getLogger("bert_keras")


class NumberParser(flags.ArgumentParser):
    """Parses a float from `lowest` to below `limit`, never NaN or infinity."""

    syntactic_help = "a number"

    def __init__(self, lowest, limit=math.inf):
        super().__init__()
        self._lowest = lowest
        self._limit = limit

    def parse(self, argument):
        try:
            number = float(argument)
        except ValueError:
            raise ValueError(f"{argument!r} is not a number") from None
        if not self._lowest <= number < self._limit:
            end = "" if self._limit == math.inf else f" to below {self._limit}"
            raise ValueError(f"{number:g} is not a number from {self._lowest:g}{end}")
        return number

    def flag_type(self):
        return "float"


class NumbersParser(flags.ArgumentParser):
    """Parses numbers separated by commas into a tuple. `is_open`: the lower bound itself is not valid."""

    syntactic_help = "numbers, separated by commas"

    def __init__(self, kind, lower_bound, is_open=False, may_repeat=False):
        super().__init__()
        self._may_repeat = may_repeat
        self._kind = kind
        self._lower_bound = lower_bound
        self._is_open = is_open

    def parse(self, argument):
        """Returns a tuple of numbers from a str, or from a number or list of numbers in a run_config.json."""
        parts = argument.split(",") if isinstance(argument, str) else argument
        parts = parts if isinstance(parts, (list, tuple)) else [parts]
        numbers = tuple(self._number(part) for part in parts)
        if not self._may_repeat and len(set(numbers)) < len(numbers):
            raise ValueError(f"a number occurs twice: {argument}")
        return numbers

    def _number(self, part):
        try:
            number = self._kind(part)
        except ValueError:
            name = "a whole number" if self._kind is int else "a number"
            raise ValueError(f"{str(part).strip()!r} is not {name}") from None
        if not math.isfinite(number):
            raise ValueError(f"{number} is not a finite number")
        if not (number > self._lower_bound if self._is_open else number >= self._lower_bound):
            raise ValueError(f"{number} is not {'above' if self._is_open else 'at least'} {self._lower_bound}")
        return number

    def flag_type(self):
        return f"{self._kind.__name__}s"


# Name, default (of the original BERT), parser and meaning.
_NUMBERS = (
    ("weight_decay_rate", 0.01, NumberParser(0), "Weight decay of Adam; biases and layer norms have none."),
    ("adam_beta_1", 0.9, NumberParser(0, 1), "Decay of Adam's mean of the gradients."),
    ("adam_beta_2", 0.999, NumberParser(0, 1), "Decay of Adam's mean of the squared gradients."),
    ("adam_epsilon", 1e-6, NumberParser(1e-30), "Number that Adam adds to the root of its second mean."),
    (
        "clip_norm",
        1.0,
        NumberParser(0),
        "Maximum norm of all gradients together, to which longer ones are cut. 0: any.",
    ),
    (
        *("ema_decay", 0.0, NumberParser(0, 1)),
        "Decay of an average of each weight over the steps, such as 0.999. Evaluation, checkpoints and the model use "
        "the averages. 0: no averages.",
    ),
)
# Defaults of the settings that the original BERT has as constants in its code.
TUNING_DEFAULTS: dict[str, Any] = {name: default for name, default, *_ in _NUMBERS} | {
    "learning_rate_schedule": "linear",
    "keep_checkpoint_max": 5,
}

# Devices belong to a command, never to a run: they are not taken from an earlier one.
DEVICE_SETTINGS = ("strategy", "use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master", "num_tpu_cores")
# Settings that may differ when a run resumes, because they do not change what the model learns.
FREE_SETTINGS = frozenset(
    [
        *("output_dir", "do_train", "do_eval", "vocab_file", "allow_partial_checkpoint"),
        # These paths may change: the run compares the architecture and the examples themselves.
        *("bert_config_file", "input_file", "teacher"),
        *("eval_file", "eval_batch_size", "eval_steps", "max_eval_steps"),
        *("log_steps", "save_checkpoints_steps", "keep_checkpoint_max", "iterations_per_loop"),
        # These change the memory that the same update needs: a run that is out of memory can continue with others.
        *("gradient_accumulation_steps", "recompute"),
        *DEVICE_SETTINGS,
    ]
)


def define_run_flags(flag_values):
    """Defines the flags that pre-training and fine-tuning share."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_string(
        "output_dir", None, "Required. Folder for the model, its checkpoints and the reports.", **define
    )
    flags.DEFINE_string(
        "run_config", None, "A run_config.json of an earlier run, without its devices. Flags override it.", **define
    )
    flags.DEFINE_bool("do_train", False, "Train the model, or resume training.", **define)
    flags.DEFINE_integer(
        "seed", 12345, "Seed of new weights, the order of examples, and dropout.", 0, 2**31 - 1, **define
    )
    flags.DEFINE_integer("log_steps", 10, "Number of steps between rows of metrics.csv.", lower_bound=1, **define)
    flags.DEFINE_integer("gradient_accumulation_steps", 1, ACCUMULATION, lower_bound=1, **define)
    flags.DEFINE_enum(
        "learning_rate_schedule",
        TUNING_DEFAULTS["learning_rate_schedule"],
        SCHEDULES,
        "Learning rate after the warm-up. linear: it falls to 0 in a line, at first with the jump of the original "
        "BERT; smooth_linear: without the jump; cosine: along a cosine; constant: it stays.",
        **define,
    )
    for name, default, parser, meaning in _NUMBERS:
        flags.DEFINE(parser, name, default, meaning, **define)
    flags.DEFINE_integer(
        "keep_checkpoint_max",
        TUNING_DEFAULTS["keep_checkpoint_max"],
        "Number of newest checkpoints to keep. 0: all.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_bool(
        "deterministic",
        False,
        "Use only operations that give the same bits every time, even if they are slower.",
        **define,
    )
    define_group(flag_values, "Devices", Devices)


def take_run_config(flag_values, path, program):
    """Sets flags that are not on the command line to the values of a run_config.json, except those of devices.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: another program wrote the file, or it has a setting that this program does not know or accept.
    """
    config = read_run_config(path)
    if config["program"] != program:
        raise Mistake("{run_config}={} is from {}; give one from {}", path, config["program"], program)
    for name, value in config["settings"].items():
        if name not in flag_values:
            raise Mistake("{run_config}={} has an unknown setting {!r}; take it out", path, name)
        flag = flag_values[name]
        if flag.present or name in DEVICE_SETTINGS or (value is None and flag.default is None):
            continue
        try:
            setattr(flag_values, name, flag.parser.parse(value))
        except (TypeError, ValueError) as error:
            raise Mistake("{run_config}={} has {!r} for {!r}: {}", path, value, name, error) from error


def take_settings_of_run(flag_values, program):
    """Without training, sets flags that are not on the command line to those of the run in the output folder.

    Raises:
        ValueError: the folder holds a run of another program, or see `take_run_config`.
    """
    path = flag_values.output_dir and join(flag_values.output_dir, RUN_CONFIG)
    if not path or flag_values.do_train or flag_values.run_config or not is_file(path):
        return
    RunDir(flag_values.output_dir, program)  # refuses the folder of another program
    given = {name: flag_values[name].value for name in flag_values if name.startswith("do_")}
    take_run_config(flag_values, path, program)
    # The actions of the earlier command are not those of this one.
    for name in ("do_train", "do_eval", "do_predict"):
        if name in given:
            setattr(flag_values, name, given[name])
    log.info("settings that were not given are taken from the run in %s", flag_values.output_dir)


def check_given_checkpoint(flag_values, program):
    """Refuses an --init_checkpoint that a command without training would not use, because the folder holds a run.

    Raises:
        FileNotFoundError: the checkpoint does not exist.
        ValueError: it is not the model of the run in --output_dir.
    """
    if flag_values.do_train or not flag_values["init_checkpoint"].present or not flag_values.output_dir:
        return
    given = flag_values.init_checkpoint
    run_dir = RunDir(flag_values.output_dir, program)
    used = run_dir.in_use()
    if used is None:
        return
    is_own = False
    if not given.startswith("hf://"):
        prefix = ModelFolder(given).need_checkpoint().prefix
        # The run's checkpoint of the same step has the weights of its model.
        name = f"model.ckpt-{used.latest_step()}"
        is_own = real(prefix) in {real(folder.file(name)) for folder in (run_dir, run_dir.within(MODEL_DIR))}
    if not is_own:
        raise Mistake(
            "{output_dir}={} holds a run with a model of its own, so {init_checkpoint}={} would not be used; "
            "give another {output_dir} to use that checkpoint, or leave it out to use the run's",
            flag_values.output_dir,
            given,
        )


def settings_of(flag_values, paths, path_lists=()):
    """Returns the settings that the flags define: a dict of values by flag name, without `run_config`.

    `num_tpu_cores` is None if it was not given, and `precision` is never "auto".

    Args:
        flag_values: the `absl.flags.FlagValues` of the program, parsed.
        paths: names of flags that hold a path; `bert_config_file` may hold the name of a released model instead.
        path_lists: names of flags that hold comma-separated paths and globs.
    """
    settings = {name: flag_values[name].value for name in sorted(flag_values) if name != "run_config"}
    if flag_values["num_tpu_cores"].using_default_value:
        settings["num_tpu_cores"] = None
    for name in paths:
        if settings[name] and not (name == "bert_config_file" and settings[name] in released_names()):
            settings[name] = _absolute(settings[name])
    for name in path_lists:
        if settings[name]:
            settings[name] = ",".join(path.strip() and _absolute(path.strip()) for path in settings[name].split(","))
    check_computing(settings)
    check_paths(settings)
    take_precision(settings)
    return settings


def _absolute(path):
    return path if is_remote(path) else os.path.abspath(path)
