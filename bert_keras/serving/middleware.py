"""What every request passes: an id and a line of the log, and the checks of the host and the token."""

import hmac
import json
import logging
import logging.handlers
import queue
import re
import time
import urllib.parse
import uuid
from collections.abc import Sequence
from typing import TextIO

from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from bert_keras.serving.requests import refusal

log = logging.getLogger("bert_keras")
# Lines of JSON, one for each request. They have no texts.
requests_log = logging.getLogger("bert_keras.requests")

# Lines that wait if nobody reads the log; further ones are dropped, so that requests do not wait for the reader.
_MOST_LINES = 10_000
_VALID_ID = re.compile(rb"[\x21-\x7e]{1,128}")
_OPEN_PATHS = ("/", "/livez", "/readyz")


class _Lines(logging.StreamHandler):
    """Writes lines until that fails, and then none: a closed standard output must not fill standard error."""

    has_failed = False

    def emit(self, record: logging.LogRecord) -> None:
        if not self.has_failed:
            super().emit(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the name in logging)
        self.has_failed = True
        log.warning("standard output is closed or full, so the server does not log further requests")


class _Dropping(logging.handlers.QueueHandler):
    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 (the name in logging)
        """Drops the line: the queue is full."""


def open_request_log(stream: TextIO) -> logging.handlers.QueueListener:
    """Writes the lines of requests to a stream, in a thread. Returns the listener; its `stop` writes what is left."""
    lines = queue.Queue(_MOST_LINES)
    requests_log.handlers, requests_log.propagate = [_Dropping(lines)], False
    requests_log.setLevel(logging.INFO)
    listener = logging.handlers.QueueListener(lines, _Lines(stream))
    listener.start()
    return listener


class RequestLog:
    """Gives each request an id (header X-Request-Id, the client's if it sends one) and logs it when it has ended."""

    def __init__(self, app: ASGIApp):
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        given_id = dict(scope["headers"]).get(b"x-request-id", b"")
        request_id = given_id.decode() if _VALID_ID.fullmatch(given_id) else uuid.uuid4().hex
        started, status = time.monotonic(), 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode())]
            await send(message)

        try:
            await self._app(scope, receive, send_with_id)
        finally:
            line = {
                "time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
                "request_id": request_id,
                "method": scope["method"],
                "path": scope["path"],
                "status": status,
                "ms": round(1000 * (time.monotonic() - started), 1),
            }
            requests_log.info(json.dumps(line | scope.get("served", {})))


class HostCheck:
    """Answers 403 to requests for another host than the given ones.

    A web page of another site can make its own name lead to this machine (DNS rebinding), and then reads the answers of
    a server that only listens here. Its requests name its own host.
    """

    def __init__(self, app: ASGIApp, hosts: Sequence[str]):
        self._app, self._hosts = app, [host.lower() for host in hosts]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        given = dict(scope.get("headers", ())).get(b"host", b"").decode("latin-1")
        if scope["type"] == "http" and given and _name_of(given) not in self._hosts:
            reason = (
                f"this server answers only requests for {', '.join(self._hosts)}, not for {given[:100]}; a proxy in "
                "front of it must set the header Host, or the server needs a token"
            )
            await refusal(403, reason)(scope, receive, send)
            return
        await self._app(scope, receive, send)


def _name_of(host: str) -> str | None:
    """Returns the name in a header Host, without its port and without the brackets of an IPv6 address."""
    try:
        return urllib.parse.urlsplit(f"//{host}").hostname
    except ValueError:
        return None


class TokenCheck:
    """Answers 401 to requests without the bearer token, except for the page and the paths of health checks."""

    def __init__(self, app: ASGIApp, token: str):
        self._app, self._needed = app, token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path = scope.get("path", "")
        if scope["type"] == "http" and path not in _OPEN_PATHS and not path.startswith("/page/"):
            scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            # The name of a scheme has no case (RFC 9110).
            if scheme.lower() != b"bearer" or not hmac.compare_digest(given.strip(), self._needed):
                reason = "the token is missing or wrong (header Authorization: Bearer ...)"
                await refusal(401, reason, {"WWW-Authenticate": "Bearer"})(scope, receive, send)
                return
        await self._app(scope, receive, send)


def middleware_of(hosts: Sequence[str], cors_origins: Sequence[str], token: str | None) -> list[Middleware]:
    """Returns what the requests of a server pass, in order; the arguments are as in `app.ServerSettings`."""
    found = [Middleware(RequestLog)]
    if hosts:
        found.append(Middleware(HostCheck, hosts=hosts))
    if cors_origins:
        found.append(
            Middleware(
                CORSMiddleware,
                allow_origins=cors_origins,
                allow_methods=["GET", "POST"],
                allow_headers=["Authorization", "Content-Type", "X-Request-Id", "X-Timeout-Ms"],
            )
        )
    if token:
        found.append(Middleware(TokenCheck, token=token))
    return found
