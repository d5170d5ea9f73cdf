"""Intervals of 95 % for metrics.

A share of N rows has Wilson's interval. So has the mean of few numbers from 0 to 1, such as the reciprocal ranks of
queries: it is then too wide rather than too narrow, because no such numbers vary more than 0 and 1 do. Other metrics
have bootstrap samples of the rows, which are too narrow for few rows and have no width if all answers are right.
"""

import math
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

NUM_SAMPLES = 1000
# With fewer rows, bootstrap samples cover the true value too rarely.
FEWEST_ROWS = 50
WIDTH = statistics.NormalDist().inv_cdf(0.975)  # standard deviations of half of an interval


def wilson(share: float, num_rows: int) -> list[float]:
    """Returns the bounds of a share of rows, or of the mean of numbers from 0 to 1 (Wilson 1927)."""
    square = WIDTH**2 / num_rows
    middle = (share + square / 2) / (1 + square)
    half = math.sqrt(share * (1 - share) * square + square**2 / 4) / (1 + square)
    return [max(0.0, middle - half), min(1.0, middle + half)]


def bootstrap(statistic: Callable[[np.ndarray], Any], num_rows: int, num_samples: int = NUM_SAMPLES) -> np.ndarray:
    """Returns the bounds of a statistic in 95 % of bootstrap samples, always the same ones: float [2, ...].

    `statistic` takes the numbers of the rows of a sample, int [num_rows], and returns one or more numbers.
    """
    random = np.random.default_rng(0)
    values = [statistic(random.integers(num_rows, size=num_rows)) for _ in range(num_samples)]
    return np.quantile(values, [0.025, 0.975], axis=0)


def interval_of_mean(values: np.ndarray, num_samples: int = NUM_SAMPLES) -> list[float] | None:
    """Returns the bounds of the mean of values, float [N]; for values from 0 to 1 see `interval_of_shares`.

    Few values have Student's t, and one value has no interval: None.
    """
    if len(values) >= FEWEST_ROWS:
        return bootstrap(lambda rows: values[rows].mean(), len(values), num_samples).tolist()
    if len(values) < 2:
        return None
    from scipy.stats import t  # it takes half a second to load

    half = float(t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values)))
    return [float(values.mean()) - half, float(values.mean()) + half]


def interval_of_shares(values: np.ndarray) -> list[float]:
    """Returns the bounds of the mean of values from 0 to 1, float [N]."""
    if len(values) < FEWEST_ROWS or np.isin(values, (0, 1)).all():
        return wilson(float(values.mean()), len(values))
    return bootstrap(lambda rows: values[rows].mean(), len(values)).tolist()
