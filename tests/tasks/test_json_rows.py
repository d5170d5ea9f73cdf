"""Rows of JSON: lines, lists and objects over several lines, each with the line where it begins."""

import gzip
import json
import re

import pytest

from bert_keras.storage.json_rows import JsonRows, has_json_rows
from bert_keras.tasks.tables.tables import Table

ROWS = [{"text": "a]", "label": ["x", {"b": 1}]}, {"text": '{"', "label": None}, {"text": "ü\\"}]


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.txt", "a.csv", "list.ndjson.gz"])
@pytest.mark.parametrize(
    ("content", "lines"),
    [
        ("\n".join(map(json.dumps, ROWS)), [1, 2, 3]),
        ("\n\n" + "\n \n".join(map(json.dumps, ROWS)) + "\n\n", [3, 5, 7]),
        (json.dumps(ROWS, ensure_ascii=False), [1, 2, 3]),
        ("[" + ",\n".join(map(json.dumps, ROWS)) + ",\n]", [1, 2, 3]),
        (json.dumps(ROWS, indent=1), [2, 11, 15]),
        (json.dumps({"data": ROWS}), [1, 2, 3]),
        (json.dumps({"version": '"data": [', "data": ROWS, "n": {"data": [{}]}}, indent=2), [4, 13, 17]),
        ("\n".join(json.dumps(row, indent=4) for row in ROWS), [1, 10, 14]),
        ('{"text": 1}', [1]),
        ('{"text":\n1}', [1]),
        ('{"data": "one"}\n{"data": [{}]}', [1, 2]),
        ('{"data": ["a"]}', [1]),
    ],
)
def test_the_content_decides_the_form(write, name, content, lines):
    is_packed = name.endswith(".gz")
    path = write(name, gzip.compress(content.replace("\n", "\r\n").encode()) if is_packed else content)
    assert has_json_rows(path)
    found = list(JsonRows(path))
    assert [line for line, _ in found] == lines
    if len(lines) == 3:
        assert [row for _, row in found] == ROWS
        table = Table(path)
        assert table.names == ("text", "label")
        assert [row.cells for row in table.rows()] == [[row.get("text"), row.get("label")] for row in ROWS]
    assert all(isinstance(row, dict) for _, row in found)


@pytest.mark.parametrize("orient", ["columns", "index", "split", "split without index", "records", "table"])
def test_tables_as_pandas_writes_them(write, orient):
    rows = [{"text": f"{number} {{", "label": number % 2 or None} for number in range(12)]
    split = {"columns": ["text", "label"], "data": [[*row.values()] for row in rows]}
    content = {
        "columns": {name: {str(number): row[name] for number, row in enumerate(rows)} for name in rows[0]},
        "index": {str(number): row for number, row in enumerate(rows)},
        "split": {"columns": split["columns"], "index": [*range(12)], "data": split["data"]},
        "split without index": split,
        "records": rows,
        "table": {"schema": {"fields": [], "primaryKey": ["index"]}, "data": rows},
    }[orient]
    found = JsonRows(write("a.json", json.dumps(content)))
    assert [row for _, row in found] == rows
    if orient not in ("records", "table"):
        assert [found.place(line) for line, _ in found] == [f"row {number}" for number in range(12)]


@pytest.mark.parametrize(
    "content",
    [
        '{"a": {"0": 1}, "b": {"1": 1}}',
        '{"a": {"0": 1}, "b": 2}',
        '{"a": {"x": 1}}',
        '{"a": {}}',
        '{"0": {"a": 1}, "1": {"b": 1}}',
        '{"0": {"a": 1}, "1": 1}',
        '{"columns": ["a", "b"], "data": [[1, 2], [1]]}',
        '{"columns": ["a", 1], "data": [[1, 2]]}',
        '{"columns": ["a"], "data": 1}',
    ],
)
def test_an_object_that_is_no_table_is_a_row(write, content):
    assert list(JsonRows(write("a.json", content))) == [(1, json.loads(content))]


@pytest.mark.parametrize("content", ["a\tb\n", '"a","b"\n', "[ O\n", "[1] O", "{ O", '{"a", "b"}', "[CLS] {", "["])
def test_other_texts_are_not_json(write, content):
    assert not has_json_rows(write("a.txt", content))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('[\n{"a": 1},\n{"a" 2}]', "line 3: not valid JSON (Expecting ':' delimiter, column 6)"),
        ('[\n{"a": 1}\n{"a": 2}]', "line 3: not valid JSON (Expecting ',' delimiter, column 1)"),
        ('[{"a": 1}]\n[{"a": 2}]', "line 2: not valid JSON (Extra data, column 1)"),
        ('[{"a": 1},\n', "line 2: not valid JSON (Expecting value, column 1)"),
        ('{"data": [\n{"a": 1}\n{"a": 2}\n]}', "line 3: not valid JSON (Expecting ',' delimiter, column 1)"),
        ('{\n"a": 1}\n{\n"a" 2}', "line 4: not valid JSON (Expecting ':' delimiter, column 5)"),
        ('[{"a": "\\ud800"}]', "line 1: \\ud800 is half of a surrogate pair"),
        ('[{"a":\n' + "7" * 5000 + "}]", "line 2: a number of more than 4,300 digits"),
        ("[]", "the list of objects is empty; give rows"),
        ('{"data":\n[]}', "the list of objects is empty; give rows"),
    ],
)
def test_what_ends_reading(write, content, message):
    path = write("a.json", content)
    with pytest.raises(ValueError, match=f"^a.json:? {re.escape(message)}"):
        list(JsonRows(path, "give rows"))


@pytest.mark.parametrize(
    ("content", "line", "problem"),
    [
        ('{"a": 1}\n{"a": \n{"a": 3}', 2, "not valid JSON (Expecting value, column 7)"),
        ('{"a": \n{"a": 2}\n', 1, "not valid JSON (Expecting value, column 7)"),
        ('{"a": 1}\n["a"]\n', 2, "a JSON list instead of an object"),
        ('[{"a": 1},\n"b"]', 2, "a JSON str instead of an object"),
        ('{"data": [{"a": 1},\n\n7]}', 3, "a JSON int instead of an object"),
        ('{"a": 1} {"a": 2}', 1, "not valid JSON (Extra data, column 10)"),
        ("text,label\na,1", 1, "not valid JSON (Expecting value, column 1)"),
    ],
)
def test_a_bad_row_is_an_error_of_its_line(write, content, line, problem):
    errors = {line: str(row) for line, row in JsonRows(write("a.jsonl", content)) if isinstance(row, ValueError)}
    assert errors[line] == f"a.jsonl line {line}: {problem}; write one object in a line"


@pytest.mark.parametrize(
    ("content", "place"),
    [
        ('[{"text": "a"}, {"text": 1}]', "line 1 object 2"),
        ('\n{"data": [{"text": "a"}, {"text": 1}]}\n', "line 2 object 2"),
        ('[{"text": "a"},\n\n{"text": 1}]', "line 3"),
        ('{"text": "a"}\n{"text": 1}', "line 2"),
    ],
)
def test_messages_name_the_line_and_the_object_of_a_long_line(write, content, place):
    table = Table(write("a.json", content))
    assert table.place([row.line for row in table.rows()][-1]) == place


def test_keys_that_are_not_read_are_in_the_log(write, messages):
    list(JsonRows(write("a.json", '{"version": 1, "license": "MIT", "names": [], "data": [{}]}')))
    assert messages == ['a.json: the rows are its "data"; its other keys are not read: license, names']
