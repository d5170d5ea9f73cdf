"""TensorFlow Serving's REST interface for SavedModels: predict, classify, regress, status and metadata.

Source: the contract of tensorflow/serving (http_rest_api_handler.cc), with its paths, bodies, codes and error texts.
"""

import itertools
import re
import urllib.parse
from collections.abc import Iterable, Mapping
from typing import Any

import tensorflow as tf

from bert_keras.serving.json_tensors import (
    parse_json,
    predict_answer,
    read_examples,
    read_inputs,
    results_of,
    signature_name_of,
    to_json,
)
from bert_keras.serving.requests import RefusedError
from bert_keras.serving.versions import NotFoundError, Version, VersionedModel

_VERSION = r"(?:/versions/(?P<version>\d+)|/labels/(?P<label>[^/:]+))?"
_RUN = re.compile(rf"(?i)/v1/models/(?P<name>[^/:]+){_VERSION}:(?P<verb>classify|regress|predict)")
_LOOK = re.compile(rf"(?i)/v1/models(?:/(?P<name>[^/:]+))?{_VERSION}(?:/(?P<what>metadata))?")
_JSON = "application/json"
# End of a path, fields of its body (one of them is needed; none: GET), and fields of its answer.
_DESCRIBED = (
    ("", (), ("model_version_status",)),
    ("/metadata", (), ("metadata",)),
    (":predict", ("instances", "inputs"), ("predictions", "outputs")),
    (":classify", ("examples",), ("results",)),
    (":regress", ("examples",), ("results",)),
)
_METHOD = "tensorflow/serving/{}"
# Codes of TensorFlow's errors, by number, as HTTP statuses; all others are 500.
_STATUSES = {
    **dict.fromkeys((3, 9, 11), 400),
    16: 401,
    7: 403,
    5: 404,
    6: 409,
    10: 409,
    8: 429,
    1: 499,
    12: 501,
    14: 503,
    4: 504,
}


def parse_path(method: str, path: str) -> dict[str, Any]:
    """Returns the name, the version (int), the label, the verb and "what" of a request; those it lacks are None.

    Args:
        path: as in the request, with its percent signs and without its query.
    """
    match = (_RUN if method == "POST" else _LOOK).fullmatch(path) if method in ("GET", "POST") else None
    if not match:
        raise RefusedError(400, f"Malformed request: {method} {path}")
    parts: dict[str, Any] = {"verb": None, "what": None, **match.groupdict()}
    if parts["version"] is not None:
        if int(parts["version"]) >= 2**63:
            raise RefusedError(400, f"Failed to convert version: {parts['version']} to numeric.")
        parts["version"] = int(parts["version"])
    for name in ("name", "label"):
        parts[name] = parts[name] and urllib.parse.unquote(parts[name])
    for name in ("verb", "what"):
        parts[name] = parts[name] and parts[name].lower()
    return parts


def labels_of(models: Mapping[str, VersionedModel], method: str, path: str) -> dict[str, str]:
    """Returns the labels of a request's metrics: the model if it exists, and the verb, "metadata" or "status"."""
    parts = parse_path(method, path)
    name = parts["name"] if parts["name"] in models else ""
    return {"model": name, "task": parts["verb"] or parts["what"] or "status"}


def described(models: Iterable[VersionedModel]) -> dict[str, Any]:
    """Returns the paths of the models in an OpenAPI document."""
    error = {"description": "The error.", "content": _content(["error"])}
    paths = {}
    for model, (suffix, needed, answered) in itertools.product(models, _DESCRIBED):
        words = re.sub(r"\W", "_", f"{model.name}{suffix or ':status'}")
        operation: dict[str, Any] = {
            "operationId": f"tensorflow_{words}",
            "responses": {"200": {"description": "The answer.", "content": _content(answered)}, "default": error},
        }
        if needed:
            operation["requestBody"] = {"required": True, "content": _content(needed)}
        paths[f"/v1/models/{urllib.parse.quote(model.name)}{suffix}"] = {"post" if needed else "get": operation}
    return paths


def _content(names):
    """Returns the description of an object that has one of these fields."""
    objects = [{"type": "object", "required": [name], "properties": {name: {}}} for name in names]
    return {_JSON: {"schema": {"oneOf": objects}}}


def answer(models: Mapping[str, VersionedModel], method: str, path: str, body: bytes) -> bytes:
    """Returns the body of the answer to a request.

    Raises:
        RefusedError: the request cannot be answered.
    """
    parts = parse_path(method, path)
    if parts["name"] is None:
        raise RefusedError(400, "Missing model name in request.")
    try:
        if parts["verb"] is None:
            return _look(models, parts)
        chosen = f"Specific({parts['name']}, {parts['version']})" if parts["version"] else f"Latest({parts['name']})"
        if parts["name"] not in models:
            raise NotFoundError(f"Servable not found for request: {chosen}")
        version = models[parts["name"]].version(parts["version"], parts["label"])
        return to_json(_run(version, parts["verb"], parse_json(body.decode())))
    except NotFoundError as error:
        raise RefusedError(404, str(error)) from None
    except tf.errors.OpError as error:
        raise RefusedError(_STATUSES.get(error.error_code, 500), error.message) from None
    except (ValueError, TypeError) as error:  # TypeError: tensors that the signature does not take
        raise RefusedError(400, str(error)) from None


def _run(version: Version, verb, body):
    name = signature_name_of(body)
    if verb == "predict":
        if not {"instances", "inputs"} & set(body):
            raise ValueError("Missing 'inputs' or 'instances' key")
        infos = version.definition(name).inputs
        inputs, is_row = read_inputs(body, {key: tf.as_dtype(info.dtype) for key, info in infos.items()})
        return predict_answer(version.run(name, inputs), is_row)
    examples = read_examples(body)
    definition, needed = version.definition(name), _METHOD.format(verb)
    if definition.method_name != needed:
        raise ValueError(f"Expected {verb} signature method_name to be {needed}. Was: {definition.method_name}")
    if list(definition.inputs) != ["inputs"]:
        raise ValueError(f"Expected one input tensor named inputs; the signature has: {', '.join(definition.inputs)}")
    return results_of(version.run(name, {"inputs": tf.constant(examples)}), verb, len(examples))


def _look(models, parts):
    model = models.get(parts["name"])
    if parts["what"] == "metadata":
        if model is None:
            raise NotFoundError(f"Servable not found for request: Latest({parts['name']})")
        version = model.version(parts["version"], parts["label"])
        spec = {"name": parts["name"], "signature_name": "", "version": str(version.number)}
        return to_json(
            {"model_spec": spec, "metadata": {"signature_def": {"signature_def": version.metadata()}}},
        )
    if model is None:
        raise NotFoundError(f"Could not find any versions of model {parts['name']}")
    is_all = parts["version"] is None and parts["label"] is None
    try:
        versions = model.versions if is_all else [model.version(parts["version"], parts["label"])]
    except NotFoundError:
        raise NotFoundError(f"Could not find version {parts['version']} of model {parts['name']}") from None
    states = [
        {"version": str(each.number), "state": "AVAILABLE", "status": {"error_code": "OK", "error_message": ""}}
        for each in versions
    ]
    return to_json({"model_version_status": states})
