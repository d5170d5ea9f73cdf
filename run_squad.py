#!/usr/bin/env python3
"""Trains a model that finds answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

    python run_squad.py --do_train --do_predict --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=squad_model

For SQuAD 2.0, where a text may not contain the answer, give --version_2_with_negative. To resume an interrupted run,
run the same command again. Without --do_train, the program uses the model in --output_dir. The flags of the original
BERT keep their names, defaults and meaning.
"""

import logging
import sys

from bert_keras.cli.start import start_tensorflow

start_tensorflow()

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, run_main, tell_unused
from bert_keras.data_prep.tasks.squad_answers import ANSWER_TEXTS
from bert_keras.evaluation.squad import LANGUAGES
from bert_keras.training.distribution.devices import strategy_of
from bert_keras.training.finetuning.run import finetune
from bert_keras.training.finetuning.settings import define_fine_tuning_flags, open_fine_tuning
from bert_keras.training.finetuning.squad import WINDOW_FLAGS, QuestionAnswering

log = logging.getLogger("bert_keras")

PROGRAM = "run_squad"

_FILES = ("train_file", "eval_file", "predict_file")
_ANSWERS = ("n_best_size", "max_answer_length", "version_2_with_negative", "null_score_diff_threshold", "answer_text")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_string("train_file", None, "Questions to train on, in SQuAD's JSON format.", **define)
    flags.DEFINE_string("eval_file", None, "Questions with answers to evaluate on.", **define)
    flags.DEFINE_string(
        "predict_file",
        None,
        "Questions to answer. Without --eval_file, the program also evaluates on them if all have answers.",
        **define,
    )
    flags.DEFINE_integer(
        "doc_stride", 128, "Number of tokens from the start of a window to the start of the next.", 1, **define
    )
    flags.DEFINE_integer("max_query_length", 64, "Maximum tokens of a question; the rest is cut off.", 1, **define)
    flags.DEFINE_integer(
        "n_best_size",
        20,
        "Number of answers to write for each question, and of starts and ends to consider in each window.",
        lower_bound=1,
        **define,
    )
    flags.DEFINE_integer("max_answer_length", 30, "Maximum number of tokens in an answer.", lower_bound=1, **define)
    flags.DEFINE_enum(
        "answer_language",
        None,
        LANGUAGES,
        "Compare answers by the rules of MLQA for this language. If not given: by the rules of SQuAD.",
        **define,
    )
    flags.DEFINE_bool("verbose_logging", False, "Log each answer whose text is not found in its words.", **define)
    flags.DEFINE_bool(
        "version_2_with_negative", False, "The data is SQuAD 2.0: a text may not contain the answer.", **define
    )
    flags.DEFINE_float(
        "null_score_diff_threshold",
        0.0,
        "SQuAD 2.0: odds of no answer above which the answer is empty. If not given, prediction uses the threshold "
        "that the evaluation found.",
        **define,
    )
    flags.DEFINE_enum(
        "answer_text",
        "release",
        ANSWER_TEXTS,
        "Text of an answer: release, as in the original BERT, or offsets, the exact characters of the context.",
        **define,
    )
    define_fine_tuning_flags(values, max_seq_length=384)
    return values


def main(argv):
    """Runs the program, and returns the metrics of the last evaluation or None."""
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    console = open_console()
    tell_unused(flag_values, {"train_file": "do_train", "predict_file": "do_predict"})
    opened = open_fine_tuning(flag_values, PROGRAM, _FILES, ("question_answering",), (*WINDOW_FLAGS, *_ANSWERS))
    settings, given = opened.settings, given_flags(flag_values)
    _check(settings)
    is_evaluated = False
    if not settings["do_train"] and "eval_file" not in given:
        # Training has evaluated on this file already; keep its reports.
        is_evaluated = settings["eval_file"] is not None
        settings["eval_file"] = None
    is_threshold_given = "null_score_diff_threshold" in given
    if settings["do_train"]:
        # In a run_config.json, only a value other than the default shows that it was given.
        is_threshold_given |= settings["null_score_diff_threshold"] != 0.0
    elif settings["null_score_diff_threshold"] and not is_threshold_given:
        log.info("--null_score_diff_threshold=%.6g, as stored with the model", settings["null_score_diff_threshold"])
    strategy = strategy_of(settings)
    task = QuestionAnswering(settings, opened.files, is_threshold_given, is_evaluated)
    if not task.metric_names:
        _check_needs_no_evaluation(settings)
    return finetune(task, opened.files, settings, strategy, console)


def _check(settings):
    for action, name in (("do_train", "train_file"), ("do_predict", "predict_file")):
        if settings[action] and not settings[name]:
            raise ValueError(f"--{action} needs --{name}, a file of SQuAD's JSON")
    if settings["max_seq_length"] <= settings["max_query_length"] + 3:
        raise ValueError(
            f"--max_seq_length={settings['max_seq_length']} leaves no room for a text after a question of "
            f"--max_query_length={settings['max_query_length']} and 3 special tokens; "
            f"give more than {settings['max_query_length'] + 3}"
        )


def _check_needs_no_evaluation(settings):
    several = [name for name in ("learning_rate", "train_batch_size", "num_train_epochs") if len(settings[name]) > 1]
    several += ["num_seeds"] if settings["num_seeds"] > 1 else []
    several += ["eval_steps"] if settings["eval_steps"] else []
    if settings["do_train"] and several:
        raise ValueError(f"--{several[0]} needs evaluations; give --eval_file, or a --predict_file with answers")


if __name__ == "__main__":
    sys.exit(run_main(main, sys.argv))
