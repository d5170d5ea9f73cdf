"""Text files that are compressed, in UTF-16, remote or in another format; they are copied as UTF-8 text first."""

import contextlib
import hashlib
import logging
import os
import sys
import tempfile
from collections.abc import Generator, Iterator, Sequence
from typing import Any, BinaryIO

from bert_keras.data_prep.corpus.raw_text import CELLS, RELEASE, TextOptions, convert, convert_table, format_of
from bert_keras.data_prep.corpus.text_lines import (
    Place,
    TextFile,
    UnusableTextError,
    group_items,
    line_of,
    noting_mistakes,
    read_byte_lines,
)
from bert_keras.data_prep.corpus.workers import Work, WorkFolder
from bert_keras.mistakes import Message, Mistake
from bert_keras.storage import paths, writing
from bert_keras.storage.inspection import FileForm, inspect, read_blocks
from bert_keras.storage.json_rows import begins_as_rows, place_in
from bert_keras.storage.text_files import iterate_lines

log = logging.getLogger("bert_keras")

_BLOCK = 1 << 20
_PART = 1 << 26  # bytes of a large file that one task converts
_TASK = 1 << 22  # bytes of small files that one task copies
_COPY = ".standard-input-"


def inspect_text(file: str, options: TextOptions) -> FileForm:
    """Looks at a text file, and at the first row of JSON lines or of a table.

    Raises ValueError if it is not usable text. The form has no head, so that tasks stay small.
    """
    form = inspect(file)
    if not form.head:
        raise UnusableTextError('the input file "{}" is empty; leave it out, or look at how it was made', file)
    if form.encoding == "bytes" and form.compression:
        raise Mistake("{} is a {} file inside {}; unpack it first", file, form.format.capitalize(), form.compression)
    form = form._replace(format=format_of(form, options))
    if form.format == "text" and begins_as_rows(form.head.decode("utf-8", "replace")):
        log.warning(
            Message(
                "{}: read as text, but begins with an object of JSON; to read a field of JSON lines, give {text_field}",
                file,
            )
        )
    if form.format == "json":
        lines = iterate_lines([form.head.rpartition(b"\n")[0]])  # the last line may continue after the head
        next(convert(lines, lambda number: place_in(file, number), form.format, options), None)
    form = form._replace(head=b"")
    if form.encoding == "bytes" or form.format in CELLS:
        with contextlib.closing(_converted(form, options)) as lines:
            next(lines, None)
    return form


@contextlib.contextmanager
def received(files: Sequence[str], folder: str | None = None, stream: BinaryIO | None = None) -> Iterator[list[str]]:
    """Yields the files, where the file "-" is a temporary copy of a stream, by default standard input.

    The copy has the same name and time for the same content, so an interrupted build can continue.
    """
    if "-" not in files:
        yield list(files)
        return
    source: Any = sys.stdin.buffer if stream is None else stream
    folder, digest = folder or tempfile.gettempdir(), hashlib.sha256()
    for left_over in paths.glob(os.path.join(folder, f"{_COPY}*")):
        with contextlib.suppress(OSError):
            if held := writing.lock(left_over):  # a killed program left it: a running one holds its lock
                paths.remove(left_over)
                held.close()
    with writing.unfinished(os.path.join(folder, "standard-input")) as hidden:
        with open(hidden, "wb") as copy:
            while block := source.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        held = writing.lock(hidden)
        name = os.path.join(folder, f"{_COPY}{digest.hexdigest()[:12]}")
        os.replace(hidden, name)
    os.utime(name, ns=(0, 0))
    try:
        with _called(name, "standard input"):
            yield [name if file == "-" else file for file in files]
    finally:
        paths.remove(name)
        if held:
            held.close()


@contextlib.contextmanager
def _called(file: str, name: str) -> Iterator[None]:
    """Shows a file under another name in log lines and mistakes of the block."""

    def renamed(value: Any) -> Any:
        if isinstance(value, Message):
            value.values = tuple(map(renamed, value.values))
        elif isinstance(value, str) and paths.name(file) in value:  # any other text may be a `Setting`
            return value.replace(file, name).replace(paths.name(file), name)
        return value

    def rename(record: logging.LogRecord) -> bool:
        if not isinstance(record.msg, Message):
            record.msg, record.args = record.getMessage(), ()
        record.msg = renamed(record.msg)
        return True

    log.addFilter(rename)
    try:
        yield
    except Mistake as mistake:
        mistake.args = (str(renamed(mistake.message)),)
        raise
    finally:
        log.removeFilter(rename)


def local_texts(forms: Sequence[FileForm], work: Work, options: TextOptions = RELEASE) -> list[TextFile]:
    """Copies texts that cannot be read in place into the work folder.

    These are compressed, remote and non-UTF-8 texts, and those that need a conversion. Copies are UTF-8, with one
    sentence a line and a blank line after each document. Returns the readable text of each file, or of each part of a
    large file; other files are not copied. The names of copies start with "source-".
    """
    texts, copies = [], []
    for number, form in enumerate(forms):
        if _is_plain(form) and form.format == "text" and not options.changes_text:
            texts.append(TextFile(form.file, form.file))
            continue
        step = _PART if _can_be_cut(form, options) else form.size
        for part, start in enumerate(range(0, form.size, step)):
            end = start + step if start + step < form.size else None
            copy = f"source-{number:06}-{part:06}.text"
            copies.append(((copy, form, options, start, end), min(step, form.size - start)))
            is_rest = end is not None and form.format == "text"
            texts.append(TextFile(form.file, work.folder.file(copy), is_rest))
    if copies:
        tasks, sizes = group_items("source", copies, _TASK)
        log.info(
            "copying %s of %s texts as plain UTF-8 to %s",
            f"{len({form.file for (_, form, *_), _ in copies}):,}",
            f"{len({form.file for form in forms}):,}",
            work.folder.path,
        )
        for _ in work.run(_copy, tasks, "copying", sizes):
            pass
    return texts


def _is_plain(form: FileForm) -> bool:
    return form.compression == "" and form.encoding == "utf-8" and not paths.is_remote(form.file)


def _can_be_cut(form: FileForm, options: TextOptions) -> bool:
    """Returns whether each line of a file can be converted without the lines before it."""
    return _is_plain(form) and (form.format == "json" or (form.format == "text" and not options.join_lines))


@noting_mistakes
def _copy(context: object, folder: WorkFolder, name: str, task: Sequence[tuple]) -> dict:
    copies = []
    for copy_name, form, options, start, end in task:
        with folder.create(copy_name) as copy:
            if form.format == "text" and not options.changes_text:
                copy.writelines(read_blocks(form))
            else:
                copy.writelines(f"{line}\n".encode() for line in _converted(form, options, start, end))
        copies.append(copy)
    return folder.finish(name, {}, copies)


def _converted(
    form: FileForm, options: TextOptions, start: int = 0, end: int | None = None
) -> Generator[str, None, None]:
    """Yields the lines of the converted file; of a file that can be cut, those that start in the bytes [start, end)."""
    if form.encoding == "bytes" or form.format in CELLS:
        yield from convert_table(form, options)
        return
    if not _can_be_cut(form, options):
        lines = iterate_lines(read_blocks(form))
        yield from convert(lines, lambda number: place_in(form.file, number), form.format, options)
        return
    place = Place(form.file, form.file, 0)

    def blocks() -> Iterator[bytes]:
        nonlocal place
        for offset, line in read_byte_lines(TextFile(form.file, form.file), start, end):
            place = Place(form.file, form.file, offset)
            yield line

    yield from convert(iterate_lines(blocks()), lambda _: line_of(place), form.format, options, end is None)
