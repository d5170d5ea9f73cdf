"""The answers of the task routes: in this project's form, and in OpenAI's form of embeddings."""

import base64
from collections.abc import Iterator
from typing import Any

from bert_keras.model_folder.tasks import TASKS
from bert_keras.prediction.arguments import shown
from bert_keras.serving.batching import Ticket
from bert_keras.serving.explanations import encoder_of
from bert_keras.serving.requests import RefusedError, split_body
from bert_keras.serving.served_models import ServedModel, body_of, body_with_answers

# Fields of OpenAI's form of a request for embeddings.
_OF_OPENAI = ("input", "encoding_format", "user")


def task_content(model: ServedModel, body: dict[str, Any], ticket: Ticket, max_items: int) -> bytes:
    """Returns the response to a request for answers, given its JSON.

    Raises:
        ValueError, RefusedError: the request is not valid.
    """
    if model.task == "vectors" and "input" in body:
        return _openai_content(model, body, ticket, max_items)
    items, options = split_body(body, max_items)
    if "items" not in body:
        options = {name: value for name, value in items[0].items() if name in model.options}
        items = [{name: value for name, value in items[0].items() if name not in options}]
    answers = _while_awaited(model.answers(items, options), ticket)
    return body_with_answers({"model": model.name}, "answers", answers)


def _while_awaited(answers, ticket) -> Iterator[dict[str, Any]]:
    """Yields answers until the request is cancelled."""
    for answer in answers:
        ticket.check()
        yield answer


def _openai_content(model, body, ticket, max_items):
    """Returns the vectors of texts in OpenAI's form."""
    fields = {name: value for name, value in body.items() if name not in _OF_OPENAI}
    format_ = body.get("encoding_format", "float")
    if format_ not in ("float", "base64"):
        raise RefusedError(422, f'"encoding_format" is {shown(format_)}, but must be "float" or "base64"')
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    items, options = split_body({**fields, "items": texts}, max_items)

    def entries():
        for index, answer in enumerate(_while_awaited(model.answers(items, options), ticket)):
            vector = answer.pop("vector")
            if format_ == "base64":
                vector = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            del answer["text"]
            yield {"object": "embedding", "index": index, "embedding": vector, **answer}

    body = body_with_answers({"object": "list", "model": model.name}, "data", entries())
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), ticket.num_tokens)
    return body[:-1] + b"," + body_of({"usage": usage})[1:]


def described(model: ServedModel, version: int | None) -> dict[str, Any]:
    """Returns the facts about a model that a client needs, for GET /models."""
    encoder = encoder_of(model)
    return {
        "name": model.name,
        "task": model.task,
        "version": version,
        "route": f"/v1/{TASKS[model.task].route}",
        "fields": model.fields,
        "options": model.options,
        "labels": getattr(model.predictor, "labels", None) or None,
        "max_seq_length": model.predictor.max_seq_length,
        "num_layers": encoder and encoder.config.num_hidden_layers,
        "num_heads": encoder and encoder.config.num_attention_heads,
    }
