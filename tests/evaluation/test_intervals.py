"""Bootstrap intervals, against distributions whose intervals are known."""

import numpy as np
import pytest

from bert_keras.evaluation.intervals import bootstrap, interval_of_mean


def test_the_interval_of_a_mean_is_that_of_the_normal_distribution():
    values = np.random.default_rng(1).normal(2, 3, size=2000)
    low, high = interval_of_mean(values)
    error = 1.96 * 3 / np.sqrt(2000)
    assert [low, high] == pytest.approx([values.mean() - error, values.mean() + error], abs=0.02)


def test_the_interval_of_a_share_is_that_of_the_binomial_distribution():
    is_right = np.arange(400) % 10 < 9
    low, high = interval_of_mean(is_right)
    error = 1.96 * np.sqrt(0.9 * 0.1 / 400)
    assert [low, high] == pytest.approx([0.9 - error, 0.9 + error], abs=0.004)


def test_several_statistics_share_their_samples():
    values = np.random.default_rng(2).normal(size=50)
    bounds = bootstrap(lambda rows: [values[rows].mean(), -values[rows].mean(), 7.0], 50)
    assert bounds.shape == (2, 3)
    assert bounds[:, 0].tolist() == interval_of_mean(values)
    np.testing.assert_allclose(bounds[:, 1], -bounds[::-1, 0])
    assert bounds[:, 2].tolist() == [7, 7]


def test_one_row_has_no_width():
    assert interval_of_mean(np.array([0.25])) == [0.25, 0.25]
