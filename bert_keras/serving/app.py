"""The HTTP application: its routes, admission of requests, deadlines, and the answers of errors."""

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.answers import described, other_paths, task_answer
from bert_keras.serving.batching import ModelError, Ticket, current_ticket
from bert_keras.serving.explanations import attention_answer, tokens_answer
from bert_keras.serving.forms import check, or_null
from bert_keras.serving.metrics import Metrics
from bert_keras.serving.middleware import middleware_of
from bert_keras.serving.openapi import attention_schemas, description, task_schemas, tokens_schemas
from bert_keras.serving.page_files import page_routes
from bert_keras.serving.requests import (
    RefusedError,
    json_response,
    read_body,
    read_json,
    refusal,
    shown_json,
    timeout_of,
)
from bert_keras.serving.served_models import ServedModel
from bert_keras.serving.versions import ServedFolder
from bert_keras.tasks import abilities

log = logging.getLogger("bert_keras")

# A request occupies a thread while it tokenizes and waits for its batches.
_MOST_THREADS = 64
_SECONDS_BETWEEN_LOOKS = 1.0
# Settings of the predictors that are flags of the server, and those that neither it nor a request has.
_SERVER_SETTINGS = {*vars(Limits())}
_HIDDEN_SETTINGS = {"long", "batch_size"}


class _Row(NamedTuple):
    """The route of POST requests to a path, and the tasks of the models that answer it. A request may name a task."""

    path: str
    answer: Callable[[ServedModel, str, dict[str, Any], Ticket, int], Any]
    schemas: Callable[..., tuple[Any, Any, Any]]
    tasks: Collection[str]
    takes_task: bool = False

    def models(self, models: Sequence[ServedModel]) -> list[ServedModel]:
        """Returns those models that answer it."""
        return [model for model in models if model.task in self.tasks]


def _tasks_by_path() -> dict[str, list[str]]:
    """Returns the tasks of each path: those of this server, and of text-embeddings-inference."""
    found: dict[str, list[str]] = {}
    for name, task in sorted(abilities().items(), key=lambda pair: pair[1].route):
        found.setdefault(f"/v1/{task.route}", []).append(name)
    return found | other_paths()


def _rows() -> Iterator[_Row]:
    """Yields the routes of all tasks."""
    for path, tasks in _tasks_by_path().items():
        yield _Row(path, task_answer, task_schemas, tasks)
    yield _Row("/v1/tokens", tokens_answer, tokens_schemas, abilities(), takes_task=True)
    yield _Row("/v1/attention", attention_answer, attention_schemas, abilities(), takes_task=True)


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
        hosts: the only names that requests may have as their host, without a port; empty: any.
    """

    max_batch_tokens: int = 4096
    batch_timeout: float = 0.002
    max_queue: int = 256
    timeout: float = 30.0
    max_body_bytes: int = 8 << 20
    max_items: int = 1000
    token: str | None = None
    cors_origins: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()


class Server:
    """The state of a running server. `app` is the ASGI application.

    Args:
        folders: the folders with its models, which are open but not warm.
        settings: ServerSettings.
    """

    def __init__(self, folders: Sequence[ServedFolder], settings: ServerSettings):
        self._folders, self.settings, self.metrics = folders, settings, Metrics()
        self.is_ready, self.failure = False, ""
        self._is_stopping = False
        self._places = threading.BoundedSemaphore(settings.max_queue)
        self._threads = concurrent.futures.ThreadPoolExecutor(min(_MOST_THREADS, settings.max_queue), "requests")
        # All versions of a model have the same tasks.
        self._rows = [row for row in _rows() if row.takes_task or row.models(self.models)]
        routes = [
            *map(self._route, self._rows),
            *page_routes(),
            Route("/models", self._list_models),
            Route("/openapi.json", self._describe),
            Route("/livez", self._tell_alive),
            Route("/readyz", self._tell_ready),
            Route("/metrics", self._tell_metrics),
        ]
        handlers: Any = {HTTPException: _answer_http_error, Exception: _answer_bug}
        middleware = middleware_of(settings.hosts, settings.cors_origins, settings.token)
        self.app = Starlette(routes=routes, middleware=middleware, exception_handlers=handlers, lifespan=self._lifespan)
        self.app.router.redirect_slashes = False

    @property
    def models(self) -> list[ServedModel]:
        """The models that answer now."""
        return [model for folder in self._folders for model in folder.models]

    @contextlib.asynccontextmanager
    async def _lifespan(self, app: Starlette) -> AsyncIterator[None]:
        """Warms the models up while the server already answers /livez; finally lets what waits finish."""
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        yield
        self.is_ready, self._is_stopping = False, True
        # All requests have been answered. Work of a request that was given up may continue, but nobody waits for it.
        self._threads.shutdown(wait=False, cancel_futures=True)
        for folder in self._folders:
            folder.stop()
        for model in self.models:
            model.stop()

    def _warm_up(self) -> None:
        started = time.monotonic()
        try:
            for folder in self._folders:
                if self._is_stopping:
                    return
                folder.start(self._start)
        except Exception as error:  # /livez and /readyz report it
            reason = error if isinstance(error, Mistake) else f"{type(error).__name__}: {error}"
            self.failure = f"the warm-up failed: {reason}"
            log.error(self.failure)
            return
        for folder in self._folders:
            folder.watch(_SECONDS_BETWEEN_LOOKS, self._start)
        self.is_ready = True
        log.info("ready; the warm-up took %.1f s", time.monotonic() - started)

    def _start(self, model: ServedModel) -> None:
        model.start(self.settings.max_batch_tokens, self.settings.batch_timeout, self.metrics)

    async def _list_models(self, request: Request) -> Response:
        listed = [described(model, folder) for folder in self._folders for model in folder.models]
        return json_response({"models": listed})

    async def _describe(self, request: Request) -> Response:
        url, models = str(request.base_url).rstrip("/"), self.models
        routes = [(row.path, row.schemas, found) for row in self._rows if (found := row.models(models))]
        document = description(routes, url, self.settings.max_items, self.settings.token is not None)
        return json_response(document)

    async def _tell_alive(self, request: Request) -> Response:
        return _plain(500, self.failure) if self.failure else _plain(200, "alive")

    async def _tell_ready(self, request: Request) -> Response:
        return _plain(200, "ready") if self.is_ready else _plain(503, self.failure or "warming up")

    async def _tell_metrics(self, request: Request) -> Response:
        for folder in self._folders:
            for name in {model.name for model in folder.models}:
                self.metrics.failed_versions.labels(model=name).set(len(folder.failed))
        return Response(self.metrics.exposed(), media_type="text/plain; version=0.0.4; charset=utf-8")

    def _route(self, row: _Row) -> Route:
        """Returns a route. All requests to models take this way: body, place, thread, model, answer, JSON."""

        async def answer(request: Request) -> Response:
            started, ticket, status = time.monotonic(), Ticket(), 500
            request.scope["served"] = ticket.served
            try:
                if not self.is_ready:
                    reason = self.failure or "the models are warming up; try again soon"
                    raise RefusedError(503, reason, Retry_After="5")
                deadline = started + timeout_of(request, self.settings.timeout)
                body = await read_body(request, self.settings.max_body_bytes, deadline)
                answered = await self._answer(request, deadline, ticket, row, body)
                status = 200
                return answered
            except RefusedError as refused:
                status = refused.status_code
                self.metrics.rejections.labels(status=str(status)).inc()
                raise
            finally:
                labels = {"model": "", "task": ""} | ticket.served
                seconds = self.metrics.request_seconds.labels(**labels, length=str(ticket.longest), status=str(status))
                seconds.observe(time.monotonic() - started)

        return Route(row.path, answer, methods=["POST"])

    async def _answer(self, request: Request, deadline: float, ticket: Ticket, row: _Row, body: bytes) -> Response:
        """Makes the response to a request in a thread, until its deadline or until the client goes away.

        The place of the request is free again when the thread has ended.
        """
        if not self._places.acquire(blocking=False):
            raise RefusedError(429, "the server is busy; try again later", Retry_After="1")
        self.metrics.admitted.inc()
        request.scope["is_admitted"] = True
        job = self._threads.submit(self._content, ticket, row, body)
        job.add_done_callback(self._free_place)
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
            ticket.cancel()
            gone.cancel()
            job.cancel()
            waited.cancel()

    def _free_place(self, _: concurrent.futures.Future) -> None:
        self._places.release()
        self.metrics.admitted.dec()

    def _content(self, ticket: Ticket, row: _Row, body: bytes) -> Response:
        """Returns the response to a body, in a thread of its requests."""
        current_ticket.set(ticket)
        ticket.check()
        fields = read_json(body)
        while True:
            model = _chosen(row, row.models(self.models), fields)
            with model.in_use() as is_open:
                if not is_open:
                    continue
                ticket.served.update(model=model.name, task=model.task)
                try:
                    return json_response(row.answer(model, row.path, fields, ticket, self.settings.max_items))
                except ModelError as error:
                    log.error("%s: %s", model.name, error)
                    raise RefusedError(500, f"the model {model.name} failed: {error}") from error
                except Mistake as error:  # of the predictor: in a text or an option
                    error.spell(_field_name)
                    raise RefusedError(422, str(error)) from error


def _field_name(setting: str) -> str:
    """Returns the name of a setting for a client: a field of the request, a setting of the server, or ""."""
    if setting in _HIDDEN_SETTINGS:
        return ""
    return f"the server's {setting}" if setting in _SERVER_SETTINGS else setting


def _chosen(row: _Row, models: Sequence[ServedModel], body: Mapping[str, Any]) -> ServedModel:
    """Returns the model that a request names, or the only one."""
    name, task = (body.get(field) for field in ("model", "task"))
    check(name, or_null({"type": "string"}), "model")
    if row.takes_task:
        check(task, or_null({"type": "string"}), "task")
    found = models if name is None else [model for model in models if model.name == name]
    listed = ", ".join(dict.fromkeys(model.name for model in models))
    if not found:
        raise RefusedError(404, f"there is no model {shown_json(name)} at {row.path}; the models are: {listed}")
    if len({model.name for model in found}) > 1:
        raise RefusedError(422, f'"model" is missing; the models of {row.path} are: {listed}')
    if row.takes_task and task is not None:
        found = [model for model in found if model.task == task]
    if len(found) != 1:
        tasks = ", ".join(model.task for model in models if model.name == (name or listed))
        problem = "is missing" if task is None else f"is {shown_json(task)}"
        raise RefusedError(422, f'"task" {problem}; the tasks of the model {name or listed} are: {tasks}')
    return found[0]


def _plain(status: int, text: str) -> Response:
    return Response(text + "\n", status, media_type="text/plain")


async def _answer_http_error(request: Request, error: HTTPException) -> Response:
    reasons = {404: f"there is no {request.url.path}; GET /models lists the models and their routes"}
    reasons[405] = f"{request.method} is not possible at {request.url.path}"
    known = {} if isinstance(error, RefusedError) else reasons
    return refusal(error.status_code, known.get(error.status_code, error.detail), error.headers)


async def _answer_bug(request: Request, error: Exception) -> Response:
    return refusal(500, "the server has a bug here; its log has the details")
