"""The forms of requests: the JSON schema of each. The server checks bodies with them, and describes itself."""

import dataclasses
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_keras.mistakes import closest
from bert_keras.prediction.arguments import PLL_CHOICES
from bert_keras.serving.requests import RefusedError, shown_json
from bert_keras.serving.served_models import ServedModel
from bert_keras.tasks.ability import LISTS

Schema = Mapping[str, Any]
# The names and numbers that lead to a value in a body.
_Place = tuple[str | int, ...]

_TEXT: Schema = {"type": "string"}
_SWITCH: Schema = {"type": "boolean"}
_NULL: Schema = {"type": "null"}
_WHOLE: Schema = {"type": "integer", "minimum": 1}
# Type of JSON -> types of Python.
_KINDS: dict[str, tuple[type, ...]] = {
    "string": (str,),
    "boolean": (bool,),
    "null": (type(None),),
    "array": (list,),
    "object": (dict,),
    "integer": (int,),
    "number": (int, float),
}
_LONGEST_NAME = 100


def array(items: Schema, **bounds: int) -> dict[str, Any]:
    """Returns the schema of a list."""
    return {"type": "array", "items": items, **bounds}


def any_of(schemas: Iterable[Schema]) -> Schema:
    """Returns the schema of what fits one of several."""
    different: list[Schema] = []
    for schema in schemas:
        different += [part for part in schema.get("anyOf", [schema]) if part not in different]
    return different[0] if len(different) == 1 else {"anyOf": different}


def or_null(schema: Schema) -> Schema:
    """Returns the schema of an optional value, which clients also send as null."""
    return any_of([schema, _NULL])


_OPTIONS: dict[str, Schema] = {
    "top_k": _WHOLE,
    "threshold": {"type": "number"},
    "prefix": _TEXT,
    "candidates": array(_TEXT, minItems=1),
    "pll": {"enum": list(PLL_CHOICES)},
    "raw_scores": _SWITCH,
    "coverage": {"type": "number", "minimum": 0.5, "maximum": 0.99},
    "why": {"enum": [True, False]},
}
_FIELDS: dict[str, Schema] = {name: array(_TEXT, minItems=least) for name, least in LISTS.items()}
# Fields of text-embeddings-inference for texts that are too long. These models cut the ends of texts.
_CUTTING_FIELDS: dict[str, Schema] = {
    "truncate": _SWITCH,
    "truncation_direction": {"enum": ["right", "Right", "RIGHT"]},
}


@dataclasses.dataclass(frozen=True)
class Form:
    """A form of the body of a request.

    Attributes:
        required: the fields that it must have, with their schemas; the first one tells it from other forms.
        optional: the fields that it may have or send as null.
    """

    required: dict[str, Schema]
    optional: dict[str, Schema]

    @property
    def key(self) -> str:
        """The field that tells the form from others."""
        return next(iter(self.required))

    @property
    def schema(self) -> dict[str, Any]:
        """The JSON schema of the body."""
        return {
            "type": "object",
            "required": [*self.required],
            "properties": self.required | {name: or_null(schema) for name, schema in self.optional.items()},
            "additionalProperties": False,
        }


def item_schema(model: ServedModel) -> Schema:
    """Returns the schema of an item: an object, or a text if only one field is required."""
    form = _item_form(model)
    return any_of([form.schema, _TEXT]) if len(form.required) == 1 else form.schema


def _item_form(model: ServedModel) -> Form:
    fields = {name: _FIELDS.get(name, _TEXT) for name in model.fields}
    required = {name: schema for name, schema in fields.items() if name not in model.may_lack}
    return Form(required, {name: fields[name] for name in fields if name in model.may_lack})


def _options(model: ServedModel) -> dict[str, Schema]:
    options = {name: _OPTIONS[name] for name in model.options}
    if getattr(model.predictor, "has_gradients", False):
        options["why"] = {"enum": [True, False, "gradients"]}
    return {"model": {"enum": [model.name]}} | options


def items_form(model: ServedModel, max_items: int) -> Form:
    """Returns the form with a list of items."""
    return Form({"items": array(item_schema(model), minItems=1, maxItems=max_items)}, _options(model))


def one_form(model: ServedModel, max_items: int) -> Form:
    """Returns the form that is one item with its options."""
    item = _item_form(model)
    return Form(item.required, item.optional | _options(model))


def rerank_form(model: ServedModel, max_items: int) -> Form:
    """Returns the form of text-embeddings-inference for reranking."""
    form = one_form(model, max_items)
    return Form(form.required, form.optional | _CUTTING_FIELDS | {"return_text": _SWITCH})


def openai_form(model: ServedModel, max_items: int) -> Form:
    """Returns OpenAI's form for vectors."""
    texts = any_of([_TEXT, array(_TEXT, minItems=1, maxItems=max_items)])
    own = {"encoding_format": {"enum": ["float", "base64"]}, "dimensions": _WHOLE, "user": _TEXT}
    return Form({"input": texts}, _options(model) | own)


def embed_form(model: ServedModel, max_items: int) -> Form:
    """Returns the form of text-embeddings-inference for vectors."""
    texts = any_of([_TEXT, array(_TEXT, minItems=1, maxItems=max_items)])
    own = {"normalize": _SWITCH, "dimensions": _WHOLE, "prompt_name": _NULL}
    return Form({"inputs": texts}, {"model": {"enum": [model.name]}} | _CUTTING_FIELDS | own)


def predict_form(model: ServedModel, max_items: int) -> Form:
    """Returns the form of text-embeddings-inference for classification, where a list of two texts is a pair."""
    least, most = len(model.fields) - len(model.may_lack), len(model.fields)
    texts = array(_TEXT, minItems=least, maxItems=most)
    inputs = [*([_TEXT] if least == 1 else []), texts, array(texts, minItems=1, maxItems=max_items)]
    own = {"raw_scores": {"enum": [False]}}
    return Form({"inputs": any_of(inputs)}, {"model": {"enum": [model.name]}} | _CUTTING_FIELDS | own)


def explained_form(models: Sequence[ServedModel], **fields: Schema) -> Form:
    """Returns the form of the routes that explain an answer; `fields` are further ones that it must have."""
    names, tasks = (sorted({getattr(model, name) for model in models}) for name in ("name", "task"))
    items = any_of(item_schema(model) for model in models)
    return Form({"item": items, **fields}, {"model": {"enum": names}, "task": {"enum": tasks}})


def read_form(forms: Sequence[Form], body: dict[str, Any]) -> tuple[Form, dict[str, Any]]:
    """Returns the form of a body, the first whose key the body has, and its fields that are not null.

    Raises:
        RefusedError: a field is missing, unknown, or of the wrong type.
    """
    form = next((form for form in forms if form.key in body), forms[-1])
    if form.key not in body and set(body) <= {*form.required, *form.optional}:
        keys = _listed((_quoted(candidate.key) for candidate in forms), "or")
        raise RefusedError(422, f"{keys} is missing; a request needs it")
    check(body, form.schema)
    return form, without_null(body)


def without_null(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields that are not null."""
    return {name: value for name, value in fields.items() if value is not None}


def check(value: Any, schema: Schema, *place: str | int) -> None:
    """Refuses a value of JSON that does not fit a schema. The error names its place in the body.

    Raises:
        RefusedError: with the status 422.
    """
    if problem := _problem(value, schema, place):
        raise RefusedError(422, problem)


def _problem(value: Any, schema: Schema, place: _Place) -> str | None:
    """Returns in a sentence why a value does not fit a schema; None: it does."""
    parts = schema.get("anyOf", [schema])
    fitting = [part for part in parts if _is_of_kind(value, part)]
    problems = [_problem_inside(value, part, place) for part in fitting]
    if None in problems:
        return None
    # A part of the right kind says more than all parts do.
    if len(problems) == 1:
        return problems[0]
    is_list_of_items = isinstance(value, list) and schema == _TEXT and len(place) == 1  # a common mistake
    hint = '; several go into "items"' if is_list_of_items else ""
    return f"{_named(place)} is {shown_json(value)}, but must be {_needed(schema)}{hint}"


def _is_of_kind(value: Any, schema: Schema) -> bool:
    """Returns whether a value is of the type of a schema, or one of its values. In Python, True equals 1."""
    if "enum" in schema:
        return any(type(value) is type(choice) and value == choice for choice in schema["enum"])
    return type(value) in _KINDS[schema["type"]]


def _problem_inside(value: Any, schema: Schema, place: _Place) -> str | None:
    """Returns why a value of the right kind does not fit: its size, or one of its parts."""
    json_type, needed = schema.get("type"), f"but must be {_needed(schema)}"
    if json_type in ("integer", "number") and not schema.get("minimum", value) <= value <= schema.get("maximum", value):
        return f"{_named(place)} is {shown_json(value)}, {needed}"
    if json_type == "array":
        if len(value) < schema.get("minItems", 0):
            return f"{_named(place)} is {shown_json(value)}, {needed}"
        if len(value) > schema.get("maxItems", len(value)):
            return f"{_named(place)} has {len(value):,} entries, but at most {schema['maxItems']:,} are allowed"
        found = (_problem(part, schema["items"], (*place, number)) for number, part in enumerate(value))
        return next(filter(None, found), None)
    return _problem_of_object(value, schema, place) if "properties" in schema else None


def _problem_of_object(value: dict[str, Any], schema: Schema, place: _Place) -> str | None:
    fields, whole = schema["properties"], _named(place)
    needed = _listed(map(_quoted, schema["required"]), "and")
    for name in value:
        if name not in fields:
            unused = [field for field in fields if field not in value]
            known = closest(name, unused) if len(name) <= _LONGEST_NAME else None
            remedy = (
                f"do you mean {_quoted(known)}?" if known else f"its fields are {_listed(map(_quoted, fields), 'and')}"
            )
            return f"{shown_json(name)} is not a field of {whole or f'a request with {needed}'}; {remedy}"
    if missing := next((name for name in schema["required"] if name not in value), None):
        return f"{_quoted(missing)} is missing; {whole or 'this request'} needs {needed}"
    found = (_problem(part, fields[name], (*place, name)) for name, part in value.items())
    return next(filter(None, found), None)


def _named(place: _Place) -> str:
    """Returns the place of a value: "text" of number 2 of "items"."""
    parts = [_quoted(part) if isinstance(part, str) else f"number {part + 1}" for part in reversed(place)]
    return " of ".join(parts)


def _needed(schema: Schema) -> str:
    """Returns what fits a schema in words. Null only means that a field is not given."""
    if "anyOf" in schema:
        return _listed((_needed(part) for part in schema["anyOf"] if part != _NULL), "or") or "null"
    if "enum" in schema:
        return _listed(map(json.dumps, schema["enum"]), "or")
    low, high = schema.get("minimum"), schema.get("maximum")
    bounds = f" from {low:g} to {high:g}" if high is not None else f" of {low:g} or more" if low is not None else ""
    if schema["type"] == "array":
        return f"a list of {_many(schema['items'], schema.get('minItems', 0), schema.get('maxItems'))}"
    if schema["type"] == "object":
        required = _listed(map(_quoted, schema.get("required", ())), "and")
        return f"an object with {required}" if required else "an object"
    words = {"string": "a text", "boolean": "true or false", "null": "null", "integer": "a whole number"}
    return words.get(schema["type"], "a number") + bounds


def _many(schema: Schema, least: int, most: int | None) -> str:
    """Returns the number of entries of a list and their kind."""
    kind = {"string": "text", "array": "list", "object": "object"}.get(schema.get("type", ""), "item")
    number = {1: "one", 2: "two"}.get(least, str(least))
    return f"{number} {kind}{'s' * (least != 1)}{'' if least == most else ' or more'}"


def _quoted(name: str) -> str:
    return f'"{name}"'


def _listed(parts: Iterable[str], word: str) -> str:
    *others, last = [*parts] or [""]
    return f"{', '.join(others)} {word} {last}" if others else last
