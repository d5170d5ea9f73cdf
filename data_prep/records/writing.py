"""Writes `tf.train.Example` records to TFRecord files, each with a small JSON file of metadata."""

import contextlib
import functools
import hashlib
import json
import logging
import os
import pathlib
import unicodedata
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.records.tfrecord_format import frame
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, writing
from bert_keras.storage.checks import check_can_create

log = logging.getLogger("bert_keras")


class _Varints(dict):
    """Protocol Buffers' base-128 encoding of integers; caches those below 2**18, which covers vocabularies."""

    def __missing__(self, number: int) -> bytes:
        rest = number & 0xFFFFFFFFFFFFFFFF  # negative numbers: two's complement in 64 bits
        encoded = bytearray()
        while rest > 0x7F:
            encoded.append(rest & 0x7F | 0x80)
            rest >>= 7
        encoded.append(rest)
        varint = bytes(encoded)
        if 0 <= number < 1 << 18:
            self[number] = varint
        return varint


_VARINTS = _Varints()

# The key of a field is eight times its number in the message, plus the wire type: 2 for length-prefixed data.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"


def _field(key: bytes, content: bytes) -> bytes:
    return b"".join((key, _VARINTS[len(content)], content))


@functools.lru_cache(maxsize=1 << 14)
def _lead(name: str, kind: bytes, size: int) -> bytes:
    """Returns the bytes of a feature before its `size` bytes of numbers."""
    blank = bytes(size)
    feature = _field(kind, _field(_FIRST, blank))
    return _field(_FIRST, _field(_FIRST, name.encode("utf-8")) + _field(_SECOND, feature)).removesuffix(blank)


def serialize_example(features: Mapping[str, Sequence[Any]]) -> bytes:
    """Serializes a `tf.train.Example` of int64 and float32 lists, several times faster than the class of that name."""
    parts = []
    for name, values in features.items():
        kind = _THIRD
        if values and isinstance(values[0], float):
            packed, kind = array("f", values).tobytes(), _SECOND
        else:
            try:
                packed = bytes(values)
            except ValueError:
                packed = b"\xff"
            if not packed.isascii():  # else all numbers are below 128, and each byte is already its varint
                packed = b"".join(map(_VARINTS.__getitem__, values))
        parts += (_lead(name, kind, len(packed)), packed)
    return _field(_FIRST, b"".join(parts))


def metadata_file(record_file: str) -> str:
    """Returns the path of a record file's metadata."""
    return f"{record_file}.json"


def write_metadata(record_file: str, metadata: dict) -> None:
    writing.write_text(metadata_file(record_file), json.dumps(metadata, indent=2) + "\n")


def read_metadata(record_file: str) -> dict | None:
    """Reads the metadata of a record file; returns None if it has none, as records of the original BERT."""
    try:
        metadata = json.loads(paths.read_text(metadata_file(record_file)))
    except FileNotFoundError:
        return None
    except ValueError:
        metadata = None
    is_object = isinstance(metadata, dict)
    if not is_object or not isinstance(metadata.get("vocab_size", 0), int):
        raise Mistake(
            "{} is damaged: {}; build the records again, or delete it to skip its checks",
            metadata_file(record_file),
            "its vocab_size is not a number" if is_object else "it is not a JSON object",
        )
    return metadata


def code_digest() -> str:
    """Returns a digest of the code that reads texts and makes records, and of the Unicode tables of Python."""
    digest = hashlib.sha256(unicodedata.unidata_version.encode())
    for folder in (pathlib.Path(__file__).parents[1], pathlib.Path(paths.__file__).parent):
        for file in sorted(folder.rglob("*.py")):
            digest.update(file.read_bytes())
    return digest.hexdigest()


def check_record_files(files: Sequence[str], input_files: Sequence[str] = (), vocab_file: str | None = None) -> None:
    """Raises ValueError unless the files can be written without replacing an input or the vocabulary."""
    if not files or not all(files):
        raise Mistake("an output file has no name; give at least one, and remove extra commas")
    taken = {paths.real(file): f'the input "{file}"' for file in input_files}
    if vocab_file is not None:
        taken[paths.real(vocab_file)] = f'the vocabulary file "{vocab_file}"'
    seen = set()
    for record_file in files:
        paths.check_address(record_file)
        for file in (record_file, metadata_file(record_file)):
            path = paths.real(file)
            if path in seen:
                raise Mistake('the output file "{}" is given twice; the outputs need different names', file)
            if path in taken:
                raise Mistake('the output file "{}" is {}; choose another name', file, taken[path])
            if paths.exists(path) and not paths.is_file(path):
                raise Mistake('the output "{}" exists and is not an ordinary file; choose another name', file)
            if file != record_file and paths.is_file(path) and b'"num_examples"' not in paths.read_bytes(path):
                raise Mistake('the metadata of "{}" would replace "{}"; choose another name', record_file, file)
            seen.add(path)
        if not paths.is_remote(paths.real(record_file)):
            folder = os.path.dirname(paths.real(record_file))
            check_can_create(folder, f'the output folder "{folder}"')


def tell_replaced(files: Sequence[str]) -> None:
    """Warns about existing record files that will be replaced."""
    existing = [file for file in files if paths.exists(file)]
    if existing:
        more = f" and {len(existing) - 1:,} more files exist" if len(existing) > 1 else " exists"
        log.warning("%s%s; the new records replace existing files when they are complete", existing[0], more)


def write_records(path: str, records: Iterable[bytes], metadata: dict) -> None:
    """Writes a record file and its metadata; they replace earlier ones only when the records are complete.

    Differs from the original BERT, which writes under the final name, so an interrupted run leaves a file that looks
    complete.
    """
    # Keep a symbolic link: replace the file that it points to.
    path, count = paths.real(path), 0
    with writing.unfinished(path) as hidden:
        with writing.named(path, hidden), paths.open_file(hidden, "wb") as file:
            for framed in frame(records):
                file.write(framed)
                count += 1
        publish([path], [hidden], [count], [metadata])


def publish(files: Sequence[str], hidden: Sequence[str], num_records: Sequence[int], metadata: Sequence[dict]) -> None:
    """Gives complete files their final names, and writes the metadata, with "num_examples" and "num_bytes".

    The final paths have no symbolic links, and may be remote or on another disk. Replaces existing files.
    """
    for source in hidden:
        writing.flush(source)
    for file, source, count, content in zip(files, hidden, num_records, metadata, strict=True):
        # In this order, a kill in between leaves records without metadata, never with the metadata of other records.
        paths.remove(metadata_file(file))
        writing.move(source, file)
        write_metadata(file, {**content, "num_examples": count, "num_bytes": paths.size(file)})


@contextlib.contextmanager
def created_folders(files: Sequence[str]) -> Iterator[None]:
    """Creates the missing folders of files, else raises ValueError; removes empty ones at the end."""
    parents = [folder for file in files if not paths.is_remote(file) for folder in pathlib.Path(file).parents]
    missing = [folder for folder in dict.fromkeys(parents) if not folder.is_dir()]
    try:
        for folder in dict.fromkeys(map(paths.parent, files)):
            try:
                if not paths.is_dir(folder):
                    paths.make_dirs(folder)
                    log.info("created the folder %s", folder)
            except OSError as error:
                raise Mistake(
                    'cannot write into the output folder "{}": {}', folder, error.strerror or error
                ) from error
        yield
    finally:
        for folder in sorted(missing, key=lambda folder: len(folder.parts), reverse=True):
            if folder.is_dir() and not any(folder.iterdir()):
                folder.rmdir()
                log.info("removed the empty folder %s again", folder)
