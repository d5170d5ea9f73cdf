"""Splits running text into words as in tagged corpora and returns their positions. Imports without TensorFlow."""

from collections.abc import Callable, Sequence

from bert_keras.data_prep.text.characters import is_cjk_ideograph
from bert_keras.data_prep.text.splitting import BasicTokenizer

# These do not end a word between letters or digits: co-founded, U.S, AT&T, O'Neill. The second set: only digits.
INNER = frozenset("-./&_@+'’")
INNER_OF_NUMBERS = frozenset(",:")
APOSTROPHES = frozenset("'’")
# Endings that are split off together with an apostrophe: Germany 's, I 'm.
SUFFIXES = frozenset(("s", "m", "d", "ll", "re", "ve"))
RUNS = frozenset("-.")

# Returns the start and the end of each word of a text.
Split = Callable[[str], list[tuple[int, int]]]

_TOKENIZER = BasicTokenizer(do_lower_case=False)


def split_words(text: str) -> list[tuple[int, int]]:
    """Splits a text at white space and around punctuation that is not inside a word; returns (start, end) of each word.

    As in CoNLL-2003, a possessive or short verb ('s, 'm, 've) is a separate word. The dot of an abbreviation (U.S., J.)
    is part of its word. A row of dots or hyphens is one word. Each ideograph is a word.
    """
    parts = [(sources[0], sources[-1] + 1) for _, sources in _TOKENIZER.tokenize_with_sources(text)]
    spans, number = [], 0
    while number < len(parts):
        first, number = number, _end_of_word(text, parts, number)
        spans.append((parts[first][0], parts[number - 1][1]))
    return spans


def _end_of_word(text: str, parts: Sequence[tuple[int, int]], first: int) -> int:
    """Returns the index of the first part after the word that starts at part `first`."""
    if _is_suffix(text, parts, first):
        return first + 2
    end = first + 1
    if text[parts[first][0]] in RUNS:
        while _touches(parts, end) and text[parts[end][0]] == text[parts[first][0]]:
            end += 1
        return end
    while _goes_on(text, parts, end):
        end += 2
    has_dot = _touches(parts, end) and text[parts[end][0]] == "."
    return end + 1 if has_dot and _is_abbreviated(text[parts[first][0] : parts[end - 1][1]]) else end


def _touches(parts: Sequence[tuple[int, int]], number: int) -> bool:
    """Returns whether part `number` exists and directly follows the part before it."""
    return number < len(parts) and parts[number][0] == parts[number - 1][1]


def _goes_on(text: str, parts: Sequence[tuple[int, int]], number: int) -> bool:
    """Returns whether part `number` is a mark that joins the next part to the word before it."""
    if not (_touches(parts, number) and _touches(parts, number + 1)) or _is_suffix(text, parts, number):
        return False
    mark = text[slice(*parts[number])]
    before, after = text[parts[number - 1][1] - 1], text[parts[number + 1][0]]
    if mark in INNER_OF_NUMBERS:
        return before.isdigit() and after.isdigit()
    return mark in INNER and is_of_word(before) and is_of_word(after)


def _is_suffix(text: str, parts: Sequence[tuple[int, int]], number: int) -> bool:
    """Returns whether a part is an apostrophe and the next part is an ending to split off with it."""
    if text[slice(*parts[number])] not in APOSTROPHES or not _touches(parts, number + 1):
        return False
    ending = text[slice(*parts[number + 1])].lower()
    end = parts[number + 1][1]
    goes_on = _touches(parts, number + 2) and text[end] in INNER and is_of_word(text[end + 1 : end + 2])
    return ending in SUFFIXES and not goes_on


def _is_abbreviated(word: str) -> bool:
    """Returns whether the dot after a word is part of it: true for U.S and J, false for Smith."""
    return (len(word) == 1 and word.isupper()) or ("." in word and all(len(part) == 1 for part in word.split(".")))


def is_of_word(char: str) -> bool:
    """Returns whether a character is a letter or a digit, but not an ideograph."""
    return char.isalnum() and not is_cjk_ideograph(char)
