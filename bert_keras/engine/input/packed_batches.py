"""Training on batches of examples packed into rows, which reduces padding.

A batch has the same examples as without packing, so the loss and the gradients of a step are the same except for
dropout masks. Axes: B examples, R rows, T tokens, S sequences of a row, P predictions.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping

import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.input.feature_batches import LENGTH_STEP, training_batches
from bert_keras.engine.input.packing import first_fit, pack
from bert_keras.engine.input.pretraining_batches import as_written, prefetched
from bert_keras.settings.groups import RunSettings

log = logging.getLogger("bert_keras")

# Batches of records to measure; enough for a mean.
_NUM_MEASURED = 100
# Coarse numbers of rows are multiples of the most rows divided by this, and those of places multiples of this.
_NUM_SIZES = 8


def packed_training_batches(
    features: Mapping[str, np.ndarray],
    settings: RunSettings,
    num_devices: int,
    start_step: int = 0,
    is_trimmed: bool = False,
    is_fixed: bool = False,
) -> tf.data.Dataset:
    """Packs the batches of fine-tuning, and logs how full the rows are.

    Args:
        num_devices: each device gets its own parts.
        is_trimmed: whether unpacked batches would be cut to their longest sequence.
        is_fixed: whether all batches have one shape, with as many rows as the largest batch of the run needs.
    """
    batch_size, seed, mask = settings.train_batch_size, settings.seed, features["input_mask"]
    num_parts = num_devices * settings.gradient_accumulation_steps
    num_examples, row_length = mask.shape
    num_batches = settings.num_train_steps if is_fixed else max(1, num_examples // batch_size)
    most_rows = _log_filling(_lengths_of_batches(mask, settings, num_batches), row_length, is_trimmed)
    num_rows = -(-most_rows // num_parts) if is_fixed else None
    max_sequences = min(batch_size, row_length // int(mask.sum(-1, dtype=np.int32).min()))
    return pack_batches(training_batches(features, batch_size, seed, start_step), num_parts, num_rows, max_sequences)


def is_worth_packing(mask: np.ndarray, settings: RunSettings, num_devices: int, is_trimmed: bool) -> bool:
    """Returns whether packed batches are a tenth smaller or more, from the mask of all examples: integers [N, T]."""
    num_parts, row_length = num_devices * settings.gradient_accumulation_steps, mask.shape[1]
    num_batches = min(_NUM_MEASURED, max(1, len(mask) // settings.train_batch_size))
    num_places = num_unpacked_places = 0
    for lengths in _lengths_of_batches(mask, settings, num_batches):
        num_rows = len(first_fit(np.sort(lengths)[::-1].tolist(), row_length))
        num_places += -(-num_rows // num_parts) * num_parts * _cut(lengths.sum(), row_length)
        num_unpacked_places += len(lengths) * (_cut(lengths.max(), row_length) if is_trimmed else row_length)
    return num_places <= 0.9 * num_unpacked_places


def _lengths_of_batches(mask: np.ndarray, settings: RunSettings, num_batches: int) -> Iterator[np.ndarray]:
    """Returns the lengths of the examples of the first batches, in training order."""
    # One column of the mask is enough.
    features = {"input_mask": mask[:, :1], "lengths": mask.sum(-1, dtype=np.int32)}
    batches = training_batches(features, settings.train_batch_size, settings.seed).take(num_batches)
    return (batch["lengths"] for batch in batches.as_numpy_iterator())


def pack_examples(
    batches: tf.data.Dataset, measured: tf.data.Dataset, settings: RunSettings, num_devices: int
) -> tf.data.Dataset:
    """Packs batches of pre-training examples, and logs how full the rows of the first batches of `measured` are."""
    row_length = batches.element_spec["input_mask"].shape[1]
    lengths = measured.take(_NUM_MEASURED).map(as_written(lambda batch: tf.reduce_sum(batch["input_mask"], -1)))
    _log_filling(lengths.as_numpy_iterator(), row_length)
    # JAX compiles a program for each shape.
    is_coarse = keras.backend.backend() == "jax"
    return pack_batches(batches, num_devices * settings.gradient_accumulation_steps, is_coarse=is_coarse)


def pack_batches(
    batches: tf.data.Dataset,
    num_parts: int = 1,
    num_rows: int | None = None,
    max_sequences: int | None = None,
    is_coarse: bool = False,
) -> tf.data.Dataset:
    """Packs the examples [B, ...] of each batch into few rows [parts, R, ...], the longest examples first.

    Rows of padding make the parts equal. Without fixed numbers of rows (of a part) and of sequences (of a row), each
    batch has those that it needs; if it needs less than a row, T is reduced. `is_coarse` rounds these numbers and that
    of predictions up to one of a few, with padding that changes no result.
    """
    spec = batches.element_spec
    names, row_length = list(spec), spec["input_mask"].shape[1]

    def pack_arrays(*arrays: np.ndarray) -> dict[str, np.ndarray]:
        features = dict(zip(names, arrays, strict=True))
        lengths = features["input_mask"].sum(-1)
        order = np.argsort(-lengths, stable=True)
        length = row_length if num_rows else _cut(lengths.sum(), row_length)
        features = {name: values[order] for name, values in features.items()}
        step = -(-len(order) // (num_parts * _NUM_SIZES)) if is_coarse else 1
        row_multiple, multiple = num_parts * (num_rows or step), _NUM_SIZES if is_coarse else 1
        packed = pack(features, length, max_sequences, row_multiple=row_multiple, multiple=multiple)
        return {name: values.reshape(num_parts, -1, *values.shape[1:]) for name, values in packed.items()}

    example = [np.ones([1, *spec[name].shape[1:]], spec[name].dtype.as_numpy_dtype) for name in names]
    specs = {}
    for name, values in pack_arrays(*example).items():
        fixed = values.shape if num_rows else (num_parts, None, None, *values.shape[3:])
        specs[name] = tf.TensorSpec(fixed, values.dtype)

    @as_written
    def packed(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
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


def _log_filling(lengths: Iterable[np.ndarray], row_length: int, is_trimmed: bool = False) -> int:
    """Logs how full packed rows are, from the lengths of each batch's examples; returns the most rows of a batch.

    `is_trimmed` says whether batches would be cut to their longest example without packing.
    """
    counts, num_tokens, num_places, num_unpacked_places = [], 0, 0, 0
    for batch_lengths in lengths:
        batch_lengths = np.sort(batch_lengths)[::-1]
        counts.append(len(first_fit(batch_lengths.tolist(), row_length)))
        num_tokens += int(batch_lengths.sum())
        num_places += counts[-1] * _cut(batch_lengths.sum(), row_length)
        num_unpacked_places += len(batch_lengths) * (_cut(batch_lengths[0], row_length) if is_trimmed else row_length)
    log.info(
        "packing: %d examples fill %.1f rows of %d tokens, at most %d; padding: %.1f %%, unpacked %.1f %%",
        len(batch_lengths),
        sum(counts) / len(counts),
        row_length,
        max(counts),
        100 * (1 - num_tokens / num_places),
        100 * (1 - num_tokens / num_unpacked_places),
    )
    return max(counts)


def _cut(length: int | np.integer, longest: int) -> int:
    """Returns the length to which a batch with this many tokens is cut."""
    return min(longest, -(-int(length) // LENGTH_STEP) * LENGTH_STEP)
