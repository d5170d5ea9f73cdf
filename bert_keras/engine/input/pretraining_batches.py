"""Batches of pre-training examples from records, as a pure function of a seed and a step.

The order of the training examples depends only on the seed, so an interrupted run resumes exactly where it stopped.
Example n of the endless stream is at position n % N of epoch n // N, and the epoch's number seeds its shuffle.
Records without masks get them here, differently in each epoch (RoBERTa, section 4.1).
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.records.reading import (
    PLACE_PREFIX,
    PLACES_PER_FILE,
    PretrainingRecords,
    example_features,
    feature_ranges,
)
from bert_keras.modeling.heads import NUM_SPAN_POSITIONS

# Differs from the original BERT, which shuffles within 100 records and reads files in an order that depends on the
# disk. Here the buffer is larger and the interleaving fixed, because the order must be the same after a restart.
_SHUFFLE_BUFFER = 10_000
_FILES_AT_ONCE = 4
_BATCHES_AHEAD = 2
# For functions of a dataset: they have no control flow in Python, and AutoGraph would rewrite each of them.
as_written = tf.autograph.experimental.do_not_convert


def training_batches(records: PretrainingRecords, batch_size: int, seed: int, start_step: int = 0) -> tf.data.Dataset:
    """Reads endless shuffled batches, from the batch of `start_step` on.

    Earlier batches of the same epoch are read and skipped; the log reports this every ten seconds.

    Returns:
        Dicts: input_ids, input_mask, segment_ids int32 [B, T]; masked_lm_positions,
        masked_lm_ids int32 [B, P]; masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B, 1].
    """
    first_epoch, offset = divmod(start_step * batch_size, records.total_examples)
    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max, output_type=tf.int64)
    dataset = epochs.flat_map(as_written(lambda epoch: _shuffled_epoch(records, seed, epoch)))
    num_skipped, rest = divmod(offset, batch_size)
    batches = dataset.skip(rest).batch(batch_size, drop_remainder=True).enumerate(start_step - num_skipped)
    if num_skipped:
        batches = _skip(batches, start_step, num_skipped)
    return prefetched(_parsed(batches, records, batch_size, seed))


def evaluation_batches(records: PretrainingRecords, batch_size: int, num_batches: int | None = None) -> tf.data.Dataset:
    """Reads batches in the order of the files; unmasked records get the same masks each time.

    With `num_batches`, these are full batches of files that repeat, as in the original BERT. Without, every example
    comes once, and zeros fill the last batch. A feature is_real_example float32 [B] is 0 for such padding.
    """
    dataset = _files(records).flat_map(as_written(_read_file))
    if num_batches is not None:
        dataset = dataset.repeat().batch(batch_size, drop_remainder=True).take(num_batches)
    else:
        dataset = dataset.batch(batch_size)

    @as_written
    def pad(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        num_real = tf.shape(batch["input_ids"])[0]
        padded = {}
        for name, value in batch.items():
            paddings = [[0, batch_size - num_real]] + [[0, 0]] * (value.shape.rank - 1)
            padded[name] = tf.ensure_shape(tf.pad(value, paddings), [batch_size, *value.shape[1:]])
        padded["is_real_example"] = tf.sequence_mask(num_real, batch_size, dtype=tf.float32)
        return padded

    return prefetched(_parsed(dataset.enumerate(), records, None).map(pad))


def seeded_batches(batches: tf.data.Dataset, seed: int, start_step: int) -> tf.data.Dataset:
    """Adds "example_seeds" int32 [B, 2] to training batches, from that of `start_step` on: a seed for each example."""

    @as_written
    def add(step: tf.Tensor, batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        step_seed = tf.stack([tf.constant(seed & 0x7FFFFFFF, tf.int64), step])
        shape = [batch["input_ids"].shape[0], 2]
        return batch | {"example_seeds": tf.random.stateless_uniform(shape, step_seed, None, None, tf.int32)}

    return batches.enumerate(start_step).map(add, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def next_token_targets(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Turns a batch of masked examples into one of a model that reads left to right.

    It has the original tokens, and the next token is the label at each position before the last token.

    The labels keep their names: masked_lm_positions, masked_lm_ids and masked_lm_weights are [B, T - 1] here.
    """
    where = tf.where(batch["masked_lm_weights"] > 0)  # [number of masked tokens, 2]
    places = tf.stack([where[:, 0], tf.cast(tf.gather_nd(batch["masked_lm_positions"], where), tf.int64)], axis=1)
    ids = tf.tensor_scatter_nd_update(batch["input_ids"], places, tf.gather_nd(batch["masked_lm_ids"], where))
    next_ids = ids[:, 1:]
    return {
        **batch,
        "input_ids": ids,
        "masked_lm_positions": tf.zeros_like(next_ids) + tf.range(next_ids.shape[1]),
        "masked_lm_ids": next_ids,
        "masked_lm_weights": tf.cast(batch["input_mask"][:, 1:], tf.float32),
    }


def span_boundaries(batch: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
    """Adds the tokens around the span of each masked token to a batch of examples of one segment.

    A span is a run of masked tokens without a gap: SpanBERT also joins spans next to each other (`span_masking` in
    masking.py of facebookresearch/SpanBERT). As there, a span next to [CLS] or the last [SEP] has no boundaries, and
    only its first NUM_SPAN_POSITIONS tokens count.

    Args:
        batch: int32 [B, T] "input_mask", int32 [B, P] "masked_lm_positions" (ascending, before the padding)
            and float32 [B, P] "masked_lm_weights".

    Returns:
        The batch and int32 [B, P] "masked_lm_left_positions" and "masked_lm_right_positions", float32 [B, P]
        "masked_lm_boundary_weights", 1 for a token with boundaries. The positions of other tokens are 0.
    """
    positions = batch["masked_lm_positions"]
    # In a run, the distance between the position and the number of the prediction stays the same.
    distances = positions - tf.range(tf.shape(positions)[1])
    is_together = tf.cast(distances[:, :, None] == distances[:, None, :], tf.int32)  # [B, P, P]
    places = tf.reduce_sum(tf.linalg.band_part(is_together, -1, 0), axis=2) - 1
    lefts = positions - places - 1
    rights = lefts + tf.reduce_sum(is_together, axis=2) + 1
    last = tf.reduce_sum(batch["input_mask"], axis=1)[:, None] - 1
    is_counted = (batch["masked_lm_weights"] > 0) & (lefts > 0) & (rights < last) & (places < NUM_SPAN_POSITIONS)
    return {
        **batch,
        "masked_lm_left_positions": tf.where(is_counted, lefts, 0),
        "masked_lm_right_positions": tf.where(is_counted, rights, 0),
        "masked_lm_boundary_weights": tf.cast(is_counted, tf.float32),
    }


def prefetched(batches: tf.data.Dataset) -> tf.data.Dataset:
    """Prepares the next two batches of a dataset ahead."""
    # TensorFlow's autotuning is off. Its thread sleeps for up to a minute and may miss the end of reading, which then
    # waits for the thread (2.21). Without tuning, AUTOTUNE means all cores.
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(_BATCHES_AHEAD).with_options(options)


def _files(records: PretrainingRecords) -> tf.data.Dataset:
    """Returns the arguments of `_read_file` for each file."""
    places = np.arange(len(records.files), dtype=np.int64) * PLACES_PER_FILE
    return tf.data.Dataset.from_tensor_slices((list(records.files), list(records.compression_types), places))


def _read_file(path: tf.Tensor, compression_type: tf.Tensor, first_place: tf.Tensor) -> tf.data.Dataset:
    """Returns the records of a file, each with its place, which error messages use."""
    places = tf.data.Dataset.range(first_place, tf.int64.max, output_type=tf.int64)
    return tf.data.Dataset.zip(tf.data.TFRecordDataset(path, compression_type), places)


def _skip(batches: tf.data.Dataset, start_step: int, num_skipped: int) -> tf.data.Dataset:
    """Skips numbered batches before a step, and logs the progress."""
    progress = Progress()

    def advance(step: np.int64) -> np.bool_:
        if step == start_step - num_skipped:
            progress.start(f"reading up to step {start_step + 1}", num_skipped, "batches")
        progress.advance()
        return np.bool_(False)

    @as_written
    def is_wanted(step: tf.Tensor, batch: tuple[tf.Tensor, tf.Tensor]) -> tf.Tensor:
        return tf.cond(step < start_step, lambda: tf.numpy_function(advance, [step], tf.bool), lambda: True)

    return batches.filter(is_wanted)


def _shuffled_epoch(records: PretrainingRecords, seed: int, epoch: tf.Tensor) -> tf.data.Dataset:
    # tf.data mixes the graph's seed into that of a shuffle. This sets the seed of the function that is being traced.
    # Otherwise the caller's global seed would apply, and with a global seed of 0 tracing fails.
    tf.random.set_seed(1)
    # fold_in mixes earlier values into the first element, so a second call moves the epoch there.
    folded = tf.random.fold_in(tf.random.fold_in(tf.constant([seed & 0x7FFFFFFF, 0], tf.int32), epoch), 0)
    epoch_seed = tf.cast(folded[0], tf.int64)
    dataset = (
        _files(records)
        .shuffle(len(records.files), seed=epoch_seed)
        .interleave(
            as_written(_read_file),
            cycle_length=min(_FILES_AT_ONCE, len(records.files)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
    )
    return dataset.shuffle(min(_SHUFFLE_BUFFER, records.total_examples), seed=epoch_seed + 1)


def _parsed(
    batches: tf.data.Dataset, records: PretrainingRecords, batch_size: int | None, seed: int = 0
) -> tf.data.Dataset:
    """Parses and checks numbered batches of serialized examples and their places."""
    features, ranges = example_features(records), feature_ranges(records)

    @as_written
    def parse(step: tf.Tensor, read: tuple[tf.Tensor, tf.Tensor]) -> dict[str, tf.Tensor]:
        serialized, places = read
        names = tf.strings.join([PLACE_PREFIX, tf.strings.as_string(places)])
        batch = tf.io.parse_example(serialized, features, names)
        batch = {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in batch.items()}
        # With an id out of range, a CPU fails without naming the file; a GPU or TPU computes with another id.
        is_valid = [(batch[name] >= first) & (batch[name] < end) for name, (first, end) in ranges.items()]
        is_valid = tf.reduce_all(tf.concat(is_valid, axis=1), axis=1)
        tf.debugging.Assert(tf.reduce_all(is_valid), [names[tf.argmin(tf.cast(is_valid, tf.int8))]])
        if records.masking:
            seeds = tf.stack([tf.constant(seed & 0x7FFFFFFF, tf.int64), step])
            batch = mask_batch(batch, records.masking, records.max_predictions_per_seq, seeds)
        return {name: tf.ensure_shape(value, [batch_size, *value.shape[1:]]) for name, value in batch.items()}

    return batches.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def mask_batch(
    batch: dict[str, tf.Tensor], masking: Mapping[str, Any], max_predictions_per_seq: int, seed: tf.Tensor
) -> dict[str, tf.Tensor]:
    """Masks tokens of each example as `data_prep.pretraining.masking.mask_tokens` does, but no whole words or spans.

    Args:
        batch: int32 [B, T] "input_ids" without masks and "input_mask".
        masking: int "cls_id", "sep_id", "mask_id" and "vocab_size", and float "masked_lm_prob".
        max_predictions_per_seq: P; masked_lm_positions (ascending), masked_lm_ids and masked_lm_weights are [B, P].
        seed: int [2].
    """
    ids, is_real = batch["input_ids"], batch["input_mask"] > 0
    length, seeds = tf.shape(ids)[1], tf.random.split(seed, 3)
    may_be_chosen = is_real & (ids != masking["cls_id"]) & (ids != masking["sep_id"])
    # float64 keeps an exact half of a token, which tf.round rounds to even, as Python does.
    num_tokens = tf.reduce_sum(tf.cast(is_real, tf.float64), axis=1)
    wanted = tf.cast(tf.round(num_tokens * masking["masked_lm_prob"]), tf.int32)
    num_chosen = tf.clip_by_value(wanted, 1, max_predictions_per_seq)  # [B]

    scores = tf.where(may_be_chosen, tf.random.stateless_uniform(tf.shape(ids), seeds[0]), -1.0)
    best, places = tf.math.top_k(scores, tf.minimum(max_predictions_per_seq, length))  # [B, min(P, T)]
    padding = [[0, 0], [0, tf.maximum(max_predictions_per_seq - length, 0)]]
    best, places = tf.pad(best, padding, constant_values=-1.0), tf.pad(places, padding)
    is_chosen = (tf.range(max_predictions_per_seq) < num_chosen[:, None]) & (best >= 0)
    positions = tf.sort(tf.where(is_chosen, places, length), axis=1)  # padding comes last
    is_chosen = positions < length
    positions = tf.where(is_chosen, positions, 0)
    chosen_ids = tf.gather(ids, positions, batch_dims=1)

    fate = tf.random.stateless_uniform(tf.shape(positions), seeds[1])
    others = tf.random.stateless_uniform(tf.shape(positions), seeds[2], 0, masking["vocab_size"], tf.int32)
    masked_ids = tf.where(fate < 0.8, masking["mask_id"], tf.where(fate < 0.9, chosen_ids, others))
    where = tf.where(is_chosen)  # [number of chosen tokens, 2]
    places = tf.stack([where[:, 0], tf.cast(tf.gather_nd(positions, where), tf.int64)], axis=1)
    return {
        **batch,
        "input_ids": tf.tensor_scatter_nd_update(ids, places, tf.gather_nd(masked_ids, where)),
        "masked_lm_positions": positions,
        "masked_lm_ids": tf.where(is_chosen, chosen_ids, 0),
        "masked_lm_weights": tf.cast(is_chosen, tf.float32),
    }
