"""The description of a server in the form of OpenAPI 3.1, made from its models and the types of their answers."""

import dataclasses
import json
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from bert_keras import prediction
from bert_keras.model_folder.tasks import LISTS, TASKS
from bert_keras.prediction.arguments import PLL_CHOICES
from bert_keras.prediction.attention import HEAD_COLUMNS
from bert_keras.serving.answers import OF_TEI
from bert_keras.serving.served_models import ServedModel


def _array(items: Any, **bounds: int) -> dict[str, Any]:
    return {"type": "array", "items": items, **bounds}


def _open_object(**properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with all of these fields; it may have others."""
    return {"type": "object", "required": list(properties), "properties": properties}


def _object(**properties: Any) -> dict[str, Any]:
    """Returns the schema of an object with all of these fields and no others."""
    return _open_object(**properties) | {"additionalProperties": False}


_PLAIN = {str: "string", int: "integer", float: "number", bool: "boolean"}
_OPTIONS = {
    "top_k": {"type": "integer", "minimum": 1},
    "threshold": {"type": "number"},
    "prefix": {"type": "string"},
    "candidates": _array({"type": "string"}, minItems=1),
    "pll": {"enum": list(PLL_CHOICES)},
    "raw_scores": {"type": "boolean"},
    "coverage": {"type": "number", "minimum": 0.5, "maximum": 0.99},
    "why": {"enum": [True, False, "gradients"]},
}
_FIELDS = {"choices": _array({"type": "string"}, minItems=2), "texts": _array({"type": "string"}, minItems=1)}
_ADDED = {"num_tokens": {"type": "integer"}, "is_cut": {"type": "boolean"}}
_CHOICES = ["It is.", "It was."]
_TOKENS = _array({"$ref": "#/components/schemas/Token"})
# Task -> the class of its answers, for those whose predictor does not name one.
_ANSWERS = {
    "classification": prediction.Classification,
    "regression": prediction.Regression,
    "multi_label": prediction.MultiLabel,
}
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
    routes: Iterable[tuple[str, Callable[..., Schemas], Sequence[ServedModel]]], url: str, has_token: bool
) -> dict[str, Any]:
    """Returns the OpenAPI document of a server's routes to models.

    Args:
        routes: the name, the schemas and the models of each route.
        url: address of the server, for the examples.
        has_token: whether requests need a token.
    """
    schemas: dict[str, Any] = {"Error": _open_object(error={"type": "string"})}
    components: dict[str, Any] = {"schemas": schemas}
    document = {
        "openapi": "3.1.0",
        "info": {"title": "bert-keras", "version": "1"},
        "servers": [{"url": url}],
        "paths": {f"/v1/{name}": {"post": _post(name, url, *make(models, schemas))} for name, make, models in routes},
        "components": components,
    }
    if has_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        document["security"] = [{"token": []}]
    return document


def task_schemas(models: Sequence[ServedModel], schemas: dict[str, Any]) -> Schemas:
    """Returns the schemas of a route that answers items; adds those of its answers to `schemas`."""
    bodies, answers = [], []
    for model in models:
        bodies += _bodies(model, len(models) == 1)
        answers.append(_answer(model, schemas))
    example = {"model": models[0].name, "items": [_example(models[0])]}
    # `_answer` describes the objects of the Python API, to which the server adds two fields.
    answer = {"allOf": [_any_of(answers), _open_object(**_ADDED)]}
    replies = [_object(model={"type": "string"}, answers=_array(answer))]
    replies += [_OTHER_REPLIES[task]() for task in sorted({model.task for model in models} & {*_OTHER_REPLIES})]
    return _any_of(bodies), example, _any_of(replies)


def tokens_schemas(models: Sequence[ServedModel], schemas: dict[str, Any], **fields: Any) -> Schemas:
    """Returns the schemas of the route for tokens; `fields` are further ones of its bodies."""
    place, text = (_any_of([{"type": kind}, {"type": "null"}]) for kind in ("integer", "string"))
    schemas["Token"] = _object(token={"type": "string"}, start=place, end=place, text=text)
    body = _object(
        model={"enum": sorted({model.name for model in models})},
        task={"enum": sorted({model.task for model in models})},
        item=_any_of([schema for model in models for schema in _items(model)]),
        **fields,
    )
    example = {"model": models[0].name, "task": models[0].task, "item": _example(models[0])}
    sequences = _array(_object(tokens=_TOKENS))
    reply = _object(model={"type": "string"}, sequences=sequences)
    return body | {"required": ["item", *fields]}, example, reply


def attention_schemas(models: Sequence[ServedModel], schemas: dict[str, Any]) -> Schemas:
    """Returns the schemas of the route for attention."""
    body, example, _ = tokens_schemas(models, schemas, layer={"type": "integer", "minimum": 0})
    values: Any = {"type": "number"}
    for _ in range(3):  # by head, token and token
        values = _array(values)
    means = _object(**dict.fromkeys(HEAD_COLUMNS, {"type": "number"}))
    reply = _object(model={"type": "string"}, tokens=_TOKENS, attention=values, looks_at=_array(means))
    return body, example | {"layer": 0}, reply


def _post(route: str, url: str, body: Any, example: dict[str, Any], reply: Any) -> dict[str, Any]:
    """Returns a POST operation, given the schemas of its body and its reply, and an example of a body."""
    error = {"application/json": {"schema": {"$ref": "#/components/schemas/Error"}}}
    good = {"description": "The answers.", "content": {"application/json": {"schema": reply}}}
    shell_body = json.dumps(example).replace("'", "'\\''")
    return {
        "operationId": route.replace("-", "_"),
        "requestBody": {"required": True, "content": {"application/json": {"schema": body, "example": example}}},
        "responses": {"200": good}
        | {status: {"description": meaning, "content": error} for status, meaning in _ERRORS.items()},
        "x-codeSamples": [
            {"lang": "Shell", "source": f"curl -s {url}/v1/{route} -d '{shell_body}'"},
            {
                "lang": "Python",
                "source": f"import requests\n\nbody = {example!r}\n"
                f'print(requests.post("{url}/v1/{route}", json=body, timeout=60).json())',
            },
        ],
    }


def _items(model: ServedModel) -> list[dict[str, Any]]:
    """Returns the schemas of an item."""
    item = _object(**{name: _FIELDS.get(name, {"type": "string"}) for name in model.fields})
    item["required"] = [name for name in model.fields if name not in model.may_lack]
    return [item, {"type": "string"}] if len(item["required"]) == 1 else [item]


def _bodies(model: ServedModel, is_only: bool) -> list[dict[str, Any]]:
    """Returns the schemas of the bodies for a model: several items, one item, and for vectors OpenAI's form."""
    item, *_ = schemas = _items(model)
    fields = item["properties"]
    items = _array(_any_of(schemas), minItems=1)
    options = {name: _any_of([_OPTIONS[name], {"type": "null"}]) for name in model.options}
    shared = {"model": {"const": model.name}} | options

    def body(**own: Any) -> dict[str, Any]:
        required = [*own, *([] if is_only else ["model"])]
        return {"type": "object", "required": required, "properties": own | shared, "additionalProperties": False}

    one = body(**fields)
    one["required"] = [name for name in one["required"] if name not in model.may_lack]
    bodies = [body(items=items), one]
    if model.task == "rerank":
        one["properties"] |= dict.fromkeys(OF_TEI, {"type": "boolean"})
    if model.task == "vectors":
        texts = _any_of([{"type": "string"}, _array({"type": "string"}, minItems=1)])
        openai = body(input=texts)
        openai["properties"] |= {"encoding_format": {"enum": ["float", "base64"]}, "user": {"type": "string"}}
        bodies.append(openai)
    return bodies


def _example(model: ServedModel) -> dict[str, Any]:
    text = "Paris is [MASK]." if model.task == "fill_mask" else "Paris is big."
    return {name: _CHOICES if name in LISTS else text for name in model.fields}


def _openai_reply() -> dict[str, Any]:
    vector = _any_of([_array({"type": "number"}), {"type": "string"}])
    data = _open_object(object={"const": "embedding"}, index={"type": "integer"}, embedding=vector, **_ADDED)
    counts = {name: {"type": "integer"} for name in ("prompt_tokens", "total_tokens")}
    usage = {"type": "object", "properties": counts}
    return _open_object(object={"const": "list"}, data=_array(data), model={"type": "string"}, usage=usage)


def _tei_reply() -> dict[str, Any]:
    score = _open_object(index={"type": "integer"}, score={"type": "number"})
    score["properties"]["text"] = {"type": "string"}
    return _array(score)


# Task -> the reply in the form of another server.
_OTHER_REPLIES = {"vectors": _openai_reply, "rerank": _tei_reply}


def _answer(model: ServedModel, schemas: dict[str, Any]) -> Mapping[str, Any]:
    """Returns the schema of a model's answers."""
    if model.task == "vectors":
        return _schema(prediction.TextVector, schemas)
    predictor = getattr(prediction, TASKS[model.task].predictor)
    *_, answer = typing.get_args(predictor.__orig_bases__[0])
    return _schema(_ANSWERS.get(model.task, answer), schemas)


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
        return _any_of([_schema(argument, schemas) for argument in arguments])
    if typing.get_origin(kind) is list:
        return _array(_schema(arguments[0], schemas))
    return {"type": "object", "additionalProperties": _schema(arguments[1], schemas)}  # dict


def _any_of(schemas: Sequence[Mapping[str, Any]]) -> Mapping[str, Any]:
    different = [schema for number, schema in enumerate(schemas) if schema not in schemas[:number]]
    return different[0] if len(different) == 1 else {"anyOf": different}
