"""The answers of the task routes: in this project's form, and in those of OpenAI and text-embeddings-inference."""

import base64
from collections.abc import Callable, Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import orjson

from bert_keras.mistakes import Mistake
from bert_keras.serving import forms
from bert_keras.serving.batching import Ticket
from bert_keras.serving.explanations import encoder_of
from bert_keras.serving.forms import Form
from bert_keras.serving.requests import RefusedError, body_of
from bert_keras.serving.served_models import ServedModel
from bert_keras.serving.versions import ServedFolder
from bert_keras.tasks import abilities, ability_of
from bert_keras.tasks.ability import LISTS

# Maximum size of the answers to a request: a short request can have large ones.
_MOST_ANSWER_BYTES = 16 << 20
# Fields of a request that are not options of a predictor.
_Fields = dict[str, Any]


class TaskForm(NamedTuple):
    """A form of a task's requests, its name, which also names the reply, and the function that answers it."""

    name: str
    make: Callable[[ServedModel, int], Form]
    answer: Callable[[ServedModel, _Fields, Ticket], Any]


def task_forms(model: ServedModel, path: str) -> list[TaskForm]:
    """Returns the forms that a path has for a model; at the path of the task, also those of other servers."""
    ability = ability_of(model.task)
    names = [ability.other_paths[path]] if path in ability.other_paths else ability.forms
    return [_FORMS[name] for name in names]


def other_paths() -> dict[str, list[str]]:
    """Returns the tasks that answer at each path of text-embeddings-inference."""
    found: dict[str, list[str]] = {}
    for name, ability in abilities().items():
        for path in ability.other_paths:
            found.setdefault(path, []).append(name)
    return found


def task_answer(model: ServedModel, path: str, body: _Fields, ticket: Ticket, max_items: int) -> Any:
    """Returns the answers of a model to a request's JSON.

    Raises:
        ValueError, RefusedError: the request is not valid.
    """
    found = [(task_form.make(model, max_items), task_form.answer) for task_form in task_forms(model, path)]
    form, fields = forms.read_form([form for form, _ in found], body)
    answer = next(answer for candidate, answer in found if candidate is form)
    fields.pop("model", None)
    return answer(model, fields, ticket)


def _written(answers: Iterable[dict[str, Any]], ticket: Ticket) -> list[orjson.Fragment]:
    """Returns answers as JSON, each written when it is ready, until the request is cancelled."""
    parts, num_bytes = [], 0
    for answer in answers:
        ticket.check()
        parts.append(orjson.Fragment(content := body_of(answer)))
        num_bytes += len(content)
        if num_bytes > _MOST_ANSWER_BYTES:
            raise Mistake(
                "the answers are larger than {:,} bytes; send fewer texts, or choose a smaller top_k",
                _MOST_ANSWER_BYTES,
            )
    return parts


def _answers_to_items(model: ServedModel, fields: _Fields, ticket: Ticket) -> dict[str, Any]:
    """Returns the answers to several items, or to the one item that the body is."""
    options = {name: fields.pop(name) for name in model.options if name in fields}
    items = fields.get("items", [fields])
    return {"model": model.name, "answers": _written(model.answers(items, options), ticket)}


def _openai_answer(model: ServedModel, fields: _Fields, ticket: Ticket) -> dict[str, Any]:
    """Returns the vectors of texts in OpenAI's form."""
    options = {name: fields[name] for name in model.options if name in fields}

    def entries() -> Iterator[dict[str, Any]]:
        for index, answer in enumerate(model.answers(_several(fields["input"]), options)):
            vector = _checked_vector(answer.pop("vector"), fields)
            if fields.get("encoding_format") == "base64":
                vector = base64.b64encode(vector.astype("<f4").tobytes()).decode()
            del answer["text"]
            yield {"object": "embedding", "index": index, "embedding": vector, **answer}

    data = _written(entries(), ticket)
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), ticket.num_tokens)
    return {"object": "list", "model": model.name, "data": data, "usage": usage}


def _embed_answer(model: ServedModel, fields: _Fields, ticket: Ticket) -> list[orjson.Fragment]:
    """Returns the vectors of texts in the form of text-embeddings-inference, which normalizes them by default."""
    is_normalized = fields.get("normalize", True)
    if not is_normalized and (model.predictor.settings or {}).get("normalize"):
        raise RefusedError(422, f'"normalize" is false, but the vectors of {model.name} always have the length 1')

    def vectors() -> Iterator[Any]:
        for answer in model.answers(_several(fields["inputs"]), {}):
            _check_cut(model, answer, fields)
            vector = _checked_vector(answer["vector"], fields)
            yield vector / max(float(np.linalg.norm(vector)), 1e-12) if is_normalized else vector

    return _written(vectors(), ticket)


def _checked_vector(vector: np.ndarray, fields: _Fields) -> np.ndarray:
    """Returns a vector, whose size must be that which the client expects."""
    if fields.get("dimensions", len(vector)) != len(vector):
        raise RefusedError(422, f'"dimensions" is {fields["dimensions"]}, but the vectors have {len(vector)} numbers')
    return vector


def _rerank_answer(model: ServedModel, fields: _Fields, ticket: Ticket) -> list[dict[str, Any]]:
    """Returns the texts sorted by their scores in the form of text-embeddings-inference."""
    options = {name: fields[name] for name in model.options if name in fields}
    [answer] = model.answers([{name: fields[name] for name in model.fields}], options)
    ticket.check()
    _check_cut(model, answer, fields)
    names = ("index", "score", *(["text"] if fields.get("return_text") else []))
    return [{name: getattr(text, name) for name in names} for text in answer["texts"]]


def _predict_answer(model: ServedModel, fields: _Fields, ticket: Ticket) -> Any:
    """Returns the labels of texts with their probabilities, the most probable first, as text-embeddings-inference."""
    inputs = fields["inputs"]
    has_several = isinstance(inputs, list) and isinstance(inputs[0], list)
    items = [dict(zip(model.fields, _several(texts), strict=False)) for texts in (inputs if has_several else [inputs])]

    def predictions() -> Iterator[Any]:
        for answer in model.answers(items, {}):
            _check_cut(model, answer, fields)
            labels = sorted(answer["probabilities"].items(), key=lambda pair: -pair[1])
            yield [{"score": probability, "label": label} for label, probability in labels]

    found = _written(predictions(), ticket)
    return found if has_several else found[0]


def _several(texts: str | list[str]) -> list[str]:
    return [texts] if isinstance(texts, str) else texts


def _check_cut(model: ServedModel, answer: dict[str, Any], fields: _Fields) -> None:
    """Refuses a text that was cut although the request has "truncate": false."""
    if answer["is_cut"] and not fields.get("truncate", True):
        with_query = f" with its {model.fields[0]}" if ability_of(model.task).form in LISTS else ""
        raise RefusedError(
            422,
            f"a text is longer than the {model.predictor.max_seq_length} tokens that the model takes{with_query}; "
            'make it shorter, or leave out "truncate"',
        )


_ALL_FORMS = (
    TaskForm("items", forms.items_form, _answers_to_items),
    TaskForm("one", forms.one_form, _answers_to_items),
    TaskForm("openai", forms.openai_form, _openai_answer),
    TaskForm("ranks", forms.rerank_form, _rerank_answer),
    TaskForm("vectors", forms.embed_form, _embed_answer),
    TaskForm("labels", forms.predict_form, _predict_answer),
)
_FORMS = {form.name: form for form in _ALL_FORMS}


def described(model: ServedModel, folder: ServedFolder) -> dict[str, Any]:
    """Returns the facts about a model that a client needs, for GET /models."""
    encoder = encoder_of(model)
    return {
        "name": model.name,
        "task": model.task,
        "version": folder.number,
        "failed_versions": {str(number): reason for number, reason in folder.failed.items()},
        "route": f"/v1/{ability_of(model.task).route}",
        "fields": model.fields,
        "may_lack": sorted(model.may_lack),
        "options": model.options,
        "labels": model.predictor.labels or None,
        "examples": model.examples,
        "page": ability_of(model.task).page,
        "max_seq_length": model.predictor.max_seq_length,
        "precision": model.predictor.precision,
        "num_layers": encoder and encoder.config.num_hidden_layers,
        "num_heads": encoder and encoder.config.num_attention_heads,
    }
