"""Text files that are compressed, in UTF-16, remote or in another format; they are copied as UTF-8 text first."""

import bz2
import codecs
import contextlib
import gzip
import hashlib
import io
import logging
import lzma
import os
import sys
import tempfile
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from typing import Any, BinaryIO, NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions, convert, convert_table, format_of
from bert_keras.data_prep.corpus.text_lines import Place, TextFile, UnusableTextError, line_of, read_byte_lines
from bert_keras.data_prep.corpus.workers import ThisProcess, WorkFolder, in_groups
from bert_keras.storage import paths, text_files

log = logging.getLogger("bert_keras")

_HEAD = 1 << 16
_BLOCK = 1 << 20
_PART = 1 << 26  # bytes of a large file that one task converts
_TASK = 1 << 22  # bytes of small files that one task copies
# Python's decoders of these names read and remove the byte order mark.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Form(NamedTuple):
    """Compression ("" for none), encoding and format ("text" or one of `raw_text.ROWS`) of a text file."""

    compression: str
    encoding: str
    format: str = "text"

    def is_ready(self, options: TextOptions) -> bool:
        """Returns whether the text needs no conversion, except for its encoding."""
        return self.format == "text" and not options.changes_text


def form_of(file: str, options: TextOptions = RELEASE) -> Form:
    """Detects the form of a file from its first bytes; raises ValueError if it is not usable text."""
    with paths.open_file(file) as content:
        compression = _compression(content.read(16))
    with contextlib.closing(_blocks(file, Form(compression, "bytes"), _HEAD)) as blocks:
        head = next(blocks, b"")
    if not head:
        raise UnusableTextError(f'the input file "{file}" is empty; leave it out, or look at how it was made')
    if (found := format_of(file, head, options)) in ("parquet", "arrow"):
        if compression:
            raise ValueError(f"{file} is a {found.capitalize()} file inside {compression}; unpack it first")
        return Form("", "bytes", found)
    encoding = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        _refuse_utf16_without_mark(head, file)
        text_files.check_is_text(head, file)
        return Form(compression, "utf-8", found)
    return Form(compression, encoding, format_of(file, head.decode(encoding, "ignore").encode("utf-8"), options))


def check_rows(file: str, form: Form, options: TextOptions) -> None:
    """Raises an error if the first row of JSON lines or of a table has no text."""
    if form.format in ("json", "parquet", "arrow"):
        with contextlib.closing(_converted(file, form, options)) as lines:
            next(lines, None)


@contextlib.contextmanager
def received(files: Sequence[str], folder: str | None = None, stream: BinaryIO | None = None):
    """Yields the files, where the file "-" is a temporary copy of a stream, by default standard input.

    The copy has the same name and time for the same content, so an interrupted build can continue.
    """
    if "-" not in files:
        yield list(files)
        return
    source: Any = sys.stdin.buffer if stream is None else stream
    with tempfile.TemporaryDirectory(prefix=".bert-keras-", dir=folder) as path:
        digest = hashlib.sha256()
        with open(os.path.join(path, "text"), "wb") as copy:
            while block := source.read(_BLOCK):
                digest.update(block)
                copy.write(block)
        name = os.path.join(folder or tempfile.gettempdir(), f"standard-input-{digest.hexdigest()[:12]}")
        os.replace(copy.name, name)
    os.utime(name, ns=(0, 0))
    try:
        yield [name if file == "-" else file for file in files]
    finally:
        paths.remove(name)


@contextlib.contextmanager
def opened_texts(files: Sequence[str], work_dir: str | None, progress: Progress, options: TextOptions = RELEASE):
    """Yields a list of `TextFile` to read inside the block; copies are in a temporary folder in `work_dir`."""
    if all(_is_usable(file, options) for file in files):
        yield [TextFile(file, file) for file in files]
        return
    with tempfile.TemporaryDirectory(prefix=".bert-keras-", dir=work_dir) as path, WorkFolder(path) as folder:
        yield local_texts(files, folder, ThisProcess(None).run, progress, options)


def local_texts(
    files: Sequence[str], folder: WorkFolder, run: Callable, progress: Progress, options: TextOptions = RELEASE
) -> list[TextFile]:
    """Copies texts that cannot be read in place into a folder, with the `run` method of workers.

    These are compressed, remote and non-UTF-8 texts, and those that need a conversion. Copies are UTF-8, with one
    sentence a line and a blank line after each document. Returns the readable text of each file, or of each part of a
    large file; other files are not copied. The names of copies start with "source-".
    """
    texts, copies = [], []
    for number, file in enumerate(files):
        if _is_usable(file, options):
            texts.append(TextFile(file, file))
            continue
        form, size = form_of(file, options), paths.size(file)
        parts = _parts(size) if _can_be_cut(file, form, options) else [(0, None)]
        for part, (start, end) in enumerate(parts):
            copy = f"source-{number:06}-{part:06}.text"
            copies.append(((copy, file, options, start, end), (size if end is None else end) - start))
            is_rest = end is not None and form.format == "text"
            texts.append(TextFile(file, folder.file(copy), is_rest))
    if copies:
        groups = list(in_groups(copies, lambda copy: copy[1], _TASK))
        tasks = {f"source-{number:06}": [task for task, _ in group] for number, group in enumerate(groups)}
        sizes = [sum(size for _, size in group) for group in groups]
        log.info(
            "copying %s of %s texts as plain UTF-8 to %s",
            f"{len({file for (_, file, *_), _ in copies}):,}",
            f"{len({*files}):,}",
            folder.path,
        )
        progress.start("copying", sum(sizes), "bytes")
        for name, result in run(_copy, folder, tasks):
            if "mistake" in result:
                raise UnusableTextError(result["mistake"])
            progress.advance(sizes[int(name.removeprefix("source-"))])
        progress.finish()
    return texts


def _parts(size: int) -> list[tuple[int, int | None]]:
    """Cuts a file into ranges of bytes; the last one ends with the file, which is None."""
    starts = range(0, size, _PART)
    return [(start, start + _PART if start + _PART < size else None) for start in starts]


def _can_be_cut(file: str, form: Form, options: TextOptions) -> bool:
    """Returns whether each line of a file can be converted without the lines before it."""
    is_by_line = form.format == "json" or (form.format == "text" and not options.join_lines)
    return is_by_line and form[:2] == ("", "utf-8") and not paths.is_remote(file)


def _copy(context, folder: WorkFolder, name: str, task: Sequence[tuple]) -> dict:
    copies = []
    try:
        for copy_name, file, options, start, end in task:
            form = form_of(file, options)
            with folder.create(copy_name) as copy:
                if form.is_ready(options):
                    copy.writelines(_blocks(file, form))
                else:
                    copy.writelines(f"{line}\n".encode() for line in _converted(file, form, options, start, end))
            copies.append(copy)
    except UnusableTextError as error:
        return folder.finish(name, {"mistake": str(error)}, copies)
    return folder.finish(name, {}, copies)


def _is_usable(file: str, options: TextOptions) -> bool:
    """Returns whether a file can be read in place."""
    return not paths.is_remote(file) and form_of(file, options) == Form("", "utf-8") and not options.changes_text


def _converted(
    file: str, form: Form, options: TextOptions, start: int = 0, end: int | None = None
) -> Generator[str, None, None]:
    """Yields the lines of the converted file; of a file that can be cut, those that start in the bytes [start, end)."""
    if form.format in ("parquet", "arrow"):
        with paths.open_file(file) as content:
            yield from convert_table(content, file, form.format, options)
        return

    if not _can_be_cut(file, form, options):
        with contextlib.closing(_blocks(file, form)) as blocks:
            yield from convert(_lines_of(blocks), lambda number: f"{file} line {number}", form.format, options)
        return
    place = Place(file, file, 0)

    def lines():
        nonlocal place
        for offset, line in read_byte_lines(TextFile(file, file), start, end):
            place = Place(file, file, offset)
            yield line

    yield from convert(lines(), lambda _: line_of(place), form.format, options, end is None)


def _lines_of(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Yields the lines of consecutive blocks."""
    begun = []
    for block in blocks:
        first, mark, rest = block.partition(b"\n")
        begun.append(first)
        if mark:
            yield b"".join(begun)
            *lines, last = rest.split(b"\n")
            yield from lines
            begun = [last]
    if last := b"".join(begun):
        yield last


def _blocks(file: str, form: Form, size: int = _BLOCK) -> Generator[bytes, None, None]:
    """Yields the content of a file, decompressed and as UTF-8."""
    damage, unpack = (EOFError, OSError, zlib.error, lzma.LZMAError), _OPEN.get(form.compression)
    if form.compression == "zstd":
        damage, unpack = (*damage, _zstd(file).ZstdError), _zstd(file).open
    try:
        with contextlib.ExitStack() as stack:
            content = stack.enter_context(paths.open_file(file))
            if unpack:
                content = stack.enter_context(unpack(content))
            if form.encoding in ("utf-8", "bytes"):
                while block := content.read(size):
                    yield block
                return
            text = io.TextIOWrapper(content, encoding=form.encoding, newline="")
            while block := text.read(size):
                yield block.encode("utf-8")
    except UnicodeDecodeError as error:
        raise UnusableTextError(
            f"{file} has a byte order mark of {form.encoding.upper()}, but is not valid {form.encoding.upper()} "
            f"({error.reason}); convert it to UTF-8"
        ) from None
    except damage as error:
        # bz2 raises a bare OSError. File errors have an errno, or TensorFlow's error as their cause.
        if isinstance(error, OSError) and (error.errno is not None or error.__cause__):
            raise OSError(f'the input file "{file}" cannot be read: {error.strerror or error}') from error
        raise UnusableTextError(
            f"{file} cannot be unpacked ({error}); it may be cut short, so copy or make it again"
        ) from None


def _compression(head: bytes) -> str:
    return next((name for magic, name in _COMPRESSIONS.items() if head.startswith(magic)), "")


def _zstd(file: str):
    try:
        from compression import zstd  # pyright: ignore[reportMissingImports] (Python 3.14)
    except ImportError:
        try:
            from backports import zstd
        except ImportError:
            raise ValueError(
                f"{file} is compressed with Zstandard, which this Python cannot unpack; run pip install "
                "backports.zstd, or unpack the file with zstd -d"
            ) from None
    return zstd


_COMPRESSIONS = {b"\x1f\x8b\x08": "gzip", b"\xfd7zXZ\x00": "xz", b"\x28\xb5\x2f\xfd": "zstd"}
# In bzip2 files the digits of pi follow, or those of its square root if the file has no content.
_COMPRESSIONS |= {b"BZh%d%b" % (level, pi): "bzip2" for level in range(1, 10) for pi in (b"1AY&SY", b"\x17rE8P\x90")}
_OPEN = {"gzip": gzip.open, "bzip2": bz2.open, "xz": lzma.open}


def _refuse_utf16_without_mark(head: bytes, file: str) -> None:
    """Rejects text in which the first or the second byte of a pair is often 0, for example in line feeds."""
    counts = {"UTF-16BE": head[::2].count(0), "UTF-16LE": head[1::2].count(0)}
    encoding = max(counts, key=counts.__getitem__)
    most, fewest = max(counts.values()), min(counts.values())
    if most < 2 or most < len(head) / 200 or 10 * fewest > most:
        return
    if most > len(head) / 5 or not _is_utf8(head):
        raise ValueError(
            f"{file} is {encoding} without a byte order mark, judged by its zero bytes, but UTF-8 is needed; convert "
            f"it: iconv -f {encoding} -t UTF-8 OLD > NEW"
        )


def _is_utf8(head: bytes) -> bool:
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError:
        return False
    return True
