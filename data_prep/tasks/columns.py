"""Finds the columns of a user's file: by name, by number, or by the names that people usually give them."""

import collections
import dataclasses
import itertools
import logging
import os
from collections.abc import Iterable, Sequence

from bert_keras.data_prep.corpus.sentences import is_json_lines
from bert_keras.data_prep.tasks.examples import to_number
from bert_keras.data_prep.tasks.tables import BadRow, Row, iterate_rows, read_json_rows, without_bad_rows
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# The values of --has_header.
HEADERS = ("auto", "true", "false")

# Usual names of columns, in lower case.
TEXT_NAMES = (
    *("text", "sentence", "sentence1", "text_a", "premise", "question", "question1", "review", "content", "body"),
    *("message", "comment", "tweet", "document", "description"),
)
LABEL_NAMES = ("label", "labels", "class", "category", "target", "sentiment", "score", "rating")
PAIRS = (
    *(("sentence1", "sentence2"), ("text_a", "text_b"), ("text", "text_pair"), ("premise", "hypothesis")),
    *(("question1", "question2"), ("question", "sentence")),
)
KNOWN_NAMES = {*TEXT_NAMES, *LABEL_NAMES, *(second for _, second in PAIRS), "id", "index"}
_ROLES = {"text": "the text", "pair": "the second text", "label": "the label"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file: names in its header, or numbers from 0 as text.

    Attributes:
        text, pair, label, id: columns; None: the file has no such column.
        label_separator: the text between the labels of a cell, for multi-label.
        choices: columns of the second texts to choose from, for multiple choice.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    id: str | None = None
    label_separator: str | None = None
    choices: tuple[str, ...] = ()


NO_COLUMNS = Columns()


def find_columns(path: str | os.PathLike, given: Columns = NO_COLUMNS, needs_label: bool = True) -> Columns:
    """Finds the columns of a user's file that the user did not name, if the names in its header are clear.

    The log reports them. Raises ValueError if no column, or more than one, could be the text or the label.
    """
    return choose_columns(os.fspath(path), read_columns(path), given, needs_label)


def choose_columns(source: str, names: Sequence[str], given: Columns, needs_label: bool) -> Columns:
    """Completes columns from the column names of a file or dataset, whose name is `source`; see `find_columns`."""
    found = {}
    if given.text is None:
        text, pair = _find_text(source, names, given)
        found |= {"text": text} if pair is None else {"text": text, "pair": pair}
    if given.label is None and needs_label:
        taken = {given.text, given.pair, given.id, *found.values()}
        found["label"] = _find_one(source, names, LABEL_NAMES, "label", taken)
    if found:
        taken = ", ".join(f'"{column}" as {_ROLES[role]}' for role, column in found.items())
        log.info("%s: columns %s; using %s", source, list_columns(names), taken)
    return dataclasses.replace(given, **found)


def read_columns(path: str | os.PathLike) -> tuple[str, ...]:
    """Returns the cells of the first row of a CSV or TSV file, or the keys of the objects of a JSON lines file."""
    if not is_json_lines(path):
        return tuple(map(str.strip, next(iterate_rows(path)).cells))
    keys, rows = read_json_rows(path)
    if all(isinstance(row, BadRow) for row in rows):
        without_bad_rows(paths.name(path), rows)  # raises an error about the first row
    return keys


def read_table(
    path: str | os.PathLike, columns: Columns, needs_label: bool, has_header: str
) -> tuple[dict[str, int], Iterable[Row | BadRow]]:
    """Returns the index of the cell of each column that a user's file has, and its rows, at least one.

    The first row, the header, names the columns. If all needed columns are numbers, they count columns from 0, and
    `has_header` decides whether the first row is a header. "auto" takes it for a header in these cases; the log reports
    a decision that the flags leave open:
    - An optional column has a name.
    - The cells of the needed columns are the numbers of these columns, or usual column names.
    - The first row's label is not a number, but all others are.
    - The first row's label occurs only once, but each of the others occurs in several rows.
    """
    name = os.fspath(path)
    needed = [column for column in (columns.text, columns.pair, columns.id, *columns.choices) if column is not None]
    label = [] if columns.label is None else [columns.label]
    needed, optional = (needed + label, []) if needs_label else (needed, label)
    if is_json_lines(path):
        names, rows = read_json_rows(path)
        places = {column: place for place, column in enumerate(names)}
        if has_header != "auto":
            raise ValueError(f"{name} is JSON lines, which have no header; give --has_header=auto")
        if any(isinstance(row, Row) for row in rows):
            _check_needed(name, needed, places, names)
        return places, rows
    if has_header == "false" and not all(map(str.isdecimal, needed + optional)):
        raise ValueError(f"{name}: with --has_header=false columns have no names; give their numbers, counted from 0")
    is_counting = all(map(str.isdecimal, needed))
    rows = iterate_rows(path)
    first = next(rows)
    names = list(map(str.strip, first.cells))
    places = _find_places(needed + optional, names, is_counting)
    _check_needed(name, needed, places, names)
    if has_header == "auto":
        if is_counting and columns.label in places:
            rows = list(rows)  # to compare the first label with all others
        has_header = "true" if _is_header(names, rows, places, needed, columns.label, paths.name(path)) else "false"
    rows = iter(rows)
    if has_header == "true":
        first = next(rows, None)
        if first is None:
            raise ValueError(f"{name} has a header and no rows; give a file with at least one")
    return places, _of_same_length(itertools.chain([first], rows), len(names), paths.name(path))


def list_columns(columns: Sequence[str]) -> str:
    """Returns column names for a message; long names, which are data rather than names, are truncated."""
    return ", ".join(name if len(name) <= 40 else f"{name[:40]}..." for name in columns)


def _find_text(source, names, given):
    """Returns the columns of the text and of the second text; the second is None if not found."""
    taken = {given.pair, given.label, given.id}
    free = {name.strip().lower(): name for name in names if name not in taken}
    if given.pair is None:
        for first, second in PAIRS:
            others = [name for name in TEXT_NAMES if name in free and name not in (first, second)]
            if first in free and second in free and not others:
                return free[first], free[second]
    if len(free) == 1 and len(names) == 1:
        return names[0], None
    return _find_one(source, names, TEXT_NAMES, "text", taken), None


def _find_one(source, names, known, what, taken):
    matches = [name for name in names if name.strip().lower() in known and name not in taken]
    if len(matches) == 1:
        return matches[0]
    count = "several columns" if matches else "no column"
    raise ValueError(
        f"{source}: {count} could be the {what} among {list_columns(names)}; name it with --{what}_column "
        "(without a header, give its number, counted from 0)"
    )


def _find_places(names, columns, is_counting):
    """Returns the index of each column given by name or number; absent columns are left out."""
    places = {}
    for name in names:
        if name in columns and not (is_counting and name.isdecimal()):
            places[name] = columns.index(name)
        elif name.isdecimal() and int(name) < len(columns):
            places[name] = int(name)
    return places


def _check_needed(path, needed, places, columns):
    for name in needed:
        if name not in places:
            raise ValueError(
                f'{path} has no column "{name}"; its columns are {list_columns(columns)} '
                "(without a header, give the numbers of columns, counted from 0)"
            )
        if not name.isdecimal() and columns.count(name) > 1:
            raise ValueError(f'{path} has more than one column "{name}"; rename all but one of them')


def _is_header(first, rows, places, needed, label, name):
    """Returns whether the first row of a file names its columns; logs a decision that the flags leave open.

    `rows` is a list if `label` is a number, because this function iterates over it.
    """
    if any(not column.isdecimal() for column in places):
        return True
    counted, shown = f"{name}: columns are counted from 0", list_columns(first)
    cells = [first[places[column]] for column in needed]
    if cells == list(needed) or all(cell.lower() in KNOWN_NAMES for cell in cells):
        log.info("%s; the first row names them: %s", counted, shown)
        return True
    reason = None
    if label in places:
        place = places[label]
        reason = _why_no_label(first[place], [row.cells[place].strip() for row in rows if len(row.cells) > place])
    if reason:
        message = "%s; the first row is taken for the header, because %s: %s (--has_header=false reads it as data)"
        log.warning(message, counted, reason, shown)
        return True
    log.info("%s; no header, the first row is %s (--has_header=true skips it)", counted, shown)
    return False


def _why_no_label(first, labels):
    """Returns why a cell is not a label like the others, a str; None if it may be a label."""
    if len(labels) < 2 or not first:
        return None
    if to_number(first) is None and all(to_number(label) is not None for label in labels):
        return f'"{first}" is not a number, as all labels below it are'
    counts = collections.Counter(labels)
    if first not in counts and len(counts) > 1 and min(counts.values()) > 1:
        return f'"{first}" is in no other row, but every other label is in several'
    return None


def _of_same_length(rows, num_cells, name):
    """Yields rows; a BadRow for each row with another number of cells."""
    for row in rows:
        if len(row.cells) == num_cells:
            yield row
        else:
            cells = f"{len(row.cells)} {'cell' if len(row.cells) == 1 else 'cells'}"
            advice = "look for a missing separator, or one that needs quotes"
            yield BadRow(f"{name} line {row.line}", f"{cells}, but the first row has {num_cells}; {advice}")
