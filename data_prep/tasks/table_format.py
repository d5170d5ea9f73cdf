"""Finds line ends, delimiter and quotes of a user's table from its content."""

import collections
import csv
import io
import itertools
import logging
import re

log = logging.getLogger("bert_keras")

LARGEST_CELL = 2**31 - 1

_DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_ROWS_LOOKED_AT = 1000
_CHARACTERS_LOOKED_AT = 1 << 20
# Excel takes the delimiter from a first line such as sep=; in every country.
_SEPARATOR_LINE = re.compile(r'"?sep=([^\r\n"])"?\r*(?:\n|$)', re.IGNORECASE)
_COMMA_OUTSIDE_NUMBER = re.compile(r"(?<!\d),|,(?!\d)")
# A quoted cell of a TSV file; quotes in it are doubled.
_QUOTED_CELL = re.compile(r'(?<![^\t\n])"[^"]*(?:""[^"]*)*"(?![^\t\r\n])')


def unify_line_ends(text, name):
    """Returns a text whose lines end with a line feed, with or without a carriage return before it.

    Programs of old Macs end lines with only a carriage return. A file whose line ends were converted twice has two
    carriage returns before each line feed, which would look like blank lines.
    """
    if "\r" not in text:
        return text
    if "\n" not in text.rstrip("\r\n"):
        if "\r" not in text.rstrip("\r\n"):
            return text
        log.info("%s: lines end with carriage returns only", name)
        return text.replace("\r", "\n")
    if text.count("\n") == text.count("\r\r\n"):
        return text.replace("\r\r\n", "\r\n")
    return text


def separator_line(text):
    """Returns the delimiter in a first line such as `sep=;`, or None, and the length of that line."""
    match = _SEPARATOR_LINE.match(text)
    return (match[1], match.end()) if match else (None, 0)


def find_delimiter(text, name):
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
    delimiter = max(shares, key=shares.get)
    if delimiter != ",":
        log.info("%s: cells are separated by %s", name, _DELIMITERS[delimiter])
    return delimiter


def is_quoted_tsv(text):
    """Returns whether quotes in a TSV file enclose cells: every quote belongs to a quoted cell.

    If a quoted cell contains a line end and a tab, the result is False: it is probably two cells with one quote each.
    """
    if '"' not in text or "\t" not in text or '"' in _QUOTED_CELL.sub("", text):
        return False
    return not any("\n" in cell and "\t" in cell for cell in _QUOTED_CELL.findall(text))


def next_row(reader):
    """Returns the next row of a `csv.reader`, or None after the last; cells may have any length."""
    limit = csv.field_size_limit(LARGEST_CELL)
    try:
        return next(reader, None)
    finally:
        csv.field_size_limit(limit)


def _share_of_same_length(sample, delimiter):
    """Returns the share of rows with the most frequent number of cells; 0 if it is one or not that of the first row."""
    reader = csv.reader(io.StringIO(sample, newline=""), delimiter=delimiter)
    rows = itertools.takewhile(lambda row: row is not None, (next_row(reader) for _ in range(_ROWS_LOOKED_AT)))
    lengths = [len(row) for row in rows if any(map(str.strip, row))]
    if not lengths:
        return 0
    [(most_frequent, count)] = collections.Counter(lengths).most_common(1)
    return count / len(lengths) if lengths[0] == most_frequent > 1 else 0
