"""The multibootstrap over seeds and examples, against cases with a known answer."""

import numpy as np
import pytest
from scipy import stats
from sklearn import metrics

from studies.runner.intervals import Scores, correlation, difference_of, interval_of, score_of


def right(rows):
    numerators = np.array(rows, float)
    return Scores(np.stack([numerators, np.ones_like(numerators)], axis=-1))


def test_a_score_is_the_ratio_of_the_sums():
    """2 true positives / (predicted + gold): 2 (1 + 0) / (3 + 1)."""
    assert score_of(Scores(np.array([[[2.0, 3.0], [0.0, 1.0]]]))) == 0.5
    assert score_of(Scores(np.zeros((1, 2, 2)))) == 0.0
    assert interval_of(Scores(np.zeros((1, 2, 2)))) == (0.0, 0.0, 0.0)


def moments(x, y):
    return np.stack([np.ones_like(x), x, y, x * x, y * y, x * y], axis=-1)


def test_correlations_equal_those_of_the_libraries():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 300)) + 4.0
    scores = Scores(moments(x, x + y)[None], correlation)
    assert score_of(scores) == pytest.approx(stats.pearsonr(x, x + y).statistic)
    # The correlation r of n pairs has the standard deviation of about (1 - r²) / sqrt(n) = 0.029.
    value, low, high = interval_of(scores)
    assert low == pytest.approx(value - 1.96 * 0.029, abs=0.02)
    assert high == pytest.approx(value + 1.96 * 0.029, abs=0.02)
    labels, answers = (rng.random((2, 300)) < 0.3).astype(float)
    matthews = metrics.matthews_corrcoef(labels, answers)
    assert score_of(Scores(moments(answers, labels)[None], correlation)) == pytest.approx(matthews)
    # A model that always gives the same answer.
    assert score_of(Scores(moments(np.full(300, 0.1), labels)[None], correlation)) == 0.0


def test_one_seed_has_the_interval_of_its_examples():
    """The share of 400 answers, 100 right, has the standard deviation sqrt(0.25 * 0.75 / 400) = 0.0217."""
    value, low, high = interval_of(right([[1.0] * 100 + [0.0] * 300]))
    assert value == 0.25
    assert low == pytest.approx(0.25 - 1.96 * 0.02165, abs=0.006)
    assert high == pytest.approx(0.25 + 1.96 * 0.02165, abs=0.006)


def test_seeds_that_differ_widen_the_interval():
    """Four seeds, two right everywhere and two wrong: the mean of four draws has the standard deviation 0.25."""
    value, low, high = interval_of(right([[1.0] * 50] * 2 + [[0.0] * 50] * 2))
    assert (value, low, high) == (0.5, 0.0, 1.0)
    value, low, high = interval_of(right([[1.0] * 50] * 4))
    assert (value, low, high) == (1.0, 1.0, 1.0)


def test_examples_are_drawn_for_both_variants_together():
    """If one variant has one right answer more, and all others are equal, the difference hardly varies."""
    rng = np.random.default_rng(3)
    rows = (rng.random((3, 200)) < 0.5).astype(float)
    rows[:] = rows[0]
    better = rows.copy()
    better[:, rows[0] == 0] = np.array([1.0] + [0.0] * (int((rows[0] == 0).sum()) - 1))
    value, low, high = difference_of(right(better), right(rows))
    assert value == pytest.approx(1 / 200)
    assert 0 <= low <= high < 0.021
    assert difference_of(right(rows), right(rows)) == (0.0, 0.0, 0.0)
    # Other examples: nothing is shared.
    _, low, high = difference_of(right(rows), right(rows[:, :150]))
    assert high - low > 0.1


def test_many_examples_are_resampled_in_parts(monkeypatch):
    from studies.runner import intervals

    scores = right([[1.0, 0.0, 1.0] * 40])
    whole = interval_of(scores)
    monkeypatch.setattr(intervals, "_MOST_VALUES", 120 * 7)
    parts = interval_of(scores)
    assert parts.value == whole.value
    assert parts[1:] == pytest.approx(whole[1:], abs=0.02)
