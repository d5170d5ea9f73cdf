"""Metrics of vectors: retrieval, similarity and clusters."""

import numpy as np
import pytest

from bert_keras.tasks.vectors.metrics import clustering_metrics, cosines, retrieval_metrics, similarity_metrics

# The documents in the order of their cosines with the query (1, 0): 0, 1, 2, 3.
DOCUMENTS = np.array([[1, 0], [1, 0.5], [1, 1], [0, 1]])


@pytest.mark.parametrize(
    ("relevant", "recall_at_1", "reciprocal"),
    [([0], 1, 1), ([0, 1], 0.5, 1), ([1, 2, 3], 0, 1 / 2), ([0, 1, 2, 3], 0.25, 1), ([3], 0, 1 / 4)],
)
def test_recall_is_the_share_of_all_relevant_documents(relevant, recall_at_1, reciprocal):
    metrics = retrieval_metrics([[2, 0]], DOCUMENTS, [relevant])
    assert metrics == pytest.approx({"recall_at_1": recall_at_1, "recall_at_10": 1, "mrr_at_10": reciprocal})


def test_more_relevant_documents_than_are_looked_at():
    documents = np.stack([np.cos(np.arange(12) / 10), np.sin(np.arange(12) / 10)], axis=1)
    metrics = retrieval_metrics([[1, 0], [1, 0]], documents, [range(12), [11]])
    # As in sentence-transformers, ten of twelve are not all.
    assert metrics == pytest.approx({"recall_at_1": 1 / 24, "recall_at_10": 10 / 24, "mrr_at_10": 0.5})


def test_the_document_with_the_text_of_the_query_does_not_count():
    metrics = retrieval_metrics([[1, 0]], DOCUMENTS, [[1]], own=[0])
    assert metrics["recall_at_1"] == 1


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize(
    "compute",
    [
        lambda vectors: retrieval_metrics(DOCUMENTS, vectors, [[0]] * 4),
        lambda vectors: retrieval_metrics(vectors, DOCUMENTS, [[0]] * 4),
        lambda vectors: similarity_metrics([1, 2, 3, 4], cosines(vectors, DOCUMENTS)),
        lambda vectors: clustering_metrics(vectors, "abab"),
    ],
)
def test_vectors_that_are_not_finite(compute, value):
    vectors = DOCUMENTS.copy()
    vectors[2, 1] = value
    with pytest.raises(
        ValueError, match="^1 of 4 vectors have numbers that are not finite, the first is vector 2; the "
    ):
        compute(vectors)


def test_a_query_without_a_relevant_document():
    with pytest.raises(ValueError, match="^query 1 has no relevant document"):
        retrieval_metrics(DOCUMENTS[:2], DOCUMENTS, [[0], []])
