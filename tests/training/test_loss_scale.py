"""Training in float16: the loss scale, and steps that overflow."""

import math

import numpy as np
import pytest
import tensorflow as tf
from states import state_of
from tiny_training import make_batches, make_trainer

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale, without_skipped
from bert_keras.modeling import ClassificationLoss

STRATEGY = tf.distribute.get_strategy()


class FaintLoss(ClassificationLoss):
    """A loss whose gradients are so small that many of them underflow in float16."""

    def value(self, numerators, denominators):
        return super().value(numerators, denominators) * 2.0**-20


@pytest.fixture(scope="module")
def batches():
    return make_batches(64)


def train(trainer, batches, num_steps):
    totals = trainer.train(iter(in_parts(batches)), tf.constant(num_steps))
    return tf.nest.map_structure(float, totals), state_of(trainer)


@pytest.mark.slow  # two trainers in 16 bits
def test_small_gradients_vanish_in_float16_without_a_scale(tiny_config, batches):
    def norm(policy, loss_scale=None):
        """Returns the norm of the first moments below the head, which computes in 32 bits."""
        state = train(make_trainer(tiny_config, FaintLoss, policy=policy, loss_scale=loss_scale), batches, 1)[1]
        moments = [state[name].ravel() for name in state if name.startswith("bert/") and name.endswith("adam_m")]
        return np.linalg.norm(np.concatenate(moments).astype(np.float64))

    expected = norm("float32")
    assert norm("mixed_float16", LossScale()) == pytest.approx(expected, rel=5e-3)
    assert abs(norm("mixed_float16") - expected) > 0.1 * expected


def test_a_step_that_overflows_changes_no_weight_and_halves_the_scale(tiny_config, batches):
    trainer = make_trainer(tiny_config, ClassificationLoss, policy="mixed_float16", loss_scale=LossScale(2.0**24, 1000))
    before = state_of(trainer)
    totals, after = train(trainer, batches, 1)
    assert totals == {
        **{name: {"loss": 0, "accuracy": 0} for name in ("numerators", "denominators")},
        "loss": 0,
        "gradient_norm": 0,
        "num_skipped": 1,
        "loss_scale": 2**23,
    }
    assert (after.pop("loss_scale"), after.pop("loss_scale_steps"), after.pop("global_step")) == (2**23, 0, 1)
    for name, value in after.items():
        assert value.tobytes() == before[name].tobytes(), name

    # The scale halves until the gradients fit, and then the weights change; the metrics cover only those steps.
    totals, after = train(trainer, batches, 8)
    num_skipped = int(totals["num_skipped"])
    assert 1 <= num_skipped <= 7
    assert after["loss_scale"] == totals["loss_scale"] == 2.0 ** (23 - num_skipped)
    assert after["global_step"] == 9
    assert totals["denominators"]["accuracy"] == 8 * (8 - num_skipped)
    assert 0.5 < totals["loss"] / (8 - num_skipped) < 3
    assert math.isfinite(totals["gradient_norm"])
    assert all(np.isfinite(value).all() for value in after.values())
    assert np.abs(after["output_bias"] - before["output_bias"]).min() > 1e-3


def test_the_scale_doubles_after_good_steps_and_halves_after_a_bad_one():
    scale = LossScale(4.0, steps_to_growth=3)

    def after(*steps):
        for is_finite in steps:
            scale.update(tf.constant(is_finite))
        return tuple(float(variable.numpy()) for variable in scale.state.values())

    assert after(True, True) == (4, 2)
    assert after(True) == (8, 0)
    assert after(True, True, False) == (4, 0)
    assert after(True, True, True, True) == (8, 1)
    # The scale is bounded on both sides: a gradient that overflows at 1 has another cause.
    assert after(*[False] * 5) == (1, 0)
    assert after(*[True] * 3 * 30) == (2**24, 0)


@pytest.mark.parametrize(("value", "num_skipped"), [(2.0, 1.0), (1.0, 0.0)])
def test_what_is_not_finite_at_the_lowest_scale_is_told(value, num_skipped):
    result = {"loss": math.inf, "gradient_norm": 1.0, "numerators": {"a": 3.0}}
    told = without_skipped(tf.nest.map_structure(tf.constant, result), tf.constant(value))
    told = tf.nest.map_structure(float, told)
    expected = tf.nest.map_structure(lambda value: 0, result) if num_skipped else result
    assert told == {**expected, "num_skipped": num_skipped}
