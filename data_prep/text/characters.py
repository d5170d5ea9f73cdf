"""What the tokenizer does with each character: which are removed, separate words, or are words of their own.

The classes are those of the original BERT, by Unicode category as Python's `unicodedata` knows it.
"""

import unicodedata
from collections.abc import Callable

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


def is_whitespace(char: str) -> bool:
    """Whether a character separates words: space, tab, line feed, carriage return, Unicode category Zs."""
    return char in " \t\n\r" or unicodedata.category(char) == "Zs"


def is_control(char: str) -> bool:
    """Whether a character is removed: Unicode categories Cc and Cf, except tab, line feed and carriage return."""
    return char not in "\t\n\r" and unicodedata.category(char) in ("Cc", "Cf")


def is_punctuation(char: str) -> bool:
    """Whether a character is always a word of its own: visible ASCII that is no letter or digit; categories P*."""
    if char.isascii():
        return "!" <= char <= "~" and not char.isalnum()
    return unicodedata.category(char).startswith("P")


def is_cjk_ideograph(char: str) -> bool:
    """Whether a character is set apart as a Chinese ideograph; Hangul, Hiragana and Katakana are not."""
    return any(first <= ord(char) <= last for first, last in CJK_IDEOGRAPHS)


def is_dropped_mark(char: str) -> bool:
    """Whether stripping accents drops a character: Unicode category Mn, once text is decomposed."""
    return unicodedata.category(char) == "Mn"


def _clean(char: str) -> str:
    if char in "\x00\ufffd" or is_control(char):
        return ""
    if is_whitespace(char):
        return " "
    return f" {char} " if is_cjk_ideograph(char) else char


def _isolate_punctuation(char: str) -> str:
    return f" {char} " if is_punctuation(char) else char


def _isolate_punctuation_and_drop_marks(char: str) -> str:
    return "" if is_dropped_mark(char) else _isolate_punctuation(char)


class CharacterTable(dict):
    """A table for `str.translate` that works out a character's replacement when it first appears.

    Args:
        replace: gives what stands for a character.
    """

    max_entries = 1 << 16  # some 10 MB; characters met later are worked out each time

    def __init__(self, replace: Callable[[str], str]):
        super().__init__()
        self._replace = replace

    def __missing__(self, code_point: int) -> str:
        replacement = self._replace(chr(code_point))
        if len(self) < self.max_entries:
            self[code_point] = replacement
        return replacement


# Before lower-casing and NFD: removes NUL, U+FFFD and controls, makes white space a space, sets ideographs apart.
CLEAN = CharacterTable(_clean)
# After them: sets punctuation apart; the second also drops marks.
SPLIT = CharacterTable(_isolate_punctuation)
SPLIT_AND_STRIP = CharacterTable(_isolate_punctuation_and_drop_marks)
