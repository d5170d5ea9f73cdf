"""Metrics of vectors of texts: correlation with scores, retrieval and clustering; all use the cosine of two vectors.

Axes: N texts or pairs, Q queries, D documents, H hidden.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn import cluster, metrics

from bert_keras.evaluation.classification import regression_metrics
from bert_keras.evaluation.ranking import metrics_of_first, unit_vectors
from bert_keras.mistakes import Mistake

SIMILARITY_METRICS = ("pearson", "spearman")
RETRIEVAL_METRICS = ("recall_at_1", "recall_at_10", "mrr_at_10")
CLUSTERING_METRICS = ("v_measure",)

# Values of the scores that are in memory at a time.
_SCORES_AT_A_TIME = 1 << 24


def cosines(first: ArrayLike, second: ArrayLike) -> np.ndarray:
    """Returns the cosine of each pair of vectors [N, H], float64 [N]; 0 for a vector of zeros."""
    return np.sum(unit_vectors(first) * unit_vectors(second), axis=-1)


def similarity_metrics(scores: ArrayLike, predicted: ArrayLike) -> dict[str, float]:
    """Computes `pearson` and `spearman` between the scores of pairs and the cosines of their vectors, float [N]."""
    metrics = regression_metrics(scores, predicted)
    return {name: metrics[name] for name in SIMILARITY_METRICS}


def retrieval_metrics(
    queries: ArrayLike, documents: ArrayLike, relevant: Sequence[Any], own: Sequence[int] | None = None
) -> dict[str, float]:
    """Computes how well the documents with the most similar vectors are the relevant ones.

    Args:
        queries, documents: vectors [Q, H] and [D, H].
        relevant: for each query, the numbers of its relevant documents, at least one.
        own: for each query, the number of the document with the same text, which is not an answer, or -1.

    Returns:
        dict of float, means over the queries by the names of RETRIEVAL_METRICS, see `metrics_of_first`. Both kinds are
        as in sentence-transformers.

    Raises:
        ValueError: a vector has a number that is not finite, or a query has no relevant document.
    """
    if missing := [row for row, wanted in enumerate(relevant) if not wanted]:
        raise Mistake("query {} has no relevant document; give one, or leave the query out", missing[0])
    unit_queries, unit_documents = unit_vectors(queries), unit_vectors(documents)
    first, step = [], max(1, _SCORES_AT_A_TIME // len(unit_documents))
    for start in range(0, len(unit_queries), step):
        for row, scores in enumerate(unit_queries[start : start + step] @ unit_documents.T, start):
            wanted = set(relevant[row])
            if own is not None and own[row] >= 0 and own[row] not in wanted:
                scores[own[row]] = -np.inf
            first.append([float(number in wanted) for number in np.argsort(-scores, stable=True)[:10]])
    found = metrics_of_first(first, [np.ones(len(set(wanted))) for wanted in relevant])
    return {name: found[name] for name in RETRIEVAL_METRICS}


def clustering_metrics(vectors: ArrayLike, classes: Sequence[str]) -> dict[str, float]:
    """Computes `v_measure` of the clusters that k-means finds, one for each class, against the classes of N texts.

    Source: Rosenberg and Hirschberg 2007, "V-Measure". k-means keeps the best of ten starts from fixed seeds.
    """
    means = cluster.KMeans(len(set(classes)), n_init=10, random_state=0)
    return {"v_measure": float(metrics.v_measure_score(classes, means.fit_predict(unit_vectors(vectors))))}
