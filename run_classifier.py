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


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_string("task_name", None, "A known task, such as mrpc, xnli, swag; with --data_dir.", **define)
    flags.DEFINE_string("data_dir", None, "Folder with the files of the task, as distributed.", **define)
    define_fine_tuning_flags(values)
    define_evaluation_flags(values)

    flags.DEFINE_string("train_file", None, "Your own data to train on: .csv, .tsv, .txt (tabs) or .jsonl.", **define)
    flags.DEFINE_string("eval_file", None, "Your own data to evaluate on.", **define)
    flags.DEFINE_string("predict_file", None, "Your own data to predict.", **define)
    flags.DEFINE_float("eval_share", 0.0, "Share of --train_file to evaluate on, not trained on.", 0.0, 1.0, **define)
    flags.DEFINE_string("tfds", None, "A data set of TensorFlow Datasets, such as glue/mrpc.", **define)
    flags.DEFINE_string("tfds_eval_split", "validation", "Its split to evaluate on.", **define)
    flags.DEFINE_string("tfds_predict_split", "test", "Its split to predict.", **define)
    flags.DEFINE_enum("kind", "single_label", KINDS, "Type of the labels in your data.", **define)
    flags.DEFINE_string("text_column", None, "Column of the text; not given: found by its name.", **define)
    flags.DEFINE_string("text_pair_column", None, "Column of the second text.", **define)
    flags.DEFINE_string("label_column", None, "Column of the label; not given: found by its name.", **define)
    flags.DEFINE_string("id_column", None, "Column of the id, for the tables of predictions.", **define)
    flags.DEFINE_enum(
        "has_header",
        "auto",
        HEADERS,
        "Whether the first row of a table names its columns; auto: guessed.",
        **define,
    )
    flags.DEFINE_string("label_separator", None, "Separator of several labels in a cell.", **define)
    flags.DEFINE_list("choice_columns", [], "Columns of the choices, for --kind=multiple_choice.", **define)
    flags.DEFINE_bool("skip_bad_rows", False, "Leave out rows that cannot be read, and count them.", **define)
    flags.DEFINE_string("xnli_language", "zh", "Language of XNLI.", **define)
    flags.DEFINE_string("metric", None, "Metric that selects the model; not given: the task's first.", **define)
    flags.DEFINE_string("class_weights", None, "balanced, or a weight for each label in order.", **define)
    flags.DEFINE_integer(
        "doc_stride", None, "Split long texts into windows, this many tokens apart; not given: cut.", 1, **define
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
