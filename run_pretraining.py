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
from bert_keras.training.settings import NumberParser, define_run_flags, settings_of, take_run_config

PROGRAM = "run_pretraining"

_PATHS = ("output_dir", "init_checkpoint", "vocab_file", "bert_config_file")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_string(
        "bert_config_file", None, "Required. Config of the model: a file, or the name of a released model.", **define
    )
    flags.DEFINE_string("input_file", None, "Records to train on: paths and patterns, separated by commas.", **define)
    flags.DEFINE_string(
        "init_checkpoint",
        None,
        "Weights to start from: checkpoint, its folder, or hf://owner/name.",
        **define,
    )
    flags.DEFINE_integer(
        "max_seq_length", 128, "Number of tokens in a record; the program refuses other records.", 1, **define
    )
    flags.DEFINE_integer(
        "max_predictions_per_seq", 20, "Masked tokens in a record; the program refuses other records.", 1, **define
    )
    flags.DEFINE_bool("do_eval", False, "Evaluate, after training if there is any.", **define)
    flags.DEFINE_integer("train_batch_size", 32, "Examples in one update, over all devices.", lower_bound=1, **define)
    flags.DEFINE_integer("eval_batch_size", 8, "Examples in a batch of evaluation.", lower_bound=1, **define)
    flags.DEFINE_float("learning_rate", 5e-5, "Highest learning rate.", **define)
    flags.DEFINE_integer("num_train_steps", 100000, "Step at which training ends.", lower_bound=1, **define)
    flags.DEFINE_integer("num_warmup_steps", 10000, "Steps in which the learning rate rises.", lower_bound=0, **define)
    flags.DEFINE_integer("max_eval_steps", 100, "Maximum number of batches in an evaluation.", lower_bound=1, **define)
    define_run_flags(values)

    for name, loss in (("masked_lm_loss_weight", "masked LM"), ("next_sentence_loss_weight", "the sentence task")):
        meaning = f"Factor of the loss of {loss} in the sum of both. 0: train without this loss."
        flags.DEFINE(NumberParser(0), name, 1.0, meaning, **define)
    flags.DEFINE_string("eval_file", None, "Records to evaluate on, instead of those of --input_file.", **define)
    flags.DEFINE_integer(
        "eval_steps",
        0,
        "Number of steps between evaluations during training. 0: one evaluation at the end.",
        lower_bound=0,
        **define,
    )
    flags.DEFINE_string("vocab_file", None, "Vocabulary of the records; it is copied to --output_dir.", **define)
    flags.DEFINE_bool(
        "allow_partial_checkpoint", False, "Accept an --init_checkpoint that lacks weights of the model.", **define
    )
    flags.DEFINE_bool(
        "pack", False, "Train on rows that hold several examples each: less padding if examples are short.", **define
    )
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
