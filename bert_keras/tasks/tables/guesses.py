"""Guesses the columns of a table from its first rows, for advice in messages."""

from collections.abc import Sequence
from typing import Any

from bert_keras.mistakes import Message, some_of
from bert_keras.tasks.tables.header import are_measured, is_like_number

_SHOWN = 6


def guess_columns(
    names: Sequence[str], known: Sequence[str | None], needs_label: bool, rows: Sequence[Sequence[Any]]
) -> tuple[dict[str, str], Message]:
    """Returns the settings that probably name the columns, and the end of a message with other candidates.

    The column of the longest cells is the text. If several could be the label, all of them are candidates; columns of 0
    and 1 are several labels, and numbers with a fraction are labels of a regression. A list is not a text; it has the
    choices if the label is the number of one. Objects of JSON are neither.

    Args:
        names: of all columns.
        known: the columns of the text, of the second text and of the label; None if not known.
        needs_label: whether to guess the label, too.
        rows: the first rows; without any, only known columns are returned.
    """
    given = dict(zip(("text_column", "text_pair_column", "label_column"), known, strict=True))
    nested = nested_columns(names, rows)
    chosen = {role: column for role, column in given.items() if column is not None and column not in nested}
    cells = {name: [str(row[place]).strip() for row in rows] for place, name in enumerate(names) if name not in nested}
    cells = {name: found for name, found in cells.items() if name and any(found)}
    taken = {part.strip() for column in chosen.values() for part in (column, *column.split(","))}
    free = [name for name in cells if name not in taken]
    others = Message("")
    lists = [name for name in free if isinstance(rows[0][names.index(name)], list)]
    if "text_column" not in chosen and free:
        chosen["text_column"] = max(free, key=lambda name: (name not in lists, sum(map(len, cells[name]))))
        free.remove(chosen["text_column"])
    may_join = {*free} - {*lists}
    texts = [
        name for name in cells if name == chosen.get("text_column") or (name in may_join and _is_text(cells[name]))
    ]
    if len(texts) > 1 and chosen.get("text_column") in texts:
        others = Message("; {text_column}={} joins texts of several columns", ",".join(texts))
    if needs_label and "label_column" not in chosen and free:
        labels = [name for name in free if _may_be_label(cells[name])] or free
        flags = [name for name in labels if {*cells[name]} <= {"0", "1"}]
        if len(flags) > 1 and len(flags) == len(labels):
            chosen |= {"label_column": ",".join(flags), "kind": "multi_label"}
        elif len(labels) == 1:
            chosen["label_column"] = labels[0]
            if are_measured(cells[labels[0]]):
                chosen["kind"] = "regression"
        else:
            found = [f'"{name}" ({len({*cells[name]}):,} values)' for name in labels]
            others = Message("{}; {label_column} may be {}", others, some_of(found, _SHOWN))
            if len(flags) > 1:
                text = "{}; columns of 0 and 1 are labels: {label_column}={} with {kind}=multi_label"
                others = Message(text, others, ",".join(flags))
    if needs_label and "label_column" not in chosen and cells and not free:
        others = Message("{}; no other column can have the labels, so add one", others)
    if lists and needs_label and "kind" not in chosen and (label := chosen.get("label_column")) in cells:
        place = names.index(lists[0])
        counts = [len(row[place]) if isinstance(row[place], list) else 0 for row in rows]
        if all(cell in map(str, range(count)) for cell, count in zip(cells[label], counts, strict=True)):
            chosen |= {"choice_columns": lists[0], "kind": "multiple_choice"}
    order = [role for role in (*given, "choice_columns", "kind") if role in chosen]
    return {role: chosen[role] for role in order}, others


def nested_columns(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Returns the columns that have objects of JSON, or lists of them or of lists, in the first row."""
    cells = {name: row[place] for row in rows[:1] for place, name in enumerate(names)}
    parts = {name: cell if isinstance(cell, list) else [cell] for name, cell in cells.items()}
    return [name for name, values in parts.items() if any(isinstance(part, (dict, list)) for part in values)]


def likely_texts(names: Sequence[str], rows: Sequence[Sequence[Any]]) -> list[str]:
    """Returns the columns that probably are texts, by the first rows of their table."""
    whole = [row for row in rows if len(row) == len(names)]
    places = [place for place in range(len(names)) if whole and not isinstance(whole[0][place], list)]
    return [names[place] for place in places if _is_text([str(row[place]).strip() for row in whole])]


def _may_be_label(cells: Sequence[str]) -> bool:
    """Returns whether cells may be labels: not texts, not all the same, not a count of the rows, and some recur."""
    values = {*cells}
    if len(values) < 2 or _is_text(cells):
        return False
    if all(map(is_like_number, cells)):
        return not _counts_rows(cells)
    return len(values) < len(cells) or len(cells) < 3


def _counts_rows(cells: Sequence[str]) -> bool:
    numbers = [int(cell) for cell in cells if cell.isdecimal() and len(cell) < 20]
    return len(numbers) == len(cells) > 2 and numbers == [*range(numbers[0], numbers[0] + len(cells))]


def _is_text(cells: Sequence[str]) -> bool:
    """Returns whether the cells of a column are texts: mostly different, with several words."""
    return len(set(cells)) > len(cells) / 2 and sum(cell.count(" ") for cell in cells) >= len(cells)
