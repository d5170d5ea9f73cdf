"""Reads users' tables of CSV, TSV and JSON, and collects their bad rows."""

import contextlib
import contextvars
import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from bert_keras.mistakes import Message, Mistake
from bert_keras.storage import paths
from bert_keras.storage.csv_rows import NEEDED, Row, iterate_rows
from bert_keras.storage.json_rows import JsonRows, look_for_rows

log = logging.getLogger("bert_keras")

_BAD_ROWS_SHOWN = 3
# Rows from which the columns are guessed.
_FIRST_ROWS = 200


class BadRow(NamedTuple):
    """An unusable row: its place, such as "a.csv line 3", and what is wrong with it."""

    source: str
    problem: str | Mistake

    @property
    def error(self) -> Mistake:
        return Mistake("{}: {}", self.source, self.problem)


class Table:
    """A user's table of CSV, TSV or JSON, which is read once; `text` is its content if it is read already.

    Attributes:
        path, name: the path, and its last part for messages; for data in memory their name, such as "train_data".
        is_json: whether the file has rows of JSON, see `JsonRows`.
        names: the cells of the first row without blanks around them, or all keys of the objects.
        header: the first row as a Row, unless the file has JSON.
        first_rows: up to 200 rows below the names.
    """

    def __init__(self, path: str | os.PathLike, text: str | None = None):
        self.path, self.name, self.is_json = os.fspath(path), paths.name(path), False
        if text is None:
            self.is_json, text = look_for_rows(path, NEEDED)
        self._place = "line {}".format
        if self.is_json:
            found = JsonRows(path, text=text)
            self.path, self.name, self._place = found.path, found.name, found.place
            self.names, self._rows = _table_of(found)
        else:
            self._rows = iterate_rows(path, text=text)
            self.header = next(self._rows)
            self.names = tuple(map(str.strip, self.header.cells))
        self.first_rows: list[Row | BadRow] = list(itertools.islice(self._rows, _FIRST_ROWS))

    @property
    def first_cells(self) -> list[list[Any]]:
        """The cells of the first rows, but for those that cannot be read."""
        return [row.cells for row in self.first_rows if isinstance(row, Row)]

    def rows(self) -> Iterator[Row | BadRow]:
        """Yields all rows below the names; only once, because the file is split into rows on the way."""
        yield from self.first_rows
        yield from self._rows

    def unfold(self, column: str) -> None:
        """Makes a row for each item of a list in a column, before any row is read."""
        place = self.names.index(column)

        def unfolded(row: Row | BadRow) -> list[Row | BadRow]:
            items = row.cells[place] if isinstance(row, Row) else None
            if not (isinstance(row, Row) and isinstance(items, list) and items):
                return [row]
            return [Row(row.line, [*row.cells[:place], item, *row.cells[place + 1 :]]) for item in items]

        self._rows = itertools.chain.from_iterable(map(unfolded, itertools.chain(self.first_rows, self._rows)))
        self.first_rows = list(itertools.islice(self._rows, _FIRST_ROWS))

    def place(self, line: int) -> str:
        """Returns the user's words for a line, see `JsonRows.place`."""
        return self._place(line)


_KEPT: contextvars.ContextVar[list[BadRow] | None] = contextvars.ContextVar("bad rows", default=None)


@contextlib.contextmanager
def keeping_bad_rows() -> Iterator[list[BadRow]]:
    """Makes `without_bad_rows` leave out every bad row and collect it in the list, so that a look finds all of them."""
    kept: list[BadRow] = []
    token = _KEPT.set(kept)
    try:
        yield kept
    finally:
        _KEPT.reset(token)


def without_bad_rows(name: str, rows: Iterable[Any], is_skipping: bool | None = None) -> list[Any]:
    """Returns all rows but each BadRow: the log counts them, or they are a Mistake unless `is_skipping`.

    `is_skipping` is None for programs without the flag --skip_bad_rows; the error then does not advise it.
    """
    good, bad, kept = [], [], _KEPT.get()
    for row in rows:
        (bad if isinstance(row, BadRow) else good).append(row)
    if kept is not None:
        kept += bad
    elif bad and is_skipping:
        left_out = "1 bad row is" if len(bad) == 1 else f"{len(bad):,} bad rows are"
        log.warning("%s: %s left out; the first: %s", name, left_out, bad[0].error)
    elif bad:
        raise Mistake("{}" if is_skipping is None else "{} ({skip_bad_rows} leaves such rows out)", list_bad_rows(bad))
    return good


def list_bad_rows(rows: Sequence[BadRow]) -> Message:
    """Returns the first rows and what is wrong with them, and the number of the others, for one message."""
    message = Message("{}", rows[0].error)
    for row in rows[1:_BAD_ROWS_SHOWN]:
        message = Message("{}; {}", message, row.error)
    num_others = len(rows) - _BAD_ROWS_SHOWN
    return Message("{}; and {} more bad rows", message, f"{num_others:,}") if num_others > 0 else message


def _table_of(json_rows: JsonRows) -> tuple[tuple[str, ...], Iterator[Row | BadRow]]:
    """Returns all keys of the objects, and a Row for each object with a cell for each key, a BadRow for each other."""
    values = list(json_rows)
    keys = tuple(dict.fromkeys(key for _, value in values if isinstance(value, dict) for key in value))

    def row(line: int, value: dict[str, Any] | Mistake) -> Row | BadRow:
        if isinstance(value, dict):
            return Row(line, [value.get(key) for key in keys])
        source = f"{json_rows.name} {json_rows.place(line)}"
        return BadRow(source, str(value).removeprefix(f"{source}: "))

    return keys, itertools.starmap(row, values)
