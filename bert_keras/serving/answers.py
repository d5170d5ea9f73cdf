"""The answers of the task routes: in this project's form, and in those of OpenAI and text-embeddings-inference."""

import base64
from collections.abc import Iterable, Iterator
from typing import Any

import orjson

from bert_keras.model_folder.tasks import TASKS
from bert_keras.prediction.arguments import shown
from bert_keras.serving.batching import Ticket
from bert_keras.serving.explanations import encoder_of
from bert_keras.serving.requests import RefusedError, body_of, split_body
from bert_keras.serving.served_models import ServedModel

# Fields of OpenAI's form of a request for embeddings.
_OF_OPENAI = ("input", "encoding_format", "user")
# Maximum size of the answers to a request: a short request can have large ones.
_MOST_ANSWER_BYTES = 16 << 20
# Fields of a request for reranking in the form of text-embeddings-inference that only choose the form of the answer.
OF_TEI = ("return_text", "truncate")


def task_answer(model: ServedModel, body: dict[str, Any], ticket: Ticket, max_items: int) -> Any:
    """Returns the answers of a model to the items of a request's JSON.

    Raises:
        ValueError, RefusedError: the request is not valid.
    """
    if model.task == "vectors" and "input" in body:
        return _openai_answer(model, body, ticket, max_items)
    if model.task == "rerank" and "items" not in body:
        return _tei_answer(model, body, max_items, ticket)
    items, options = split_body(body, max_items, model.options)
    return {"model": model.name, "answers": _written(model.answers(items, options), ticket)}


def _written(answers: Iterable[dict[str, Any]], ticket: Ticket) -> list[orjson.Fragment]:
    """Returns answers as JSON, each written as soon as it is made, until the request is cancelled."""
    parts, num_bytes = [], 0
    for answer in answers:
        ticket.check()
        parts.append(orjson.Fragment(content := body_of(answer)))
        num_bytes += len(content)
        if num_bytes > _MOST_ANSWER_BYTES:
            raise ValueError(
                f"the answers are larger than {_MOST_ANSWER_BYTES:,} bytes; send fewer texts, or choose a smaller top_k"
            )
    return parts


def _openai_answer(model: ServedModel, body: dict[str, Any], ticket: Ticket, max_items: int) -> dict[str, Any]:
    """Returns the vectors of texts in OpenAI's form."""
    fields = {name: value for name, value in body.items() if name not in _OF_OPENAI}
    format_ = body.get("encoding_format", "float")
    if format_ not in ("float", "base64"):
        raise RefusedError(422, f'"encoding_format" is {shown(format_)}, but must be "float" or "base64"')
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    items, options = split_body({**fields, "items": texts}, max_items, model.options)

    def entries() -> Iterator[dict[str, Any]]:
        for index, answer in enumerate(model.answers(items, options)):
            vector = answer.pop("vector")
            if format_ == "base64":
                vector = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            del answer["text"]
            yield {"object": "embedding", "index": index, "embedding": vector, **answer}

    data = _written(entries(), ticket)
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), ticket.num_tokens)
    return {"object": "list", "model": model.name, "data": data, "usage": usage}


def _tei_answer(model: ServedModel, body: dict[str, Any], max_items: int, ticket: Ticket) -> list[dict[str, Any]]:
    """Returns the texts sorted by their scores in the form of text-embeddings-inference."""
    for name in OF_TEI:
        if not isinstance(body.get(name, False), bool):
            raise RefusedError(422, f'"{name}" is {shown(body[name])}, but must be true or false')
    fields = {name: value for name, value in body.items() if name not in OF_TEI}
    [answer] = model.answers(*split_body(fields, max_items, model.options))
    ticket.check()
    if answer["is_cut"] and not body.get("truncate", True):
        raise RefusedError(
            422,
            f"a text is longer than the {model.predictor.max_seq_length} tokens that the model takes with its query; "
            'make it shorter, or leave out "truncate"',
        )
    names = ("index", "score", *(["text"] if body.get("return_text") else []))
    return [{name: getattr(text, name) for name in names} for text in answer["texts"]]


def described(model: ServedModel, version: int | None) -> dict[str, Any]:
    """Returns the facts about a model that a client needs, for GET /models."""
    encoder = encoder_of(model)
    return {
        "name": model.name,
        "task": model.task,
        "version": version,
        "route": f"/v1/{TASKS[model.task].route}",
        "fields": model.fields,
        "may_lack": sorted(model.may_lack),
        "options": model.options,
        "labels": model.predictor.labels or None,
        "examples": model.examples,
        "max_seq_length": model.predictor.max_seq_length,
        "num_layers": encoder and encoder.config.num_hidden_layers,
        "num_heads": encoder and encoder.config.num_attention_heads,
    }
