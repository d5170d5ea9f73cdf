"""Intervals of metrics from bootstrap samples of the rows."""

from collections.abc import Callable
from typing import Any

import numpy as np

NUM_SAMPLES = 1000


def bootstrap(statistic: Callable[[np.ndarray], Any], num_rows: int, num_samples: int = NUM_SAMPLES) -> np.ndarray:
    """Returns the bounds of a statistic in 95 % of bootstrap samples, always the same ones: float [2, ...].

    `statistic` takes the numbers of the rows of a sample, int [num_rows], and returns one or more numbers.
    """
    random = np.random.default_rng(0)
    values = [statistic(random.integers(num_rows, size=num_rows)) for _ in range(num_samples)]
    return np.quantile(values, [0.025, 0.975], axis=0)


def interval_of_mean(values: np.ndarray, num_samples: int = NUM_SAMPLES) -> list[float]:
    """Returns the bounds of the mean of values, float [N]."""
    return bootstrap(lambda rows: values[rows].mean(), len(values), num_samples).tolist()
