"""Run by `test_several_devices.py`: trains ELECTRA on one device and on two, and compares."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf
from eager import without_graphs
from states import state_of
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.engine.distribution.devices import create_strategy, distribute
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.input.pretraining_batches import seeded_batches
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    LearningRateSchedule,
    ReplacedTokenLoss,
    ReplacedTokenModel,
)

CONFIG = make_config(
    num_hidden_layers=1, embedding_size=6, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0, vocab_size=200
)


def train(strategy, examples, num_steps, seed=None, num_micro_batches=1):
    """Returns the totals of some steps and the state after them; the random weights are the same at every call."""
    keras.utils.set_random_seed(3)
    with strategy.scope():
        config = dataclasses.replace(CONFIG, initializer_range=0.3)
        loss = ReplacedTokenLoss(with_random_weights(ReplacedTokenModel(config), seed=2), generator_size=0.5)
    optimizer = AdamWeightDecay(LearningRateSchedule(5e-5, 100))
    trainer = TensorFlowTrainer(loss, optimizer, strategy, 7, num_micro_batches)
    batches = tf.data.Dataset.from_tensors(examples).repeat()
    if seed is not None:
        batches = seeded_batches(batches, seed, 0)
    batches = in_parts(batches, strategy.num_replicas_in_sync * num_micro_batches)
    totals = trainer.train(iter(distribute(strategy, batches, is_endless=True)), tf.constant(num_steps))
    return tf.nest.map_structure(float, totals), state_of(trainer)


def main():
    [processor] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    one_device, devices = create_strategy("one"), create_strategy("mirrored")

    # Each device has its own copy of one example, and replaces its tokens by its own samples.
    example = make_features(CONFIG, 1)
    copies = {name: np.repeat(values, 2, axis=0) for name, values in example.items()}
    with without_graphs():
        one, _ = train(one_device, example, 1)
    two, _ = train(devices, copies, 1)
    means = [each["numerators"]["masked_lm_loss"] / each["denominators"]["masked_lm_loss"] for each in (one, two)]
    np.testing.assert_allclose(*means, rtol=1e-6)
    assert abs(one["loss"] - two["loss"]) > 1e-3, (one["loss"], two["loss"])

    # With a seed for each example, everything is the same, also in parts.
    examples = make_features(CONFIG, 8, num_tokens=16)
    with without_graphs():
        expected = train(one_device, examples, 3, seed=4)
        assert train(one_device, examples, 3, seed=5)[0]["loss"] != expected[0]["loss"]
    for strategy, num_micro_batches in ((one_device, 2), (devices, 1), (devices, 4)):
        found = train(strategy, examples, 3, seed=4, num_micro_batches=num_micro_batches)
        for first, second in zip(tf.nest.flatten(expected), tf.nest.flatten(found), strict=True):
            np.testing.assert_allclose(second, first, rtol=1e-4, atol=1e-6 * max(1.0, np.abs(first).max()))
    print("samples of their own, and as one with a seed for each example")


if __name__ == "__main__":
    main()
