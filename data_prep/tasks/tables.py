"""Reads the rows of CSV, TSV and JSON lines, each with the number of its first line."""

import csv
import heapq
import io
import logging
import math
import os
from collections.abc import Iterator
from typing import Any, NamedTuple

from bert_keras.data_prep.tasks.table_format import (
    find_delimiter,
    is_quoted_tsv,
    next_row,
    separator_line,
    unify_line_ends,
)
from bert_keras.storage import paths, text_files
from bert_keras.storage.json_files import parse_json

log = logging.getLogger("bert_keras")

TSV_ENDINGS = (".tsv", ".txt")
JSON_ENDINGS = (".jsonl", ".json")
ENDINGS = (".csv", *TSV_ENDINGS, *JSON_ENDINGS)


class Row(NamedTuple):
    """One row of a table: its first line, from 1, and its cells (str; in JSON any value, None if missing)."""

    line: int
    cells: list[Any]


class BadRow(NamedTuple):
    """An unusable row: its place, such as "a.csv line 3", and its error."""

    source: str
    error: ValueError


class BadRows:
    """Unusable rows: the first raises an error, or all are left out and counted, or kept for `take`.

    Args:
        name: of the file.
        is_skipping: leaves them out.
        is_keeping: keeps them for `take`.
    """

    def __init__(self, name: str, is_skipping: bool = False, is_keeping: bool = False):
        self.name = name
        self.is_skipping = is_skipping
        self.is_keeping = is_keeping
        self._kept = []  # a heap of (line, message)
        self.count = 0
        self._first = ""

    def add(self, line: int, problem: str) -> None:
        """Records a row; raises ValueError with file, line and problem if rows are neither skipped nor kept."""
        sentence = f"{self.name} line {line}: {problem}"
        if self.is_keeping:
            heapq.heappush(self._kept, (line, sentence))
            return
        if not self.is_skipping:
            raise ValueError(f"{sentence} (--skip_bad_rows leaves such rows out)")
        self._first = self._first or sentence
        self.count += 1

    def take(self, before: float = math.inf) -> Iterator[BadRow]:
        """Yields the kept rows before a line in their order, and forgets them."""
        while self._kept and self._kept[0][0] < before:
            line, sentence = heapq.heappop(self._kept)
            yield BadRow(f"{self.name} line {line}", ValueError(sentence))

    def report(self) -> None:
        """Logs how many rows were left out."""
        if self.count:
            log.warning("%s: %s bad rows are left out; the first: %s", self.name, f"{self.count:,}", self._first)


def read_text(path: str | os.PathLike) -> str:
    """Reads the text of a table; see `storage.text_files.read_text`."""
    return text_files.read_text(path, "give a file with rows")


def read_tsv_rows(path: str | os.PathLike) -> list[Row]:
    """Reads rows of cells separated by tabs, with quotes as ordinary characters, like the files of GLUE.

    Blank lines are skipped; the log reports how many. Differs from the original: it fails at a blank line, and at a
    cell of more than 131,072 characters.

    Raises:
        FileNotFoundError, ValueError: see `read_text`.
    """
    name = name_of(path)
    return list(_split_tsv(unify_line_ends(read_text(path), name), name))


def read_csv_rows(path: str | os.PathLike) -> list[Row]:
    """Reads rows of a CSV file: quoted cells may contain the delimiter, line ends, and doubled quotes.

    The delimiter is the comma, semicolon, tab or vertical bar that fits most rows, or the delimiter in a first line
    such as `sep=;`. The log reports it, except a detected comma.

    Raises:
        FileNotFoundError, ValueError: see `read_text`; or all cells are empty, or a quote is not closed or closed too
            early.
    """
    name = name_of(path)
    return list(_split_csv(unify_line_ends(read_text(path), name), name))


def iterate_rows(path: str | os.PathLike) -> Iterator[Row]:
    """Yields the rows of a user's CSV or TSV file, depending on the ending of its name.

    In a TSV file quotes are ordinary characters, unless every quote belongs to a quoted cell; then they are removed,
    and the log reports this. The call reads the whole file; the iterator splits rows one by one.

    Raises:
        FileNotFoundError, ValueError: see `read_csv_rows`.
    """
    ending, name = ending_of(path), name_of(path)
    text = unify_line_ends(read_text(path), name)
    if ending not in TSV_ENDINGS or separator_line(text)[0]:
        return _split_csv(text, name)
    if not is_quoted_tsv(text):
        return _split_tsv(text, name)
    log.info("%s: cells are quoted; the quotes are removed", name)
    return _split_quoted(text, name, "\t")


def read_json_rows(path: str | os.PathLike, bad_rows: BadRows) -> tuple[tuple[str, ...], list[Row]]:
    """Reads a file with a JSON object on each line.

    Args:
        path: of the file.
        bad_rows: records lines with something else.

    Returns:
        All keys of the objects, and the objects as rows with a cell for each key.

    Raises:
        FileNotFoundError, ValueError: see `read_text`; or the file is a single list.
    """
    text = unify_line_ends(read_text(path), name_of(path))
    if text.lstrip().startswith("["):
        raise ValueError(f"{name_of(path)} is a JSON list; write one object on each line, for example with jq -c .[]")
    lines = text.removesuffix("\n").split("\n")
    objects, num_blank = [], 0
    for number, line in enumerate(lines, 1):
        if not line.strip():
            num_blank += 1
            continue
        value = _read_json_line(line, number, bad_rows)
        if value is not None:
            objects.append((number, value))
    _tell_blank_lines(name_of(path), num_blank)
    keys = tuple(dict.fromkeys(key for _, value in objects for key in value))
    return keys, [Row(number, [value.get(key) for key in keys]) for number, value in objects]


def name_of(path: str | os.PathLike) -> str:
    """Returns the name of a file without its folder."""
    return paths.name(path)


def ending_of(path: str | os.PathLike) -> str:
    """Returns the ending of a file name without .gz and the like; raises ValueError if it is not in ENDINGS."""
    name = os.fspath(path)
    for compressed in text_files.COMPRESSED_ENDINGS:
        name = name.removesuffix(compressed)
    ending = os.path.splitext(name)[1].lower()
    if ending not in ENDINGS:
        if paths.is_file(path):
            read_text(path)  # raises an error with the format, such as an Excel workbook
        raise ValueError(f'the name of "{os.fspath(path)}" must end with one of {", ".join(ENDINGS)}; rename the file')
    return ending


def _split_tsv(text, name):
    lines, num_blank = _open_text(text, newline="\n"), 0
    del text
    for number, line in enumerate(lines, 1):
        if line.strip():
            yield Row(number, line.removesuffix("\n").removesuffix("\r").split("\t"))
        else:
            num_blank += 1
    _tell_blank_lines(name, num_blank)


def _open_text(text, newline):
    """Returns a file object of a text; `io.StringIO` would use four bytes for each character."""
    return io.TextIOWrapper(io.BytesIO(text.encode("utf-8")), "utf-8", newline=newline)


def _split_csv(text, name):
    delimiter, length = separator_line(text)
    if delimiter is None:
        return _split_quoted(text, name, find_delimiter(text, name))
    log.info('%s: cells are separated by "%s" (set in its first line)', name, delimiter)
    return _split_quoted(text[length:], name, delimiter, lines_before=1)


def _split_quoted(text, name, delimiter, lines_before=0):
    reader = csv.reader(_open_text(text, newline=""), delimiter=delimiter, strict=True)
    del text
    start, num_rows, num_blank = 1 + lines_before, 0, 0
    try:
        while (cells := next_row(reader)) is not None:
            if any(map(str.strip, cells)):
                num_rows += 1
                yield Row(start, cells)
            else:
                num_blank += 1
            start = reader.line_num + 1 + lines_before
    except csv.Error as error:
        if "end of data" in str(error):
            raise ValueError(
                f"{name} line {start}: a quote is opened and never closed; close it, or double quotes that are text"
            ) from None
        raise ValueError(
            f'{name} line {start}: text follows a closing quote; double the quotes inside a cell, as in "a ""b"" c"'
        ) from None
    if not num_rows:
        raise ValueError(f"{name} has only empty cells; check how it was made")
    _tell_blank_lines(name, num_blank)


def _tell_blank_lines(name, count):
    if count:
        log.info("%s: %s blank %s skipped", name, f"{count:,}", "line is" if count == 1 else "lines are")


def _read_json_line(line, number, bad_rows):
    needed = "write one object in a line"
    try:
        value = parse_json(line, bad_rows.name, needed, number)
    except ValueError as error:
        bad_rows.add(number, str(error).removeprefix(f"{bad_rows.name} line {number}: "))
        return None
    if not isinstance(value, dict):
        bad_rows.add(number, f"a JSON {type(value).__name__}, but one object in each line is needed")
        return None
    return value
