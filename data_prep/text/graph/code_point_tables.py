"""Tables of the tokenizer's rules for each of the 1,114,112 code points, for a graph of array operations.

The tables come from Python's own functions. They agree with `data_prep.text.tokenization` for every code point and use
the Unicode version of this Python.
"""

import functools
import sys
import unicodedata
from collections.abc import Callable

import numpy as np

from bert_keras.data_prep.text import characters

PAGE_BITS = 7
_NUM_CODE_POINTS = sys.maxunicode + 1

# The types of characters in normalised text: the low two bits of a packed character, after its code point.
IN_WORD, SPACE, ALONE, MARK = range(4)
NUM_KIND_BITS = 2

# Table entries >= EXPANDS map a code point to no character, to several, or to a combining mark.
EXPANDS = 1 << 26
NUM_LENGTH_BITS = 4

# Classes of characters for the final-sigma rule.
PASSED_OVER, CASED, UNCASED = range(3)


@functools.cache
def character_map(do_lower_case: bool, strip_accents: bool) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    """Returns the result of cleaning, lower-casing and decomposing each code point c: a table, and its expansions.

    An entry < EXPANDS: c becomes the packed character `(c << NUM_KIND_BITS) + entry`. An entry >= EXPANDS: `entry -
    EXPANDS` is `(start << NUM_LENGTH_BITS) + length`, and c becomes the packed characters `expansions[start : start +
    length]`, int32.

    The map lower-cases a capital sigma to the non-final form. The marks that strip_accents drops stay in the result as
    MARK, because they are needed to put the other marks into canonical order.
    """
    numbers = np.zeros(_NUM_CODE_POINTS, np.int64)
    expansions = []
    for char in _special_characters():
        parts = [(part, _kind_of(part, char, strip_accents)) for part in _normalize(char, do_lower_case, strip_accents)]
        packed = [(ord(part) << NUM_KIND_BITS) + category for part, category in parts]
        has_marks = strip_accents and any(category == MARK or unicodedata.combining(part) for part, category in parts)
        if len(packed) == 1 and not has_marks:
            number = packed[0] - (ord(char) << NUM_KIND_BITS)
        else:
            number = EXPANDS + (len(expansions) << NUM_LENGTH_BITS) + len(packed)
            expansions += packed
        numbers[ord(char)] = number
    return _paged(numbers), np.array(expansions, np.int32)


def sigma_context(char: str) -> int:
    """Returns the effect of a character on a neighbouring capital sigma in `str.lower`: PASSED_OVER, CASED or UNCASED.

    Characters that cleaning removes are PASSED_OVER.
    """
    if characters.is_removed(char):
        return PASSED_OVER
    if f"{char}Σ".lower()[-1] == "ς":
        return CASED
    return PASSED_OVER if f"A{char}Σ".lower()[-1] == "ς" else UNCASED


@functools.cache
def table_of(number_of: Callable[[str], int], default: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Tabulates a function of characters; unassigned, private and surrogate code points get the default.

    The table is two int32 arrays, pages and rows; equal pages are stored once. The number of code point c is
    `rows[pages[c >> PAGE_BITS] + (c & (1 << PAGE_BITS) - 1)]`.
    """
    numbers = np.full(_NUM_CODE_POINTS, default, np.int64)
    for char in _special_characters():
        numbers[ord(char)] = number_of(char)
    return _paged(numbers)


def _paged(numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    numbers_of_pages = {}
    pages = numbers.astype(np.int32).reshape(-1, 1 << PAGE_BITS)
    places = [numbers_of_pages.setdefault(page.tobytes(), len(numbers_of_pages)) for page in pages]
    return np.array(places, np.int32) << PAGE_BITS, np.frombuffer(b"".join(numbers_of_pages), np.int32)


@functools.cache
def _special_characters() -> str:
    """Returns all characters except unassigned, private and surrogate ones, which are always parts of words."""
    ideographs = {chr(code) for first, last in characters.CJK_IDEOGRAPHS for code in range(first, last + 1)}
    return "".join(
        char
        for char in map(chr, range(_NUM_CODE_POINTS))
        if unicodedata.category(char) not in ("Cn", "Co", "Cs") or char in ideographs
    )


def _normalize(char: str, do_lower_case: bool, strip_accents: bool) -> str:
    if characters.is_removed(char):
        return ""
    if characters.is_whitespace(char):
        return char
    if do_lower_case:
        char = char.lower()
    return unicodedata.normalize("NFD", char) if strip_accents else char


def _kind_of(part: str, char: str, strip_accents: bool) -> int:
    if part.isspace():
        return SPACE
    if strip_accents and characters.is_dropped_mark(part):
        return MARK
    return ALONE if characters.is_punctuation(part) or characters.is_cjk_ideograph(char) else IN_WORD
