"""What the heads of attention look at, against loops and known shares."""

import numpy as np

from bert_keras.prediction.attention import looks_at

TOKENS = ["[CLS]", "he", "walks", "[SEP]", "she", "too", "[SEP]"]


def test_the_means_are_those_of_loops():
    num = len(TOKENS)
    shares = np.random.default_rng(0).dirichlet(np.ones(num), (2, 3, num))
    for (layer, head), found in zip(np.ndindex(2, 3), looks_at(shares, TOKENS).reshape(6, 5), strict=True):
        rows = shares[layer, head]
        expected = [
            np.mean([row[3] + row[6] for row in rows]),
            np.mean([rows[i][i - 1] for i in range(1, num)]),
            np.mean([rows[i][i + 1] for i in range(num - 1)]),
            np.mean([rows[i][i] for i in range(num)]),
            np.mean([-sum(share * np.log2(share) for share in row) for row in rows]),
        ]
        np.testing.assert_allclose(found, expected)


def test_known_shares():
    """A head that looks at the previous token only, and one that looks at all four tokens equally."""
    shares = np.stack([np.eye(4, k=-1), np.full((4, 4), 0.25)])[None]
    shares[0, 0, 0, 0] = 1.0
    np.testing.assert_allclose(
        looks_at(shares, ["[CLS]", "a", "b", "[SEP]"])[0], [[0, 1, 0, 0.25, 0], [0.25] * 4 + [2]]
    )
