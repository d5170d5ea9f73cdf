"""Compares the answers of an export with those of Python: numbers within a tolerance, and all else exactly.

An answer is a dict or list of numbers, texts, arrays and other answers; or a str, the reason why there is none.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.prediction.export_facts import RankedField
from bert_keras.prediction.predictor import Predictor, Unanswered

# Tolerances for the numbers of answers, relative to the largest number of the answer if that is above 1. In bfloat16 a
# sum depends on the order of its terms.
TOLERANCES = {None: 1e-4, "bfloat16": 0.05}


def ask_python(
    predictor: Predictor, items: Iterable[Mapping[str, Any]], **options: Any
) -> list[tuple[Any, bool] | str]:
    """Returns the answer to each item and whether the model ignored a part of it; or the error, a str."""
    values = [tuple(item.values()) if len(item) > 1 else next(iter(item.values())) for item in items]
    try:
        answers = list(predictor.pipe_with_cuts(values, on_error="report", **options))
    except Mistake as error:  # an option is not valid
        return [str(error)] * len(values)
    return [answer.error if isinstance(answer, Unanswered) else (answer, is_cut) for answer, is_cut in answers]


def compare_answers(
    called: str,
    expected: Sequence[Any],
    found: Sequence[Any],
    tolerance: float = TOLERANCES[None],
    ranked: RankedField | None = None,
) -> tuple[float, int]:
    """Compares the answers to the same texts.

    Args:
        called: the beginning of an error, with {} for the number of the text.
        expected, found: an answer for each text. Texts whose expected answer is None are not compared.
        tolerance: as in TOLERANCES; inf: the model is quantized, so answers may also differ.
        ranked: the `Predictor.ranked` of the task; guesses of almost the same number may be in another order.

    Returns:
        The largest difference of two numbers, and how many answers differ.

    Raises:
        ValueError: an answer differs, and the tolerance is not inf.
    """
    largest, num_other = 0.0, 0
    for number, (first, second) in enumerate(zip(expected, found, strict=True), 1):
        if first is None:
            continue
        try:
            largest = max(largest, _difference(called.format(number), first, second, tolerance, ranked))
        except Mistake:
            if tolerance < np.inf:
                raise
            num_other += 1
    return largest, num_other


def _difference(called: str, expected: Any, found: Any, tolerance: float, ranked: RankedField | None) -> float:
    if isinstance(expected, str) or isinstance(found, str):
        if type(expected) is not type(found):
            error_text = f"the export: {found}" if isinstance(found, str) else f"Python: {expected}"
            raise Mistake("{}: only one of them has an error ({})", called, error_text)
        return 0.0
    first, second = (_arrays_of(_without_ties(answer, expected, ranked)) for answer in (expected, found))
    sizes = [np.abs(array).max(initial=1.0) for array in first.values() if np.issubdtype(array.dtype, np.floating)]
    return largest_difference(called, first, second, tolerance * float(max(sizes, default=1.0)))


def _arrays_of(answer: Any, place: str = "") -> dict[str, np.ndarray]:
    """Returns the values in nested dicts and lists by their places."""
    if isinstance(answer, list) and any(isinstance(part, Mapping | list) for part in answer):
        answer = {f"[{number}]": part for number, part in enumerate(answer)}
    elif not isinstance(answer, Mapping):
        return {place: as_array(answer)}
    parts = {(name if name.startswith("[") or not place else f".{name}"): part for name, part in answer.items()}
    return {name: array for inside, part in parts.items() for name, array in _arrays_of(part, place + inside).items()}


def as_array(value: Any) -> np.ndarray:
    """Returns values as an array; NumPy's own arrays of str would lose zeros at the end of a text."""
    array = np.asarray(value)
    return np.asarray(value, object) if array.dtype.kind == "U" else array


def largest_difference(
    called: str, expected: Mapping[str, np.ndarray], found: Mapping[str, np.ndarray], tolerance: float
) -> float:
    """Returns the largest difference of two floats in dicts of arrays.

    Raises a Mistake, with the first place, unless floats agree within the absolute tolerance and all else is equal.
    """
    check_names(called, expected, found)
    largest = 0.0
    for name in expected:
        first, second = expected[name], found[name]
        if first.shape != second.shape:
            raise Mistake("{}: {} has the shape {!s}, but {!s} is expected", called, name, second.shape, first.shape)
        if not np.issubdtype(first.dtype, np.floating):
            is_wrong = first.astype(object) != second.astype(object)
        elif np.issubdtype(second.dtype, np.number):
            difference = np.abs(first.astype(np.float64) - second)
            # Written this way so that NaN counts as wrong.
            is_wrong = ~(difference <= tolerance)
            largest = max(largest, float(difference.max(initial=0.0)))
        else:
            is_wrong = np.full(first.shape, True)
        if np.any(is_wrong):
            place = tuple(int(index) for index in np.argwhere(is_wrong)[0])
            raise Mistake(
                "{}: {}{!s} is {}, but {} is expected (numbers to within {:g})",
                called,
                name,
                list(place) if place else "",
                _format_value(second[place]),
                _format_value(first[place]),
                tolerance,
            )
    return largest


def check_names(called: str, expected: Iterable[str], found: Iterable[str]) -> None:
    """Raises a Mistake unless an answer has the expected names."""
    if set(found) != set(expected):
        raise Mistake("{} gives {}, but {} are expected", called, ", ".join(sorted(found)), ", ".join(sorted(expected)))


def _format_value(value: Any) -> str:
    if isinstance(value, bytes):
        value = value.decode(errors="replace")
    if isinstance(value, str):
        return f'"{value[:40]}"'
    return f"{value:g}" if isinstance(value, float | np.floating) else str(value)


def _without_ties(answer: Any, expected: Any, ranked: RankedField | None) -> Any:
    """Returns an answer without the guesses that rounding may put into another order, by their expected numbers."""
    if ranked is None or ranked.name not in answer:
        return answer
    rankings, references = answer[ranked.name], expected[ranked.name]
    if is_one := isinstance(references[0], Mapping):
        rankings, references = [rankings], [references]
    left = [
        [
            guess if _has_clear_rank(reference, rank, ranked) else {ranked.number: guess[ranked.number]}
            for rank, guess in enumerate(guesses)
        ]
        for guesses, reference in zip(rankings, references, strict=False)
    ]
    is_best_clear = all(_has_clear_rank(reference, 0, ranked) for reference in references)
    answer = {**answer, ranked.name: left[0] if is_one else left}
    return {name: value for name, value in answer.items() if is_best_clear or name not in ranked.best}


def _has_clear_rank(guesses: Sequence[Mapping[str, Any]], rank: int, ranked: RankedField) -> bool:
    """Returns whether the number of a guess differs from those of its neighbours."""
    if not ranked.is_whole and rank >= len(guesses) - 1:
        return len(guesses) == 1  # the neighbour of the last guess is unknown
    numbers = [guess[ranked.number] for guess in guesses]
    nearest = [*numbers[max(rank - 1, 0) : rank], *numbers[rank + 1 : rank + 2]]
    return rank < len(numbers) and all(abs(numbers[rank] - value) > 2 * TOLERANCES[None] for value in nearest)
