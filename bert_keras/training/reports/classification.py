"""The report files of a classifier: for people, for programs, and for the GLUE site."""

import collections
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.tasks.examples import Example, Label
from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.evaluation.calibration import (
    answered_shares,
    draw_reliability,
    expected_calibration_error,
    negative_log_likelihood,
    reliability,
    surprises,
    thresholds,
)
from bert_keras.evaluation.classification import class_report, confusion_matrix_table, scores_of_classes
from bert_keras.evaluation.glue import SUBMISSION_FILES, submission_text, submission_zip
from bert_keras.evaluation.html_report import (
    Html,
    drawing,
    heat_map,
    join,
    new_figure,
    shortened,
    table,
    tag,
    text_list,
)
from bert_keras.evaluation.intervals import interval_of_mean
from bert_keras.evaluation.report_files import (
    MOST_CLASSES_OF_A_MATRIX,
    errors_table,
    prediction_rows,
    predictions_table,
)
from bert_keras.storage import paths
from bert_keras.storage.json_files import parse_json, readable_json
from bert_keras.training.finetuning.classification_data import ClassificationData, digest_of
from bert_keras.training.run_dir import RunDir

log = logging.getLogger("bert_keras")

CALIBRATION_FILE = "calibration.json"

_LABELS_SHOWN = 20
# Of the page: with more classes, a table of the most confused ones takes the place of the matrix.
_MOST_CLASSES_SHOWN = 30
_TEXTS_SHOWN = 20
_CHARS_OF_A_LONG_TEXT, _MOST_DOTS = 200, 1000
_SCORES = (("negative log-likelihood", "nll"), ("expected calibration error", "ece"))


def write_evaluation(run_dir: RunDir, data: ClassificationData, answers: np.ndarray) -> None:
    """Writes the reports of an evaluation.

    - eval_predictions.tsv: one row for each example.
    - eval_errors.tsv: wrong predictions with their place in the file, the most confident first; for regression all
      inexact predictions, the largest difference first.
    - class_report.txt: not for regression.
    - confusion_matrix.tsv: for one label per example, and at most 200 labels.

    `answers` are those of `Classification.answers`.
    """
    dev = data.dev or []
    labels: list[Any] = [example.label for example in dev]
    truth = list(map(_shown, labels))
    _write_predictions(run_dir, "eval_predictions.tsv", data, dev, answers)
    predicted = _names(data, answers)
    if data.kind == "regression":
        confidences = np.abs(answers - np.array(labels))
        by = "difference"
    else:
        # The confidence of the whole answer: with several labels, the confidence of the least certain one.
        confidences = np.maximum(answers, 1 - answers).min(-1) if data.kind == "multi_label" else answers.max(-1)
        by = "confidence"
    wrong = [row for row in range(len(truth)) if data.kind == "regression" or truth[row] != predicted[row]]
    examples = [dev[row] for row in wrong]
    table = errors_table(
        [example.id for example in examples],
        [example.source for example in examples],
        [_texts(example) for example in examples],
        [truth[row] for row in wrong],
        [predicted[row] for row in wrong],
        [confidences[row] for row in wrong],
        by,
    )
    run_dir.write_text("eval_errors.tsv", table)
    if data.kind == "multi_label":
        run_dir.write_text(
            "class_report.txt", class_report(data.targets(dev), (answers >= 0.5).astype(np.int64), data.labels)
        )
    elif data.kind != "regression":
        label_ids = list(map(data.labels.index, labels))
        predicted_ids = answers.argmax(-1)
        report = class_report(label_ids, predicted_ids, data.labels)
        run_dir.write_text("class_report.txt", report)
        if len(data.labels) <= MOST_CLASSES_OF_A_MATRIX:
            run_dir.write_text("confusion_matrix.tsv", confusion_matrix_table(label_ids, predicted_ids, data.labels))
            log.info("%s", report.rstrip())
        else:
            run_dir.remove("confusion_matrix.tsv")
            log.info(
                "no confusion_matrix.tsv for %s labels, more than %d; class_report.txt has a row for each, "
                "eval_errors.tsv each error",
                f"{len(data.labels):,}",
                MOST_CLASSES_OF_A_MATRIX,
            )
            log.info("%s", "\n".join(report.splitlines()[:1] + report.splitlines()[-2:]))


def write_calibration(
    run_dir: RunDir,
    data: ClassificationData,
    temperature: list[float],
    before: tuple[np.ndarray, np.ndarray, np.ndarray],
    after: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:
    """Writes calibration.json, and logs it in short.

    `before` and `after` are of the evaluation examples, which neither training nor the temperature saw: the confidences
    of the answers, float [N], whether they are right, bool [N], and the probabilities of the truth, float [N].
    """
    scores = {
        name: {
            "nll": negative_log_likelihood(of_truth),
            "ece": expected_calibration_error(confidences, is_right),
            "reliability": reliability(confidences, is_right),
        }
        for name, (confidences, is_right, of_truth) in (("before", before), ("after", after))
    }
    confidences, is_right, _ = after
    found = thresholds(confidences, is_right)
    # The labels of an example are drawn together.
    changes = (surprises(after[2]) - surprises(before[2])).reshape(len(data.dev or ()), -1).mean(-1)
    change = {"mean": float(changes.mean()), "interval": interval_of_mean(changes)}
    described = {
        "temperature": temperature,
        "num_examples": len(data.calibration or ()),
        **scores,
        "change_of_nll": change,
        "thresholds": found,
        "answered": answered_shares(confidences, is_right),
        "their_sha256": digest_of(data.dev or ()),
    }
    run_dir.write_text(CALIBRATION_FILE, readable_json(described))
    told = [f"{name} {scores['before'][key]:.4g} before, {scores['after'][key]:.4g} now" for name, key in _SCORES]
    log.info("calibration on the evaluation data: %s", "; ".join(told))
    for wanted, threshold in found.items():
        if threshold is not None:
            share = float((confidences >= threshold).mean())
            log.info(
                "answers from a confidence of %.4g upwards are right in %.4g %% (%.1f %% of the answers)",
                threshold,
                100 * float(wanted),
                100 * share,
            )


def page_sections(
    run_dir: RunDir,
    data: ClassificationData,
    answers: np.ndarray,
    outcome: tuple[np.ndarray, np.ndarray, np.ndarray] | None,
) -> dict[str, Html]:
    """Returns the sections of report.html about the answers, see `Classification.answers`, by heading.

    `outcome` has confidences, whether they are right and the probabilities of the truth, as in `write_calibration`;
    None for regression.
    """
    dev = data.dev or []
    if outcome is None:
        errors = np.abs(answers - np.array([example.label for example in dev], np.float64))
        return {
            "Predictions": _scatter(data, answers),
            "Largest differences": _text_list(data, answers, np.argsort(-errors, kind="stable")),
        }
    targets = data.targets(dev)
    sections = {}
    if data.kind == "multi_label":
        scores = scores_of_classes(targets.astype(int), (answers >= 0.5).astype(int), len(data.labels))
    else:
        truth, predicted = targets.argmax(-1), answers.argmax(-1)
        scores = scores_of_classes(truth, predicted, len(data.labels))
        sections["Confusions"] = _confusions(truth, predicted, data.labels)
    of_truth = np.reshape(outcome[2], (len(dev), -1)).min(-1)
    note = tag("p", "These labels have the lowest probabilities. Read them first: some may be wrong.")
    suspects = _text_list(data, answers, np.argsort(of_truth, kind="stable"), of_truth)
    return {
        **sections,
        "Classes": _classes(scores, data.labels),
        "Calibration": _calibration(run_dir, data, *outcome[:2]),
        "Most suspicious labels": join([note, suspects]),
    }


def long_texts(data: ClassificationData, features: dict[str, np.ndarray], tokenizer: FullTokenizer) -> tuple[int, Html]:
    """Returns how many evaluated examples fill all tokens of a sequence, and a section with the longest texts."""
    dev, length = data.dev or [], features["input_mask"].shape[-1]
    is_full = features["input_mask"].all(-1).reshape(len(features["example_index"]), -1).any(-1)
    num_full, num_windows = len(set(features["example_index"][is_full])), np.bincount(features["example_index"])
    note = f"All examples have fewer than {length} tokens."
    if num_full:
        note = f"{num_full:,} of {len(dev):,} examples fill all {length} tokens of a sequence"
        note += ", and go on in further ones." if num_windows.max() > 1 else "; a longer text is cut."
    items = []
    for row in sorted(range(len(dev)), key=lambda row: -sum(map(len, _given_texts(dev[row]))))[: _TEXTS_SHOWN // 2]:
        example = dev[row]
        seconds = example.choices or (example.text_b,)
        num_tokens = max(len(encode_pair(tokenizer, example.text_a, second, None)[0]) for second in seconds)
        read = f"in {num_windows[row]} sequences" if num_windows[row] > 1 else f"cut to {length}"
        facts = [f"{num_tokens:,} tokens", *([read] if num_tokens > length else []), example.source]
        items.append((facts, [shortened(text, _CHARS_OF_A_LONG_TEXT) for text in _given_texts(example)]))
    return num_full, join([tag("p", note), text_list(items)])


def _given_texts(example: Example) -> list[str]:
    return [text for text in _texts(example) if text is not None]


def _text_list(
    data: ClassificationData, answers: np.ndarray, order: np.ndarray, of_truth: np.ndarray | None = None
) -> Html:
    """Returns the first examples in an order, with their labels and answers."""
    dev, predicted = data.dev or [], _names(data, answers)
    items = []
    for row in order[:_TEXTS_SHOWN]:
        label, answer = (
            f"{name:.4g}" if isinstance(name, float) else name for name in (_shown(dev[row].label), predicted[row])
        )
        facts = [
            join(["label ", tag("b", label or "none")]),
            join(["prediction ", tag("b", answer or "none")]),
            dev[row].source,
        ]
        if of_truth is not None:
            facts.insert(1, f"probability {of_truth[row]:.4f}")
        items.append((facts, _given_texts(dev[row])))
    return text_list(items)


def _confusions(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> Html:
    if len(labels) <= _MOST_CLASSES_SHOWN:
        counts = np.zeros((len(labels), len(labels)), int)
        np.add.at(counts, (truth, predicted), 1)
        note = "A row has the examples of a label, a column those of a prediction. The shade is the share of the row."
        return join([heat_map(counts, labels), tag("p", note, class_="note")])
    is_wrong, sizes = truth != predicted, np.bincount(truth, minlength=len(labels))
    pairs = collections.Counter(zip(truth[is_wrong].tolist(), predicted[is_wrong].tolist(), strict=True))
    rows = [
        [labels[label], shortened(labels[answer]), count, f"{100 * count / sizes[label]:.1f} %"]
        for (label, answer), count in pairs.most_common(_MOST_CLASSES_SHOWN)
    ]
    note = f"The most frequent of {len(pairs):,} confused pairs of the {len(labels):,} labels."
    return join([table(["label", "prediction", "examples", "of the label"], rows), tag("p", note, class_="note")])


def _classes(scores: Sequence[np.ndarray], labels: Sequence[str]) -> Html:
    """Returns a table of the classes; of many, those with the lowest F1."""
    rows = [
        [name, *values[:3], int(values[3])] for name, *values in zip(labels, *np.array(scores).tolist(), strict=True)
    ]
    header, notes = ["label", "precision", "recall", "F1", "examples"], []
    if len(rows) > _MOST_CLASSES_SHOWN:
        rows = sorted((row for row in rows if row[4]), key=lambda row: row[3])[:_MOST_CLASSES_SHOWN]
        notes = [tag("p", f"Those of {len(labels):,} with the lowest F1; class_report.txt has all.", class_="note")]
    return join([table(header, rows), *notes])


def _calibration(run_dir: RunDir, data: ClassificationData, confidences: np.ndarray, is_right: np.ndarray) -> Html:
    """Returns the reliability and the shares of answers; also the reliability before a calibration of this run."""
    file, before = run_dir.file(CALIBRATION_FILE), None
    if paths.is_file(file):
        stored = parse_json(paths.read_text(file), file, "remove it")
        before = stored["before"] if stored.get("their_sha256") == digest_of(data.dev or ()) else None
    now, figure = expected_calibration_error(confidences, is_right), new_figure(4.2, 3.4)
    axes = figure.subplots()
    note = f"The expected calibration error is {now:.3f}"
    if before:
        draw_reliability(axes, before["reliability"], "#6b7280", "before")
        note += f"; before the calibration it was {before['ece']:.3f} (grey)"
    draw_reliability(axes, reliability(confidences, is_right), "#2563eb", "now")
    note += ". On the dashed line, answers are right as often as their confidence says."
    rows = [
        [f"{row['threshold']:g}", f"{100 * row['share']:.1f} %", "" if right is None else f"{100 * right:.1f} %"]
        for row in answered_shares(confidences, is_right)
        for right in [row["accuracy"]]
    ]
    answered = table(["confidence from", "answers", "right"], rows)
    picture = drawing(figure, "share of right answers for each confidence")
    return join([tag("div", picture, answered, class_="pictures"), tag("p", note, class_="note")])


def _scatter(data: ClassificationData, answers: np.ndarray) -> Html:
    figure = new_figure(4.2, 3.4)
    axes = figure.subplots()
    values = np.array([example.label for example in data.dev or ()], np.float64)
    ends = [values.min(), values.max()]
    axes.plot(ends, ends, color="grey", linewidth=1, linestyle="--")
    axes.scatter(values, answers, 12, "#2563eb", alpha=0.5, rasterized=len(values) > _MOST_DOTS)
    axes.set(xlabel="label", ylabel="prediction")
    return drawing(figure, "predictions over labels")


def write_predictions(run_dir: RunDir, data: ClassificationData, answers: np.ndarray) -> list[dict[str, Any]]:
    """Writes the predictions.

    - test_results.tsv, as in the original BERT: one line for each example with the label probabilities in the order of
      the label ids (regression: the value), separated by tabs, without a header.
    - predictions.tsv: ids, texts, predictions and probabilities.
    - For a GLUE task: the file for the GLUE site under its official name, also zipped.

    Returns the rows of predictions.tsv, see `prediction_rows`.
    """
    rows = np.reshape(answers, (len(answers), -1)).astype(np.float32)
    run_dir.write_text("test_results.tsv", "".join("\t".join(map(str, row)) + "\n" for row in rows))
    predictions = _write_predictions(run_dir, "predictions.tsv", data, data.test or [], answers)
    log.info("%s predictions: %s, see predictions.tsv", f"{len(answers):,}", _in_short(data, answers))
    if data.glue is not None and data.glue.name in SUBMISSION_FILES:
        name = SUBMISSION_FILES[data.glue.name]
        values = answers if data.kind == "regression" else answers.argmax(-1)
        text = submission_text(data.glue.name, values, list(data.labels) or None)
        run_dir.write_text(name, text)
        run_dir.write_text(f"{name.removesuffix('.tsv')}.zip", submission_zip({name: text}))
    return predictions


def _write_predictions(
    run_dir: RunDir, name: str, data: ClassificationData, examples: Sequence[Example], answers: np.ndarray
) -> list[dict[str, Any]]:
    ids, texts = [example.id for example in examples], [_texts(example) for example in examples]
    probabilities = None if data.kind == "regression" else answers
    rows = prediction_rows(ids, texts, _names(data, answers), probabilities, data.labels)
    run_dir.write_text(name, predictions_table(rows))
    return rows


def _names(data: ClassificationData, answers: np.ndarray) -> list[str] | list[float]:
    """Returns the predictions as reports show them: label names, separated by commas, or numbers."""
    if data.kind == "regression":
        return [float(answer) for answer in answers]
    if data.kind == "multi_label":
        return [",".join(sorted(np.array(data.labels)[answer >= 0.5])) for answer in answers]
    return [data.labels[index] for index in answers.argmax(-1)]


def _in_short(data: ClassificationData, answers: np.ndarray) -> str:
    """Returns a summary: the number of predictions of each label, or the range of the values."""
    if data.kind == "regression":
        return f"from {answers.min():.4g} to {answers.max():.4g}"
    counts = (answers >= 0.5).sum(0) if data.kind == "multi_label" else np.bincount(answers.argmax(-1))
    shown = [f"{label} ({count:,})" for label, count in zip(data.labels, counts.tolist(), strict=False) if count]
    rest = f" and {len(shown) - _LABELS_SHOWN} more labels" if len(shown) > _LABELS_SHOWN else ""
    return (", ".join(shown[:_LABELS_SHOWN]) or "no label at all") + rest


def _shown(label: Label) -> str | float:
    return ",".join(sorted(label)) if isinstance(label, tuple) else label


def _texts(example: Example) -> tuple[str | None, ...]:
    return (example.text_a, *example.choices) if example.choices else (example.text_a, example.text_b)
