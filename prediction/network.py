"""A pre-trained network, loaded once and compiled once for each of a few lengths."""

import logging
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf

from modeling import HEAD_PATTERNS, POOLER_PATTERNS, PretrainingModel, load_weights, weights_by_name
from prediction.model_files import ModelFiles
from prediction.sequences import Question

log = logging.getLogger("bert_keras")

_SHORTEST = 16

# Names of the weights that each head needs, and what the head is called.
_HEADS = {
    "masked_lm": ("masked-LM head", ("cls/predictions/",)),
    "next_sentence": ("next-sentence head", ("bert/pooler/", "cls/seq_relationship/")),
}


class Network:
    """Answers any number of questions of any length without being traced anew.

    A question is padded to the next of a few lengths, and questions of one length share batches. The sizes of a batch
    are left open when it is compiled, so that a single short sentence costs what it costs, not a batch of long ones.

    Args:
        files: ModelFiles.
        head: "masked_lm" or "next_sentence", the one whose output is read.
        read_out: function of the model's outputs and its features (see `modeling.PretrainingModel`; "masked_lm_ids"
            are the questions' target_ids) that gives a tuple of tensors with the batch as first axis.
        batch_size: how many questions are answered at a time, at most.

    Raises:
        ValueError: the checkpoint lacks the head or does not fit the config, or batch_size is below 1.
    """

    def __init__(self, files: ModelFiles, head: str, read_out: Callable, batch_size: int):
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}, but must be at least 1")
        self.batch_size = batch_size
        self.lengths = lengths_up_to(files.longest)
        model = PretrainingModel(files.config)
        _load(model, files.checkpoint, head)
        self._function = tf.function(lambda features: read_out(model(features), features))
        self._compiled = {}

    @property
    def num_traces(self) -> int:
        """How often the network has been traced: once for each length that has been needed."""
        return self._function.experimental_get_tracing_count()

    def answer(self, questions: Sequence[Question]) -> list[tuple[np.ndarray, ...]]:
        """Returns what `read_out` gives for each question, in their order: its row of each tensor.

        Where the second axis is that of positions it may be longer than the question has positions.
        """
        by_length = {}
        for index, question in enumerate(questions):
            by_length.setdefault(self._padded_length(question), []).append(index)
        answers = [None] * len(questions)
        for length, indices in sorted(by_length.items()):
            for start in range(0, len(indices), self.batch_size):
                batch = indices[start : start + self.batch_size]
                columns = self._compile(length)(_pad([questions[index] for index in batch], length))
                for index, *rows in zip(batch, *(column.numpy() for column in columns), strict=True):
                    answers[index] = tuple(rows)
        return answers

    def _padded_length(self, question):
        return next(length for length in self.lengths if length >= len(question.input_ids))

    def _compile(self, length):
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


def _load(model, checkpoint, head):
    """Loads the encoder and one head; the other head is not looked at."""
    called, prefixes = _HEADS[head]
    others = tuple(prefix for other, (_, of_it) in _HEADS.items() if other != head for prefix in of_it)
    needed = {name: weight for name, weight in weights_by_name(model).items() if not name.startswith(others)}
    missing = [name for name in needed if name.startswith(prefixes) and name not in checkpoint.names]
    if missing:
        raise ValueError(
            f"{checkpoint.prefix} has no {called}: it lacks {', '.join(missing)}; "
            "give a checkpoint of pre-training, with its heads"
        )
    log.info("%s", load_weights(needed, checkpoint, ignored=HEAD_PATTERNS + POOLER_PATTERNS))


def _pad(questions, length):
    """Makes the features of a batch, int32 tensors."""
    num_positions = max(len(question.positions) for question in questions)
    features = {
        "input_ids": _padded([question.input_ids for question in questions], length),
        "input_mask": _padded([[1] * len(question.input_ids) for question in questions], length),
        "segment_ids": _padded([question.segment_ids for question in questions], length),
        "masked_lm_positions": _padded([question.positions for question in questions], num_positions),
        "masked_lm_ids": _padded([question.target_ids for question in questions], num_positions),
    }
    return {name: tf.constant(value) for name, value in features.items()}


def _padded(rows, length):
    padded = np.zeros((len(rows), length), np.int32)
    for row, values in zip(padded, rows, strict=True):
        row[: len(values)] = values
    return padded
