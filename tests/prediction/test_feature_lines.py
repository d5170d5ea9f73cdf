"""Lines of text, split as the original BERT splits them."""

import pytest

from bert_keras.prediction.feature_files import count_lines, read_lines, split_line


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("he was\n", "he was"),
        ("  he was \r\n", "he was"),
        ("\n", ""),
        ("he ||| was", ("he", "was")),
        ("a ||| b ||| c", ("a ||| b", "c")),
        ("a ||| ||| b", ("a |||", "b")),
        ("a |||  b", ("a", " b")),
        ("a||| b", "a||| b"),
        ("||| b", "||| b"),
        ("a ||| ", "a |||"),
        (" ||| ", "|||"),
        ("a\u2028 ||| b\x0cc", ("a\u2028", "b\x0cc")),
    ],
)
def test_the_last_separator_splits_a_line(line, expected):
    assert split_line(line) == expected


def test_every_line_counts_and_blank_ones_are_empty_texts(tmp_path):
    path = tmp_path / "texts.txt"
    path.write_bytes("\ufeffhe\r\n\n é ||| b\n \nlast".encode())
    assert count_lines(path) == 5
    assert list(read_lines(path)) == ["he", "", ("é", "b"), "", "last"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"texts.txt is empty; give one text a line$"),
        (b"he\nwas\nso \xe9\n", r"texts.txt line 3: not UTF-8 \(byte 0xe9\); save it as UTF-8$"),
    ],
)
def test_files_that_cannot_be_read_are_one_sentence(tmp_path, content, message):
    (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        count_lines(tmp_path / "texts.txt")


def test_a_file_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"^{tmp_path}/none.txt is not a file; give a text file, one text a"):
        count_lines(tmp_path / "none.txt")
