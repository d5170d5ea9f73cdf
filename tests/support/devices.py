"""Makes devices of this processor, and trains on one or on all of them, for comparisons."""

import numpy as np
import tensorflow as tf
from states import state_of

from bert_keras.engine.distribution.devices import create_strategy, distribute
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule


def split_processor(count):
    """Makes several devices of the processor; call it before TensorFlow computes anything."""
    [processor] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * count)


def compare(count, functions):
    """Calls functions with the strategies for one device and for several."""
    split_processor(count)
    one_device, devices = create_strategy("one"), create_strategy("mirrored")
    assert devices.num_replicas_in_sync == count
    for function in functions:
        function(one_device, devices)


def make_trainer(loss, strategy, learning_rate=5e-5, clip_norm=1.0, **options):
    """Returns a trainer with the seed 7."""
    optimizer = AdamWeightDecay(LearningRateSchedule(learning_rate, 100), clip_norm=clip_norm)
    return TensorFlowTrainer(loss, optimizer, strategy, 7, **options)


def batches_for(trainer, batches):
    """Returns batches in parts for the devices of a trainer; dicts of arrays count as one batch for all steps."""
    if isinstance(batches, dict):
        batches = tf.data.Dataset.from_tensors(batches).repeat()
    num_parts = trainer.strategy.num_replicas_in_sync * trainer.num_micro_batches
    return iter(distribute(trainer.strategy, in_parts(batches, num_parts), is_endless=True))


def train(trainer, batches, num_steps):
    """Returns the totals of some steps and the state after them."""
    totals = trainer.train(batches_for(trainer, batches), tf.constant(num_steps))
    return tf.nest.map_structure(float, totals), state_of(trainer)


def assert_as_one(found, expected, rtol=0.0):
    """Compares nested numbers and arrays: each may be off by a share of itself, and by a millionth of the largest."""
    for value, other in zip(tf.nest.flatten(found), tf.nest.flatten(expected), strict=True):
        np.testing.assert_allclose(value, other, rtol=rtol, atol=1e-6 * max(1.0, np.abs(other).max()))
