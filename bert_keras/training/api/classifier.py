"""`train_classifier`, the flags of run_classifier.py and what it does with them."""

import dataclasses
import os
from collections.abc import Callable
from typing import Any

from absl import flags

from bert_keras.cli.flags import given_flags
from bert_keras.data_prep.tasks.columns import HEADERS
from bert_keras.data_prep.tasks.examples import KINDS
from bert_keras.training.api.calls import Program, TrainedModel
from bert_keras.training.api.data import json_lines, rows_of
from bert_keras.training.distillation.recipe import define_teacher_flags
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.classification_settings import TASK_NAMES, complete_settings
from bert_keras.training.finetuning.run import FineTuning
from bert_keras.training.finetuning.settings import (
    define_evaluation_flags,
    define_fine_tuning_flags,
    open_fine_tuning,
)
from bert_keras.training.report import NO_CALLBACKS, Callbacks

_PATHS = ("data_dir", "train_file", "eval_file", "predict_file", "teacher", "unlabeled_file")
_COLUMNS = {
    "text_column": "Column of the text: its name, or its number from 0; Subject,Body joins two. If not given: found by "
    "its name.",
    "text_pair_column": "Column of the second text of a pair. If not given: found by its name.",
    "label_column": "Column of the label. If not given: found by its name.",
    "id_column": "Column of the id, for the prediction tables. If not given: the row number from 0.",
}
_METRIC = (
    "Metric that selects the best model: accuracy, f1 (of the second of two labels), f1_macro or matthews; for "
    "numbers spearman or pearson; for several labels f1_micro, f1_macro or accuracy. If not given: the first metric of "
    "the task; for your own data accuracy, spearman or f1_micro."
)


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define: dict[str, Any] = {"flag_values": values}
    flags.DEFINE_string("task_name", None, "A known task, such as mrpc, xnli or swag; needs --data_dir.", **define)
    flags.DEFINE_string(
        "data_dir", None, "Folder with the files of --task_name, as distributed; for --tfds, its data folder.", **define
    )
    define_fine_tuning_flags(values)
    define_evaluation_flags(values)

    flags.DEFINE_string("train_file", None, "Your own data to train on: .csv, .tsv, .txt (tabs) or .jsonl.", **define)
    flags.DEFINE_string("eval_file", None, "Your own data to evaluate on.", **define)
    flags.DEFINE_string("predict_file", None, "Your own data to predict; it needs no labels.", **define)
    flags.DEFINE_float(
        "eval_share", 0.0, "Share of --train_file to hold out for evaluation, such as 0.2.", 0.0, 1.0, **define
    )
    flags.DEFINE_string("tfds", None, "A dataset of TensorFlow Datasets, such as glue/mrpc.", **define)
    flags.DEFINE_string("tfds_eval_split", "validation", "Split of --tfds to evaluate on.", **define)
    flags.DEFINE_string("tfds_predict_split", "test", "Split of --tfds to predict.", **define)
    flags.DEFINE_enum("kind", "single_label", KINDS, "Kind of labels in your own data.", **define)
    for name, meaning in _COLUMNS.items():
        flags.DEFINE_string(name, None, meaning, **define)
    flags.DEFINE_enum(
        "has_header",
        "auto",
        HEADERS,
        "Whether the first row of a .csv or .tsv file names the columns. auto: decided from its content.",
        **define,
    )
    flags.DEFINE_string("label_separator", None, "Text between the labels in a cell, for --kind=multi_label.", **define)
    flags.DEFINE_list(
        "choice_columns", [], "Columns of the choices, separated by commas, for --kind=multiple_choice.", **define
    )
    flags.DEFINE_bool("skip_bad_rows", False, "Leave out rows that cannot be read, and count them.", **define)
    flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.", **define)
    flags.DEFINE_string("metric", None, _METRIC, **define)
    flags.DEFINE_string(
        "class_weights", None, "Weights of the classes in training: balanced, or a number for each label.", **define
    )
    flags.DEFINE_integer(
        "doc_stride",
        None,
        "Split a long text into windows; the number of tokens from one start to the next. If not given: cut it.",
        lower_bound=1,
        **define,
    )
    define_teacher_flags(values)
    flags.DEFINE_string(
        "unlabeled_file", None, "Texts without labels, which only --teacher labels; as --train_file.", **define
    )
    return values


def open_run(flag_values, console, callbacks=NO_CALLBACKS):
    """Reads the data and opens the model of run_classifier.py; returns a `FineTuning` to execute."""
    opened = open_fine_tuning(
        flag_values, "run_classifier", _PATHS, TASK_NAMES.values(), ("max_seq_length", "doc_stride")
    )
    settings = complete_settings(opened.settings, given_flags(flag_values), opened.defaults, opened.stored)
    opened = dataclasses.replace(opened, settings=settings)
    strategy = strategy_of(settings)
    task = Classification(settings, opened.files, opened.stored)
    return FineTuning(task, opened, strategy, console, callbacks)


def train_classifier(
    train_data: Any = None,
    eval_data: Any = None,
    predict_data: Any = None,
    *,
    unlabeled_data: Any = None,
    output_dir: str | os.PathLike[str],
    init_checkpoint: str | os.PathLike[str] | None = None,
    on_step: Callable[[int, dict[str, float]], Any] | None = None,
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None,
    on_save: Callable[[int, str], Any] | None = None,
    verbose: bool = True,
    **settings: Any,
) -> TrainedModel:
    """Fine-tunes a model for classes, numbers, several labels or multiple choice, as run_classifier.py does.

    With `train_data` or `unlabeled_data` it trains, with `eval_data` (or `eval_share`) it evaluates, and with
    `predict_data` it predicts. Without data to train on, it uses the model in `output_dir`. The same call continues a
    run that was interrupted.

    Args:
        train_data: the path of a file, or rows in memory. A row is a dict by column, or a
            tuple (text, label) or (text_a, text_b, label); to predict, a text or (text_a, text_b). Rows may be in a
            list, a generator, a table of pandas, polars or pyarrow, or a finite `tf.data.Dataset`. Columns may be a
            dict or a tuple of lists, such as (texts, labels). The call writes rows in memory to `output_dir/data`.
        eval_data: data to evaluate on, in one of these forms.
        predict_data: data to predict, in one of these forms.
        unlabeled_data: texts that only the `teacher` labels, in the forms of `predict_data`; then `train_data` may be
            missing.
        output_dir: the run folder.
        init_checkpoint: the model to start from: a folder, a checkpoint, or hf://owner/name.
        on_step: takes the step and the averages of `log_steps` steps.
        on_evaluation: takes the step and the metrics of an evaluation in training. Training ends if it returns True.
        on_save: takes the step and the path of a checkpoint.
        verbose: whether to print the log.
        settings: the other flags of run_classifier.py, by name, with the same defaults; a list for several values.

    Raises:
        TypeError: a setting does not exist, or data have an unusable type.
        ValueError, OSError: as the program reports them.
    """
    data = {"train_file": train_data, "eval_file": eval_data, "predict_file": predict_data}
    data["unlabeled_file"] = unlabeled_data
    settings |= {"output_dir": output_dir, "init_checkpoint": init_checkpoint}
    return _PROGRAM.call(data, settings, Callbacks(on_step, on_evaluation, on_save), verbose)


def to_file(data: Any, name: str) -> tuple[bytes, str]:
    """Returns rows as the content of a JSON lines file."""
    columns = {2: ("text", "label"), 3: ("text_a", "text_b", "label")}
    return json_lines(rows_of(data, name, _WITHOUT_LABEL if name in {"predict_data", "unlabeled_data"} else columns))


_WITHOUT_LABEL = {1: ("text",), 2: ("text_a", "text_b")}
_PROGRAM = Program("run_classifier", "train_classifier", define_flags, open_run, to_file)
