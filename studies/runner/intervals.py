"""Intervals over seeds and examples: the multibootstrap of "The MultiBERTs" (Sellam et al. 2022).

A score is a function of sums over examples, such as right answers / answers, bits / bytes, 2 true positives /
(predicted + gold entities), or a correlation.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

_NUM_SAMPLES = 1000
# Examples x samples that are in memory at once.
_MOST_VALUES = 1 << 23


def ratio(sums: np.ndarray) -> np.ndarray:
    """Returns first sum / second sum of float [..., 2]; 0 if the second is 0."""
    return _divide(sums[..., 0], sums[..., 1])


def correlation(sums: np.ndarray) -> np.ndarray:
    """Returns Pearson's correlation from the sums of 1, x, y, x², y² and xy, float [..., 6]; 0 if x or y is constant.

    For x and y of 0 and 1, it is the Matthews correlation.
    """
    num, x, y, xx, yy, xy = np.moveaxis(sums, -1, 0)
    variances = (num * xx - x * x) * (num * yy - y * y)
    # A constant column leaves rounding errors instead of 0.
    is_constant = variances <= 1e-9 * num**4
    return _divide(num * xy - x * y, np.sqrt(np.where(is_constant, 0.0, variances)))


class Scores(NamedTuple):
    """The values of one variant: float [S, E, C], for S seeds and E examples, which all variants share.

    `statistic` makes the score of their sums, float [..., C].
    """

    values: np.ndarray
    statistic: Callable[[np.ndarray], np.ndarray] = ratio


class Interval(NamedTuple):
    """A value with its interval of 95 %."""

    value: float
    low: float
    high: float


def score_of(scores: Scores) -> float:
    """Returns the score over all seeds and examples."""
    return float(scores.statistic(scores.values.sum((0, 1))))


def interval_of(scores: Scores) -> Interval:
    """Returns the score with its interval."""
    [samples] = _samples([scores])
    return Interval(score_of(scores), *_percentiles(samples))


def difference_of(first: Scores, second: Scores) -> Interval:
    """Returns the score of the first minus that of the second.

    Seeds are drawn for each variant, because runs with equal seeds have nothing in common. Examples are drawn for both
    together, if both have the same number.
    """
    samples = _samples([first, second])
    return Interval(score_of(first) - score_of(second), *_percentiles(samples[0] - samples[1]))


def _percentiles(samples):
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def _samples(variants):
    """Returns the scores of resampled seeds and examples, float [variants, samples]."""
    rng = np.random.default_rng(0)
    most = max(scores.values.shape[1] for scores in variants)
    is_shared = len({scores.values.shape[1] for scores in variants}) == 1
    size = max(1, _MOST_VALUES // most)
    parts = []
    for start in range(0, _NUM_SAMPLES, size):
        num = min(size, _NUM_SAMPLES - start)
        counts, part = None, []
        for scores in variants:
            num_seeds, num_examples, num_columns = scores.values.shape
            seed_counts = rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), num)  # [num, S]
            if counts is None or not is_shared:
                counts = rng.multinomial(num_examples, np.full(num_examples, 1 / num_examples), num)  # [num, E]
            columns = [((seed_counts @ scores.values[:, :, c]) * counts).sum(1) for c in range(num_columns)]
            part.append(scores.statistic(np.stack(columns, axis=1)))
        parts.append(part)
    return np.concatenate(parts, axis=1)


def _divide(numerators, denominators):
    return np.divide(numerators, denominators, out=np.zeros_like(numerators, float), where=np.asarray(denominators) > 0)
