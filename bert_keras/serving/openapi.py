"""The description of a server in the form of OpenAPI 3.1, made from its models and the types of their answers."""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bert_keras.prediction.attention import HEAD_COLUMNS
from bert_keras.serving.answers import task_forms
from bert_keras.serving.forms import Form, any_of, array, explained_form, or_null
from bert_keras.serving.served_models import ServedModel
from bert_keras.tasks import ability_of, answer_of
from bert_keras.tasks.ability import LISTS


def _open_object(**properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with all of these fields; it may have others."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _object(**properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with all of these fields and no others."""
    return _open_object(**properties) | {"additionalProperties": False}


_TEXT, _WHOLE, _NUMBER = ({"type": name} for name in ("string", "integer", "number"))
_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_ADDED = {"num_tokens": _WHOLE, "is_cut": {"type": "boolean"}}
_CHOICES = ["It is.", "It was."]
_TOKENS = array({"$ref": "#/components/schemas/Token"})
_ERRORS = {
    "400": "The body is not JSON.",
    "401": "The token is missing or wrong.",
    "403": "The header Host names another server.",
    "404": "The model does not exist.",
    "408": "The body did not arrive before the deadline.",
    "413": "The body is too large.",
    "422": "A text, a field or an option is not valid.",
    "429": "The server is busy.",
    "500": "The model failed.",
    "503": "The models are warming up.",
    "504": "The answer was not ready before the deadline.",
}


# Three values: schema of a route's bodies, an example of a body, schema of its replies.
Schemas = tuple[Any, dict[str, Any], Any]


def description(
    routes: Iterable[tuple[str, Callable[..., Schemas], Sequence[ServedModel]]],
    url: str,
    max_items: int,
    has_token: bool,
) -> dict[str, Any]:
    """Returns the OpenAPI document of a server's routes to models.

    Args:
        routes: the path, the schemas and the models of each route.
        url: address of the server, for the examples.
        max_items: maximum number of items in a request.
        has_token: whether requests need a token.
    """
    schemas: dict[str, Any] = {"Error": _open_object(error=_TEXT)}
    components: dict[str, Any] = {"schemas": schemas}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "bert-keras", "version": "1"},
        "servers": [{"url": url}],
        "paths": {
            path: {"post": _post(path, url, *make(path, models, max_items, schemas))} for path, make, models in routes
        },
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def task_schemas(path: str, models: Sequence[ServedModel], max_items: int, schemas: dict[str, Any]) -> Schemas:
    """Returns the schemas of a route of a task; adds those of its answers to `schemas`."""
    bodies, replies, example = [], [], {}
    for model in models:
        # The object of the Python API, to which the server adds two fields.
        answer = {"allOf": [_schema(answer_of(model.task), schemas), _open_object(**_ADDED)]}
        for task_form in task_forms(model, path):
            form = task_form.make(model, max_items)
            # Without "model", a request does not say which one of several answers.
            bodies.append(form.schema | {"required": [*form.required, *(["model"] if len(models) > 1 else [])]})
            replies.append(_OTHER_REPLIES.get(task_form.name) or _object(model=_TEXT, answers=array(answer)))
            example = example or {"model": model.name, **_example_of(form, model)}
    return any_of(bodies), example, any_of(replies)


def tokens_schemas(
    path: str, models: Sequence[ServedModel], max_items: int, schemas: dict[str, Any], **fields: Any
) -> Schemas:
    """Returns the schemas of the route for tokens; `fields` are further ones of its bodies."""
    place = or_null(_WHOLE)
    schemas["Token"] = _object(token=_TEXT, start=place, end=place, text=or_null(_TEXT))
    example = {"model": models[0].name, "task": models[0].task, "item": _example(models[0])}
    reply = _object(model=_TEXT, sequences=array(_object(tokens=_TOKENS)))
    return explained_form(models, **fields).schema, example, reply


def attention_schemas(path: str, models: Sequence[ServedModel], max_items: int, schemas: dict[str, Any]) -> Schemas:
    """Returns the schemas of the route for attention."""
    body, example, _ = tokens_schemas(path, models, max_items, schemas, layer={"type": "integer", "minimum": 0})
    values: Any = _NUMBER
    for _ in range(3):  # by head, token and token
        values = array(values)
    means = _object(**dict.fromkeys(HEAD_COLUMNS, _NUMBER))
    reply = _object(model=_TEXT, tokens=_TOKENS, attention=values, looks_at=array(means))
    return body, example | {"layer": 0}, reply


def _post(path: str, url: str, body: Any, example: dict[str, Any], reply: Any) -> dict[str, Any]:
    """Returns a POST operation, given the schemas of its body and its reply, and an example of a body."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    good = {"description": "The answers.", "content": {"application/json": {"schema": reply}}}
    shell_body = json.dumps(example).replace("'", "'\\''")
    return {
        "operationId": path.removeprefix("/v1").strip("/").replace("-", "_")
        + ("" if path.startswith("/v1/") else "_tei"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "example": example}}},
        "responses": {"200": good}
        | {status: {"description": meaning, "content": error} for status, meaning in _ERRORS.items()},
        "x-codeSamples": [
            {"lang": "Shell", "source": f"curl -s {url}{path} -d '{shell_body}'"},
            {
                "lang": "Python",
                "source": f"import requests\n\nbody = {example!r}\n"
                f'print(requests.post("{url}{path}", json=body, timeout=60).json())',
            },
        ],
    }


def _example_of(form: Form, model: ServedModel) -> dict[str, Any]:
    """Returns the fields of an example of a form."""
    example = _example(model)
    texts = list(example.values())
    examples = {"items": [example], "inputs": texts[0] if len(texts) == 1 else texts}
    return {form.key: examples[form.key]} if form.key in examples else example


def _example(model: ServedModel) -> dict[str, Any]:
    text = "Paris is [MASK]." if ability_of(model.task).has_masks else "Paris is big."
    return {name: _CHOICES if name in LISTS else text for name in model.fields}


_VECTOR = _open_object(object={"const": "embedding"}, index=_WHOLE, embedding=any_of([array(_NUMBER), _TEXT]), **_ADDED)
_USAGE = {"type": "object", "properties": {"prompt_tokens": _WHOLE, "total_tokens": _WHOLE}}
_LABELS = array(_object(score=_NUMBER, label=_TEXT))
# Kind of a reply in the form of another server -> its schema.
_OTHER_REPLIES: dict[str, Mapping[str, Any]] = {
    "openai": _open_object(object={"const": "list"}, data=array(_VECTOR), model=_TEXT, usage=_USAGE),
    "ranks": array(_open_object(index=_WHOLE, score=_NUMBER, text=_TEXT) | {"required": ["index", "score"]}),
    "vectors": array(array(_NUMBER)),
    "labels": any_of([_LABELS, array(_LABELS)]),
}


def _schema(kind: Any, schemas: dict[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a type; those of dataclasses are added to `schemas`."""
    if kind in _PLAIN:
        return {"type": _PLAIN[kind]}
    if kind is types.NoneType:
        return {"type": "null"}
    if dataclasses.is_dataclass(kind):
        name = typing.cast(type, kind).__name__
        if name not in schemas:
            schemas[name] = {}  # the place, in case the type has itself
            hints = typing.get_type_hints(kind)
            schemas[name] = _open_object(**{field: _schema(hint, schemas) for field, hint in hints.items()})
            may_lack = {field.name for field in dataclasses.fields(kind) if field.default is not dataclasses.MISSING}
            schemas[name]["required"] = [field for field in hints if field not in may_lack]
        return {"$ref": f"#/components/schemas/{name}"}
    arguments = typing.get_args(kind)
    if isinstance(kind, types.UnionType):
        return any_of([_schema(argument, schemas) for argument in arguments])
    if typing.get_origin(kind) is list:
        return array(_schema(arguments[0], schemas))
    return {"type": "object", "additionalProperties": _schema(arguments[1], schemas)}  # dict
