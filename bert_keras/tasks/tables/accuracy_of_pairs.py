"""Accuracy on minimal pairs: the share of pairs whose good sentence has the higher score."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import NamedTuple

from bert_keras.evaluation.tables import text_table

# Half the width of an interval of 95 %, in standard deviations.
_Z = NormalDist().inv_cdf(0.975)


class Accuracy(NamedTuple):
    """A share of right pairs in [0, 1], with its interval of 95 %."""

    accuracy: float
    low: float
    high: float
    pairs: int


def paradigm_accuracy(is_right: Sequence[bool]) -> Accuracy:
    """Returns the accuracy on one paradigm, with Wilson's interval."""
    from scipy import stats  # it loads only where it is needed

    count, total = sum(is_right), len(is_right)
    interval = stats.binomtest(count, total).proportion_ci(method="wilson")
    return Accuracy(count / total, float(interval.low), float(interval.high), total)


def mean_accuracy(accuracies: Sequence[Accuracy]) -> Accuracy:
    """Returns the mean over paradigms. The interval is that of other pairs of the same paradigms."""
    mean = math.fsum(one.accuracy for one in accuracies) / len(accuracies)
    variance = math.fsum(one.accuracy * (1 - one.accuracy) / one.pairs for one in accuracies) / len(accuracies) ** 2
    half = _Z * math.sqrt(variance)
    return Accuracy(mean, max(0.0, mean - half), min(1.0, mean + half), sum(one.pairs for one in accuracies))


def minimal_pairs_table(title: str, accuracies: dict[str, Accuracy]) -> str:
    """Formats accuracies by name as a table for people, in percent."""
    rows = [
        [name, *(f"{100 * value:.1f}" for value in (one.accuracy, one.low, one.high)), one.pairs]
        for name, one in accuracies.items()
    ]
    return text_table([title, "accuracy %", "from", "to", "pairs"], rows)
