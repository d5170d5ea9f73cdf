"""Batches of examples packed into rows, which reduces padding.

A batch has the same examples as without packing, so the loss and the gradients of a step are the same except for
dropout masks. Axes: B examples, R rows, T tokens, S sequences of a row, P predictions.
"""

from typing import NamedTuple

import numpy as np
import tensorflow as tf

from bert_keras.training.input.feature_batches import LENGTH_STEP
from bert_keras.training.input.packing import first_fit, pack
from bert_keras.training.input.pretraining_batches import prefetched


class PackedShape(NamedTuple):
    """The fixed dimensions of packed batches; None: what a batch needs."""

    # Parts that share the rows; rows of padding make the parts equal.
    num_parts: int = 1
    # R of every part.
    num_rows: int | None = None
    # S of every row.
    max_sequences: int | None = None


def pack_batches(batches, shape):
    """Packs the examples [B, ...] of each batch into few rows [parts, R, ...], the longest examples first.

    If a `PackedShape` fixes no R, and all examples of a batch need less than a row, T is reduced.
    """
    spec = batches.element_spec
    names, row_length = list(spec), spec["input_mask"].shape[1]

    def pack_arrays(*arrays):
        features = dict(zip(names, arrays, strict=True))
        lengths = features["input_mask"].sum(-1)
        order = np.argsort(-lengths, kind="stable")
        length = row_length if shape.num_rows else _cut(lengths.sum(), row_length)
        features = {name: values[order] for name, values in features.items()}
        multiple = shape.num_parts * (shape.num_rows or 1)
        packed = pack(features, length, shape.max_sequences, row_multiple=multiple)
        return {name: values.reshape(shape.num_parts, -1, *values.shape[1:]) for name, values in packed.items()}

    example = [np.ones([1, *spec[name].shape[1:]], spec[name].dtype.as_numpy_dtype) for name in names]
    specs = {}
    for name, values in pack_arrays(*example).items():
        num_parts, _, _, *rest = values.shape
        fixed = values.shape if shape.num_rows else (num_parts, None, None, *rest)
        specs[name] = tf.TensorSpec(fixed, values.dtype)

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


class Filling(NamedTuple):
    """Rows of a batch, and the share of padding in all positions."""

    mean_rows: float
    most_rows: int
    padding_share: float
    unpacked_padding_share: float


def measure_filling(lengths, row_length, is_trimmed=False):
    """Measures how full packed rows of `row_length` tokens are, from the lengths of each batch's examples.

    `is_trimmed` says whether batches would be cut to their longest example without packing.
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
    """Returns the length to which a batch with this many tokens is cut."""
    return min(longest, -(-int(length) // LENGTH_STEP) * LENGTH_STEP)
