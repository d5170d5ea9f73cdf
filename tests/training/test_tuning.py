"""The constants of training as settings: three steps against NumPy, and averages of weights."""

import math

import numpy as np
import pytest
import tensorflow as tf
from lookup_loss import LookupLoss
from states import assert_bit_equal

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.engine.trainer import make_trainer
from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule
from bert_keras.settings.groups import RunSettings, values_of

STRATEGY = tf.distribute.get_strategy()
SETTINGS = {"learning_rate": 0.1, "num_train_steps": 4, "num_warmup_steps": 1}
SETTINGS |= {"seed": 0}
IDS = tf.constant([[0, 0, 0], [0, 1, 2]], tf.int32)
# The mean distance of six ids, four of them 0, in a table of width 2.
GRADIENT = -np.repeat([[4], [1], [1], [0]], 2, axis=1) / 6
START = np.linspace(-1, 1, 8).reshape(4, 2)


def take_steps(trainer, num_steps):
    batches = in_parts(tf.data.Dataset.from_tensors({"input_ids": IDS}), trainer.num_micro_batches).repeat()
    return trainer.train(iter(batches), tf.constant(num_steps))


def state_of(trainer):
    """Returns the state, with the name "table" for that of the only weight."""
    name = trainer.loss.model.weights[0].path
    return {key.replace(name, "table"): variable.numpy() for key, variable in trainer.state.items()}


def make(scale=1.0, **settings):
    loss = LookupLoss(scale)
    loss.model.weights[0].assign(START)
    return make_trainer(loss, STRATEGY, RunSettings(**SETTINGS | settings))


def rate(step, schedule):
    """Computes the learning rate after one step of warm-up, for the four steps of a run."""
    if step < 1:
        return 0.1 * step
    shapes = {"linear": 1 - step / 4, "constant": 1.0, "cosine": (1 + math.cos(math.pi * (step - 1) / 3)) / 2}
    return 0.1 * shapes[schedule]


def numpy_steps(num_steps, scale=1.0, **settings):
    """Returns weight, m, v and average after the steps, and the gradient's norm, all computed in float64."""
    chosen = values_of(RunSettings(**settings))
    beta_1, beta_2, decay = chosen["adam_beta_1"], chosen["adam_beta_2"], chosen["weight_decay_rate"]
    gradient = scale * GRADIENT
    norm = np.sqrt(np.sum(gradient**2))
    if chosen["clip_norm"]:
        gradient = gradient * min(1.0, chosen["clip_norm"] / norm)
    w, m, v, e = START, 0.0, 0.0, START
    for step in range(num_steps):
        m = beta_1 * m + (1 - beta_1) * gradient
        v = beta_2 * v + (1 - beta_2) * gradient**2
        update = m / (np.sqrt(v) + chosen["adam_epsilon"]) + decay * w
        w = w - rate(step, chosen["learning_rate_schedule"]) * update
        d = min(chosen["ema_decay"], (1 + step) / (10 + step))
        e = d * e + (1 - d) * w
    return w, m, v, e, norm


@pytest.mark.parametrize(
    ("scale", "settings"),
    [
        (1.0, {}),
        (1.0, {"weight_decay_rate": 0.5}),
        (1.0, {"weight_decay_rate": 0.0, "adam_beta_1": 0.5}),
        (1.0, {"adam_beta_2": 0.8, "adam_epsilon": 0.1}),
        (30.0, {"clip_norm": 7.0}),
        (30.0, {"clip_norm": 0.0}),
        (1.0, {"learning_rate_schedule": "constant"}),
        (1.0, {"learning_rate_schedule": "cosine", "adam_beta_1": 0.0}),
    ],
    ids=lambda value: "_".join(value) if isinstance(value, dict) else "",
)
def test_three_steps_equal_the_formulas(scale, settings):
    trainer = make(scale, **settings)
    totals = take_steps(trainer, 3)
    *expected, norm = numpy_steps(3, scale, **settings)
    state = state_of(trainer)
    assert state.keys() == {"global_step", "table", "table/adam_m", "table/adam_v"}
    for name, value in zip(("table", "table/adam_m", "table/adam_v"), expected, strict=False):
        np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-6, err_msg=name)
    assert float(totals["gradient_norm"]) == pytest.approx(3 * norm, rel=1e-5)


# The decay of the first four steps is at most 0.1, 0.18, 0.25 and 0.31.
@pytest.mark.parametrize(("ema_decay", "num_parts"), [(0.2, 1), (0.9, 1), (0.9, 2)])
def test_averages_equal_the_formula_and_do_not_change_the_training(ema_decay, num_parts):
    plain, averaged = make(), make(ema_decay=ema_decay, gradient_accumulation_steps=num_parts)
    for trainer in (plain, averaged):
        take_steps(trainer, 4)
    plain, state = state_of(plain), state_of(averaged)
    average = state.pop("table")
    np.testing.assert_allclose(average, numpy_steps(4, ema_decay=ema_decay)[3], rtol=1e-5, atol=1e-6)
    state["table"] = state.pop("table/unaveraged")
    assert np.abs(average - state["table"]).max() > 0.01
    if num_parts == 1:
        assert_bit_equal(state, plain)
    else:
        np.testing.assert_allclose(state["table"], plain["table"], rtol=1e-5)


def test_the_model_gets_the_averages_and_its_weights_back():
    trainer = make(ema_decay=0.9)
    take_steps(trainer, 3)
    [weight], state = trainer.loss.model.weights, state_of(trainer)
    trainer.swap_averages()
    assert weight.numpy().tobytes() == state["table"].tobytes()
    trainer.swap_averages()
    assert_bit_equal(state_of(trainer), state)
    assert weight.numpy().tobytes() == state["table/unaveraged"].tobytes()
    # Without averages nothing is exchanged.
    plain = make()
    plain.swap_averages()
    np.testing.assert_allclose(state_of(plain)["table"], START, rtol=1e-6)


def test_a_step_that_overflows_does_not_count_for_the_averages():
    loss = LookupLoss(scale=1e38)
    optimizer = AdamWeightDecay(LearningRateSchedule(0.1, 10))
    trainer = TensorFlowTrainer(loss, optimizer, STRATEGY, 0, loss_scale=LossScale(2.0**15), ema_decay=0.9)
    before = state_of(trainer)
    totals = take_steps(trainer, 2)
    assert float(totals["num_skipped"]) == 2
    after = state_of(trainer)
    for name in ("table", "table/unaveraged", "table/adam_m"):
        assert after[name].tobytes() == before[name].tobytes(), name


def test_averages_and_weights_continue_from_a_state():
    whole, parts = make(ema_decay=0.9), make(ema_decay=0.9)
    take_steps(whole, 4)
    take_steps(parts, 2)
    continued = make(ema_decay=0.9)
    for variable, (name, value) in zip(continued.state.values(), state_of(parts).items(), strict=True):
        assert (name == "global_step") == (variable.shape == [])
        variable.assign(value)
    take_steps(continued, 2)
    assert_bit_equal(state_of(continued), state_of(whole))
