"""Batches of features in memory: shuffled without end as a function of seed and step, or each example once.

Example n of the endless stream is at position n % N of epoch n // N. The seed and the epoch determine the order, so an
interrupted run resumes exactly where it stopped.
"""

import numpy as np
import tensorflow as tf

from bert_keras.training.input.pretraining_batches import prefetched

# The length of a trimmed batch is a multiple of this, which keeps the number of different shapes small.
LENGTH_STEP = 8


def training_batches(features, batch_size, seed, start_step=0, is_trimmed=False, length_step=LENGTH_STEP):
    """Makes endless batches, shuffled differently in each epoch.

    The original BERT shuffles only within 100 records, so files sorted by label train badly there.

    Args:
        features: dict of arrays with the examples as first axis, one of them "input_mask" [N, ..., T].
        batch_size: int, B.
        seed: int.
        start_step: int; the step of the first batch.
        is_trimmed: whether to cut each batch to its longest sequence, which removes only padding.
        length_step: int; the length of a trimmed batch is a multiple of this, or T.

    Returns:
        A `tf.data.Dataset` of dicts of int32 or float32 tensors [B, ...].
    """
    num_rows = len(features["input_mask"])
    tensors = _tensors(features)

    def row_of(number):
        epoch_seed = tf.stack([tf.constant(seed, tf.int64), number // num_rows])
        return tf.random.experimental.index_shuffle(number % num_rows, epoch_seed, max_index=num_rows - 1)

    numbers = tf.data.Dataset.range(start_step * batch_size, tf.int64.max, output_type=tf.int64)
    batches = numbers.map(row_of).batch(batch_size, drop_remainder=True)
    step = length_step if is_trimmed else None
    batches = batches.map(lambda rows: _rows_of(tensors, rows, step, batch_size), tf.data.AUTOTUNE)
    return prefetched(batches)


def prediction_batches(features, batch_size, is_trimmed=False, length_step=LENGTH_STEP):
    """Makes batches that contain each example once; trimmed batches group examples of similar length.

    Copies of the last example fill the last batch to size B.

    Args:
        features, batch_size, is_trimmed, length_step: as of `training_batches`.

    Returns:
        A `tf.data.Dataset` as of `training_batches`; and int64 [N], the examples in the order of the batches.
    """
    num_rows = len(features["input_mask"])
    order = np.argsort(-_lengths(features), kind="stable") if is_trimmed else np.arange(num_rows)
    tensors = _tensors(features)
    padded = np.concatenate([order, np.full(-num_rows % batch_size, order[-1])])
    batches = tf.data.Dataset.from_tensor_slices(padded.reshape(-1, batch_size))
    step = length_step if is_trimmed else None
    batches = batches.map(lambda rows: _rows_of(tensors, rows, step, batch_size), tf.data.AUTOTUNE)
    return prefetched(batches), order


def _tensors(features):
    return {name: tf.constant(_narrow(values)) for name, values in features.items()}


def _narrow(values):
    """Keeps small integers small in memory; batches of them become int32."""
    return values if values.dtype in (np.int8, np.int32, np.float32) else values.astype(np.int32)


def _lengths(features):
    """Returns int [N]: the tokens of each example, or of the longest sequence of an example."""
    lengths = features["input_mask"].astype(np.int32).sum(-1)
    return lengths.reshape(len(lengths), -1).max(-1)


def _rows_of(tensors, rows, length_step, batch_size):
    batch = {name: tf.gather(values, rows) for name, values in tensors.items()}
    if length_step:
        num_tokens = batch["input_mask"].shape[-1]
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(batch["input_mask"], tf.int32), -1))
        length = tf.minimum(-(-longest // length_step) * length_step, num_tokens)
        shape = batch["input_mask"].shape
        # Integers of the mask's shape have one value for each token; floats are labels, even in that shape.
        batch = {
            name: value[..., :length] if value.shape == shape and value.dtype != tf.float32 else value
            for name, value in batch.items()
        }
    batch = {name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32) for name, value in batch.items()}
    return {name: tf.ensure_shape(value, [batch_size, *value.shape[1:]]) for name, value in batch.items()}
