"""Metrics of texts that a model sorts by their scores for a query."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from bert_keras.mistakes import Mistake, NotFinite

RANKING_METRICS = ("mrr_at_10", "ndcg_at_10", "recall_at_10")

_MOST = 10
_DISCOUNTS = 1 / np.log2(np.arange(2, _MOST + 2))


def ranking_metrics(relevance: Sequence[ArrayLike], scores: Sequence[ArrayLike]) -> dict[str, float]:
    """Computes how well the texts with the highest scores are the relevant ones. Each query has its own texts.

    Args:
        relevance: for each query, float [N] of 0 (not relevant) or above 0 (relevant; a higher number is better).
        scores: for each query, float [N], the score of each text. Texts with equal scores count in their worst order.

    Returns:
        dict of float, the means over the queries of `metrics_of_first` by the names of RANKING_METRICS.

    Raises:
        ValueError: a query has no relevant text, a number is not valid, or the numbers of texts differ.
    """
    first, relevant = [], []
    for number, (gains, values) in enumerate(zip(relevance, scores, strict=True)):
        gains, values = np.asarray(gains, np.float64), np.asarray(values, np.float64)
        if gains.shape != values.shape:
            raise ValueError(f"query {number} has {gains.size} texts, but {values.size} scores; give one for each")
        if not np.isfinite(values).all() or not (np.isfinite(gains) & (gains >= 0)).all():
            raise Mistake("query {} has a relevance below 0, or a number that is not finite", number)
        if not gains.any():
            raise Mistake("query {} has no relevant text; give one, or leave the query out", number)
        first.append(gains[np.lexsort((gains, -values))[:_MOST]])
        relevant.append(gains[gains > 0])
    found = metrics_of_first(first, relevant)
    return {name: found[name] for name in RANKING_METRICS}


def unit_vectors(vectors: ArrayLike) -> np.ndarray:
    """Returns vectors [N, H] with the length 1, float64; raises NotFinite if a number is not finite."""
    vectors = np.asarray(vectors, np.float64)
    if not (is_finite := np.isfinite(vectors).all(axis=-1)).all():
        raise NotFinite(
            "{:,} of {:,} vectors have numbers that are not finite, the first is vector {}; the weights of the model "
            "are broken, so take another checkpoint",
            np.sum(~is_finite),
            is_finite.size,
            int(np.argmin(is_finite)),
        )
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-12)


def metrics_of_first(first: Sequence[ArrayLike], relevant: Sequence[ArrayLike]) -> dict[str, float]:
    """Returns means over queries, given the relevance of their first ten texts in order, and of all relevant texts.

    `recall_at_1` and `recall_at_10` are the share of the relevant texts that are among the first k. `mrr_at_10` is 1
    divided by the rank of the first relevant text, or 0 if it is not among the first ten. `ndcg_at_10` is the sum of
    the relevance of the first ten, each divided by log2(1 + rank), divided by that of the best order.
    """
    found: dict[str, list[float]] = {"recall_at_1": [], "recall_at_10": [], "mrr_at_10": [], "ndcg_at_10": []}
    for gains, relevances in zip(map(np.asarray, first), map(np.asarray, relevant), strict=True):
        is_hit, best = gains > 0, np.sort(relevances)[::-1][:_MOST]
        for k in (1, 10):
            found[f"recall_at_{k}"].append(is_hit[:k].sum() / len(relevances))
        found["mrr_at_10"].append(1 / (1 + is_hit.argmax()) if is_hit.any() else 0.0)
        found["ndcg_at_10"].append(float(gains @ _DISCOUNTS[: len(gains)] / (best @ _DISCOUNTS[: len(best)])))
    return {name: float(np.mean(values)) for name, values in found.items()}
