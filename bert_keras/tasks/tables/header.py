"""Decides whether the first row of a table names its columns: yes, no or unclear, and why."""

import collections
import dataclasses
import math
from collections.abc import Collection, Iterable, Sequence
from typing import Any

from bert_keras.mistakes import Message
from bert_keras.tasks.tables.column_names import KNOWN_NAMES, LABEL_NAMES, TEXT_NAMES, VECTOR_PAIRS, folded, usual_pair

YES, NO, UNCLEAR = "yes", "no", "unclear"

# What programs write for a missing value.
MISSING = frozenset(("nan", "none", "null", "na", "n/a", "<na>", "nat", "#n/a"))
_LONGEST_NAME = 40
# Other usual names, such as review and category, may be data: the class of a text, or a text of one word.
_NAMES_ONLY = {name for name in KNOWN_NAMES if "_" in name or name[-1].isdigit()} | {"text", "label", "labels"}
_ENDS_OF_SENTENCES = tuple(".!?,;:…。！？")


@dataclasses.dataclass(frozen=True)
class Header:
    """Whether the first row of a table names its columns.

    Attributes:
        answer: "yes", "no" or "unclear".
        reason: the end of a sentence that begins with "because".
        is_given: whether the user decides, with names of columns or `has_header`.
    """

    answer: str
    reason: Message
    is_given: bool = False


@dataclasses.dataclass(frozen=True)
class _Column:
    """A cell of the first row, and the other cells of its column that are not blank."""

    cell: str
    below: Sequence[str]

    @property
    def is_known(self) -> bool:
        return folded(self.cell) in KNOWN_NAMES and not any(folded(cell) in KNOWN_NAMES for cell in self.below)

    @property
    def is_of_numbers(self) -> bool:
        return bool(self.below) and all(map(is_like_number, self.below))

    @property
    def is_of_texts(self) -> bool:
        """Whether the cells below have two words or more on average."""
        return bool(self.below) and sum(len(cell.split()) for cell in self.below) >= 2 * len(self.below)

    @property
    def is_of_classes(self) -> bool:
        """Whether the cells below have a few values that mostly recur."""
        counts = collections.Counter(self.below)
        few = len(self.below) >= 8 and len(counts) <= len(self.below) / 4
        return len(counts) > 1 and (few or min(counts.values()) > 1)

    @property
    def is_one_word(self) -> bool:
        """Whether the cell looks like one word of a header."""
        is_short = len(self.cell) <= _LONGEST_NAME and not self.cell.endswith(_ENDS_OF_SENTENCES)
        return is_short and any(map(str.isalpha, self.cell)) and len(self.cell.split()) == 1

    @property
    def names_numbers(self) -> bool:
        """Whether the cell is a name above numbers."""
        num_letters = sum(map(str.isalpha, self.cell))
        is_name = num_letters > 2 or (num_letters and not any(map(str.isdigit, self.cell)))
        return bool(is_name) and len(self.cell) <= _LONGEST_NAME and self.is_of_numbers and not is_missing(self.cell)

    def may_be_name(self, is_first: bool) -> bool:
        is_index = is_first and not self.cell and self.is_of_numbers
        is_empty = not self.cell and not self.below  # a separator at the end of each line
        return is_index or is_empty or self.is_known or self.is_one_word or self.names_numbers


def is_like_number(cell: str) -> bool:
    """Returns whether a cell is a number, a date or several numbers: it has digits, and no letter but an exponent."""
    has_digit = any(map(str.isdigit, cell))
    return has_digit and not any(char.isalpha() and char not in "eE" for char in cell)


# Truth values in cells, in lower case.
TRUTH_VALUES = {"0": False, "1": True, "false": False, "true": True}


def to_number(text: str | float) -> float | None:
    """Returns a number as float; None if it is not a number or not finite."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def are_numbers(cells: Iterable[str]) -> bool:
    """Returns whether all cells are finite numbers."""
    return all(to_number(cell) is not None for cell in cells)


def are_measured(cells: Sequence[str]) -> bool:
    """Returns whether cells are numbers of which one has a fraction, as on a scale."""
    return are_numbers(cells) and any(float(cell) % 1 for cell in cells)


def is_missing(cell: str) -> bool:
    """Returns whether a cell is the word of a program for a missing value."""
    return cell.strip().lower() in MISSING


def judge_header(first: Sequence[str], rows: Sequence[Sequence[str]], given: Collection[str] = ()) -> Header:
    """Decides whether the first row of a table names its columns.

    It does if it has a name that the user gives, or if all of its cells look like names and one is unlike the cells
    below it. It does not if one of its cells is like those below it. Else, or if both hold, it is unclear.

    Args:
        first: the cells of the first row, without blanks around them.
        rows: the cells of some rows below.
        given: the names of columns that the user gives.
    """
    if named := [name for name in given if name in first]:
        return Header(YES, Message('it has the column "{}"', named[0]), is_given=True)
    others = [[cell.strip() for cell in row] for row in rows if len(row) == len(first)]
    header = [*map(folded, first)]
    others = [row for row in others if not names_columns(row, header)]
    columns = [_Column(cell, [row[place] for row in others if row[place]]) for place, cell in enumerate(first)]
    names, data = _why_names(columns), _why_data(columns)
    if _counts_columns(columns):
        return Header(YES, Message("it has the numbers of the columns"))
    may_be_names = all(column.may_be_name(not place) for place, column in enumerate(columns))
    if names and not data and may_be_names:
        return Header(YES, names)
    if data and not (names and may_be_names):
        return Header(NO, data)
    return Header(UNCLEAR, Message("its cells may be names as well as data"))


def names_columns(cells: Sequence[Any], header: Sequence[str] | None) -> bool:
    """Returns whether a row names columns: as the header, folded, or with usual names of a text and a label."""
    if not all(isinstance(cell, str) for cell in cells):
        return False
    names = [*map(folded, cells)]
    has_usual = len(names) > 1 and {*names} <= KNOWN_NAMES and not {*names}.isdisjoint(LABEL_NAMES)
    return names == header or (has_usual and not {*names}.isdisjoint(TEXT_NAMES))


def _why_names(columns: Sequence[_Column]) -> Message | None:
    """Returns why the first row names the columns; None without a sign that it does."""
    filled = [column for column in columns if column.cell]
    if filled and all(column.is_known for column in filled):
        return Message("its cells are usual names")
    if pair := usual_pair([column.cell for column in columns if column.is_known], VECTOR_PAIRS):
        return Message('"{}" and "{}" are usual names', *pair)
    for column in columns:
        if column.names_numbers and (len(column.below) > 1 or column.is_known):
            return Message('"{}" is not a number, as all cells below it are', column.cell)
        is_text = folded(column.cell) in TEXT_NAMES and column.is_of_texts
        is_label = folded(column.cell) in LABEL_NAMES and bool(column.below) and not column.is_of_texts
        if column.is_known and (is_text or is_label or folded(column.cell) in _NAMES_ONLY):
            return Message('"{}" is a usual name', column.cell)
    texts = [column for column in columns if column.is_one_word and column.is_of_texts]
    classes = [column for column in columns if column.is_of_classes and column.cell not in column.below]
    classes = [column for column in classes if column.is_one_word and column not in texts[:1]]
    if texts and classes:
        return Message(
            '"{}" is one word above texts, and "{}" is in no other row, but the other cells of its column are',
            texts[0].cell,
            classes[0].cell,
        )
    return None


def _why_data(columns: Sequence[_Column]) -> Message | None:
    """Returns why the first row is data; None without a sign that it is."""
    for column in columns:
        num_numbers = sum(map(is_like_number, column.below))
        if is_like_number(column.cell) and 2 * num_numbers >= len(column.below) > 0:
            return Message('"{}" is a number among numbers', column.cell)
        if column.cell and column.cell in column.below:
            return Message('"{}" is in the same column of another row', column.cell)
    return None


def _counts_columns(columns: Sequence[_Column]) -> bool:
    """Returns whether the first row is 0, 1, 2 and so on, as programs write it for columns without names."""
    cells = [column.cell for column in columns]
    cells = cells[not cells[0] :]
    is_counting = cells == [*map(str, range(len(cells)))]
    return is_counting and any(column.below and not any(map(is_like_number, column.below)) for column in columns)
