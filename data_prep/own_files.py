"""Examples from a user's own files: CSV, TSV or JSON lines, with columns named or found.

Imports without TensorFlow.
"""

import dataclasses
import json
import logging
import os
from collections.abc import Sequence

from data_prep.examples import Example, to_number
from data_prep.tables import BadRows, read_columns, read_table

log = logging.getLogger("bert_keras")

# Names under which the columns of other people's files are found, in lower case.
TEXT_NAMES = (
    *("text", "sentence", "sentence1", "text_a", "premise", "question", "question1", "review", "content", "body"),
    *("message", "comment", "tweet", "document", "description"),
)
LABEL_NAMES = ("label", "labels", "class", "category", "target", "sentiment", "score", "rating")
PAIRS = (
    *(("sentence1", "sentence2"), ("text_a", "text_b"), ("text", "text_pair"), ("premise", "hypothesis")),
    *(("question1", "question2"), ("question", "sentence")),
)


@dataclasses.dataclass(frozen=True)
class Columns:
    """Which columns of a file hold what: names in its header, or numbers from 0 as text.

    Attributes:
        text, pair, label, id: columns; None: there is none.
        label_separator: stands between the labels of a cell, for multi-label.
        choices: columns of the second texts to choose from, for multiple choice.
    """

    text: str
    pair: str | None = None
    label: str | None = None
    id: str | None = None
    label_separator: str | None = None
    choices: tuple[str, ...] = ()


def find_columns(
    path: str | os.PathLike,
    text: str | None = None,
    pair: str | None = None,
    label: str | None = None,
    id: str | None = None,
    needs_label: bool = True,
) -> Columns:
    """Finds the columns of a user's file that were not named, where the names in its header leave no doubt.

    Args:
        path: .csv, .tsv, .txt, .jsonl or .json.
        text, pair, label, id: names of columns that were given.
        needs_label: whether it is an error to find no column of labels.

    Returns:
        Columns; what was found is said in the log.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: the text or the label can be in no column or in several; lists the columns.
    """
    return choose_columns(os.fspath(path), read_columns(path), Columns(text, pair, label, id), needs_label)


def choose_columns(
    source: str, names: Sequence[str], given: Columns | None = None, needs_label: bool = True
) -> Columns:
    """Completes columns from the names that a file, or a data set, has; see `find_columns`.

    Args:
        source: what to call it in messages.
        names: of its columns.
        given: what is known; its text may be None.
        needs_label: whether it is an error to find no column of labels.
    """
    given = given or Columns(None)
    text, pair, label = given.text, given.pair, given.label
    found = []
    if text is None:
        text, pair_too = _find_text(source, names, label)
        found.append(f'text "{text}"')
        if pair is None and pair_too is not None:
            pair = pair_too
            found.append(f'second text "{pair}"')
    if label is None:
        taken = {text, pair, given.id}
        label = _find_one(source, names, LABEL_NAMES, "label", "--label_column", needs_label, taken)
        if label is not None:
            found.append(f'label "{label}"')
    if found:
        log.info("%s: of the columns %s is taken: %s", source, ", ".join(names), ", ".join(found))
    return dataclasses.replace(given, text=text, pair=pair, label=label)


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
    needed = [columns.text, columns.pair, columns.id, *columns.choices, columns.label if needs_label else None]
    known = {*TEXT_NAMES, *LABEL_NAMES, *(second for _, second in PAIRS), "id", "index"}
    table = read_table(path, [name for name in needed if name is not None], bad_rows, known)
    places = {name: place for place, name in enumerate(table.columns)}
    lines_of_ids, examples = {}, []
    for number, row in enumerate(table.rows):
        try:
            example = _own_example(row, number, places, columns, kind, needs_label, table.name)
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


def _find_text(source, names, label):
    lower = {name.strip().lower(): name for name in names}
    for first, second in PAIRS:
        others = [name for name in TEXT_NAMES if name in lower and name not in (first, second)]
        if first in lower and second in lower and not others:
            return lower[first], lower[second]
    if len(names) == 1 and label is None:
        return names[0], None
    return _find_one(source, names, TEXT_NAMES, "text", "--text_column", True, {label}), None


def _find_one(source, names, known, what, flag, is_needed, taken):
    matches = [name for name in names if name.strip().lower() in known and name not in taken]
    if len(matches) == 1:
        return matches[0]
    if not matches and not is_needed:
        return None
    count = "several columns" if matches else "no column"
    raise ValueError(
        f"{source}: {count} could be the {what} among {', '.join(names)}; name it with {flag} "
        "(without a header, give its number from 0)"
    )


def _own_example(row, number, places, columns, kind, needs_label, name):
    """Returns the example of a row; raises ValueError with what is wrong with the row."""

    def cell(column):
        return row.cells[places[column]]

    text_b = None if columns.pair is None else _to_text(cell(columns.pair), columns.pair, may_be_empty=True)
    label = None
    if columns.label in places:
        label = _to_label(cell(columns.label), columns, kind)
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
    if value is None or value == "" and not may_be_empty:
        raise ValueError(f'the column "{column}" is empty; give a text, or remove the row')
    if not isinstance(value, str):
        raise ValueError(f'the column "{column}" is {json.dumps(value)[:40]}, but a text is needed')
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
    else:
        names = value if isinstance(value, list) else [value]
    return tuple(dict.fromkeys(_to_name(name, columns.label) for name in names))
