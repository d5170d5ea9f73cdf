"""Tables of reports: plain text for people, tab-separated for programs."""

import re

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CHARACTERS = {escape: character for character, escape in _ESCAPES.items()}


def text_table(header, rows):
    """Lays out a table for people: the first column to the left, the others, which are numbers, to the right.

    Args:
        header: list of str, the heads of the columns; the first may be empty.
        rows: list of lists of str, each as long as the header; an empty list is a blank line.

    Returns:
        str; every line ends with a line feed, none with a space.
    """
    widths = [max(len(row[column]) for row in [header, *rows] if row) for column in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=bool(row))]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip() if row else "")
    return "".join(f"{line}\n" for line in lines)


def tab_separated(header, rows):
    """Writes a table for programs: a line for each row, whatever stands in it.

    Args:
        header: list of str, the heads of the columns.
        rows: iterable of lists of values, each as long as the header.

    Returns:
        str. Tabs, line feeds and carriage returns within a value are written `\\t`, `\\n` and `\\r`, a backslash
        `\\\\`; `unescaped` takes that back. Nothing is quoted.

    Raises:
        ValueError: a row is longer or shorter than the header.
    """
    lines = []
    for number, row in enumerate([header, *rows]):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} values, but the header has {len(header)}; give as many")
        lines.append("\t".join(escaped(value) for value in row) + "\n")
    return "".join(lines)


def escaped(value):
    """Returns a value as str in which tabs and line ends are written as escapes."""
    return re.sub(r"[\\\t\n\r]", lambda match: _ESCAPES[match[0]], str(value))


def unescaped(text):
    """Returns what `escaped` was given; a backslash before any other character stays."""
    return re.sub(r"\\[\\tnr]", lambda match: _CHARACTERS[match[0]], text)
