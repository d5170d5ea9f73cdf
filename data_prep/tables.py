"""Tables that users bring: the rows of CSV, TSV and JSON lines, each with the line of the file that it starts at.

Imports without TensorFlow.
"""

import codecs
import csv
import io
import json
import logging
import os
import re
from typing import Any, NamedTuple

log = logging.getLogger("bert_keras")

TSV_ENDINGS = (".tsv", ".txt")
JSON_ENDINGS = (".jsonl", ".json")
ENDINGS = (".csv", *TSV_ENDINGS, *JSON_ENDINGS)

_LARGEST_CELL = 2**31 - 1
# A cell of a TSV file between quotes, in which quotes are doubled.
_QUOTED_CELL = re.compile(r'(?<![^\t\n])"[^"]*(?:""[^"]*)*"(?![^\t\r\n])')


class Row(NamedTuple):
    """One row of a table: the line that it starts at, from 1, and its cells (str; from JSON any value, None: none)."""

    line: int
    cells: list[Any]


class BadRows:
    """What becomes of rows that cannot be used: the first one is an error, or they are left out and counted.

    Args:
        name: of the file.
        is_skipping: leaves them out.
    """

    def __init__(self, name: str, is_skipping: bool = False):
        self.name = name
        self.is_skipping = is_skipping
        self.count = 0
        self._first = ""

    def add(self, line: int, problem: str) -> None:
        """Takes note of a row.

        Raises:
            ValueError: rows are not to be skipped; names file, line and problem.
        """
        sentence = f"{self.name} line {line}: {problem}"
        if not self.is_skipping:
            raise ValueError(f"{sentence} (--skip_bad_rows leaves such rows out)")
        self._first = self._first or sentence
        self.count += 1

    def report(self) -> None:
        """Says in the log how many rows were left out."""
        if self.count:
            log.warning("%s: %s bad rows are left out; the first: %s", self.name, f"{self.count:,}", self._first)


def read_text(path: str | os.PathLike) -> str:
    """Reads a file as UTF-8, without the byte order mark that some programs begin it with.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is a folder, empty, or not UTF-8 (names the line).
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        raise ValueError(f'"{name}" is a folder; give the file itself')
    try:
        with open(name, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f'there is no file "{name}"; check the path') from None
    if not content.removeprefix(codecs.BOM_UTF8).strip():
        raise ValueError(f"{name} is empty; look at how it was made")
    return decode_utf8(content, name_of(name))


def decode_utf8(content: bytes, name: str) -> str:
    """Returns the text of a file, without the byte order mark that some programs begin it with.

    Args:
        content: of the file.
        name: what to call it in an error.

    Raises:
        ValueError: it is not UTF-8; names the line.
    """
    content = content.removeprefix(codecs.BOM_UTF8)
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name} line {line}: not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None


def read_tsv_rows(path: str | os.PathLike) -> list[Row]:
    """Reads rows whose cells are separated by tabs, with quotes as ordinary characters, as GLUE is distributed.

    Blank lines are no rows; the log says how many there were. Differs from the release: there a blank line ends the
    program, and so does a cell of more than 131,072 characters.

    Raises:
        FileNotFoundError, ValueError: see `read_text`.
    """
    return _split_tsv(read_text(path), name_of(path))


def read_csv_rows(path: str | os.PathLike) -> list[Row]:
    """Reads rows of a CSV file: cells between quotes may hold the delimiter, line ends, and doubled quotes.

    The delimiter is a comma; where the first line has none, the semicolon or tab that it has (said in the log).

    Raises:
        FileNotFoundError, ValueError: see `read_text`; or a quote that is not closed, or closed too early.
    """
    text, name = read_text(path), name_of(path)
    first_line = text.lstrip("\r\n").split("\n", 1)[0]
    delimiter = ","
    if "," not in first_line:
        delimiter = next((other for other in ";\t" if other in first_line), ",")
    if delimiter != ",":
        log.info("%s: cells are separated by %s", name, {";": "semicolons", "\t": "tabs"}[delimiter])
    return _split_quoted(text, name, delimiter)


def read_rows(path: str | os.PathLike) -> list[Row]:
    """Reads the rows of a user's CSV or TSV file, by the ending of its name.

    In a TSV file quotes are ordinary characters, unless every one of them belongs to a cell that stands between quotes;
    then they are taken off, and the log says so.

    Returns:
        The rows, at least one.

    Raises:
        FileNotFoundError, ValueError: see `read_csv_rows`.
    """
    if ending_of(path) not in TSV_ENDINGS:
        return read_csv_rows(path)
    text, name = read_text(path), name_of(path)
    if '"' not in text or not _is_quoted(text):
        return _split_tsv(text, name)
    log.info("%s: cells stand between quotes, which are taken off", name)
    return _split_quoted(text, name, "\t")


def read_json_rows(path: str | os.PathLike, bad_rows: BadRows) -> tuple[tuple[str, ...], list[Row]]:
    """Reads a file with a JSON object in each line.

    Args:
        path: of the file.
        bad_rows: is told of lines that are something else.

    Returns:
        All keys of the objects, and the objects as rows with a cell for each of the keys.

    Raises:
        FileNotFoundError, ValueError: see `read_text`; or the file is one list.
    """
    text = read_text(path)
    if text.lstrip().startswith("["):
        raise ValueError(
            f"{name_of(path)} is a JSON list; write each of its objects into a line of its own, as jq -c .[]"
        )
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
    return os.path.basename(os.fspath(path))


def ending_of(path: str | os.PathLike) -> str:
    """Returns how the name of a file ends, one of ENDINGS.

    Raises:
        ValueError: it ends otherwise.
    """
    ending = os.path.splitext(os.fspath(path))[1].lower()
    if ending not in ENDINGS:
        raise ValueError(f'the name of "{os.fspath(path)}" must end with one of {", ".join(ENDINGS)}; rename the file')
    return ending


def _is_quoted(text):
    """Whether quotes in a TSV file are there to protect cells: every one of them belongs to a cell that is quoted.

    A quoted cell with both a line end and a tab is more likely two cells that each have one quote of their own.
    """
    if "\t" not in text or '"' in _QUOTED_CELL.sub("", text):
        return False
    return not any("\n" in cell and "\t" in cell for cell in _QUOTED_CELL.findall(text))


def _split_tsv(text, name):
    lines = text.removesuffix("\n").split("\n")
    rows = [Row(number, line.removesuffix("\r").split("\t")) for number, line in enumerate(lines, 1) if line.strip()]
    _tell_blank_lines(name, len(lines) - len(rows))
    return rows


def _split_quoted(text, name, delimiter):
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    rows, start, num_blank = [], 1, 0
    limit = csv.field_size_limit(_LARGEST_CELL)
    try:
        for cells in reader:
            if any(map(str.strip, cells)):
                rows.append(Row(start, cells))
            else:
                num_blank += 1
            start = reader.line_num + 1
    except csv.Error as error:
        if "end of data" in str(error):
            raise ValueError(
                f"{name} line {start}: a quote is opened and never closed; close it, or double quotes that are text"
            ) from None
        raise ValueError(
            f'{name} line {start}: text follows a closing quote; double the quotes inside a cell, as in "a ""b"" c"'
        ) from None
    finally:
        csv.field_size_limit(limit)
    if not rows:
        raise ValueError(f"{name} has only empty cells; look at how it was made")
    _tell_blank_lines(name, num_blank)
    return rows


def _tell_blank_lines(name, count):
    if count:
        log.info("%s: %s blank %s passed over", name, f"{count:,}", "line is" if count == 1 else "lines are")


def _read_json_line(line, number, bad_rows):
    try:
        value = json.loads(line)
    except json.JSONDecodeError as error:
        bad_rows.add(number, f"not valid JSON ({error.msg} at character {error.pos + 1}); write one object in a line")
        return None
    if not isinstance(value, dict):
        bad_rows.add(number, f"a JSON {type(value).__name__}, but one object in each line is needed")
        return None
    return value
