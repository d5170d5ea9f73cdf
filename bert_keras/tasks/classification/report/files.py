"""The report files of a classifier: for people, for programs, and for the GLUE site."""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from bert_keras.evaluation.calibration import (
    answered_shares,
    expected_calibration_error,
    negative_log_likelihood,
    reliability,
    surprises,
    thresholds,
)
from bert_keras.evaluation.classification import confusion_matrix_table
from bert_keras.evaluation.intervals import interval_of_mean
from bert_keras.evaluation.report_files import (
    MOST_CLASSES_OF_A_MATRIX,
    errors_table,
    prediction_rows,
    predictions_table,
)
from bert_keras.mistakes import several
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage.json_files import readable_json
from bert_keras.tasks.benchmarks.submission import SUBMISSION_FILES, submission_text, submission_zip
from bert_keras.tasks.classification.data import ClassificationData, digest_of
from bert_keras.tasks.classification.labels import shown_label
from bert_keras.tasks.tables.examples import Example

log = logging.getLogger("bert_keras")

CALIBRATION_FILE = "calibration.json"

_SCORES = (("negative log-likelihood", "nll"), ("expected calibration error", "ece"))


def write_evaluation(
    run_dir: RunDir,
    data: ClassificationData,
    answers: np.ndarray,
    words_of: Callable[[Sequence[int]], list[str] | None],
) -> None:
    """Writes the reports of an evaluation.

    - eval_predictions.tsv: one row for each example.
    - eval_errors.tsv: wrong predictions with their place in the file, the most confident first; for regression all
      inexact predictions, the largest difference first. The first rows have the words that carry the prediction.
    - class_report.txt: not for regression.
    - confusion_matrix.tsv: for one label per example, and at most 200 labels.

    `answers` are those of `Classification.answers`; `words_of` returns the words of examples, None without them.
    """
    dev = data.dev or []
    labels: list[Any] = [example.label for example in dev]
    truth = list(map(shown_label, labels))
    _write_predictions(run_dir, "eval_predictions.tsv", data, dev, answers)
    predicted, confidences = data.kind.report_values(answers), data.kind.errors(answers, dev)
    wrong = [row for row in np.argsort(-confidences, stable=True).tolist() if truth[row] != predicted[row]]
    examples = [dev[row] for row in wrong]
    table = errors_table(
        [example.id for example in examples],
        [example.source for example in examples],
        [example.texts for example in examples],
        [truth[row] for row in wrong],
        [predicted[row] for row in wrong],
        confidences[wrong].tolist(),
        data.kind.confidence_name,
        words_of(wrong),
    )
    run_dir.write_text("eval_errors.tsv", table)
    report = data.kind.class_report(answers, dev)
    if report is None:
        return
    run_dir.write_text("class_report.txt", report)
    label_ids, predicted_ids = data.kind.truth(dev), data.kind.decide(answers)
    if label_ids.ndim > 1:
        return
    if len(data.labels) <= MOST_CLASSES_OF_A_MATRIX:
        run_dir.write_text("confusion_matrix.tsv", confusion_matrix_table(label_ids, predicted_ids, data.labels))
        log.info("%s", report.rstrip())
        return
    run_dir.remove("confusion_matrix.tsv")
    log.info(
        "no confusion_matrix.tsv for %s labels, more than %d; class_report.txt has a row for each, eval_errors.tsv "
        "each error",
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
            "nll": negative_log_likelihood(truth_probabilities),
            "ece": expected_calibration_error(confidences, is_right),
            "reliability": reliability(confidences, is_right),
        }
        for name, (confidences, is_right, truth_probabilities) in (("before", before), ("after", after))
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
    summaries = [f"{name} {scores['before'][key]:.4g} before, {scores['after'][key]:.4g} now" for name, key in _SCORES]
    log.info("calibration on the evaluation data: %s", "; ".join(summaries))
    for wanted, threshold in found.items():
        if threshold is not None:
            share = float((confidences >= threshold).mean())
            log.info(
                "answers from a confidence of %.4g upwards are right in %.4g %% (%.1f %% of the answers)",
                threshold,
                100 * float(wanted),
                100 * share,
            )


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
    log.info("%s: %s, see predictions.tsv", several(len(answers), "predictions"), data.kind.summary(answers))
    if data.glue is not None and data.glue.name in SUBMISSION_FILES:
        name = SUBMISSION_FILES[data.glue.name]
        values = data.kind.decide(answers)
        text = submission_text(data.glue.name, values, list(data.labels) or None)
        run_dir.write_text(name, text)
        run_dir.write_text(f"{name.removesuffix('.tsv')}.zip", submission_zip({name: text}))
    return predictions


def _write_predictions(
    run_dir: RunDir, name: str, data: ClassificationData, examples: Sequence[Example], answers: np.ndarray
) -> list[dict[str, Any]]:
    ids, texts = [example.id for example in examples], [example.texts for example in examples]
    probabilities = answers if data.kind.has_classes else None
    rows = prediction_rows(ids, texts, data.kind.report_values(answers), probabilities, data.labels)
    run_dir.write_text(name, predictions_table(rows))
    return rows
