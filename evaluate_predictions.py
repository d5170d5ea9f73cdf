#!/usr/bin/env python3
"""Scores the predictions of any program against the correct answers.

    python evaluate_predictions.py --task=squad --data_file=dev-v2.0.json --predictions_file=predictions.json
    python evaluate_predictions.py --task=mrpc --data_file=MRPC/dev.tsv --predictions_file=MRPC.tsv
    python evaluate_predictions.py --task=ner --predictions_file=test_predictions.txt --json
    python evaluate_predictions.py dev-v2.0.json predictions.json

The last form is that of SQuAD's official scripts; for MLQA's, add the language as a third argument. Metrics go to
standard output, everything else to standard error.
"""

import json
import logging
import sys

from absl import flags

from bert_keras.cli.console import open_console
from bert_keras.cli.flags import given_flags, parse, require, run_main
from bert_keras.data_prep.tasks.classification import check_labels, read_glue_file
from bert_keras.data_prep.tasks.entity_files import score_entity_files
from bert_keras.data_prep.tasks.glue import GLUE_TASKS, find_task
from bert_keras.data_prep.tasks.squad_files import read_articles
from bert_keras.data_prep.tasks.tables import read_tsv_rows
from bert_keras.evaluation.answer_texts import LANGUAGES
from bert_keras.evaluation.classification import class_report, classification_metrics, regression_metrics
from bert_keras.evaluation.prediction_files import align_predictions
from bert_keras.evaluation.squad import is_version_2, squad_v1_metrics, squad_v2_metrics, warn_of_words
from bert_keras.evaluation.tables import text_table
from bert_keras.storage import paths
from bert_keras.storage.checks import check_output_file
from bert_keras.storage.json_files import read_json
from bert_keras.storage.writing import write_text

log = logging.getLogger("bert_keras")

PROGRAM = "evaluate_predictions"

# Flags that apply to one task only.
_FLAGS_OF_TASKS = {
    **dict.fromkeys(("na_prob_file", "na_prob_thresh", "version_2_with_negative", "answer_language"), "squad"),
    **dict.fromkeys(("word_column", "tag_column"), "ner"),
    "xnli_language": "xnli",
}
# The flags of the official SQuAD 2.0 script.
_OFFICIAL_FLAGS = {
    **dict.fromkeys(("-o", "--out-file"), "--output_file"),
    **dict.fromkeys(("-n", "--na-prob-file"), "--na_prob_file"),
    **dict.fromkeys(("-t", "--na-prob-thresh"), "--na_prob_thresh"),
}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    tasks = f"squad, ner, {', '.join(GLUE_TASKS)}"
    flags.DEFINE_string("task", None, f"Task of the predictions: {tasks}.", **define)
    flags.DEFINE_string("data_file", None, "The correct answers, in the original format of the dataset.", **define)
    flags.DEFINE_string("predictions_file", None, "The predictions.", **define)
    flags.DEFINE_string("na_prob_file", None, "SQuAD 2.0: null_odds.json, to find the best thresholds.", **define)
    flags.DEFINE_float("na_prob_thresh", 1.0, "SQuAD 2.0: above this value, an answer counts as empty.", **define)
    flags.DEFINE_bool("version_2_with_negative", None, "Score as SQuAD 2.0; default: detected from the data.", **define)
    flags.DEFINE_enum("answer_language", None, LANGUAGES, "SQuAD: compare texts by the rules of MLQA.", **define)
    flags.DEFINE_integer("word_column", None, "NER: column of the words, from 0; default: the first.", **define)
    flags.DEFINE_integer(
        "tag_column", None, "NER: column of the correct tags; default: the last, or the one before it.", **define
    )
    flags.DEFINE_string("xnli_language", "zh", "XNLI: the language to score.", **define)
    flags.DEFINE_bool("json", False, "Write the metrics as one JSON object.", **define)
    flags.DEFINE_string("output_file", None, "Also write the metrics to this file.", **define)
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags.
    """
    flag_values = define_flags()
    arguments = parse(flag_values, _with_our_flags(argv), __doc__, takes_texts=True)
    if arguments:
        _take_official_arguments(flag_values, arguments)
    task = (flag_values.task or "").lower()
    require(flag_values, ("task", "predictions_file") if task == "ner" else ("task", "data_file", "predictions_file"))
    for name, task_of_flag in _FLAGS_OF_TASKS.items():
        if task != task_of_flag and name in given_flags(flag_values):
            raise ValueError(f"--{name} is for --task={task_of_flag}; leave it out for --task={flag_values.task}")
    if flag_values.output_file:
        inputs = ("data_file", "predictions_file", "na_prob_file")
        check_output_file(
            flag_values.output_file, "--output_file", {f"--{name}": flag_values[name].value for name in inputs}
        )
    open_console(stderr=True)
    if task == "squad":
        figures, report = score_squad(flag_values)
    elif task == "ner":
        figures, report = score_entity_files(
            flag_values.data_file, flag_values.predictions_file, flag_values.word_column, flag_values.tag_column
        )
    else:
        figures, report = score_glue(_find_task(flag_values.task), flag_values)
    answer = json.dumps(figures, indent=2) + "\n" if flag_values.json else report
    if flag_values.output_file:
        write_text(flag_values.output_file, answer)
    print(answer, end="", flush=True)


def _with_our_flags(argv):
    """Returns the arguments with the official script's flags under our names."""
    names = [argument.split("=", 1) for argument in argv]
    return ["=".join([_OFFICIAL_FLAGS.get(name, name), *value]) for name, *value in names]


def _take_official_arguments(flag_values, arguments):
    """Sets flags from positional arguments, as the official scripts of SQuAD and MLQA do."""
    names = ("data_file", "predictions_file", "answer_language")
    given = [f"--{name}" for name in ("task", *names) if name in given_flags(flag_values)]
    if given or not 2 <= len(arguments) <= 3:
        unknown = f'"{arguments[0]}" is not a flag'
        raise ValueError(
            f"{unknown}; give only flags, or only the answer file and the predictions file as for SQuAD's official "
            "script (--help lists all flags)"
        )
    if len(arguments) == 3 and arguments[2] not in LANGUAGES:
        raise ValueError(
            f'the third argument, "{arguments[2]}", is not one of MLQA\'s languages {", ".join(LANGUAGES)}'
        )
    flag_values.task = "squad"
    for name, argument in zip(names, arguments, strict=False):
        setattr(flag_values, name, argument)
    if "json" not in given_flags(flag_values):
        flag_values.json = True  # as the official scripts do


def _find_task(name):
    try:
        return find_task(name.lower())
    except ValueError:
        # A task may have several names; show one of them.
        scored = dict.fromkeys(task.name for task in GLUE_TASKS.values() if "dev" in task.files)
        raise ValueError(f"--task={name} is not one of squad, ner, {', '.join(scored)}") from None


def score_squad(flag_values):
    """Scores a predictions.json as the official scripts do.

    Args:
        flag_values: the flags of this program.

    Returns:
        (dict of the official metrics, str with the same as a table).
    """
    articles = read_articles(flag_values.data_file)
    predictions = _read_json_object(flag_values.predictions_file, "give the answer to each question by its id")
    is_v2, reason = flag_values.version_2_with_negative, "set by the flag"
    if is_v2 is None:
        is_v2 = is_version_2(articles)
        reason = "some questions may have no answer" if is_v2 else "every question has an answer"
    log.info("%s: scored as SQuAD %s (%s)", flag_values.data_file, "2.0" if is_v2 else "1.1", reason)
    language = flag_values.answer_language
    if language is None:
        warn_of_words(articles, flag_values.data_file)
    if not is_v2:
        if {"na_prob_file", "na_prob_thresh"} & given_flags(flag_values):
            raise ValueError(
                f"--na_prob_file and --na_prob_thresh are for SQuAD 2.0, but {flag_values.data_file} is scored as 1.1; "
                "leave them out, or give --version_2_with_negative"
            )
        figures = squad_v1_metrics(articles, predictions, language)
        return figures, text_table(["", "percent"], [[name, f"{value:.4f}"] for name, value in figures.items()])
    na_probs = None
    if flag_values.na_prob_file:
        na_probs = _read_json_object(
            flag_values.na_prob_file, "give the odds of having no answer by each question's id"
        )
        num_empty = sum(text == "" for text in predictions.values())
        if num_empty:
            log.warning(
                "%d of %d predictions are already empty, and no threshold can restore them; to find the best "
                "thresholds, give predictions made without a threshold",
                *(num_empty, len(predictions)),
            )
    figures = squad_v2_metrics(articles, predictions, na_probs, flag_values.na_prob_thresh, language)
    return figures, _squad_table(figures)


def _squad_table(figures):
    groups = [name for name in ("", "HasAns_", "NoAns_") if f"{name}total" in figures]
    names = {"": "all", "HasAns_": "with answer", "NoAns_": "without"}
    rows = [[key, *(f"{figures[name + key]:.4f}" for name in groups)] for key in ("exact", "f1")]
    rows.append(["questions", *(str(figures[f"{name}total"]) for name in groups)])
    table = text_table(["", *(names[name] for name in groups)], rows)
    if "best_f1" not in figures:
        return table
    best = [[key, f"{figures[f'best_{key}']:.4f}", f"{figures[f'best_{key}_thresh']:.6g}"] for key in ("exact", "f1")]
    return table + "\n" + text_table(["", "at best", "threshold"], best)


def score_glue(task, flag_values):
    """Scores the predictions for the dev file of a GLUE task, XNLI or SWAG.

    Args:
        task: a value of `GLUE_TASKS`.
        flag_values: the flags of this program.

    Returns:
        (dict of the task's metrics, str with the same as a table, followed by a report of each class).
    """
    if "dev" not in task.files:
        raise ValueError(f"--task={task.name} has no file with labels; only GLUE's site can score it")
    examples = read_glue_file(task, flag_values.data_file, "dev", flag_values.xnli_language)
    check_labels(examples, task.labels, task.kind)
    values = align_predictions(
        read_tsv_rows(flag_values.predictions_file),
        paths.name(flag_values.predictions_file),
        [example.id for example in examples],
        [example.source for example in examples],
        task.labels,
    )
    labels = [example.label for example in examples]
    head = {"task": task.name, "examples": len(examples)}
    if task.kind == "regression":
        figures, report = regression_metrics(labels, values), ""
        figures = {name: figures[name] for name in task.metrics}
    else:
        ids = [[task.labels.index(name) for name in names] for names in (labels, values)]
        figures, report = classification_metrics(*ids, task.metrics), "\n" + class_report(*ids, task.labels)
    table = text_table(
        [task.name, f"{len(examples):,} examples"], [[name, f"{value:.4f}"] for name, value in figures.items()]
    )
    return {**head, **figures}, table + report


def _read_json_object(path, needed):
    content = read_json(path, needed)
    if not isinstance(content, dict):
        raise ValueError(f"{path} is JSON, but not an object; {needed}")
    return content


def run_program():
    """Runs the program from the command line."""
    # Some systems do not write UTF-8 into a file or a pipe by default.
    sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
