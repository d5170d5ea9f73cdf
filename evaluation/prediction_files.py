"""Reads predictions from the files of any program, and puts them into the order of their examples.

A file is tab-separated and has one of these forms:

index <tab> prediction   with this header (or `id` for `index`, and any further columns): GLUE's submissions, and the
                         predictions of this project
0 <tab> 1                two columns without a header: the same
1                        one column, with the header `prediction` or without: in the order of the examples
0.25 <tab> 0.75          as many columns as classes, without a header: their probabilities in the order of the examples,
                         as the original BERT writes them
"""

import logging
import math

log = logging.getLogger("bert_keras")


def align_predictions(rows, name, ids, sources, labels):
    """Returns the prediction for each example: a class name, or a float if there are no labels.

    Args:
        rows: list of (line, cells): the line number in the file, and a list of str.
        name: str, the name of the file in messages.
        ids: list of N str, the ids of the examples. Predictions may use them or the numbers of the examples from 0.
        sources: list of N str, the places of the examples, for messages.
        labels: list of str, the class names; empty for regression.
    """
    entries = _read_entries(rows, name, labels)
    values = [(line, id_, _read_value(text, f"{name} line {line}", labels)) for line, id_, text in entries]
    if all(id_ is None for _, id_, _ in values):
        return _in_order(values, name, sources)
    return _by_id(values, name, ids, sources)


def _read_entries(rows, name, labels):
    """Returns (line, id or None, prediction as text) of each row."""
    first = [cell.strip().lower() for cell in rows[0][1]]
    has_ids = first[0] in ("index", "id")
    if has_ids or "prediction" in first:
        if "prediction" not in first and len(first) != 2:
            raise ValueError(f'{name} line 1: no column "prediction" among {", ".join(first)}; rename the column')
        place, rows = first.index("prediction") if "prediction" in first else 1, rows[1:]
    elif len(first) == len(labels) > 1 and all(_is_distribution(cells) for _, cells in rows):
        log.info("%s: read as the probabilities of %s, in this order", name, ", ".join(labels))
        places = [max(range(len(cells)), key=lambda place, cells=cells: float(cells[place])) for _, cells in rows]
        return [(line, None, labels[place]) for (line, _), place in zip(rows, places, strict=True)]
    elif len(first) <= 2:
        has_ids, place = len(first) == 2, len(first) - 1
    else:
        raise ValueError(
            f"{name} line {rows[0][0]} has {len(first)} columns, but a file of predictions without a header has one or "
            "two (an id before the prediction), or the probability of each class; correct it"
        )
    for line, cells in rows:
        if len(cells) <= place:
            raise ValueError(
                f"{name} line {line} has {len(cells)} columns, but {place + 1} are needed; restore the row"
            )
    return [(line, cells[0].strip() if has_ids else None, cells[place].strip()) for line, cells in rows]


def _is_distribution(cells):
    try:
        values = [float(cell) for cell in cells]
    except ValueError:
        return False
    return all(0 <= value <= 1 for value in values) and abs(sum(values) - 1) < 1e-3


def _read_value(text, place, labels):
    if labels:
        if text not in labels:
            raise ValueError(f'{place}: prediction "{text}" is not one of {", ".join(labels)}')
        return text
    try:
        number = float(text)
    except ValueError:
        raise ValueError(f'{place}: prediction "{text}" is not a number; this task needs numbers') from None
    if not math.isfinite(number):
        raise ValueError(f'{place}: prediction "{text}" is not finite; this task needs numbers')
    return number


def _in_order(values, name, sources):
    if len(values) > len(sources):
        raise ValueError(
            f"{name} line {values[len(sources)][0]}: this is prediction {len(sources) + 1}, but there are only "
            f"{len(sources)} examples; give one for each"
        )
    if len(values) < len(sources):
        raise ValueError(
            f"{name} has {len(values)} predictions, but there are {len(sources)} examples; the first without one is "
            f"{sources[len(values)]}"
        )
    return [value for _, _, value in values]


def _by_id(values, name, ids, sources):
    by_id = {}
    for line, id_, value in values:
        if id_ in by_id:
            raise ValueError(f'{name} line {line}: the id "{id_}" is also in line {by_id[id_][0]}; ids must be unique')
        by_id[id_] = line, value
    numbers = [str(number) for number in range(len(ids))]
    if ids != numbers and set(by_id) != set(ids) and set(by_id) == set(numbers):
        log.info("%s: its ids are not those of the examples; reading them as example numbers from 0", name)
        ids = numbers
    known = set(ids)
    for line, id_, _ in values:
        if id_ not in known:
            raise ValueError(
                f'{name} line {line}: there is no example with the id "{id_}"; give the file for this data'
            )
    for id_, source in zip(ids, sources, strict=True):
        if id_ not in by_id:
            raise ValueError(f'{name} has no prediction with the id "{id_}", of {source}; give one for each example')
    return [by_id[id_][1] for id_ in ids]
