"""Text files from users."""

import bz2
import gzip
import io
import logging
import lzma
import pickle
import zipfile

import pytest

from bert_keras.storage.text_files import is_blank, iterate_lines, read_text, unify_line_ends

TEXT = "text,label\nGrüße aus 北京,1\n"


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32"])
def test_encodings_that_a_byte_order_mark_tells_are_read(tmp_path, caplog, encoding):
    caplog.set_level(logging.INFO)
    (tmp_path / "a.csv").write_bytes(TEXT.encode(encoding))
    assert read_text(tmp_path / "a.csv") == TEXT
    assert ("byte order mark" in caplog.text) == (encoding in ("utf-16", "utf-32"))


@pytest.mark.parametrize(("mark", "encoding"), [(b"\xff\xfe", "utf-16-le"), (b"\xfe\xff", "utf-16-be")])
def test_both_byte_orders_of_utf_16_are_read(tmp_path, mark, encoding):
    (tmp_path / "a.csv").write_bytes(mark + TEXT.encode(encoding))
    assert read_text(tmp_path / "a.csv") == TEXT


@pytest.mark.parametrize("compress", [gzip.compress, bz2.compress, lzma.compress])
def test_compressed_text_is_unpacked_whatever_its_name(tmp_path, compress):
    (tmp_path / "a.csv").write_bytes(compress(TEXT.encode()))
    assert read_text(tmp_path / "a.csv") == TEXT
    (tmp_path / "a.csv").write_bytes(compress(TEXT.encode() * 100)[:60])
    with pytest.raises(ValueError, match="cannot be unpacked .* copy or make it again"):
        read_text(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "text",
    [
        *("BZhang", "PAR1 is a gene", "ARROW1", "%PDFs are read", "SQLite format 3 is old"),
        "one\x00two words and more\n",
        "\x01\x02\x03 ü",
        "\x1b[1mbold\x1b[0m",
    ],
)
def test_odd_text_is_text(tmp_path, text):
    (tmp_path / "a.txt").write_bytes(text.encode())
    assert read_text(tmp_path / "a.txt") == text


def zipped(*names):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        for name in names:
            archive.writestr(name, "x")
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "is empty; give a table"),
        (b" \n\r\n", "is empty; give a table"),
        (b"\xef\xbb\xbf\n", "is empty; give a table"),
        (b"one\ntw\xfc\n", r"a.csv line 2: not UTF-8 \(byte 0xfc\); save it as UTF-8 \(in Excel: File > Save As"),
        (b"\xff\xfea", "a.csv has a byte order mark of UTF-16, but is not valid UTF-16 .*; save it as UTF-8"),
        ("text,label\n".encode("utf-16-le"), "a.csv is UTF-16LE without a byte order mark.*in Excel"),
        ("text,label\n".encode("utf-32-be"), "is not text but binary data: 33 of its first 44 bytes are control"),
        (zipped("[Content_Types].xml", "xl/workbook.xml"), r"is not text but an Excel workbook .*; export the sheet"),
        (zipped("mimetype", "content.xml"), r"an OpenDocument file \(.ods\); export the sheet"),
        (zipped("word/document.xml"), "a Word document"),
        (zipped("train.csv"), "a zip archive; unpack it"),
        (b"PK\x03\x04broken", "a zip archive; unpack it"),
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "an old Microsoft Office file"),
        (b"PAR1\x15\x04", "is not text but Parquet; save it as CSV"),
        (pickle.dumps({"a": 1}), "a Python pickle"),
        (b"version https://git-lfs.github.com/spec/v1\nsize 9\n", "a pointer of Git LFS; run git lfs pull to get"),
        (b"\x28\xb5\x2f\xfd..", "Zstandard, which this Python cannot|cannot be unpacked"),
    ],
)
def test_other_content_is_named_with_what_to_do(tmp_path, content, sentence):
    (tmp_path / "a.csv").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        read_text(tmp_path / "a.csv", "give a table")


def test_folders_and_missing_files_are_named(tmp_path):
    with pytest.raises(ValueError, match="is a folder; give a table"):
        read_text(tmp_path, "give a table")
    with pytest.raises(FileNotFoundError, match='the file ".*b.csv" does not exist; check the path, and give a table'):
        read_text(tmp_path / "b.csv", "give a table")


@pytest.mark.parametrize(
    "text", ["", " \t\n", "\u200b", "\u00ad \u3000", "\ufeff\u2060\x07", "\ufe0f", "\u3164", "\u2800"]
)
def test_texts_without_a_visible_character(text):
    assert is_blank(text)
    for visible in (".", "\u0301", "\U0001f600", "\u4e2d"):
        assert not is_blank(text + visible)


@pytest.mark.parametrize("size", [1, 3, -1])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("a\nb", ["a", "b"]),
        ("a\rb\r", ["a", "b"]),
        ("a\r\nb\r\r\nc\rd\n", ["a", "b", "c", "d"]),
        ("\r\n\r\na\n\n\rb", ["", "", "a", "", "", "b"]),
        ("a\u2028b\x0cc\x85d\x1ee\x0bf\n", ["a\u2028b\x0cc\x85d\x1ee\x0bf"]),
        ("longer line\rb\n", ["longer line", "b"]),
        ("", []),
    ],
)
def test_what_ends_a_line(size, content, lines):
    def read(most_bytes=0):
        stream = io.BytesIO(content.encode())
        return list(iterate_lines(iter(lambda: stream.readline(size), b""), most_bytes))

    found = read()
    assert found == [line.encode() for line in lines]
    assert unify_line_ends(content).removesuffix("\n").split("\n") == (lines or [""])
    cut = [None if len(line.encode()) > 4 else line.encode() for line in lines]
    assert read(4) == cut
