"""Tells one text from several, for calls with texts of any container, and takes answers apart. Needs no TensorFlow."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from bert_keras.mistakes import Mistake

_MISSING: Any = object()


class Whole(list):
    """The texts of one call, whose answers are wanted together, and not the first one soon."""


def is_one(texts: Any, takes_pairs: bool) -> bool:
    """Returns whether the argument of a call is one text, and not several.

    A str is one text. If the model takes pairs (`takes_pairs`), a tuple that begins with a str is one pair. Any other
    iterable has several texts. A value that is neither counts as one text, which the model then refuses.
    """
    if isinstance(texts, str | bytes):
        return True
    if isinstance(texts, tuple) and texts:
        return takes_pairs and isinstance(texts[0], str)
    try:
        iter(texts)
    except TypeError:
        return True
    return False


def iterate(texts: Any) -> Iterator[Any]:
    """Returns an iterator over the texts of a container, whose items must be texts, in types of Python."""
    is_table = isinstance(texts, Mapping) or hasattr(texts, "columns")
    if isinstance(texts, str | bytes) or is_table or not isinstance(texts, Iterable):
        advice = "give a column, or zip two columns for pairs" if is_table else "give a list"
        raise Mistake("texts is of type {}, but an iterable of texts is needed; {}", type(texts).__name__, advice)
    return map(plain, texts)


def named(sources: Iterable[str], texts: Iterator[Any]) -> Iterator[tuple[str, Any]]:
    """Yields each text with its name."""
    if not isinstance(sources, Iterable):
        raise Mistake("{sources} is {!r}, but must be a list with a name for each text", sources)
    for source, text in itertools.zip_longest(sources, texts, fillvalue=_MISSING):
        if source is _MISSING or text is _MISSING:
            raise Mistake("{sources} has {} names than there are texts", "more" if text is _MISSING else "fewer")
        yield source, text


def plain(value: Any) -> Any:
    """Returns a text, a number or several with Python's types for NumPy's, and a tuple for an array."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, list):
        return list(map(plain, value))
    is_array = isinstance(value, np.ndarray) and value.ndim > 0
    return tuple(map(plain, value)) if isinstance(value, tuple) or is_array else value


def given_fields(answer: Any) -> dict[str, Any]:
    """Returns the fields of an answer without those that no option asked for."""
    fields = {field.name: field.default for field in dataclasses.fields(answer)}
    return {name: value for name, default in fields.items() if (value := getattr(answer, name)) is not default}


def num_chars(text: object) -> int:
    """Returns the number of characters in a text, a pair, or a text with choices; 0 for other values."""
    if isinstance(text, tuple | list):
        return sum(map(num_chars, text))
    return len(text) if isinstance(text, str) else 0
