"""Numbers into record files: `tf.train.Example` in TFRecord files, and beside each a small JSON of what it holds."""

import contextlib
import functools
import itertools
import json
import logging
import os
import pathlib
import secrets
from array import array
from collections.abc import Iterable, Mapping, Sequence

from bert_keras.data_prep.records.tfrecord_format import TFRecordFile, frame
from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")

_RECORDS_AT_ONCE = 1024


class _Varints(dict):
    """Protocol Buffers' base-128 form of integers; remembers those below 2**18, which covers vocabularies."""

    def __missing__(self, number: int) -> bytes:
        rest = number & 0xFFFFFFFFFFFFFFFF  # a negative number is its two's complement in 64 bits
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

# A field's key is its number in the message, times eight, plus the wire type: 2 for what is led by its length.
_FIRST, _SECOND, _THIRD = b"\x0a", b"\x12", b"\x1a"


def _field(key: bytes, content: bytes) -> bytes:
    return b"".join((key, _VARINTS[len(content)], content))


@functools.lru_cache(maxsize=1 << 14)
def _lead(name: str, kind: bytes, size: int) -> bytes:
    """Returns all of a feature of the Example that stands before its `size` bytes of numbers."""
    blank = bytes(size)
    feature = _field(kind, _field(_FIRST, blank))
    return _field(_FIRST, _field(_FIRST, name.encode("utf-8")) + _field(_SECOND, feature)).removesuffix(blank)


def serialize_example(features: Mapping[str, Sequence[int] | Sequence[float]]) -> bytes:
    """Serialises a `tf.train.Example`, several times faster than through the class of that name.

    Args:
        features: name to a list of int (becomes an int64 feature) or a list of float (becomes float32).

    Returns:
        The message; features stand in the order given.
    """
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
            if not packed.isascii():  # else each of the numbers is below 128 and so its own varint
                packed = b"".join(map(_VARINTS.__getitem__, values))
        parts += (_lead(name, kind, len(packed)), packed)
    return _field(_FIRST, b"".join(parts))


def metadata_file(record_file: str) -> str:
    """Returns where the metadata of a record file lies: beside it, with `.json` added to the name."""
    return f"{record_file}.json"


def write_metadata(record_file: str, metadata: dict) -> None:
    """Writes the metadata of a record file; it appears as a whole or not at all."""
    writing.write_text(metadata_file(record_file), json.dumps(metadata, indent=2) + "\n")


def read_metadata(record_file: str) -> dict | None:
    """Reads the metadata of a record file.

    Returns:
        The metadata; None where there is none, as beside the files of the original.

    Raises:
        ValueError: the metadata file is damaged.
    """
    try:
        metadata = json.loads(paths.read_text(metadata_file(record_file)))
    except FileNotFoundError:
        return None
    except ValueError:
        metadata = None
    if not isinstance(metadata, dict):
        raise ValueError(
            f"{metadata_file(record_file)} is damaged: it holds no JSON object; build the records again, or delete it "
            "to go without its checks"
        )
    return metadata


def check_record_files(files: Sequence[str], input_files: Sequence[str] = (), vocab_file: str | None = None) -> None:
    """Checks, before any work, that record files can be written. Nothing is created.

    Args:
        files: the record files to write, local or remote.
        input_files: files that must not be written over.
        vocab_file: one more of these; None: none.

    Raises:
        ValueError: no name, a name twice, one of the inputs, the vocabulary, not an ordinary file, or a folder that
            cannot be used.
    """
    if not files or not all(files):
        raise ValueError("an output file has no name; give at least one, and no comma too many")
    taken = {paths.real(file): f'the input "{file}"' for file in input_files}
    if vocab_file is not None:
        taken[paths.real(vocab_file)] = f'the vocabulary file "{vocab_file}"'
    seen = set()
    for record_file in files:
        for file in (record_file, metadata_file(record_file)):
            path = paths.real(file)
            if path in seen:
                raise ValueError(f'the output file "{file}" is given twice; the outputs need different names')
            if path in taken:
                raise ValueError(f'the output file "{file}" is {taken[path]}; choose another name')
            if paths.exists(path) and not paths.is_file(path):
                raise ValueError(f'the output "{file}" exists and is not an ordinary file; choose another name')
            seen.add(path)
        if not paths.is_remote(record_file):
            _check_folder(os.path.dirname(os.path.realpath(record_file)))


def tell_replaced(files: Sequence[str]) -> None:
    """Says in the log which record files exist and will be replaced."""
    existing = [file for file in files if paths.exists(file)]
    if existing:
        more = f" and {len(existing) - 1:,} more files exist" if len(existing) > 1 else " exists"
        log.warning("%s%s; the new records replace what is there as soon as they are complete", existing[0], more)


def _check_folder(folder: str) -> None:
    """Checks that a folder can be written to, or created."""
    existing = folder
    while not os.path.lexists(existing):
        existing = os.path.dirname(existing)
    if not os.path.isdir(existing):
        raise ValueError(f'the output folder "{folder}" cannot be created, because "{existing}" is not a folder')
    if not os.access(existing, os.W_OK | os.X_OK):
        raise ValueError(
            f'the output folder "{folder}" cannot be written to; choose another, or change its permissions'
        )


class RecordWriter:
    """Writes TFRecord files, one after the other, which appear under their names only when all are complete.

    Until `commit` the records are in hidden files, and what had the final names before stays as it was. Use it as a
    context manager: without a commit the hidden files are removed. Missing folders are created, and removed again
    where they stay empty.
    Differs from the original: it writes under the final names, so that a run cut short leaves files that look complete.

    Args:
        files: the record files, local or remote.
        is_gzip: compresses the files.
        work_dir: a local folder for the hidden files of remote outputs; those of local outputs are in the same folder
            as the output.

    Attributes:
        num_records: list of int, the records of each file that is written.

    Raises:
        ValueError: a folder or file cannot be created.
    """

    def __init__(self, files: Sequence[str], is_gzip: bool = False, work_dir: str = "."):
        # A link stays a link: the file it points to is the one to replace.
        self._files = [paths.real(file) for file in files]
        self._partials = [_partial_name(file, work_dir) for file in self._files]
        self._is_gzip = is_gzip
        self._missing_folders = []
        self.num_records = []

    def __enter__(self) -> "RecordWriter":
        self._missing_folders = missing_folders(self._files)
        try:
            create_folders(self._files)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception) -> None:
        for partial in self._partials:
            paths.remove(partial)
        remove_empty(self._missing_folders)

    def write_file(self, records: Iterable[bytes]) -> None:
        """Writes the records of the next file.

        Raises:
            OSError: they cannot be written, as on a full disk.
        """
        number, count = len(self.num_records), 0
        file, records = self._partials[number], iter(records)
        if not paths.is_remote(self._files[number]):
            file = self._files[number]  # the hidden file is in the same folder, but nobody knows its name
        with contextlib.ExitStack() as stack:
            with _writing(file):
                writer = TFRecordFile(self._partials[number], self._is_gzip)
            stack.callback(_close, writer, file)
            while batch := list(itertools.islice(records, _RECORDS_AT_ONCE)):
                framed = list(frame(batch))
                with _writing(file):
                    writer.write(framed)
                count += len(batch)
        self.num_records.append(count)

    def commit(self, metadata: dict) -> None:
        """Gives the files their final names, each with its metadata beside it.

        Args:
            metadata: is written beside every file, with "num_examples" and "num_bytes" of that file added.

        Raises:
            OSError: they cannot be completed, as on a full disk.
        """
        publish(self._files, self._partials, self.num_records, metadata)


def publish(files: Sequence[str], partials: Sequence[str], num_records: Sequence[int], metadata: dict) -> None:
    """Gives complete files their final names, each with its metadata beside it. What had these names is replaced.

    Args:
        files: the final names, no links. To a remote place the file is copied.
        partials: the present names, of local files; for a local file on the same file system.
        num_records: of each file.
        metadata: is written beside every file, with "num_examples" and "num_bytes" of that file added.
    """
    for partial in partials:
        writing.flush(partial)
    for file, partial, count in zip(files, partials, num_records, strict=True):
        # In this order, so that a kill in between leaves records without metadata, never with those of others.
        paths.remove(metadata_file(file))
        if paths.is_remote(file):
            paths.copy(partial, file)
        else:
            paths.move(partial, file)
        write_metadata(file, {**metadata, "num_examples": count, "num_bytes": paths.size(file)})


def create_folders(files: Sequence[str]) -> None:
    """Creates the folders of files where there are none, and says so in the log.

    Raises:
        ValueError: one cannot be created.
    """
    for folder in dict.fromkeys(map(paths.parent, files)):
        try:
            if not paths.is_dir(folder):
                paths.make_dirs(folder)
                log.info("created the folder %s", folder)
        except OSError as error:
            raise ValueError(f'cannot write into the output folder "{folder}": {error.strerror or error}') from error


def cannot_write(what: str, error: OSError) -> OSError:
    """Returns the error to raise where writing failed: it names the place, and says what a full disk needs."""
    needed = "; it needs room there" if error.errno in writing.FULL else ""
    return OSError(f"cannot write {what}: {error.strerror or error}{needed}")


@contextlib.contextmanager
def _writing(file: str):
    try:
        yield
    except OSError as error:
        raise cannot_write(f'"{file}"', error) from error


def _close(writer: TFRecordFile, file: str) -> None:
    with _writing(file):
        writer.close()


def _partial_name(file: str, work_dir: str) -> str:
    """Returns a name that no pattern for record files matches, in the same folder, or for a remote file in work_dir."""
    folder = work_dir if paths.is_remote(file) else os.path.dirname(file)
    return os.path.join(folder, f".{paths.name(file)}.{secrets.token_hex(4)}.partial")


def missing_folders(files: Sequence[str]) -> list[pathlib.Path]:
    """Returns the folders that are missing for the local ones of the files, at any depth."""
    local = [pathlib.Path(file) for file in files if not paths.is_remote(file)]
    folders = dict.fromkeys(folder for file in local for folder in file.parents)
    return [folder for folder in folders if not folder.is_dir()]


def remove_empty(folders: Sequence[pathlib.Path]) -> None:
    """Removes those of the folders that are empty, the deepest first."""
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            log.info("removed the empty folder %s again", folder)
