"""Looks at a file once: its compression, encoding, format and size. The result travels with the file.

The first bytes decide, except for formats of text, which the ending of the name decides.
"""

import bz2
import codecs
import contextlib
import gzip
import importlib
import io
import logging
import lzma
import os
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# The formats of text by the endings of names; any other text is "text".
FORMATS = {".csv": "csv", ".tsv": "tsv", ".jsonl": "json", ".ndjson": "json", ".json": "json"}
_COMPRESSED_ENDINGS = (".gz", ".bz2", ".xz", ".lzma", ".zst")
# The endings of names that promise a format.
KNOWN_ENDINGS = (*FORMATS, *_COMPRESSED_ENDINGS, ".zip", ".parquet", ".arrow", ".npy", ".npz", ".h5", ".hdf5", ".xlsx")
_COMPRESSIONS = {b"\x1f\x8b\x08": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# A Zstandard file may begin with a frame that readers skip, as those of pzstd do.
_COMPRESSIONS |= {b"%c\x2a\x4d\x18" % number: "zstd" for number in range(0x50, 0x60)}
# In bzip2 files the digits of pi follow, or those of its square root if the file has no content.
_COMPRESSIONS |= {b"BZh%d%b" % (level, pi): "bzip2" for level in range(1, 10) for pi in (b"1AY&SY", b"\x17rE8P\x90")}
_OPEN = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open, "lzma": lzma.open}
_TABLES = {b"PAR1\x15": "parquet", b"ARROW1\x00": "arrow"}
_ARROW_STREAM = b"\xff\xff\xff\xff"
# Python's decoders of these names read and remove the byte order mark.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}
# The first bytes of formats that are not text: the name of the format, and what to do.
_NOT_TEXT = {
    b"PK\x03\x04": ("a zip archive", "unpack it and give a file from it"),
    b"\xd0\xcf\x11\xe0": ("an old Microsoft Office file", "in Excel, save it with File > Save As > CSV UTF-8"),
    b"\x89HDF": ("an HDF5 file", "export it as CSV"),
    b"SQLite format 3\x00": ("an SQLite database", "export a table: sqlite3 -header -csv FILE 'select * from TABLE'"),
    b"%PDF-": ("a PDF file", "export its text"),
    b"version https://git-lfs": ("a pointer of Git LFS", "run git lfs pull to get the file itself"),
    **{b"\x80%c" % version: ("a Python pickle", "export it as CSV") for version in range(2, 6)},
}
_TAR_PLACE = 257  # of the letters "ustar"
_EXPORT_SHEET = "export the sheet as text: File > Save As > CSV UTF-8"
_HEAD = 1 << 17
_BLOCK = 1 << 20
# Control characters that no text has: all but white space and the escape character of terminals.
_CONTROLS = bytes({*range(32)} - {*b"\t\n\v\f\r\x1b"})


class FileForm(NamedTuple):
    """How to read a file.

    Attributes:
        file: path or name.
        compression: "gzip", "bzip2", "xz", "lzma" or "zstd"; "" for none.
        encoding: "utf-8", "utf-16" or "utf-32"; "bytes" for Parquet and Arrow.
        format: "text", one of `FORMATS`, "parquet" or "arrow".
        size: in bytes, as stored.
        head: the first 131,072 bytes, decompressed and as UTF-8 without a byte order mark.
    """

    file: str
    compression: str
    encoding: str
    format: str
    size: int
    head: bytes


def format_by_name(path: str | os.PathLike) -> str:
    """Returns the format of a text by the ending of its name: "text" or one of `FORMATS`."""
    return FORMATS.get(ending_of(path), "text")


def ending_of(path: str | os.PathLike) -> str:
    """Returns the ending of a file name in lower case, without that of a compression: ".csv" for a.csv.gz."""
    name = os.fspath(path).lower()
    for compressed in _COMPRESSED_ENDINGS:
        name = name.removesuffix(compressed)
    return os.path.splitext(name)[1]


def inspect(path: str | os.PathLike) -> FileForm:
    """Opens a file and looks at its first bytes; raises ValueError if it is neither text nor Parquet or Arrow."""
    with paths.open_file(path) as content:
        return look_at(content, os.fspath(path))


def look_at(content: Any, name: str) -> FileForm:
    """Looks at an opened binary file, which then is at its start again; `name` is for messages. See `inspect`."""
    size = content.seek(0, io.SEEK_END)
    content.seek(0)
    start = content.read(16)
    content.seek(0)
    compression = next((found for magic, found in _COMPRESSIONS.items() if start.startswith(magic)), "")
    if _is_lzma(start):
        compression = "lzma"
    form = FileForm(name, compression, "bytes", "text", size, b"")
    head = next(unpacked(content, form, _HEAD), b"")
    content.seek(0)
    table = next((found for magic, found in _TABLES.items() if head.startswith(magic)), None)
    if table or (head.startswith(_ARROW_STREAM) and name.endswith(".arrow")):
        return form._replace(format=table or "arrow", head=head)
    encoding = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        encoding = "utf-8"
        check_is_text(head, name, content)
        head = head.removeprefix(codecs.BOM_UTF8)
    else:
        log.info("%s: read as %s (set by its byte order mark)", name, encoding.upper())
        head = head.decode(encoding, "ignore").encode("utf-8")
    return form._replace(encoding=encoding, format=format_by_name(name), head=head)


def _is_lzma(start: bytes) -> bool:
    """Returns whether a file begins like those of the old program lzma: usual parameters, and two plausible sizes."""
    if len(start) < 13 or start[0] != 0x5D:
        return False
    dictionary, size = (int.from_bytes(start[first:end], "little") for first, end in ((1, 5), (5, 13)))
    return dictionary >= 1 << 12 and dictionary.bit_count() <= 2 and (size == (1 << 64) - 1 or size < 1 << 48)


def read_blocks(form: FileForm) -> Iterator[bytes]:
    """Opens a file and yields its content; see `unpacked`."""
    with paths.open_file(form.file) as content:
        yield from unpacked(content, form)


def unpacked(content: Any, form: FileForm, size: int = _BLOCK) -> Iterator[bytes]:
    """Yields the content of an opened binary file in blocks, decompressed and as UTF-8.

    Args:
        size: of a block, in bytes or characters; -1: the whole file.

    Raises:
        ValueError: the file is damaged, or this Python cannot unpack it.
        OSError: the file cannot be read.
    """
    damage, unpack = (EOFError, OSError, zlib.error, lzma.LZMAError), _OPEN.get(form.compression)
    if form.compression == "zstd":
        damage, unpack = (*damage, _zstd(form.file).ZstdError), _zstd(form.file).open
    try:
        with contextlib.ExitStack() as stack:
            if unpack:
                content = stack.enter_context(unpack(content))
            if form.encoding in ("utf-8", "bytes"):
                while block := content.read(size):
                    yield block
                return
            text = io.TextIOWrapper(content, encoding=form.encoding, newline="")
            stack.callback(text.detach)  # it would close the file
            while block := text.read(size):
                yield block.encode("utf-8")
    except UnicodeDecodeError as error:
        raise Mistake(
            "{} has a byte order mark of {}, but is not valid {} ({}); save it as UTF-8",
            form.file,
            form.encoding.upper(),
            form.encoding.upper(),
            error.reason,
        ) from None
    except damage as error:
        # bz2 raises a bare OSError. File errors have an errno, or TensorFlow's error as their cause.
        if isinstance(error, OSError) and (error.errno is not None or error.__cause__):
            raise OSError(f'the input file "{form.file}" cannot be read: {error.strerror or error}') from error
        raise Mistake(
            "{} cannot be unpacked ({}); it may be cut short, so copy or make it again", form.file, error
        ) from None


def check_is_text(head: bytes, name: str, content: Any = None) -> None:
    """Raises ValueError if a file is not readable text, judged by its first bytes; a few thousand are enough.

    `content` is the file, if it is opened: it distinguishes Excel workbooks from other zip archives.
    """
    found = next((found for magic, found in _NOT_TEXT.items() if head.startswith(magic)), None)
    if head.startswith(b"ustar", _TAR_PLACE):
        found = ("a tar archive", "unpack it (tar -xf FILE) and give its files")
    if found == _NOT_TEXT[b"PK\x03\x04"]:
        found = _in_zip(content) or found
    if found:
        raise Mistake("{} is not text but {}; {}", name, found[0], found[1])
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
        is_utf8 = True
    except UnicodeDecodeError:
        is_utf8 = False
    # The first or the second byte of a pair is often 0 in UTF-16, for example in line feeds.
    zeros = {"UTF-16BE": head[::2].count(0), "UTF-16LE": head[1::2].count(0)}
    (encoding, most), (_, fewest) = sorted(zeros.items(), key=lambda item: -item[1])
    is_utf16 = most >= max(2, 10 * fewest, len(head) / 200)
    if is_utf16 and (most > len(head) / 5 or not is_utf8):
        has_mark = head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        raise Mistake(
            "{0} is {1}{2}, but UTF-8 is needed; convert "
            "it: iconv -f {1} -t UTF-8 OLD > NEW (in Excel: File > Save As > CSV UTF-8)",
            *(name, encoding, "" if has_mark else " without a byte order mark, judged by its zero bytes"),
        )
    num_controls = len(head) - len(head.translate(None, _CONTROLS))
    # Text in an old encoding has no control characters, and UTF-8 may have some.
    if head.count(0) > len(head) / 5 or (num_controls > max(2, len(head) / 50) and not is_utf8):
        raise Mistake(
            "{} is not text but binary data: {:,} of its first {:,} bytes are control "
            "characters; give a text file in UTF-8",
            name,
            num_controls,
            len(head),
        )


def _in_zip(content: Any) -> tuple[str, str] | None:
    """Returns the format of an office file, which is a zip archive, and what to do."""
    try:
        names = zipfile.ZipFile(content).namelist() if content else []
    except (zipfile.BadZipFile, ValueError):
        names = []
    if any(name.startswith("xl/") for name in names):
        return "an Excel workbook (.xlsx)", _EXPORT_SHEET
    if any(name.startswith("word/") for name in names):
        return "a Word document", "save it as plain text in UTF-8"
    return ("an OpenDocument file (.ods)", _EXPORT_SHEET) if "content.xml" in names else None


def _zstd(file: str) -> Any:
    for name in ("compression.zstd", "backports.zstd"):  # the first since Python 3.14
        with contextlib.suppress(ImportError):
            return importlib.import_module(name)
    raise Mistake(
        "{} is compressed with Zstandard, which this Python cannot unpack; run pip install backports.zstd, or "
        "unpack the file with zstd -d",
        file,
    )
