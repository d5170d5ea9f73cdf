"""Measures whether probabilities are as often right as they say, and finds the temperature that makes them so.

Source: Guo et al. 2017, "On Calibration of Modern Neural Networks", arXiv:1706.04599.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Probabilities below this count as this, so that one wrong answer that is certain does not hide all others.
_SMALLEST = 1e-12
_LARGEST_LOG_TEMPERATURE = np.log(20)
_NUM_BINS = 15
_THRESHOLDS = (0.0, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99)
_WANTED_ACCURACIES = (0.9, 0.95, 0.98, 0.99)


def fit_temperature(nll: Callable[[float], float], num_examples: int) -> float:
    """Returns the temperature between 1/20 and 20 with the smallest mean negative log-likelihood `nll(temperature)`.

    A normal distribution of the logarithm around 0 is the prior, because a few examples that are all right would else
    give the lowest temperature.
    """
    import scipy.optimize  # it loads only where it is needed

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
    order = np.argsort(-confidences, stable=True)
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


def reliability(confidences: np.ndarray, is_right: np.ndarray) -> list[dict[str, float]]:
    """Returns the `count`, the mean `confidence` and the share of `right` answers of each bin that has answers."""
    bins = zip(*_bins(confidences, is_right), strict=True)
    return [{"count": int(n), "confidence": float(mean), "right": float(share)} for n, mean, share in bins if n]


def draw_reliability(axes: "Axes", bins: Sequence[Mapping[str, float]], colour: str) -> None:
    """Plots `reliability`; the area of a dot is the number of its answers."""
    columns = {name: np.array([row[name] for row in bins]) for name in bins[0]}
    sizes = 15 + 285 * columns["count"] / columns["count"].max()
    axes.plot([0, 1], [0, 1], color="grey", linewidth=1, linestyle="--")
    axes.scatter(columns["confidence"], columns["right"], sizes, colour, alpha=0.6, clip_on=False)
    axes.set(xlabel="confidence", ylabel="share of right answers", xlim=(0, 1.02), ylim=(0, 1.02))


def _bins(confidences: np.ndarray, is_right: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns the count of each bin, and its mean confidence and share of right answers; 0 in an empty bin."""
    number = np.minimum((confidences * _NUM_BINS).astype(int), _NUM_BINS - 1)
    counts = np.bincount(number, minlength=_NUM_BINS)
    means, shares = (
        np.bincount(number, values, _NUM_BINS) / np.maximum(counts, 1)
        for values in (confidences, is_right.astype(float))
    )
    return counts, means, shares
