"""Reads the body of a request: size, time, JSON, items and options."""

import json
from typing import Any

from starlette.requests import Request

from bert_keras.prediction.arguments import shown


class RefusedError(Exception):
    """A request without an answer: an HTTP status, and the reason for the client."""

    def __init__(self, status: int, reason: str, **headers: str):
        super().__init__(reason)
        self.status, self.reason = status, reason
        self.headers = {name.replace("_", "-"): value for name, value in headers.items()}


class TooLongError(RefusedError):
    """A body above the limit, which the server does not read to its end."""

    def __init__(self, max_bytes: int):
        reason = f"the body is larger than {max_bytes:,} bytes (--max_body_bytes); send fewer texts"
        super().__init__(413, reason, Connection="close")


async def read_body(request: Request, max_bytes: int) -> bytes:
    """Reads a body and refuses one above the limit before it is all in memory."""
    told = request.headers.get("content-length", "")
    if told.isdecimal() and int(told) > max_bytes:
        raise TooLongError(max_bytes)
    parts, num_bytes = [], 0
    async for part in request.stream():
        num_bytes += len(part)
        if num_bytes > max_bytes:
            raise TooLongError(max_bytes)
        parts.append(part)
    return b"".join(parts)


def read_json(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body."""

    def refuse(name):
        raise ValueError(f"{name} is not a number of JSON")

    try:
        value = json.loads(body.decode("utf-8"), parse_constant=refuse)
    except RecursionError:
        raise RefusedError(400, "the body has too many lists or objects inside each other") from None
    except ValueError as error:
        raise RefusedError(400, f"the body is not valid JSON: {error}") from None
    if not isinstance(value, dict):
        raise RefusedError(422, f"the body is {shown(value)}, but a JSON object is needed")
    return value


def split_body(body: dict[str, Any], max_items: int) -> tuple[list[Any], dict[str, Any]]:
    """Returns the items of a request and its other fields, without "model".

    The field "items" has the list of items. Without it, the whole body is one item, and the options come with it.
    """
    fields = {name: value for name, value in body.items() if name != "model"}
    if "items" not in fields:
        return [fields], {}
    items = fields.pop("items")
    if not isinstance(items, list) or not items:
        raise RefusedError(422, f'"items" is {shown(items)}, but a list of one item or more is needed')
    if len(items) > max_items:
        raise RefusedError(422, f"there are {len(items):,} items, but at most {max_items:,} are allowed (--max_items)")
    return items, fields
