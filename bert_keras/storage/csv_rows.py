"""Reads the rows of CSV and TSV, each with the number of its first line."""

import collections
import csv
import io
import itertools
import logging
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple, cast

from bert_keras.mistakes import Mistake
from bert_keras.storage import inspection, paths, text_files

log = logging.getLogger("bert_keras")

_TSV_ENDINGS = (".tsv", ".txt")
_ENDINGS = (*inspection.FORMATS, ".txt")

NEEDED = "give a file with rows"
_LARGEST_CELL = 2**31 - 1
_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ROWS_LOOKED_AT = 1000
_CHARACTERS_LOOKED_AT = 1 << 20
# Excel takes the delimiter from a first line such as sep=; in every country.
_SEPARATOR_LINE = re.compile(r'"?sep=([^\r\n"])"?(?:\r*\n|\r|$)', re.IGNORECASE)
_COMMA_OUTSIDE_NUMBER = re.compile(r"(?<!\d),|,(?!\d)")
# A cell of a TSV file that quotes enclose, quotes in it are doubled; and any other cell.
_QUOTED_CELL = re.compile(r'"[^"]*(?:""[^"]*)*"(?![^\t\r\n])')
_PLAIN_CELL = re.compile(r"[^\t\r\n]*")
_QUOTE_AFTER_BLANK = re.compile(r'(?:^|[,;|\t\r\n]) +"')


class Row(NamedTuple):
    """One row of a table: its first line, from 1, and its cells (str; in JSON any value, None if missing)."""

    line: int
    cells: list[Any]


def iterate_rows(path: str | os.PathLike, is_csv: bool | None = None, text: str | None = None) -> Iterator[Row]:
    """Yields the rows of a CSV or TSV file. The call reads the whole file; the iterator splits rows one by one.

    In CSV, quoted cells may contain the delimiter, line ends, and doubled quotes. The delimiter is the comma,
    semicolon, tab or vertical bar that fits most rows, or that of a first line such as `sep=;`. Blanks before the quote
    of a cell do not count. In TSV, quotes are ordinary characters, as in the files of GLUE. `is_csv` is None for a
    user's file: the ending of its name decides, and a cell of a TSV file loses the quotes that enclose all of it. This
    depends on the cell alone, so all files of a data set are read in the same way. `text` is the content of the file if
    it is read already.
    Differs from the original: it fails at a blank line, and at a cell of more than 131,072 characters.
    """
    name = paths.name(path)
    is_own = is_csv is None
    is_tsv = _ending_of(path) in _TSV_ENDINGS if is_own else not is_csv
    text = text_files.read_text(path, NEEDED) if text is None else text
    separator = _SEPARATOR_LINE.match(text)
    if is_tsv and not (is_own and separator):
        return _split_tsv(text, name, may_quote=is_own)
    text = _with_usual_line_ends(text)
    separator = _SEPARATOR_LINE.match(text)
    if not separator:
        return _split_quoted(text, name, _find_delimiter(text, name))
    log.info('%s: cells are separated by "%s" (set in its first line)', name, separator[1])
    return _split_quoted(text[separator.end() :], name, separator[1], lines_before=1)


def _with_usual_line_ends(text: str) -> str:
    """Returns the text of a CSV file without carriage returns that `csv.reader` would take for blank lines.

    It ends a line where `text_files` says, but keeps the line ends in quoted cells. A file whose line ends were
    converted twice has two carriage returns before each line feed.
    """
    is_converted_twice = "\r\r\n" in text and text.rstrip("\r\n").count("\n") <= text.count("\r\r\n")
    return text.replace("\r\r\n", "\r\n") if is_converted_twice else text


def _ending_of(path: str | os.PathLike) -> str:
    ending = inspection.ending_of(path)
    if ending not in _ENDINGS:
        text_files.read_text(path, NEEDED)  # raises an error for a folder, a missing file, or an Excel workbook
        raise Mistake('the name of "{}" must end with one of {}; rename the file', os.fspath(path), ", ".join(_ENDINGS))
    return ending


def _find_delimiter(text: str, name: str) -> str:
    """Returns the delimiter that gives the most rows as many cells as the first row, at least two.

    The default, and the winner of ties, is the comma. If every comma is in a number, another delimiter that occurs
    wins.
    """
    sample = text[:_CHARACTERS_LOOKED_AT]
    shares = {delimiter: _share_of_same_length(sample, delimiter) for delimiter in _DELIMITERS if delimiter in sample}
    if not any(shares.values()):
        return ","
    if len(shares) > 1 and not _COMMA_OUTSIDE_NUMBER.search(sample):
        shares.pop(",", None)
    delimiter = max(shares, key=shares.__getitem__)
    level = logging.DEBUG if delimiter == "," else logging.INFO
    log.log(level, "%s: cells are separated by %s", name, _DELIMITERS[delimiter])
    return delimiter


def _share_of_same_length(sample: str, delimiter: str) -> float:
    """Returns the share of rows with the most frequent number of cells; 0 if it is one or not that of the first row."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter, skipinitialspace=True)
    rows = itertools.islice(iter(lambda: _next_row(reader), None), _ROWS_LOOKED_AT)
    lengths = [len(row) for row in rows if any(map(str.strip, row))]
    if not lengths:
        return 0
    [(most_frequent, count)] = collections.Counter(lengths).most_common(1)
    return count / len(lengths) if lengths[0] == most_frequent > 1 else 0


def _next_row(reader: Iterator[list[str]]) -> list[str] | None:
    """Returns the next row of a `csv.reader`, or None after the last; cells may have any length."""
    limit = csv.field_size_limit(_LARGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _split_tsv(text: str, name: str, may_quote: bool) -> Iterator[Row]:
    rows = _rows_with_quotes(text, name) if may_quote and '"' in text else _rows_without_quotes(text)
    num_blank = 0
    for row in rows:
        if any(map(str.strip, row.cells)):
            yield row
        else:
            num_blank += 1
    _tell_blank_lines(name, num_blank)


def _rows_without_quotes(text: str) -> Iterator[Row]:
    for number, line in enumerate(_open_text(text_files.unify_line_ends(text), newline="\n"), 1):
        yield Row(number, line.removesuffix("\n").split("\t"))


def _rows_with_quotes(text: str, name: str) -> Iterator[Row]:
    """Yields the rows of a TSV file without the quotes that enclose a whole cell.

    Such a cell may contain tabs or line ends. With both it is probably two cells with one quote each; so is one with
    tabs if only two cells give the row as many cells as the first row.
    """
    place, line, num_quoted, width, has_tabs = 0, 1, 0, 0, "\t" in text

    def is_cell(quoted: str) -> bool:
        return not text_files.LINE_END.search(quoted) or (has_tabs and "\t" not in quoted)

    while place < len(text):
        row = _cells_at(text, place, is_cell)
        if width and len(row[0]) != width:
            other = _cells_at(text, place, lambda quoted: "\t" not in quoted and is_cell(quoted))
            row = other if len(other[0]) == width else row
        cells, end, num_cells = row
        yield Row(line, cells)
        width, num_quoted = width or len(cells), num_quoted + num_cells
        line += 1 + len(text_files.LINE_END.findall(text, place, end))
        line_end = text_files.LINE_END.match(text, end)
        place = line_end.end() if line_end else len(text)
    if num_quoted:
        log.info("%s: the quotes around %s cells are removed", name, f"{num_quoted:,}")


def _cells_at(text: str, place: int, is_cell: Callable[[str], bool]) -> tuple[list[str], int, int]:
    """Returns the cells of the row at a place, the place of its end, and how many cells have lost their quotes.

    `is_cell` says whether characters that quotes enclose are one cell.
    """
    cells, num_quoted = [], 0
    while True:
        quoted = _QUOTED_CELL.match(text, place)
        if quoted and is_cell(quoted[0]):
            cells.append(quoted[0][1:-1].replace('""', '"'))
            place, num_quoted = quoted.end(), num_quoted + 1
        else:
            plain = cast(re.Match, _PLAIN_CELL.match(text, place))
            cells.append(plain[0])
            place = plain.end()
        if text[place : place + 1] != "\t":
            return cells, place, num_quoted
        place += 1


def _split_quoted(text: str, name: str, delimiter: str, lines_before: int = 0) -> Iterator[Row]:
    skips_blanks = _has_blanks_before_quotes(text, delimiter)
    if skips_blanks:
        log.info("%s: blanks before quotes are left out", name)
    stream = _open_text(text, newline="")
    reader = csv.reader(stream, delimiter=delimiter, strict=True, skipinitialspace=skips_blanks)
    del text
    start, num_rows, num_blank = 1 + lines_before, 0, 0
    try:
        while (cells := _next_row(reader)) is not None:
            if any(map(str.strip, cells)):
                num_rows += 1
                yield Row(start, cells)
            else:
                num_blank += 1
            start = reader.line_num + 1 + lines_before
    except csv.Error as error:
        problem = 'text follows a closing quote; double the quotes inside a cell, as in "a ""b"" c"'
        cell = _blank_after_quote(stream, start - lines_before, reader.line_num, delimiter)
        if cell:
            problem = f"a blank follows a closing quote, as in [{cell}]; remove the blank"
        if "end of data" in str(error):
            problem = "a quote is opened and never closed; close it, or double quotes that are text"
        raise Mistake("{} line {}: {}", name, start, problem) from None
    if not num_rows:
        raise Mistake("{} has only empty cells; check how it was made", name)
    _tell_blank_lines(name, num_blank)


def _blank_after_quote(stream: io.TextIOWrapper, first: int, last: int, delimiter: str) -> str:
    """Returns the end of a cell that has a blank after its closing quote, in lines numbered from 1; else nothing."""
    stream.seek(0)
    row = "".join(itertools.islice(stream, first - 1, last))
    found = re.search(rf'[^"{re.escape(delimiter)}]{{0,20}}"[ \t\xa0]+(?=[{re.escape(delimiter)}\r\n]|$)', row)
    return f"{found[0]}{row[found.end() : found.end() + 1]}".strip("\r\n") if found else ""


def _has_blanks_before_quotes(text: str, delimiter: str) -> bool:
    """Returns whether cells begin with blanks and a quote that opens them, as in `great, "a, b"`.

    Such a quote would be a character of its cell. All rows must fit the first if the blanks are left out.
    """
    if not _QUOTE_AFTER_BLANK.search(text):
        return False
    plain = csv.reader(_open_text(text, newline=""), delimiter=delimiter)
    cells = itertools.chain.from_iterable(iter(lambda: _next_row(plain), None))
    if not any(cell.startswith(" ") and cell.lstrip(" ").startswith('"') for cell in cells):
        return False
    reader = csv.reader(_open_text(text, newline=""), delimiter=delimiter, strict=True, skipinitialspace=True)
    try:
        return len({len(row) for row in iter(lambda: _next_row(reader), None) if any(map(str.strip, row))}) == 1
    except csv.Error:
        return False


def _open_text(text: str, newline: str) -> io.TextIOWrapper:
    """Returns a file object of a text; `io.StringIO` would use four bytes for each character."""
    return io.TextIOWrapper(io.BytesIO(text.encode("utf-8")), "utf-8", newline=newline)


def _tell_blank_lines(name: str, count: int) -> None:
    if count:
        log.info("%s: %s blank %s skipped", name, f"{count:,}", "line is" if count == 1 else "lines are")
