"""Records of pre-training examples into batches, as a pure function of a seed and a step.

The order of the training examples depends on nothing but the seed, so that a run that was interrupted reads on exactly
where it stopped: example number n of the endless stream lies in pass n // N at place n % N, and the shuffling of a
pass is seeded by its number.
"""

import dataclasses
import logging
import struct

import tensorflow as tf
from google.protobuf.message import DecodeError

from data_prep.records import read_metadata

log = logging.getLogger("bert_keras")

# Differs from the release: it shuffles within 100 records and lets files overtake each other as the disk pleases;
# here the buffer is larger and the interleaving fixed, because the order must be the same again after a restart.
_SHUFFLE_BUFFER = 10_000
_FILES_AT_ONCE = 4
_LENGTH_AND_ITS_CHECKSUM = 12
_CHECKSUM = 4


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
    """A set of TFRecord files with pre-training examples, checked by `open_records`.

    Attributes:
        files: tuple of str, the paths.
        num_examples: tuple of int, how many examples each file holds.
        max_seq_length: int, T of every example.
        max_predictions_per_seq: int, P of every example.
        vocab_size: int; every word id is below it.
        metadata: dict, what the builder of the first file stored beside it; empty where there is nothing.
    """

    files: tuple
    num_examples: tuple
    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int
    metadata: dict = dataclasses.field(default_factory=dict, compare=False, hash=False)

    @property
    def total_examples(self):
        """int; the examples of all files."""
        return sum(self.num_examples)


def open_records(input_file, max_seq_length, max_predictions_per_seq, vocab_size):
    """Finds record files and checks them against the settings of a run, before any training.

    Args:
        input_file: str; paths and globs, separated by commas, as the release takes them.
        max_seq_length: int.
        max_predictions_per_seq: int.
        vocab_size: int, of the model.

    Returns:
        A `PretrainingRecords`.

    Raises:
        ValueError, FileNotFoundError: nothing matches, a file is damaged, holds no examples or others than asked for.
    """
    files, counts, metadata = [], [], {}
    for pattern in input_file.split(","):
        matches = sorted(path for path in tf.io.gfile.glob(pattern.strip()) if not path.endswith(".json"))
        if not matches:
            raise FileNotFoundError(
                f"{pattern.strip()!r} matches no file; build records with data_prep/create_pretraining_data.py"
            )
        files.extend(matches)
    for path in files:
        stored = read_metadata(path) or {}
        _check_metadata(path, stored, max_seq_length, max_predictions_per_seq, vocab_size)
        counts.append(_count_records(path))
        metadata = metadata or stored
    records = PretrainingRecords(
        tuple(files), tuple(counts), max_seq_length, max_predictions_per_seq, vocab_size, metadata
    )
    if not records.total_examples:
        raise ValueError(f"{input_file} holds no examples; the text it was built from may have been empty")
    for path, count in zip(files, counts, strict=True):
        if count:
            _check_examples(records, path, limit=1)
    return records


def training_batches(records, batch_size, seed, start_step=0):
    """Reads endless shuffled batches, starting at any step.

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
    return _parsed(dataset, records, batch_size).prefetch(tf.data.AUTOTUNE)


def evaluation_batches(records, batch_size, num_batches=None):
    """Reads batches in the order of the files.

    Args:
        records: a `PretrainingRecords`.
        batch_size: int, B.
        num_batches: int; exactly that many full batches, starting again at the first file as often as it takes, as the
            release evaluates. None: every example once, the last batch padded with rows of zeros.

    Returns:
        A `tf.data.Dataset` as of `training_batches`, with is_real_example float32 [B] in addition: 0 for padding.
    """
    dataset = tf.data.TFRecordDataset(list(records.files))
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

    return _parsed(dataset, records, None).map(pad).prefetch(tf.data.AUTOTUNE)


def explain_failure(records, error):
    """Finds which file made reading fail.

    Args:
        records: the `PretrainingRecords` that were being read.
        error: the `tf.errors.OpError` that reading raised.

    Returns:
        A ValueError whose sentence names the file and the example; `error` itself if all files are in order.
    """
    for path in records.files:
        try:
            _count_records(path)
            _check_examples(records, path)
        except ValueError as found:
            return found
    return error


def _shuffled_epoch(records, seed, epoch):
    # fold_in mixes what was folded in before into the first element, so the epoch takes a second one to get there.
    seed = tf.random.fold_in(tf.random.fold_in(tf.constant([seed & 0x7FFFFFFF, 0], tf.int32), epoch), 0)
    seed = tf.cast(seed[0], tf.int64)
    files = tf.data.Dataset.from_tensor_slices(list(records.files)).shuffle(len(records.files), seed=seed)
    dataset = files.interleave(
        tf.data.TFRecordDataset,
        cycle_length=min(_FILES_AT_ONCE, len(records.files)),
        num_parallel_calls=tf.data.AUTOTUNE,
        deterministic=True,
    )
    return dataset.shuffle(min(_SHUFFLE_BUFFER, records.total_examples), seed=seed + 1)


def _parsed(dataset, records, batch_size):
    length, predictions = records.max_seq_length, records.max_predictions_per_seq

    def parse(serialized):
        batch = tf.io.parse_example(serialized, _features(length, predictions))
        batch = {name: tf.cast(value, tf.int32) if value.dtype == tf.int64 else value for name, value in batch.items()}
        # Out of range, the CPU stops without naming a file, and a GPU or TPU reads something else in silence.
        for name in ("input_ids", "masked_lm_ids"):
            tf.debugging.assert_less(tf.reduce_max(batch[name]), records.vocab_size)
            tf.debugging.assert_non_negative(batch[name])
        return {name: tf.ensure_shape(value, [batch_size, *value.shape[1:]]) for name, value in batch.items()}

    return dataset.map(parse, num_parallel_calls=tf.data.AUTOTUNE, deterministic=True)


def _features(max_seq_length, max_predictions_per_seq):
    tokens = tf.io.FixedLenFeature([max_seq_length], tf.int64)
    predictions = tf.io.FixedLenFeature([max_predictions_per_seq], tf.int64)
    return {
        "input_ids": tokens,
        "input_mask": tokens,
        "segment_ids": tokens,
        "masked_lm_positions": predictions,
        "masked_lm_ids": predictions,
        "masked_lm_weights": tf.io.FixedLenFeature([max_predictions_per_seq], tf.float32),
        "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64),
    }


def _check_metadata(path, metadata, max_seq_length, max_predictions_per_seq, vocab_size):
    asked = {"max_seq_length": max_seq_length, "max_predictions_per_seq": max_predictions_per_seq}
    for name, value in asked.items():
        if metadata.get(name, value) != value:
            raise ValueError(
                f"{path} was built with --{name}={metadata[name]}, but --{name}={value} was asked for; "
                f"give --{name}={metadata[name]} or build the records again"
            )
    if metadata.get("vocab_size", vocab_size) > vocab_size:
        raise ValueError(
            f"{path} was built with a vocabulary of {metadata['vocab_size']} entries, but the model's vocab_size is "
            f"{vocab_size}; use the bert_config_file that belongs to that vocabulary"
        )


def _count_records(path):
    """Walks over the lengths that frame the records, reading none of them: each is length, checksum, data, checksum."""
    count, position, size = 0, 0, tf.io.gfile.stat(path).length
    # Python's own file is the quicker one to seek in; the other reads remote paths as well.
    with tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb") as file:
        while position < size:
            file.seek(position)
            header = file.read(_LENGTH_AND_ITS_CHECKSUM)
            if len(header) == _LENGTH_AND_ITS_CHECKSUM:
                position += _LENGTH_AND_ITS_CHECKSUM + struct.unpack("<Q", header[:8])[0] + _CHECKSUM
            if len(header) < _LENGTH_AND_ITS_CHECKSUM or position > size:
                raise ValueError(
                    f"{path} is no whole TFRecord file: it ends or is damaged in example {count + 1}; build it again"
                )
            count += 1
    return count


def _check_examples(records, path, limit=None):
    expected = {
        **dict.fromkeys(("input_ids", "input_mask", "segment_ids"), records.max_seq_length),
        **dict.fromkeys(("masked_lm_positions", "masked_lm_ids", "masked_lm_weights"), records.max_predictions_per_seq),
        "next_sentence_labels": 1,
    }
    flag = {records.max_seq_length: "max_seq_length", records.max_predictions_per_seq: "max_predictions_per_seq"}
    number = 0
    try:
        for number, serialized in enumerate(tf.data.TFRecordDataset(path).take(limit or -1).as_numpy_iterator(), 1):
            features = _read_example(path, number, serialized)
            for name, length in expected.items():
                found = len(features[name].int64_list.value) or len(features[name].float_list.value)
                if found != length:
                    raise ValueError(
                        f"{path} example {number}: {name} has {found} values, but "
                        f"--{flag.get(length, name)}={length} was asked for; give what the records were built with"
                    )
            ids = [*features["input_ids"].int64_list.value, *features["masked_lm_ids"].int64_list.value]
            if not 0 <= min(ids) <= max(ids) < records.vocab_size:
                wrong = max(ids) if max(ids) >= records.vocab_size else min(ids)
                raise ValueError(
                    f"{path} example {number}: id {wrong} is outside the vocabulary of {records.vocab_size} entries; "
                    "use the bert_config_file that belongs to the vocabulary of the records"
                )
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged in example {number + 1}: its checksum is wrong; build it again") from error


def _read_example(path, number, serialized):
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise ValueError(f"{path} holds no pre-training examples: record {number} is no tf.train.Example") from error
    missing = [name for name in _features(1, 1) if name not in features]
    if missing:
        raise ValueError(f"{path} holds no pre-training examples: record {number} has no {', '.join(missing)}")
    return features
