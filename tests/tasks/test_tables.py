"""Rows of tables: where they start, quotes, blank lines, and rejected files."""

import csv
import gzip
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.storage.csv_rows import Row, iterate_rows
from bert_keras.tasks.tables.tables import Table, without_bad_rows


@pytest.fixture
def read(write):
    """Return a function that writes a file and returns its rows."""
    return lambda name, content, is_csv=None: list(iterate_rows(write(name, content), is_csv))


def test_a_row_has_the_number_of_its_first_line(read):
    assert read("a.csv", 'text,label\n"two\nlines",1\n\n"say ""hi"", then\r\nmore",0\nlast,1') == [
        Row(1, ["text", "label"]),
        Row(2, ["two\nlines", "1"]),
        Row(5, ['say "hi", then\r\nmore', "0"]),
        Row(7, ["last", "1"]),
    ]


def test_byte_order_mark_and_windows_line_ends_are_not_part_of_cells(read):
    content = b"\xef\xbb\xbflabel\ttext\r\n1\tna\xc3\xafve\r\n"
    assert read("a.tsv", content) == [Row(1, ["label", "text"]), Row(2, ["1", "naïve"])]
    assert read("a.csv", content.replace(b"\t", b",")) == read("b.tsv", content)


@pytest.mark.parametrize(("name", "delimiter"), [("a.tsv", "\t"), ("a.csv", ",")])
def test_only_a_line_feed_ends_a_line_and_cells_have_any_length(read, name, delimiter):
    limit = csv.field_size_limit()
    for cell in ("a\u2028b\x0cc\x85d\x1ee", "x" * 200_000):
        assert read(name, f"{cell}{delimiter}1\n") == [Row(1, [cell, "1"])]
    assert csv.field_size_limit() == limit


def test_blank_lines_are_skipped_and_counted(read, messages):
    assert read("a.tsv", "\na\tb\n \n\nc\td\n\n") == [Row(2, ["a", "b"]), Row(5, ["c", "d"])]
    assert read("a.csv", "a,b\n,\n") == [Row(1, ["a", "b"])]
    assert messages == ["a.tsv: 4 blank lines are skipped", "a.csv: 1 blank line is skipped"]


@pytest.mark.parametrize(
    ("content", "delimiter"),
    [
        ('text\tlabel\n"a, b"\t1\n', "\t"),
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
        ("text\na; b\nc, d; e\n", None),
    ],
)
def test_the_delimiter_fits_most_rows(read, messages, content, delimiter):
    rows = [row.cells for row in read("a.csv", content)]
    if delimiter is None:
        assert len(rows[0]) == 1
        return
    assert rows == list(csv.reader(content.splitlines(), delimiter=delimiter))
    names = {";": "semicolons", "\t": "tabs", "|": "vertical bars"}
    assert messages == ([f"a.csv: cells are separated by {names[delimiter]}"] if delimiter != "," else [])


@pytest.mark.parametrize("name", ["a.csv", "a.tsv"])
@pytest.mark.parametrize("line", ["sep=;\n", "sep=;\r", '"sep=;"\r\n', "SEP=;\r\n"])
def test_a_first_line_may_name_the_delimiter(read, messages, name, line):
    assert read(name, f"{line}text;label\na, b;1\n") == [Row(2, ["text", "label"]), Row(3, ["a, b", "1"])]
    assert messages == [f'{name}: cells are separated by ";" (set in its first line)']


@pytest.mark.parametrize("line_end", ["\r", "\r\r\n", "\r\n", ["\r", "\n", "\r\n"]])
@pytest.mark.parametrize(("name", "delimiter"), [("a.csv", ","), ("a.tsv", "\t")])
def test_line_ends_of_other_systems(read, write, line_end, name, delimiter):
    ends = line_end if isinstance(line_end, list) else [line_end] * 3
    content = "".join(map(str.__add__, [f"text{delimiter}label", f"a{delimiter}1", f"b{delimiter}0"], ends))
    assert read(name, content) == [Row(1, ["text", "label"]), Row(2, ["a", "1"]), Row(3, ["b", "0"])]
    content = "".join(map(str.__add__, ['{"text": "a"}', '{"text": "b"}'], ends))
    assert list(Table(write("a.jsonl", content)).rows()) == [Row(1, ["a"]), Row(2, ["b"])]


def test_compressed_files_in_another_encoding(read):
    assert read("a.csv.gz", gzip.compress("text,label\nGrüße,1\n".encode("utf-16")))[1] == Row(2, ["Grüße", "1"])


@pytest.mark.parametrize(
    ("content", "rows", "num_quoted"),
    [
        ('text\tlabel\n"a\tb ""c"""\t1\n', [(1, ["text", "label"]), (2, ['a\tb "c"', "1"])], 1),
        ('"text"\t"label"\r\n"a\nb"\t"1"\r\nc\t2', [(1, ["text", "label"]), (2, ["a\nb", "1"]), (4, ["c", "2"])], 4),
        ('text\tlabel\n"a" b\t1\n', [(1, ["text", "label"]), (2, ['"a" b', "1"])], 0),
        ('"a\t1\nb"\t0\n', [(1, ['"a', "1"]), (2, ['b"', "0"])], 0),
        ('"one\ntwo"\n', [(1, ['"one']), (2, ['two"'])], 0),
        # Each cell is read alone: a stray quote elsewhere changes nothing.
        ('he said "a"\t1\n"b"\t0\n', [(1, ['he said "a"', "1"]), (2, ["b", "0"])], 1),
        ('5" disk\t1\r"b"\t\r"c"', [(1, ['5" disk', "1"]), (2, ["b", ""]), (3, ["c"])], 2),
        ('"a" "b"\t""\t"\n"\t', [(1, ['"a" "b"', "", "\n", ""])], 2),
        # Quotes around a tab enclose one cell, unless the row then lacks one: a quotation over two cells, as in STS-B.
        (
            'a\tb\tc\n"Oh!\tNo!"\t1\n"x"\t"y\tz"\n',
            [(1, [*"abc"]), (2, ['"Oh!', 'No!"', "1"]), (3, ["x", '"y', 'z"'])],
            1,
        ),
        ('a\tb\n"x\ty"\t1\n"x\ty"\n', [(1, [*"ab"]), (2, ["x\ty", "1"]), (3, ['"x', 'y"'])], 1),
        ('"x\ty"\n"x\ty"\t1\n', [(1, ["x\ty"]), (2, ["x\ty", "1"])], 2),
    ],
)
def test_a_cell_of_a_tsv_file_loses_the_quotes_that_enclose_it(read, messages, content, rows, num_quoted):
    assert read("a.tsv", content) == [Row(*row) for row in rows]
    assert messages == ([f"a.tsv: the quotes around {num_quoted} cells are removed"] if num_quoted else [])


@pytest.mark.parametrize(
    ("content", "rows", "is_told"),
    [
        ('text, label\n"a, b", pos\n"c", neg\n', [["text", " label"], ["a, b", " pos"], ["c", " neg"]], False),
        ('label, text\npos, "a, b"\nneg,  "c"\n', [["label", "text"], ["pos", "a, b"], ["neg", "c"]], True),
        ('text; label\na;  "b; ""c"""\n d; e\n', [["text", "label"], ["a", 'b; "c"'], ["d", "e"]], True),
        ('a,b\n "x",1\n"y" , 2\n', [["a", "b"], [' "x"', "1"]], None),
        # A quote within a cell, or in text that is not enclosed.
        ('a,b\nhe said "x", "y" and z,1\n', [["a", "b"], ['he said "x"', ' "y" and z', "1"]], False),
        ('a,b\n"said, ""x""",1\n', [["a", "b"], ['said, "x"', "1"]], False),
    ],
)
def test_blanks_before_the_quote_of_a_csv_cell(read, messages, content, rows, is_told):
    if is_told is None:
        with pytest.raises(
            ValueError, match=re.escape('line 3: a blank follows a closing quote, as in [y" ,]; remove')
        ):
            read("a.csv", content)
        return
    assert [row.cells for row in read("a.csv", content)] == rows
    assert ("a.csv: blanks before quotes are left out" in messages) == is_told


def test_quotes_of_distributed_tsv_files_are_ordinary_characters(read):
    assert read("a.tsv", '"a b"\t"c"\n', is_csv=False) == [Row(1, ['"a b"', '"c"'])]


def test_json_lines_have_a_cell_for_every_key(write):
    table = Table(write("a.jsonl", '{"text": "a"}\n\n{"label": [1], "text": "b"}\n'))
    assert table.names == ("text", "label")
    assert list(table.rows()) == [Row(1, ["a", None]), Row(3, ["b", [1]])]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"\xef\xbb\xbf", "a.csv is empty; give a file with rows"),
        ("a.csv", ",,\n,,\n", "a.csv has only empty cells; check how it was made"),
        ("a.csv", 'a,b\nc,"d\ne\n', "a.csv line 2: a quote is opened and never closed; close it"),
        ("a.csv", 'a,b\n"x\ny",1\n"c" d,e\n', "a.csv line 4: text follows a closing quote; double the quotes inside"),
        ("a.xlsx", b"PK\x03\x04", "a.xlsx is not text but a zip archive"),
        ("a.xlsx", "a", 'a.xlsx" must end with one of .csv, .tsv, .jsonl, .ndjson, .json, .txt; rename the file'),
    ],
)
def test_an_unreadable_file(read, name, content, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        read(name, content)


def test_what_is_no_file_is_not_to_be_renamed(tmp_path):
    with pytest.raises(ValueError, match=f'"{tmp_path}" is a folder; give a file with rows'):
        iterate_rows(tmp_path)
    with pytest.raises(FileNotFoundError, match='reviews.excel" does not exist; check the path'):
        iterate_rows(tmp_path / "reviews.excel")


CELLS = st.text(st.characters(codec="utf-8", exclude_characters="\ufeff"), max_size=8)


@given(st.lists(st.lists(CELLS, min_size=2, max_size=2).filter(lambda row: any(map(str.strip, row))), min_size=1))
def test_files_of_the_csv_module_are_read_back(tmp_path_factory, rows):
    file = tmp_path_factory.mktemp("csv") / "a.csv"
    with open(file, "w", encoding="utf-8", newline="") as content:
        csv.writer(content).writerows([["first", "second"], *rows])
    lines, read_back = zip(*iterate_rows(file), strict=True)
    assert list(read_back[1:]) == rows
    assert list(lines) == sorted(set(lines))


@pytest.mark.parametrize(
    ("line", "problem"),
    [
        ('{"text": ', "not valid JSON (Expecting value, column 10); write one object in a line"),
        ('["a"]', "a JSON list instead of an object; write one object in a line"),
    ],
)
def test_bad_rows_are_errors_or_counted(write, messages, line, problem):
    rows = list(Table(write("a.jsonl", f'{{"text": "a"}}\n{line}\n{line}\n')).rows())
    for is_skipping, advice in ((False, " (skip_bad_rows leaves such rows out)"), (None, "")):
        message = f"a.jsonl line 2: {problem}; a.jsonl line 3: {problem}{advice}"
        with pytest.raises(ValueError, match=f"^{re.escape(message)}$"):
            without_bad_rows("a.jsonl", rows, is_skipping)
    with pytest.raises(ValueError, match="a.jsonl line 2: .*; a.jsonl line 3: .*; and 2 more bad rows$"):
        without_bad_rows("a.jsonl", [*rows[1:], *rows[1:], rows[1]])
    assert without_bad_rows("a.jsonl", rows, is_skipping=True) == [Row(1, ["a"])]
    assert len(messages) == 1
    assert messages[0].startswith(f"a.jsonl: 2 bad rows are left out; the first: a.jsonl line 2: {problem}")
