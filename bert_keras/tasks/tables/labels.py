"""Reads the labels of the rows of a table: names, numbers, lists of names, and columns of 0 and 1."""

import ast
import contextlib
import itertools
import json
import logging
import math
import re
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Message, Mistake
from bert_keras.storage import text_files
from bert_keras.tasks.tables.columns import Columns, parts_of
from bert_keras.tasks.tables.examples import Label
from bert_keras.tasks.tables.header import TRUTH_VALUES, to_number

log = logging.getLogger("bert_keras")

_BRACKETS = ("[]", "()", "{}")
_STRING = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
_ARRAY = re.compile(rf"array\((\[(?:{_STRING}|[^\]'\"])*\])(?:,\s*dtype=[^)]*)?\)", re.DOTALL)
_NUMBER = r"[-+.\deE]+"
_ITEM = re.compile(rf"{_STRING}|{_NUMBER}")
_PIECE = re.compile(rf"({_STRING})|[^'\"]+|.", re.DOTALL)
# NumPy writes no commas.
_WITHOUT_COMMAS = re.compile(rf"\[\s*(?:{_STRING}|{_NUMBER})(?:\s+(?:{_STRING}|{_NUMBER}))+\s*\]", re.DOTALL)
# Other lists: several items between brackets.
_IN_BRACKETS = re.compile(r"\[.*[\s,'\"].*\]|\{.*\}|\(.*,.*\)|array\(.*\)", re.DOTALL)
_WHOLE = re.compile(r"([+-]?\d+)\.0*")
_REMEDY = "give the labels a column each, with 0 and 1 ({label_column}=one,other), or write lists of their names"


class LabelReader:
    """Reads the label of each row of a table, and refuses a column whose cells have more than one form.

    Args:
        columns: the columns of the table; several columns of labels have 0 and 1 in their cells.
        kind: one of `tasks.tables.settings.KINDS`.
        names: the names of the columns in the order of their numbers, or the numbers.
    """

    def __init__(self, columns: Columns, kind: str, names: Sequence[str]) -> None:
        self._columns, self._kind = columns, kind
        self._parts = () if columns.label is None else parts_of(columns.label, names)
        self._names = tuple(part if part in names or not part.isdecimal() else names[int(part)] for part in self._parts)
        self._places: dict[str, tuple[str, Any]] = {}
        if len(self._parts) > 1 and kind != "multi_label":
            raise Mistake(
                "{label_column}={} are several columns of labels, which need {kind}=multi_label", columns.label
            )
        if len(self._parts) > 1 and columns.label_separator:
            raise Mistake(
                "{label_separator} is for the labels in a cell, but {label_column}={} are columns of 0 and 1; leave it "
                "out",
                columns.label,
            )

    def read(self, cells: Mapping[str, Any], place: str) -> Label | None:
        """Returns the label of a row, whose `cells` are by column; None if the table has no column of labels.

        The caller adds file and line to a Mistake; `place` is the line, for messages about other rows.
        """
        if len(self._parts) > 1:
            named = zip(self._names, self._parts, strict=True)
            return tuple(name for name, part in named if _to_flag(cells[part], name))
        column = self._columns.label
        if column is None:
            return None
        self._check_type(cells[column], place)
        label = self._to_labels(cells[column], place) if self._kind == "multi_label" else self._to_label(cells[column])
        if label is None:
            raise Mistake('the column "{}" is empty; every example needs a label here', column)
        return label

    def _to_label(self, value: Any) -> Label | None:
        if _is_blank(value):
            return None
        if self._kind == "regression":
            return _to_finite(value)
        is_list = isinstance(value, list) or (isinstance(value, str) and read_list(value) is not None)
        if is_list:
            cell_text = value if isinstance(value, str) else json.dumps(value)
            raise Mistake(
                "the label is the list {}, but one label is needed; lists are for {kind}=multi_label", cell_text[:40]
            )
        return to_label_name(value, self._columns.label)

    def _to_labels(self, value: Any, place: str) -> tuple[str, ...] | None:
        """Returns the labels in a multi-label cell: () if it is blank, None for a JSON null or a missing key."""
        if value is None:
            return None
        found: Any = value if isinstance(value, list) else [value]
        if isinstance(value, str):
            if text_files.is_blank(value):
                return ()
            items = read_list(value)
            self._check_form("not a list" if items is None else "a list", value, place)
            if items is None:
                if _IN_BRACKETS.fullmatch(value.strip()):
                    raise Mistake(
                        "the labels {} look like a list, but it cannot be read; write a JSON list such as "
                        '["one", "other"], or the names with {label_separator} between them',
                        value[:40],
                    )
                items = value.split(self._columns.label_separator) if self._columns.label_separator else [value]
            found = items
        cell_text = value if isinstance(value, str) else json.dumps(value)
        if any(map(_is_blank, found)):
            raise Mistake('the labels "{}" include an empty label; remove it', cell_text)
        names = [to_label_name(item, self._columns.label) for item in found]
        # 0 and 1 in this order may be two labels.
        if len(names) > 1 and {name.lower() for name in names} <= set(TRUTH_VALUES) and names != ["0", "1"]:
            raise Mistake("the labels {} are 0 and 1 for labels without names; " + _REMEDY, cell_text[:40])
        return tuple(dict.fromkeys(names))

    def _check_form(self, form: str, value: str, place: str) -> None:
        """Rejects a column in which only some cells are lists."""
        first, other = self._places.setdefault(form, (place, value)), "a list" if form == "not a list" else "not a list"
        if other in self._places:
            other_place, other_value = self._places[other]
            raise Mistake(
                "the labels {} are {}, but those of {}, {}, are {}; write all of them in the same way",
                value[:40],
                form,
                other_place,
                other_value[:40],
                other,
            )
        if form == "a list" and first == (place, value) and self._columns.label_separator:
            log.info(Message("the labels are lists ({}), so {label_separator} is not used", place))

    def _check_type(self, value: Any, place: str) -> None:
        """Rejects a file whose labels are both booleans and numbers of JSON, which is a mistake in the data."""
        for item in value if isinstance(value, list) else [value]:
            if not isinstance(item, (bool, int, float)):
                continue
            form, other = ("boolean", "number") if isinstance(item, bool) else ("number", "boolean")
            if other in self._places:
                other_place, other_item = self._places[other]
                raise Mistake(
                    "the label is {}, but that of {} is {}; write all labels as numbers, or all as true and false",
                    json.dumps(item),
                    other_place,
                    json.dumps(other_item),
                )
            self._places.setdefault(form, (place, item))


def read_list(text: str) -> list[Any] | None:
    """Returns the items of a list as Python, JSON or NumPy write it, also of a tuple or a set; None for other text."""
    text = without_arrays(text.strip())
    if text[:1] + text[-1:] not in _BRACKETS:
        return None
    if _WITHOUT_COMMAS.fullmatch(text):
        text = f"[{', '.join(_ITEM.findall(text[1:-1]))}]"
    pieces = [(match[0], match[1]) for match in _PIECE.finditer(text) if not match[0].isspace()]
    if any(first and second for (_, first), (_, second) in itertools.pairwise(pieces)):
        return None  # Python would join the two strings
    value = read_value(text)
    if isinstance(value, set):
        value = sorted(value, key=str)  # its own order differs from run to run
    return list(value) if isinstance(value, (list, tuple)) else None


def read_value(text: str) -> Any:
    """Returns a value as JSON or Python write it; None for other text."""
    for parse in (json.loads, ast.literal_eval):
        with contextlib.suppress(ValueError, SyntaxError, MemoryError, RecursionError):
            return parse(text)
    return None


def without_arrays(text: str) -> str:
    """Returns the text of a value with lists in place of NumPy's arrays, as pandas writes those in a cell."""
    return _ARRAY.sub(lambda array: array[1], text)


def to_name(value: Any, column: str | None) -> str:
    """Returns an id or a label as text."""
    if isinstance(value, str) and not text_files.is_blank(value):
        return value.strip()
    if value is None or isinstance(value, str):
        raise Mistake('the column "{}" is empty; every row needs one', column)
    if isinstance(value, (list, tuple, set, dict)):
        raise Mistake('the column "{}" is {}, but a name or a number is needed', column, str(value)[:40])
    if isinstance(value, float) and not math.isfinite(value):
        raise Mistake('the column "{}" is {}, but a name or a finite number is needed', column, json.dumps(value))
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        value = int(value)  # JSON has one number type: 1 and 1.0 are the same
    return str(value)  # True also for JSON's true, as pandas writes it to a CSV file


def to_label_name(value: Any, column: str | None) -> str:
    """Returns a label as text: "1" for 1, 1.0, "1" and "1.0", because tables write whole numbers in both ways."""
    name = to_name(value, column)
    whole = _WHOLE.fullmatch(name)
    return name if whole is None else "0" if not float(whole[1]) and whole[1][:1] in "+-" else whole[1]


def _to_flag(value: Any, column: str) -> bool:
    """Returns whether the cell of a column of 0 and 1 is 1."""
    flag = None if _is_blank(value) else TRUTH_VALUES.get(to_label_name(value, column).lower())
    if flag is None:
        found = "empty" if _is_blank(value) else f'"{str(value)[:40]}"'
        raise Mistake('the column "{}" is {}, but columns of several labels have 0 or 1', column, found)
    return flag


def _to_finite(value: Any) -> float:
    number = None if isinstance(value, bool) else to_number(value)
    if number is None:
        raise Mistake('the label "{!s}" is not a finite number; {}', value, _mend_number(str(value).strip()))
    return number


def _mend_number(text: str) -> str:
    """Returns what to do about a label that is not a number."""
    if text.lower() in TRUTH_VALUES:
        return "write 1 for true and 0 for false"
    if text.lower() in ("yes", "no"):
        return "write 1 for yes and 0 for no"
    whole, decimal = text.replace(",", ""), text.replace(".", "").replace(",", ".")
    if re.fullmatch(r"[+-]?[1-9]\d{0,2},\d{3}", text):
        return f"write {whole} or {decimal}, whichever it is"
    if re.fullmatch(r"[+-]?[1-9]\d{0,2}(,\d{3})+(\.\d+)?", text):
        return f"write {whole}"
    if re.fullmatch(r"[+-]?(\d+|\d{1,3}(\.\d{3})+),\d+", text):
        return f"write {decimal}"
    return "write the number alone" if any(map(str.isdigit, text)) else "correct it"


def _is_blank(value: Any) -> bool:
    return value is None or (isinstance(value, str) and text_files.is_blank(value))
