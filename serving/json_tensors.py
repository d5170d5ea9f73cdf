"""JSON and tensors in the forms of TensorFlow Serving's REST interface.

Source: the contract of tensorflow/serving (json_tensor.h), with its rules and error texts.
"""

import base64
import binascii
import json
import math
import re
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

_TYPES = {dict: "Object", list: "Array", str: "String", int: "Number", float: "Number", type(None): "Null"}
_TOKEN = re.compile(r'[ \t\n\r]*([\[\]{},:]|"(?:[^"\\]|\\.)*"|[^\[\]{},:" \t\n\r]+)')
_INT64 = range(-(2**63), 2**63)


def parse_json(text: str) -> dict[str, Any]:
    """Returns the object of a body. NaN and Infinity are numbers, and lists may have any depth."""
    if not text.strip():
        raise ValueError("JSON Parse error: The document is empty")
    try:
        try:
            value = json.loads(text)
        except RecursionError:
            value = _parse_deep(text)
    except ValueError as error:
        raise ValueError(f"JSON Parse error: {error}") from None
    if not isinstance(value, dict):
        raise ValueError(f"JSON Value: {_shown(value)} Is not object")
    return value


def _parse_deep(text):
    """Parses JSON without recursion."""
    place, root = 0, []
    stack: list[tuple[Any, Any]] = [(root, None)]  # a container, and the key that waits for its value
    needs_value, text = True, text.strip()
    while place < len(text):
        match = _TOKEN.match(text, place)
        if not match:
            raise ValueError(f"unexpected character at {place}")
        token, place = match[1], match.end()
        container, key = stack[-1]
        is_key = isinstance(container, dict) and key is None
        if token in "]}":
            if len(stack) == 1 or isinstance(container, dict) != (token == "}") or (needs_value and container):
                raise ValueError(f"unexpected {token} before {place}")
            stack.pop()
            needs_value = False
        elif token == ",":
            if needs_value or len(stack) == 1:
                raise ValueError(f"unexpected , before {place}")
            needs_value = True
        elif not needs_value or token == ":":
            raise ValueError(f"unexpected {token[:20]} before {place}")
        elif is_key:
            colon = _TOKEN.match(text, place)
            if not token.startswith('"') or not colon or colon[1] != ":":
                raise ValueError(f'a name and ":" are needed before {place}')
            stack[-1] = container, json.loads(token)
            place = colon.end()
        else:
            value = {"[": list, "{": dict}[token]() if token in "[{" else json.loads(token)
            if isinstance(container, dict):
                container[key] = value
                stack[-1] = container, None
            else:
                container.append(value)
            if token in "[{":
                stack.append((value, None))
            needs_value = token in "[{"
    if len(stack) > 1 or needs_value:
        raise ValueError("the document ends too early")
    return root[0]


def signature_name_of(body: Mapping[str, Any]) -> str:
    """Returns the signature that a body names, or the default."""
    name = body.get("signature_name", "serving_default")
    if not isinstance(name, str):
        raise ValueError("'signature_name' key must be a string value.")
    return name or "serving_default"


def read_inputs(body: Mapping[str, Any], dtypes: Mapping[str, tf.DType]) -> tuple[dict[str, tf.Tensor], bool]:
    """Returns the tensors of a predict request, and whether its format is by row ("instances")."""
    if "instances" in body and "inputs" in body:
        raise ValueError(
            "JSON Value: Not formatted correctly expecting only one of 'instances' or 'inputs' keys to exist"
        )
    if "instances" in body:
        return _of_instances(body["instances"], dtypes), True
    if "inputs" not in body:
        raise ValueError("Missing 'inputs' or 'instances' key")
    values = body["inputs"]
    if not isinstance(values, dict) or _is_base64(values):
        if len(dtypes) > 1:
            raise ValueError(
                "'inputs' is a plain value/list, but expecting an object as multiple input tensors required"
            )
        values = {next(iter(dtypes)): values}
    _check_names(values, dtypes, "'inputs'")
    return {name: _tensor([values[name]], dtypes[name], name)[0] for name in dtypes}, False


def _of_instances(instances, dtypes):
    if not isinstance(instances, list):
        raise ValueError("JSON Value: Excepting 'instances' to be an list/array")
    if not instances:
        raise ValueError("JSON Value: 'instances' has no values")
    has_names = _is_object(instances[0])
    if not has_names and len(dtypes) > 1:
        raise ValueError("instances is a plain list, but expecting list of objects as multiple input tensors required")
    columns: dict[str, list] = {name: [] for name in dtypes}
    for number, instance in enumerate(instances):
        if _is_object(instance) != has_names:
            raise ValueError(
                "Expecting object but got value/list" if has_names else "Expecting value/list but got object"
            )
        values = instance if has_names else {next(iter(dtypes)): instance}
        _check_names(values, dtypes, f"element: {number} of 'instances' list")
        for name, value in values.items():
            columns[name].append(value)
    return {name: _tensor(values, dtypes[name], name) for name, values in columns.items()}


def _check_names(values, dtypes, place):
    if wrong := sorted(set(values) ^ set(dtypes)):
        raise ValueError(
            f"Failed to process {place}. Error: the inputs are {', '.join(sorted(dtypes))}; see {wrong[0]}"
        )


def _is_base64(value):
    return isinstance(value, dict) and list(value) == ["b64"]


def _is_object(value):
    return isinstance(value, dict) and not _is_base64(value)


def _tensor(values, dtype, name):
    """Returns the tensor [N, ...] of N values of one shape."""
    shape, flat = None, []
    for value in values:
        of_value: list = []
        found = _shape_of(value)
        _flatten(value, len(found), dtype, of_value)
        size = math.prod(found if shape is None else shape)
        if len(of_value) != size:
            raise ValueError(f"Failed to process {name}: Expecting tensor size: {size} but got: {len(of_value)}")
        if shape not in (None, found):
            raise ValueError(f"Failed to process {name}: Expecting shape {shape} but got: {found}")
        shape = found
        flat += of_value
    if dtype == tf.string:
        array = np.array(flat, object)
    else:
        with np.errstate(under="ignore", over="ignore"):
            array = np.array(flat, dtype.as_numpy_dtype)
    return tf.constant(array.reshape(len(values), *(shape or ())), dtype)


def _shape_of(value):
    shape = []
    while isinstance(value, list):
        shape.append(len(value))
        value = value[0] if value else None
    return shape


def _flatten(value, depth, dtype, flat):
    """Appends the numbers or strings of a nested list, which has `depth` levels, in order."""
    pending = [(value, depth)]
    while pending:
        value, depth = pending.pop()
        if isinstance(value, list):
            if not depth:
                raise ValueError("Encountered list at unexpected level: the lists have different depths")
            pending += [(item, depth - 1) for item in reversed(value)]
        elif depth:
            raise ValueError(f"JSON Value: {_shown(value)} is not a list: Expecting shape with {depth} more axes")
        else:
            flat.append(_scalar(value, dtype))


def _scalar(value, dtype):
    is_number = type(value) in (int, float)
    if dtype == tf.string:
        if isinstance(value, str):
            return value.encode("utf-8", "surrogatepass")
        if _is_base64(value):
            return decode_base64(value["b64"])
    elif dtype == tf.bool:
        if isinstance(value, bool):
            return value
    elif dtype.is_floating:
        # A whole number may be too large for a float, so it is compared as it is.
        if is_number and (value in (math.inf, -math.inf) or value != value or abs(value) <= float(dtype.max)):
            return value
    elif dtype.is_integer and type(value) is int and dtype.min <= value <= dtype.max:
        return value
    raise ValueError(f"JSON Value: {_shown(value)} Type: {json_type(value)} is not of expected type: {dtype.name}")


def decode_base64(value: Any) -> bytes:
    """Returns the bytes of the value of a "b64" key."""
    try:
        if isinstance(value, str):
            return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        pass
    raise ValueError("Unable to base64 decode the value of the key 'b64'")


def json_type(value: Any) -> str:
    """Returns the name of a value's type in error texts."""
    return str(value) if isinstance(value, bool) else _TYPES[type(value)]


def _shown(value):
    return json.dumps(value)[:100] if not isinstance(value, dict | list) else "{}" if isinstance(value, dict) else "[]"


def read_examples(body: Mapping[str, Any]) -> list[bytes]:
    """Returns the serialised tf.Examples of a request to classify or regress."""
    context = _features(body["context"]) if "context" in body else b""
    if "examples" not in body:
        raise ValueError("Missing 'examples' key")
    if not isinstance(body["examples"], list) or not body["examples"]:
        raise ValueError("'examples' must be a list of one example or more")
    # Messages one after the other are merged; the features of an example replace those of the context.
    return [context + _features(example) for example in body["examples"]]


def _features(example):
    if not isinstance(example, dict):
        raise ValueError(f"Example must be JSON object but got JSON {json_type(example)}")
    return tf.train.Example(
        features=tf.train.Features(feature={name: _feature(name, value) for name, value in example.items()})
    ).SerializeToString()


def _feature(name, value):
    values = value if isinstance(value, list) else [value]
    kinds = [_kind(name, each) for each in values]
    if not values:
        return tf.train.Feature()
    if wrong := next((kind for kind in kinds if kind != kinds[0]), None):
        raise ValueError(f"Unexpected element type for feature: {name} expecting type: {kinds[0]} got: {wrong}")
    if kinds[0] == "int64":
        return tf.train.Feature(int64_list=tf.train.Int64List(value=values))
    if kinds[0] == "float":
        return tf.train.Feature(float_list=tf.train.FloatList(value=values))
    texts = [decode_base64(each["b64"]) if isinstance(each, dict) else each.encode() for each in values]
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=texts))


def _kind(name, value):
    if type(value) is int:
        if value not in _INT64:
            raise ValueError(f"feature: {name} Only int64_t is supported for integers, got: {value}")
        return "int64"
    if type(value) is float:
        return "float"
    if isinstance(value, str) or _is_base64(value):
        return "bytes"
    raise ValueError(f"feature: {name} has element with unexpected JSON type: {json_type(value)}")


def predict_answer(outputs: Mapping[str, np.ndarray], is_row: bool) -> dict[str, Any]:
    """Returns the body of an answer to predict, for `to_json`."""
    if not outputs:
        raise ValueError("Cannot convert empty tensor map to JSON")
    names = sorted(outputs)
    if not is_row:
        values = {name: _plain(outputs[name], name) for name in names}
        return {"outputs": values[names[0]] if len(names) == 1 else values}
    for name in names:
        if not outputs[name].ndim:
            raise ValueError(f"Tensor name: {name} has no shape information")
        if len(outputs[name]) != len(outputs[names[0]]):
            raise ValueError(
                f"Tensor name: {name} has inconsistent batch size: {len(outputs[name])} "
                f"expecting: {len(outputs[names[0]])}"
            )
    columns = [_plain(outputs[name], name) for name in names]
    if len(names) == 1:
        return {"predictions": columns[0]}
    return {"predictions": [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]}


def _plain(array, name=""):
    """Returns an array as nested lists of values for JSON; a float32 has its shortest decimal form."""
    if array.dtype == object:
        if name.endswith("_bytes"):
            convert = np.frompyfunc(lambda value: {"b64": base64.b64encode(value).decode()}, 1, 1)
        else:
            convert = np.frompyfunc(lambda value: value.decode("utf-8", "replace"), 1, 1)
        converted = convert(array) if array.size else array
        return converted.tolist() if isinstance(converted, np.ndarray) else converted
    if array.dtype.kind == "f" and array.dtype != np.float64:
        array = np.vectorize(lambda value: float(str(value)), otypes=[np.float64])(array) if array.size else array
    return array.tolist()


def results_of(outputs: Mapping[str, np.ndarray], verb: str, num_examples: int) -> dict[str, Any]:
    """Returns the body of an answer to classify or regress, for `to_json`."""
    if verb == "regress":
        if "outputs" not in outputs or outputs["outputs"].size != num_examples:
            raise ValueError("the signature must have one output for each example, named outputs")
        return {"results": _plain(outputs["outputs"].reshape(-1))}
    scores, classes = outputs.get("scores"), outputs.get("classes")
    found = scores if scores is not None else classes
    if found is None or found.shape[0] != num_examples:
        raise ValueError("the signature must have the output scores or classes with a row for each example")
    shape = (num_examples, -1)
    labels = _plain(classes.reshape(shape)) if classes is not None else np.full(found.shape, "").reshape(shape).tolist()
    numbers = _plain(scores.reshape(shape)) if scores is not None else np.zeros(found.shape).reshape(shape).tolist()
    return {"results": [[list(pair) for pair in zip(*row, strict=True)] for row in zip(labels, numbers, strict=True)]}


def to_json(value: Any) -> bytes:
    """Returns JSON in which NaN, Infinity and -Infinity are numbers."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")
