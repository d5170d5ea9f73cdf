"""Batches across requests: one thread per model runs the sequences of all requests, grouped by length."""

import collections
import concurrent.futures
import contextlib
import contextvars
import dataclasses
import itertools
import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from bert_keras.prediction.network import (
    LENGTH_OF_FULL_BATCHES,
    Network,
    Question,
    Results,
    Turns,
    lengths_up_to,
    padded_length,
)
from bert_keras.serving.metrics import Metrics


class ModelError(Exception):
    """The model could not compute an answer; this is not the client's mistake."""


class Ticket:
    """One request: its sequences share a cancellation, and are counted.

    Attributes:
        num_tokens: number of tokens of all its sequences so far, [CLS] and [SEP] included.
        longest: length class of the longest of them, see `BatchingNetwork`.
        served: the "model" and the "task" that answer it, when they are known.
    """

    def __init__(self) -> None:
        self.num_tokens, self.longest = 0, 0
        self.served: dict[str, str] = {}
        self._lock, self._is_cancelled = threading.Lock(), False
        self._future: concurrent.futures.Future | None = None

    def cancel(self) -> None:
        """Drops the sequences that wait, and ends the call that waits for them."""
        with self._lock:
            self._is_cancelled = True
            if self._future:
                self._future.cancel()

    def check(self) -> None:
        """Ends work that nobody waits for any more.

        Raises:
            concurrent.futures.CancelledError: the request was cancelled.
        """
        if self._is_cancelled:
            raise concurrent.futures.CancelledError

    def new_future(self) -> concurrent.futures.Future:
        """Returns the future of the next sequences; it is cancelled already if the ticket is."""
        future = concurrent.futures.Future()
        with self._lock:
            self._future = future
            if self._is_cancelled:
                future.cancel()
        return future


# The ticket of the request that the present thread answers.
current_ticket: contextvars.ContextVar[Ticket | None] = contextvars.ContextVar("current_ticket", default=None)


@dataclasses.dataclass(eq=False)
class _Call:
    """The sequences of one call of `answer`, and their results so far. The call with the lowest `turn` is the next."""

    future: concurrent.futures.Future
    results: list[Any]
    num_left: int
    turn: int


@dataclasses.dataclass(frozen=True)
class _Waiting:
    """A sequence in the queue, with its index in the call."""

    question: Question
    call: _Call
    index: int
    since: float


# Length class and values of the extra features; sequences of one key may share a batch.
_Key = tuple[int, tuple[tuple[str, Any], ...]]
_Queues = dict[_Call, collections.deque[_Waiting]]


class BatchingNetwork(Turns):
    """Answers like a `Network`, but sequences of similar lengths share batches, whatever request they belong to.

    Sequences of one class of lengths share batches: up to 16 tokens, 24, 32, 48, 64, 96 and so on, because narrower
    classes fill more slowly. The network pads only to the longest sequence of a batch.

    Put it in the place of a predictor's network; then call the predictor from many threads. A batch starts when it is
    full, or when its first sequence has waited for `batch_timeout` seconds. After a batch with one sequence, which a
    single client sends, the next one starts at once. Calls take turns, so that one with many sequences does not let
    others wait for all its batches. The number of requests that the server admits limits the queue.

    Args:
        network: the network that computes the batches.
        max_batch_tokens: maximum number of tokens in a batch, padding included; a batch has at least one sequence.
        batch_timeout: seconds.
        labels: labels of the metrics: model and task.
    """

    def __init__(
        self, network: Network, max_batch_tokens: int, batch_timeout: float, metrics: Metrics, labels: dict[str, str]
    ):
        longest, self.batch_size = network.lengths[-1], network.batch_size
        # A network with one length, which pads all sequences to it, has one class.
        self.lengths = sorted({*network.lengths} & {*lengths_up_to(longest, 16, 2)})
        self._network, self._max_batch_tokens, self._batch_timeout = network, max_batch_tokens, batch_timeout
        self._metrics, self._labels = metrics, labels
        self._queues: dict[_Key, _Queues] = {}
        self._turns = itertools.count()
        self._changed, self._is_closed, self._waits = threading.Condition(), False, True
        self._thread = threading.Thread(target=self._run, name=f"batches of {labels['model']}", daemon=True)
        self._thread.start()

    @property
    def num_traces(self) -> int:
        """See `Network`."""
        return self._network.num_traces

    def check_wanted(self) -> None:
        """Ends the work for a request that was cancelled; see `Ticket.check`."""
        if ticket := current_ticket.get():
            ticket.check()

    def answer(self, questions: Sequence[Question], batch_size: int | None = None, **extra: Any) -> list[Results]:
        """Returns each question's rows, as `Network.answer` does; `batch_size` is not used.

        Raises:
            ModelError: the network failed, or its results are not finite numbers.
            concurrent.futures.CancelledError: the request was cancelled.
        """
        if not questions:
            return []
        ticket = current_ticket.get() or Ticket()
        call = _Call(ticket.new_future(), [None] * len(questions), len(questions), next(self._turns))
        values = tuple((name, tuple(v) if isinstance(v, list) else v) for name, v in sorted(extra.items()))
        now = time.monotonic()
        with self._changed:
            if self._is_closed:
                raise ModelError("the server is stopping")
            for index, question in enumerate(questions):
                length = padded_length(len(question.input_ids), self.lengths)
                ticket.num_tokens += len(question.input_ids)
                ticket.longest = max(ticket.longest, length)
                queues = self._queues.setdefault((length, values), {})
                queues.setdefault(call, collections.deque()).append(_Waiting(question, call, index, now))
            self._changed.notify_all()
        return call.future.result()

    def answer_by_length(
        self, questions: Sequence[Question], batch_size: int | None = None, **extra: Any
    ) -> Iterator[tuple[int, Results]]:
        """Yields the index and the rows of each question."""
        yield from enumerate(self.answer(questions, batch_size, **extra))

    def close(self, seconds: float | None = None) -> None:
        """Answers what waits, and ends the thread; waits for its end, at most for some seconds."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        self._thread.join(seconds)

    def _run(self) -> None:
        while (taken := self._take()) is not None:
            key, batch = taken
            if batch:
                self._run_batch(key, batch)

    def _take(self) -> tuple[_Key, list[_Waiting]] | None:
        """Waits for the next batch and returns it with its key; None: the network is closed and nothing waits."""
        with self._changed:
            while True:
                if not self._queues:
                    if self._is_closed:
                        return None
                    self._changed.wait()
                    continue
                key = min(self._queues, key=lambda key: min(call.turn for call in self._queues[key]))
                queues, most = self._queues[key], self._most(key)
                first = min(queue[0].since for queue in queues.values())
                left = first + self._batch_timeout * self._waits - time.monotonic()
                if sum(map(len, queues.values())) < most and left > 0 and not self._is_closed:
                    self._changed.wait(left)
                    continue
                batch = self._next_batch(queues, most)
                if not queues:
                    del self._queues[key]
                self._waits = len(batch) > 1
                return key, batch

    def _next_batch(self, queues: _Queues, most: int) -> list[_Waiting]:
        """Takes a sequence of each call in turn, until the batch is full."""
        batch, calls = [], collections.deque(sorted(queues, key=lambda call: call.turn))
        while calls and len(batch) < most:
            call = calls.popleft()
            if call.future.done():  # cancelled, or another of its batches failed
                del queues[call]
                continue
            batch.append(queues[call].popleft())
            if queues[call]:
                calls.append(call)
            else:
                del queues[call]
        for waiting in batch:
            waiting.call.turn = next(self._turns)
        return batch

    def _most(self, key: _Key) -> int:
        return max(1, self._max_batch_tokens // key[0])

    def _run_batch(self, key: _Key, batch: list[_Waiting]) -> None:
        length, values = key
        started = time.monotonic()
        labels = self._labels | {"length": str(length)}
        for waiting in batch:
            self._metrics.queue_seconds.labels(**labels).observe(started - waiting.since)
        questions = [waiting.question for waiting in batch]
        try:
            # The network does not split the batch, whose tokens `_most` bounds already.
            size = max(len(questions), -(-self._max_batch_tokens // LENGTH_OF_FULL_BATCHES))
            rows = self._network.answer(questions, size, **dict(values))
            if not all(np.isfinite(array).all() for row in rows for array in row):
                raise ModelError("the results of the model are not finite numbers, so its weights are broken")
        except Exception as error:  # a thread that dies would let every request wait
            failed = error if isinstance(error, ModelError) else ModelError(f"{type(error).__name__}: {error}")
            for waiting in batch:
                _finish(waiting.call.future, error=failed)
            return
        self._metrics.inference_seconds.labels(**labels).observe(time.monotonic() - started)
        self._metrics.batch_fill.labels(**labels).observe(len(batch) / self._most(key))
        self._metrics.tokens.labels(**self._labels).inc(sum(len(question.input_ids) for question in questions))
        for waiting, row in zip(batch, rows, strict=True):
            call = waiting.call
            # A copy, so that the memory of the batch can be freed.
            call.results[waiting.index] = tuple(array.copy() for array in row)
            call.num_left -= 1
            if not call.num_left:
                _finish(call.future, call.results)


def _finish(
    future: concurrent.futures.Future, results: list[Any] | None = None, error: Exception | None = None
) -> None:
    """Sets the result or the error of a future, unless it was cancelled or has failed."""
    with contextlib.suppress(concurrent.futures.InvalidStateError):
        future.set_exception(error) if error else future.set_result(results)
