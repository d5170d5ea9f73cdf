"""Reads examples from users' files: CSV, TSV or JSON lines, with columns that the user names or the program finds."""

import json
import math
import os
import re
from collections.abc import Iterator

from bert_keras.data_prep.tasks.columns import Columns, read_table
from bert_keras.data_prep.tasks.examples import Example, to_number
from bert_keras.data_prep.tasks.tables import BadRow, BadRows, name_of


def read_own_file(
    path: str | os.PathLike,
    columns: Columns,
    kind: str,
    needs_label: bool,
    skip_bad_rows: bool = False,
    has_header: str = "auto",
) -> list[Example]:
    """Reads a user's file of texts.

    Args:
        path: .csv, .tsv or .txt (tabs), .jsonl or .json (an object on each line).
        columns: the columns of the file.
        kind: one of KINDS.
        needs_label: whether every row must have a label; otherwise an absent column or an empty cell means no label.
        skip_bad_rows: leaves out unreadable rows, and counts them in the log.
        has_header: one of `data_prep.tasks.columns.HEADERS`.

    Returns:
        The examples, in the order of the file.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file or a row is unreadable (names file and line).
    """
    return list(iterate_own_file(path, columns, kind, needs_label, skip_bad_rows, has_header))


def iterate_own_file(
    path: str | os.PathLike,
    columns: Columns,
    kind: str = "single_label",
    needs_label: bool = False,
    skip_bad_rows: bool = False,
    has_header: str = "auto",
    keep_bad_rows: bool = False,
) -> Iterator[Example | BadRow]:
    """Yields the examples of a user's file of texts one by one; see `read_own_file`.

    To save memory, the rows of CSV and TSV files are usually split one by one. `Example.source` names file and line.
    With `keep_bad_rows`, an unreadable row becomes a BadRow.
    """
    if needs_label and columns.label is None:
        raise ValueError(f"{os.fspath(path)}: examples need labels here; name their column with --label_column")
    bad_rows = BadRows(name_of(path), skip_bad_rows, keep_bad_rows)
    needed = [column for column in (columns.text, columns.pair, columns.id, *columns.choices) if column is not None]
    label = [] if columns.label is None else [columns.label]
    needed, optional = (needed + label, []) if needs_label else (needed, label)
    table = read_table(path, needed, optional, bad_rows, has_header, columns.label)
    _check_places(path, columns, table.places)
    lines_of_ids, types, count = {}, _Types(), 0
    for number, row in enumerate(table.rows):
        yield from bad_rows.take(before=row.line)
        try:
            if columns.label in table.places:
                types.check(row.cells[table.places[columns.label]], row.line)
            example = _own_example(row, number, table.places, columns, kind, needs_label, table.name)
            if columns.id is not None and example.id in lines_of_ids:
                other = lines_of_ids[example.id]
                raise ValueError(f'the id "{example.id}" is also in line {other}; ids must be unique')
        except ValueError as error:
            bad_rows.add(row.line, str(error))
            continue
        if columns.id is not None:
            lines_of_ids[example.id] = row.line
        count += 1
        yield example
    yield from bad_rows.take()
    bad_rows.report()
    if not count and not keep_bad_rows:
        raise ValueError(f"{os.fspath(path)}: no row can be read; correct the file")


def _check_places(path, columns, places):
    """Rejects a column with two roles: a model that reads the label learns nothing else."""
    roles = {"text": columns.text, "text_pair": columns.pair, "label": columns.label}
    roles |= {f"choice {number}": choice for number, choice in enumerate(columns.choices)}
    taken = {}
    for role, column in roles.items():
        if column in places:
            other = taken.setdefault(places[column], role)
            if other != role:
                raise ValueError(
                    f'{os.fspath(path)}: the column "{column}" is both the {other} and the {role}; '
                    "give each its own column"
                )


class _Types:
    """The JSON types of a file's labels: a mixture of true and 1 is a mistake in the data."""

    def __init__(self):
        self._lines = {}

    def check(self, value, line):
        """Raises ValueError if this label is a boolean and an earlier one a number, or the reverse."""
        for each in value if isinstance(value, list) else [value]:
            if not isinstance(each, (bool, int, float)):
                continue
            is_boolean = isinstance(each, bool)
            if (not is_boolean) in self._lines:
                other, other_line = self._lines[not is_boolean]
                raise ValueError(
                    f"the label is {json.dumps(each)}, but that of line {other_line} is {json.dumps(other)}; "
                    "write all labels as numbers, or all as true and false"
                )
            self._lines.setdefault(is_boolean, (each, line))


def _own_example(row, number, places, columns, kind, needs_label, name):
    """Returns the example of a row; the caller adds file and line to a ValueError."""

    def cell(column):
        return row.cells[places[column]]

    text_b = None if columns.pair is None else _to_text(cell(columns.pair), columns.pair, may_be_empty=True)
    label = _to_label(cell(columns.label), columns, kind) if columns.label in places else None
    if label == () and not needs_label:
        label = None
    if label is None and needs_label:
        raise ValueError(f'the column "{columns.label}" is empty; every example needs a label here')
    return Example(
        id=str(number) if columns.id is None else _to_name(cell(columns.id), columns.id),
        text_a=_to_text(cell(columns.text), columns.text),
        text_b=text_b,
        label=label,
        choices=tuple(_to_text(cell(choice), choice) for choice in columns.choices),
        source=f"{name} line {row.line}",
    )


def _to_text(value, column, may_be_empty=False):
    if value is not None and not isinstance(value, str):
        raise ValueError(f'the column "{column}" is {json.dumps(value)[:40]}, but a text is needed')
    if value is None or not (may_be_empty or value.strip()):
        raise ValueError(f'the column "{column}" is empty; give a text, or remove the row')
    return value


def _to_name(value, column):
    if isinstance(value, str) and value.strip():
        return value.strip()
    if value is None or isinstance(value, str):
        raise ValueError(f'the column "{column}" is empty; every row needs one')
    if isinstance(value, (list, dict)):
        raise ValueError(f'the column "{column}" is {json.dumps(value)[:40]}, but a name or a number is needed')
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f'the column "{column}" is {json.dumps(value)}, but a name or a finite number is needed')
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # JSON has one number type: 1 and 1.0 are the same
    return json.dumps(value)


def _to_label(value, columns, kind):
    if kind == "multi_label":
        return _to_labels(value, columns)
    if value is None or isinstance(value, str) and not value.strip():
        return None
    if kind != "regression":
        return _to_name(value, columns.label)
    number = None if isinstance(value, bool) else to_number(value)
    if number is None:
        raise ValueError(f'the label "{value}" is not a finite number, as regression needs{_comma_hint(value)}')
    return number


def _comma_hint(value):
    is_decimal_comma = isinstance(value, str) and re.fullmatch(r"[+-]?[0-9.]*[0-9],[0-9]+", value.strip())
    return "; write a decimal point instead of the comma" if is_decimal_comma else ""


def _to_labels(value, columns):
    """Returns the labels in a multi-label cell: () if it is blank, None for a JSON null or a missing key."""
    if value is None:
        return None
    if isinstance(value, str):
        names = value.split(columns.label_separator) if columns.label_separator else [value]
        names = [] if not value.strip() else names
        if not all(map(str.strip, names)):
            raise ValueError(f'the labels "{value}" include an empty label; remove it')
    else:
        names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_to_name(name, columns.label) for name in names))
