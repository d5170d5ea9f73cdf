"""Batches of features in memory: shuffled without end as a function of seed and step, or each example once."""

from collections.abc import Mapping

import numpy as np
import tensorflow as tf

from bert_keras.engine.input.pretraining_batches import as_written, prefetched

# The length of a trimmed batch is a multiple of this, which keeps the number of different shapes small.
LENGTH_STEP = 8


def training_batches(
    features: Mapping[str, np.ndarray],
    batch_size: int,
    seed: int,
    start_step: int = 0,
    is_trimmed: bool = False,
    length_step: int = LENGTH_STEP,
) -> tf.data.Dataset:
    """Makes endless batches of int32 or float32 tensors [B, ...], from the batch of `start_step` on.

    Example n is at position n % N of epoch n // N. The seed and the epoch determine the order, so an interrupted run
    resumes exactly. The original BERT shuffles only within 100 records, so files sorted by label train badly there.

    Args:
        features: arrays with the examples as first axis, one of them "input_mask" [N, ..., T].
        is_trimmed: whether to cut each batch to its longest sequence, which removes only padding.
        length_step: the length of a trimmed batch is a multiple of this, or T.
    """
    num_rows = len(features["input_mask"])

    @as_written
    def row_of(number: tf.Tensor) -> tf.Tensor:
        epoch_seed = tf.stack([tf.constant(seed, tf.int64), number // num_rows])
        return tf.random.experimental.index_shuffle(number % num_rows, epoch_seed, max_index=num_rows - 1)

    numbers = tf.data.Dataset.range(start_step * batch_size, tf.int64.max, output_type=tf.int64)
    rows = numbers.map(row_of).batch(batch_size, drop_remainder=True)
    return _gather(features, rows, batch_size, length_step if is_trimmed else None)


def in_parts(batches: tf.data.Dataset, num_parts: int = 1) -> tf.data.Dataset:
    """Splits each batch [B, ...] into equal parts, [parts, rows, ...], as a training step takes it."""

    def split(values: tf.Tensor) -> tf.Tensor:
        parts = tf.reshape(values, tf.concat([[num_parts, -1], tf.shape(values)[1:]], 0))
        num_rows = values.shape[0] and values.shape[0] // num_parts
        return tf.ensure_shape(parts, [num_parts, num_rows, *values.shape[1:]])

    return batches.map(as_written(lambda batch: {name: split(values) for name, values in batch.items()}))


def prediction_batches(
    features: Mapping[str, np.ndarray], batch_size: int, is_trimmed: bool = False, length_step: int = 1
) -> tuple[tf.data.Dataset, np.ndarray]:
    """Makes batches as `training_batches` does, with each example once; returns them and the order of the examples.

    Trimmed batches group examples of similar length, so that many have the same length and little padding without being
    rounded up. Copies of the last example fill the last batch.
    """
    num_rows = len(features["input_mask"])
    order = np.argsort(-_lengths(features), stable=True) if is_trimmed else np.arange(num_rows)
    padded = np.concatenate([order, np.full(-num_rows % batch_size, order[-1])])
    return batches_of(features, padded.reshape(-1, batch_size), is_trimmed, length_step), order


def batches_of(
    features: Mapping[str, np.ndarray], rows: np.ndarray, is_trimmed: bool = False, length_step: int = LENGTH_STEP
) -> tf.data.Dataset:
    """Makes batches as `training_batches` does, of the examples in each row of int [steps, B]."""
    return _gather(
        features, tf.data.Dataset.from_tensor_slices(rows), rows.shape[1], length_step if is_trimmed else None
    )


def _lengths(features: Mapping[str, np.ndarray]) -> np.ndarray:
    """Returns int [N]: the tokens of each example, or of the longest sequence of an example."""
    lengths = features["input_mask"].sum(-1, dtype=np.int32)
    return lengths.reshape(len(lengths), -1).max(-1)


def _gather(
    features: Mapping[str, np.ndarray], rows: tf.data.Dataset, batch_size: int, length_step: int | None
) -> tf.data.Dataset:
    """Makes batches from the numbers of their examples; a `length_step` of None trims nothing."""
    # Small integers stay small in memory; batches of them become int32.
    tensors = {
        name: tf.constant(values if values.dtype in (np.int8, np.int32, np.float32) else values.astype(np.int32))
        for name, values in features.items()
    }
    batch_of = as_written(lambda rows: _batch_of(tensors, rows, length_step, batch_size))
    return prefetched(rows.map(batch_of, tf.data.AUTOTUNE))


def _batch_of(
    tensors: dict[str, tf.Tensor], rows: tf.Tensor, length_step: int | None, batch_size: int
) -> dict[str, tf.Tensor]:
    batch = {name: tf.gather(values, rows) for name, values in tensors.items()}
    if length_step:
        shape = batch["input_mask"].shape
        longest = tf.reduce_max(tf.reduce_sum(tf.cast(batch["input_mask"], tf.int32), -1))
        length = tf.minimum(-(-longest // length_step) * length_step, shape[-1])
        # Integers of the mask's shape have one value for each token; floats are labels, even in that shape.
        batch = {
            name: value[..., :length] if value.shape == shape and value.dtype != tf.float32 else value
            for name, value in batch.items()
        }
    batch = {name: value if value.dtype == tf.float32 else tf.cast(value, tf.int32) for name, value in batch.items()}
    return {name: tf.ensure_shape(value, [batch_size, *value.shape[1:]]) for name, value in batch.items()}
