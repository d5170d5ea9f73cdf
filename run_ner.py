#!/usr/bin/env python3
"""Trains a model that tags words, for example named entities (paper, section 5.3), evaluates it and predicts.

    python run_ner.py --do_train --do_eval --do_predict --data_dir=conll2003 \\
        --init_checkpoint=cased_L-12_H-768_A-12 --output_dir=ner_model

Files are CoNLL columns, with one word and its tag on each line, or JSON lines of words and tags. To resume an
interrupted run, run the same command again. Without --do_train, the program uses the model in --output_dir.
"""

import sys

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, run_main, tell_unused
from bert_keras.data_prep.corpus.sentences import is_json_lines
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.ner import TAGGERS, TokenClassification, find_files
from bert_keras.training.finetuning.run import finetune
from bert_keras.training.finetuning.settings import (
    define_evaluation_flags,
    define_fine_tuning_flags,
    open_fine_tuning,
)

PROGRAM = "run_ner"

_FILES = {"train_file": "do_train", "eval_file": "do_eval", "predict_file": "do_predict"}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
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
        TAGGERS,
        "Head of the model: linear, trained with the encoder, or bilstm, LSTMs on an encoder that does not change.",
        **define,
    )
    return values


def main(argv):
    """Runs the program, and returns the metrics of the last evaluation or None."""
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    console = open_console()
    tell_unused(flag_values, _FILES)
    opened = open_fine_tuning(
        flag_values,
        PROGRAM,
        ("data_dir", *_FILES),
        tasks=("token_classification",),
        settled=("tagger", "document_context", "max_seq_length"),
        fixed=("tagger",),
    )
    _check_columns(find_files(opened.settings).values(), given_flags(flag_values))
    strategy = strategy_of(opened.settings)
    task = TokenClassification(opened.settings, opened.files, opened.stored)
    return finetune(task, opened.files, opened.settings, strategy, console)


def _check_columns(paths, given):
    """Refuses column flags if no file has columns."""
    for name in ("word_column", "tag_column"):
        if name in given and all(map(is_json_lines, paths)):
            raise ValueError(f"--{name} is for files of columns, but {', '.join(paths)} are JSON lines")


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
