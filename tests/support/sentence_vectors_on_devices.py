"""Run by `test_several_devices.py`: trains vectors on one device and on two, in two precisions, and compares."""

import contextlib

import numpy as np
import tensorflow as tf
from eager import without_graphs
from states import state_of
from text_numbers import make_examples
from tiny_bert import make_config, with_random_weights

from bert_keras.engine.distribution.devices import create_strategy, distribute
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule, SentenceModel
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.tasks.vectors.losses import RankingLoss

CONFIG = make_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)


def train(strategy, policy="float32", scale=None, num_micro_batches=1):
    """Returns the totals of three steps and the state after them."""
    with strategy.scope():
        with dtype_policy(policy):
            loss = RankingLoss(with_random_weights(SentenceModel(CONFIG), 1))
        loss_scale = LossScale(scale) if scale else None
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-3, 100))
    trainer = TensorFlowTrainer(loss, optimizer, strategy, 5, num_micro_batches, loss_scale=loss_scale)
    num_parts = strategy.num_replicas_in_sync * num_micro_batches
    batches = in_parts(tf.data.Dataset.from_tensors(make_examples()).repeat(), num_parts)
    totals = trainer.train(iter(distribute(strategy, batches, is_endless=True)), tf.constant(3))
    return tf.nest.map_structure(float, totals), state_of(trainer)


def main():
    [processor] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    one_device, devices = create_strategy("one"), create_strategy("mirrored")

    # Each text is compared with those of both devices, so the loss is that of one device.
    with without_graphs():
        totals, state = train(one_device)
    for num_micro_batches in (1, 2):
        found = train(devices, num_micro_batches=num_micro_batches)
        for first, second in zip(tf.nest.flatten((totals, state)), tf.nest.flatten(found), strict=True):
            np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-6 * max(1.0, np.abs(first).max()))

    for policy, scale in (("mixed_float16", 2.0**10), ("mixed_bfloat16", None)):
        for strategy in (one_device, devices):
            with without_graphs() if strategy is one_device else contextlib.nullcontext():
                found, state = train(strategy, policy, scale)
            np.testing.assert_allclose(found["loss"], totals["loss"], rtol=0.01 if scale else 0.05)
            np.testing.assert_allclose(found["gradient_norm"], totals["gradient_norm"], rtol=0.02 if scale else 0.1)
            assert not found.get("num_skipped"), found
            assert all(np.isfinite(value).all() for value in state.values())
    print("compared with the texts of both devices, and in 16 bits as in 32")


if __name__ == "__main__":
    main()
