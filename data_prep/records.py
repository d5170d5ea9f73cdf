"""Numbers into record files: `tf.train.Example` in TFRecord files, and beside each a small JSON of what it holds."""

import functools
import json
import logging
import os
import pathlib
import secrets
from array import array
from collections.abc import Mapping, Sequence

from data_prep.tfrecords import TFRecordFile, frame
from storage import paths, writing

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
        The metadata; None where there is none, as beside the files of the release.

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


def is_address(name: str) -> bool:
    """Whether a name is that of something elsewhere, as gs://bucket/file; as a path it would be a local folder."""
    return "://" in str(name)


def check_record_files(files: Sequence[str], input_files: Sequence[str] = (), vocab_file: str | None = None) -> None:
    """Checks, before any work, that record files can be written. Nothing is created.

    Args:
        files: the record files to write.
        input_files: files that must not be written over.
        vocab_file: one more of these; None: none.

    Raises:
        ValueError: no name, an address, a name twice, one of the inputs, the vocabulary, not an ordinary file, or a
            folder that cannot be used.
    """
    if not files or not all(files):
        raise ValueError("an output file has no name; give at least one, and no comma too many")
    taken = {os.path.realpath(file): f'the input "{file}"' for file in input_files}
    if vocab_file is not None:
        taken[os.path.realpath(vocab_file)] = f'the vocabulary file "{vocab_file}"'
    seen = set()
    for record_file in files:
        if is_address(record_file):
            raise ValueError(
                f'the output file "{record_file}" is an address, but records are written to local files; name a local '
                "file and copy it there afterwards"
            )
        for file in (record_file, metadata_file(record_file)):
            path = os.path.realpath(file)
            if path in seen:
                raise ValueError(f'the output file "{file}" is given twice; the outputs need different names')
            if path in taken:
                raise ValueError(f'the output file "{file}" is {taken[path]}; choose another name')
            if os.path.exists(path) and not os.path.isfile(path):
                raise ValueError(f'the output "{file}" exists and is not an ordinary file; choose another name')
            seen.add(path)
        _check_folder(os.path.dirname(os.path.realpath(record_file)))


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
    """Writes records in turn to several TFRecord files, which appear under their names only when all are complete.

    Until `commit` the records lie in hidden files beside the final ones, and what had these names before stays as it
    was. Use it as a context manager: without a commit the hidden files are removed. Missing folders are created, and
    removed again where nothing came into them.
    Differs from the release: it writes under the final names, so that a run cut short leaves files that look complete.

    Args:
        files: the record files; record number j goes to file j modulo their number.
        is_gzip: compresses the files.

    Attributes:
        num_records: list of int, the records that have gone to each file.

    Raises:
        ValueError: a folder or file cannot be created.
    """

    def __init__(self, files: Sequence[str], is_gzip: bool = False):
        # A link stays a link: the file it points to is the one to replace.
        self._files = [os.path.realpath(file) for file in files]
        self._partials = [_partial_name(file) for file in self._files]
        self._is_gzip = is_gzip
        self._missing_folders = []
        self.num_records = [0] * len(files)
        self._writers = []
        self._pending = []

    def __enter__(self) -> "RecordWriter":
        try:
            self._missing_folders = missing_folders(self._files)
            for file, partial in zip(self._files, self._partials, strict=True):
                create_folder(os.path.dirname(file))
                self._writers.append(_open(partial, self._is_gzip))
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *exception) -> None:
        try:
            # A full disk shows here again; it has been told, or nothing of these files is kept.
            self._close()
        except OSError:
            log.debug("closing a file that is thrown away failed", exc_info=True)
        finally:
            for partial in self._partials:
                _remove(partial)
            remove_empty(self._missing_folders)

    def write(self, record: bytes) -> None:
        """Adds a record to the file whose turn it is.

        Raises:
            OSError: those gathered so far cannot be written, as on a full disk.
        """
        self._pending.append(record)
        if len(self._pending) >= _RECORDS_AT_ONCE:
            self._flush()

    def _flush(self) -> None:
        pending, self._pending = list(frame(self._pending)), []
        turn = sum(self.num_records) % len(self._files)
        for place in range(min(len(pending), len(self._files))):
            number = (turn + place) % len(self._files)
            share = pending[place :: len(self._files)]
            try:
                self._writers[number].write(share)
            except OSError as error:
                raise OSError(f'cannot write "{self._files[number]}": {error.strerror}') from error
            self.num_records[number] += len(share)

    def commit(self, metadata: dict) -> None:
        """Closes the files and gives them their final names, each with its metadata beside it.

        What had these names before is replaced, which the log says.

        Args:
            metadata: is written beside every file, with "num_examples" and "num_bytes" of that file added.

        Raises:
            OSError: they cannot be completed, as on a full disk.
        """
        self._flush()
        self._close()
        publish(self._files, self._partials, self.num_records, metadata)

    def _close(self) -> None:
        writers, self._writers = self._writers, []
        failure = None
        for file, writer in zip(self._files, writers, strict=False):
            try:
                writer.close()
            except OSError as error:
                failure = OSError(f'cannot write "{file}": {error.strerror}')
        if failure:
            raise failure


def publish(files: Sequence[str], partials: Sequence[str], num_records: Sequence[int], metadata: dict) -> None:
    """Gives complete files their final names, each with its metadata beside it; the log says what they replace.

    Args:
        files: the final names, no links.
        partials: the present ones, on the same file systems.
        num_records: of each file.
        metadata: is written beside every file, with "num_examples" and "num_bytes" of that file added.
    """
    for partial in partials:
        with open(partial, "rb+") as file:
            os.fsync(file.fileno())
    for file, partial, count in zip(files, partials, num_records, strict=True):
        if os.path.exists(file):
            log.info("replacing the existing %s", file)
        # In this order, so that a kill in between leaves records without metadata, never with those of others.
        _remove(metadata_file(file))
        os.replace(partial, file)
        write_metadata(file, {**metadata, "num_examples": count, "num_bytes": paths.size(file)})


def create_folder(folder: str) -> None:
    """Creates a folder where there is none, and says so in the log.

    Raises:
        ValueError: it cannot be created.
    """
    try:
        if not os.path.isdir(folder):
            os.makedirs(folder)
            log.info("created the folder %s", folder)
    except OSError as error:
        raise ValueError(f'cannot write into the output folder "{folder}": {error.strerror}') from error


def _open(partial: str, is_gzip: bool) -> TFRecordFile:
    try:
        return TFRecordFile(partial, is_gzip)
    except OSError as error:
        folder = os.path.dirname(partial)
        raise ValueError(f'cannot write into the output folder "{folder}": {error.strerror}') from error


def _partial_name(file: str) -> str:
    """Returns a name in the same folder that no pattern for record files matches."""
    folder, name = os.path.split(file)
    return os.path.join(folder, f".{name}.{secrets.token_hex(4)}.partial")


def _remove(file: str) -> None:
    if os.path.lexists(file):
        os.remove(file)


def missing_folders(files: Sequence[str]) -> list[pathlib.Path]:
    """Returns the folders that are missing for the files, at any depth."""
    folders = dict.fromkeys(folder for file in files for folder in pathlib.Path(file).parents)
    return [folder for folder in folders if not folder.is_dir()]


def remove_empty(folders: Sequence[pathlib.Path]) -> None:
    """Removes those of the folders that are empty, the deepest first."""
    for folder in sorted(folders, key=lambda folder: len(folder.parts), reverse=True):
        if folder.is_dir() and not any(folder.iterdir()):
            folder.rmdir()
            log.info("removed the empty folder %s again", folder)
