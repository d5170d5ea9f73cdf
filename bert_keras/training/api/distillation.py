"""`distill_classifier`, the flags of run_distillation.py and what it does with them."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags, require
from bert_keras.training.api import classifier
from bert_keras.training.api.calls import Program, TrainedModel, read_table
from bert_keras.training.distillation.classification import Distillation
from bert_keras.training.distillation.recipe import define_teaching_flags
from bert_keras.training.distillation.teacher import open_teacher
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.classification_settings import TASK_NAMES, complete_settings
from bert_keras.training.finetuning.run import finetune
from bert_keras.training.finetuning.settings import open_fine_tuning
from bert_keras.training.report import NO_CALLBACKS, Callbacks


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = classifier.define_flags()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string(
        "teacher",
        None,
        "Model that teaches; required to train. A run of run_classifier.py, an export of one, or a safetensors folder "
        "with a classifier; or hf://owner/name.",
        **define,
    )
    flags.DEFINE_string(
        "unlabeled_file", None, "Texts without labels, which only the teacher labels; as --train_file.", **define
    )
    define_teaching_flags(values)
    return values


def run(flag_values, console, callbacks=NO_CALLBACKS):
    """Runs run_distillation.py with parsed flags; returns the metrics of the last evaluation or None."""
    data = (*classifier.PATHS, "teacher", "unlabeled_file")
    opened = open_fine_tuning(
        flag_values, "run_distillation", data, TASK_NAMES.values(), ("max_seq_length", "doc_stride")
    )
    settings, teacher = opened.settings, None
    if settings["do_train"]:
        require(flag_values, ("teacher",))
        teacher = open_teacher(settings["teacher"], TASK_NAMES.values(), opened.files, settings["max_seq_length"])
    stored = teacher.settings if teacher else opened.stored
    settings = complete_settings(settings, given_flags(flag_values), opened.defaults, stored)
    opened = dataclasses.replace(opened, settings=settings)
    strategy = strategy_of(settings)
    return finetune(Distillation(settings, opened.files, opened.stored, teacher), opened, strategy, console, callbacks)


def distill_classifier(
    train_data: Any = None,
    eval_data: Any = None,
    predict_data: Any = None,
    *,
    teacher: str | os.PathLike[str] | None = None,
    unlabeled_data: Any = None,
    output_dir: str | os.PathLike[str],
    init_checkpoint: str | os.PathLike[str] | None = None,
    on_step: Callable[[int, dict[str, float]], Any] | None = None,
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None,
    on_save: Callable[[int, str], Any] | None = None,
    verbose: bool = True,
    **settings: Any,
) -> TrainedModel:
    """Trains a small model to answer like a fine-tuned one, as run_distillation.py does.

    It works as `train_classifier`, and needs a teacher to train.

    Args:
        train_data: texts with labels, as in `train_classifier`; may be missing if there is `unlabeled_data`.
        eval_data: data to evaluate on, in one of its forms.
        predict_data: data to predict, in one of its forms.
        teacher: a run folder of `train_classifier`, an export of one, a safetensors folder with a classifier, or
            hf://owner/name.
        unlabeled_data: texts that only the teacher labels, in one of the forms of `predict_data`.
        settings: the other flags of run_distillation.py, by name.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "predict_file": predict_data}
    data["unlabeled_file"] = unlabeled_data
    settings |= {"output_dir": output_dir, "init_checkpoint": init_checkpoint, "teacher": teacher}
    return _PROGRAM.call(data, settings, Callbacks(on_step, on_evaluation, on_save), verbose)


_PROGRAM = Program("run_distillation", "distill_classifier", define_flags, run, classifier.to_file, read_table)
