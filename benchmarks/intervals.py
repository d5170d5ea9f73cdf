"""Intervals of measured means."""

import statistics
from collections.abc import Sequence

import scipy.stats


def half_interval(values: Sequence[float]) -> float:
    """Returns half of the 95 % interval of a mean, from Student's t."""
    return float(scipy.stats.t.ppf(0.975, len(values) - 1) * statistics.stdev(values) / len(values) ** 0.5)
