"""What all tasks have in common: a few batches of texts at a time are read, checked and answered, in order."""

import collections
import dataclasses
import itertools
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from bert_keras.prediction.argument_error import ArgumentError
from bert_keras.prediction.limits import Limits

log = logging.getLogger("bert_keras")

# Texts are taken in groups, so that those of one length share batches: the first group is one batch, so that the first
# answer comes soon, and each is twice as large as the one before, up to so many batches or characters.
_BATCHES_A_GROUP = 32
_CHARS_A_GROUP = 1 << 20

ON_ERROR = ("stop", "report")


@dataclasses.dataclass(frozen=True)
class Unanswered:
    """What is given in the place of an answer where a text cannot be answered.

    Attributes:
        source: what the text is called, as "reviews.txt line 7".
        error: why there is no answer.
    """

    source: str
    error: str


@dataclasses.dataclass
class _Row:
    """A text on its way to its answer."""

    source: str
    text: Any
    error: ValueError | None = None
    encoded: Any = None
    found: list = dataclasses.field(default_factory=list)


class Predictor:
    """A model that has been loaded for one task. Its methods may be called any number of times, from any thread.

    Attributes:
        network: the Network that answers, made by the constructor of each class.
        limits: Limits of the input.
    """

    network = None
    limits = Limits()

    @property
    def num_traces(self) -> int:
        """How often the network has been traced: once for each padded length that has been needed."""
        return self.network.num_traces

    def answers(
        self, texts: Iterable, sources: Iterable[str] | None = None, on_error: str = "stop"
    ) -> Iterator[Any | Unanswered]:
        """Yields the answer to each text, in order.

        Texts are read only a little ahead of the answers, and both are held for a short time, so there may be any
        number of them: `texts` may be a generator over a large file.

        Args:
            texts: any iterable of what the task takes. An item may also be the ValueError that says why a text could
                not be read.
            sources: what to call each of them in an error, as "reviews.txt line 7".
            on_error: what to do about a text that cannot be answered: "stop" raises the error before the texts around
                it are answered, "report" yields an Unanswered in its place.

        Raises:
            ValueError: a text cannot be answered, or `on_error` is not one of these.
        """
        if on_error not in ON_ERROR:
            raise ArgumentError(lambda name: f'{name("on_error")} is "{on_error}", but must be one of stop, report')
        if sources is None:
            sources = (f"text {number}" for number in itertools.count(1))
            rows = zip(sources, texts, strict=False)
        else:
            rows = zip(sources, texts, strict=True)
        return self._answers(rows, on_error == "stop")

    def answer_list(self, texts: Iterable) -> list:
        """Returns the answers to a list of texts.

        Raises:
            ValueError: there are too many texts, or one of them cannot be answered.
        """
        texts = list(itertools.islice(texts, self.limits.max_texts + 1))
        if len(texts) > self.limits.max_texts:
            raise ValueError(
                f"the list has more texts than limits.max_texts, which is {self.limits.max_texts:,}; take the method "
                "answers, which yields the answers to any number of texts, or raise the limit"
            )
        return list(self.answers(texts))

    def answer_one(self, text: Any) -> Any:
        """Returns the answer to one text.

        Raises:
            ValueError: it cannot be answered.
        """
        [answer] = self.answers([text])
        return answer

    def _answers(self, rows, is_stopping):
        counts = collections.Counter()
        for group in self._groups(rows):
            counts["texts"] += len(group)
            self._encode_all(group, counts)
            error = next((row.error for row in group if row.error), None)
            if error and is_stopping:
                raise error
            for row in self._asked(group):
                yield self._finished(row, is_stopping)
        self._report(counts)

    def _groups(self, rows):
        """Yields lists of rows, which are read when they are asked for."""
        group, num_chars, num_batches = [], 0, 1
        for source, text in rows:
            is_error = isinstance(text, ValueError)
            group.append(_Row(source, None, text) if is_error else _Row(source, text))
            num_chars += _num_chars(text)
            if len(group) >= num_batches * self.network.batch_size or num_chars >= _CHARS_A_GROUP:
                yield group
                group, num_chars, num_batches = [], 0, min(2 * num_batches, _BATCHES_A_GROUP)
        if group:
            yield group

    def _asked(self, group):
        """Yields each row when the answers to its questions are in its `found`."""
        pending, asked = collections.deque(), []
        for row in group:
            pending.append(row)
            for question in () if row.error else self._questions(row.encoded):
                asked.append((question, row.found))
                if len(asked) == _BATCHES_A_GROUP * self.network.batch_size:
                    self._ask(asked)
                    asked = []
                    # Of the last text there may be more questions.
                    while len(pending) > 1:
                        yield pending.popleft()
        if asked:
            self._ask(asked)
        yield from pending

    def _ask(self, asked):
        """Puts what is read out for each question, and for how many positions, into the list that goes with it."""
        rows = self.network.answer([question for question, _ in asked])
        for (question, found), row in zip(asked, rows, strict=True):
            found.append((len(question.positions), row))

    def _finished(self, row, is_stopping):
        try:
            if row.error:
                raise row.error
            check_finite(row.found, row.source)
            return self._answer(row.text, row.encoded, row.found)
        except ValueError as error:
            if is_stopping:
                raise
            return Unanswered(row.source, str(error))

    def _encode_all(self, rows, counts):
        """Encodes the rows of a group, or notes why one cannot be; `counts` is told what `_report` says of all."""
        for row in rows:
            if row.error is None:
                try:
                    row.encoded = self._encode(row.text, row.source)
                except ValueError as error:
                    row.error = error

    def _report(self, counts):
        """Says in the log what became of all texts; `counts` has the number of "texts" and what `_encode_all` added."""

    def _encode(self, text, source):
        """Returns a text as `_questions` takes it, as its ids, checked and cut to what will be looked at."""
        raise NotImplementedError

    def _questions(self, encoded):
        """Yields the Questions that a text comes to, one at a time: a long text has as many as it has pieces."""
        raise NotImplementedError

    def _read_out(self, outputs, features):
        """See `Network`."""
        raise NotImplementedError

    def _answer(self, text, encoded, found):
        """Puts an answer together from (number of positions, what was read out for them) pairs of its questions."""
        raise NotImplementedError


def check_finite(found, source: str) -> None:
    """Refuses what a broken model gives out, for which JSON has no numbers and which says nothing.

    Args:
        found: (number of positions, tuple of arrays) pairs.
        source: what to call the text.

    Raises:
        ValueError: a number is not finite.
    """
    arrays = (array for _, arrays in found for array in arrays)
    if not all(np.isfinite(array).all() for array in arrays):
        raise ValueError(
            f"{source}: the scores of the model are not finite numbers, so its weights are broken; take another "
            "checkpoint, or train again with a lower learning rate"
        )


def _num_chars(text):
    """Returns how many characters a text, a pair, or a text with its choices has; 0 for what is none of these."""
    if isinstance(text, tuple | list):
        return sum(map(_num_chars, text))
    return len(text) if isinstance(text, str) else 0
