"""Finds the columns of a user's file: by name, by number, or by the names that people usually give them."""

import collections
import dataclasses
import itertools
import logging
import os
import re
import shlex
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, cast

from bert_keras.data_prep.tasks.column_names import KNOWN_NAMES, LABEL_NAMES, PAIRS, TEXT_NAMES
from bert_keras.data_prep.tasks.examples import to_number
from bert_keras.data_prep.tasks.tables import BadRow, Row, Table, without_bad_rows
from bert_keras.mistakes import Message, Mistake, Setting, closest

log = logging.getLogger("bert_keras")

# The values of --has_header.
HEADERS = ("auto", "true", "false")

# Reading a larger file takes longer than loading TensorFlow.
_MOST_BYTES_CHECKED = 100_000_000
_ROLES = {"text": "the text", "pair": "the second text", "label": "the label"}


@dataclasses.dataclass(frozen=True)
class Columns:
    """The columns of a file: names in its header, or numbers from 0 as text.

    Attributes:
        text, pair, label, id: columns; None: the file has no such column. A text may be joined from several columns,
            with commas between their names; see `parts_of`.
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


def find_columns(table: Table, given: Columns = NO_COLUMNS, needs_label: bool = True) -> Columns:
    """Finds the columns of a user's table that the user did not name, if the names in its header are clear.

    The log reports them. Raises ValueError if no column, or more than one, could be the text or the label, or a given
    column does not exist; the message names all of these at once, and guesses the flags from the first rows.
    """
    rows = [row.cells for row in table.first_rows if isinstance(row, Row)]
    if table.is_json and not rows:
        without_bad_rows(table.name, table.first_rows)  # raises an error about the first row
    rows = [row for row in rows if len(row) == len(table.names)]
    return choose_columns(table.path, table.names, given, needs_label, rows, has_numbers=not table.is_json)


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
    found, missing = {}, {} if rows is None else _missing_columns(names, given, needs_label, has_numbers)
    problems = [
        f'no column is "{part}"' + (f', did you mean "{close}"?' if close else "") for part, close in missing.items()
    ]
    if given.text is None:
        text, pair, problem = _find_text(names, given)
        problems += [problem] if problem else []
        found |= {"text": text} if pair is None else {"text": text, "pair": pair}
    if given.label is None and needs_label:
        taken = {*_parts_of(given, names), *found.values()}
        found["label"], problem = _find_one(names, LABEL_NAMES, "label", taken)
        problems += [problem] if problem else []
    if problems:
        advice = _guessed_flags(names, dataclasses.replace(given, **found), needs_label, rows, missing)
        raise Mistake(
            "{}: {}; its columns are {}; {}" + " (without a header, give numbers, counted from 0)" * has_numbers,
            source,
            "; ".join(problems),
            list_columns(names),
            advice,
        )
    if found:
        taken = ", ".join(f'"{column}" as {_ROLES[role]}' for role, column in found.items())
        log.info("%s: columns %s; using %s", source, list_columns(names), taken)
    return dataclasses.replace(given, **found)


def parts_of(column: str, names: Iterable[str]) -> tuple[str, ...]:
    """Returns the columns that a text consists of: one, or several with commas between them, such as "Subject,Body"."""
    return (column,) if column in names or "," not in column else tuple(map(str.strip, column.split(",")))


def check_columns(argv: Sequence[str]) -> None:
    """Checks the columns of the files to train and to evaluate on that a command line names.

    Programs call it before they load TensorFlow, so that a mistake costs no time. It leaves all other mistakes, and
    everything that depends on an earlier run, to the program.
    """
    values = dict(argument.lstrip("-").split("=", 1) for argument in argv[1:] if re.match("--?[a-z_]+=", argument))
    output_dir = values.get("output_dir", "")
    # The columns of rerankers have other names.
    if (
        "run_config" in values
        or values.get("kind") == "rerank"
        or os.path.exists(os.path.join(output_dir, "run_config.json"))
    ):
        return
    columns = (values.get(f"{name}_column") for name in ("text", "text_pair", "label", "id"))
    given = Columns(*columns, choices=tuple(filter(None, values.get("choice_columns", "").split(","))))
    for name in ("train_file", "eval_file"):
        path = values.get(name, "")
        is_small = os.path.isfile(path) and os.path.getsize(path) < _MOST_BYTES_CHECKED
        if is_small and values.get("has_header") != "false":
            find_columns(Table(path), given)


def _parts_of(given: Columns, names: Sequence[str]) -> set[str]:
    columns = (given.text, given.pair, given.label, given.id)
    return {part for column in columns if column is not None for part in parts_of(column, names)}


def _missing_columns(
    names: Sequence[str], given: Columns, needs_label: bool, has_numbers: bool
) -> dict[str, str | None]:
    """Returns the given columns that do not exist, a dict to the column that is probably meant or None."""
    columns = (given.text, given.pair, given.label if needs_label else None, given.id)
    parts = [part for column in columns if column is not None for part in parts_of(column, names)]
    return {
        part: closest(part, names)
        for part in (*parts, *given.choices)
        if part not in names and not (has_numbers and part.isdecimal() and int(part) < len(names))
    }


def _guessed_flags(
    names: Sequence[str],
    given: Columns,
    needs_label: bool,
    rows: Sequence[Sequence[Any]] | None,
    missing: Mapping[str, str | None],
) -> Message:
    """Returns advice: the flags that probably name the columns, to be copied.

    The column of the longest cells is the text, and of the others that of the fewest different values the label.
    """
    if not rows:
        return Message(
            "name the columns with {text_column} and {label_column}" if needs_label else "name {text_column}"
        )
    cells = {name: [str(row[place]).strip() for row in rows] for place, name in enumerate(names)}
    cells = {name: found for name, found in cells.items() if name and any(found)}
    columns = {"text": given.text, "text_pair": given.pair, "label": given.label}
    chosen = {role: parts_of(column, names) for role, column in columns.items() if column is not None}
    chosen = {role: tuple(missing.get(part) or part for part in parts) for role, parts in chosen.items()}
    chosen = {role: parts for role, parts in chosen.items() if all(part in cells for part in parts)}

    def free() -> list[str]:
        return [name for name in cells if name not in itertools.chain.from_iterable(chosen.values())]

    if "text" not in chosen and free():
        chosen["text"] = (max(free(), key=lambda name: sum(map(len, cells[name]))),)
    several = [name for name in free() if len(set(cells[name])) > 1] or free()
    if "label" not in chosen and needs_label and several:
        chosen["label"] = (min(reversed(several), key=lambda name: len(set(cells[name]))),)
    numbers = {}
    if any(len(name) > 40 or name in cells[name] for name in cells):  # the first row is data
        numbers = {name: str(number) for number, name in enumerate(names)}
        chosen = {role: tuple(map(numbers.__getitem__, parts)) for role, parts in chosen.items()}
    guess = _settings({role: chosen[role] for role in ("text", "text_pair", "label") if role in chosen})
    if numbers:
        return Message("a guess is {}", guess)
    texts = [name for name in cells if name in chosen.get("text", ()) or (name in free() and _is_text(cells[name]))]
    is_more = len(texts) > len(chosen.get("text", texts))
    more = Message("; {} joins texts of several columns", _settings({"text": texts})) if is_more else ""
    return Message("a guess is {}{}", guess, more)


def _settings(columns: Mapping[str, Iterable[str]]) -> Message:
    """Returns the settings that name the columns of each role, to be copied."""
    parts = [
        Message("{}={}", Setting(f"{role}_column"), shlex.quote(",".join(names))) for role, names in columns.items()
    ]
    return Message(" ".join("{}" for _ in parts), *parts)


def _is_text(cells: Sequence[str]) -> bool:
    """Returns whether the cells of a column are texts: mostly different, with several words."""
    return len(set(cells)) > len(cells) / 2 and sum(cell.count(" ") for cell in cells) >= len(cells)


def read_table(
    table: Table, columns: Columns, needs_label: bool, has_header: str
) -> tuple[dict[str, int], Iterable[Row | BadRow]]:
    """Returns the index of the cell of each column that a user's table has, and its rows, at least one.

    The first row, the header, names the columns. If all needed columns are numbers, they count columns from 0, and
    `has_header` decides whether the first row is a header. "auto" takes it for a header in these cases; the log reports
    a decision that the flags leave open:
    - An optional column has a name.
    - The cells of the needed columns are the numbers of these columns, or usual column names.
    - The first row's label is not a number, but all others are.
    - The first row's label occurs only once, but each of the others occurs in several rows.
    """
    path, names = table.path, table.names
    needed, optional = _wanted(columns, names, needs_label)
    if table.is_json:
        places = {column: place for place, column in enumerate(names)}
        if has_header != "auto":
            raise Mistake("{} is JSON lines, which have no header; give {has_header}=auto", path)
        return places, table.rows()
    if has_header == "false" and not all(map(str.isdecimal, needed + optional)):
        raise Mistake("{}: with {has_header}=false columns have no names; give their numbers, counted from 0", path)
    is_counting = all(map(str.isdecimal, needed))
    places = _find_places(needed + optional, names, is_counting)
    for name in needed:
        if not name.isdecimal() and names.count(name) > 1:
            raise ValueError(f'{path} has more than one column "{name}"; rename all but one of them')
    rows = cast(Iterable[Row], table.rows())  # only JSON lines have a BadRow
    if has_header == "auto":
        if is_counting and columns.label in places:
            rows = list(rows)  # to compare the first label with all others
        has_header = "true" if _is_header(names, rows, places, needed, columns.label, table.name) else "false"
    if has_header == "false":
        rows = itertools.chain([table.header], rows)
    elif not table.first_rows:
        raise ValueError(f"{path} has a header and no rows; give a file with at least one")
    return places, _of_same_length(rows, len(names), table.name)


def list_columns(columns: Sequence[str]) -> str:
    """Returns column names for a message; long names, which are data rather than names, are truncated."""
    return ", ".join(name if len(name) <= 40 else f"{name[:40]}..." for name in columns)


def _wanted(columns: Columns, names: Sequence[str], needs_label: bool) -> tuple[list[str], list[str]]:
    """Returns the columns that a file needs and the one that it may lack, two lists; those of a joined text singly."""
    given = [column for column in (columns.text, columns.pair) if column is not None]
    needed = [part for column in given for part in parts_of(column, names)]
    needed += [column for column in (columns.id, *columns.choices) if column is not None]
    label = [] if columns.label is None else [columns.label]
    return (needed + label, []) if needs_label else (needed, label)


def _find_text(names: Sequence[str], given: Columns) -> tuple[str | None, str | None, str | None]:
    """Returns the columns of the text and of the second text, which is None if not found, and the problem or None."""
    taken = _parts_of(given, names)
    free = {name.strip().lower(): name for name in names if name not in taken}
    if given.pair is None:
        for first, second in PAIRS:
            others = [name for name in TEXT_NAMES if name in free and name not in (first, second)]
            if first in free and second in free and not others:
                return free[first], free[second], None
    if len(free) == 1 and len(names) == 1:
        return names[0], None, None
    text, problem = _find_one(names, TEXT_NAMES, "text", taken)
    return text, None, problem


def _find_one(
    names: Iterable[str], known: Collection[str], what: str, taken: Collection[str | None]
) -> tuple[str | None, str | None]:
    """Returns the only column with a known name, and None; or None and the problem."""
    matches = [name for name in names if name.strip().lower() in known and name not in taken]
    if len(matches) == 1:
        return matches[0], None
    return None, f"{'several columns' if matches else 'no column'} could be the {what}"


def _find_places(names: Iterable[str], columns: Sequence[str], is_counting: bool) -> dict[str, int]:
    """Returns the index of each column given by name or number; absent columns are left out."""
    places = {}
    for name in names:
        if name in columns and not (is_counting and name.isdecimal()):
            places[name] = columns.index(name)
        elif name.isdecimal() and int(name) < len(columns):
            places[name] = int(name)
    return places


def _is_header(
    first: Sequence[str],
    rows: Iterable[Row],
    places: dict[str, int],
    needed: Sequence[str],
    label: str | None,
    name: str,
) -> bool:
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
        message = "{}; the first row is taken for the header, because {}: {} ({has_header}=false reads it as data)"
        log.warning(Message(message, counted, reason, shown))
        return True
    log.info(Message("{}; no header, the first row is {} ({has_header}=true skips it)", counted, shown))
    return False


def _why_no_label(first: str, labels: Sequence[str]) -> str | None:
    """Returns why a cell is not a label like the others; None if it may be a label."""
    if len(labels) < 2 or not first:
        return None
    if to_number(first) is None and all(to_number(label) is not None for label in labels):
        return f'"{first}" is not a number, as all labels below it are'
    counts = collections.Counter(labels)
    if first not in counts and len(counts) > 1 and min(counts.values()) > 1:
        return f'"{first}" is in no other row, but every other label is in several'
    return None


def _of_same_length(rows: Iterable[Row], num_cells: int, name: str) -> Iterator[Row | BadRow]:
    """Yields rows; a BadRow for each row with another number of cells."""
    for row in rows:
        if len(row.cells) == num_cells:
            yield row
        else:
            cells = f"{len(row.cells)} {'cell' if len(row.cells) == 1 else 'cells'}"
            advice = "look for a missing separator, or one that needs quotes"
            yield BadRow(f"{name} line {row.line}", f"{cells}, but the first row has {num_cells}; {advice}")
