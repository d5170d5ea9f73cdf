"""The flags of all fine-tuning programs, and how flags become settings and an open model.

Flags of the original BERT keep their names.
"""

import collections.abc
import dataclasses
import logging
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags, require
from bert_keras.mistakes import Mistake, Setting
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling.lora import DEFAULT_TARGETS, TARGETS, check_lora
from bert_keras.settings.fields import define_group
from bert_keras.settings.model_files import ModelSettings
from bert_keras.training.distillation.teacher import Teacher, open_teacher
from bert_keras.training.run_dir import RunDir
from bert_keras.training.run_settings import check_effects
from bert_keras.training.settings import (
    NumberParser,
    NumbersParser,
    check_given_checkpoint,
    define_run_flags,
    settings_of,
    take_run_config,
    take_settings_of_run,
)

log = logging.getLogger("bert_keras")

_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")


def define_fine_tuning_flags(flag_values, max_seq_length=128):
    """Defines the flags for the model, for training and for the run."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Model to start from: its folder, a checkpoint, or hf://owner/name. Without it, training starts from random "
        "weights and needs --bert_config_file and --vocab_file. Without --do_train: the fine-tuned model, if "
        "--output_dir has none.",
        module_name="Files of the model",
        **define,
    )
    define_group(flag_values, "Files of the model", ModelSettings)
    flags.DEFINE_integer(
        "max_seq_length",
        max_seq_length,
        "Maximum number of tokens in a sequence, with [CLS] and [SEP].",
        lower_bound=4,
        **define,
    )
    flags.DEFINE_bool("do_predict", False, "Write predictions for --predict_file, or the test data.", **define)
    numbers: dict[str, Any] = {"flag_values": flag_values, "lower_bound": 0, "is_open": True}
    _define_numbers("train_batch_size", "32", int, "Number of examples in one update", flag_values, 1)
    flags.DEFINE_integer(
        "predict_batch_size", 8, "Number of sequences in a batch of prediction.", lower_bound=1, **define
    )
    _define_numbers("learning_rate", "5e-5", float, "Highest learning rate", **numbers)
    _define_numbers("num_train_epochs", "3.0", float, "Number of training epochs", **numbers)
    flags.DEFINE_float(
        "warmup_proportion", 0.1, "Share of the steps in which the learning rate rises.", 0.0, 1.0, **define
    )
    define_run_flags(flag_values)
    _define_tuning_flags(flag_values)


def _define_tuning_flags(flag_values):
    """Defines the flags that the original BERT does not have."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_integer(
        "num_seeds", 1, "Number of runs, with seeds from --seed on. The best run is kept.", lower_bound=1, **define
    )
    flags.DEFINE_integer(
        "max_steps",
        0,
        "Number of training steps, instead of --num_train_epochs. 0: as many as the epochs have.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_integer(
        "eval_steps",
        0,
        "Number of steps between evaluations during training; the best weights are kept. 0: one evaluation at the end.",
        0,
        **define,
    )
    flags.DEFINE_integer(
        "early_stopping",
        0,
        "Patience: stop training after this number of evaluations without a better score. 0: never.",
        0,
        **define,
    )
    flags.DEFINE(
        NumberParser(0, 1),
        "label_smoothing",
        0.0,
        "Share of each training label that is spread evenly over all labels, such as 0.1. Evaluation does not smooth.",
        **define,
    )
    flags.DEFINE_integer(
        "freeze_layers",
        None,
        "Do not train the embeddings and this number of first layers. 0: only the embeddings.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_float(
        "layer_decay", 1.0, "Factor of the learning rate from a layer to the one below it.", 0.0, 1.0, **define
    )
    _define_lora_flags(flag_values)
    flags.DEFINE_bool(
        "new_head", False, "Start the head from random weights, even if the checkpoint has one.", **define
    )


def _define_lora_flags(flag_values):
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_integer(
        "lora_rank",
        0,
        "Rank of LoRA, such as 8: train two small matrices for each kernel of --lora_targets, the pooler and the head, "
        "and nothing else. It needs less memory and a higher learning rate. 0: train all weights.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_float(
        "lora_alpha",
        None,
        "Strength of LoRA: its product has the factor alpha / rank. If not given: the rank.",
        0,
        **define,
    )
    flags.DEFINE_string(
        "lora_targets",
        ",".join(DEFAULT_TARGETS),
        f"Kernels of each layer that LoRA adapts, separated by commas: {', '.join(TARGETS)}.",
        **define,
    )


def define_evaluation_flags(flag_values):
    """Defines the flags of programs that evaluate on separate data and can pack rows."""
    define: dict[str, Any] = {"flag_values": flag_values}
    flags.DEFINE_bool("do_eval", False, "Evaluate, after training if there is any.", **define)
    flags.DEFINE_integer("eval_batch_size", 8, "Number of sequences in a batch of evaluation.", lower_bound=1, **define)
    flags.DEFINE_bool(
        "pack", False, "Train on rows that hold several examples each: less padding, more examples a second.", **define
    )


def _define_numbers(name, default, kind, meaning, flag_values, lower_bound, is_open=False):
    help_text = f"{meaning}. With several values, separated by commas, the program tries each and keeps the best."
    flags.DEFINE(
        NumbersParser(kind, lower_bound, is_open), name, default, help_text, flag_values, flags.CsvListSerializer(",")
    )


@dataclasses.dataclass(frozen=True)
class Opened:
    """The settings and the model of a fine-tuning program.

    Attributes:
        settings: dict of flag values by name.
        defaults: dict of the flags' default values by name.
        files: the model to train, evaluate or predict with.
        stored: the task.json of the teacher, or of the model that a run without training uses; None without either.
        given: names of the flags on the command line; others may come from an earlier run.
        teacher: the model of --teacher if the run trains.
    """

    settings: dict
    defaults: dict
    files: ModelFolder
    stored: dict | None
    given: collections.abc.Set[str] = frozenset()
    teacher: Teacher | None = None


def open_fine_tuning(flag_values, program, paths, tasks, settled, fixed=()):
    """Turns flags into settings, checks those that all programs share, and opens the model files.

    Args:
        flag_values: the `absl.flags.FlagValues` of the program, parsed.
        program: the name of the program.
        paths: names of the program's own flags that hold a path.
        tasks: names of the program's tasks in task.json.
        settled: names of flags that default to the value in the task.json of a trained model.
        fixed: flags among `settled` that must not differ from that value.
    """
    if flag_values.run_config:
        take_run_config(flag_values, flag_values.run_config, program)
    check_given_checkpoint(flag_values, program)
    take_settings_of_run(flag_values, program)
    actions = [Setting(name) for name in ("do_train", "do_eval", "do_predict") if name in flag_values]
    if not any(flag_values[name].value for name in actions):
        raise Mistake("nothing to do: give one or more of {}", actions)
    require(flag_values, ("output_dir",))
    settings = settings_of(flag_values, (*_PATHS, *paths))
    defaults, given = {name: flag_values[name].default for name in flag_values}, given_flags(flag_values)
    check_effects(settings, defaults, given, {"program": program})
    _check_choices(settings)
    run_dir = RunDir(settings["output_dir"], program)
    files = _trained_model(settings, run_dir)
    stored = files and files.task
    if files and stored:
        if stored["task"] not in tasks:
            raise ValueError(f"the model in {files.folder} was trained for {stored['task']}; give one from {program}")
        settings |= _settled(flag_values, stored, settled, fixed)
    else:
        files = _start(settings)
    files.check()
    length, longest = settings["max_seq_length"], files.config.max_position_embeddings
    if length > longest:
        raise Mistake(
            "{max_seq_length}={0} is more than the {1} positions that the model has; give {1} or less", length, longest
        )
    num_frozen, num_layers = settings["freeze_layers"], files.config.num_layers_of_weights
    if num_frozen is not None and num_frozen > num_layers:
        raise Mistake("{freeze_layers}={0}, but the model has {1} layers; give {1} or less", num_frozen, num_layers)
    _check_lora(settings, files.config.hidden_size)
    if not (settings["do_train"] and settings.get("teacher")):
        return Opened(settings, defaults, files, stored, given)
    teacher = open_teacher(settings, tasks, files, program)
    return Opened(settings, defaults, files, teacher.settings, given, teacher)


def _check_choices(settings):
    if not settings["do_train"]:
        return
    does_evaluate = settings.get("do_eval", True)
    num_tries = settings["num_seeds"]
    for name in ("learning_rate", "train_batch_size", "num_train_epochs"):
        num_tries *= len(settings[name])
    if num_tries > 1 and not does_evaluate:
        raise Mistake("several seeds or settings are compared by an evaluation; give {do_eval} as well")
    if settings["max_steps"] and len(settings["num_train_epochs"]) > 1:
        raise Mistake(
            "{max_steps}={} replaces the epochs, but {num_train_epochs} has several values; leave out one of the two",
            settings["max_steps"],
        )


def _check_lora(settings, hidden_size):
    rank, alpha, targets = (settings[f"lora_{name}"] for name in ("rank", "alpha", "targets"))
    targets = tuple(targets.split(","))
    if rank and settings["do_train"] and not settings["init_checkpoint"]:
        raise Mistake("{lora_rank} adapts a pre-trained model; give {init_checkpoint} as well")
    if rank:
        try:
            check_lora(rank, rank if alpha is None else alpha, targets, hidden_size)
        except ValueError as error:
            name, _, reason = str(error).partition(" ")
            raise Mistake("{} {}", Setting(f"lora_{name}"), reason) from None


def _trained_model(settings: dict, run_dir: RunDir) -> ModelFolder | None:
    """Returns the trained model to use, which has a task; None if the run trains or has none."""
    if settings["do_train"]:
        return None
    own = run_dir.path if run_dir.in_use() else None
    # A run that was interrupted before it wrote a model uses its own checkpoint, not --init_checkpoint.
    given = settings["init_checkpoint"] if not run_dir.latest_checkpoint() else None
    models = (ModelFolder(path, **_casing(settings)) for path in (own, given) if path)
    return next((model for model in models if model.task), None)


def _casing(settings):
    return {name: settings[name] for name in ("do_lower_case", "strip_accents")}


def _settled(flag_values, stored, settled, fixed):
    """Returns the values in task.json of flags that are not given; refuses other values of fixed flags."""
    for name in fixed:
        if flag_values[name].present and flag_values[name].value != stored[name]:
            raise Mistake(
                "{0}={1}, but the model has the {2} {3}; leave it out",
                Setting(name),
                flag_values[name].value,
                name,
                stored[name],
            )
    return {name: stored[name] for name in settled if not flag_values[name].present}


def _start(settings):
    """Returns the model to start from: for a run folder the best one, which is complete."""
    path = settings["init_checkpoint"]
    if path is None:
        if not settings["do_train"]:
            raise Mistake(
                "{output_dir}={} does not contain a model; train one with {do_train}, or give {init_checkpoint}",
                settings["output_dir"],
            )
        missing = [Setting(name) for name in ("bert_config_file", "vocab_file") if not settings[name]]
        if missing:
            raise Mistake(
                "missing: {init_checkpoint}, the model to start from (or, to start from random numbers, {})", missing
            )
    return ModelFolder(path, settings["vocab_file"], settings["bert_config_file"], **_casing(settings))
