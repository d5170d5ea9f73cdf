"""Bootstrap intervals, against distributions whose intervals are known."""

import numpy as np
import pytest
from scipy import stats

from bert_keras.evaluation.intervals import bootstrap, interval_of_mean, interval_of_shares, wilson


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


def test_one_row_has_an_interval_only_as_a_share():
    assert interval_of_mean(np.array([0.25])) is None
    low, high = interval_of_shares(np.array([1.0]))
    assert (low, high) == (pytest.approx(0.2065, abs=1e-4), 1)


@pytest.mark.parametrize(("share", "num_rows"), [(1, 10), (0, 20), (0.9, 10), (0.5, 7), (0.95, 400)])
def test_wilson_is_that_of_scipy(share, num_rows):
    expected = stats.binomtest(round(share * num_rows), num_rows).proportion_ci(method="wilson")
    assert wilson(round(share * num_rows) / num_rows, num_rows) == pytest.approx([*expected], abs=1e-6)


@pytest.mark.parametrize("num_rows", [10, 20, 40, 60])
@pytest.mark.parametrize("accuracy", [0.95, 0.8, 0.5])
def test_small_evaluations_are_covered(num_rows, accuracy):
    # Bootstrap samples cover 0.95 in 43 % of the evaluations with 10 rows, and in 67 % with 20 rows.
    draw = np.random.default_rng(0)
    drawn = (draw.random((2000, num_rows)) < accuracy).astype(float)
    bounds = np.array([interval_of_shares(values) for values in drawn])
    assert np.mean((bounds[:, 0] <= accuracy) & (accuracy <= bounds[:, 1])) > 0.9
    assert (bounds[:, 0] < bounds[:, 1]).all()
    if num_rows <= 20 and accuracy == 0.95:
        samples = np.array([bootstrap(lambda rows, v=values: v[rows].mean(), num_rows, 100) for values in drawn[:300]])
        assert np.mean((samples[:, 0] <= accuracy) & (accuracy <= samples[:, 1])) < 0.75


@pytest.mark.parametrize("num_rows", [5, 10, 20])
@pytest.mark.parametrize("name", ["reciprocal ranks", "differences"])
def test_few_values_that_are_no_shares_are_covered(num_rows, name):
    draw = np.random.default_rng(1)
    if name == "differences":
        drawn, mean, interval = draw.normal(-0.3, 2, (1000, num_rows)), -0.3, interval_of_mean
    else:
        ranks = draw.choice([1, 2, 3, 5], (1000, num_rows), p=[0.8, 0.1, 0.05, 0.05])
        drawn, mean, interval = 1 / ranks, 0.8 + 0.05 + 0.05 / 3 + 0.01, interval_of_shares
    bounds = np.array([interval(values) for values in drawn])
    assert np.mean((bounds[:, 0] <= mean) & (mean <= bounds[:, 1])) > 0.93
