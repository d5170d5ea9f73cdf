"""Finds, counts and checks record files of pre-training examples.

At the start, `open_records` checks what is cheap: names, lengths, the builder's metadata, the first example of each
file. `engine.input.pretraining_batches` checks every batch. `explain_failure` finds the file of a failed read.
"""

import dataclasses
import hashlib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.records.checks import check_example, count_records, find_damage, find_other_record
from bert_keras.data_prep.records.tfrecord_format import is_gzip_file
from bert_keras.data_prep.records.writing import read_metadata
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# The place of an example is one number: PLACES_PER_FILE * index of the file + index in the file.
PLACES_PER_FILE = 1 << 40
# A gzip file begins with a header, which may have a time.
_BYTES_OF_DIGEST, _GZIP_HEADER = 1 << 16, 10
# Precedes the place in error messages of the input pipeline.
PLACE_PREFIX = "record-"


@dataclasses.dataclass(frozen=True)
class PretrainingRecords:
    """TFRecord files of pre-training examples, checked by `open_records`."""

    files: tuple[str, ...]
    num_examples: tuple[int, ...]  # of each file
    compression_types: tuple[str, ...]  # "GZIP" or "" for each file, as in `tf.data.TFRecordDataset`
    max_seq_length: int
    max_predictions_per_seq: int
    vocab_size: int  # every token id is below it
    # The first metadata that the builder stored next to a file; empty without any.
    metadata: dict[str, Any] = dataclasses.field(default_factory=dict, compare=False, hash=False)
    has_sentence_task: bool = True  # False if all files were built with `--sentence_task=none`
    # By known sentence task, a file that was built with it.
    sentence_tasks: Mapping[str, str] = dataclasses.field(default_factory=dict, compare=False, hash=False)
    has_spans: bool = False  # True if all files were built with masked spans in single segments

    @property
    def total_examples(self) -> int:
        return sum(self.num_examples)

    @property
    def digest(self) -> str:
        """The SHA-256 of the size and the first bytes of each file, in order; records that are built again differ."""
        digest = hashlib.sha256()
        for path in self.files:
            with paths.open_file(path) as file:
                start = file.read(_BYTES_OF_DIGEST)
            digest.update(f"{paths.size(path)}\n".encode() + start[_GZIP_HEADER:])
        return digest.hexdigest()

    @property
    def masking(self) -> dict[str, Any] | None:
        """The arguments of `mask_batch` for records without masks; None for records with masks."""
        return self.metadata.get("masking")


def open_records(
    input_file: str, max_seq_length: int, max_predictions_per_seq: int, vocab_size: int
) -> PretrainingRecords:
    """Finds record files and checks them against the settings of a run, before training.

    Args:
        input_file: paths and globs, separated by commas, as in the original BERT.
        max_seq_length, max_predictions_per_seq: of the run.
        vocab_size: of the model.

    Raises:
        ValueError, FileNotFoundError: no file matches, a file is damaged or built with other settings, or all files are
            empty.
    """
    files = _find_files(input_file)
    if twice := paths.given_twice(files):
        log.warning("%s: named more than once, and read each time", ", ".join(twice))
    stored = [read_metadata(path) or {} for path in files]
    first = next((number for number, metadata in enumerate(stored) if metadata), 0)
    for path, metadata in zip(files, stored, strict=True):
        _check_metadata(path, metadata, max_seq_length, max_predictions_per_seq, vocab_size)
        check_same_vocabulary(files[first], stored[first], path, metadata)
        if metadata.get("masking") != stored[first].get("masking"):
            raise Mistake(
                "{} and {} were built with different {dynamic_masking} or {masked_lm_prob}; build them with the same",
                files[first],
                path,
            )
    built_with = [metadata.get("settings", {}) for metadata in stored]
    compression_types = tuple("GZIP" if is_gzip_file(path) else "" for path in files)
    records = PretrainingRecords(
        files=tuple(files),
        num_examples=_count_examples(files, compression_types, stored),
        compression_types=compression_types,
        max_seq_length=max_seq_length,
        max_predictions_per_seq=max_predictions_per_seq,
        vocab_size=vocab_size,
        metadata=stored[first],
        has_sentence_task=any(settings.get("sentence_task") != "none" for settings in built_with),
        sentence_tasks={
            settings["sentence_task"]: path
            for path, settings in zip(files, built_with, strict=True)
            if settings.get("sentence_task", "none") != "none"
        },
        has_spans=all(
            settings.get("sentence_task") == "none" and settings.get("masked_spans", "none") != "none"
            for settings in built_with
        ),
    )
    if not records.total_examples:
        raise Mistake("{} holds no examples; the text it was built from may have been empty", input_file)
    for number, count in enumerate(records.num_examples):
        if count:
            _check(records, number, 0)
    return records


def vocabulary_size_of(input_file: str) -> int | None:
    """Returns the size of the vocabulary that record files were built with; None if they have no metadata."""
    stored = (read_metadata(path) or {} for path in _find_files(input_file))
    return next((metadata["vocab_size"] for metadata in stored if "vocab_size" in metadata), None)


def check_same_vocabulary(
    file: str, metadata: Mapping[str, Any], other_file: str, other_metadata: Mapping[str, Any]
) -> None:
    """Raises ValueError if the builder's metadata of two record files shows different vocabularies or casing."""
    for name in ("vocab_sha256", "do_lower_case", "strip_accents", "max_input_chars_per_word"):
        if name in metadata and metadata[name] != other_metadata.get(name, metadata[name]):
            what = "vocabularies" if name == "vocab_sha256" else Message("values of {}", Setting(name))
            raise Mistake("{} and {} were built with different {}; build them with the same", file, other_file, what)


def explain_failure(
    records: PretrainingRecords, error: UnicodeDecodeError | tf.errors.OpError
) -> Mistake | tf.errors.OpError:
    """Returns a Mistake with the file and example that made reading fail; `error` if it is not about the records.

    Takes seconds, or at most about a minute. `error` is the `tf.errors.OpError` of a step, or a UnicodeDecodeError if
    TensorFlow's message quotes a record.
    """
    if isinstance(error, tf.errors.DataLossError):
        return find_damage(records.files, records.compression_types, error)
    is_quoted = isinstance(error, UnicodeDecodeError)
    message = error.object.decode(errors="replace") if is_quoted else error.message
    if "Could not parse example input" in message:
        return find_other_record(records.files, records.compression_types, error)
    place = re.search(rf"{PLACE_PREFIX}(\d+)", message)
    if place:
        try:
            _check(records, *divmod(int(place[1]), PLACES_PER_FILE))
        except Mistake as found:
            return found
    return error


def example_features(records: PretrainingRecords) -> dict[str, tf.io.FixedLenFeature]:
    """Returns the features for `tf.io.parse_example` by name."""
    tokens = tf.io.FixedLenFeature([records.max_seq_length], tf.int64)
    features = {"input_ids": tokens, "input_mask": tokens, "segment_ids": tokens}
    if not records.masking:
        predictions = tf.io.FixedLenFeature([records.max_predictions_per_seq], tf.int64)
        features["masked_lm_positions"] = features["masked_lm_ids"] = predictions
        features["masked_lm_weights"] = tf.io.FixedLenFeature([records.max_predictions_per_seq], tf.float32)
    return {**features, "next_sentence_labels": tf.io.FixedLenFeature([1], tf.int64)}


def feature_ranges(records: PretrainingRecords) -> dict[str, tuple[int, int]]:
    """Returns the valid ranges of feature values: (lowest, first invalid above) by name."""
    ranges = {
        "input_ids": (0, records.vocab_size),
        "masked_lm_ids": (0, records.vocab_size),
        "masked_lm_positions": (0, records.max_seq_length),
        "next_sentence_labels": (-1, 2),  # -1: no sentence task
    }
    return {name: ends for name, ends in ranges.items() if name in example_features(records)}


def _find_files(patterns: str) -> list[str]:
    files = []
    for pattern in (part.strip() for part in patterns.split(",")):
        if not pattern:
            raise Mistake("{!r} has an empty name next to a comma; remove the comma", patterns)
        names = ((path, paths.name(path)) for path in paths.find(pattern))
        # A pattern leaves out unfinished files and metadata; an exact name counts.
        matches = [path for path, name in names if path == pattern or name[0] != "." and not name.endswith(".json")]
        if not matches:
            raise FileNotFoundError(
                f"{pattern!r} matches no file; build records with data_prep/create_pretraining_data.py"
            )
        folders = [path for path in matches if paths.is_dir(path)]
        if folders:
            raise Mistake(
                "{} is a folder; name the record files in it, for example {}/*.tfrecord", folders[0], folders[0]
            )
        files += matches
    return files


def _check_metadata(
    path: str, metadata: Mapping[str, Any], max_seq_length: int, max_predictions_per_seq: int, vocab_size: int
) -> None:
    requested = {"max_seq_length": max_seq_length, "max_predictions_per_seq": max_predictions_per_seq}
    for name, value in requested.items():
        if metadata.get(name, value) != value:
            raise Mistake(
                "{0} was built with {1}={2}, but {1}={3} was given; give {1}={2} or build the records again",
                path,
                Setting(name),
                metadata[name],
                value,
            )
    if metadata.get("vocab_size", vocab_size) > vocab_size:
        raise Mistake(
            "{} was built with a vocabulary of {} entries, but the model's vocab_size is "
            "{}; use the bert_config_file that belongs to that vocabulary",
            path,
            metadata["vocab_size"],
            vocab_size,
        )


def _count_examples(
    files: Sequence[str], compression_types: Sequence[str], stored: Sequence[Mapping[str, Any]]
) -> tuple[int, ...]:
    """Returns the number of examples in each file; counts only files without matching metadata."""
    is_noted = [
        "num_examples" in metadata and metadata.get("num_bytes") == paths.size(path)
        for path, metadata in zip(files, stored, strict=True)
    ]
    progress = Progress()
    num_bytes = sum(paths.size(path) for path, noted in zip(files, is_noted, strict=True) if not noted)
    progress.start("counting the examples of record files without metadata", num_bytes, "bytes")
    counts = []
    for path, compression, metadata, noted in zip(files, compression_types, stored, is_noted, strict=True):
        count = metadata["num_examples"] if noted else count_records(path, bool(compression), progress)
        if metadata.get("num_examples", count) != count:
            raise Mistake(
                "{} holds {} examples, but {} were written to it; build it again", path, count, metadata["num_examples"]
            )
        counts.append(count)
    return tuple(counts)


def _check(records: PretrainingRecords, number_of_file: int, number: int) -> None:
    check_example(
        records.files[number_of_file],
        bool(records.compression_types[number_of_file]),
        number,
        example_features(records),
        feature_ranges(records),
    )
