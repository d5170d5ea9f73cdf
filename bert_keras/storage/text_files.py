"""Reads users' text files: detects encoding and compression, and rejects files that are not text.

A line ends with a line feed, a carriage return, or carriage returns and a line feed: in tables, in files of words and
tags, and in files of texts. No other character ends a line; U+2028, U+0085 and form feeds may be in a text.
"""

import codecs
import io
import itertools
import os
import re
import unicodedata
from collections.abc import Iterable, Iterator
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths
from bert_keras.storage.inspection import FileForm, look_at, unpacked

# Characters without ink that Unicode counts as marks, letters or symbols: fillers, variation selectors, a blank.
_NO_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
LINE_END = re.compile(r"\r*\n|\r")
_LINE_END_OF_BYTES = re.compile(rb"\r*\n|\r")


def read_text(path: str | os.PathLike, needed: str = "give a text file") -> str:
    """Reads a whole text file, which may be compressed, without its byte order mark.

    `needed` is the advice at the end of messages. Raises FileNotFoundError, or ValueError if the file is a folder,
    empty, damaged, not text (names the format) or in an unsupported encoding.
    """
    name = os.fspath(path)
    if paths.is_dir(name):
        raise Mistake('"{}" is a folder; {}', name, needed)
    try:
        content = io.BytesIO(paths.read_bytes(name))
    except FileNotFoundError:
        raise FileNotFoundError(f'the file "{name}" does not exist; check the path, and {needed}') from None
    form = _look_at_text(content, paths.name(name))
    found = b"".join(unpacked(content, form, -1))
    try:
        text = found.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        line, byte = found.count(b"\n", 0, error.start) + 1, found[error.start]
        raise Mistake(
            "{} line {}: not UTF-8 (byte 0x{:02x}); save it as UTF-8 (in Excel: File > Save As > CSV UTF-8)",
            form.file,
            line,
            byte,
        ) from None
    if not text.strip():
        raise Mistake("{} is empty; {}", name, needed)
    return text


def _look_at_text(content: Any, name: str) -> FileForm:
    form = look_at(content, name)
    if form.encoding == "bytes":
        raise Mistake("{} is not text but {}; save it as CSV, for example with pandas", name, form.format.capitalize())
    return form


def is_blank(text: str) -> bool:
    """Returns whether nothing of a text is visible: it has only spaces, and control and zero-width characters."""
    return all(char.isspace() or _is_invisible(char) for char in text)


def without_invisible(text: str) -> str:
    """Returns a text without control characters, except spaces, and without zero-width characters."""
    if text.isprintable():  # most texts, faster than a look at each character
        return text if text.isascii() else _NO_INK.sub("", text)
    return "".join(char for char in text if char.isspace() or not _is_invisible(char))


def _is_invisible(char: str) -> bool:
    return unicodedata.category(char) in ("Cc", "Cf") or _NO_INK.match(char) is not None


def unify_line_ends(text: str) -> str:
    """Returns a text whose lines end with a line feed; see the top of this module for what ends a line."""
    return LINE_END.sub("\n", text) if "\r" in text else text


def read_lines(path: str | os.PathLike, most_bytes: int = 0) -> Iterator[Any]:
    """Yields the lines of a text file, which may be compressed, as UTF-8; see `iterate_lines`."""
    with paths.open_file(path) as content:
        form = _look_at_text(content, os.fspath(path))
        yield from iterate_lines(unpacked(content, form), most_bytes)


def iterate_lines(blocks: Iterable[bytes], most_bytes: int = 0) -> Iterator[Any]:
    """Yields the lines of consecutive blocks without their ends, and without a byte order mark at the start.

    A line of more than `most_bytes` (0: no limit) is None. Only a block and the line that it continues are in memory. A
    line that ends with a line feed comes before the next block is read.
    """
    begun, size, held = [], 0, b""

    def line_of(parts: list[bytes], size: int) -> bytes | None:
        return None if 0 < most_bytes < size else b"".join(parts)

    for number, block in enumerate(itertools.chain(blocks, [b""])):  # the empty block is the end
        part = held + (block if number else block.removeprefix(codecs.BOM_UTF8))
        # A carriage return at the end may belong to a line feed that follows.
        held = part[len(part.rstrip(b"\r")) :] if block else b""
        part = part.removesuffix(held)
        first, *others = _LINE_END_OF_BYTES.split(part) if b"\r" in part else part.split(b"\n")
        begun.append(first)
        size += len(first)
        if others:
            yield line_of(begun, size)
            yield from (line_of([line], len(line)) for line in others[:-1])
            begun, size = [others[-1]], len(others[-1])
        if 0 < most_bytes < size:
            begun = []
    if size:
        yield line_of(begun, size)
