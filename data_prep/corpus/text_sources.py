"""Text files that are compressed, in UTF-16, or remote; they are copied as local UTF-8 files first."""

import bz2
import codecs
import contextlib
import gzip
import io
import logging
import lzma
import tempfile
import zlib
from collections.abc import Callable, Generator, Sequence
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.text_lines import TextFile, UnusableTextError
from bert_keras.data_prep.corpus.workers import ThisProcess, WorkFolder
from bert_keras.storage import paths, text_files

log = logging.getLogger("bert_keras")

_HEAD = 1 << 16
_BLOCK = 1 << 20
# Python's decoders of these names read and remove the byte order mark.
_MARKS = {codecs.BOM_UTF32_LE: "utf-32", codecs.BOM_UTF32_BE: "utf-32"}
_MARKS |= {codecs.BOM_UTF16_LE: "utf-16", codecs.BOM_UTF16_BE: "utf-16"}


class Form(NamedTuple):
    """Compression ("" for none) and encoding of a text file."""

    compression: str
    encoding: str


def form_of(file: str) -> Form:
    """Detects the form of a file from its first bytes; raises ValueError if it is not usable text."""
    with paths.open_file(file) as content:
        compression = _compression(content.read(16))
    with contextlib.closing(_blocks(file, Form(compression, "bytes"), _HEAD)) as blocks:
        head = next(blocks, b"")
    if not head:
        raise UnusableTextError(f'the input file "{file}" is empty; leave it out, or look at how it was made')
    encoding = next((encoding for mark, encoding in _MARKS.items() if head.startswith(mark)), None)
    if encoding is None:
        _refuse_utf16_without_mark(head, file)
        text_files.check_is_text(head, file)
    return Form(compression, encoding or "utf-8")


@contextlib.contextmanager
def opened_texts(files: Sequence[str], work_dir: str | None, progress: Progress):
    """Yields a list of `TextFile` to read inside the block; copies are in a temporary folder in `work_dir`."""
    if all(map(_is_local_utf8, files)):
        yield [TextFile(file, file) for file in files]
        return
    with tempfile.TemporaryDirectory(prefix="bert-keras-", dir=work_dir) as path, WorkFolder(path) as folder:
        yield local_texts(files, folder, ThisProcess(None).run, progress)


def local_texts(files: Sequence[str], folder: WorkFolder, run: Callable, progress: Progress) -> list[TextFile]:
    """Copies compressed, remote and non-UTF-8 texts into a folder as UTF-8, with the `run` method of workers.

    Returns the readable text of each file; local UTF-8 files are not copied. The names of copies start with "source-".
    """
    tasks = {f"source-{number:06}": file for number, file in enumerate(files) if not _is_local_utf8(file)}
    if tasks:
        log.info("copying %s of %s texts as plain UTF-8 to %s", f"{len(tasks):,}", f"{len(files):,}", folder.path)
        sizes = {name: paths.size(file) for name, file in tasks.items()}
        progress.start("copying", sum(sizes.values()), "bytes")
        for name, result in run(_copy, folder, tasks):
            if "mistake" in result:
                raise UnusableTextError(result["mistake"])
            progress.advance(sizes[name])
        progress.finish()
    names = (f"source-{number:06}" for number in range(len(files)))
    return [
        TextFile(file, folder.file(f"{name}.text") if name in tasks else file)
        for name, file in zip(names, files, strict=True)
    ]


def _copy(context, folder: WorkFolder, name: str, file: str) -> dict:
    try:
        form = form_of(file)
        with folder.create(f"{name}.text") as copy:
            copy.writelines(_blocks(file, form))
    except UnusableTextError as error:
        return folder.finish(name, {"mistake": str(error)})
    return folder.finish(name, {}, [copy])


def _is_local_utf8(file: str) -> bool:
    return not paths.is_remote(file) and form_of(file) == Form("", "utf-8")


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
