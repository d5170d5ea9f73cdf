"""Examples from a user's own files: CSV, TSV or JSON lines, with columns named by the user or found.

Imports without TensorFlow.
"""

import json
import os

from data_prep.columns import Columns, read_table
from data_prep.examples import Example, to_number
from data_prep.tables import BadRows


def read_own_file(
    path: str | os.PathLike,
    columns: Columns,
    kind: str,
    needs_label: bool,
    skip_bad_rows: bool = False,
) -> list[Example]:
    """Reads a user's file of texts.

    Args:
        path: .csv, .tsv or .txt (tabs), .jsonl or .json (an object in each line).
        columns: which columns hold what.
        kind: one of KINDS.
        needs_label: whether every row must have a label; otherwise an absent column or an empty cell means no label.
        skip_bad_rows: leaves out rows that cannot be read, and counts them in the log.

    Returns:
        The examples, in the order of the file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the file or a row cannot be read (names file and line).
    """
    if needs_label and columns.label is None:
        raise ValueError(f"{os.fspath(path)}: examples need labels here; say with --label_column where they are")
    bad_rows = BadRows(os.path.basename(os.fspath(path)), skip_bad_rows)
    needed = [column for column in (columns.text, columns.pair, columns.id, *columns.choices) if column is not None]
    label = [] if columns.label is None else [columns.label]
    needed, optional = (needed + label, []) if needs_label else (needed, label)
    table = read_table(path, needed, optional, bad_rows)
    lines_of_ids, examples = {}, []
    for number, row in enumerate(table.rows):
        try:
            example = _own_example(row, number, table.places, columns, kind, needs_label, table.name)
            if columns.id is not None and example.id in lines_of_ids:
                other = lines_of_ids[example.id]
                raise ValueError(f'the id "{example.id}" is that of line {other} too; ids must differ')
        except ValueError as error:
            bad_rows.add(row.line, str(error))
            continue
        lines_of_ids[example.id] = row.line
        examples.append(example)
    bad_rows.report()
    if not examples:
        raise ValueError(f"{os.fspath(path)}: no row can be read; correct the file")
    return examples


def _own_example(row, number, places, columns, kind, needs_label, name):
    """Returns the example of a row; raises ValueError with what is wrong with the row."""

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
        raise ValueError(f'the label "{value}" is no finite number, as regression needs')
    return number


def _to_labels(value, columns):
    """Returns the names in a cell of several labels; an empty cell has none of them."""
    if value is None:
        return None
    if isinstance(value, str):
        names = value.split(columns.label_separator) if columns.label_separator else [value]
        names = [] if not value.strip() else names
        if not all(map(str.strip, names)):
            raise ValueError(f'the labels "{value}" have an empty one among them; remove it')
    else:
        names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_to_name(name, columns.label) for name in names))
