"""Measures whether probabilities are as often right as they say, and finds the temperature that makes them so.

Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from bert_keras.evaluation.report_files import png_of
from bert_keras.evaluation.tables import tab_separated

# Probabilities below this count as this, so that one wrong answer that is certain does not hide all others.
_SMALLEST = 1e-12
_LARGEST_LOG_TEMPERATURE = np.log(20)
_NUM_BINS = 15
_NUM_SAMPLES = 1000
_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_WANTED_ACCURACIES = (0.9, 0.95, 0.98, 0.99)


def fit_temperature(nll: Callable[[float], float], num_examples: int) -> float:
    """Returns the temperature between 1/20 and 20 with the smallest mean negative log-likelihood `nll(temperature)`.

    A normal distribution of the logarithm around 0 is the prior, because a few examples that are all right would else
    give the lowest temperature.
    """

    def loss(log_temperature: float) -> float:
        return nll(np.exp(log_temperature)) + log_temperature**2 / (2 * num_examples)

    bounds = (-_LARGEST_LOG_TEMPERATURE, _LARGEST_LOG_TEMPERATURE)
    return float(np.exp(scipy.optimize.minimize_scalar(loss, bounds=bounds, method="bounded").x))


def negative_log_likelihood(probabilities: np.ndarray) -> float:
    """Returns the mean of -log of the probabilities, float [N], that a model gives to the right answers."""
    return float(surprises(probabilities).mean())


def surprises(probabilities: np.ndarray) -> np.ndarray:
    """Returns -log of each probability, in nats."""
    return -np.log(np.maximum(probabilities, _SMALLEST))


def interval_of_mean(values: np.ndarray) -> list[float]:
    """Returns the bounds of the mean of values, float [N], in 95 % of 1,000 bootstrap samples, always the same ones."""
    random, size = np.random.default_rng(0), len(values)
    means = [values[random.integers(size, size=size)].mean() for _ in range(_NUM_SAMPLES)]
    return [float(bound) for bound in np.quantile(means, [0.025, 0.975])]


def expected_calibration_error(confidences: np.ndarray, is_right: np.ndarray) -> float:
    """Returns the mean difference of confidence, float [N], and share of right answers, bool [N], over 15 bins."""
    counts, means, shares = _bins(confidences, is_right)
    return float((counts * np.abs(means - shares)).sum() / len(confidences))


def answered_shares(confidences: np.ndarray, is_right: np.ndarray) -> list[dict[str, Any]]:
    """Returns what is left if only answers from a confidence upwards count.

    The rows have `threshold`, the `share` of the examples that get an answer, and the `accuracy` of these answers: None
    without one.
    """
    rows = []
    for threshold in _THRESHOLDS:
        is_answered = confidences >= threshold
        accuracy = float(is_right[is_answered].mean()) if is_answered.any() else None
        rows.append({"threshold": threshold, "share": float(is_answered.mean()), "accuracy": accuracy})
    return rows


def thresholds(confidences: np.ndarray, is_right: np.ndarray) -> dict[str, float | None]:
    """Returns the lowest confidence from which the answers have an accuracy of 0.9, 0.95, ...; None if none has it."""
    order = np.argsort(-confidences, kind="stable")
    confidences, accuracy = confidences[order], np.cumsum(is_right[order]) / np.arange(1, len(order) + 1)
    # Equal confidences are answered together, so only the last of them counts.
    is_last = np.append(confidences[:-1] != confidences[1:], True)
    found = {}
    for wanted in _WANTED_ACCURACIES:
        places = np.flatnonzero(is_last & (accuracy >= wanted))
        found[f"{wanted:g}"] = float(confidences[places[-1]]) if len(places) else None
    return found


def label_set_thresholds(probabilities: np.ndarray) -> dict[str, float]:
    """Returns the lowest probability of a label in the label set of a text, by the coverage of the sets, 0.5 to 0.99.

    The coverage is the least share of texts whose set has the right label. `probabilities` are those of the right
    labels, float [N], of texts that training did not see. With too few of them for a coverage, the threshold is 0, so
    that the sets have all labels.

    Source: Sadinle et al. 2019, "Least Ambiguous Set-Valued Classifiers with Bounded Error Levels", arXiv:1609.00451.
    """
    ordered, size = np.sort(probabilities), len(probabilities)
    # Of N + 1 texts in random order, the last is as likely as any other to have the k lowest probabilities.
    allowed = {percent: (size + 1) * (100 - percent) // 100 for percent in range(50, 100)}
    return {f"{percent / 100:g}": float(ordered[k - 1]) if k else 0.0 for percent, k in allowed.items()}


def answered_table(rows: Sequence[dict[str, Any]]) -> str:
    """Formats `answered_shares` as a tab-separated table."""
    shown = [[f"{number:.4g}" if number is not None else "" for number in row.values()] for row in rows]
    return tab_separated([*rows[0]], shown)


def reliability_picture(before: tuple[np.ndarray, np.ndarray], after: tuple[np.ndarray, np.ndarray]) -> bytes:
    """Draws the share of right answers for each confidence as bytes of a PNG.

    `before` and `after` are confidences, float [N], and whether the answers are right, bool [N].
    """
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 4.2), dpi=150, layout="constrained")
    of_times = zip(figure.subplots(1, 2, sharey=True), ("before", "after"), (before, after), strict=True)
    for axes, title, answers in of_times:
        counts, means, shares = _bins(*answers)
        axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
        is_used = counts > 0
        # The area of a dot is the number of its examples.
        sizes = 15 + 385 * counts[is_used] / counts.max()
        axes.scatter(means[is_used], shares[is_used], s=sizes, alpha=0.7, clip_on=False)
        axes.set(title=f"{title} calibration", xlabel="confidence", xlim=(0, 1.02), ylim=(0, 1.02))
    figure.axes[0].set_ylabel("share of right answers")
    return png_of(figure)


def _bins(confidences: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the count of each bin, and its mean confidence and share of right answers; 0 in an empty bin."""
    number = np.minimum((confidences * _NUM_BINS).astype(int), _NUM_BINS - 1)
    counts = np.bincount(number, minlength=_NUM_BINS)
    means, shares = (
        np.bincount(number, values, _NUM_BINS) / np.maximum(counts, 1)
        for values in (confidences, is_right.astype(float))
    )
    return counts, means, shares
