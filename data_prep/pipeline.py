"""Records of pre-training examples into batches, as a pure function of a seed and a step.

The order of the training examples depends on nothing but the seed, so that a run that was interrupted reads on exactly
where it stopped: example number n of the endless stream lies in pass n // N at place n % N, and the shuffling of a pass
is seeded by its number.
"""

import tensorflow as tf

from data_prep.dynamic_masking import mask_batch
from data_prep.pretraining_records import example_features, feature_ranges

# Differs from the release: it shuffles within 100 records and lets files overtake each other as the disk pleases;
# here the buffer is larger and the interleaving fixed, because the order must be the same again after a restart.
_SHUFFLE_BUFFER = 10_000
_FILES_AT_ONCE = 4
_BATCHES_AHEAD = 2


def training_batches(records, batch_size, seed, start_step=0):
    """Reads endless shuffled batches, starting at any step; records without masks are masked by seed and step.

    Args:
        records: a `PretrainingRecords`.
        batch_size: int, B.
        seed: int.
        start_step: int; the first `start_step` batches are passed over, unparsed.

    Returns:
        A `tf.data.Dataset` of dicts: input_ids, input_mask, segment_ids int32 [B, T]; masked_lm_positions,
        masked_lm_ids int32 [B, P]; masked_lm_weights float32 [B, P]; next_sentence_labels int32 [B, 1].
    """
    first_epoch, offset = divmod(start_step * batch_size, records.total_examples)
    epochs = tf.data.Dataset.range(first_epoch, tf.int64.max, output_type=tf.int64)
    dataset = epochs.flat_map(lambda epoch: _shuffled_epoch(records, seed, epoch))
    dataset = dataset.skip(offset).batch(batch_size, drop_remainder=True)
    return prefetched(_parsed(dataset, records, batch_size, seed, start_step))


def evaluation_batches(records, batch_size, num_batches=None):
    """Reads batches in the order of the files; records without masks get the same ones each time.

    Args:
        records: a `PretrainingRecords`.
        batch_size: int, B.
        num_batches: int; exactly that many full batches, starting again at the first file as often as it takes, as the
            release evaluates. None: every example once, the last batch padded with rows of zeros.

    Returns:
        A `tf.data.Dataset` as of `training_batches`, with is_real_example float32 [B] in addition: 0 for padding.
    """
    dataset = _files(records).flat_map(tf.data.TFRecordDataset)
    if num_batches is not None:
        dataset = dataset.repeat().batch(batch_size, drop_remainder=True).take(num_batches)
    else:
        dataset = dataset.batch(batch_size)

    def pad(batch):
        num_real = tf.shape(batch["input_ids"])[0]
        padded = {}
        for name, value in batch.items():
            paddings = [[0, batch_size - num_real]] + [[0, 0]] * (value.shape.rank - 1)
            padded[name] = tf.ensure_shape(tf.pad(value, paddings), [batch_size, *value.shape[1:]])
        padded["is_real_example"] = tf.sequence_mask(num_real, batch_size, dtype=tf.float32)
        return padded

    return prefetched(_parsed(dataset, records, None).map(pad))


def prefetched(batches):
    """Returns a `tf.data.Dataset` that makes its next two batches while one is worked on.

    Without TensorFlow's tuning: its thread sleeps for longer and longer, up to a minute, and does not always hear that
    the reading has ended, which then waits until it wakes (2.21). Untuned, AUTOTUNE stands for all cores.
    """
    options = tf.data.Options()
    options.autotune.enabled = False
    return batches.prefetch(_BATCHES_AHEAD).with_options(options)


def _files(records):
    """Returns the files with their compression, which are the first two arguments of a dataset of records."""
    return tf.data.Dataset.from_tensor_slices((list(records.files), records.compression_types))


def _shuffled_epoch(records, seed, epoch):
    # tf.data mixes the seed of the graph into that of a shuffle. Set here, it is that of the function that is being
    # traced; else it would be the caller's global one, and with a global seed of 0 there is no tracing.
    tf.random.set_seed(1)
    # fold_in mixes what was folded in before into the first element, so the epoch takes a second one to get there.
    seed = tf.random.fold_in(tf.random.fold_in(tf.constant([seed & 0x7FFFFFFF, 0], tf.int32), epoch), 0)
    seed = tf.cast(seed[0], tf.int64)
    dataset = (
        _files(records)
        .shuffle(len(records.files), seed=seed)
        .interleave(
            tf.data.TFRecordDataset,
            cycle_length=min(_FILES_AT_ONCE, len(records.files)),
            num_parallel_calls=tf.data.AUTOTUNE,
            deterministic=True,
        )
    )
    return dataset.shuffle(min(_SHUFFLE_BUFFER, records.total_examples), seed=seed + 1)


def _parsed(dataset, records, batch_size, seed=0, start_step=0):
    def parse(step, serialized):
        batch = tf.io.parse_example(serialized, example_features(records))
        batch = {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in batch.items()}
        # Out of range, the CPU stops without naming a file, and a GPU or TPU reads something else in silence.
        for name, (first, end) in feature_ranges(records).items():
            tf.debugging.assert_less(batch[name], end)
            tf.debugging.assert_greater_equal(batch[name], first)
        if records.masking:
            seeds = tf.stack([tf.constant(seed & 0x7FFFFFFF, tf.int64), step])
            batch = mask_batch(batch, records.masking, records.max_predictions_per_seq, seeds)
        return {name: tf.ensure_shape(value, [batch_size, *value.shape[1:]]) for name, value in batch.items()}

    return dataset.enumerate(start_step).map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)
