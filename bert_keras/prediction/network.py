"""Inference with a network that is loaded and compiled once, in batches with little padding."""

import bisect
import collections
import concurrent.futures
import contextlib
import dataclasses
import functools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.mistakes import Mistake, Remedy
from bert_keras.prediction.containers import plain

# A batch must save this many tokens of padding, because each one has an overhead. The value comes from
# counts of tokens and batches, not from timings: sentences in batches of 16 have at most 6 % of padding.
_OVERHEAD_TOKENS = 48
# A batch has at most so many tokens, or as many as `batch_size` sequences of this length if these are more, so that
# long sequences take no more memory.
_MOST_TOKENS, LENGTH_OF_FULL_BATCHES = 2048, 32
# A CPU computes so many batches at a time. The second one keeps the cores busy while the first one runs operations that
# are too small for several cores, and while Python pads and reads batches.
_BATCHES_AT_A_TIME = 2
# Explanations hold the activations of all layers, so one batch of them is computed at a time.
_one_at_a_time = threading.Lock()
_SECONDS_BETWEEN_CHECKS = 0.1

# The features of a batch, by name.
Tensors = Mapping[str, tf.Tensor]
# The outputs of a model, by name: tensors, or lists or dicts of tensors.
Outputs = Mapping[str, Any]
# What `read_out` returns, tensors [B, ...], and the rows of one question in them.
ReadOut = tuple[tf.Tensor, ...]
Results = tuple[np.ndarray, ...]


@dataclasses.dataclass(frozen=True)
class Question:
    """One input sequence of the model: T tokens with [CLS] and [SEP].

    Only the masked-LM head uses the P `positions` in [0, T) to predict, and the P token ids to score there, 0 for none.
    """

    input_ids: Sequence[int] | np.ndarray
    segment_ids: Sequence[int] | np.ndarray
    positions: Sequence[int] = ()
    target_ids: Sequence[int] = ()


class Turns:
    """The turns of batches that explanations compute without `Network.answer`, such as gradients."""

    def check_wanted(self) -> None:
        """Ends work that nobody waits for any more."""

    @contextlib.contextmanager
    def turn(self) -> Iterator[None]:
        """Waits for the turn of a batch, unless nobody waits for it any more."""
        while not _one_at_a_time.acquire(timeout=_SECONDS_BETWEEN_CHECKS):
            self.check_wanted()
        try:
            self.check_wanted()
            yield
        finally:
            _one_at_a_time.release()


class Network(Turns):
    """Answers any number of questions and is traced only once. Threads may share it.

    Questions of similar lengths share batches, see `split`. A batch is padded to the first of `lengths`, which ascend,
    that has room for its longest question. Both axes are dynamic, so a single short sentence costs neither a full batch
    nor a trace. The company of a question changes its answer by rounding alone, as the size of a batch does. A strategy
    splits each batch evenly over its devices, pads it to full size and traces once for each length: a TPU needs static
    shapes.

    Args:
        model: function of the features: int32 "input_ids", "input_mask", "segment_ids" [B, T], "masked_lm_positions"
            and "masked_lm_ids" (the questions' positions and target_ids) [B, P].
        read_out: function of the model's outputs and all features. Returns a tuple of tensors [B, ...].
        device: name of a device as `device_named` returns it; None: where TensorFlow puts it.
        extra_specs: dict of the `tf.TensorSpec`s of further features, which all questions of a call share.
    """

    def __init__(
        self,
        model: Callable[[Tensors], Outputs],
        read_out: Callable[[Outputs, Tensors], ReadOut],
        lengths: Sequence[int],
        batch_size: int,
        strategy: tf.distribute.Strategy | None = None,
        device: str | None = None,
        extra_specs: Mapping[str, tf.TensorSpec] | None = None,
    ):
        self.batch_size = batch_size
        self.lengths = lengths
        self._device, self._extra_specs = device, dict(extra_specs or {})

        def run(features: Tensors) -> ReadOut:
            with on_device(device):
                inputs = {name: value for name, value in features.items() if name not in self._extra_specs}
                return read_out(model(inputs), features)

        # AutoGraph would rewrite every function of the model, and double the time of tracing.
        self._function = tf.function(run, autograph=False)
        self._strategy = strategy

    @property
    def num_traces(self) -> int:
        """Number of times the network has been traced: once, or with a strategy once per padded length used."""
        return self._function.experimental_get_tracing_count()

    @property
    def lengths_to_trace(self) -> Sequence[int]:
        """The padded lengths that trace all that questions of any length need."""
        return self.lengths[-1:] if self._strategy is None else self.lengths

    def answer(self, questions: Sequence[Question], batch_size: int | None = None, **extra: Any) -> list[Results]:
        """Returns each question's row of the tensors of `read_out`; its axis T or P may be longer than the question.

        Args:
            batch_size: maximum number of questions in a batch; None: that of the network. It needs no new trace.
            extra: values of the features `extra_specs`.
        """
        answers = dict(self.answer_by_length(questions, batch_size, **extra))
        return [answers[index] for index in range(len(questions))]

    def answer_by_length(
        self, questions: Sequence[Question], batch_size: int | None = None, **extra: Any
    ) -> Iterator[tuple[int, Results]]:
        """Yields the index and the rows of each question, batch by batch. Copy what you keep: it is part of a batch."""
        batch_size = batch_size or self.batch_size
        padded = [padded_length(len(question.input_ids), self.lengths) for question in questions]
        order = sorted(range(len(questions)), key=padded.__getitem__)
        slices = split([padded[index] for index in order], batch_size, self._strategy is not None)
        batches = [order[start:end] for start, end in slices]

        def run(batch: list[int]) -> list[np.ndarray]:
            return self._run([questions[index] for index in batch], padded[batch[-1]], batch_size, extra)

        for batch, columns in zip(batches, self._in_turn(run, batches), strict=True):
            for number, index in enumerate(batch):
                yield index, tuple(rows[number] for rows in columns)

    def _in_turn(
        self, run: Callable[[list[int]], list[np.ndarray]], batches: Sequence[list[int]]
    ) -> Iterator[list[np.ndarray]]:
        """Yields the result of each batch in order."""
        if len(batches) < 2 or not self.is_on_cpu:
            yield from map(run, batches)
            return
        with on_device(self._device):
            _ = self._compiled  # Keras traces in the thread of its settings
        with concurrent.futures.ThreadPoolExecutor(_BATCHES_AT_A_TIME) as threads:
            running = collections.deque()
            for batch in batches:
                running.append(threads.submit(run, batch))
                if len(running) > _BATCHES_AT_A_TIME:
                    yield running.popleft().result()
            while running:
                yield running.popleft().result()

    @functools.cached_property
    def is_on_cpu(self) -> bool:
        """Whether one CPU answers."""
        has_gpu = bool(tf.config.list_physical_devices("GPU"))
        return self._strategy is None and (not has_gpu or (self._device or "").startswith("/CPU"))

    def _run(
        self, questions: Sequence[Question], length: int, batch_size: int, extra: Mapping[str, Any]
    ) -> list[np.ndarray]:
        """Returns the tensors of `read_out` for a batch as arrays."""
        try:
            with on_device(self._device):
                if self._strategy is None:
                    specs = self._extra_specs.items()
                    shared = {name: tf.constant(extra[name], spec.dtype) for name, spec in specs}
                    columns = self._compiled(_pad(questions, length, len(questions)) | shared)
                else:
                    columns = self._on_devices(self._strategy, questions, length, batch_size)
                return [column.numpy() for column in columns]
        except tf.errors.ResourceExhaustedError as error:
            raise Mistake(
                "the device's memory does not hold {} sequences of {} tokens{}",
                len(questions),
                length,
                Remedy("; give a lower {batch_size} than {}", len(questions)) if len(questions) > 1 else "",
            ) from error

    def _on_devices(
        self, strategy: tf.distribute.Strategy, questions: Sequence[Question], length: int, batch_size: int
    ) -> list[tf.Tensor]:
        """Answers a batch on all devices; there may be more rows than questions."""
        size = -(-batch_size // strategy.num_replicas_in_sync)
        num_positions = max(len(question.positions) for question in questions)

        def part(context: tf.distribute.experimental.ValueContext) -> dict[str, tf.Tensor]:
            first = size * context.replica_id_in_sync_group
            return _pad(questions[first : first + size], length, size, num_positions)

        features = strategy.experimental_distribute_values_from_function(part)
        columns = strategy.run(self._function, args=(features,))
        return [tf.concat(strategy.experimental_local_results(column), axis=0) for column in columns]

    @functools.cached_property
    def _compiled(self) -> Callable[[Tensors], ReadOut]:
        # Threads may come here together: TensorFlow traces equal signatures once.
        names = ("input_ids", "input_mask", "segment_ids", "masked_lm_positions", "masked_lm_ids")
        specs = dict.fromkeys(names, tf.TensorSpec([None, None], tf.int32))
        return self._function.get_concrete_function(specs | self._extra_specs)


def check_batch_size(batch_size: int) -> None:
    """Checks a maximum number of sequences in a batch."""
    if type(plain(batch_size)) is not int or batch_size < 1:
        raise Mistake("{batch_size} is {!r}, but must be a whole number above 0", batch_size)


def device_named(device: str | None) -> str | None:
    """Returns the name that TensorFlow gives to a device such as "cpu", "gpu" or "gpu:1", which must exist."""
    if device is None:
        return None
    platform, _, number = device.lower().partition(":") if isinstance(device, str) else ("", "", "")
    if platform not in ("cpu", "gpu") or not (number or "0").isdecimal():
        raise Mistake('{device} is "{}", but must be "cpu", "gpu" or one of several, such as "gpu:1"', device)
    num_devices = len(tf.config.list_logical_devices(platform.upper()))
    if int(number or 0) >= num_devices:
        raise Mistake(
            '{device} is "{}", but TensorFlow finds {} {}{} here; leave it out to use what there is',
            device,
            num_devices or "no",
            platform.upper(),
            "s" if num_devices > 1 else "",
        )
    return f"/{platform.upper()}:{int(number or 0)}"


def on_device(device: str | None) -> contextlib.AbstractContextManager:
    """Returns a context that puts tensors and weights on a device; None: where TensorFlow puts them."""
    return contextlib.nullcontext() if device is None else tf.device(device)


def lengths_up_to(longest: int, shortest: int = 1, num_steps: int = 16) -> list[int]:
    """Returns padded lengths, with so many equal steps from each power of two to the next; `longest` is the last.

    Few different shapes help TensorFlow, which prepares its kernels for each one.
    """
    lengths = []
    while shortest < longest:
        lengths.append(shortest)
        shortest += max(1, (1 << shortest.bit_length() - 1) // num_steps)
    return [*lengths, longest]


def padded_length(num_tokens: int, lengths: Sequence[int]) -> int:
    """Returns the lowest of ascending lengths that has room for some tokens."""
    return lengths[bisect.bisect_left(lengths, num_tokens)]


def split(lengths: Sequence[int], batch_size: int, is_filled: bool = False) -> Iterator[tuple[int, int]]:
    """Yields the start and the end of each batch of sequences with ascending lengths, the longest first.

    A batch is padded to its longest sequence. It has at most `batch_size` sequences, and at most `_MOST_TOKENS` or the
    tokens of so many of `LENGTH_OF_FULL_BATCHES`. With `is_filled`, it is padded to `batch_size` sequences instead, of
    any length. If each batch counts as `_OVERHEAD_TOKENS` more, no other batches compute fewer tokens.
    """
    most_tokens = max(_MOST_TOKENS, batch_size * LENGTH_OF_FULL_BATCHES)
    # The best batches of the first sequences: their tokens, and the start of the last batch.
    tokens, starts = np.zeros(len(lengths) + 1, np.int64), [0]
    for end, length in enumerate(lengths, 1):
        fits = batch_size if is_filled else max(1, most_tokens // length)
        first = max(0, end - min(batch_size, fits))
        num_rows = batch_size if is_filled else np.arange(end - first, 0, -1)
        totals = tokens[first:end] + num_rows * length
        starts.append(first + int(totals.argmin()))
        tokens[end] = totals.min() + _OVERHEAD_TOKENS
    end = len(lengths)
    while end:
        yield starts[end], end
        end = starts[end]


def _pad(
    questions: Sequence[Question], length: int, num_rows: int, num_positions: int | None = None
) -> dict[str, tf.Tensor]:
    """Makes the int32 features of a batch; rows after the last question are all 0."""
    if num_positions is None:
        num_positions = max(len(question.positions) for question in questions)
    features = {
        "input_ids": _padded([question.input_ids for question in questions], num_rows, length),
        "input_mask": _padded([[1] * len(question.input_ids) for question in questions], num_rows, length),
        "segment_ids": _padded([question.segment_ids for question in questions], num_rows, length),
        "masked_lm_positions": _padded([question.positions for question in questions], num_rows, num_positions),
        "masked_lm_ids": _padded([question.target_ids for question in questions], num_rows, num_positions),
    }
    return {name: tf.constant(value) for name, value in features.items()}


def _padded(rows: Iterable[Sequence[int] | np.ndarray], num_rows: int, length: int) -> np.ndarray:
    padded = np.zeros((num_rows, length), np.int32)
    for row, values in zip(padded, rows, strict=False):
        row[: len(values)] = values
    return padded
