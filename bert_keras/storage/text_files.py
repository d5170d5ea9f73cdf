"""Reads users' text files: detects encoding and compression, and rejects files that are not text.

A line ends with a line feed, a carriage return, or carriage returns and a line feed: in tables, in files of words and
tags, and in files of texts. No other character ends a line; U+2028, U+0085 and form feeds may be in a text.
"""

import bz2
import codecs
import gzip
import io
import logging
import lzma
import os
import re
import unicodedata
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz")

_DECOMPRESS = {
    b"\x1f\x8b": gzip.decompress,
    **{b"BZh%d1AY&SY" % level: bz2.decompress for level in range(1, 10)},
    b"\xfd7zXZ\x00": lzma.decompress,
}
# The first bytes of formats that are not text: the name of the format, and how to convert it to text.
_NOT_TEXT = {
    b"PK\x03\x04": ("a zip archive", "unpack it and give a file from it"),
    b"\xd0\xcf\x11\xe0": ("an old Microsoft Office file", "in Excel, save it with File > Save As > CSV UTF-8"),
    b"PAR1\x15": ("a Parquet file", "with pandas: pandas.read_parquet(file).to_csv('data.csv', index=False)"),
    b"ARROW1\x00": ("an Arrow file", "with pandas: pandas.read_feather(file).to_csv('data.csv', index=False)"),
    b"\x89HDF": ("an HDF5 file", "export it as CSV"),
    b"SQLite format 3\x00": ("an SQLite database", "export a table: sqlite3 -header -csv FILE 'select * from TABLE'"),
    b"\x28\xb5\x2f\xfd": ("compressed with Zstandard", "unpack it: zstd -d FILE"),
    b"%PDF-": ("a PDF file", "export its text"),
    b"\x80\x02": ("a Python pickle", "export it as CSV"),
    b"\x80\x03": ("a Python pickle", "export it as CSV"),
    b"\x80\x04": ("a Python pickle", "export it as CSV"),
    b"\x80\x05": ("a Python pickle", "export it as CSV"),
}
_BYTE_ORDER_MARKS = {
    codecs.BOM_UTF8: "utf-8",
    codecs.BOM_UTF32_LE: "utf-32-le",  # first, because the mark of UTF-16 is a prefix of it
    codecs.BOM_UTF32_BE: "utf-32-be",
    codecs.BOM_UTF16_LE: "utf-16-le",
    codecs.BOM_UTF16_BE: "utf-16-be",
}
# Characters without ink that Unicode counts as marks, letters or symbols: fillers, variation selectors, a blank.
_NO_INK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2800\u3164\ufe00-\ufe0f\uffa0\U000e0100-\U000e01ef]"
)
LINE_END = re.compile(r"\r*\n|\r")
_LINE_END_OF_BYTES = re.compile(rb"\r*\n|\r")
_CHUNK = 1 << 24
_SAVE_AS_UTF8 = "save it as UTF-8 (in Excel: File > Save As > CSV UTF-8)"
_EXPORT_SHEET = "export the sheet as text: File > Save As > CSV UTF-8"
_HEAD = 4096


def read_text(path: str | os.PathLike, needed: str = "give a text file") -> str:
    """Reads a whole text file, which gzip, bzip2 or xz may have compressed, without its byte order mark.

    `needed` is the advice at the end of messages. Raises FileNotFoundError, or ValueError if the file is a folder,
    empty, damaged, not text (names the format) or in an unsupported encoding.
    """
    name = os.fspath(path)
    if paths.is_dir(name):
        raise ValueError(f'"{name}" is a folder; {needed}')
    try:
        content = paths.read_bytes(name)
    except FileNotFoundError:
        raise FileNotFoundError(f'the file "{name}" does not exist; check the path, and {needed}') from None
    text = decode(decompress(content, name), paths.name(name))
    if not text.strip():
        raise ValueError(f"{name} is empty; {needed}")
    return text


def is_blank(text: str) -> bool:
    """Returns whether nothing of a text is visible: it has only spaces, and control and zero-width characters."""
    return all(char.isspace() or _is_invisible(char) for char in text)


def without_invisible(text: str) -> str:
    """Returns a text without control characters, except spaces, and without zero-width characters."""
    return "".join(char for char in text if char.isspace() or not _is_invisible(char))


def _is_invisible(char):
    return unicodedata.category(char) in ("Cc", "Cf") or _NO_INK.match(char) is not None


def unify_line_ends(text: str) -> str:
    """Returns a text whose lines end with a line feed; see the top of this module for what ends a line."""
    return LINE_END.sub("\n", text) if "\r" in text else text


def iterate_lines(file: Any, most_bytes: int = 0) -> Iterator[bytes | None]:
    """Yields the lines of a binary file without their ends; None for one of more than `most_bytes` (0: no limit).

    It holds a part of the file at a time, and yields a line that ends with a line feed as soon as it is there.
    """
    rest, is_long = b"", False
    for chunk in iter(lambda: file.readline(most_bytes + 1 if most_bytes else _CHUNK), b""):
        rest += chunk
        # A carriage return at the end may belong to a line feed that follows.
        held = b"" if rest.endswith(b"\n") else rest[len(rest.rstrip(b"\r")) :]
        *lines, rest = _LINE_END_OF_BYTES.split(rest[: len(rest) - len(held)])
        for line in lines:
            yield None if is_long or 0 < most_bytes < len(line) else line
            is_long = False
        is_long = is_long or 0 < most_bytes < len(rest)
        rest = (b"" if is_long else rest) + held
    *lines, rest = _LINE_END_OF_BYTES.split(rest)
    for line in [*lines, rest] if rest or (is_long and not lines) else lines:
        yield None if is_long else line
        is_long = False


def ending_of(path: str | os.PathLike) -> str:
    """Returns the ending of a file name in lower case, without that of a compression: ".csv" for a.csv.gz."""
    name = os.fspath(path).lower()
    for compressed in COMPRESSED_ENDINGS:
        name = name.removesuffix(compressed)
    return os.path.splitext(name)[1]


def decompress(content: bytes, name: str) -> bytes:
    """Returns the content of a file, decompressed from gzip, bzip2 or xz; raises ValueError if it is damaged."""
    unpack = next((unpack for magic, unpack in _DECOMPRESS.items() if content.startswith(magic)), None)
    if unpack is None:
        return content
    try:
        return unpack(content)
    except (OSError, EOFError, ValueError, zlib.error, lzma.LZMAError) as error:
        raise ValueError(f"{name} cannot be unpacked ({error}); it may be cut short, so copy it again") from None


def decode(content: bytes, name: str) -> str:
    """Decodes UTF-8, or UTF-16 or UTF-32 with a byte order mark; a ValueError names the line or the format."""
    mark = next((mark for mark in _BYTE_ORDER_MARKS if content.startswith(mark)), b"")
    if not mark:
        check_is_text(content[:_HEAD], name, content)
    encoding = _BYTE_ORDER_MARKS.get(mark, "utf-8")
    if encoding != "utf-8":
        log.info("%s: read as %s (set by its byte order mark)", name, encoding[:6].upper())
    try:
        return content[len(mark) :].decode(encoding)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start + len(mark)) + 1
        byte = content[error.start + len(mark)]
        raise ValueError(
            f"{name} line {line}: not {encoding[:6].upper().rstrip('-')} (byte 0x{byte:02x}); {_SAVE_AS_UTF8}"
        ) from None


def check_is_text(head: bytes, name: str, content: bytes | None = None) -> None:
    """Rejects content that is not readable text, judged by its first bytes; a few thousand are enough.

    `content` is the whole file, if known: it distinguishes Excel workbooks from other zip archives.
    """
    found = next(((what, advice) for magic, (what, advice) in _NOT_TEXT.items() if head.startswith(magic)), None)
    if found is not None:
        what, advice = _in_zip(content) if content and head.startswith(b"PK\x03\x04") else found
        raise ValueError(f"{name} is not text but {what}; {advice}")
    # In UTF-16 every second byte of European languages is 0; in UTF-32 every fourth byte of all languages.
    if head.count(0) > len(head) / 5:
        raise ValueError(
            f"{name} is not UTF-8: {head.count(0):,} of its first {len(head):,} bytes are 0, as in UTF-16 without a "
            f"byte order mark; {_SAVE_AS_UTF8}"
        )


def _in_zip(content):
    """Returns the format of a zip archive, and how to convert it to text."""
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except (zipfile.BadZipFile, ValueError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook (.xlsx)", _EXPORT_SHEET
    if any(name.startswith("word/") for name in names):
        return "a Word document", "save it as plain text in UTF-8"
    if "content.xml" in names:
        return "an OpenDocument file (.ods)", _EXPORT_SHEET
    return _NOT_TEXT[b"PK\x03\x04"]
