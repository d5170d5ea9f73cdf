"""Metrics for classes, numbers and sets of labels: those of GLUE, and a table with a row for each class."""

import math
import warnings
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from bert_keras.evaluation.tables import tab_separated, text_table
from bert_keras.mistakes import Mistake

CLASSIFICATION_METRICS = ("accuracy", "f1", "f1_macro", "matthews")


def classification_metrics(
    label_ids: ArrayLike, predicted_ids: ArrayLike, names: Iterable[str] = ("accuracy",)
) -> dict[str, float]:
    """Computes metrics, a dict of float, for examples with one class each: int [N], the gold and the predicted classes.

    The names are those of CLASSIFICATION_METRICS. `f1` is the F1 of class 1 of two, as GLUE defines it for MRPC and
    QQP. `f1_macro` is the mean F1 of the classes that occur in labels or predictions. `matthews` is the Matthews
    correlation, 0 if all labels or all predictions are the same class. An undefined F1 is 0.
    """
    labels, predicted = _in_step(label_ids, predicted_ids)
    names = tuple(names)  # which may be a generator
    for name in names:
        if name not in CLASSIFICATION_METRICS:
            known = ", ".join(f'"{known}"' for known in CLASSIFICATION_METRICS)
            raise ValueError(f'"{name}" is not a classification metric; choose from {known}')
    return {name: _classification_metric(name, labels, predicted) for name in names}


def _classification_metric(name: str, labels: np.ndarray, predicted: np.ndarray) -> float:
    if name == "accuracy":
        return float(np.mean(labels == predicted))
    highest = int(max(labels.max(), predicted.max()))
    if name == "f1" and highest > 1:
        raise Mistake("f1 is for classes 0 and 1, but there is a class {}; use f1_macro for more classes", highest)
    counts = right, truth, answers = _counts(labels, predicted, max(highest, 1) + 1)
    if name == "matthews":
        truth, answers, total = truth.astype(np.float64), answers.astype(np.float64), len(labels)
        variances = (total**2 - truth @ truth) * (total**2 - answers @ answers)
        return float((right.sum() * total - truth @ answers) / np.sqrt(variances)) if variances > 0 else 0.0
    scores = _f1(*counts)
    return float(scores[1] if name == "f1" else scores[truth + answers > 0].mean())


def _counts(truth: np.ndarray, predicted: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the numbers of right answers, labels and predictions of each class, from ids [N] or indicators [N, C].

    They are enough for all metrics. scikit-learn takes 100 times as long, too long for the samples of an interval.
    """
    if truth.ndim == 2:
        return (truth & predicted).sum(0), truth.sum(0), predicted.sum(0)
    right, labels, answers = (
        np.bincount(ids, minlength=num_classes) for ids in (truth[truth == predicted], truth, predicted)
    )
    return right, labels, answers


def _f1(right: np.ndarray, labels: np.ndarray, answers: np.ndarray) -> np.ndarray:
    """Returns the F1 from `_counts`; 0 for a class that does not occur."""
    return 2 * right / np.maximum(labels + answers, 1)


def regression_metrics(labels: ArrayLike | Sequence[Any], predicted: ArrayLike) -> dict[str, float]:
    """Computes the correlations of GLUE's STS-B and the errors of the gold and the predicted numbers, float [N].

    Returns a dict with `pearson` and `spearman` (of ranks; ties share their mean rank). Both are 0.0 if all labels, or
    all predictions, are equal. `mae` is the mean of the absolute errors, and `rmse` the square root of the mean of the
    squared errors, both in the unit of the labels.
    """
    labels, predicted = (values.astype(np.float64) for values in _in_step(labels, predicted))
    for what, values in (("label", labels), ("prediction", predicted)):
        if not np.isfinite(values).all():
            place = int(np.argmin(np.isfinite(values)))
            raise Mistake(
                "{} {} of {} is {}, but numbers have to be finite", what, place + 1, len(values), values[place]
            )
    mae, rmse = np.abs(labels - predicted).mean(), np.sqrt(np.square(labels - predicted).mean())
    errors = {"mae": float(mae), "rmse": float(rmse)}
    if np.ptp(labels) == 0 or np.ptp(predicted) == 0:
        return {"pearson": 0.0, "spearman": 0.0, **errors}
    import scipy.stats  # it loads only where it is needed

    with warnings.catch_warnings():
        # Numbers that differ only in their last digits cause this warning; the correlation is still computed.
        warnings.simplefilter("ignore", scipy.stats.NearConstantInputWarning)
        pearson = float(scipy.stats.pearsonr(labels, predicted).statistic)
    spearman = float(scipy.stats.spearmanr(labels, predicted).statistic)
    return {"pearson": 0.0 if math.isnan(pearson) else pearson, "spearman": spearman, **errors}


def multi_label_metrics(labels: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Computes metrics for examples with any number of labels each, [N, C] of 1 (the example has the label) or 0.

    Returns a dict of float: `f1_micro` (over all labels of all examples together), `f1_macro` (the mean F1 of the C
    labels; 0 for a label that never occurs) and `accuracy` (the share of examples with all labels right).
    """
    labels, predicted = _in_step(labels, predicted)
    labels, predicted = _indicators("labels", labels), _indicators("predictions", predicted)
    counts = _counts(labels, predicted, labels.shape[1])
    return {
        "f1_micro": float(_f1(*map(np.sum, counts))),
        "f1_macro": float(_f1(*counts).mean()),
        "accuracy": float((labels == predicted).all(axis=1).mean()),
    }


def class_report(label_ids: ArrayLike, predicted_ids: ArrayLike, labels: Sequence[str]) -> str:
    """Formats precision, recall and F1 of every class as a table for people, undefined values as 0.

    The ids are int [N]; or [N, C] of 0 and 1 for several labels. `labels` are the C names. A row for each class has its
    number of examples. `macro` is the mean over the classes that occur (over all labels for [N, C]); `weighted` is the
    mean weighted by examples.
    """
    truth, predicted = _in_step(label_ids, predicted_ids)
    is_counted = np.ones(len(labels), bool)
    if truth.ndim == 2:
        truth, predicted = _indicators("labels", truth), _indicators("predictions", predicted)
        if truth.shape[1] != len(labels):
            raise ValueError(
                f"there are {truth.shape[1]} columns of labels, but {len(labels)} names; give one for each"
            )
    else:
        _check_ids(truth, predicted, labels)
        is_counted = np.isin(np.arange(len(labels)), [truth, predicted])
    scores, support = scores_of_classes(truth, predicted, len(labels))
    rows = [
        [name, *class_scores, count] for name, class_scores, count in zip(labels, scores, support.tolist(), strict=True)
    ]
    weighted = np.average(scores, axis=0, weights=support if support.any() else None)
    total = int(support.sum())
    rows += [[], ["macro", *scores[is_counted].mean(axis=0), total], ["weighted", *weighted, total]]
    return text_table(["", "precision", "recall", "f1", "examples"], rows)


def confusion_matrix_table(label_ids: ArrayLike, predicted_ids: ArrayLike, labels: Sequence[str]) -> str:
    """Formats the confusion matrix as a table for programs: a row for each gold class, a column for each predicted one.

    The ids are int [N], and `labels` the names of the classes.
    """
    truth, predicted = _in_step(label_ids, predicted_ids)
    _check_ids(truth, predicted, labels)
    matrix = confusion_matrix(truth, predicted, len(labels)).tolist()
    return tab_separated(
        ["label, prediction:", *labels], [[name, *row] for name, row in zip(labels, matrix, strict=True)]
    )


def confusion_matrix(truth: np.ndarray, predicted: np.ndarray, num_classes: int) -> np.ndarray:
    """Counts pairs of ids, int [N]: int [C, C], a row for each gold class, a column for each predicted one."""
    matrix = np.zeros((num_classes, num_classes), np.int64)
    np.add.at(matrix, (truth, predicted), 1)
    return matrix


def scores_of_classes(truth: np.ndarray, predicted: np.ndarray, num_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Returns precision, recall and F1 of each class, float [C, 3], and its number of examples, int [C]."""
    counts = right, labels, answers = _counts(truth, predicted, num_classes)
    scores = [right / np.maximum(answers, 1), right / np.maximum(labels, 1), _f1(*counts)]
    return np.stack(scores, axis=1), labels


def _in_step(labels: ArrayLike | Sequence[Any], predicted: ArrayLike) -> tuple[np.ndarray, np.ndarray]:
    """Returns both as arrays and checks that their shapes match."""
    labels, predicted = np.asarray(labels), np.asarray(predicted)
    if labels.shape != predicted.shape:
        shapes = [" x ".join(map(str, values.shape)) for values in (labels, predicted)]
        raise ValueError(f"there are {shapes[0]} labels, but {shapes[1]} predictions; give one for each")
    if not labels.size:
        raise Mistake("0 examples were given; give at least one with its label")
    return labels, predicted


def _indicators(what: str, values: np.ndarray) -> np.ndarray:
    if values.ndim != 2 or not ((values == 0) | (values == 1)).all():
        raise ValueError(f"{what} must be 0 or 1, with a row for each example and a column for each label")
    return values.astype(np.int8, copy=False)


def _check_ids(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> None:
    for what, ids in (("label", truth), ("prediction", predicted)):
        if ids.min() < 0 or ids.max() >= len(labels):
            wrong = ids.min() if ids.min() < 0 else ids.max()
            raise ValueError(f"there is a {what} {wrong}, but {len(labels)} classes have names; name every class")
