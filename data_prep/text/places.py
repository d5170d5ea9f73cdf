"""Where the tokens that a model reads are in its texts: explanations, entities, answers and the page ask here."""

import functools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data_prep.text.model_inputs import join_pair
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.words import split_words

# The ids of a sequence.
Ids = Sequence[int] | np.ndarray


class Token(NamedTuple):
    """A token that a model reads, and its place in its text: text[start:end]. [CLS] and [SEP] have no place.

    `text` is the name of the text, such as "context". `word` has the start and the end of its word, as the text is
    split before word pieces.
    """

    id: int
    start: int | None = None
    end: int | None = None
    text: str | None = None
    word: tuple[int, int] | None = None


def locate(tokenizer: FullTokenizer, text: str, name: str, start: int = 0) -> list[Token]:
    """Returns the tokens of a text with their places, given its name.

    `start` is the place of this text in a longer one. Below 0, the longer one begins inside this text, and the tokens
    before it get an empty place at its start.
    """
    found = tokenizer.tokenize_with_offsets(text)
    ids = tokenizer.convert_tokens_to_ids(token for token, _, _ in found)

    def moved(first: int, end: int) -> tuple[int, int]:
        return max(0, start + first), max(0, start + end)

    return [
        Token(id_, *moved(first, end), name, moved(*word))
        for id_, (_, first, end), word in zip(ids, found, _words_of_tokens(text, found), strict=True)
    ]


def _words_of_tokens(text: str, found: Iterable[tuple[str, int, int]]) -> list[list[int]]:
    """Returns the start and the end of the word of each token."""
    words: list[list[int]] = []
    for token, first, end in found:
        # A special token of the text may begin with "##", too; a piece of a word never begins at "#".
        if token.startswith("##") and not text.startswith("#", first):
            words.append(words[-1])
            words[-1][1] = end
        else:
            words.append([first, end])
    return words


def split_by(rule: str, tokenizer: FullTokenizer, text: str) -> list[tuple[int, int]]:
    """Returns the start and the end of each word of a text, by one of the `WORDS` of `settings.model_files`.

    "conll": the words of `split_words`. "transformers": those of the tokenizer, and each special token in the text.
    """
    if rule == "conll":
        return split_words(text)
    words = _words_of_tokens(text, tokenizer.tokenize_with_offsets(text))
    return list(dict.fromkeys((first, end) for first, end in words))


def place_rows(
    tokenizer: FullTokenizer,
    segment_ids: Iterable[Ids],
    texts: Mapping[str, Any],
    starts: Iterable[Sequence[int]],
    locate_text: Callable[[str, str], Sequence[Token]],
) -> list[list[Token]]:
    """Returns the tokens of sequences [CLS] A [SEP] or [CLS] A [SEP] B [SEP].

    Args:
        segment_ids: of each sequence, without padding.
        texts: A, or A and B, by their names. Of a list of texts, each sequence has one.
        starts: for each sequence the numbers of tokens of A and of B before it, if windows cover a text.
        locate_text: returns the tokens of a text, given the text and its name.
    """
    located, rows = functools.cache(locate_text), []
    cls, sep = (Token(tokenizer.vocab[token]) for token in ("[CLS]", "[SEP]"))
    for number, (row_segment_ids, starts_of_row) in enumerate(zip(segment_ids, starts, strict=False)):
        num_second = int(np.count_nonzero(row_segment_ids))
        sizes = len(row_segment_ids) - num_second - 2, max(0, num_second - 1)
        parts: list[Sequence[Token]] = [(), ()]
        for place, ((name, text), start) in enumerate(zip(texts.items(), starts_of_row, strict=False)):
            tokens = located(text if isinstance(text, str) else text[number], name)
            parts[place] = tokens[start : start + sizes[place]]
        first, second = parts
        rows.append(join_pair(first, second, None, cls, sep)[0])
    return rows


def describe(tokenizer: FullTokenizer, tokens: Iterable[Token]) -> list[dict[str, Any]]:
    """Returns tokens as dicts of "token", "start", "end" and "text", for JSON."""
    return [
        {"token": tokenizer.inv_vocab[token.id], "start": token.start, "end": token.end, "text": token.text}
        for token in tokens
    ]
