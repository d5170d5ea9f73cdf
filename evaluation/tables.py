"""Formats report tables: plain text for people, tab-separated for programs."""

import re

_ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
_CHARACTERS = {escape: character for character, escape in _ESCAPES.items()}


def text_table(header, rows):
    """Formats a table for people: the first column is left-aligned; the others, which are numbers, are right-aligned.

    Args:
        header: list of str, the column names; the first may be empty.
        rows: list of lists of str, each as long as the header; an empty list is a blank line.

    Returns:
        str; every line ends with a line feed and has no trailing spaces.
    """
    widths = [max(len(row[column]) for row in [header, *rows] if row) for column in range(len(header))]
    lines = []
    for row in [header, *rows]:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=bool(row))]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip() if row else "")
    return "".join(f"{line}\n" for line in lines)


def tab_separated(header, rows):
    """Formats a table for programs: one line for each row, even if values contain line ends.

    Args:
        header: list of str, the column names.
        rows: iterable of lists of values, each as long as the header.

    Returns:
        str. In values, tabs, line feeds and carriage returns become `\\t`, `\\n` and `\\r`, a backslash `\\\\`;
        `unescaped` reverses this. Nothing is quoted.

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
    """Returns a value as str with tabs, line ends and backslashes escaped."""
    return re.sub(r"[\\\t\n\r]", lambda match: _ESCAPES[match[0]], str(value))


def unescaped(text):
    """Reverses `escaped`; a backslash before any other character stays."""
    return re.sub(r"\\[\\tnr]", lambda match: _CHARACTERS[match[0]], text)
