"""Reads a user's examples from tables: CSV, TSV and JSON."""

import collections
import dataclasses
import json
import logging
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from bert_keras.mistakes import Mistake
from bert_keras.storage import text_files
from bert_keras.tasks.tables.columns import (
    Columns,
    find_columns,
    find_header,
    parts_of,
    read_table,
)
from bert_keras.tasks.tables.examples import Example, without_undecided
from bert_keras.tasks.tables.header import YES, Header, is_like_number, is_missing
from bert_keras.tasks.tables.labels import LabelReader, read_list, to_name
from bert_keras.tasks.tables.tables import BadRow, Table, list_bad_rows, without_bad_rows

log = logging.getLogger("bert_keras")


def read_own_file(
    table: Table,
    columns: Columns,
    kind: str = "single_label",
    needs_label: bool = False,
    skip_bad_rows: bool | None = None,
    has_header: str | Header = "auto",
) -> list[Example]:
    """Reads the examples of a user's table of texts; see `iterate_own_file`.

    An unreadable row is a Mistake, with file and line; `skip_bad_rows` leaves such rows out and logs their number.
    None is for programs that do not have this flag.
    """
    rows = iterate_own_file(table, columns, kind, needs_label, has_header)
    examples = without_bad_rows(table.name, rows, skip_bad_rows)
    if not examples:
        raise Mistake("{}: no row can be read; correct the file", table.path)
    return without_undecided(examples, table.name) if needs_label and kind == "single_label" else examples


def iterate_own_file(
    table: Table,
    columns: Columns,
    kind: str = "single_label",
    needs_label: bool = False,
    has_header: str | Header = "auto",
) -> Iterator[Example | BadRow]:
    """Yields the examples of a user's table of texts one by one, in the order of the file; a BadRow if unreadable.

    Files are .csv, .tsv or .txt (tabs), .jsonl, .ndjson or .json (an object on each line), also compressed. To save
    memory, the rows of CSV and TSV are usually split one by one. Columns that are not given are found, that of the
    label only if it `needs_label`. `kind` is one of `settings.KINDS`, `has_header` one of `columns.HEADERS` or a
    decision.
    """
    header = find_header(table, columns, has_header) if isinstance(has_header, str) else has_header
    columns = _find_columns(table, columns, needs_label, header)
    places, rows = read_table(table, columns, header)
    _check_places(table.path, columns, places)
    names = table.names if header.answer == YES else [*map(str, range(len(table.names)))]
    labels = LabelReader(columns, kind, names)
    choices = [names[places[column]] for column in columns.choices if column in places]
    texts = {place for column, place in places.items() if column in columns.texts(places)}
    lists = {places[column] for column in columns.choices if column in places}  # which may have lists in their cells
    _warn_of_texts(table, texts - lists)
    places_of_ids, missing, number = {}, collections.Counter(), 0
    for row in rows:
        if isinstance(row, BadRow):
            yield row
            continue
        where = table.place(row.line)
        source = f"{table.name} {where}"
        try:
            cells = {column: row.cells[place] for column, place in places.items()}
            label = labels.read(cells, where)
            example = Example(
                id=str(number) if columns.id is None else to_name(cells[columns.id], columns.id),
                text_a=_to_text(cells, cast(str, columns.text)),
                text_b=None if columns.pair is None else _to_text(cells, columns.pair, may_be_empty=True),
                label=label,
                choices=tuple(text for choice in columns.choices for text in _to_texts(cells, choice)),
                source=source,
            )
            if kind == "multiple_choice" and isinstance(label, str):
                example = dataclasses.replace(example, label=_number_of(label, example.choices, choices))
            other = where if columns.id is None else places_of_ids.setdefault(example.id, where)
            if other != where:
                raise Mistake('the id "{}" is also in {}; ids must be unique', example.id, other)
            missing[example.text_a.strip()] += is_missing(example.text_a)
        except Mistake as error:
            example = BadRow(source, error)
        yield example
        number += 1
    if missing := +missing:
        found = ", ".join(f'"{text}" ({count:,})' for text, count in missing.most_common(3))
        log.warning("%s: texts that programs write for a missing value: %s; remove them if they are", table.name, found)


def _find_columns(table: Table, given: Columns, needs_label: bool, header: Header) -> Columns:
    """Finds the columns; the error about them also says which rows are bad, as far as they can be read without."""
    try:
        return find_columns(table, given, needs_label, header)
    except Mistake as mistake:
        try:
            texts = find_columns(table, dataclasses.replace(given, label=None, id=None), False, header)
            rows = [row for row in iterate_own_file(table, texts, has_header=header) if isinstance(row, BadRow)]
        except Mistake:
            rows = []
        if rows:
            raise Mistake("{}; besides, {}", mistake, list_bad_rows(rows)) from None
        raise


def _check_places(path: str, columns: Columns, places: dict[str, int]) -> None:
    """Rejects a column with two roles: a model that reads the label learns nothing else."""
    texts = {"text": columns.text, "text_pair": columns.pair}
    roles: list[tuple[str, str | None]] = [
        (role, part) for role, text in texts.items() if text is not None for part in parts_of(text, places)
    ]
    roles += [("label", part) for part in (parts_of(columns.label, places) if columns.label else ())]
    roles += [(f"choice {number}", choice) for number, choice in enumerate(columns.choices)]
    taken = {}
    for role, column in roles:
        other = taken.setdefault(places[column], role) if column in places else role
        if other != role:
            raise Mistake(
                '{}: the column "{}" is both the {} and the {}; give each its own column', path, column, other, role
            )


def _warn_of_texts(table: Table, places: Iterable[int]) -> None:
    """Warns of texts that are probably not what was meant, judged by the first rows."""
    rows = table.first_cells
    for place in places:
        texts = [row[place].strip() for row in rows if len(row) == len(table.names) and isinstance(row[place], str)]
        for (what, remedy), is_odd in _ODD_TEXTS.items():
            if texts and all(map(is_odd, texts)):
                message = '%s: every text of the first rows is %s, such as "%s"; %s'
                log.warning(message, table.name, what, texts[0][:40], remedy)
                break


_ODD_TEXTS: dict[tuple[str, str], Callable[[str], Any]] = {
    ("bytes as Python shows them", "decode them before you write the file"): re.compile(
        r"b'.*'|b\".*\"", re.DOTALL
    ).fullmatch,
    ("an array or a tensor as Python shows it", "write its text"): re.compile(
        r"(<tf\.|tf\.Tensor\(|tensor\(|array\().*", re.DOTALL
    ).fullmatch,
    ("a list", "write one text in a cell"): lambda text: bool(read_list(text)),
    ("an object", "write its text"): re.compile(r"\{\s*['\"].*\}", re.DOTALL).fullmatch,
    ("a number", "check the column of the text"): is_like_number,
}


def _to_texts(cells: Mapping[str, Any], column: str) -> list[str]:
    """Returns the text of a column, or those of a list in it."""
    found = read_list(cells[column]) if isinstance(cells[column], str) else cells[column]
    is_list = isinstance(found, list) and (found is cells[column] or all(isinstance(text, str) for text in found))
    return [_to_text({column: text}, column) for text in (cast(list, found) if is_list else [cells[column]])]


def _number_of(label: str, texts: Sequence[str], columns: Sequence[str]) -> str:
    """Returns the number of the right choice, which its text, its column or its letter may name, too."""
    letters = [chr(ord("A") + number) for number in range(len(texts))]
    numbers = [str(number) for number in range(len(texts))]
    for names in (numbers, texts, columns if len(columns) == len(texts) else (), letters):
        if [*names].count(label) == 1:
            return str(names.index(label))
    needed = "give its number from 0, its letter from A, or its text"
    raise Mistake('the label "{}" is none of the {} choices; {}', label, len(texts), needed)


def _to_text(cells: Mapping[str, Any], column: str, may_be_empty: bool = False) -> str:
    """Returns the text of a column, or those of several columns with a blank between them; empty ones are left out."""
    parts = parts_of(column, cells)
    if len(parts) > 1:
        texts = ["" if cells[part] is None else _to_text(cells, part, may_be_empty=True) for part in parts]
        joined = " ".join(text for text in texts if not text_files.is_blank(text))
        if not joined and not may_be_empty:
            listed = ", ".join(map(json.dumps, parts))
            raise Mistake("the columns {} are empty; give a text, or remove the row", listed)
        return joined
    value = cells[column]
    if value is not None and not isinstance(value, str):
        raise Mistake('the column "{}" is {}, but a text is needed', column, json.dumps(value)[:40])
    if value is None or (not may_be_empty and text_files.is_blank(value)):
        raise Mistake('the column "{}" is empty; give a text, or remove the row', column)
    return value
