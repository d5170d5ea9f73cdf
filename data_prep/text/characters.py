"""Character classes of the tokenizer: removed, separating words, or each a word.

The classes are those of the original BERT, based on the Unicode categories in Python's `unicodedata`.
"""

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterator
from typing import Literal

CJK_IDEOGRAPHS = (
    (0x4E00, 0x9FFF),
    (0x3400, 0x4DBF),
    (0x20000, 0x2A6DF),
    (0x2A700, 0x2B73F),
    (0x2B740, 0x2B81F),
    (0x2B820, 0x2CEAF),
    (0xF900, 0xFAFF),
    (0x2F800, 0x2FA1F),
)

_BLOCK = 512  # characters that are normalised at once
# First and last character for private use.
PRIVATE_USE = ((0xE000, 0xF8FF), (0xF0000, 0xFFFFD), (0x100000, 0x10FFFD))
_PRIVATE = re.compile(f"[{''.join(f'{chr(first)}-{chr(last)}' for first, last in PRIVATE_USE)}]")


def is_whitespace(char: str) -> bool:
    """Returns whether a character separates words: space, tab, line feed, carriage return, Unicode category Zs."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char: str) -> bool:
    """Returns whether a character has the category Cc or Cf; not for tab, line feed and carriage return."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_removed(char: str) -> bool:
    """Returns whether cleaning text removes a character."""
    return char == "\ufffd" or is_control(char)


def is_punctuation(char: str) -> bool:
    """Returns whether a character is always a separate word: visible ASCII except letters and digits; categories P*."""
    if char.isascii():
        return "!" <= char <= "~" and not char.isalnum()
    return unicodedata.category(char).startswith("P")


def is_cjk_ideograph(char: str) -> bool:
    """Returns whether to split off a character as a Chinese ideograph; not Hangul, Hiragana or Katakana."""
    return any(first <= ord(char) <= last for first, last in CJK_IDEOGRAPHS)


def is_dropped_mark(char: str) -> bool:
    """Returns whether accent stripping drops a character of decomposed text: Unicode category Mn."""
    return unicodedata.category(char) == "Mn"


def as_in_transformers(text: str, do_lower_case: bool) -> str:
    """Returns a text for which the original's rules give the tokens of transformers; the places stay.

    That library removes characters for private use, and lower-cases each character alone, so a sigma that ends a word
    is σ. Differs in characters that are newer than its Unicode version, 9.
    """
    return _PRIVATE.sub("\u200b", text.replace("Σ", "σ") if do_lower_case else text)


def normalize(form: Literal["NFC", "NFD", "NFKC", "NFKD"], text: str) -> str:
    """Returns a Unicode normal form of a text, as `unicodedata.normalize` does, in linear time.

    It sorts the marks of a row one by one, so it needs half a minute for a row of 100,000 marks.
    """
    return unicodedata.normalize(form, text if len(text) <= _BLOCK else "".join(_with_sorted_marks(text)))


def _with_sorted_marks(text: str) -> Iterator[str]:
    """Yields a text in parts, with long rows of marks in their order in all normal forms."""
    start = 0
    while start < len(text):
        end = start + _BLOCK
        while end < len(text) and unicodedata.combining(unicodedata.normalize("NFD", text[end])[0]):
            end += 1
        block = text[start:end]
        if len(block) > 2 * _BLOCK:
            characters = "".join(unicodedata.normalize("NFD", char) for char in block)
            for _, row in itertools.groupby(characters, lambda char: unicodedata.combining(char) > 0):
                # Sorting keeps the order of equal numbers, which all characters between marks have.
                yield "".join(sorted(row, key=unicodedata.combining))
        else:
            yield block
        start = end


def utf16_places(text: str) -> list[int] | None:
    """Returns the index of each UTF-16 unit of a text and of its end; None if they are those of the characters."""
    if text.isascii() or max(text) <= "\uffff":
        return None
    return [*(index for index, char in enumerate(text) for _ in range(1 + (char > "\uffff"))), len(text)]


def _clean(char: str) -> str:
    if is_removed(char):
        return ""
    if is_whitespace(char):
        return " "
    return f" {char} " if is_cjk_ideograph(char) else char


def _isolate_punctuation(char: str) -> str:
    return f" {char} " if is_punctuation(char) else char


class CharacterTable(dict):
    """Translation table for `str.translate` that computes the replacement of a character on first use."""

    max_entries = 1 << 16  # about 10 MB; beyond that, each replacement is computed every time

    def __init__(self, replace: Callable[[str], str]):
        super().__init__()
        self._replace = replace

    def __missing__(self, code_point: int) -> str:
        replacement = self._replace(chr(code_point))
        if len(self) < self.max_entries:
            self[code_point] = replacement
        return replacement


# Before lower-casing and NFD: removes NUL, U+FFFD and controls, turns white space into spaces, splits off ideographs.
CLEAN = CharacterTable(_clean)
# After lower-casing and NFD: both split off punctuation; SPLIT_AND_STRIP also drops marks.
SPLIT = CharacterTable(_isolate_punctuation)
SPLIT_AND_STRIP = CharacterTable(lambda char: "" if is_dropped_mark(char) else _isolate_punctuation(char))
