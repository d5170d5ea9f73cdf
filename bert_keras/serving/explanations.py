"""How a model reads an item: the tokens with their places in the texts, and the attention of a layer."""

import contextlib
import itertools
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bert_keras.data_prep.text.words import split_words
from bert_keras.model_folder.tasks import LISTS
from bert_keras.modeling import BertModel
from bert_keras.prediction.arguments import shown
from bert_keras.prediction.attention import HEAD_COLUMNS, looks_at
from bert_keras.prediction.network import Question
from bert_keras.prediction.tasks.pretrained import MASK, UNKNOWN, PretrainedPredictor
from bert_keras.serving.batching import ModelError, Ticket
from bert_keras.serving.served_models import ServedModel

# Maximum number of values in an answer: 16 heads and 362 tokens.
_MOST_VALUES = 1 << 21
_DECIMALS = 4
# The layers of a model are all in memory while the attention is computed.
_one_at_a_time = threading.Lock()
_SECONDS_BETWEEN_CHECKS = 0.1

# A token and its start and end in a text.
_Token = tuple[str, int, int]


def encoder_of(model: ServedModel) -> BertModel | None:
    """Returns the encoder of a model; None for an export, which has only its outputs."""
    network = model.predictor.model
    encoder = getattr(network, "bert", network)
    return encoder if isinstance(encoder, BertModel) else None


def tokens_answer(model: ServedModel, body: dict[str, Any], ticket: Ticket, max_items: int) -> dict[str, Any]:
    """Returns the sequences that a model reads for an item, each as {"tokens": [...]}.

    A token has its "start" and "end" in the text of the item's field "text". They are code points; [CLS] and [SEP] have
    null. The sequences of a text with choices are those of its choices.

    Raises:
        ValueError: the item is not valid.
    """
    [item] = _fields_of(body, "item")
    sequences = [{"tokens": tokens} for tokens, _ in _read(model, item)]
    return {"model": model.name, "sequences": sequences}


def attention_answer(model: ServedModel, body: dict[str, Any], ticket: Ticket, max_items: int) -> dict[str, Any]:
    """Returns the attention in an item: tokens as above of the first sequence, and [N, T, T] of a layer.

    "looks_at" has the means of each head over the tokens; see `prediction.attention`.

    Raises:
        ValueError: the model is an export, the item or the layer is not valid, or the sequence is too long.
    """
    encoder = encoder_of(model)
    if encoder is None:
        raise ValueError(f"{model.name} is an export, which gives no attention; serve the run or the checkpoint")
    item, layer = _fields_of(body, "item", "layer")
    num_layers, num_heads = encoder.config.num_hidden_layers, encoder.config.num_attention_heads
    if type(layer) is not int or not 0 <= layer < num_layers:
        raise ValueError(f'"layer" is {shown(layer)}, but must be a whole number from 0 to {num_layers - 1}')
    tokens, question = _read(model, item)[0]
    num_values = num_heads * len(tokens) ** 2
    if num_values > _MOST_VALUES:
        raise ValueError(
            f"the attention of {len(tokens)} tokens in {num_heads} heads has {num_values:,} values, but at most "
            f"{_MOST_VALUES:,} are allowed; give a shorter text"
        )
    ids, segment_ids = (np.array([values], np.int32) for values in (question.input_ids, question.segment_ids))
    with _turn(ticket):
        values = keras.ops.convert_to_numpy(encoder.attention_probabilities(ids, segment_ids=segment_ids)[layer])
    if not np.isfinite(values).all():
        raise ModelError("its attention is not finite numbers, so its weights are broken")
    rounded = np.round(values[0].astype(np.float64), _DECIMALS)  # [N, T, T]
    [means] = looks_at(values, [token["token"] for token in tokens]).round(_DECIMALS).tolist()
    heads = [dict(zip(HEAD_COLUMNS, row, strict=True)) for row in means]
    return {"model": model.name, "tokens": tokens, "attention": rounded, "looks_at": heads}


@contextlib.contextmanager
def _turn(ticket: Ticket) -> Iterator[None]:
    """Waits for the turn of a request, unless nobody waits for its answer any more."""
    while not _one_at_a_time.acquire(timeout=_SECONDS_BETWEEN_CHECKS):
        ticket.check()
    try:
        ticket.check()
        yield
    finally:
        _one_at_a_time.release()


def _fields_of(body: Mapping[str, Any], *names: str) -> list[Any]:
    """Returns the values of the fields that a request must have; "model" and "task" are optional."""
    needed = " and ".join(f'"{name}"' for name in names)
    if missing := [name for name in names if name not in body]:
        raise ValueError(f'"{missing[0]}" is missing; the request needs {needed}')
    if unknown := [name for name in body if name not in (*names, "model", "task")]:
        raise ValueError(f'"{unknown[0]}" is not a field of this request; it needs {needed}')
    return [body[name] for name in names]


def _read(model: ServedModel, item: Any) -> list[tuple[list[dict[str, Any]], Question]]:
    """Returns each sequence of an item as its tokens and its Question."""
    encoded, questions = model.predictor.sequences(model.text_of(item, "text 1"))
    if any(len(question.positions) for question in questions):
        questions = _without_masks(questions)
    texts = model.fields_of(item)
    tokens = {field: _tokens_of(model, text) for field, text in texts.items() if field not in LISTS}
    windowed = "context" if model.task == "question_answering" else model.fields[0]
    starts = _windows(model, texts[windowed], encoded, questions)
    found = []
    for number, (question, start) in enumerate(zip(questions, starts, strict=True)):
        for field in {*LISTS} & {*texts}:
            tokens[field] = _tokens_of(model, texts[field][number])
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


def _tokens_of(model: ServedModel, text: str) -> list[_Token]:
    """Returns all tokens of a text, cut as the task cuts it."""
    tokenizer = model.predictor.tokenizer
    if model.task == "token_classification":
        return [token for word in _tokens_of_words(model, text) for token in word]
    if prefix := (model.predictor.settings or {}).get("prefix"):
        # The tokens of the prefix have an empty place at the start of the text.
        places = tokenizer.tokenize_with_offsets(prefix + text)
        before = len(prefix)
        return [(token, max(0, start - before), max(0, end - before)) for token, start, end in places]
    parts = text.split(MASK) if isinstance(model.predictor, PretrainedPredictor) else [text]
    tokens, place = [], 0
    for number, part in enumerate(parts):
        if number:
            tokens.append((MASK, place, place + len(MASK)))
            place += len(MASK)
        tokens += [(token, place + start, place + end) for token, start, end in tokenizer.tokenize_with_offsets(part)]
        place += len(part)
    return tokens


def _tokens_of_words(model: ServedModel, text: str) -> list[list[_Token]]:
    """Returns the tokens of each word of a text for tagging. A word longer than a window loses its end."""
    tokenizer, room = model.predictor.tokenizer, model.predictor.max_seq_length - 2
    words = []
    for start, end in split_words(text):
        tokens = tokenizer.tokenize_with_offsets(text[start:end]) or [(UNKNOWN, 0, end - start)]
        words.append([(token, start + first, start + last) for token, first, last in tokens[:room]])
    return words


def _windows(model: ServedModel, text: str, encoded: Any, questions: Sequence[Question]) -> list[int]:
    """Returns the number of tokens before each window, for the field that is read through windows."""
    if model.task == "token_classification":
        num_before = [0, *itertools.accumulate(map(len, _tokens_of_words(model, text)))]
        columns = [int(np.argmax(row >= 0)) for row in encoded[1]["word_index"]]
        words = [int(row[column]) for row, column in zip(encoded[1]["word_index"], columns, strict=True)]
        return [num_before[word] - (column - 1) for word, column in zip(words, columns, strict=True)]
    stride = (model.predictor.settings or {}).get("doc_stride") or 0
    segment = int(model.task == "question_answering")
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
