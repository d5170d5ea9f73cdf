"""Record files of pre-training examples: found, counted, and checked before and after they are read.

What is cheap is checked at the start: names, lengths, the notes of the builder, the framing of the records, the first
example of each file. The rest is checked in every batch (`data_prep.pipeline`), and `explain_failure` then finds the
file.
"""

import contextlib
import dataclasses
import gzip
import logging
import struct
import sys
import zlib

import tensorflow as tf
from google.protobuf.message import DecodeError

from data_prep.records import metadata_file, read_metadata
from data_prep.tfrecords import is_gzip_file

log = logging.getLogger("bert_keras")

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
        metadata: dict, what the builder stored beside the first file that has such a note; empty where none has.
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

    @property
    def masking(self):
        """dict, what `mask_batch` needs for records without masks; None where they have masks."""
        return self.metadata.get("masking")

    @property
    def compression_types(self):
        """list of str; of each file what `tf.data.TFRecordDataset` calls its compression: "GZIP", or nothing."""
        return ["GZIP" if _is_gzip(path) else "" for path in self.files]


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
    files = _find_files(input_file)
    counts, metadata, noted_file = [], {}, files[0]
    for path in files:
        stored = read_metadata(path) or {}
        _check_metadata(path, stored, max_seq_length, max_predictions_per_seq, vocab_size)
        # A compressed file is not read through where a note says how many examples it holds.
        is_noted = "num_examples" in stored and _is_gzip(path)
        counts.append(stored["num_examples"] if is_noted else _count_records(path))
        if stored.get("num_examples", counts[-1]) != counts[-1]:
            raise ValueError(
                f"{path} holds {counts[-1]} examples, but {stored['num_examples']} were written to it; build it again"
            )
        check_same_vocabulary(noted_file, metadata, path, stored)
        if stored.get("masking") != (metadata if counts[1:] else stored).get("masking"):
            raise ValueError(
                f"{noted_file} and {path} were built with different --dynamic_masking or --masked_lm_prob; build them "
                "with the same"
            )
        if not metadata:
            metadata, noted_file = stored, path
    records = PretrainingRecords(
        tuple(files), tuple(counts), max_seq_length, max_predictions_per_seq, vocab_size, metadata
    )
    if not records.total_examples:
        raise ValueError(f"{input_file} holds no examples; the text it was built from may have been empty")
    for path, count in zip(files, counts, strict=True):
        if count:
            _check_examples(records, path, limit=1)
    return records


def check_same_vocabulary(file, metadata, other_file, other_metadata):
    """Checks that two record files were built with one vocabulary and casing, as far as their notes say.

    Args:
        file, other_file: str, their paths.
        metadata, other_metadata: dict, what the builder stored beside them.

    Raises:
        ValueError: they were not.
    """
    for name in ("vocab_sha256", "do_lower_case"):
        if name in metadata and metadata[name] != other_metadata.get(name, metadata[name]):
            what = "vocabularies" if name == "vocab_sha256" else "values of --do_lower_case"
            raise ValueError(f"{file} and {other_file} were built with different {what}; build them with the same")


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


def example_features(records):
    """Returns what `tf.io.parse_example` needs to read an example: dict of `tf.io.FixedLenFeature` by name."""
    tokens = tf.io.FixedLenFeature([records.max_seq_length], tf.int64)
    features = {"input_ids": tokens, "input_mask": tokens, "segment_ids": tokens}
    if not records.masking:
        predictions = tf.io.FixedLenFeature([records.max_predictions_per_seq], tf.int64)
        features["masked_lm_positions"] = features["masked_lm_ids"] = predictions
        features["masked_lm_weights"] = tf.io.FixedLenFeature([records.max_predictions_per_seq], tf.float32)
    return {**features, "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64)}


def _find_files(patterns):
    files = []
    for pattern in (part.strip() for part in patterns.split(",")):
        if not pattern:
            raise ValueError(f"{patterns!r} has an empty name beside a comma; remove the comma")
        # A name may hold characters that mean something in a pattern; metadata and unfinished files are no records.
        found = [pattern] if tf.io.gfile.exists(pattern) else tf.io.gfile.glob(pattern)
        names = ((path, path.rsplit("/", 1)[-1]) for path in sorted(found))
        matches = [path for path, name in names if not name.startswith(".") and not name.endswith(".json")]
        if not matches:
            raise FileNotFoundError(
                f"{pattern!r} matches no file; build records with data_prep/create_pretraining_data.py"
            )
        folders = [path for path in matches if tf.io.gfile.isdir(path)]
        if folders:
            raise ValueError(
                f"{folders[0]} is a folder; name the record files in it, for example {folders[0]}/*.tfrecord"
            )
        files += matches
    twice = sorted({path for path in files if files.count(path) > 1})
    if twice:
        log.warning("%s: named more than once, and read as often", ", ".join(twice))
    return files


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


def _is_gzip(path):
    with _open(path) as file:
        return is_gzip_file(file.read(3))


def _open(path):
    # Python's own file is the quicker one to seek in; the other reads remote paths as well.
    return tf.io.gfile.GFile(path, "rb") if "://" in path else open(path, "rb")


def _count_records(path):
    """Walks over the lengths that frame the records, reading none of them: each is length, checksum, data, checksum."""
    count, position = 0, 0
    with _open(path) as stored, gzip.open(stored) if _is_gzip(path) else contextlib.nullcontext(stored) as file:
        size = sys.maxsize if file is not stored else tf.io.gfile.stat(path).length
        try:
            while position < size:
                file.seek(position)
                header = file.read(_LENGTH_AND_ITS_CHECKSUM)
                if not header and file is not stored:
                    break
                if len(header) == _LENGTH_AND_ITS_CHECKSUM:
                    position += _LENGTH_AND_ITS_CHECKSUM + struct.unpack("<Q", header[:8])[0] + _CHECKSUM
                if len(header) < _LENGTH_AND_ITS_CHECKSUM or position > size:
                    raise EOFError
                count += 1
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise ValueError(
                f"{path} is no whole TFRecord file: it ends or is damaged in example {count + 1}; build it again"
            ) from None
    return count


def _check_examples(records, path, limit=None):
    lengths = example_features(records)
    number = 0
    dataset = tf.data.TFRecordDataset(path, "GZIP" if _is_gzip(path) else "")
    try:
        for number, serialized in enumerate(dataset.take(limit or -1).as_numpy_iterator(), 1):
            features = _read_example(path, number, serialized, lengths)
            for name, expected in lengths.items():
                values = features[name].float_list if expected.dtype == tf.float32 else features[name].int64_list
                if len(values.value) != expected.shape[0]:
                    raise ValueError(
                        f"{path} example {number}: {name} has {len(values.value)} values, but {expected.shape[0]} are "
                        "needed; give the --max_seq_length and --max_predictions_per_seq of the records"
                    )
            for name, (first, end) in feature_ranges(records).items():
                values = features[name].int64_list.value
                if not first <= min(values) <= max(values) < end:
                    wrong = max(values) if max(values) >= end else min(values)
                    raise ValueError(f"{path} example {number}: {_out_of_range(name, wrong, end)}")
    except tf.errors.DataLossError as error:
        raise ValueError(f"{path} is damaged in example {number + 1}: its checksum is wrong; build it again") from error


def feature_ranges(records):
    """Returns what the values of a feature must not be below and what they must be below, pairs of int by name."""
    ranges = {
        "input_ids": (0, records.vocab_size),
        "masked_lm_ids": (0, records.vocab_size),
        "masked_lm_positions": (0, records.max_seq_length),
        "next_sentence_labels": (-1, 2),  # -1: there is no such task
    }
    return {name: ends for name, ends in ranges.items() if name in example_features(records)}


def _out_of_range(name, value, end):
    if name in ("input_ids", "masked_lm_ids"):
        return (
            f"id {value} is outside the vocabulary of {end} entries; "
            "use the bert_config_file that belongs to the vocabulary of the records"
        )
    return f"{name} has {value}, but needs numbers from 0 to {end - 1}; build the file again"


def _read_example(path, number, serialized, names):
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise ValueError(f"{path} holds no pre-training examples: record {number} is no tf.train.Example") from error
    missing = [name for name in names if name not in features]
    if missing and all(name.startswith("masked_lm_") for name in missing):
        raise ValueError(
            f"{path} holds examples without masks (--dynamic_masking), which can only be read with the note that was "
            f"written beside it, {metadata_file(path)}; put it there, or build the records again"
        )
    if missing:
        raise ValueError(f"{path} holds no pre-training examples: record {number} has no {', '.join(missing)}")
    return features
