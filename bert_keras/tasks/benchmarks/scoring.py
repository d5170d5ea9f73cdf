"""Scores files of predictions against files with the correct answers: SQuAD, GLUE and entities.

Each function returns a dict of metrics, and the same as a table for people. Errors name file and line.
"""

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.evaluation.classification import class_report, classification_metrics, regression_metrics
from bert_keras.evaluation.tables import text_table
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.storage.csv_rows import Row, iterate_rows
from bert_keras.storage.inspection import format_by_name
from bert_keras.storage.json_files import read_object
from bert_keras.storage.json_rows import has_json_rows
from bert_keras.tasks.benchmarks.glue import GlueTask
from bert_keras.tasks.benchmarks.glue_files import read_glue_file
from bert_keras.tasks.question_answering.metrics import is_version_2, squad_v1_metrics, squad_v2_metrics, warn_of_words
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.tables.column_names import PREDICTED_TAGS, TAG_NAMES
from bert_keras.tasks.tables.examples import Example, Label, check_labels
from bert_keras.tasks.tables.header import to_number
from bert_keras.tasks.tagging.conll import has_names, read_conll
from bert_keras.tasks.tagging.entities import entity_metrics, entity_metrics_by_type, entity_report, find_scheme, to_bio

log = logging.getLogger("bert_keras")


def score_squad(
    data_file: str,
    predictions_file: str,
    version_2_with_negative: bool | None,
    na_prob_file: str | None,
    na_prob_thresh: float | None,
    language: str | None,
) -> tuple[dict[str, float], str]:
    """Scores a predictions.json as the official scripts do.

    `version_2_with_negative` is None to detect the version of the data; `na_prob_thresh` is None for the default.
    """
    articles = read_articles(data_file)
    predictions = read_object(predictions_file, "give the answer to each question by its id")
    is_v2, reason = version_2_with_negative, "set by the flag"
    if is_v2 is None:
        is_v2 = is_version_2(articles)
        reason = "some questions may have no answer" if is_v2 else "every question has an answer"
    log.info("%s: scored as SQuAD %s (%s)", data_file, "2.0" if is_v2 else "1.1", reason)
    if language is None:
        warn_of_words(articles, data_file)
    if not is_v2:
        if na_prob_file is not None or na_prob_thresh is not None:
            raise Mistake(
                "{na_prob_file} and {na_prob_thresh} are for SQuAD 2.0, but {} is scored as 1.1; leave them "
                "out, or give {version_2_with_negative}",
                data_file,
            )
        metrics = squad_v1_metrics(articles, predictions, language)
        return metrics, text_table(["", "percent"], metrics.items())
    if na_prob_thresh is not None and not na_prob_file:
        raise Mistake("{na_prob_thresh} is compared with the odds in {na_prob_file}; give both, or leave it out")
    na_probs = None
    if na_prob_file:
        na_probs = read_object(na_prob_file, "give the odds of having no answer by each question's id")
        num_empty = sum(text == "" for text in predictions.values())
        if num_empty:
            log.warning(
                "%d of %d predictions are already empty, and no threshold can restore them; to find the best "
                "thresholds, give predictions made without a threshold",
                num_empty,
                len(predictions),
            )
    threshold = 1.0 if na_prob_thresh is None else na_prob_thresh
    metrics = squad_v2_metrics(articles, predictions, na_probs, threshold, language)
    return metrics, _squad_table(metrics)


def score_glue(task: GlueTask, data_file: str, predictions_file: str, xnli_language: str) -> tuple[dict[str, Any], str]:
    """Scores the predictions for the dev file of a GLUE task, XNLI or SWAG; the report has a row for each class."""
    if "dev" not in task.files:
        raise Mistake("{task}={} has no file with labels; only GLUE's site can score it", task.name)
    examples = read_glue_file(task, data_file, "dev", xnli_language)
    if not task.has_numbers:
        check_labels(examples, task.labels)
    values = _read_predictions(predictions_file, examples, task)
    labels = [example.label for example in examples]
    if task.has_numbers:
        metrics, report = regression_metrics(labels, values), ""
        metrics = {name: metrics[name] for name in task.metrics}
    else:
        ids: dict[Label | None, int] = {label: number for number, label in enumerate(task.labels)}
        label_ids, predicted_ids = ([ids[name] for name in names] for names in (labels, values))
        metrics = classification_metrics(label_ids, predicted_ids, task.metrics)
        report = "\n" + class_report(label_ids, predicted_ids, task.labels)
    table = text_table([task.name, f"{len(examples):,} examples"], metrics.items())
    return {"task": task.name, "examples": len(examples), **metrics}, table + report


def score_entities(
    data_file: str | None, predictions_file: str, word_column: int | None, tag_column: int | None
) -> tuple[dict[str, Any], str]:
    """Scores tags like conlleval; the dict has the metrics of each type under `types`.

    The predicted tags are in the last column of the predictions, or in "predicted_tags" of JSON lines. Without a
    data_file, the same file has the gold tags, by default in the second to last column.
    """
    files = [file for file in (data_file, predictions_file) if file]
    if all(map(has_names, files)) and (word_column, tag_column) != (None, None):
        raise Mistake(
            "{word_column} and {tag_column} are for files of columns, not for JSON lines or a table with a header ({})",
            files[0],
        )
    keys = (PREDICTED_TAGS, *(TAG_NAMES if data_file else ()))
    predicted = _read_sentences(predictions_file, word_column, -1, keys)
    if data_file:
        gold = _read_sentences(data_file, word_column, tag_column)
        _check_same_words(gold, predicted)
    else:
        if predicted[0].row is None and len(predicted[0].lines[0].split()) < 3:
            raise Mistake(
                "{} has no column of correct tags before the predicted ones; give them in {data_file}", predictions_file
            )
        gold = _read_sentences(predictions_file, word_column, -2 if tag_column is None else tag_column)
    truth, found = _tag_lists(gold), _tag_lists(predicted)
    if truth == found:
        message = "every tag of %s is right; if they are the correct ones themselves, call those that were predicted %s"
        log.warning(message, paths.name(predictions_file), PREDICTED_TAGS)
    metrics, types = entity_metrics(truth, found), entity_metrics_by_type(truth, found)
    num_words = sum(map(len, truth))
    report = f"{entity_report(truth, found)}\naccuracy of the tags of {num_words:,} words: {metrics['accuracy']:.4f}\n"
    return {"task": "ner", "sentences": len(truth), "words": num_words, **metrics, "types": types}, report


def _read_predictions(path: str, examples: Sequence[Example], task: GlueTask) -> list[str | float]:
    """Returns the prediction for each example: a class name, or a float without labels.

    Names of other libraries, such as "equivalent" for "1", become those of the task; the log reports them.

    A file of any program has tabs, or its name ends in .csv, and has one of these forms:

    index <tab> prediction   with this header (or `id` for `index`, in any order, with any further columns): GLUE's
                             submissions, and the predictions of this project; ids are those of the examples, or their
                             numbers from 0
    0 <tab> 1                two columns without a header: the same
    1                        one column, with the header `prediction` or without: in the order of the examples
    0.25 <tab> 0.75          as many columns as classes, without a header: their probabilities in the order of the
                             examples, as the original BERT writes them
    """
    name = paths.name(path)
    if has_json_rows(path):
        raise Mistake("{} has rows of JSON; write predictions into columns with tabs or commas", name)
    found = _read_entries(list(iterate_rows(path, is_csv=format_by_name(path) == "csv")), name, task.labels)
    entries = [(line, id_, _read_prediction(text, f"{name} line {line}", task)) for line, id_, text in found]
    pairs = zip(found, entries, strict=True)
    renamed = {text: value for (*_, text), (*_, value) in pairs if task.labels and text != value}
    if renamed:
        renamings = ", ".join(f"{text} as {value}" for text, value in sorted(renamed.items()))
        log.info("%s: names of other libraries are read: %s", name, renamings)
    if any(id_ is not None for _, id_, _ in entries):
        return _by_id(entries, name, examples)
    if len(entries) > len(examples):
        raise Mistake(
            "{} line {}: this is prediction {}, but there are only {} examples; give one for each",
            name,
            entries[len(examples)][0],
            len(examples) + 1,
            len(examples),
        )
    if len(entries) < len(examples):
        raise Mistake(
            "{} has {} predictions, but there are {} examples; the first without one is {}",
            name,
            len(entries),
            len(examples),
            examples[len(entries)].source,
        )
    return [value for _, _, value in entries]


def _read_entries(rows: Sequence[Row], name: str, labels: Sequence[str]) -> list[tuple[int, str | None, str]]:
    """Returns (line, id or None, prediction as text) of each row."""
    first = [cell.strip().lower() for cell in rows[0].cells]
    id_place = next((place for place, cell in enumerate(first) if cell in ("index", "id")), None)
    if id_place is not None or "prediction" in first:
        if "prediction" not in first and len(first) != 2:
            raise Mistake('{} line 1: no column "prediction" among {}; rename the column', name, ", ".join(first))
        place = first.index("prediction") if "prediction" in first else 1 - (id_place or 0)
        rows = rows[1:]
    elif len(labels) > 1 and all(len(row.cells) == len(labels) and _is_distribution(row.cells) for row in rows):
        log.info("%s: read as the probabilities of %s, in this order", name, ", ".join(labels))
        best = [max(zip(map(float, row.cells), labels, strict=True), key=lambda pair: pair[0]) for row in rows]
        return [(row.line, None, label) for row, (_, label) in zip(rows, best, strict=True)]
    elif len(first) <= 2:
        id_place, place = 0 if len(first) == 2 else None, len(first) - 1
    else:
        raise Mistake(
            "{} line {} has {} columns, but a file of predictions without a header has one "
            "or two (an id before the prediction), or the probability of each class; correct it",
            name,
            rows[0].line,
            len(first),
        )
    needed = max(place, id_place or 0) + 1
    for line, cells in rows:
        if len(cells) < needed:
            raise Mistake(
                "{} line {} has {} columns, but {} are needed; restore the row", name, line, len(cells), needed
            )
    return [(line, None if id_place is None else cells[id_place].strip(), cells[place].strip()) for line, cells in rows]


def _is_distribution(cells: Sequence[str]) -> bool:
    values = [number for cell in cells if (number := to_number(cell)) is not None]
    return len(values) == len(cells) and all(0 <= value <= 1 for value in values) and abs(sum(values) - 1) < 1e-3


def _read_prediction(text: str, place: str, task: GlueTask) -> str | float:
    if task.labels:
        label = task.label_named(text)
        if label is None:
            reason = "" if task.has_one_order else "; libraries number these classes in different orders, so give names"
            raise Mistake('{}: prediction "{}" is not one of {}{}', place, text, ", ".join(task.labels), reason)
        return label
    if (number := to_number(text)) is None:
        raise Mistake('{}: prediction "{}" is not a finite number; this task needs numbers', place, text)
    return number


def _by_id(
    entries: Sequence[tuple[int, str | None, str | float]], name: str, examples: Sequence[Example]
) -> list[str | float]:
    by_id = {}
    for line, id_, value in entries:
        if id_ in by_id:
            raise Mistake(
                '{} line {}: the id "{}" is also in line {}; ids must be unique', name, line, id_, by_id[id_][0]
            )
        by_id[id_] = line, value
    ids, numbers = [example.id for example in examples], list(map(str, range(len(examples))))
    if ids != numbers and set(by_id) != set(ids) and set(by_id) == set(numbers):
        log.info("%s: its ids are not those of the examples; reading them as example numbers from 0", name)
        ids = numbers
    known = set(ids)
    for id_, (line, _) in by_id.items():
        if id_ not in known:
            raise Mistake('{} line {}: no example has the id "{}"; give the file for this data', name, line, id_)
    for id_, example in zip(ids, examples, strict=True):
        if id_ not in by_id:
            raise Mistake(
                '{} has no prediction with the id "{}", of {}; give one for each example', name, id_, example.source
            )
    return [by_id[id_][1] for id_ in ids]


def _squad_table(metrics: Mapping[str, float]) -> str:
    names = {"": "all", "HasAns_": "with answer", "NoAns_": "without"}
    groups = [name for name in names if f"{name}total" in metrics]
    rows = {"exact": "exact", "f1": "f1", "questions": "total"}
    rows = [[name, *(metrics[group + key] for group in groups)] for name, key in rows.items()]
    table = text_table(["", *(names[name] for name in groups)], rows)
    if "best_f1" not in metrics:
        return table
    best = [[key, metrics[f"best_{key}"], f"{metrics[f'best_{key}_thresh']:.6g}"] for key in ("exact", "f1")]
    return table + "\n" + text_table(["", "at best", "threshold"], best)


def _read_sentences(
    path: str, word_column: int | None, tag_column: int | None, tag_keys: Sequence[str] = TAG_NAMES
) -> list[Sentence]:
    if has_names(path):
        word_column = tag_column = None
    return read_conll(path, word_column=word_column, tag_column=tag_column, is_bio=False, tag_keys=tag_keys)


def _check_same_words(gold: Sequence[Sentence], predicted: Sequence[Sentence]) -> None:
    for right, other in zip(gold, predicted, strict=False):
        for word, (expected, found) in enumerate(zip(right.words, other.words, strict=False)):
            if expected != found:
                raise Mistake(
                    '{} has the word "{}" where {} has "{}"; both files need the same words',
                    other.place(word),
                    found,
                    right.place(word),
                    expected,
                )
        if len(right.words) != len(other.words):
            raise Mistake(
                "{} begins a sentence of {} words, which at {} has {}; both files need the same sentences",
                other.place(),
                len(other.words),
                right.place(),
                len(right.words),
            )
    if len(gold) != len(predicted):
        fewer, more = sorted((gold, predicted), key=len)
        raise Mistake(
            "{} begins a sentence that {} lacks; give the predictions of this file",
            more[len(fewer)].place(),
            fewer[0].path,
        )


def _tag_lists(sentences: Sequence[Sentence]) -> Sequence[Sequence[str]]:
    """Returns the tags of sentences for conlleval: IOBES and BILOU become BIO, others stay."""
    tag_lists = [sentence.tags or () for sentence in sentences]
    return list(map(to_bio, tag_lists)) if find_scheme(tag_lists) in ("IOBES", "BILOU") else tag_lists
