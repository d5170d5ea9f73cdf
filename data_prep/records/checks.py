"""Checks of record files of pre-training examples: complete files, valid examples, values in range."""

import contextlib
import gzip
import re
import struct
import time
import zlib
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from google.protobuf.message import DecodeError

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.records.tfrecord_format import checksums
from bert_keras.data_prep.records.writing import metadata_file
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths

_LENGTH = 8
_CHECKSUM = 4
_HEADER = _LENGTH + _CHECKSUM
_RECORDS_AT_ONCE = 1024
_SECONDS = 60.0  # to look for a record that TensorFlow does not name


def count_records(path: str, is_compressed: bool, progress: Progress) -> int:
    """Counts the records of a file by their length prefixes; raises ValueError if the file ends inside a record."""
    count, position, previous, size, header = 0, 0, 0, paths.size(path), b""
    with (
        paths.open_file(path) as stored,
        gzip.open(stored) if is_compressed else contextlib.nullcontext(stored) as file,
    ):
        try:
            while is_compressed or position < size:
                file.seek(position)
                header = file.read(_HEADER)
                # Seeking beyond the end of a compressed file stops at the end without an error.
                if not header and is_compressed and file.tell() == position:
                    break
                if len(header) == _HEADER:
                    position += _HEADER + struct.unpack("<Q", header[:_LENGTH])[0] + _CHECKSUM
                if len(header) < _HEADER or (position > size and not is_compressed):
                    raise EOFError
                count += 1
                done = stored.tell() if is_compressed else position
                progress.advance(done - previous)
                previous = done
        except (EOFError, zlib.error, gzip.BadGzipFile):
            # A record begins with its length, whose high bytes are 0.
            if not count and header and b"\0" not in header:
                raise Mistake(
                    "{} is not a TFRecord file, but text; build records of it with "
                    "data_prep/create_pretraining_data.py",
                    path,
                ) from None
            raise Mistake(
                "{} is not a whole TFRecord file: it ends or is damaged in example {}; build it again", path, count + 1
            ) from None
    return count


def check_example(
    path: str,
    is_compressed: bool,
    number: int,
    lengths: Mapping[str, tf.io.FixedLenFeature],
    ranges: Mapping[str, tuple[int, int]],
) -> None:
    """Raises ValueError if an example is damaged, of another kind or length, or has an invalid value.

    Example 0 is the first of the file. By name, `lengths` has the `tf.io.FixedLenFeature`, and `ranges` the lowest
    valid value and the first invalid value above.
    """
    features = _read_example(path, number + 1, _read_record(path, is_compressed, number), lengths)
    number += 1
    for name, expected in lengths.items():
        values = features[name].float_list if expected.dtype == tf.float32 else features[name].int64_list
        if len(values.value) != expected.shape[0]:
            raise Mistake(
                "{} example {}: {} has {} values, but {} are needed; give the {max_seq_length} and "
                "{max_predictions_per_seq} of the records",
                path,
                number,
                name,
                len(values.value),
                expected.shape[0],
            )
    for name, (first, end) in ranges.items():
        values = features[name].int64_list.value
        if not first <= min(values) <= max(values) < end:
            wrong = max(values) if max(values) >= end else min(values)
            raise Mistake("{} example {}: {}", path, number, _out_of_range(name, wrong, end))


def _read_record(path: str, is_compressed: bool, number: int) -> bytes:
    """Returns a record of a file by its number from 0, without a pipeline of tf.data: that takes 20 times as long."""
    with paths.open_file(path) as stored, gzip.open(stored) if is_compressed else stored as file:
        position = 0
        try:
            for place in range(number + 1):
                file.seek(position)
                header = file.read(_HEADER)
                if not header:
                    raise Mistake("{} now has at most {} examples; it changed while it was read", path, place)
                if len(header) < _HEADER or not _is_intact(header):
                    raise damaged(path, position)
                length = struct.unpack("<Q", header[:_LENGTH])[0]
                position += _HEADER + length + _CHECKSUM
            record = file.read(length + _CHECKSUM)
        except (EOFError, zlib.error, gzip.BadGzipFile):
            raise damaged(path, position) from None
    if len(record) < length + _CHECKSUM or not _is_intact(record):
        raise damaged(path, position - length - _CHECKSUM)
    return record[:-_CHECKSUM]


def _is_intact(content: bytes) -> bool:
    """Returns whether the checksum at the end of some bytes is that of the others."""
    return struct.pack("<I", checksums([content[:-_CHECKSUM]])[0]) == content[-_CHECKSUM:]


def find_damage(
    files: Sequence[str], compression_types: Sequence[str], error: tf.errors.DataLossError, seconds: float = _SECONDS
) -> Mistake | tf.errors.OpError:
    """Returns a Mistake with the damaged file, which TensorFlow reports without its name, or the error itself.

    TensorFlow reports the position in the file. A record at this position with a valid length and a wrong checksum
    identifies the file. Otherwise the files are read again, for `seconds` at most.
    """
    position = _position(error)
    for path, compression in zip(files, compression_types, strict=True):
        if position is not None and not compression and _is_damaged_at(path, position):
            return damaged(path, position)
    deadline = time.monotonic() + seconds
    for number, (path, compression) in enumerate(zip(files, compression_types, strict=True)):
        try:
            for _ in tf.data.TFRecordDataset(path, compression).batch(_RECORDS_AT_ONCE):
                if time.monotonic() > deadline:
                    return Mistake(
                        "a record file is damaged at byte {}, and TensorFlow does not say which; the first "
                        "{} of {} files were read again and are whole, so build {} and those "
                        "after it again",
                        position,
                        number,
                        len(files),
                        path,
                    )
        except tf.errors.DataLossError as found:
            return damaged(path, _position(found))
    return error


def find_other_record(
    files: Sequence[str], compression_types: Sequence[str], error: UnicodeDecodeError | tf.errors.OpError
) -> Mistake | tf.errors.OpError:
    """Finds the record that is not a `tf.train.Example`; returns an error like `find_damage`."""
    deadline = time.monotonic() + _SECONDS
    for path, compression in zip(files, compression_types, strict=True):
        for number, serialized in enumerate(tf.data.TFRecordDataset(path, compression).as_numpy_iterator(), 1):
            try:
                _read_example(path, number, serialized, ())
            except Mistake as found:
                return found
            if time.monotonic() > deadline:
                return Mistake(
                    "a record is not a tf.train.Example, and TensorFlow does not say which; it comes after record "
                    "{} of {}, so build that file and those after it again",
                    number,
                    path,
                )
    return error


def damaged(path: str, position: int | None) -> Mistake:
    return Mistake("{} is damaged at byte {}; build it again", path, position)


def _position(error: tf.errors.OpError) -> int | None:
    found = re.search(r"record at (\d+)", error.message)
    return int(found[1]) if found else None


def _is_damaged_at(path: str, position: int) -> bool:
    """Returns whether a valid length ends at a position and the record after it is truncated or damaged."""
    if not _HEADER <= position <= paths.size(path):
        return False
    with paths.open_file(path) as file:
        file.seek(position - _HEADER)
        header = file.read(_HEADER)
        if not _is_intact(header):
            return False
        length = struct.unpack("<Q", header[:_LENGTH])[0]
        content = file.read(length + _CHECKSUM)
    return len(content) < length + _CHECKSUM or not _is_intact(content)


def _out_of_range(name: str, value: int, end: int) -> str:
    if name in ("input_ids", "masked_lm_ids"):
        return (
            f"id {value} is outside the vocabulary of {end} entries; "
            "use the bert_config_file that belongs to the vocabulary of the records"
        )
    return f"{name} has {value}, but needs numbers from 0 to {end - 1}; build the file again"


def _read_example(path: str, number: int, serialized: bytes, names: Iterable[str]) -> Mapping[str, tf.train.Feature]:
    try:
        features = tf.train.Example.FromString(serialized).features.feature
    except DecodeError as error:
        raise Mistake(
            "{} does not hold pre-training examples: record {} is not a tf.train.Example", path, number
        ) from error
    missing = [name for name in names if name not in features]
    if missing and all(name.startswith("masked_lm_") for name in missing):
        raise Mistake(
            "{} holds examples without masks ({dynamic_masking}), which need their metadata file {}; copy it "
            "there, or build the records again",
            path,
            metadata_file(path),
        )
    if missing:
        raise Mistake("{} does not hold pre-training examples: record {} has no {}", path, number, ", ".join(missing))
    return features
