"""Words of running text with their places, split as tagged corpora are. Imports without TensorFlow."""

from data_prep.characters import is_cjk_ideograph
from data_prep.tokenization import BasicTokenizer

# Between letters or digits these do not end a word: co-founded, U.S, AT&T, O'Neill; some only between digits: 10,000.
_INNER = frozenset("-./&_@+'’")
_INNER_OF_NUMBERS = frozenset(",:")
_APOSTROPHES = frozenset("'’")

_TOKENIZER = BasicTokenizer(do_lower_case=False)


def split_words(text: str) -> list[tuple[int, int]]:
    """Splits a text into words: at white space, and around punctuation that is not inside a word.

    A possessive 's is a word of its own, the dot of an abbreviation (U.S., J.) is a part of its word, as in CoNLL-2003.
    Each ideograph is a word.

    Returns:
        (start, end) of each word in the text, in order.
    """
    parts = [(sources[0], sources[-1] + 1) for _, sources in _TOKENIZER.tokenize_with_sources(text)]
    spans, number = [], 0
    while number < len(parts):
        start, end = parts[number]
        number += 1
        if _is_possessive(text, parts, number - 1):
            end = parts[number][1]
            number += 1
        else:
            while _goes_on(text, parts, number, end):
                end = parts[number + 1][1]
                number += 2
            if _is_abbreviated(text, start, end) and number < len(parts) and parts[number][0] == end:
                end += 1
                number += 1
        spans.append((start, end))
    return spans


def _goes_on(text, parts, number, end):
    """Returns whether a mark and the part after it belong to the word that ends at `end`."""
    if number + 1 >= len(parts) or parts[number][0] != end or parts[number + 1][0] != parts[number][1]:
        return False
    mark, before, after = text[end], text[end - 1], text[parts[number + 1][0]]
    if parts[number][1] != end + 1 or _is_possessive(text, parts, number):
        return False
    if mark in _INNER_OF_NUMBERS:
        return before.isdigit() and after.isdigit()
    return mark in _INNER and _is_of_word(before) and _is_of_word(after)


def _is_possessive(text, parts, number):
    """Returns whether a part is an apostrophe that stands between a word and an s that ends it."""
    start, end = parts[number]
    if text[start:end] not in _APOSTROPHES or number + 1 >= len(parts) or not start or not _is_of_word(text[start - 1]):
        return False
    next_start, next_end = parts[number + 1]
    ends_there = number + 2 >= len(parts) or parts[number + 2][0] > next_end or not _is_inner(text, parts, number + 2)
    return next_start == end and text[next_start:next_end] in ("s", "S") and ends_there


def _is_inner(text, parts, number):
    """Returns whether a mark is followed at once by more of a word."""
    end = parts[number][1]
    return text[end - 1] in _INNER and end < len(text) and _is_of_word(text[end])


def _is_abbreviated(text, start, end):
    """Returns whether the dot after a word is a part of it: U.S and J have one, Smith has not."""
    word = text[start:end]
    if text[end : end + 1] != ".":
        return False
    return (len(word) == 1 and word.isupper()) or ("." in word and all(len(part) == 1 for part in word.split(".")))


def _is_of_word(char):
    return char.isalnum() and not is_cjk_ideograph(char)
