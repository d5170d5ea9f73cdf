#!/usr/bin/env python3
"""Fine-tunes BERT for classification, regression, multi-label or multiple-choice tasks, evaluates and predicts.

    python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=mrpc \\
        --task_name=mrpc --data_dir=glue/MRPC
    python run_classifier.py --do_train --do_eval --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=reviews \\
        --train_file=reviews.csv --eval_share=0.2

The data are a GLUE task, XNLI or SWAG by name, your own files (CSV, TSV, JSON lines), or a dataset of TensorFlow
Datasets. Without any flag, the program runs a demo: it trains a tiny BERT on sample messages in a minute. To resume
an interrupted run, run the same command again. The flags of the original BERT keep their names, defaults and meaning.
"""

import sys

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, run_main
from bert_keras.data_prep.tasks.columns import HEADERS
from bert_keras.data_prep.tasks.examples import KINDS
from bert_keras.training.demo import run_demo
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.classification import Classification
from bert_keras.training.finetuning.classification_settings import TASK_NAMES, complete_settings
from bert_keras.training.finetuning.run import finetune
from bert_keras.training.finetuning.settings import (
    define_evaluation_flags,
    define_fine_tuning_flags,
    open_fine_tuning,
)

PROGRAM = "run_classifier"

_PATHS = ("data_dir", "train_file", "eval_file", "predict_file")
_COLUMNS = {
    "text_column": "Column of the text: its name, or its number from 0. If not given: found by its name.",
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
    define = {"flag_values": values}
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
    return values


def main(argv):
    """Runs the program, and returns the metrics of the last evaluation or None."""
    if len(argv) == 1:
        return run_demo(argv[0], main)
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    console = open_console()
    opened = open_fine_tuning(flag_values, PROGRAM, _PATHS, TASK_NAMES.values(), ("max_seq_length", "doc_stride"))
    defaults = {name: flag_values[name].default for name in flag_values}
    settings = complete_settings(opened.settings, given_flags(flag_values), defaults, opened.stored)
    strategy = strategy_of(settings)
    task = Classification(settings, opened.files, opened.stored)
    return finetune(task, opened.files, settings, strategy, console)


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
