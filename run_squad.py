"""Trains a model that finds the answers to questions in texts (SQuAD 1.1 and 2.0), evaluates it and predicts.

    python run_squad.py --do_train --do_predict --train_file=train-v1.1.json --predict_file=dev-v1.1.json \\
        --init_checkpoint=uncased_L-12_H-768_A-12 --output_dir=squad_model

SQuAD 2.0, where a text may not hold the answer, needs --version_2_with_negative. The same command again resumes a run
that was interrupted; without --do_train the model in --output_dir predicts. The flags of the release keep their names,
defaults and meaning.
"""

import logging
import sys

from training.start import start_tensorflow

start_tensorflow()

from absl import flags

from data_prep.answers import ANSWER_TEXTS, AnswerSettings
from prediction.model_files import open_model_files, read_task
from training.console import open_console
from training.fine_tuning import fine_tune
from training.fine_tuning_flags import define_fine_tuning_flags
from training.flags import parse, require, run_main
from training.question_answering import QuestionAnswering, WindowSettings
from training.settings import settings_of, take_run_config, take_settings_of_run

log = logging.getLogger("bert_keras")

PROGRAM = "run_squad"

_FILES = ("train_file", "eval_file", "predict_file")
_WINDOWS = ("max_seq_length", "doc_stride", "max_query_length")
_ANSWERS = ("n_best_size", "max_answer_length", "version_2_with_negative", "null_score_diff_threshold")


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    flags.DEFINE_string("train_file", None, "SQuAD's JSON to train on.", **define)
    flags.DEFINE_string("eval_file", None, "SQuAD's JSON with answers, to evaluate on.", **define)
    flags.DEFINE_string("predict_file", None, "SQuAD's JSON to answer; evaluated on if it has answers.", **define)
    flags.DEFINE_integer("doc_stride", 128, "Pieces from a window of a text to the next.", lower_bound=1, **define)
    flags.DEFINE_integer("max_query_length", 64, "Pieces that a question is cut to.", lower_bound=1, **define)
    flags.DEFINE_integer("n_best_size", 20, "Answers to write for each question, at most.", lower_bound=1, **define)
    flags.DEFINE_integer("max_answer_length", 30, "Pieces of an answer, at most.", lower_bound=1, **define)
    flags.DEFINE_bool("verbose_logging", False, "Tell of answers whose text is not found in their words.", **define)
    flags.DEFINE_bool("version_2_with_negative", False, "SQuAD 2.0: a text may not hold the answer.", **define)
    flags.DEFINE_float(
        "null_score_diff_threshold", 0.0, "Odds above which there is no answer; not given: those found best.", **define
    )
    flags.DEFINE_enum(
        "answer_text",
        "release",
        ANSWER_TEXTS,
        "Text of an answer: the release's, or by its place.",
        **define,
    )
    define_fine_tuning_flags(values, max_seq_length=384)
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags.

    Returns:
        dict of the figures of the evaluation; None without one.
    """
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    console = open_console()
    if flag_values.run_config:
        take_run_config(flag_values, flag_values.run_config, PROGRAM)
    # One that is stored in a run_config.json tells by its value that it was given.
    threshold = flag_values["null_score_diff_threshold"]
    is_threshold_given = bool(threshold.present) or threshold.value != threshold.default
    take_settings_of_run(flag_values, PROGRAM)
    require(flag_values, ("output_dir",))
    if not flag_values.do_train:
        _take_task(flag_values)
    paths = (*_FILES, "init_checkpoint", "bert_config_file", "vocab_file", "output_dir")
    return run(settings_of(flag_values, paths), is_threshold_given, console)


def run(settings, is_threshold_given, console):
    """Trains, evaluates and predicts as the settings say.

    Args:
        settings: dict of flag values by name.
        is_threshold_given: bool; whether null_score_diff_threshold is to be used whatever threshold is found.
        console: a `rich.console.Console`.

    Returns:
        dict of the figures of the evaluation; None without one.
    """
    files = _open_model(settings)
    _check_actions(settings)
    if files is None:
        raise ValueError(
            "there is no model to start from; give --init_checkpoint, or to start from random numbers "
            "--bert_config_file and --vocab_file"
        )
    _check_lengths(settings, files.config)
    work = QuestionAnswering(
        files.tokenizer,
        WindowSettings(**{name: settings[name] for name in _WINDOWS}),
        AnswerSettings(**{name: settings[name] for name in (*_ANSWERS, "answer_text", "verbose_logging")}),
        train_file=settings["train_file"] if settings["do_train"] else None,
        eval_file=settings["eval_file"],
        predict_file=settings["predict_file"] if settings["do_predict"] else None,
        is_threshold_given=is_threshold_given,
    )
    return fine_tune(work, files, settings, console)


def _take_task(flag_values):
    """Takes from the model that is there what was settled when it was trained.

    A checkpoint of the release says nothing of the kind: then the flags do.
    """
    folder, task = _find_task(flag_values)
    if task is None:
        return
    if task["task"] != "question_answering":
        raise ValueError(f"the model in {folder} is of the task {task['task']}; give one that {PROGRAM} has trained")
    for name in (*_WINDOWS, *_ANSWERS):
        if not flag_values[name].present:
            setattr(flag_values, name, task[name])
    if not flag_values["null_score_diff_threshold"].present and task["null_score_diff_threshold"]:
        log.info("--null_score_diff_threshold=%.6g, as stored with the model", task["null_score_diff_threshold"])
    flag_values.init_checkpoint = str(folder)
    # The folder has its own; those of the training may be elsewhere by now.
    for name in ("vocab_file", "bert_config_file", "do_lower_case", "eval_file"):
        if not flag_values[name].present:
            setattr(flag_values, name, None)


def _find_task(flag_values):
    """Returns the folder of the model to use and what it was trained for; None and None where neither is there."""
    for path in (flag_values.output_dir, flag_values.init_checkpoint):
        try:
            if path:
                return read_task(path)
        except FileNotFoundError:
            continue
    return None, None


def _open_model(settings):
    """Opens what training starts from, or the model that is there; None where neither is given."""
    if not settings["init_checkpoint"] and not (settings["bert_config_file"] and settings["vocab_file"]):
        return None
    return open_model_files(
        *(settings[name] for name in ("init_checkpoint", "vocab_file", "bert_config_file", "do_lower_case"))
    )


def _check_actions(settings):
    if not settings["do_train"] and not settings["do_predict"]:
        raise ValueError("nothing to do: give --do_train, --do_predict or both")
    for action, name in (("do_train", "train_file"), ("do_predict", "predict_file")):
        if settings[action] and not settings[name]:
            raise ValueError(f"--{action} needs --{name}, a file of SQuAD's JSON")


def _check_lengths(settings, config):
    length, longest = settings["max_seq_length"], config.max_position_embeddings
    if length > longest:
        raise ValueError(
            f"--max_seq_length={length} is more than the {longest} positions of the model; give at most {longest}: "
            "longer texts are looked at in windows"
        )
    if length <= settings["max_query_length"] + 3:
        raise ValueError(
            f"--max_seq_length={length} leaves no room for a text beside the question, whose "
            f"--max_query_length={settings['max_query_length']}, and 3 special tokens; "
            f"give more than {settings['max_query_length'] + 3}"
        )


def run_program():
    """Runs the program from the command line."""
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
