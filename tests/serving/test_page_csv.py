"""The page's reader of CSV and TSV in Node: its rows and columns are those of the programs."""

import csv
import io
import random

import pytest
from node import run_node

from bert_keras.mistakes import Mistake
from bert_keras.storage.csv_rows import iterate_rows
from bert_keras.tasks.tables.column_names import PAIRS, TEXT_NAMES
from bert_keras.tasks.tables.columns import Columns, choose_columns

pytestmark = pytest.mark.slow  # starts Node

_READ = """
import { readTable, writeTable } from "./csv.js";

function main(files) {
  return files.map(([text, isTsv]) => {
    try {
      const table = readTable(text, isTsv);
      return { ...table, written: writeTable(table.rows.map(({ cells }) => cells), table) };
    } catch (error) {
      return error.message;
    }
  });
}
"""
FILES = {
    "quotes.csv": 'a,b\r\n"x, ""y""\r\nz",2\r\n\r\n,\r\nlast,',
    "semicolons.csv": 'a;b\n1,5;2\n"3;4";5\n',
    "tabs.csv": "a\tb\nc, d\te",
    "bars.csv": "a|b\nc|d\n",
    "separator.csv": 'sep=;\r\na;b\r\n"c;\n";d',
    "one.csv": 'text\nShe said "no".\n\u00fc \U0001f600',
    "old.csv": "a,b\rc,d\r",
    "separator_old.csv": "sep=;\ra;b\rc;d\r",
    "converted_twice.csv": 'a,b\r\r\n"c",d\r\r\ne,f',
    "converted_twice.tsv": "a\tb\r\r\nc\td\r\r\n",
    "plain.tsv": 'a\tb\n"x" y\t"z\n',
    "quotes.tsv": 'a\tb\n"x\ty"\t"z ""q"""\n"p\nq"\tr\n',
    "one_column.tsv": 'text\n"I know.\nSo do I."\n"And now?"',
    "two_cells.tsv": 'a\tb\tc\n"x\ty"\t1\n"p"\t"q\nr\ts"\n"u\tv"\tw\t2\n"i\tj"\t"k"',
}


def test_the_reader_gives_the_rows_of_the_programs(tmp_path):
    draw, files = random.Random(7), dict(FILES)
    for number in range(200):
        delimiter = draw.choice(",;\t|")
        text = io.StringIO()
        writer = csv.writer(text, delimiter=delimiter, lineterminator=draw.choice(("\n", "\r\n")))
        width = draw.randint(2, 4)
        cells = ("she was", 'a "b"', "c\nd", ",;", "\u00e9 \U0001f600", "x|y", "")
        writer.writerows([["a", *(draw.choice(cells) for _ in range(width - 1))] for _ in range(draw.randint(3, 9))])
        files[f"random_{number}.csv"] = text.getvalue()
    found = run_node(tmp_path / "node", _READ, [[text, name.endswith(".tsv")] for name, text in files.items()])
    for (name, text), table in zip(files.items(), found, strict=True):
        path = tmp_path / name
        path.write_text(text, newline="", encoding="utf-8")
        expected = [row._asdict() for row in iterate_rows(path)]
        if len({len(row["cells"]) for row in expected}) > 1:  # only other delimiters look right to both readers
            assert "but the first row has" in table
            continue
        assert table["rows"] == expected, name
        path.write_text(table["written"], newline="", encoding="utf-8")
        assert [row.cells for row in iterate_rows(path)] == [row["cells"] for row in expected], name
        assert table["written"].startswith("sep=") == text.startswith("sep=")


def test_tables_that_cannot_be_read(tmp_path):
    cases = {
        "a,b\n1,2,3": "Line 2 has 3 cells, but the first row has 2; check the quotes in that line.",
        'a,b\n"1,2\n': "Line 2: a quote is opened and never closed; close it, or double quotes that are text.",
        'a,b\n"1"x,2': 'Line 2: text follows a closing quote; double the quotes inside a cell, as in "a ""b"" c".',
    }
    assert run_node(tmp_path / "node", _READ, [[text, False] for text in cases]) == [*cases.values()]


def test_the_page_guesses_the_columns_that_the_programs_take(tmp_path):
    pairs = [*PAIRS, *((first, "negative") for first in TEXT_NAMES), ("x", "y"), ("text", "review"), ("İd", "text")]
    rows = [[*pair] for pair in pairs] + [["id", *pair, "label"] for pair in pairs]
    rows += [["x"], ["text", "text_a", "text_b"]]
    rows += [[name.replace("_", " ").title() for name in row] for row in rows]
    rows += [[f" {name.replace('_', '-').upper()}_" for name in row] for row in rows[: len(pairs)]]

    def columns_of(names):
        try:
            found = choose_columns("a.csv", names, Columns(), needs_label=False)
        except Mistake:
            return []
        return [names.index(name) for name in (found.text, found.pair) if name is not None]

    guess = 'import { guessedColumns } from "./table.js";\nconst main = (rows) => rows.map(guessedColumns);'
    assert run_node(tmp_path / "node", guess, rows) == [columns_of(names) for names in rows]
