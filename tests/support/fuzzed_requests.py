"""Requests at random that a server must refuse or answer: broken JSON, wrong types, Unicode, slow and huge bodies."""

import asyncio
import dataclasses
import json
import random
import re
import urllib.parse
from collections.abc import Callable, Sequence
from typing import Any

from benchmarks.load_client import http_request, read_response

# Values and types in the words of Python, outside of the texts that a message quotes.
PYTHON_WORDS = re.compile(r"\b(None|True|False|NoneType|bool|dict|float|int|str|tuple)\b(?=[, )]|$)(?! of)|\('|is '")
# Seconds until a request counts as hanging.
LONGEST = 60.0
_VALUES = (
    *(None, True, False, 0, -1, 1, 2**31, 2**63, 10**400, 1e308, -0.0, "", " ", "a", "[MASK]", "[MASK]" * 200),
    *("\ud800", "\udc00a", "\x00", "\ufeff", "\u202e\u05d0\u05d1", "\U0001f469\u200d\U0001f4bb", "\u0301" * 50),
    *([], {}, [[]], [None], {"text": None}, ["a", 1], {"b64": "x"}, {"b64": "YQ=="}, "a " * 3000, ["a"] * 2000),
)
_METHODS = ("GET", "HEAD", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "POST", "post", "A" * 300)
_PATHS = (
    *("/", "/v1", "/v1/", "/v1/nothing", "/v1/models", "//", "/%00", "/%ff"),
    *("/v1/score/", "/models/", "/x?" + "y" * 5000),
    *("/openapi.json?x=%zz", "/metrics", "/livez", "/readyz", "/../../etc/passwd", "/v1/" + "a" * 5000, "/\u00e9"),
)
_HEADERS = (
    *(("X-Timeout-Ms", value) for value in ("0", "-1", "1.5", "soon", "9" * 30, "", "\u00b2", "30000")),
    *(("Content-Length", value) for value in ("-1", "x", "1, 2", "99999999999999999999")),
    *(("Transfer-Encoding", value) for value in ("chunked", "gzip", "identity")),
    *(("X-Request-Id", value) for value in ("a" * 5000, "\u00e9\u00e9", "a b")),
    *(("Content-Type", "text/html"), ("Authorization", "Bearer \u00e9"), ("Expect", "100-continue"), ("", "x")),
    *(("Connection", "Upgrade"), ("Upgrade", "websocket"), ("Origin", "null"), ("Host", ""), ("X" * 70_000, "x")),
)


@dataclasses.dataclass(frozen=True)
class Attempt:
    """One request.

    Attributes:
        kind: name of the function that made it.
        data: its bytes, perhaps not all of them.
        is_dropped: whether the client closes the connection at once.
        statuses: the statuses that are correct; empty: any but 5xx.
    """

    kind: str
    data: bytes
    is_dropped: bool = False
    statuses: tuple[int, ...] = ()


def make_attempt(number: int, samples: Sequence[tuple[str, dict]], max_body_bytes: int) -> Attempt:
    """Returns a request, which depends only on the arguments.

    Args:
        samples: paths and valid bodies.
        max_body_bytes: the limit of the server.
    """
    chance = random.Random(f"0 {number}")
    kind, make = chance.choices(list(KINDS.items()), [_WEIGHTS.get(name, 10) for name in KINDS])[0]
    path, body = chance.choice(samples)
    return dataclasses.replace(make(chance, f"http://127.0.0.1{path}", body, max_body_bytes), kind=kind)


def _valid(chance, url, body, limit):
    return Attempt("", http_request(url, json.dumps(body).encode()), statuses=(200, 429))


def _dropped(chance, url, body, limit):
    data = http_request(url, json.dumps(body).encode())
    return Attempt("", data[: chance.choice((len(data), chance.randrange(len(data))))], is_dropped=True)


def _broken(chance, url, body, limit):
    data = bytearray(json.dumps(body, ensure_ascii=chance.random() < 0.5).encode())
    for _ in range(chance.randint(1, 8)):
        place = chance.randrange(len(data) + 1)
        change = chance.randrange(3)
        data[place : place + chance.randint(0, 4) * (change > 0)] = chance.randbytes(
            chance.randint(0, 4) * (change < 2)
        )
    return Attempt("", http_request(url, bytes(data)))


def _nested(chance, url, body, limit):
    depth = chance.choice((10, 1000, 100_000))
    data = chance.choice(("[", '{"a":', '{"items":[')) * depth + chance.choice(("", "]" * depth, "}" * depth))
    return Attempt("", http_request(url, data.encode()))


def _retyped(chance, url, body, limit):
    def changed(value):
        if chance.random() < 0.3:
            return chance.choice(_VALUES)
        if isinstance(value, dict):
            new = {name: changed(each) for name, each in value.items() if chance.random() < 0.95}
            return new | (
                {chance.choice(("top_k", "items", "model", "x")): chance.choice(_VALUES)} if len(new) % 2 else {}
            )
        return [changed(each) for each in value] if isinstance(value, list) else value

    return Attempt("", http_request(url, json.dumps(changed(body)).encode()))


def _unicode(chance, url, body, limit):
    ranges = ((0, 0x20), (0x20, 0x250), (0x250, 0xD800), (0xD800, 0xE000), (0xE000, 0x110000))

    def text():
        low, high = chance.choice(ranges)
        return "".join(chr(chance.randrange(low, high)) for _ in range(chance.randint(1, 60)))

    new = {name: text() if isinstance(value, str) and name != "model" else value for name, value in body.items()}
    data = json.dumps(new, ensure_ascii=chance.random() < 0.5).encode("utf-8", "surrogatepass")
    return Attempt("", http_request(url, data))


def _huge(chance, url, body, limit):
    if chance.random() < 0.5:  # the server sees the size at once
        return Attempt("", http_request(url, b" " * (limit + 1)), statuses=(413, 429))
    part = b" " * 8192
    chunks = (b"%x\r\n%s\r\n" % (len(part), part)) * (limit // len(part) + 2) + b"0\r\n\r\n"
    head = http_request(url, b"", headers={"Transfer-Encoding": "chunked"}).replace(b"Content-Length: 0\r\n", b"")
    return Attempt("", head + chunks, statuses=(413, 429))


def _slow(chance, url, body, limit):
    data = http_request(url, json.dumps(body).encode(), headers={"X-Timeout-Ms": str(chance.randint(1, 200))})
    start = data.index(b"\r\n\r\n") + 4
    return Attempt("", data[: chance.randrange(start, len(data))], statuses=(408, 429))


def _misdirected(chance, url, body, limit):
    url = f"http://127.0.0.1{chance.choice(_PATHS)}" if chance.random() < 0.7 else url
    data = http_request(url, json.dumps(body).encode(), method=chance.choice(_METHODS))
    return Attempt("", data)


def _headed(chance, url, body, limit):
    data = http_request(url, json.dumps(body).encode(), headers=dict(chance.choices(_HEADERS, k=chance.randint(1, 3))))
    return Attempt("", data)


def _noise(chance, url, body, limit):
    return Attempt("", chance.randbytes(chance.randint(1, 2000)) + b"\r\n\r\n")


KINDS: dict[str, Callable[..., Attempt]] = {
    make.__name__.strip("_"): make
    for make in (
        *(_valid, _dropped, _broken, _nested, _retyped, _unicode, _huge, _slow, _misdirected, _headed, _noise),
    )
}
_WEIGHTS = {"huge": 1, "slow": 3, "retyped": 20, "broken": 20, "unicode": 15}


async def send(url: str, attempt: Attempt) -> str:
    """Sends a request. Returns its outcome: a status, "dropped", "closed" (without an answer) or a mistake."""
    host, _, port = urllib.parse.urlsplit(url).netloc.partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    try:
        return await asyncio.wait_for(_outcome(reader, writer, attempt), LONGEST)
    except TimeoutError:
        return "hangs"
    finally:
        writer.transport.abort()


async def _outcome(reader, writer, attempt):
    writer.write(attempt.data)
    try:
        if attempt.is_dropped:
            await writer.drain()
            return "dropped"
        if attempt.kind in ("noise", "headed"):  # the server may wait for more; it learns that nothing follows
            writer.write_eof()
        status, content = await read_response(reader, not attempt.data.startswith(b"HEAD "))
    except (asyncio.IncompleteReadError, ConnectionError):
        return "closed"
    is_wrong = status not in attempt.statuses if attempt.statuses else status >= 500
    if attempt.kind == "retyped" and PYTHON_WORDS.search(content.decode()):
        return f"wrong: {content.decode()}"
    return f"wrong: {status}" if is_wrong else str(status)


def is_mistake(outcome: str) -> bool:
    """Returns whether an outcome shows a mistake of the server."""
    return outcome == "hangs" or outcome.startswith("wrong")


async def send_all(url: str, attempts: Sequence[Attempt], num_clients: int) -> list[str]:
    """Sends requests, several at a time. Returns their outcomes in order."""
    outcomes: list[Any] = [None] * len(attempts)
    numbers = iter(range(len(attempts)))

    async def work():
        for number in numbers:
            outcomes[number] = await send(url, attempts[number])

    async with asyncio.TaskGroup() as group:
        for _ in range(num_clients):
            group.create_task(work())
    return outcomes
