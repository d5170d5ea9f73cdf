"""Turns the flags of a program into the settings of a run."""

import dataclasses
import logging
import os
from collections.abc import Collection, Iterable, Sequence
from typing import Any, TypeVar

from absl import flags

from bert_keras.cli.flags import is_path
from bert_keras.mistakes import Mistake
from bert_keras.runs.run_dir import MODEL_DIR, RUN_CONFIG, RunDir, read_run_config
from bert_keras.settings.devices import Devices
from bert_keras.settings.fields import read_flags, setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.storage.paths import is_file, is_remote, join, real

log = logging.getLogger("bert_keras")

S = TypeVar("S", bound=RunSettings)
_DEVICES = {field.name for field in setting_fields(Devices)}


def take_run_config(flag_values: flags.FlagValues, path: str | None, program: str) -> None:
    """Sets flags that are not on the command line to the values of a run_config.json, except those of devices.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: another program wrote the file, or it has a setting that this program does not know or accept.
    """
    if not path:
        return
    config = read_run_config(path)
    if config["program"] != program:
        raise Mistake("{run_config}={} is from {}; give one from {}", path, config["program"], program)
    for name, value in config["settings"].items():
        if name not in flag_values:
            raise Mistake("{run_config}={} has an unknown setting {!r}; take it out", path, name)
        flag: Any = flag_values[name]
        if flag.present or name in _DEVICES or (value is None and flag.default is None):
            continue
        try:
            setattr(flag_values, name, flag.parser.parse(value))
        except (TypeError, ValueError) as error:
            raise Mistake("{run_config}={} has {!r} for {!r}: {}", path, value, name, error) from error


def take_settings_of_run(flag_values: flags.FlagValues, program: str) -> None:
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


def check_given_checkpoint(flag_values: flags.FlagValues, program: str) -> None:
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
        from bert_keras.model_folder.folder import ModelFolder  # --help does not need it

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


def settings_of(program: type[S], flag_values: flags.FlagValues, path_lists: Sequence[str] = ()) -> S:
    """Returns the settings that the flags define, with absolute paths; `precision` is never "auto".

    `num_tpu_cores` is None if it was not given.

    Args:
        program: the dataclass of the program's settings.
        flag_values: the flags of the program, parsed.
        path_lists: names of flags that hold comma-separated paths and globs.
    """
    # These load TensorFlow, which the other functions do not need.
    from bert_keras.engine.distribution.tpu import check_computing, check_paths
    from bert_keras.engine.precision import take_precision
    from bert_keras.modeling.config import released_names

    settings = read_flags(program, flag_values)
    if flag_values["num_tpu_cores"].using_default_value:
        settings = dataclasses.replace(settings, num_tpu_cores=None)
    names = {field.name for field in setting_fields(settings) if is_path(field.name)}
    if flag_values.bert_config_file in released_names():
        names.remove("bert_config_file")
    settings = with_absolute_paths(settings, names, path_lists)
    check_computing(settings)
    check_paths(settings)
    return take_precision(settings)


def with_absolute_paths(settings: S, names: Iterable[str], path_lists: Collection[str] = ()) -> S:
    """Returns settings in which those of `names` that are paths are absolute; see `settings_of` for `path_lists`."""
    changes = {}
    for name in names:
        path = getattr(settings, name, None)
        if path and isinstance(path, str):
            parts = [part.strip() for part in path.split(",")] if name in path_lists else [path]
            changes[name] = ",".join(part and _absolute(part) for part in parts)
    return dataclasses.replace(settings, **changes)


def _absolute(path: str) -> str:
    return path if is_remote(path) else os.path.abspath(path)
