"""`train_ner`, the flags of run_ner.py and what it does with them."""

import os
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_keras.cli.flags import tell_unused
from bert_keras.data_prep.corpus.sentences import is_json_lines
from bert_keras.mistakes import Mistake
from bert_keras.modeling import TAGGERS
from bert_keras.training.api.calls import Program, TrainedModel
from bert_keras.training.api.data import json_lines, rows_of
from bert_keras.training.distillation.recipe import define_teacher_flags
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.ner import TokenClassification, find_files
from bert_keras.training.finetuning.run import FineTuning
from bert_keras.training.finetuning.settings import (
    define_evaluation_flags,
    define_fine_tuning_flags,
    open_fine_tuning,
)
from bert_keras.training.report import NO_CALLBACKS, Callbacks
from bert_keras.training.run_settings import check_effects

_FILES = {"train_file": "do_train", "eval_file": "do_eval", "predict_file": "do_predict"}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string("data_dir", None, "Folder with train.txt, dev.txt and test.txt.", **define)
    flags.DEFINE_string(
        "train_file", None, "Sentences to train on: columns as in CoNLL, or JSON lines (.jsonl, .json).", **define
    )
    flags.DEFINE_string("eval_file", None, "Sentences to evaluate on.", **define)
    flags.DEFINE_string("predict_file", None, "Sentences to tag; they need no tags.", **define)
    define_fine_tuning_flags(values)
    define_evaluation_flags(values)
    flags.DEFINE_integer(
        "word_column",
        None,
        "Column of the words, from 0, or from the end as -2. If not given: the first that does not number the words.",
        **define,
    )
    flags.DEFINE_integer(
        "tag_column", None, "Column of the tags, from 0, or from the end as -2. If not given: the last.", **define
    )
    flags.DEFINE_bool(
        "document_context", False, "Show the model each sentence with its neighbours in the document.", **define
    )
    flags.DEFINE_enum(
        "tagger",
        "linear",
        list(TAGGERS),
        "Head of the model: linear, trained with the encoder; bilstm, LSTMs on an encoder that does not change; "
        "bilstm_tuned, LSTMs that are trained with the encoder.",
        **define,
    )
    define_teacher_flags(values)
    return values


def open_run(flag_values, console, callbacks=NO_CALLBACKS):
    """Reads the data and opens the model of run_ner.py; returns a `FineTuning` to execute."""
    tell_unused(flag_values, _FILES)
    opened = open_fine_tuning(
        flag_values,
        "run_ner",
        ("data_dir", "teacher", *_FILES),
        tasks=("token_classification",),
        settled=("tagger", "document_context", "max_seq_length"),
        fixed=("tagger",),
    )
    if opened.teacher:
        if not opened.settings["tagger"] == opened.teacher.settings["tagger"] == "linear":
            raise Mistake("{teacher} needs {tagger}=linear, for the student and for the teacher")
        opened.teacher.check_same("document_context", opened.settings)
    files = find_files(opened.settings).values()
    without_columns = ", ".join(files) if all(map(is_json_lines, files)) else ""
    check_effects(opened.settings, opened.defaults, opened.given, {"without_columns": without_columns})
    strategy = strategy_of(opened.settings)
    task = TokenClassification(opened.settings, opened.files, opened.stored)
    return FineTuning(task, opened, strategy, console, callbacks)


def train_ner(
    train_data: Any = None,
    eval_data: Any = None,
    predict_data: Any = None,
    *,
    output_dir: str | os.PathLike[str],
    init_checkpoint: str | os.PathLike[str] | None = None,
    on_step: Callable[[int, dict[str, float]], Any] | None = None,
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None,
    on_save: Callable[[int, str], Any] | None = None,
    verbose: bool = True,
    **settings: Any,
) -> TrainedModel:
    """Fine-tunes a model that tags words, as run_ner.py does. It works as `train_classifier`.

    Args:
        train_data: the path of a file, or sentences in memory. A sentence is a dict with
            "words", "tags" and optionally "document", or a tuple (words, tags); to predict, a list of words. Sentences
            may be in a list, a generator, a table, or a finite `tf.data.Dataset`. Columns may be a dict or a tuple of
            lists, such as (all_words, all_tags).
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to predict, in one of these forms.
        settings: the other flags of run_ner.py, by name.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "predict_file": predict_data}
    settings |= {"output_dir": output_dir, "init_checkpoint": init_checkpoint}
    return _PROGRAM.call(data, settings, Callbacks(on_step, on_evaluation, on_save), verbose)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns sentences as the content of a JSON lines file."""
    return json_lines(rows_of(data, name, {1: ("words",), 2: ("words", "tags")}, rank=1))


_PROGRAM = Program("run_ner", "train_ner", define_flags, open_run, to_file)
