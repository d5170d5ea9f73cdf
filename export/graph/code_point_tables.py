"""What the tokenizer does with each of the 1,114,112 code points, as tables of numbers for a graph of array operations.

They are worked out from Python's own functions, so they agree with `data_prep.text.tokenization` in every code point
and for the version of Unicode that this Python knows.
"""

import dataclasses
import functools
import sys
import unicodedata
from collections.abc import Callable

import numpy as np

from bert_keras.data_prep.text.characters import (
    CJK_IDEOGRAPHS,
    is_cjk_ideograph,
    is_control,
    is_dropped_mark,
    is_punctuation,
    is_whitespace,
)

PAGE_BITS = 7
_NUM_CODE_POINTS = sys.maxunicode + 1

# What a character is once text is normalised; the low two bits of a packed character.
IN_WORD, SPACE, ALONE, MARK = range(4)
NUM_KIND_BITS = 2

# Entries of a table of characters from here on do not say one character but none or several.
EXPANDS = 1 << 26
NUM_LENGTH_BITS = 4
# From here on they say that combining marks, some of which stay, may have to change places.
REORDERS = 1 << 28

# What a character is to the rule of the final sigma.
PASSED_OVER, CASED, UNCASED = range(3)


@dataclasses.dataclass(frozen=True)
class PagedTable:
    """A number for each code point, without keeping equal pages of them twice.

    The number of code point c is `rows[pages[c >> PAGE_BITS] + (c & (1 << PAGE_BITS) - 1)]`.

    Attributes:
        pages: int32 [8704], where in `rows` the page of a code point starts.
        rows: int32 [R].
    """

    pages: np.ndarray
    rows: np.ndarray

    @classmethod
    def of(cls, numbers: np.ndarray) -> "PagedTable":
        """Makes it of int32 [1114112]."""
        rows, places = np.unique(numbers.reshape(-1, 1 << PAGE_BITS), axis=0, return_inverse=True)
        return cls((places.ravel() << PAGE_BITS).astype(np.int32), rows.ravel().astype(np.int32))


@dataclasses.dataclass(frozen=True)
class CharacterMap:
    """What becomes of each code point c as text is cleaned, lower-cased and decomposed.

    A packed character is `(code point << NUM_KIND_BITS) + kind`, kind being IN_WORD, SPACE, ALONE or MARK.

    Attributes:
        table: an entry below EXPANDS: c becomes the packed character `(c << NUM_KIND_BITS) + entry`. Above: the entry
            less EXPANDS is `(start << NUM_LENGTH_BITS) + length`, c becomes `expansions[start : start + length]`.
            From REORDERS on: take the map that keeps marks, and put them into canonical order.
        expansions: int32 [E], packed characters.
    """

    table: PagedTable
    expansions: np.ndarray


@functools.cache
def character_map(do_lower_case: bool, strip_accents: bool, keep_marks: bool = False) -> CharacterMap:
    """Returns what becomes of each code point.

    A capital sigma becomes the small one that does not end a word. With keep_marks, which is for `strip_accents`, marks
    to be dropped are kept as MARK, so that what stays can be put into canonical order among them.
    """
    numbers = np.zeros(_NUM_CODE_POINTS, np.int64)
    expansions = []
    for char in _special_characters():
        normalised = _normalize(char, do_lower_case, strip_accents)
        kinds = [_kind_of(part, char, strip_accents) for part in normalised]
        packed = [
            (ord(part) << NUM_KIND_BITS) + kind
            for part, kind in zip(normalised, kinds, strict=True)
            if keep_marks or kind != MARK
        ]
        if len(packed) == 1:
            number = packed[0] - (ord(char) << NUM_KIND_BITS)
        else:
            number = EXPANDS + (len(expansions) << NUM_LENGTH_BITS) + len(packed)
            expansions += packed
        if (
            strip_accents
            and not keep_marks
            and any(unicodedata.combining(chr(part >> NUM_KIND_BITS)) for part in packed)
        ):
            number = REORDERS
        numbers[ord(char)] = number
    return CharacterMap(PagedTable.of(numbers), np.array(expansions, np.int32))


@functools.cache
def sigma_contexts() -> PagedTable:
    """Returns PASSED_OVER, CASED or UNCASED for each code point: what it makes of a capital sigma beside it.

    From what `str.lower` does to a sigma beside the character. Characters that cleaning removes are passed over.
    """

    def context(char):
        if is_removed(char):
            return PASSED_OVER
        if f"{char}Σ".lower()[-1] == "ς":
            return CASED
        return PASSED_OVER if f"A{char}Σ".lower()[-1] == "ς" else UNCASED

    return table_of(context, UNCASED)


@functools.cache
def combining_classes() -> PagedTable:
    """Returns the canonical combining class of each code point."""
    return table_of(unicodedata.combining, 0)


@functools.cache
def dropped_marks() -> PagedTable:
    """Returns 1 for each code point that stripping accents drops, and 0 for others."""
    return table_of(is_dropped_mark, 0)


@functools.cache
def _special_characters() -> str:
    """Returns all characters but those that are parts of words whatever is beside them: unassigned or private."""
    ideographs = {chr(code) for first, last in CJK_IDEOGRAPHS for code in range(first, last + 1)}
    return "".join(
        char
        for char in map(chr, range(_NUM_CODE_POINTS))
        if unicodedata.category(char) not in ("Cn", "Co", "Cs") or char in ideographs
    )


def table_of(number_of: Callable[[str], int], default: int) -> PagedTable:
    """Makes a table of a function of characters; those that are unassigned or private get the default."""
    numbers = np.full(_NUM_CODE_POINTS, default, np.int64)
    for char in _special_characters():
        numbers[ord(char)] = number_of(char)
    return PagedTable.of(numbers)


def _is_movable(packed: int) -> bool:
    return unicodedata.combining(chr(packed >> NUM_KIND_BITS)) != 0


def is_removed(char: str) -> bool:
    """Whether cleaning text removes a character."""
    return char == "\ufffd" or is_control(char)


def _normalize(char: str, do_lower_case: bool, strip_accents: bool) -> str:
    if is_removed(char):
        return ""
    if is_whitespace(char):
        return char
    if do_lower_case:
        char = char.lower()
    return unicodedata.normalize("NFD", char) if strip_accents else char


def _kind_of(part: str, char: str, strip_accents: bool) -> int:
    if part.isspace():
        return SPACE
    if strip_accents and is_dropped_mark(part):
        return MARK
    return ALONE if is_punctuation(part) or is_cjk_ideograph(char) else IN_WORD
