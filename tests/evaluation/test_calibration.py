"""Measures of calibration, on numbers whose right values are known."""

import numpy as np
import pytest
import scipy.special

from bert_keras.evaluation.calibration import (
    answered_shares,
    expected_calibration_error,
    fit_temperature,
    label_set_thresholds,
    negative_log_likelihood,
    reliability,
    thresholds,
)


def draw(num_examples, num_classes=4, seed=0):
    """Returns logits [N, C], and labels [N] that are drawn from their softmax."""
    random = np.random.default_rng(seed)
    logits = 2 * random.normal(size=(num_examples, num_classes))
    cumulated = scipy.special.softmax(logits, -1).cumsum(-1)
    return logits, (random.random((num_examples, 1)) > cumulated).sum(-1).clip(max=num_classes - 1)


def nll_of(logits, labels):
    def nll(temperature):
        probabilities = scipy.special.softmax(logits / temperature, -1)
        return negative_log_likelihood(probabilities[np.arange(len(labels)), labels])

    return nll


@pytest.mark.parametrize("factor", [0.3, 1.0, 2.5, 6.0])
def test_the_temperature_undoes_a_factor_of_the_logits(factor):
    logits, labels = draw(20_000)
    assert fit_temperature(nll_of(factor * logits, labels), len(labels)) == pytest.approx(factor, rel=0.03)


def test_a_few_right_answers_do_not_make_a_model_certain():
    logits = np.eye(3)[[0, 1, 2]]
    nll = nll_of(logits, np.arange(3))
    assert nll(0.05) < nll(1.0)
    assert 0.25 < fit_temperature(nll, 3) < 1
    assert fit_temperature(nll_of(np.tile(logits, (1000, 1)), np.tile(np.arange(3), 1000)), 3000) < 0.15


def test_an_answer_that_is_certain_and_wrong_does_not_hide_the_others():
    assert negative_log_likelihood(np.array([0.0, 1.0])) == pytest.approx(-np.log(1e-12) / 2)
    assert negative_log_likelihood(np.array([0.5, 0.25])) == pytest.approx(1.5 * np.log(2))


def test_the_error_is_the_weighted_mean_over_the_bins():
    confidences = np.array([0.91, 0.91, 0.91, 0.91, 0.55, 0.55])
    is_right = np.array([True, True, True, False, True, False])
    assert expected_calibration_error(confidences, is_right) == pytest.approx((4 * 0.16 + 2 * 0.05) / 6)
    assert expected_calibration_error(np.ones(3), np.ones(3, bool)) == 0


def test_the_error_is_small_for_the_probabilities_that_the_labels_are_drawn_from():
    logits, labels = draw(20_000)
    errors = []
    for factor in (1, 3):
        probabilities = scipy.special.softmax(factor * logits, -1)
        errors.append(expected_calibration_error(probabilities.max(-1), probabilities.argmax(-1) == labels))
    assert errors[0] < 0.02 < 0.1 < errors[1]


@pytest.mark.parametrize("num_examples", [60, 500])
def test_label_sets_have_the_right_label_in_the_wanted_share_of_new_texts(num_examples):
    logits, labels = draw(200 * num_examples)
    of_right = scipy.special.softmax(logits, -1)[np.arange(len(labels)), labels]
    new = of_right[:10_000]
    for wanted in (0.5, 0.8, 0.9, 0.97):
        found = [
            (new >= label_set_thresholds(of_right[start : start + num_examples])[f"{wanted:g}"]).mean()
            for start in range(10_000, len(labels) - num_examples, num_examples)
        ]
        # Of few examples only whole ones can be left out, so the share is up to 1 / (N + 1) higher.
        assert wanted - 0.01 < np.mean(found) < wanted + 0.01 + 1 / num_examples


def test_label_sets_have_all_labels_if_too_few_examples_say_more():
    found = label_set_thresholds(np.linspace(0.2, 0.9, 8))
    assert [found[name] for name in ("0.5", "0.88", "0.89", "0.99")] == pytest.approx([0.5, 0.2, 0, 0])
    assert [*found] == [f"{number / 100:g}" for number in range(50, 100)]


CONFIDENCES = np.array([0.99, 0.95, 0.9, 0.9, 0.6, 0.3])
IS_RIGHT = np.array([True, True, True, False, True, False])


def test_fewer_answers_are_right_more_often():
    rows = {row["threshold"]: row for row in answered_shares(CONFIDENCES, IS_RIGHT)}
    assert rows[0.0] == {"threshold": 0.0, "share": 1.0, "accuracy": pytest.approx(4 / 6)}
    assert rows[0.9] == {"threshold": 0.9, "share": pytest.approx(4 / 6), "accuracy": 0.75}
    assert answered_shares(CONFIDENCES[1:], IS_RIGHT[1:])[-1] == {"threshold": 0.99, "share": 0.0, "accuracy": None}


def test_equal_confidences_are_answered_together():
    assert thresholds(CONFIDENCES, IS_RIGHT) == {"0.9": 0.95, "0.95": 0.95, "0.98": 0.95, "0.99": 0.95}
    assert thresholds(CONFIDENCES, ~IS_RIGHT)["0.9"] is None


def test_the_reliability_has_the_bins_that_have_answers():
    rows = reliability(CONFIDENCES, IS_RIGHT)
    assert [row["count"] for row in rows] == [1, 1, 2, 2]
    assert [row["confidence"] for row in rows] == pytest.approx([0.3, 0.6, 0.9, 0.97])
    assert [row["right"] for row in rows] == [0, 1, 0.5, 1]
    errors = [row["count"] * abs(row["confidence"] - row["right"]) for row in rows]
    assert sum(errors) / 6 == pytest.approx(expected_calibration_error(CONFIDENCES, IS_RIGHT))
