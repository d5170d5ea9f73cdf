"""Cuts text files into tasks, reads their lines like the original BERT, and counts what is dropped."""

import dataclasses
import functools
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_keras.mistakes import Message, Mistake, several
from bert_keras.storage.json_rows import place_in

_CHUNK_BYTES = 4 << 20
_PIECE = 1 << 20
_TAIL = 1 << 12


class UnusableTextError(Mistake):
    """Text that can never be used with these settings, so finished work is useless too."""


def noting_mistakes(function: Callable[..., dict]) -> Callable[..., dict]:
    """Makes a task note a mistake in its text as its result, because a runner may repeat failed tasks; see `Work`."""

    @functools.wraps(function)
    def run(context: Any, folder: Any, name: str, task: Any) -> dict:
        try:
            return function(context, folder, name, task)
        except Mistake as mistake:
            text, values = mistake.message.text, mistake.message.values
            values = [value if isinstance(value, int | float | list) else str(value) for value in values]
            return folder.finish(name, {"mistake": [text, *values]})

    return run


class TextFile(NamedTuple):
    """Name of a text as given by the user, and path of the local UTF-8 file to read."""

    name: str
    path: str
    continues: bool = False  # whether the next text is the rest of the same file


class Chunk(NamedTuple):
    """The lines of a text that start in the bytes [start, end), or from `start` on."""

    text: TextFile
    start: int = 0
    end: int | None = None
    number: int = 0  # of the text


class Place(NamedTuple):
    """Byte offset of a line. Only `line_of` computes line numbers, because it must read all text before the line."""

    name: str
    path: str
    offset: int


@dataclasses.dataclass
class Dropped:
    """Counts of what was dropped from text, and the first place of each kind; in JSON a place is a list."""

    num_invalid_lines: int = 0
    num_invalid_bytes: int = 0
    num_returns: int = 0
    first_invalid: Place | None = None
    first_return: Place | None = None

    def __post_init__(self) -> None:
        self.first_invalid = self.first_invalid and Place(*self.first_invalid)
        self.first_return = self.first_return and Place(*self.first_return)

    def add(self, later: "Dropped") -> None:
        """Adds the counts of text that follows."""
        self.num_invalid_lines += later.num_invalid_lines
        self.num_invalid_bytes += later.num_invalid_bytes
        self.num_returns += later.num_returns
        self.first_invalid = self.first_invalid or later.first_invalid
        self.first_return = self.first_return or later.first_return


def group_items(prefix: str, items: Iterable[tuple[Any, int]], most: int) -> tuple[dict[str, list], dict[str, int]]:
    """Groups consecutive items, each with its size, to tasks of at most `most` together; a larger item is a task.

    Returns the items and the size of each task by name.
    """
    tasks, sizes, name = {}, {}, ""
    for item, size in items:
        if not tasks or sizes[name] + size > most:
            name = f"{prefix}-{len(tasks):06}"
            tasks[name], sizes[name] = [], 0
        tasks[name].append(item)
        sizes[name] += size
    return tasks, sizes


def cut(texts: Sequence[TextFile], prefix: str = "text") -> tuple[dict[str, list[Chunk]], dict[str, int]]:
    """Cuts texts into tasks: parts of large files, and several small files; returns chunks and bytes by name."""
    chunks = (
        (Chunk(text, start, min(size, start + _CHUNK_BYTES), number), min(_CHUNK_BYTES, size - start))
        for number, (text, size) in enumerate((text, os.path.getsize(text.path)) for text in texts)
        for start in range(0, size, _CHUNK_BYTES)
    )
    return group_items(prefix, chunks, _CHUNK_BYTES)


def read_lines(chunks: Iterable[Chunk], dropped: Dropped, strict_utf8: bool = False) -> Iterator[str]:
    """Yields the stripped lines of chunks, and updates `dropped` with what is dropped, like the original BERT.

    Raises UnusableTextError with `strict_utf8` for a line that is not UTF-8.
    """
    for file, start, end, _ in chunks:
        for offset, line in read_byte_lines(file, start, end):
            if b"\r" in line:
                line = _drop_returns(line, Place(file.name, file.path, offset), dropped)
            try:
                text = line.decode("utf-8")
            except UnicodeDecodeError as error:
                place = Place(file.name, file.path, offset)
                if strict_utf8:
                    raise UnusableTextError(
                        "{}: byte 0x{:02x} is not valid UTF-8; convert the file to UTF-8, or leave out {strict_utf8} "
                        "to drop such bytes",
                        *(line_of(place), line[error.start]),
                    ) from None
                text = _drop_invalid(line, place, dropped)
            yield text.strip()


def pieces_of(line: str) -> Iterator[str]:
    """Yields a line in pieces of about a million characters that end before a space, so words stay whole.

    The words of a line as Python objects would take 20 times its size.
    """
    start = 0
    while len(line) - start > _PIECE and (end := line.find(" ", start + _PIECE)) > 0:
        yield line[start:end]
        start = end
    yield line[start:] if start else line


def text_warnings(dropped: Dropped, texts: Sequence[TextFile]) -> list[Message]:
    """Returns warnings about dropped text, and about texts whose last document continues in the next one."""
    warnings = []
    if dropped.first_invalid is not None:
        warnings.append(
            Message(
                "{}: not valid UTF-8; dropped {} in {}, as the original does ({strict_utf8} refuses them)",
                line_of(dropped.first_invalid),
                several(dropped.num_invalid_bytes, "bytes"),
                several(dropped.num_invalid_lines, "lines"),
            )
        )
    if dropped.first_return is not None:
        warnings.append(
            Message(
                "{}: a carriage return inside the line is dropped and joins the words around it, as in the original "
                "({} such lines); end lines with a line feed",
                line_of(dropped.first_return),
                dropped.num_returns,
            )
        )
    pairs = itertools.pairwise(texts)
    continuing = [pair for pair in pairs if not pair[0].continues and not _ends_document(pair[0].path)]
    if continuing:
        more = f"; {len(continuing) - 1} more files end the same way" if len(continuing) > 1 else ""
        first, second = continuing[0]
        warnings.append(
            Message(
                "{} ends without a blank line, so its last document continues in {}, as in the original{}; if each "
                "file is a document, give {documents}=file",
                first.name,
                second.name,
                more,
            )
        )
    return warnings


def _ends_document(path: str) -> bool:
    with open(path, "rb") as content:
        content.seek(max(0, os.path.getsize(path) - _TAIL))
        last = content.read().removesuffix(b"\n").rpartition(b"\n")[2]
    return not last.decode("utf-8", "ignore").strip()


def line_of(place: Place) -> str:
    """Returns the user's words for a place; reads the file up to it."""
    with open(place.path, "rb") as content:
        blocks = iter(lambda: content.read(min(1 << 20, place.offset - content.tell())), b"")
        return place_in(place.name, 1 + sum(block.count(10) for block in blocks))


def read_byte_lines(file: TextFile, start: int = 0, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Yields the lines that start in a range of bytes, each with its offset."""
    try:
        with open(file.path, "rb") as content:
            if start:
                content.seek(start - 1)
                # The rest of a line that starts earlier. It may end far beyond the range, which then has no line.
                while not (rest := content.readline(_PIECE)).endswith(b"\n") and rest:
                    if end is not None and content.tell() >= end:
                        return
            offset = content.tell()
            for line in content:
                if end is not None and offset >= end:
                    return
                yield offset, line
                offset += len(line)
    except OSError as error:
        raise OSError(f'the input file "{file.name}" cannot be read: {error.strerror}') from error


def _drop_returns(line: bytes, place: Place, dropped: Dropped) -> bytes:
    # The file layer of the original BERT removes carriage returns everywhere, not only at the end of a line.
    if b"\r" in line.rstrip(b"\r\n"):
        dropped.first_return = dropped.first_return or place
        dropped.num_returns += 1
    return line.replace(b"\r", b"")


def _drop_invalid(line: bytes, place: Place, dropped: Dropped) -> str:
    text = line.decode("utf-8", "ignore")
    dropped.first_invalid = dropped.first_invalid or place
    dropped.num_invalid_lines += 1
    dropped.num_invalid_bytes += len(line) - len(text.encode("utf-8"))
    return text
