"""The base class of all predictors: it reads, checks and answers texts in order."""

import collections
import dataclasses
import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from typing import Any, Literal, Unpack, overload

import numpy as np

from bert_keras.data_prep.text.places import Ids, Token
from bert_keras.mistakes import Mistake, Setting
from bert_keras.prediction.arguments import ON_ERROR, Limits, PipeOptions, check_choice
from bert_keras.prediction.containers import Whole, iterate, named, num_chars, plain
from bert_keras.prediction.export_facts import ExportFacts
from bert_keras.prediction.loaded_model import NOT_FINITE, Answer, LoadedModel, Text
from bert_keras.prediction.network import Question, Results, check_batch_size

# Texts are processed in groups, so that texts of one length share batches. The first group of a stream is one batch, so
# that its answers come soon. Each next group is twice as large, up to these numbers of batches and characters.
_BATCHES_A_GROUP, _CHARS_A_GROUP = 32, 1 << 20

# The number of positions and the results of each question of a text.
Found = list[tuple[int, Results]]
Counts = collections.Counter[str]  # numbers of texts and of tokens by name, for the log


@dataclasses.dataclass(frozen=True)
class Unanswered:
    """Replaces an answer if a text cannot be answered.

    Attributes:
        source: name of the text, such as "reviews.txt line 7".
        error: the reason.
    """

    source: str
    error: str

    def readable(self) -> str:
        return f"no answer: {self.error}"


@dataclasses.dataclass(frozen=True)
class _Call:
    """The settings of one call; `extra` has the values of the features `extra_specs`."""

    batch_size: int
    is_stopping: bool
    is_reporting: bool
    options: dict[str, Any]
    extra: dict[str, Any]
    advance: Callable[[], None]
    is_prompt: bool


@dataclasses.dataclass
class Row:
    """A text that is being processed."""

    source: str
    text: Any
    error: Mistake | None = None
    encoded: Any = None
    is_cut: bool = False
    found: Found = dataclasses.field(default_factory=list)


class Predictor(LoadedModel[Text, Answer], ExportFacts):
    """A model that is loaded for one task. You may call it any number of times, from any thread.

    It has the attributes of `LoadedModel`.
    """

    # Maximum size of the texts of a group, by `_size_of`.
    max_group_size = _CHARS_A_GROUP
    # Whether the first groups of a stream are small, so that the first answer comes soon.
    is_prompt = True

    def __init__(
        self,
        path: str | os.PathLike,
        batch_size: int,
        limits: Limits | None,
        options: dict[str, Any],
        **loading: Any,
    ) -> None:
        self._given = options
        super().__init__(path, batch_size, limits, **loading)

    def _prepare(self) -> None:
        self.options = self._default_options()
        self.options = self._with_options(self._given)

    def _default_options(self) -> dict[str, Any]:
        """Returns the options that this model has, with their defaults."""
        return {}

    def _check_options(self, options: dict[str, Any]) -> None:
        """Checks the values of all options."""

    def _with_options(self, given: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the options of a call, given some of them; None: the default of the object."""
        for name in given:
            if name not in self.options:
                has = f"its options are {', '.join(self.options)}" if self.options else "it has none"
                raise Mistake("{} is not an option of {}; {}", Setting(name), self._called(), has)
        options = self.options | {name: plain(value) for name, value in given.items() if value is not None}
        self._check_options(options)
        return options

    def _called(self) -> str:
        return type(self).__name__ + (f" for {self.settings['task']}" if self.settings else "")

    @overload
    def pipe(
        self,
        texts: Iterable[Text | ValueError],
        batch_size: int | None = None,
        *,
        on_error: Literal["stop"] = "stop",
        **options: Unpack[PipeOptions],
    ) -> Iterator[Answer]: ...

    @overload
    def pipe(
        self,
        texts: Iterable[Text | ValueError],
        batch_size: int | None = None,
        *,
        on_error: str,
        **options: Unpack[PipeOptions],
    ) -> Iterator[Answer | Unanswered]: ...

    def pipe(
        self,
        texts: Iterable[Text | ValueError],
        batch_size: int | None = None,
        *,
        sources: Iterable[str] | None = None,
        on_error: str = "stop",
        advance: Callable[[], None] = lambda: None,
        **options: Any,
    ) -> Iterator[Any]:
        """Yields the answer to each text, in order.

        The method reads texts only a little ahead of the answers and holds few of them. `texts` may therefore have any
        length, such as a generator over a large file.

        Args:
            texts: iterable of texts in the form that the task takes. An item may also be a ValueError, the reason why a
                text could not be read.
            batch_size: maximum number of sequences in a batch; None: that of the object.
            sources: names of the texts for error messages, such as "reviews.txt line 7"; by default "row 0" and so on
                if `texts` has a length, else "text 1" and so on.
            on_error: "stop" raises the error of a text that cannot be answered; if the text is not valid, before the
                texts around it are answered. "report" yields an Unanswered in its place.
            advance: called for each sequence of tokens as soon as the network has read it, before its text is answered.
            options: options of the class, such as `top_k`; they replace those of the object for this call.

        Raises:
            ValueError: a text cannot be answered, or an argument is not valid.
        """
        return (answer for answer, _ in self._pipe(texts, batch_size, sources, on_error, advance, options))

    def pipe_with_cuts(
        self, texts: Iterable[Text], sources: Iterable[str] | None = None, on_error: str = "stop", **options: Any
    ) -> Iterator[tuple[Any, bool]]:
        """Yields the answer to each text as `pipe` does, and whether the model ignored a part of the text.

        So the log does not report these texts.
        """
        return self._pipe(texts, None, sources, on_error, lambda: None, options, is_reporting=False)

    def _pipe(
        self,
        texts: Iterable[Text | ValueError],
        batch_size: int | None,
        sources: Iterable[str] | None,
        on_error: str,
        advance: Callable[[], None],
        options: dict[str, Any],
        is_reporting: bool = True,
    ) -> Iterator[tuple[Answer | Unanswered, bool]]:
        check_choice("on_error", on_error, ON_ERROR)
        if batch_size is not None:
            check_batch_size(batch_size)
        options = self._with_options(options)
        size = batch_size or self.network.batch_size
        is_prompt, extra = self.is_prompt and not isinstance(texts, Whole), self._extra(options)
        call = _Call(size, on_error == "stop", is_reporting, options, extra, advance, is_prompt)
        if sources is None:
            # Rows of data in memory count from 0, as in pandas and in training.
            name, first = ("row", 0) if isinstance(texts, Sized) else ("text", 1)
            rows = zip((f"{name} {number}" for number in itertools.count(first)), iterate(texts), strict=False)
        else:
            rows = named(sources, iterate(texts))
        return self._answers(rows, call)

    def sequences(self, text: Text, source: str = "text 1") -> tuple[Any, list[Question]]:
        """Returns a text as the task encodes it, and the sequences of tokens that the network reads for it.

        Raises:
            ValueError: the text is not valid.
        """
        row = Row(source, text)
        encoded = self._encode_row(row, collections.Counter(), self.options, self._extra(self.options))
        return encoded, list(self._questions(encoded))

    def tokens(self, texts: Mapping[str, Any], source: str = "text 1") -> list[tuple[list[Token], Ids]]:
        """Returns the tokens and the segment ids of each sequence of texts, given these by name, if they are valid."""
        values: Any = tuple(texts.values())
        encoded, questions = self.sequences(values[0] if len(values) == 1 else values, source)
        segment_ids = [question.segment_ids for question in questions]
        return list(zip(self._place(texts, encoded, segment_ids), segment_ids, strict=False))

    def _answers(self, rows: Iterable[tuple[str, Any]], call: _Call) -> Iterator[tuple[Answer | Unanswered, bool]]:
        counts = collections.Counter()
        for group in self._groups(rows, counts, call):
            for row in self._answered_rows(group, call):
                yield self._finished(row, call), row.is_cut
        if call.is_reporting:
            self._report(counts)

    def _groups(self, rows: Iterable[tuple[str, Any]], counts: Counts, call: _Call) -> Iterator[list[Row]]:
        """Yields lists of encoded rows, read on demand."""
        group, size, num_batches = [], 0, 1 if call.is_prompt else _BATCHES_A_GROUP
        for source, text in rows:
            row = Row(source, text)
            counts["texts"] += 1
            try:
                if isinstance(text, ValueError):
                    raise text if isinstance(text, Mistake) else Mistake("{}", text)
                row.encoded = self._encode_row(row, counts, call.options, call.extra)
            except Mistake as error:
                if call.is_stopping:
                    raise
                row.error = error
            group.append(row)
            size += self._size_of(row)
            if len(group) >= num_batches * call.batch_size or size >= self.max_group_size:
                yield group
                group, size, num_batches = [], 0, min(2 * num_batches, _BATCHES_A_GROUP)
        if group:
            yield group

    def _answered_rows(self, group: list[Row], call: _Call) -> Iterator[Row]:
        """Yields each row when its `found` holds the results of all its questions."""
        pending, pairs = collections.deque(), []
        for row in group:
            pending.append(row)
            for question in () if row.error else self._questions(row.encoded):
                pairs.append((question, row.found))
                if len(pairs) == _BATCHES_A_GROUP * call.batch_size:
                    self._ask(pairs, call)
                    pairs = []
                    # The last text may have more questions.
                    while len(pending) > 1:
                        yield pending.popleft()
        if pairs:
            self._ask(pairs, call)
        yield from pending

    def _ask(self, pairs: list[tuple[Question, Found]], call: _Call) -> None:
        """Appends the number of positions and the results of each question to the list that goes with it."""
        questions, rows = [question for question, _ in pairs], {}
        for index, row in self.network.answer_by_length(questions, call.batch_size, **call.extra):
            rows[index] = self._kept(questions[index], row)
            call.advance()
        for index, (question, found) in enumerate(pairs):
            found.append((len(question.positions), rows[index]))

    def _finished(self, row: Row, call: _Call) -> Answer | Unanswered:
        try:
            if row.error:
                raise row.error
            # JSON has no other numbers, and they have no meaning.
            if not all(np.isfinite(array).all() for _, arrays in row.found for array in arrays):
                raise Mistake(
                    "{}: the results of the model are not finite numbers, so its weights are broken; {}",
                    row.source,
                    NOT_FINITE,
                )
            return self._answer(row.text, row.encoded, row.found, **call.options)
        except Mistake as error:
            if call.is_stopping:
                raise
            return Unanswered(row.source, str(error))

    def _encode_row(self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]) -> Any:
        """Returns the text of a row encoded; `counts` counts for `_report`. `extra` is the result of `_extra`."""
        return self._encode(row.text, row.source)

    def _size_of(self, row: Row) -> int:
        """Returns the size of a row, for the maximum of a group."""
        return num_chars(row.text)

    def _kept(self, question: Question, row: Results) -> Results:
        """Returns the part of a question's results that `_answer` needs."""
        return row

    def _report(self, counts: Counts) -> None:
        """Logs a summary of all texts; `counts` has the number of "texts" and the counts of `_encode_row`."""

    def _encode(self, text: Text, source: str) -> Any:
        """Checks a text and returns it in the form that `_questions` takes, cut to the part that the model reads."""
        raise NotImplementedError

    def _questions(self, encoded: Any) -> Iterator[Question]:
        """Yields the Questions of a text one at a time, because a long text may have one per token."""
        raise NotImplementedError

    def _answer(self, text: Text, encoded: Any, found: Found, **options: Any) -> Answer:
        """Makes the answer from the (number of positions, results of `_read_out`) pairs of its questions.

        The subclasses have the options by their names.
        """
        raise NotImplementedError
