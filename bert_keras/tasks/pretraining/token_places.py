"""The tokens that a model reads for a text, each with its place in the text."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.words import split_words
from bert_keras.prediction.network import Question
from bert_keras.prediction.predictor import Predictor
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.pretraining.predictor import MASK, UNKNOWN, PretrainedPredictor

# A token and its start and end in a text.
_Token = tuple[str, int, int]


def read_tokens(
    predictor: Predictor, task: str, texts: Mapping[str, Any], source: str = "text 1"
) -> list[tuple[list[dict[str, Any]], Question]]:
    """Returns each sequence of the texts of a question as its tokens and its Question.

    A token is a dict of "token", its "start" and "end" in code points, and "text", the name of its text. These three
    are None for [CLS] and [SEP].

    Args:
        texts: the texts by their names, such as "text" and "text_pair".
        source: name of the texts for error messages.

    Raises:
        ValueError: a text is not valid.
    """
    values = tuple(texts.values())
    encoded, questions = predictor.sequences(values[0] if len(values) == 1 else values, source)
    if any(len(question.positions) for question in questions):
        questions = _without_masks(questions)
    tokens = {field: _tokens_of(predictor, task, text) for field, text in texts.items() if field not in LISTS}
    windowed = "context" if task == "question_answering" else next(iter(texts))
    starts = _windows(predictor, task, texts[windowed], encoded, questions)
    found = []
    for number, (question, start) in enumerate(zip(questions, starts, strict=True)):
        for field in {*LISTS} & {*texts}:
            tokens[field] = _tokens_of(predictor, task, texts[field][number])
        parts = [(field, tokens[field][start if field == windowed else 0 :]) for field in texts]
        found.append((_placed(question, parts), question))
    return found


def _without_masks(questions: Iterable[Question]) -> list[Question]:
    """Returns the sequences of a pre-trained model once each, and those of a sentence score without their masks."""
    different = {}
    for question in questions:
        ids = list(question.input_ids)
        for position, id_ in zip(question.positions, question.target_ids, strict=True):
            ids[position] = id_ or ids[position]
        different[tuple(ids)] = Question(ids, question.segment_ids)
    return list(different.values())


def _tokens_of(predictor: Predictor, task: str, text: str) -> list[_Token]:
    """Returns all tokens of a text, cut as the task cuts it."""
    tokenizer = predictor.tokenizer
    if task == "token_classification":
        return [token for word in _tokens_of_words(predictor, text) for token in word]
    if prefix := (predictor.settings or {}).get("prefix"):
        # The tokens of the prefix have an empty place at the start of the text; so does the JavaScript of the page.
        places = tokenizer.tokenize_with_offsets(prefix + text)
        before = len(prefix)
        return [(token, max(0, start - before), max(0, end - before)) for token, start, end in places]
    parts = text.split(MASK) if isinstance(predictor, PretrainedPredictor) else [text]
    tokens, place = [], 0
    for number, part in enumerate(parts):
        if number:
            tokens.append((MASK, place, place + len(MASK)))
            place += len(MASK)
        tokens += [(token, place + start, place + end) for token, start, end in tokenizer.tokenize_with_offsets(part)]
        place += len(part)
    return tokens


def _tokens_of_words(predictor: Predictor, text: str) -> list[list[_Token]]:
    """Returns the tokens of each word of a text for tagging. A word longer than a window loses its end."""
    tokenizer, room = predictor.tokenizer, predictor.max_seq_length - 2
    words = []
    for start, end in split_words(text):
        tokens = tokenizer.tokenize_with_offsets(text[start:end]) or [(UNKNOWN, 0, end - start)]
        words.append([(token, start + first, start + last) for token, first, last in tokens[:room]])
    return words


def _windows(predictor: Predictor, task: str, text: str, encoded: Any, questions: Sequence[Question]) -> list[int]:
    """Returns the number of tokens before each window, for the field that is read through windows."""
    if task == "token_classification":
        num_before = [0, *itertools.accumulate(map(len, _tokens_of_words(predictor, text)))]
        columns = [int(np.argmax(row >= 0)) for row in encoded[1]["word_index"]]
        words = [int(row[column]) for row, column in zip(encoded[1]["word_index"], columns, strict=True)]
        return [num_before[word] - (column - 1) for word, column in zip(words, columns, strict=True)]
    stride = (predictor.settings or {}).get("doc_stride") or 0
    segment = int(task == "question_answering")
    room = list(questions[0].segment_ids).count(segment) - (1 if segment else 2)
    return [number * min(stride, room) for number in range(len(questions))]


def _placed(question: Question, parts: Iterable[tuple[str, Sequence[_Token]]]) -> list[dict[str, Any]]:
    """Returns the tokens of a sequence, given the tokens of each of its fields from the first that it has."""
    num_first = list(question.segment_ids).count(0)
    sizes = (num_first - 2, len(question.segment_ids) - num_first - 1)
    placed = [_described("[CLS]")]
    for (field, tokens), size in zip(parts, sizes, strict=False):
        if size >= 0:  # an empty second text has no segment
            placed += [_described(token, start, end, field) for token, start, end in tokens[:size]]
            placed.append(_described("[SEP]"))
    return placed


def _described(token: str, start: int | None = None, end: int | None = None, text: str | None = None) -> dict[str, Any]:
    return {"token": token, "start": start, "end": end, "text": text}
