"""Formats report tables: plain text for people, tab-separated for programs."""

from collections.abc import Iterable, Sequence

_LINE_ESCAPES = str.maketrans({"\t": "\\t", "\n": "\\n", "\r": "\\r"})
_ESCAPES = {**_LINE_ESCAPES, ord("\\"): "\\\\"}


def text_table(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a table for people: the first column is left-aligned, the others, numbers, are right-aligned.

    A float has four digits after the point. An empty row is a blank line. No line has trailing spaces. Tabs and line
    ends in a cell are escaped as in `tab_separated`.
    """
    text_rows = [[f"{cell:.4f}" if isinstance(cell, float) else str(cell) for cell in row] for row in [header, *rows]]
    rows = [[cell.translate(_LINE_ESCAPES) for cell in row] for row in text_rows]
    widths = [max(len(row[column]) for row in rows if row) for column in range(len(header))]
    lines = []
    for row in rows:
        cells = [cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=bool(row))]
        lines.append("  ".join([row[0].ljust(widths[0]), *cells]).rstrip() if row else "")
    return "".join(f"{line}\n" for line in lines)


def tab_separated(header: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Formats a table of any values for programs: one line for each row, even if values contain line ends.

    Nothing is quoted. Tabs, line feeds and carriage returns become `\\t`, `\\n` and `\\r`, a backslash `\\\\`.
    """
    lines = []
    for number, row in enumerate([header, *rows]):
        if len(row) != len(header):
            raise ValueError(f"row {number} has {len(row)} values, but the header has {len(header)}; give as many")
        lines.append("\t".join(str(value).translate(_ESCAPES) for value in row) + "\n")
    return "".join(lines)
