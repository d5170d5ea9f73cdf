"""Compressed, re-encoded, remote and damaged text files."""

import bz2
import functools
import gzip
import importlib.util
import io
import lzma
import os
import random
import sys
import tarfile

import pytest
from tokenized import opened_texts, read_documents

from bert_keras.data_prep.corpus import text_lines
from bert_keras.data_prep.corpus.documents import inspect_texts
from bert_keras.data_prep.corpus.raw_text import TextOptions
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.text_sources import received
from bert_keras.data_prep.corpus.workers import ThisProcess
from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.storage import paths
from bert_keras.storage.inspection import FileForm, inspect, read_blocks

TEXT = "ab c\r\n\ndef \u529b\u52a0\n" * 40


def zstd():
    for name in ("compression.zstd", "backports.zstd"):
        if importlib.util.find_spec(name.split(".")[0]) and importlib.util.find_spec(name):
            return importlib.import_module(name)
    return pytest.skip("this Python has no Zstandard")


def written(tmp_path, content, name="text"):
    (tmp_path / name).write_bytes(content)
    return str(tmp_path / name)


def read(*files):
    with opened_texts(files) as texts:
        assert [text.name for text in texts] == [*files]
        return "".join(paths.read_text(text.path, errors="replace") for text in texts)


COMPRESSIONS = {
    "": bytes,
    "gzip": gzip.compress,
    "gzip in parts": lambda content: gzip.compress(content[:99]) + gzip.compress(content[99:]),
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstd": lambda content: zstd().compress(content),
    "zstd after a frame to skip": lambda content: skipped(0, b"ab") + zstd().compress(content),
    "zstd after frames to skip": lambda content: skipped(15) + skipped(7, b"\n" * 300) + zstd().compress(content),
    "zstd in parts": lambda content: zstd().compress(content[:99]) + skipped(3) + zstd().compress(content[99:]),
    "lzma": functools.partial(lzma.compress, format=lzma.FORMAT_ALONE),
    "lzma fast": functools.partial(lzma.compress, format=lzma.FORMAT_ALONE, preset=0),
    "lzma best": functools.partial(lzma.compress, format=lzma.FORMAT_ALONE, preset=9),
    "lzma with its size": lambda content: with_size(lzma.compress(content, lzma.FORMAT_ALONE), len(content)),
}


def skipped(number, content=b""):
    """Returns a frame of Zstandard that a reader skips."""
    return (0x184D2A50 + number).to_bytes(4, "little") + len(content).to_bytes(4, "little") + content


def with_size(compressed, size):
    """Returns a file of the program lzma as it writes it for input that is not a pipe: with its size."""
    return compressed[:5] + size.to_bytes(8, "little") + compressed[13:]


@pytest.mark.parametrize("start", ["]", "]\0\0\0ab", "] [1] and more text", "]\0\0 \0"])
def test_a_text_that_begins_with_a_bracket_is_not_taken_for_lzma(tmp_path, start):
    assert inspect_texts([written(tmp_path, (start + TEXT).encode())])[0].compression == ""


@pytest.mark.parametrize(
    ("compression", "encoding"),
    [*((name, "utf-8") for name in COMPRESSIONS), ("gzip", "utf-16-le"), ("", "utf-16-be"), ("", "utf-32-le")],
)
def test_compression_and_encoding_are_known_by_the_first_bytes(tmp_path, compression, encoding):
    mark = "" if encoding == "utf-8" else "\ufeff"
    file = written(tmp_path, COMPRESSIONS[compression]((mark + TEXT).encode(encoding)))
    [form] = inspect_texts([file])
    assert form[:3] == (file, compression.split(" ")[0], encoding[:6].rstrip("-"))
    assert form.size == os.path.getsize(file)
    with opened_texts([file]) as texts:
        with open(texts[0].path, "rb") as copy:
            assert copy.read() == TEXT.encode("utf-8")
        assert (texts[0].path == file) == (not compression and encoding == "utf-8")


def test_encoding_of_a_byte_order_mark_is_logged(tmp_path, messages):
    file = written(tmp_path, "a\n".encode("utf-16"))
    inspect_texts([file])
    assert messages == [f"{file}: read as UTF-16 (set by its byte order mark)"]


@pytest.mark.parametrize("text", ["One sentence.\n", "\u529b\u52a0\u529b\u52a0\u529b\u52a0\n"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf16_without_a_mark_is_refused_with_the_remedy(tmp_path, text, encoding):
    name = encoding.upper().replace("-LE", "LE").replace("-BE", "BE")
    file = written(tmp_path, (text * 50).encode(encoding))
    with pytest.raises(ValueError, match=f"{file} is {name} without a byte order mark.*iconv -f {name} -t UTF-8"):
        inspect_texts([file])


@pytest.mark.parametrize(
    "content",
    [
        b"a\x00 few\n",
        b"\n\n ab\n\x00\n\nhi",
        b"\x00\xc2\xad\n" * 9 + b"ab " * 99,
        "\u529b".encode() * 50000,
        "Gr\u00fc\u00dfe, \u00e7a va?\n".encode("latin-1") * 99,
        b"BZh: initials\n",
    ],
)
def test_utf8_with_odd_characters_is_still_utf8(tmp_path, content):
    assert inspect(written(tmp_path, content))[1:4] == ("", "utf-8", "text")


def archive(compression):
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode=f"w:{compression}") as tar:
        for name in ("a.txt", "b.txt"):
            tar.addfile(tarfile.TarInfo(name))
            info = tarfile.TarInfo(name)
            info.size = 4000
            tar.addfile(info, io.BytesIO(b"ab c\n" * 800))
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"PK\x03\x04rest", "is not text but a zip archive; unpack it"),
        (archive(""), "is not text"),
        (archive("gz"), "is not text"),
        (random.Random(0).randbytes(9000).replace(b"\0", b"\1"), "is not text"),
        (b"%PDF-1.7", "is not text but a PDF file"),
        (b"", "is empty; leave it out"),
        (gzip.compress(b"", mtime=0), "is empty; leave it out"),
        (bz2.compress(b""), "is empty; leave it out"),
        (gzip.compress(b"a", mtime=0)[:12], "cannot be unpacked .*; it may be cut short, so copy or make it again"),
    ],
)
def test_file_that_is_not_text_is_refused_before_any_work(tmp_path, content, problem):
    with pytest.raises(ValueError, match=problem):
        inspect_texts([written(tmp_path, content)])


@pytest.mark.parametrize("compression", ["", "gzip"])
def test_an_input_is_opened_to_inspect_it_and_to_read_it(tmp_path, letters_tokenizer, monkeypatch, compression):
    file, opened = written(tmp_path, COMPRESSIONS[compression](b"ab c\n\nde\n")), []
    for module, name, real_open in ((paths, "open_file", paths.open_file), (text_lines, "open", open)):

        def noted(path, *args, real_open=real_open, **options):
            opened.append(path)
            return real_open(path, *args, **options)

        monkeypatch.setattr(module, name, noted, raising=False)
    settings = PretrainingDataSettings(8, 2, dupe_factor=1)
    for start_workers in (None, ThisProcess):
        opened.clear()
        build_pretraining_data(
            Build([file], [str(tmp_path / "out")], letters_tokenizer, settings, start_workers=start_workers)
        )
        assert opened.count(file) == 2


@pytest.mark.parametrize("compression", ["gzip", "bzip2", "xz", "zstd", "lzma"])
def test_file_that_is_cut_short_is_refused(tmp_path, compression):
    # More than the first block, which is checked at the start.
    content = COMPRESSIONS[compression](b"".join(b"%d " % (number**9) for number in range(30000)))
    with pytest.raises(UnusableTextError, match="text cannot be unpacked .*; it may be cut short"):
        read(written(tmp_path, content[: len(content) * 9 // 10]))


@pytest.mark.parametrize("compression", ["", "gzip", "bzip2", "xz"])
def test_a_remote_file_that_cannot_be_read_is_not_taken_for_damaged(monkeypatch, compression):
    class Unavailable(io.BytesIO):
        def read(self, *size):
            try:
                raise RuntimeError("as TensorFlow has its own errors")
            except RuntimeError as error:
                raise OSError("gs://texts/a: try again") from error

        readinto = read1 = read

    monkeypatch.setattr(paths, "open_file", lambda *path: Unavailable())
    with pytest.raises(OSError, match='"gs://texts/a" cannot be read: gs://texts/a: try again'):
        list(read_blocks(FileForm("gs://texts/a", compression, "utf-8", "text", 9, b"")))


def test_half_a_character_of_utf16_is_refused(tmp_path):
    content = ("a" * 100000).encode("utf-16") + b"b"
    with pytest.raises(UnusableTextError, match="text has a byte order mark of UTF-16, but is not valid UTF-16"):
        read(written(tmp_path, content))


def test_a_missing_package_is_named(tmp_path, monkeypatch):
    for name in ("compression", "compression.zstd", "backports", "backports.zstd"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(ValueError, match="Zstandard, which this Python cannot unpack; run pip install backports.zstd"):
        inspect_texts([written(tmp_path, b"\x28\xb5\x2f\xfd rest")])


def test_remote_text_is_copied(tmp_path):
    paths.make_dirs("ram://texts")
    for name, content in (("ram://texts/a", b"one\n"), ("ram://texts/b", gzip.compress(b"two\n"))):
        with paths.open_file(name, "wb") as file:
            file.write(content)
    assert read("ram://texts/a", written(tmp_path, b"three\n"), "ram://texts/b") == "one\nthree\ntwo\n"
    paths.remove_dir("ram://texts")


def test_byte_order_mark_of_utf8_is_not_a_token(tmp_path, letters_tokenizer):
    """The original's tokenizer removes the character; a line of it alone is not blank, so it ends no document."""
    first, second = written(tmp_path, b"\xef\xbb\xbfa\nb\n", "1"), written(tmp_path, b"\xef\xbb\xbf\nc\n", "2")
    documents = read_documents([first, second], letters_tokenizer)
    assert letters_tokenizer.convert_ids_to_tokens(documents.tokens) == ["a", "b", "c"]
    assert len(documents) == 1


@pytest.mark.parametrize("is_stream", [False, True])
def test_json_that_is_read_as_text_is_said(tmp_path, messages, is_stream):
    """Standard input has no ending that tells its format."""
    content = b'{"text": "ab c"}\n{"text": "def"}\n'
    file = written(tmp_path, content)
    with received(["-"] if is_stream else [file], str(tmp_path), io.BytesIO(content)) as files:
        for options in (TextOptions(), TextOptions(text_field="text")):
            inspect_texts(files, options)
    inspect_texts([written(tmp_path, b"{ab c} is no object\n", "other")])
    shown = "standard input" if is_stream else file
    advice = "; to read a field of JSON lines, give text_field"
    assert messages == [
        f"{shown}: read as text, but begins with an object of JSON{advice}",
        f"{shown}: read as JSON lines",
    ]
