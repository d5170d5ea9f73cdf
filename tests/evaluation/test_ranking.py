"""Metrics of texts that a model sorts."""

import numpy as np
import pytest
from sklearn.metrics import ndcg_score

from bert_keras.evaluation.ranking import ranking_metrics


@pytest.mark.parametrize(
    ("relevance", "scores", "expected"),
    [
        ([0, 1], [0.1, 0.2], (1, 1, 1)),
        ([1, 0, 0], [0.1, 0.2, 0.15], (1 / 3, 1 / 2, 1)),  # 1 / log2(1 + 3) = 1 / 2
        ([3, 0, 1], [2, 1, 3], (1, (1 + 3 / np.log2(3)) / (3 + 1 / np.log2(3)), 1)),
        ([0] * 10 + [1], range(11, 0, -1), (0, 0, 0)),
        ([1] * 11 + [0], range(12, 0, -1), (1, 1, 10 / 11)),
        ([1, 0, 0], [1, 1, 1], (1 / 3, 1 / 2, 1)),  # equal scores are the worst order
    ],
)
def test_the_metrics_of_one_query(relevance, scores, expected):
    names = ("mrr_at_10", "ndcg_at_10", "recall_at_10")
    assert ranking_metrics([relevance], [scores]) == pytest.approx(dict(zip(names, expected, strict=True)))


def test_the_gain_is_that_of_scikit_learn():
    random = np.random.default_rng(0)
    relevance = [random.integers(0, 4, size) for size in (2, 5, 10, 11, 40)]
    scores = [random.permutation(len(values)) for values in relevance]
    expected = [ndcg_score([gains], [values], k=10) for gains, values in zip(relevance, scores, strict=True)]
    assert ranking_metrics(relevance, scores)["ndcg_at_10"] == pytest.approx(np.mean(expected))


@pytest.mark.parametrize(
    ("relevance", "scores", "message"),
    [
        ([0, 0], [1, 2], "query 1 has no relevant text; give one, or leave the query out"),
        ([1, 0], [1], "query 1 has 2 texts, but 1 scores; give one for each"),
        ([1, -1], [1, 2], "query 1 has a relevance below 0, or a number that is not finite"),
        ([1, 0], [1, np.nan], "query 1 has a relevance below 0, or a number that is not finite"),
    ],
)
def test_numbers_that_are_not_valid(relevance, scores, message):
    with pytest.raises(ValueError, match=f"^{message}$"):
        ranking_metrics([[1, 0], relevance], [[2, 1], scores])
