"""The HTTP application: its routes, admission of requests, deadlines, and the answers of errors."""

import asyncio
import base64
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import logging
import threading
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras.prediction.arguments import shown
from bert_keras.prediction.tasks.registry import TASKS
from bert_keras.serving import tensorflow_rest
from bert_keras.serving.batching import ModelError, Ticket, current_ticket
from bert_keras.serving.explanations import attention_content, encoder_of, tokens_content
from bert_keras.serving.metrics import Metrics
from bert_keras.serving.middleware import RequestLog, TokenCheck
from bert_keras.serving.openapi import description
from bert_keras.serving.page_files import page_routes
from bert_keras.serving.requests import RefusedError, read_body, read_json, split_body
from bert_keras.serving.served_models import ServedModel, body_of
from bert_keras.serving.versions import VersionedModel

log = logging.getLogger("bert_keras")

# A request occupies a thread while it tokenizes and waits for its batches.
_MOST_THREADS = 64
# As in TensorFlow Serving.
_SECONDS_BETWEEN_LOOKS = 1.0
_JSON = "application/json"
# Routes for the models of all tasks.
_EXPLANATIONS = ("tokens", "attention")
# Fields of OpenAI's form of a request for embeddings.
_OF_OPENAI = ("input", "encoding_format", "user")


@dataclasses.dataclass(frozen=True)
class ServerSettings:
    """How a server treats requests.

    Attributes:
        max_batch_tokens: maximum number of tokens in a batch, padding included.
        batch_timeout: seconds that a sequence waits for others to share its batch.
        max_queue: maximum number of requests that wait or are being answered; further ones get the status 429.
        timeout: seconds until a request gets the status 504. A request may ask for less (header X-Timeout-Ms).
        max_body_bytes: maximum size of a body.
        max_items: maximum number of items in a request.
        token: the bearer token that requests must have; None: none.
        cors_origins: web origins that may call the server from a browser.
    """

    max_batch_tokens: int = 4096
    batch_timeout: float = 0.002
    max_queue: int = 256
    timeout: float = 30.0
    max_body_bytes: int = 8 << 20
    max_items: int = 1000
    token: str | None = None
    cors_origins: tuple[str, ...] = ()


class Server:
    """The state of a running server. `app` is the ASGI application.

    Args:
        models: the models, open but not warm.
        settings: ServerSettings.
        versioned: models for the REST interface of TensorFlow Serving.
    """

    def __init__(
        self, models: Sequence[ServedModel], settings: ServerSettings, versioned: Sequence[VersionedModel] = ()
    ):
        self.models, self.settings, self.metrics = models, settings, Metrics()
        self.versioned = {model.name: model for model in versioned}
        self.is_ready, self.failure = False, ""
        self._places = threading.BoundedSemaphore(settings.max_queue)
        self._threads = concurrent.futures.ThreadPoolExecutor(min(_MOST_THREADS, settings.max_queue), "requests")
        names = sorted({TASKS[model.task].route for model in models})
        routes = [self._route(name, _content) for name in names]
        if models:
            routes += [self._route("tokens", tokens_content), self._route("attention", attention_content)]
        routes += [
            *page_routes(),
            # The router has no pattern without regard to case.
            Route("/{v:str}/{path:path}", self._answer_tensorflow, methods=["GET", "POST", "PUT", "DELETE", "OPTIONS"]),
            Route("/models", self._list_models),
            Route("/openapi.json", self._describe),
            Route("/livez", self._tell_alive),
            Route("/readyz", self._tell_ready),
            Route("/metrics", self._tell_metrics),
        ]
        middleware = [Middleware(RequestLog)]
        if settings.cors_origins:
            middleware.append(
                Middleware(
                    CORSMiddleware,
                    allow_origins=settings.cors_origins,
                    allow_methods=["GET", "POST"],
                    allow_headers=["Authorization", "Content-Type", "X-Request-Id", "X-Timeout-Ms"],
                )
            )
        if settings.token:
            middleware.append(Middleware(TokenCheck, token=settings.token))
        handlers: Any = {RefusedError: _of_refused, HTTPException: _of_http, Exception: _of_bug}
        self.app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=self._lifespan)

    @contextlib.asynccontextmanager
    async def _lifespan(self, app):
        """Warms the models up while the server already answers /livez; finally lets what waits finish."""
        warming = threading.Thread(target=self._warm_up, name="warm-up", daemon=True)
        warming.start()
        yield
        self.is_ready = False
        self._threads.shutdown()
        for model in (*self.models, *self.versioned.values()):
            model.stop()

    def _warm_up(self):
        started = time.monotonic()
        try:
            for model in self.versioned.values():
                model.watch(_SECONDS_BETWEEN_LOOKS)
            for model in self.models:
                model.start(self.settings.max_batch_tokens, self.settings.batch_timeout, self.metrics)
        except Exception as error:  # /livez and /readyz report it
            self.failure = f"the warm-up failed: {type(error).__name__}: {error}"
            log.error(self.failure)
            return
        self.is_ready = True
        log.info("ready; the warm-up took %.1f s", time.monotonic() - started)

    async def _list_models(self, request):
        return Response(body_of({"models": [_described(model) for model in self.models]}), media_type=_JSON)

    async def _describe(self, request):
        url = str(request.base_url).rstrip("/")
        document = description(self.models, url, self.settings.token is not None)
        document["paths"] |= tensorflow_rest.described(self.versioned.values())
        return Response(body_of(document), media_type=_JSON)

    async def _tell_alive(self, request):
        return _plain(500, self.failure) if self.failure else _plain(200, "alive")

    async def _tell_ready(self, request):
        return _plain(200, "ready") if self.is_ready else _plain(503, self.failure or "warming up")

    async def _tell_metrics(self, request):
        return Response(self.metrics.exposed(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _route(self, route, content):
        """Returns the route of a name; `content` makes the response to a body, in a thread."""
        of_all = route in _EXPLANATIONS
        models = [model for model in self.models if of_all or TASKS[model.task].route == route]

        async def answer(request: Request):
            started, ticket, status, model = time.monotonic(), Ticket(), 500, None
            try:
                with self._admitted() as place:
                    deadline = started + self._timeout_of(request)
                    body = read_json(await self._read(request, deadline))
                    model = _chosen(models, body, route)
                    request.scope["served"] = {"model": model.name, "task": model.task}
                    arguments = (content, model, body, ticket, self.settings.max_items)
                    answered = await self._answer(request, ticket, deadline, place, arguments)
                status = 200
                return Response(answered, media_type=_JSON)
            except RefusedError as refused:
                status = refused.status
                self.metrics.rejections.labels(status=str(status)).inc()
                raise
            finally:
                labels = {"model": model.name if model else "", "task": model.task if model else ""}
                seconds = self.metrics.request_seconds.labels(**labels, length=str(ticket.longest), status=str(status))
                seconds.observe(time.monotonic() - started)

        return Route(f"/v1/{route}", answer, methods=["POST"])

    async def _answer_tensorflow(self, request):
        """Answers in the form of TensorFlow Serving."""
        path = request.scope.get("raw_path", request.url.path.encode()).decode("latin-1").partition("?")[0]
        if not path.lower().startswith("/v1/"):
            raise HTTPException(404)
        started, status, labels = time.monotonic(), 500, {"model": "", "task": ""}
        try:
            with self._admitted() as place:
                labels = request.scope["served"] = tensorflow_rest.labels_of(self.versioned, request.method, path)
                deadline = started + self._timeout_of(request)
                body = await self._read(request, deadline)
                arguments = (self.versioned, request.method, path, body)
                content = await self._in_thread(request, place, deadline, tensorflow_rest.answer, *arguments)
            status = 200
            return Response(content, media_type=_JSON)
        except RefusedError as refused:
            status = refused.status
            self.metrics.rejections.labels(status=str(status)).inc()
            raise
        finally:
            seconds = self.metrics.request_seconds.labels(**labels, length="0", status=str(status))
            seconds.observe(time.monotonic() - started)

    def _timeout_of(self, request):
        told = request.headers.get("x-timeout-ms")
        if told is None:
            return self.settings.timeout
        if not told.isdecimal() or not 0 < int(told) <= 10**9:
            raise RefusedError(
                422, f"X-Timeout-Ms is {shown(told)}, but must be a whole number of milliseconds above 0"
            )
        return min(self.settings.timeout, int(told) / 1000)

    async def _read(self, request, deadline):
        try:
            async with asyncio.timeout(deadline - time.monotonic()):
                return await read_body(request, self.settings.max_body_bytes)
        except TimeoutError:
            reason = "the body did not arrive before the deadline"
            raise RefusedError(408, reason, Connection="close") from None
        except ClientDisconnect:
            raise RefusedError(499, "the client closed the connection") from None

    @contextlib.contextmanager
    def _admitted(self):
        """Gives a request its place. The place is free again when the request and its thread have ended."""
        if not self.is_ready:
            raise RefusedError(503, self.failure or "the models are warming up; try again soon", Retry_After="5")
        if not self._places.acquire(blocking=False):
            raise RefusedError(429, "the server is busy; try again later", Retry_After="1")
        self.metrics.admitted.inc()
        place = contextlib.ExitStack()
        place.callback(self._places.release)
        place.callback(self.metrics.admitted.dec)
        with place:
            yield place

    async def _answer(self, request, ticket, deadline, place, arguments):
        """Calls a function of a model with its arguments in a thread. Returns the body of the response."""
        context = contextvars.copy_context()
        context.run(current_ticket.set, ticket)
        try:
            return await self._in_thread(request, place, deadline, context.run, *arguments)
        except ModelError as error:
            log.error("%s: %s", arguments[1].name, error)
            raise RefusedError(500, f"the model {arguments[1].name} failed: {error}") from error
        except ValueError as error:  # of the predictor: a mistake in a text or an option
            raise RefusedError(422, str(error)) from error
        finally:
            ticket.cancel()

    async def _in_thread(self, request, place, deadline, function, *arguments):
        """Runs a function in a thread until the deadline, or until the client goes away. Returns its result."""
        job = self._threads.submit(function, *arguments)
        held = place.pop_all()
        job.add_done_callback(lambda _: held.close())
        waited = asyncio.ensure_future(asyncio.wrap_future(job))
        gone = asyncio.ensure_future(request.receive())  # after the body it only reports that the client is gone
        try:
            await asyncio.wait({waited, gone}, timeout=deadline - time.monotonic(), return_when="FIRST_COMPLETED")
            if waited.done():
                return waited.result()
            if gone.done():
                raise RefusedError(499, "the client closed the connection")
            raise RefusedError(504, "there was no answer before the deadline; send fewer texts, or try again later")
        finally:
            gone.cancel()
            job.cancel()
            waited.cancel()


def _chosen(models, body, route):
    """Returns the model that a request names, or the only one."""
    name = body.get("model")
    found = models if name is None else [model for model in models if model.name == name]
    listed = ", ".join(dict.fromkeys(model.name for model in models))
    if not found:
        raise RefusedError(404, f"there is no model {shown(name)} at /v1/{route}; the models are: {listed}")
    if len({model.name for model in found}) > 1:
        raise RefusedError(422, f'"model" is missing; the models of /v1/{route} are: {listed}')
    if route in _EXPLANATIONS and "task" in body:
        found = [model for model in found if model.task == body["task"]]
    if len(found) != 1:
        tasks = ", ".join(model.task for model in models if model.name == (name or listed))
        problem = f"is {shown(body['task'])}" if "task" in body else "is missing"
        raise RefusedError(422, f'"task" {problem}; the tasks of the model {name or listed} are: {tasks}')
    return found[0]


def _content(model, body, ticket, max_items):
    """Returns the response to a valid or invalid body; runs in a thread."""
    if model.task == "vectors" and "input" in body:
        return body_of(_openai_content(model, body, ticket, max_items))
    items, options = split_body(body, max_items)
    if "items" not in body:
        options = {name: value for name, value in items[0].items() if name in model.options}
        items = [{name: value for name, value in items[0].items() if name not in options}]
    return body_of({"model": model.name, "answers": model.answers(items, options)})


def _openai_content(model, body, ticket, max_items):
    """Returns the vectors of texts in OpenAI's form."""
    fields = {name: value for name, value in body.items() if name not in _OF_OPENAI}
    format_ = body.get("encoding_format", "float")
    if format_ not in ("float", "base64"):
        raise RefusedError(422, f'"encoding_format" is {shown(format_)}, but must be "float" or "base64"')
    texts = [body["input"]] if isinstance(body["input"], str) else body["input"]
    items, options = split_body({**fields, "items": texts}, max_items)
    data = []
    for index, answer in enumerate(model.answers(items, options)):
        vector = answer["vector"]
        if format_ == "base64":
            vector = base64.b64encode(np.array(vector, "<f4").tobytes()).decode()
        data.append({"object": "embedding", "index": index, "embedding": vector})
    usage = dict.fromkeys(("prompt_tokens", "total_tokens"), ticket.num_tokens)
    return {"object": "list", "data": data, "model": model.name, "usage": usage}


def _described(model):
    """Returns what a client needs to know of a model, for GET /models."""
    encoder = encoder_of(model)
    return {
        "name": model.name,
        "task": model.task,
        "route": f"/v1/{TASKS[model.task].route}",
        "fields": model.fields,
        "options": model.options,
        "labels": getattr(model.predictor, "labels", None) or None,
        "num_layers": encoder and encoder.config.num_hidden_layers,
        "num_heads": encoder and encoder.config.num_attention_heads,
    }


def _plain(status, text):
    return Response(text + "\n", status, media_type="text/plain")


def _error(status, reason, headers=None):
    return Response(body_of({"error": reason}), status, headers, _JSON)


async def _of_refused(request, error):
    return _error(error.status, error.reason, error.headers)


async def _of_http(request, error):
    reasons = {404: f"there is no {request.url.path}; GET /models lists the models and their routes"}
    reasons[405] = f"{request.method} is not possible at {request.url.path}"
    return _error(error.status_code, reasons.get(error.status_code, error.detail), error.headers)


async def _of_bug(request, error):
    return _error(500, "the server has a bug here; its log has the details")
