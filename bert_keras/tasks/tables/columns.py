"""Finds the columns of a user's file: by name, by number, or by the names that people usually give them."""

import dataclasses
import itertools
import logging
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Given, Message, Mistake, closest, shortened, some_of
from bert_keras.storage.csv_rows import Row
from bert_keras.tasks.tables.column_names import LABEL_NAMES, PAIRS, TEXT_NAMES, folded, usual_pair
from bert_keras.tasks.tables.guesses import guess_columns, nested_columns
from bert_keras.tasks.tables.header import NO, UNCLEAR, YES, Header, judge_header, names_columns
from bert_keras.tasks.tables.tables import BadRow, Table, list_bad_rows

log = logging.getLogger("bert_keras")

# The values of --has_header.
HEADERS = ("auto", "true", "false")
REPEATED_HEADER = "the row names the columns again, as in joined files; remove it"

_COLUMNS_SHOWN = 20
_ROLES = {"text": "the text", "pair": "the second text", "label": "the label"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file: names in its header, or numbers from 0 as text.

    Attributes:
        text, pair, label, id: columns; None: the file has no such column. A text may be joined from several columns,
            and several labels may have a column of 0 and 1 each, with commas between the names; see `parts_of`.
        label_separator: the text between the labels of a cell, for multi-label.
        choices: columns of the second texts to choose from, for multiple choice.
    """

    text: str | None = None
    pair: str | None = None
    label: str | None = None
    id: str | None = None
    label_separator: str | None = None
    choices: tuple[str, ...] = ()

    def parts(self, names: Iterable[str]) -> list[str]:
        """Returns all columns; those of a joined text and of several labels singly."""
        joined = [column for column in (self.text, self.pair, self.label) if column is not None]
        parts = [part for column in joined for part in parts_of(column, names)]
        return [*parts, *(column for column in (self.id, *self.choices) if column is not None)]

    def texts(self, names: Iterable[str]) -> list[str]:
        """Returns the columns of texts, those of a joined text singly."""
        return dataclasses.replace(self, label=None, id=None).parts(names)


NO_COLUMNS = Columns()


def parts_of(column: str, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns that a text consists of: one, or several with commas between them, such as "Subject,Body"."""
    return (column,) if column in names or "," not in column else tuple(map(str.strip, column.split(",")))


def find_header(table: Table, given: Columns = NO_COLUMNS, has_header: str = "auto") -> Header:
    """Returns whether the first row of a user's table names its columns, and why.

    `has_header`, one of `HEADERS`, decides; "auto": the names that the user gives, else the content, see
    `judge_header`. Rows of JSON have names.
    """
    if table.is_json:
        if has_header != "auto":
            raise Mistake("{} is JSON, whose rows have names instead of a header; give {has_header}=auto", table.path)
        return Header(YES, Message("rows of JSON have names"), is_given=True)
    if has_header != "auto":
        return Header(
            YES if has_header == "true" else NO, Message("{has_header}={} says so", has_header), is_given=True
        )
    return judge_header(
        table.names, table.first_cells, [part for part in given.parts(table.names) if not part.isdecimal()]
    )


def find_columns(
    table: Table, given: Columns = NO_COLUMNS, needs_label: bool = True, header: Header | None = None
) -> Columns:
    """Finds the columns of a user's table that the user did not name, if the names in its header are clear.

    The log reports them. Raises ValueError if it is unclear whether there is a `header` (None: see `find_header`), no
    column, or more than one, could be the text or the label, or a given column does not exist. The message names all of
    these at once, and guesses the flags from the first rows.
    """
    header = header or find_header(table, given)
    rows = table.first_cells
    if table.is_json and not rows:
        raise Mistake("{}", list_bad_rows([row for row in table.first_rows if isinstance(row, BadRow)]))
    if header.answer != YES:
        rows = [table.header.cells, *rows]
    rows = [row for row in rows if len(row) == len(table.names)]
    if header.answer == YES:
        return choose_columns(table.path, table.names, given, needs_label, rows, has_numbers=not table.is_json)
    numbers = tuple(map(str, range(len(table.names))))
    if given.text is None and len(numbers) == 1 and not needs_label:
        given = dataclasses.replace(given, text="0")
    # Names may be those of a header that is unclear.
    names = numbers if header.answer == NO else (*table.names, *numbers)
    problems = problems_with(given, names, has_numbers=False)
    missing = [what for what in ("text", "label") if getattr(given, what) is None and (what == "text" or needs_label)]
    guess: dict[str, str] = {}
    candidates = Message("")
    if problems or missing:
        guess, candidates = guess_columns(numbers, _existing(given, numbers), needs_label, rows)
    if header.answer == UNCLEAR or guess:
        if missing:
            problems.append(f"no column is given for {' and '.join(f'the {what}' for what in missing)}")
        raise without_names(table, header, guess, problems, candidates)
    return given


def without_names(
    table: Table, header: Header, guess: Mapping[str, str], problems: Sequence[str] = (), candidates: Message | str = ""
) -> Mistake:
    """Returns the error of a table whose first row is data, or may be data; it says what to do.

    `guess` has the settings that probably name its columns by numbers, and `problems` is what else is wrong.
    """
    intro = (table.path, "".join(f"{problem}; " for problem in problems))
    if header.answer == NO:
        text = "{}: {}the first row is data, because {}, so columns have numbers, from 0; a guess is {}{}"
        if not header.is_given:
            text += "; it is for all files, so if others name their columns, write these names into a first row instead"
        return Mistake(text, *intro, header.reason, Given({"has_header": "false", **guess}), candidates)
    rows = [row.cells for row in (table.header, *table.first_rows[:1]) if isinstance(row, Row)]
    quoted_rows = [", ".join(f'"{shortened(cell.strip())}"' for cell in row) for row in rows]
    if len(rows) > 1 and names_columns([cell.strip() for cell in rows[1]], None):
        return Mistake("{}: row 2 names the columns ({}); remove row 1 ({})", table.path, *reversed(quoted_rows))
    if rows and rows[0][0].startswith("__label__"):
        text = "{}: lines such as {} are those of fastText; put a tab between label and text, and give {}"
        given = {"has_header": "false", "text_column": "1", "label_column": "0"}
        return Mistake(text, table.path, quoted_rows[0], Given(given))
    return Mistake(
        "{}: {}it is unclear whether the first row names the columns ({}); if it does, give {}; if it is data, give "
        "{}{}",
        *(*intro, "; ".join(f"row {number} is {row}" for number, row in enumerate(quoted_rows, 1))),
        *(Given({"has_header": "true", **guess}), Given({"has_header": "false", **guess}), candidates),
    )


def choose_columns(
    source: str,
    names: Sequence[str],
    given: Columns,
    needs_label: bool,
    rows: Sequence[Sequence[Any]] | None = None,
    has_numbers: bool = False,
) -> Columns:
    """Completes columns from the column names of a file or dataset, whose name is `source`; see `find_columns`.

    `rows` are its first rows; None: given columns are not checked. They may be numbers if it `has_numbers`.
    """
    found: dict[str, str | None] = {}
    problems = [] if rows is None else problems_with(given, names, has_numbers)
    if given.text is None:
        found |= _find_text(names, given, problems)
    if given.label is None and needs_label:
        taken = {*given.parts(names), *found.values()}
        found["label"] = _find_one(names, LABEL_NAMES, "label", taken, problems)
    if problems:
        columns = _existing(dataclasses.replace(given, **found), names)
        guess, candidates = guess_columns(names, columns, needs_label, rows or ())
        advice = Message("a guess is {}{}", Given(guess), candidates)
        if not guess:
            advice = Message("name {text_column}" + " and {label_column}" * needs_label)
        if nested := nested_columns(names, rows or ()):
            text = "{}; objects and lists of them are neither texts nor labels: {}"
            advice = Message(text, advice, list_columns(nested))
        raise Mistake("{}: {}; its columns are {}; {}", source, "; ".join(problems), list_columns(names), advice)
    if found:
        taken = ", ".join(f'"{column}" as {_ROLES[role]}' for role, column in found.items())
        log.info("%s: columns %s; using %s", source, list_columns(names), taken)
    return dataclasses.replace(given, **found)


def read_table(table: Table, columns: Columns, header: Header) -> tuple[dict[str, int], Iterable[Row | BadRow]]:
    """Returns the index of the cell of each column that a user's table has, and its rows, at least one.

    If all columns are numbers, they count columns from 0. A row that names the columns again is a BadRow.
    """
    path, names = table.path, table.names
    if table.is_json:
        places = {column: place for place, column in enumerate(names)}
        return places, checked_rows(table)
    parts = columns.parts(names)
    is_counting = all(map(str.isdecimal, parts))
    places = _find_places(parts, names, is_counting)
    for name in parts:
        if not name.isdecimal() and names.count(name) > 1:
            raise Mistake('{} has more than one column "{}"; rename all but one of them', path, name)
    if not header.is_given and (header.answer == NO or is_counting):
        details = (table.name, list_columns(names), header.reason)
        text = "{}: no header, the first row is {}, because {} ({has_header}=true skips it)"
        if header.answer == YES:
            text = "{}: the first row names the columns: {}, because {} ({has_header}=false reads it as data)"
        log.info(Message(text, *details))
    elif header.answer == YES:
        log.debug(Message("{}: the first row names the columns, because {}", table.name, header.reason))
    if header.answer == NO:
        return places, itertools.chain([table.header], checked_rows(table, has_header=False))
    if not table.first_rows:
        raise Mistake("{} has a header and no rows; give a file with at least one", path)
    return places, checked_rows(table)


def list_columns(columns: Sequence[str]) -> str:
    """Returns column names for a message; long and many names, which may be data, are cut."""
    return some_of([*map(shortened, columns)], _COLUMNS_SHOWN)


def _existing(given: Columns, names: Sequence[str]) -> tuple[str | None, ...]:
    """Returns the columns of the texts and the label that exist, or that are probably meant; None for others."""

    def existing(column: str | None) -> str | None:
        if column is None:
            return None
        parts = [part if part in names else closest(part, names) for part in parts_of(column, names)]
        return None if None in parts else ",".join(map(str, parts))

    return tuple(map(existing, (given.text, given.pair, given.label)))


def problems_with(given: Columns, names: Sequence[str], has_numbers: bool) -> list[str]:
    """Returns what is wrong with the given columns."""
    problems = []
    for part in dict.fromkeys(given.parts(names)):
        if part in names or (has_numbers and part.isdecimal() and int(part) < len(names)):
            continue
        several = part.split(",") if part == given.id else []
        close = next((name for name in several if name in names), None) or closest(part, names)
        problem = f'no column is named "{part}"' + " (ids are in one column)" * (len(several) > 1)
        problems.append(problem + (f', did you mean "{close}"?' if close else ""))
    return problems


def _find_text(names: Sequence[str], given: Columns, problems: list[str]) -> dict[str, str | None]:
    """Returns the column of the text, and that of the second text if there is one, by role; see `_find_one`."""
    taken = set(given.parts(names))
    free = [name for name in names if name not in taken]
    texts = {name for name in free if folded(name) in TEXT_NAMES}
    if not (given.pair or given.choices) and (pair := usual_pair(free, PAIRS)) and texts <= {*pair}:
        return {"text": pair[0], "pair": pair[1]}
    if len(free) == len(names) == 1:
        return {"text": names[0]}
    return {"text": _find_one(names, TEXT_NAMES, "text", taken, problems)}


def _find_one(
    names: Iterable[str], known: Collection[str], what: str, taken: Collection[str | None], problems: list[str]
) -> str | None:
    """Returns the only column with a known name; without one, adds the reason to the problems."""
    matches = [name for name in names if folded(name) in known and name not in taken]
    if len(matches) == 1:
        return matches[0]
    problems.append(f"{'several columns' if matches else 'no column'} could be the {what}")
    return None


def _find_places(names: Iterable[str], columns: Sequence[str], is_counting: bool) -> dict[str, int]:
    """Returns the index of each column given by name or number; absent columns are left out."""
    places = {}
    for name in names:
        is_number = name.isdecimal() and int(name) < len(columns)
        if name in columns and not (is_counting and is_number):
            places[name] = columns.index(name)
        elif is_number:
            places[name] = int(name)
    return places


def checked_rows(table: Table, has_header: bool = True) -> Iterator[Row | BadRow]:
    """Yields the rows below the first; a BadRow for each that has another number of cells or names the columns."""
    header = [*map(folded, table.names)]
    for row in table.rows():
        if isinstance(row, BadRow):
            yield row
            continue
        source = f"{table.name} {table.place(row.line)}"
        if len(row.cells) != len(header):
            cells = f"{len(row.cells)} {'cell' if len(row.cells) == 1 else 'cells'}"
            advice = "look for a missing separator, or one that needs quotes"
            yield BadRow(source, f"{cells}, but the first row has {len(header)}; {advice}")
        elif names_columns(row.cells, header if has_header else None):
            yield BadRow(source, REPEATED_HEADER)
        else:
            yield row
