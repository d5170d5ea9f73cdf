"""The words that carry an answer: each word is hidden in turn, and the answer changes or not."""

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from bert_keras.data_prep.tasks.examples import Example
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.prediction.network import Question

# Number of words to show.
_MOST_WORDS = 5


@dataclasses.dataclass(frozen=True)
class WordWeight:
    """A word of a text, and how much it moves the answer.

    Attributes:
        word: as in the text.
        start, end: character offsets in its text: text[start:end].
        weight: the score of the answer, less the score without the word; below 0, the word speaks against the answer.
        field: the field of the answer with its text: "text", or for the second text of a pair "text_pair".
    """

    word: str
    start: int
    end: int
    weight: float
    field: str


@dataclasses.dataclass(frozen=True)
class SeenWord:
    """A word that the model reads, as in `WordWeight`; `places` has its positions in each row that has some."""

    word: str
    start: int
    end: int
    field: str
    places: dict[int, list[int]]


def seen_words(
    tokenizer: FullTokenizer, example: Example, rows: dict[str, np.ndarray], doc_stride: int | None
) -> list[SeenWord]:
    """Returns the words of a text or a pair, as the tokenizer splits it before word pieces.

    `rows` are its features, see `data_prep.tasks.encoding.make_features`. Words that were cut off are left out.
    """
    num_tokens = rows["input_mask"].sum(axis=1)
    num_first = num_tokens - rows["segment_ids"].sum(axis=1)
    step = min(doc_stride or 0, int(num_first[0]) - 2)
    words = []
    for field, text in (("text", example.text_a), ("text_pair", example.text_b or "")):
        spans, word_of_token = _split(tokenizer, text)
        places: list[dict[int, list[int]]] = [{} for _ in spans]
        for row, (num, first) in enumerate(zip(num_tokens.tolist(), num_first.tolist(), strict=True)):
            # Before the tokens of each text is [CLS] or [SEP], and after them [SEP]. Windows cover the first text.
            start, positions = (row * step, range(1, first - 1)) if field == "text" else (0, range(first, num - 1))
            for position, word in zip(positions, word_of_token[start:], strict=False):
                places[word].setdefault(row, []).append(position)
        words += [
            SeenWord(text[start:end], start, end, field, of_word)
            for (start, end), of_word in zip(spans, places, strict=True)
            if of_word
        ]
    return words


def _split(tokenizer: FullTokenizer, text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Returns the start and the end of each word, and the number of each token's word."""
    spans, word_of_token = [], []
    for token, start, end in tokenizer.tokenize_with_offsets(text):
        if token.startswith("##"):
            spans[-1] = (spans[-1][0], end)
        else:
            spans.append((start, end))
        word_of_token.append(len(spans) - 1)
    return spans, word_of_token


def without_word(questions: Sequence[Question], word: SeenWord, mask_id: int) -> Iterator[Question]:
    """Yields the sequences that have a word, with [MASK] for each of its tokens."""
    for row, positions in word.places.items():
        input_ids = np.array(questions[row].input_ids)
        input_ids[positions] = mask_id
        yield Question(input_ids, questions[row].segment_ids)


def weights_of_words(
    words: Sequence[SeenWord], scores: Sequence[float], scores_without: Iterator[float]
) -> list[WordWeight]:
    """Returns the weight of each word for a score that is the mean of the rows.

    Args:
        words: of `seen_words`.
        scores: of the rows.
        scores_without: of the sequences of `without_word`, for one word after the other.
    """
    weighed = []
    for word in words:
        change = sum(scores[row] - next(scores_without) for row in word.places)
        weighed.append(WordWeight(word.word, word.start, word.end, change / len(scores), word.field))
    return weighed


def strongest(words: Sequence[WordWeight] | None, form: str) -> list[str]:
    """Returns a line for each of the words that move the answer most, with weights in a form such as "+.3f"."""
    chosen = sorted(words or (), key=lambda word: -abs(word.weight))[:_MOST_WORDS]
    return [f"  {word.weight:{form}}  {word.word}" for word in sorted(chosen, key=lambda word: -word.weight)]
