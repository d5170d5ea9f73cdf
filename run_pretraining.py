#!/usr/bin/env python3
"""Pre-trains BERT with masked LM and next sentence prediction on record files of examples.

    python data_prep/create_pretraining_data.py --input_file=text.txt --vocab_file=vocab.txt \\
        --output_file=train.tfrecord
    python run_pretraining.py --do_train --do_eval --bert_config_file=bert_config.json --input_file=train.tfrecord \\
        --eval_file=held_out.tfrecord --output_dir=model

Without any flag, the program runs a demo from text to model in about two minutes. To resume an interrupted run, run the
same command again. The flags of the original BERT keep their names, defaults and meaning.
"""

import sys

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import parse, require, run_main
from bert_keras.training.demo import run_demo
from bert_keras.training.pretraining import pretrain
from bert_keras.training.settings import define_run_flags, settings_of, take_run_config

PROGRAM = "run_pretraining"

_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_string("bert_config_file", None, "The architecture: a bert_config.json, or a released name.", **define)
    flags.DEFINE_string("input_file", None, "Records to train on: paths and globs, separated by commas.", **define)
    flags.DEFINE_string("init_checkpoint", None, "Checkpoint whose weights training starts from.", **define)
    flags.DEFINE_integer("max_seq_length", 128, "Length of the records' sequences.", lower_bound=1, **define)
    flags.DEFINE_integer("max_predictions_per_seq", 20, "Masked tokens of a record.", lower_bound=1, **define)
    flags.DEFINE_bool("do_eval", False, "Evaluate, after training if there is any.", **define)
    flags.DEFINE_integer("train_batch_size", 32, "Examples of an update, over all devices.", lower_bound=1, **define)
    flags.DEFINE_integer("eval_batch_size", 8, "Examples of an evaluation batch.", lower_bound=1, **define)
    flags.DEFINE_float("learning_rate", 5e-5, "The highest learning rate.", **define)
    flags.DEFINE_integer("num_train_steps", 100000, "Step at which training ends.", lower_bound=1, **define)
    flags.DEFINE_integer("num_warmup_steps", 10000, "Steps with a rising learning rate.", lower_bound=0, **define)
    flags.DEFINE_integer("max_eval_steps", 100, "Batches of an evaluation, at most.", lower_bound=1, **define)
    define_run_flags(values)

    flags.DEFINE_string("eval_file", None, "Records to evaluate on, none of them trained on.", **define)
    flags.DEFINE_integer("eval_steps", 0, "Steps between evaluations in training; 0: none.", lower_bound=0, **define)
    flags.DEFINE_string("vocab_file", None, "Vocabulary of the records; copied to output_dir.", **define)
    flags.DEFINE_bool("allow_partial_checkpoint", False, "Accept an init_checkpoint that lacks weights.", **define)
    flags.DEFINE_bool("pack", False, "Train on rows that hold several examples each.", **define)
    return values


def main(argv):
    """Runs the program, and returns the metrics of the last evaluation or None."""
    if len(argv) == 1:
        return run_demo(argv[0], main)
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    console = open_console()
    if flag_values.run_config:
        take_run_config(flag_values, flag_values.run_config, PROGRAM)
    require(flag_values, ("bert_config_file", "input_file", "output_dir"))
    settings = settings_of(flag_values, _PATHS, path_lists=("input_file", "eval_file"))
    defaults = {name: flag_values[name].default for name in flag_values}
    return pretrain(PROGRAM, settings, defaults, console)


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
