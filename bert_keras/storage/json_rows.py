"""Reads rows of JSON, each with the line where it begins: objects on lines, a list of objects, or one in "data"."""

import codecs
import json
import logging
import os
import re
from collections.abc import Iterator
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import inspection, paths, text_files
from bert_keras.storage.json_files import decode, iterate_objects, not_valid, skip_blanks

log = logging.getLogger("bert_keras")

_BEGIN_OF_ROWS = re.compile(r'\s*(?:\[\s*)?\{\s*"(?:[^"\\]|\\.)*"\s*:')
# The file of data in memory, which a call from Python writes, and the name of the data; each line is a row.
_IN_MEMORY = re.compile(r"(\w+_data)-[0-9a-f]{8}\.jsonl")
_LOOKED_AT = 4096  # bytes, or characters of a text that is read
_KEYS_WITHOUT_ROWS = ("data", "version", "schema")


class JsonRows:
    """The objects of a file, each with the number of the line where it begins, or of the object if all are on one line.

    The content decides its form, not the ending of its name: an object on each line, objects over several lines, a list
    of objects, an object whose "data" is such a list, or a table of pandas' `to_json`. The call reads the whole file;
    iterating parses its rows one by one. A row that is not an object, or a line that is not JSON, is a Mistake.
    `text` is the content of the file if it is read already.

    Attributes:
        path, name: the path and its last part; for data in memory, both are its name, such as "train_data".
        unit: what the numbers count: "line", "row" for data in memory, where each line is a row, or, from the begin of
            iterating, "line 1 object" if a list has all its objects on one line, and "row" for columns.
    """

    def __init__(
        self, path: str | os.PathLike, needed: str = "write one object in a line", text: str | None = None
    ) -> None:
        text = text_files.read_text(path, needed) if text is None else text
        self._text = text_files.unify_line_ends(text)
        self._needed = needed
        self.path = name_of(path)
        is_file = self.path == os.fspath(path)
        self.unit, self.name = ("line", paths.name(path)) if is_file else ("row", self.path)

    def place(self, line: int) -> str:
        """Returns the user's words for a line: "line 4", or for data in memory "row 3", from 0."""
        return f"{self.unit} {line - (self.unit == 'row')}"

    def objects(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields the rows as iterating does, but raises a Mistake."""
        for line, row in self:
            if isinstance(row, Mistake):
                raise row
            yield line, row

    def __iter__(self) -> Iterator[tuple[int, dict[str, Any] | Mistake]]:
        text, start = self._text, skip_blanks(self._text, 0)
        if text.startswith("[", start):
            return self._rows_of_list(start, is_whole=True)
        first = text[start:].split("\n", 1)[0].rstrip()
        try:
            value, end = decode(text, start, self._place_at, self._needed)
        except Mistake:
            if first.endswith(("{", "[")):
                raise
            return self._rows_on_lines()
        if not isinstance(value, dict):
            return self._rows_on_lines()
        if skip_blanks(text, end) == len(text) and _is_list_of_objects(value.get("data")):
            unread = [key for key in value if key not in _KEYS_WITHOUT_ROWS]
            if unread:
                log.info('%s: the rows are its "data"; its other keys are not read: %s', self.name, ", ".join(unread))
            return self._rows_of_list(self._find_value(start, "data"), is_whole=False)
        if skip_blanks(text, end) == len(text) and (rows := _rows_of_table(value)):
            self.unit = "row"
            return enumerate(rows, 1)
        return self._rows_of_objects(start) if "\n" in text[start:end] else self._rows_on_lines()

    def _rows_on_lines(self) -> Iterator[tuple[int, dict[str, Any] | Mistake]]:
        count, number = 0, 0
        lines = self._text.split("\n")
        for number, value in iterate_objects(lines, lambda line: f"{self.name} {self.place(line)}", self._needed):
            count += 1
            yield number, value
        if number > count:
            blank = "1 blank line is" if number - count == 1 else f"{number - count:,} blank lines are"
            log.info("%s: %s skipped", self.name, blank)

    def _rows_of_objects(self, start: int) -> Iterator[tuple[int, dict[str, Any] | Mistake]]:
        """Yields the values that follow one another."""
        line, last = 1, 0
        while start < len(self._text):
            value, end = decode(self._text, start, self._place_at, self._needed)
            line, last = line + self._text.count("\n", last, start), start
            yield line, self._check(value, line)
            start = skip_blanks(self._text, end)

    def _rows_of_list(self, start: int, is_whole: bool) -> Iterator[tuple[int, dict[str, Any] | Mistake]]:
        """Yields the items of the list that begins at an index; after one that `is_whole`, the text must end."""
        text, line, last, count = self._text, 1, 0, 0
        place = skip_blanks(text, start + 1)
        if "\n" not in text[place:].rstrip() and self.unit == "line":
            self.unit = f"line {text.count(chr(10), 0, place) + 1} object"
        if text.startswith("]", place):
            raise Mistake("{}: the list of objects is empty; {}", self.name, self._needed)
        while not text.startswith("]", place):
            value, end = decode(text, place, self._place_at, self._needed)
            line, last = line + text.count("\n", last, place), place
            count += 1
            number = line if self.unit == "line" else count
            yield number, self._check(value, number)
            place = skip_blanks(text, end)
            if text.startswith(",", place):
                place = skip_blanks(text, place + 1)
            elif not text.startswith("]", place):
                raise self._not_valid("Expecting ',' delimiter", place)
        place = skip_blanks(text, place + 1)
        if is_whole and place < len(text):
            raise self._not_valid("Extra data", place)

    def _find_value(self, start: int, key: str) -> int:
        """Returns the index of the value of a key of the valid object that begins at `start`."""
        found, place = None, start
        while found != key:
            found, place = decode(self._text, skip_blanks(self._text, place + 1), self._place_at, self._needed)
            value = skip_blanks(self._text, skip_blanks(self._text, place) + 1)
            if found != key:
                _, place = decode(self._text, value, self._place_at, self._needed)
                place = skip_blanks(self._text, place)
        return value

    def _check(self, value: Any, line: int) -> dict[str, Any] | Mistake:
        if isinstance(value, dict):
            return value
        found = f"a JSON {type(value).__name__} instead of an object"
        return Mistake("{} {}: {}; {}", self.name, self.place(line), found, self._needed)

    def _place_at(self, index: int | None) -> str:
        if index is None:
            return self.name
        line = self._text.count("\n", 0, index) + 1
        return f"{self.name} {self.place(line) if self.unit == 'row' else f'line {line}'}"

    def _not_valid(self, problem: str, index: int) -> Mistake:
        return not_valid(json.JSONDecodeError(problem, self._text, index), self._place_at, self._needed)


def name_of(path: str | os.PathLike) -> str:
    """Returns a path for messages; for data in memory their name, such as "train_data"."""
    found = _IN_MEMORY.fullmatch(paths.name(path))
    return found[1] if found else os.fspath(path)


def place_in(path: str | os.PathLike, line: int) -> str:
    """Returns the user's words for a line of a file: "a.jsonl line 4", or for data in memory "train_data row 3"."""
    name = name_of(path)
    return f"{name} line {line}" if name == os.fspath(path) else f"{name} row {line - 1}"


def has_json_rows(path: str | os.PathLike) -> bool:
    """Returns whether a file has rows of JSON: by the ending of its name, or because it begins with an object."""
    if inspection.format_by_name(path) == "json" or not paths.is_file(path):
        return inspection.format_by_name(path) == "json"
    with paths.open_file(path) as content:
        return begins_as_rows(content.read(_LOOKED_AT).removeprefix(codecs.BOM_UTF8).decode("utf-8", "replace"))


def look_for_rows(path: str | os.PathLike, needed: str) -> tuple[bool, str | None]:
    """Returns whether a file has rows of JSON, and its text if the name does not tell, so that it is opened once."""
    if inspection.format_by_name(path) == "json" or not paths.is_file(path):
        return inspection.format_by_name(path) == "json", None
    text = text_files.read_text(path, needed)
    return begins_as_rows(text[:_LOOKED_AT]), text


def begins_as_rows(text: str) -> bool:
    """Returns whether a text begins with an object of JSON, which has a key."""
    return _BEGIN_OF_ROWS.match(text) is not None


def _rows_of_table(value: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the rows of an object that pandas wrote: by columns, its default, by index or split; or no row."""
    names, rows = value.get("columns"), value.get("data")
    if isinstance(names, list) and isinstance(rows, list) and {*map(type, names)} == {str}:
        whole = [isinstance(row, list) and len(row) == len(names) for row in rows]
        return [dict(zip(names, row, strict=True)) for row in rows] if all(whole) else []
    parts = [part for part in value.values() if isinstance(part, dict)]
    keys = parts[0].keys() if parts else ()
    if len(parts) < len(value) or any(part.keys() != keys for part in parts):
        return []
    if all(map(str.isdecimal, keys)):
        return [{name: column[key] for name, column in value.items()} for key in keys]
    return parts if all(map(str.isdecimal, value)) else []


def _is_list_of_objects(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, dict) for item in value[:1])
