"""Reads a request (its time, body and JSON), and writes JSON."""

import asyncio
import threading
import time
from collections.abc import Mapping
from typing import Any

import orjson
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

# Time for a client to send its body.
_SECONDS_TO_SEND = 10.0
# Maximum number of lists and objects in a body: small ones take much more memory and time than their bytes.
_MOST_CONTAINERS = 500_000
_MOST_CHARS_OF_A_REASON = 800
_MOST_CHARS_OF_A_VALUE = 100
# Parsing lets no other thread run, so only one body at a time is parsed, and other threads run in between.
_one_at_a_time = threading.Lock()


class RefusedError(HTTPException):
    """A request without an answer: an HTTP status, and the reason for the client."""

    def __init__(self, status: int, reason: str, **headers: str):
        super().__init__(status, reason, {name.replace("_", "-"): value for name, value in headers.items()})


def body_of(value: Any) -> bytes:
    """Returns a value as JSON; arrays become lists, and objects of dataclasses become objects.

    Numbers must be finite: JSON has no others, and this function would write null.
    """
    return orjson.dumps(value, option=orjson.OPT_SERIALIZE_NUMPY)


def shown_json(value: Any) -> str:
    """Returns a value as JSON for an error message, cut to 100 characters."""
    try:
        text = body_of(value).decode()
    except TypeError:  # orjson writes fewer levels than it reads
        return "a list or an object of too many levels"
    return text if len(text) <= _MOST_CHARS_OF_A_VALUE else f"{text[: _MOST_CHARS_OF_A_VALUE - 3]}..."


def json_response(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the response with a value as JSON."""
    return Response(body_of(value), status, headers, "application/json")


def refusal(status: int, reason: str, headers: Mapping[str, str] | None = None) -> Response:
    """Returns the response that says why a request has no answer."""
    if len(reason) > _MOST_CHARS_OF_A_REASON:  # it may have names of the client
        reason = f"{reason[:_MOST_CHARS_OF_A_REASON]}..."
    return json_response({"error": reason}, status, headers)


def timeout_of(request: Request, longest: float) -> float:
    """Returns the seconds until a request's deadline: those of the header X-Timeout-Ms, and at most `longest`."""
    given = request.headers.get("x-timeout-ms")
    if given is None:
        return longest
    if not _is_number(given) or int(given) == 0:
        raise RefusedError(
            422, f"X-Timeout-Ms is {shown_json(given)}, but must be a whole number of milliseconds above 0, below 10^9"
        )
    return min(longest, int(given) / 1000)


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) < 10


async def read_body(request: Request, max_bytes: int, deadline: float) -> bytes:
    """Reads a body and refuses one above the limit before it is all in memory, or one that takes too long."""
    too_large = f"the body is larger than {max_bytes:,} bytes; send fewer texts"
    content_length = request.headers.get("content-length", "0")
    if not _is_number(content_length) or int(content_length) > max_bytes:
        raise RefusedError(413, too_large, Connection="close")
    parts, num_bytes = [], 0
    try:
        async with asyncio.timeout(min(deadline - time.monotonic(), _SECONDS_TO_SEND)):
            async for part in request.stream():
                num_bytes += len(part)
                if num_bytes > max_bytes:
                    raise RefusedError(413, too_large, Connection="close")
                parts.append(part)
    except TimeoutError:
        reason = f"the body did not arrive before the deadline, or within {_SECONDS_TO_SEND:g} seconds"
        raise RefusedError(408, reason, Connection="close") from None
    except ClientDisconnect:
        raise RefusedError(499, "the client closed the connection") from None
    return b"".join(parts)


def read_json(body: bytes) -> dict[str, Any]:
    """Returns the JSON object of a body, or of a line of a file."""
    if body.count(b"[") + body.count(b"{") > _MOST_CONTAINERS:
        raise RefusedError(
            422, f"the body has more than {_MOST_CONTAINERS:,} opening brackets; send fewer texts in one request"
        )
    try:
        with _one_at_a_time:
            value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        reason = "it is compressed with gzip; send it uncompressed" if body.startswith(b"\x1f\x8b") else error
        raise RefusedError(400, f"this is not valid JSON: {reason}") from None
    if not isinstance(value, dict):
        raise RefusedError(422, f"the JSON is {shown_json(value)}, but must be an object")
    return value
