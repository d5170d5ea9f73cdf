"""The flags of run_distillation.py and what it does with them."""

import dataclasses
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags, require
from bert_keras.training.api import classifier
from bert_keras.training.distillation.classification import Distillation
from bert_keras.training.distillation.recipe import define_loss_flags
from bert_keras.training.distillation.teacher import open_teacher
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.classification_settings import TASK_NAMES, complete_settings
from bert_keras.training.finetuning.run import finetune
from bert_keras.training.finetuning.settings import NumbersParser, open_fine_tuning
from bert_keras.training.report import NO_CALLBACKS

_WEIGHTS = {"label_loss_weight": 0.5, "soft_loss_weight": 0.5, "hidden_loss_weight": 0.0, "attention_loss_weight": 0.0}


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
    define_loss_flags(values, _WEIGHTS)
    flags.DEFINE(
        NumbersParser(int, 0, may_repeat=True),
        "teacher_layers",
        None,
        "For each layer of the student, the layer of the teacher that it imitates, such as 3,6; 0: none. If not given: "
        "evenly spaced layers with the last one.",
        flag_values=values,
        serializer=flags.CsvListSerializer(","),
    )
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
