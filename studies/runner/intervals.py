"""Intervals over seeds and examples: the multibootstrap of "The MultiBERTs" (Sellam et al. 2022).

A score is a ratio of sums over examples, such as right answers / answers, bits / bytes, or 2 true positives /
(predicted + gold entities).
"""

from typing import NamedTuple

import numpy as np

_NUM_SAMPLES = 1000
# Examples x samples that are in memory at once.
_MOST_VALUES = 1 << 23


class Scores(NamedTuple):
    """The sums of one variant: float [S, E], for S seeds and E examples, which are the same for all variants."""

    numerators: np.ndarray
    denominators: np.ndarray


class Interval(NamedTuple):
    """A value with its interval of 95 %."""

    value: float
    low: float
    high: float


def score_of(scores: Scores) -> float:
    """Returns the score over all seeds and examples; 0 if the denominators are all 0."""
    return float(_ratio(scores.numerators.sum(), scores.denominators.sum()))


def interval_of(scores: Scores, seed: int = 0) -> Interval:
    """Returns the score with its interval."""
    [samples] = _samples([scores], seed)
    return Interval(score_of(scores), *_percentiles(samples))


def difference_of(first: Scores, second: Scores, seed: int = 0) -> Interval:
    """Returns the score of the first minus that of the second.

    Seeds are drawn for each variant, because runs with equal seeds have nothing in common. Examples are drawn for both
    together, if both have the same number.
    """
    samples = _samples([first, second], seed)
    return Interval(score_of(first) - score_of(second), *_percentiles(samples[0] - samples[1]))


def _percentiles(samples):
    low, high = np.percentile(samples, [2.5, 97.5])
    return float(low), float(high)


def _samples(variants, seed):
    """Returns the scores of resampled seeds and examples, float [variants, samples]."""
    rng = np.random.default_rng(seed)
    most = max(scores.numerators.shape[1] for scores in variants)
    is_shared = len({scores.numerators.shape[1] for scores in variants}) == 1
    size = max(1, _MOST_VALUES // most)
    parts = []
    for start in range(0, _NUM_SAMPLES, size):
        num = min(size, _NUM_SAMPLES - start)
        counts, part = None, []
        for scores in variants:
            num_seeds, num_examples = scores.numerators.shape
            of_seeds = rng.multinomial(num_seeds, np.full(num_seeds, 1 / num_seeds), num)  # [num, S]
            if counts is None or not is_shared:
                counts = rng.multinomial(num_examples, np.full(num_examples, 1 / num_examples), num)  # [num, E]
            sums = [((of_seeds @ values) * counts).sum(1) for values in scores]
            part.append(_ratio(*sums))
        parts.append(part)
    return np.concatenate(parts, axis=1)


def _ratio(numerators, denominators):
    return np.divide(numerators, denominators, out=np.zeros_like(numerators, float), where=np.asarray(denominators) > 0)
