"""Batches of examples packed into rows, so that little of them is padding.

A batch has the examples that it has unpacked, in the same step, so that the loss and the gradients of a step are the
same but for dropout, which draws other masks. What changes is the time that a step takes.

Axes: B examples, R rows, T tokens, S sequences of a row, P predictions.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.training.input.feature_batches import LENGTH_STEP
from bert_keras.training.input.packing import first_fit, pack
from bert_keras.training.input.pretraining_batches import prefetched


class PackedShape(NamedTuple):
    """What is fixed of the shape of packed batches.

    Attributes:
        num_parts: int; the rows are shared out to so many parts, filled up with rows that count nothing.
        num_rows: int, R of every part; None: as many as a batch takes.
        max_sequences: int, S of every row; None: the most of any row of a batch.
    """

    num_parts: int = 1
    num_rows: int | None = None
    max_sequences: int | None = None


def pack_batches(batches, shape):
    """Packs the examples of each batch into as few rows as first fit finds that begins with the longest.

    Args:
        batches: `tf.data.Dataset` of dicts of int32 or float32 tensors [B, ...] as of `training.input.packing.pack`.
        shape: a `PackedShape`.

    Returns:
        A `tf.data.Dataset` of dicts of what `pack` gives, [parts, R, ...]; where R is not fixed, T is less than that of
        `batches` if all examples of the batch fill less than a row.
    """
    spec = batches.element_spec
    names, row_length = list(spec), spec["input_mask"].shape[1]
    multiple = shape.num_parts * (shape.num_rows or 1)

    def pack_arrays(*arrays):
        features = dict(zip(names, arrays, strict=True))
        lengths = features["input_mask"].sum(-1)
        order = np.argsort(-lengths, kind="stable")
        length = row_length if shape.num_rows else _cut(lengths.sum(), row_length)
        features = {name: values[order] for name, values in features.items()}
        packed = pack(features, length, shape.max_sequences, row_multiple=multiple)
        return {name: values.reshape(shape.num_parts, -1, *values.shape[1:]) for name, values in packed.items()}

    example = [np.ones([1, *spec[name].shape[1:]], spec[name].dtype.as_numpy_dtype) for name in names]
    specs = {name: _spec(values, shape) for name, values in pack_arrays(*example).items()}

    def packed(batch):
        values = tf.numpy_function(
            lambda *arrays: list(pack_arrays(*arrays).values()),
            [batch[name] for name in names],
            [spec.dtype for spec in specs.values()],
            stateful=False,
        )
        return {
            name: tf.ensure_shape(value, spec.shape) for (name, spec), value in zip(specs.items(), values, strict=True)
        }

    return prefetched(batches.map(packed, tf.data.AUTOTUNE))


def _spec(values, shape):
    """Returns the type of a feature and what is the same in every batch of its shape, of that of one example."""
    parts, rows, _, *rest = values.shape
    fixed = values.shape if shape.num_rows else (parts, None, None, *rest)
    return tf.TensorSpec(fixed, values.dtype)


class Filling(NamedTuple):
    """How full packed rows are.

    Attributes:
        mean_rows: float; rows of a batch.
        most_rows: int; of any batch.
        padding_share: float; of all places.
        unpacked_padding_share: float; the same without packing.
    """

    mean_rows: float
    most_rows: int
    padding_share: float
    unpacked_padding_share: float


def measure_filling(lengths, row_length, is_trimmed=False):
    """Measures how full the rows of packed batches are.

    Args:
        lengths: iterable of int [B], the tokens of the examples of a batch, batch by batch.
        row_length: int, T.
        is_trimmed: whether batches would be cut to their longest example if they were not packed.

    Returns:
        A `Filling`.
    """
    counts, num_tokens, num_places, num_unpacked_places = [], 0, 0, 0
    for of_batch in lengths:
        of_batch = np.sort(of_batch)[::-1]
        counts.append(len(first_fit(of_batch.tolist(), row_length)))
        num_tokens += int(of_batch.sum())
        num_places += counts[-1] * _cut(of_batch.sum(), row_length)
        num_unpacked_places += len(of_batch) * (_cut(of_batch[0], row_length) if is_trimmed else row_length)
    return Filling(
        sum(counts) / len(counts), max(counts), 1 - num_tokens / num_places, 1 - num_tokens / num_unpacked_places
    )


def _cut(length, longest):
    """Returns to what length a batch is cut that needs so many tokens."""
    return min(longest, -(-int(length) // LENGTH_STEP) * LENGTH_STEP)
