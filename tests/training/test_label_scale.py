"""A regression on numbers of any scale trains like one on standardised numbers."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from states import assert_bit_equal, state_of, weights_of
from tiny_training import make_batches, make_trainer

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.modeling import ClassifierModel, RegressionLoss
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.tasks.distillation.loss import _soft_losses


def train(config, mean, std, ema_decay=0.0):
    """Trains on the same standard numbers in another unit; returns the state and the losses of the steps."""
    adam = {"weight_decay_rate": 0.1}
    make_loss = functools.partial(RegressionLoss, mean=mean, std=std)
    trainer = make_trainer(config, make_loss, num_classes=1, adam=adam, ema_decay=ema_decay)
    labels = (mean + std * np.random.default_rng(1).normal(size=16)).astype(np.float32)
    batches = iter(in_parts(make_batches(16, label_values=labels)))
    losses = [float(trainer.train(batches, tf.constant(1))["loss"]) for _ in range(2)]
    return state_of(trainer), losses


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(("mean", "std", "ema_decay"), [(-3e-6, 1e-6, 0.9), (2e6, 1e6, 0)])
def test_the_unit_of_the_labels_changes_nothing_but_the_unit_of_the_head(tiny_config, mean, std, ema_decay):
    plain, plain_losses = train(tiny_config, 0.0, 1.0, ema_decay)
    state, losses = train(tiny_config, mean, std, ema_decay)
    # Rounding to float32 differs, and the first steps of Adam amplify it.
    np.testing.assert_allclose(losses, plain_losses, rtol=1e-5)
    for name, value in plain.items():
        if name.startswith("output_") and "adam" not in name:
            value = value * std + (mean if "bias" in name else 0)
            np.testing.assert_allclose(state[name], value, rtol=1e-4, atol=1e-3 * std, err_msg=name)
        elif name == "output_weights/adam_m":  # moments have no unit
            np.testing.assert_allclose(state[name], value, rtol=1e-2, atol=1e-4, err_msg=name)


def test_without_a_scale_nothing_changes(tiny_config):
    keras.utils.set_random_seed(3)
    model = ClassifierModel(tiny_config, 1)
    before = weights_of(model)
    loss = RegressionLoss(model)
    assert loss.weight_units == {}
    assert_bit_equal(weights_of(model), before)


@pytest.mark.parametrize("policy", ["mixed_bfloat16", "mixed_float16", "bfloat16"])
def test_the_head_computes_numbers_that_16_bits_cannot_hold(tiny_config, policy):
    with dtype_policy(policy):
        model = ClassifierModel(tiny_config, 1)
    RegressionLoss(model, 2_000_001.0, 100_000.0)
    ids = np.arange(1, 7, dtype=np.int32).reshape(2, 3)
    features = {"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)}
    scale = model.head.output_weights.numpy().astype(np.float64)
    logits = model(features)["logits"].numpy().astype(np.float64)
    # The same head on the same pooled vectors, computed in float64.
    pooled = np.asarray(tf.cast(model.bert(features)["pooled_output"], tf.float64))
    np.testing.assert_allclose(logits, pooled @ scale.T + 2_000_001.0, rtol=1e-6)


def test_a_teacher_is_compared_in_standard_deviations(tiny_config):
    loss = RegressionLoss(ClassifierModel(tiny_config, 1), 100.0, 10.0)
    outputs, targets = ({"logits": tf.constant([[value]])} for value in (120.0, 90.0))
    assert _soft_losses(loss, outputs, targets, 1.0, {}).numpy() == pytest.approx([9.0])
