"""Rows of tables: where they start, quotes, blank lines, and rejected files."""

import csv
import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.tasks.tables import (
    BadRows,
    Row,
    iterate_rows,
    read_csv_rows,
    read_json_rows,
    read_text,
    read_tsv_rows,
)


@pytest.fixture
def write(tmp_path):
    def write(name, content):
        file = tmp_path / name
        file.write_bytes(content if isinstance(content, bytes) else content.encode("utf-8"))
        return file

    return write


def test_a_row_is_known_by_the_line_that_it_starts_at(write):
    file = write("a.csv", 'text,label\n"two\nlines",1\n\n"say ""hi"", then\r\nmore",0\nlast,1')
    assert read_csv_rows(file) == [
        Row(1, ["text", "label"]),
        Row(2, ["two\nlines", "1"]),
        Row(5, ['say "hi", then\r\nmore', "0"]),
        Row(7, ["last", "1"]),
    ]


def test_byte_order_mark_and_windows_line_ends_are_no_part_of_cells(write):
    content = b"\xef\xbb\xbflabel\ttext\r\n1\tna\xc3\xafve\r\n"
    assert read_tsv_rows(write("a.tsv", content)) == [Row(1, ["label", "text"]), Row(2, ["1", "naïve"])]
    assert read_csv_rows(write("a.csv", content.replace(b"\t", b","))) == read_tsv_rows(write("b.tsv", content))


def test_only_a_line_feed_ends_a_line(write):
    separators = "a\u2028b\x0cc\x85d\x1ee"
    assert read_tsv_rows(write("a.tsv", f"{separators}\t1\n")) == [Row(1, [separators, "1"])]
    assert read_csv_rows(write("a.csv", f"{separators},1\n")) == [Row(1, [separators, "1"])]


def test_blank_lines_are_no_rows_and_are_counted(write, messages):
    assert read_tsv_rows(write("a.tsv", "\na\tb\n \n\nc\td\n\n")) == [Row(2, ["a", "b"]), Row(5, ["c", "d"])]
    assert read_csv_rows(write("a.csv", "a,b\n,\n")) == [Row(1, ["a", "b"])]
    assert messages == ["a.tsv: 4 blank lines are skipped", "a.csv: 1 blank line is skipped"]


def test_cells_may_be_longer_than_the_csv_module_allows(write):
    limit, long = csv.field_size_limit(), "x" * 200_000
    assert read_csv_rows(write("a.csv", f'"{long}",1\n')) == [Row(1, [long, "1"])]
    assert read_tsv_rows(write("a.tsv", f"{long}\t1\n")) == [Row(1, [long, "1"])]
    assert csv.field_size_limit() == limit


@pytest.mark.parametrize(("delimiter", "name"), [(";", "semicolons"), ("\t", "tabs")])
def test_the_delimiter_of_a_csv_file_is_seen_in_its_first_line(write, messages, delimiter, name):
    assert read_csv_rows(write("a.csv", f'text{delimiter}label\n"a, b"{delimiter}1\n'))[1] == Row(2, ["a, b", "1"])
    assert messages == [f"a.csv: cells are separated by {name}"]


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        # A column name contains a comma.
        ("text, long;label\na;1\nb;0\n", ";"),
        # The texts happen to have as many commas as there are columns.
        ("text;label\na, b;1\nc, d;0\n", ";"),
        ("text|label\na, b; c|1\nd|0\n", "|"),
        # Quoted text contains semicolons.
        ('text,label\n"a; b",1\nc,0\n', ","),
        # As many semicolons as commas: prefer the comma, unless it occurs only in numbers.
        ("a,b;c\nd,e;f\n", ","),
        ("a;1,5\nb;2,5\n", ";"),
        # One column.
        ("text\na; b\nc, d; e\n", ","),
    ],
)
def test_the_delimiter_is_the_one_that_fits_most_rows(write, content, delimiter):
    if delimiter == "," and content.startswith("text\n"):
        assert len(read_csv_rows(write("a.csv", content))[0].cells) == 1
        return
    expected = list(csv.reader(content.splitlines(), delimiter=delimiter))
    assert [row.cells for row in read_csv_rows(write("a.csv", content))] == expected


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("line", ["sep=;\n", '"sep=;"\r\n', "SEP=;\r\n"])
def test_a_first_line_may_name_the_delimiter(write, messages, name, line):
    rows = list(iterate_rows(write(name, f"{line}text;label\na, b;1\n")))
    assert rows == [Row(2, ["text", "label"]), Row(3, ["a, b", "1"])]
    assert messages == [f'{name}: cells are separated by ";" (set in its first line)']


@pytest.mark.parametrize("line_end", ["\r", "\r\r\n", "\r\n"])
@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_line_ends_of_other_systems(write, line_end, name, delimiter):
    content = line_end.join([f"text{delimiter}label", f"a{delimiter}1", f"b{delimiter}0", ""])
    expected = [Row(1, ["text", "label"]), Row(2, ["a", "1"]), Row(3, ["b", "0"])]
    assert list(iterate_rows(write(name, content))) == expected
    content = line_end.join(['{"text": "a"}', '{"text": "b"}', ""])
    assert read_json_rows(write("a.jsonl", content), BadRows("a.jsonl"))[1] == [Row(1, ["a"]), Row(2, ["b"])]


@pytest.mark.parametrize("encoding", ["utf-16", "utf-8-sig"])
def test_compressed_files_and_other_encodings(write, encoding):
    content = gzip.compress("text,label\nGrüße,1\n".encode(encoding))
    assert list(iterate_rows(write("a.csv.gz", content)))[1] == Row(2, ["Grüße", "1"])


def test_quotes_of_tsv_files_as_distributed_are_ordinary_characters(write):
    assert read_tsv_rows(write("a.tsv", '"a\t"b"\n')) == [Row(1, ['"a', '"b"'])]


@pytest.mark.parametrize(
    ("content", "rows"),
    [
        ('text\tlabel\n"a\tb ""c"""\t1\n', [["text", "label"], ['a\tb "c"', "1"]]),
        ('"text"\t"label"\r\n"a\nb"\t"1"\r\n', [["text", "label"], ["a\nb", "1"]]),
        ('text\tlabel\n"a" b\t1\n', [["text", "label"], ['"a" b', "1"]]),
        ('"a\t1\nb"\t0\n', [['"a', "1"], ['b"', "0"]]),
        ('he said "a"\t1\n"b"\t0\n', [['he said "a"', "1"], ['"b"', "0"]]),
        ('"one\ntwo"\n', [['"one'], ['two"']]),
    ],
)
def test_quotes_of_ones_own_tsv_files_protect_cells_only_where_all_of_them_do(write, messages, content, rows):
    assert [row.cells for row in iterate_rows(write("a.tsv", content))] == rows
    is_quoted = not any('"' in cell and "c" not in cell for row in rows for cell in row)
    assert messages == (["a.tsv: cells are quoted; the quotes are removed"] if is_quoted else [])


def test_json_lines_have_a_cell_for_every_key(write):
    keys, rows = read_json_rows(write("a.jsonl", '{"text": "a"}\n\n{"label": [1], "text": "b"}\n'), BadRows("a.jsonl"))
    assert keys == ("text", "label")
    assert rows == [Row(1, ["a", None]), Row(3, ["b", [1]])]


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("a.csv", "", "a.csv is empty; give a file with rows"),
        ("a.csv", b"\xef\xbb\xbf", "a.csv is empty; give a file with rows"),
        ("a.csv", ",,\n,,\n", "a.csv has only empty cells; check how it was made"),
        ("a.tsv", b"a\tb\nc\xe9\td\n", "a.tsv line 2: not UTF-8 (byte 0xe9); save it as UTF-8"),
        # The count excludes the byte order mark.
        ("a.tsv", b"\xef\xbb\xbfa\tb\nc\xe9d\te\n", "a.tsv line 2: not UTF-8 (byte 0xe9); save it as UTF-8"),
        ("a.tsv", b"\xef\xbb\xbfa\xe9\n\nb\n", "a.tsv line 1: not UTF-8 (byte 0xe9); save it as UTF-8"),
        ("a.csv", 'a,b\nc,"d\ne\n', "a.csv line 2: a quote is opened and never closed; close it"),
        ("a.csv", 'a,b\n"x\ny",1\n"c" d,e\n', "a.csv line 4: text follows a closing quote; double the quotes inside"),
        ("a.xlsx", b"PK\x03\x04", "a.xlsx is not text but a zip archive"),
        ("a.xls", b"\xd0\xcf\x11\xe0", "a.xls is not text but an old Microsoft Office file; in Excel, save it with"),
        (
            "a.csv",
            "text,label\n".encode("utf-16-le"),
            "a.csv is not UTF-8: 11 of its first 22 bytes are 0, as in UTF-16",
        ),
        ("a.xlsx", "a", 'a.xlsx" must end with one of .csv, .tsv, .txt, .jsonl, .json; rename the file'),
    ],
)
def test_a_file_that_cannot_be_read_is_refused_in_one_sentence(write, name, content, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        list(iterate_rows(write(name, content)))


def test_a_missing_file_and_a_folder_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r'there is no file ".*none.csv"; check the path'):
        read_text(tmp_path / "none.csv")
    with pytest.raises(ValueError, match="is a folder; give a file with rows"):
        read_text(tmp_path)


def test_a_json_file_that_is_one_list_is_refused(write):
    with pytest.raises(ValueError, match="a.json is a JSON list; write one object on each line"):
        read_json_rows(write("a.json", '[\n{"text": "a"}\n]'), BadRows("a.json", is_skipping=True))


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2).filter(lambda row: any(map(str.strip, row))), min_size=1))
def test_what_the_csv_module_writes_is_read_back(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(file, "w", encoding="utf-8", newline="") as content:
        csv.writer(content).writerows([["first", "second"], *rows])
    lines, read_back = zip(*read_csv_rows(file), strict=True)
    assert list(read_back[1:]) == rows
    assert list(lines) == sorted(set(lines))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": ', "not valid JSON (Expecting value, column 10); write one object in a line"),
        ('["a"]', "a JSON list, but one object in each line is needed"),
        ('"a"', "a JSON str, but one object in each line is needed"),
        ('{"text": "a \\ud800 b"}', r"\ud800 is half of a surrogate pair, which is not a character"),
        ("[" * 100_000, "JSON is nested too deeply; write one object in a line"),
        ('{"n": ' + "7" * 5000 + "}", "a number of more than 4,300 digits; write one object in a line"),
    ],
)
def test_bad_rows_are_errors_or_counted(write, messages, line, problem):
    file = write("a.jsonl", f'{{"text": "a"}}\n{line}\n{line}\n')
    with pytest.raises(ValueError, match=re.escape(f"a.jsonl line 2: {problem}")) as error:
        read_json_rows(file, BadRows("a.jsonl"))
    assert str(error.value).endswith(" (--skip_bad_rows leaves such rows out)")
    bad_rows = BadRows("a.jsonl", is_skipping=True)
    assert read_json_rows(file, bad_rows)[1] == [Row(1, ["a"])]
    bad_rows.report()
    assert len(messages) == 1
    assert messages[0].startswith(f"a.jsonl: 2 bad rows are left out; the first: a.jsonl line 2: {problem}")
