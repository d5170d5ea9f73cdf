"""Scores predictions, whichever program made them, against the right answers.

    python evaluate.py --task=squad --data_file=dev-v2.0.json --predictions_file=predictions.json
    python evaluate.py --task=mrpc --data_file=MRPC/dev.tsv --predictions_file=MRPC.tsv
    python evaluate.py --task=ner --predictions_file=test_predictions.txt --json

The figures go to standard output, all else to standard error.
"""

import itertools
import json
import logging
import os
import re
import sys

from absl import flags

from data_prep.classification import check_labels, read_glue_file
from data_prep.conll import is_json_lines, read_conll
from data_prep.glue import GLUE_TASKS, find_task
from data_prep.squad_files import read_articles
from data_prep.tables import read_text, read_tsv_rows
from evaluation.classification import class_report, classification_metrics, regression_metrics
from evaluation.entities import check_tag, entity_metrics, entity_metrics_by_type, entity_report
from evaluation.prediction_files import align_predictions
from evaluation.squad import is_version_2, squad_v1_metrics, squad_v2_metrics
from evaluation.tables import text_table
from training.console import open_console
from training.flags import given_flags, parse, require, run_main

log = logging.getLogger("bert_keras")

PROGRAM = "evaluate"

# Flags that are for one task only.
_FLAGS_OF_TASKS = {
    **dict.fromkeys(("na_prob_file", "na_prob_thresh", "version_2_with_negative"), "squad"),
    "xnli_language": "xnli",
}


def define_flags():
    """Returns the flags of this program as an `absl.flags.FlagValues`."""
    values = flags.FlagValues()
    define = {"flag_values": values}
    tasks = f"squad, ner, {', '.join(GLUE_TASKS)}"
    flags.DEFINE_string("task", None, f"What the predictions are for: {tasks}.", **define)
    flags.DEFINE_string("data_file", None, "The right answers, in the form that the data is distributed in.", **define)
    flags.DEFINE_string("predictions_file", None, "The predictions.", **define)
    flags.DEFINE_string("na_prob_file", None, "SQuAD 2.0: null_odds.json, to find the best thresholds.", **define)
    flags.DEFINE_float("na_prob_thresh", 1.0, "SQuAD 2.0: above it a question counts as not answered.", **define)
    flags.DEFINE_bool("version_2_with_negative", None, "Score as SQuAD 2.0; not given: as the file looks.", **define)
    flags.DEFINE_string("xnli_language", "zh", "XNLI: the language whose rows are scored.", **define)
    flags.DEFINE_bool("json", False, "Write the figures as one object of JSON.", **define)
    flags.DEFINE_string("output_file", None, "Write them into this file, too.", **define)
    return values


def main(argv):
    """Runs the program.

    Args:
        argv: list of str; the program's name, then its flags.
    """
    flag_values = define_flags()
    parse(flag_values, argv, __doc__)
    task = (flag_values.task or "").lower()
    require(flag_values, ("task", "predictions_file") if task == "ner" else ("task", "data_file", "predictions_file"))
    for name, task_of_flag in _FLAGS_OF_TASKS.items():
        if task != task_of_flag and name in given_flags(flag_values):
            raise ValueError(f"--{name} is of --task={task_of_flag}; leave it out for --task={flag_values.task}")
    if flag_values.output_file:
        _check_output_file(flag_values)
    open_console(stderr=True)
    if task == "squad":
        figures, report = score_squad(flag_values)
    elif task == "ner":
        figures, report = score_entities(flag_values.data_file, flag_values.predictions_file)
    else:
        figures, report = score_glue(_find_task(flag_values.task), flag_values)
    answer = json.dumps(figures, indent=2) + "\n" if flag_values.json else report
    if flag_values.output_file:
        _write_whole(flag_values.output_file, answer)
    print(answer, end="", flush=True)


def _find_task(name):
    try:
        return find_task(name.lower())
    except ValueError:
        # A task may have several names.
        scored = dict.fromkeys(task.name for task in GLUE_TASKS.values() if "dev" in task.files)
        raise ValueError(f"--task={name} is none of squad, ner, {', '.join(scored)}") from None


def score_squad(flag_values):
    """Scores predictions.json of any program as the official scripts do.

    Args:
        flag_values: the flags of this program.

    Returns:
        (dict of the official figures, the same as a table).
    """
    articles = read_articles(flag_values.data_file)
    predictions = _read_json_object(flag_values.predictions_file, "the answer to each question by its id")
    is_v2, reason = flag_values.version_2_with_negative, "as the flag says"
    if is_v2 is None:
        is_v2 = is_version_2(articles)
        reason = "some questions may have no answer" if is_v2 else "every question has an answer"
    log.info("%s: scored as SQuAD %s (%s)", flag_values.data_file, "2.0" if is_v2 else "1.1", reason)
    if not is_v2:
        if {"na_prob_file", "na_prob_thresh"} & given_flags(flag_values):
            raise ValueError(
                f"--na_prob_file and --na_prob_thresh are of SQuAD 2.0, but {flag_values.data_file} is scored as 1.1; "
                "leave them out, or give --version_2_with_negative"
            )
        figures = squad_v1_metrics(articles, predictions)
        return figures, text_table(["", "percent"], [[name, f"{value:.4f}"] for name, value in figures.items()])
    na_probs = None
    if flag_values.na_prob_file:
        na_probs = _read_json_object(flag_values.na_prob_file, "the odds of having no answer by each question's id")
        num_empty = sum(text == "" for text in predictions.values())
        if num_empty:
            log.warning(
                "%d of %d predictions are empty already, which no threshold takes back; the best thresholds are found "
                "on predictions that were made without one",
                *(num_empty, len(predictions)),
            )
    figures = squad_v2_metrics(articles, predictions, na_probs, flag_values.na_prob_thresh)
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
    """Scores the predictions for the dev file of a task of GLUE (or XNLI, SWAG).

    Args:
        task: row of `GLUE_TASKS`.
        flag_values: the flags of this program.

    Returns:
        (dict of the task's figures, the same as a table with a row for each class).
    """
    if "dev" not in task.files:
        raise ValueError(f"--task={task.name} has no file with labels; only GLUE's site can score it")
    examples = read_glue_file(task, flag_values.data_file, "dev", flag_values.xnli_language)
    check_labels(examples, task.labels, task.kind)
    values = align_predictions(
        read_tsv_rows(flag_values.predictions_file),
        os.path.basename(flag_values.predictions_file),
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


def score_entities(data_file, predictions_file):
    """Scores tags as conlleval does.

    Args:
        data_file: the tagged sentences, CoNLL columns or JSON lines; None: their tags stand in the other file, too.
        predictions_file: the same with the predicted tags in the last column, or as "predicted_tags".

    Returns:
        (dict of figures, with those of each type below `types`; the same as a table).
    """
    predicted = read_conll(predictions_file, needs_tags=not (data_file and is_json_lines(predictions_file)))
    if data_file:
        gold = read_conll(data_file)
        _check_same_words(gold, predicted)
        truth = [_tags(sentence, -1, ["tags"]) for sentence in gold]
        found = [_tags(sentence, -1, ["predicted_tags", "tags"]) for sentence in predicted]
    else:
        truth = [_tags(sentence, -2, ["tags"]) for sentence in predicted]
        found = [_tags(sentence, -1, ["predicted_tags"]) for sentence in predicted]
    figures, types = entity_metrics(truth, found), entity_metrics_by_type(truth, found)
    num_words = sum(map(len, truth))
    report = f"{entity_report(truth, found)}\naccuracy of the tags of {num_words:,} words: {figures['accuracy']:.4f}\n"
    return {"task": "ner", "sentences": len(truth), "words": num_words, **figures, "types": types}, report


def _check_same_words(gold, predicted):
    for right, other in itertools.zip_longest(gold, predicted):
        if right is None or other is None:
            more, fewer = (right, predicted[0]) if other is None else (other, gold[0])
            raise ValueError(
                f"{more.place()} begins a sentence that {fewer.path} lacks; give the predictions of this file"
            )
        for word, (expected, found) in enumerate(zip(right.words, other.words, strict=False)):
            if expected != found:
                raise ValueError(
                    f'{other.place(word)} has the word "{found}" where {right.place(word)} has "{expected}"; '
                    "both files need the same words"
                )
        if len(right.words) != len(other.words):
            raise ValueError(
                f"{other.place()} begins a sentence of {len(other.words)} words, which at {right.place()} has "
                f"{len(right.words)}; both files need the same sentences"
            )


def _tags(sentence, column, keys):
    """Returns the tags of a sentence as its file has them: conlleval compares them so, not turned into BIO."""
    if is_json_lines(sentence.path):
        values = json.loads(sentence.lines[0])
        tags = next((values[key] for key in keys if key in values), None)
        if not isinstance(tags, list) or len(tags) != len(sentence.words):
            raise ValueError(f'{sentence.place()}: "{keys[0]}" has to be a list of {len(sentence.words)} tags')
        needed = f'as "{keys[0]}"'
    else:
        # Tags have no blanks, whatever is between the columns.
        rows = [re.split(r"[ \t]+", line.strip(" \t")) for line in sentence.lines]
        tags = [row[column] for row in rows]
        needed = "in the last column" if column == -1 else "in the column before the last"
    for word, tag in enumerate(tags):
        try:
            check_tag(str(tag))
        except ValueError:
            raise ValueError(
                f'{sentence.place(word)}: "{tag}" is no tag; O, B-TYPE or I-TYPE is needed {needed}'
            ) from None
    return tags


def _read_json_object(path, what):
    try:
        content = json.loads(read_text(path))
    except json.JSONDecodeError as error:
        raise ValueError(f"{path} line {error.lineno}: not JSON ({error.msg}); it needs {what}") from None
    if not isinstance(content, dict):
        raise ValueError(f"{path} is JSON, but no object; it needs {what}")
    return content


def _check_output_file(flag_values):
    path = flag_values.output_file
    folder = os.path.dirname(os.path.abspath(path))
    if not os.path.isdir(folder) or os.path.isdir(path):
        raise ValueError(f"--output_file={path} cannot be written: give the name of a file in a folder that is there")
    for name in ("data_file", "predictions_file", "na_prob_file"):
        other = flag_values[name].value
        if other and os.path.exists(path) and os.path.exists(other) and os.path.samefile(path, other):
            raise ValueError(f"--output_file={path} is the --{name}, which it would replace; give another name")


def _write_whole(path, text):
    """Writes a file that is either the old one or the whole new one at any moment."""
    with open(f"{path}.tmp", "w", encoding="utf-8", newline="\n") as file:
        file.write(text)
    os.replace(f"{path}.tmp", path)


def run_program():
    """Runs the program from the command line."""
    # Not every system writes UTF-8 into a file or a pipe by itself.
    sys.stdout.reconfigure(encoding="utf-8")
    sys.exit(run_main(main, sys.argv))


if __name__ == "__main__":
    run_program()
