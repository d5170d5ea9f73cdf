"""A network, loaded once and compiled once for each of a few lengths."""

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.prediction.argument_error import ArgumentError
from bert_keras.prediction.sequences import Question

_SHORTEST = 16


class Network:
    """Answers any number of questions of any length without being traced again. Threads may share it.

    A question is padded to the next of a few lengths, and questions of one length share batches. The sizes of a batch
    are left open when it is compiled, so that a single short sentence costs what it costs, not a batch of long ones.

    Args:
        model: any model of `modeling.models`, or a function of the same features and results.
        read_out: function of the model's outputs and its features (int32 "input_ids", "input_mask", "segment_ids" of
            [B, T], "masked_lm_positions" and "masked_lm_ids", the questions' positions and target_ids, of [B, P]) that
            gives a tuple of tensors with the batch as first axis.
        lengths: what questions are padded to, ascending; the last is the longest question there may be.
        batch_size: how many questions are answered at a time, at most.
        strategy: the `tf.distribute.Strategy` in whose scope the model was made, which splits each batch evenly over
            its devices and fills it up, because a TPU wants batches of one size; None: the one default device.

    Raises:
        ValueError: batch_size is below 1.
    """

    def __init__(
        self,
        model: Callable,
        read_out: Callable,
        lengths: Sequence[int],
        batch_size: int,
        strategy: tf.distribute.Strategy | None = None,
    ):
        if batch_size < 1:
            raise ArgumentError(lambda name: f"{name('batch_size')} is {batch_size}, but must be at least 1")
        self.batch_size = batch_size
        self.lengths = lengths
        self._function = tf.function(lambda features: read_out(model(features), features))
        self._compiled = {}
        self._lock = threading.Lock()
        self._strategy = strategy

    @property
    def num_traces(self) -> int:
        """How often the network has been traced: once for each length that has been needed."""
        return self._function.experimental_get_tracing_count()

    def answer(self, questions: Sequence[Question]) -> list[tuple[np.ndarray, ...]]:
        """Returns what `read_out` gives for each question, in their order: its row of each tensor.

        An axis of tokens or positions may be longer than the question has of them.
        """
        answers = [None] * len(questions)
        for index, rows in self.answer_by_length(questions):
            answers[index] = rows
        return answers

    def answer_by_length(self, questions: Sequence[Question]) -> Iterator[tuple[int, tuple[np.ndarray, ...]]]:
        """Yields the number of each question with its rows of `answer`, in the order in which batches are worked off.

        The rows are views of a whole batch: who keeps a part of them copies it.
        """
        by_length = {}
        for index, question in enumerate(questions):
            by_length.setdefault(self._padded_length(question), []).append(index)
        for length, indices in sorted(by_length.items()):
            for start in range(0, len(indices), self.batch_size):
                batch = indices[start : start + self.batch_size]
                asked = [questions[index] for index in batch]
                if self._strategy is None:
                    columns = self._compile(length)(_pad(asked, length, len(asked)))
                else:
                    columns = self._on_devices(asked, length)
                columns = [column.numpy() for column in columns]
                for number, index in enumerate(batch):
                    yield index, tuple(rows[number] for rows in columns)

    def _on_devices(self, questions, length):
        """Answers the questions of a batch on all devices; there may be more rows than questions."""
        size = -(-self.batch_size // self._strategy.num_replicas_in_sync)
        num_positions = max(len(question.positions) for question in questions)

        def part(context):
            first = size * context.replica_id_in_sync_group
            return _pad(questions[first : first + size], length, size, num_positions)

        features = self._strategy.experimental_distribute_values_from_function(part)
        columns = self._strategy.run(self._function, args=(features,))
        return [tf.concat(self._strategy.experimental_local_results(column), axis=0) for column in columns]

    def _padded_length(self, question):
        return next(length for length in self.lengths if length >= len(question.input_ids))

    def _compile(self, length):
        with self._lock:
            if length not in self._compiled:
                tokens, predictions = (tf.TensorSpec([None, size], tf.int32) for size in (length, None))
                self._compiled[length] = self._function.get_concrete_function(
                    {
                        "input_ids": tokens,
                        "input_mask": tokens,
                        "segment_ids": tokens,
                        "masked_lm_positions": predictions,
                        "masked_lm_ids": predictions,
                    }
                )
            return self._compiled[length]


def lengths_up_to(longest: int) -> list[int]:
    """Returns the lengths that sequences are padded to: 16, doubled until `longest`, which is the last."""
    lengths = []
    length = _SHORTEST
    while length < longest:
        lengths.append(length)
        length *= 2
    return [*lengths, longest]


def _pad(questions, length, num_rows, num_positions=None):
    """Makes the features of a batch, int32 tensors; rows beyond those of the questions are all 0."""
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


def _padded(rows, num_rows, length):
    padded = np.zeros((num_rows, length), np.int32)
    for row, values in zip(padded, rows, strict=False):
        row[: len(values)] = values
    return padded
