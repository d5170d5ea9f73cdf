"""The base classes of all predictors: they load a model, and read, check and answer texts in order."""

import collections
import dataclasses
import itertools
import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

import keras
import numpy as np

from bert_keras.prediction.arguments import ON_ERROR, Limits, check_backend, check_choice
from bert_keras.prediction.loading.exported import open_exported
from bert_keras.prediction.loading.model_files import TASK_FILE, is_export, open_files, read_settings
from bert_keras.prediction.network import Network, lengths_up_to
from bert_keras.prediction.tasks.registry import TASKS

log = logging.getLogger("bert_keras")

# Texts are processed in groups, so that texts of one length share batches. The first group is one batch, so that the
# first answer comes soon. Each next group is twice as large, up to these numbers of batches and characters.
_BATCHES_A_GROUP = 32
_CHARS_A_GROUP = 1 << 20


class LoadedModel:
    """The base of all classes that load a model.

    Attributes:
        folder: path of the model; for a run of fine-tuning, of its folder `model`.
        settings: dict; the contents of the model's task.json; None for a checkpoint of pre-training.
        files: ModelFiles; `config` is its BertConfig, and `tokenizer` its FullTokenizer.
        model: the Keras model with its weights, or the network of an export.
        network: Network.
        limits: Limits of the input.
        max_seq_length: maximum number of tokens in a sequence.
    """

    # Name of the head, as in the registry of tasks; None: the encoder alone.
    head = None
    # Whether only models with a task.json are possible, not checkpoints of pre-training.
    needs_task = False

    def __init__(self, path, batch_size, limits, strategy=None, **text_options):
        check_backend(keras.backend.backend())
        self.limits = limits or Limits()
        self.folder, self.settings = self._read_task(path) if self.needs_task or is_export(path) else (path, None)
        self.files = open_files(self.folder, **text_options)
        self.config, self.tokenizer = self.files.config, self.files.tokenizer
        self.max_seq_length = self.settings["max_seq_length"] if self.settings else self.files.preparation.longest
        num_positions = self.config.max_position_embeddings
        if self.max_seq_length > num_positions:
            raise ValueError(
                f"{self.folder / TASK_FILE}: max_seq_length is {self.max_seq_length}, but the model has "
                f"{num_positions} positions; take the file that the training wrote"
            )
        self._prepare()
        self.model = self._open_network() if is_export(self.folder) else self._load_model()
        self.network = Network(self._call, self._read_out, self._lengths(), batch_size, strategy)

    @property
    def num_traces(self) -> int:
        """Number of times the network has been traced: once per padded length used."""
        return self.network.num_traces

    def _read_task(self, path):
        """Returns the folder of a model and its task.json, which must be for this class."""
        folder, settings = read_settings(path)
        if TASKS[settings["task"]].head != self.head:
            tasks = [name for name, task in TASKS.items() if task.settings is not None and task.head == self.head]
            raise ValueError(
                f"{folder} is a model for {settings['task']}, and {type(self).__name__} is for "
                f"{', '.join(tasks) or 'checkpoints of pre-training'}; open it with bert_keras.open_model"
            )
        return folder, settings

    def _prepare(self):
        """Checks what the class needs of the files, before the weights are loaded."""

    def _load_model(self):
        """Returns the Keras model with the weights of the checkpoint."""
        raise NotImplementedError

    def _open_network(self):
        """Returns the network of an export as a function of the features."""
        return open_exported(self.folder)

    def _call(self, features):
        return self.model(features)

    def _lengths(self):
        """Returns the padded lengths."""
        return lengths_up_to(self.max_seq_length)

    def _read_out(self, outputs, features):
        """See `Network`."""
        raise NotImplementedError


@dataclasses.dataclass(frozen=True)
class Unanswered:
    """Replaces an answer if a text cannot be answered.

    Attributes:
        source: name of the text, such as "reviews.txt line 7".
        error: the reason.
    """

    source: str
    error: str

    def readable(self):
        return f"no answer: {self.error}"


def answer_lines(answers, as_json):
    """Yields each answer as JSON or as text for readers, without a newline at the end. Logs the number of failures."""
    num_unanswered = 0
    for answer in answers:
        num_unanswered += isinstance(answer, Unanswered)
        if as_json:
            yield json.dumps(dataclasses.asdict(answer), ensure_ascii=False, allow_nan=False)
        else:
            yield answer.readable()
    if num_unanswered:
        log.warning("texts that could not be answered: %d", num_unanswered)


@dataclasses.dataclass
class _Row:
    """A text that is being processed."""

    source: str
    text: Any
    error: ValueError | None = None
    encoded: Any = None
    found: list = dataclasses.field(default_factory=list)


class Predictor(LoadedModel):
    """A model that is loaded for one task. You may call it any number of times, from any thread."""

    # Types of a single text in a call; None: all but list.
    one_text = None

    def __call__(self, texts):
        """Answers a text, or each text of a list.

        Args:
            texts: a text in the form that the task takes, or a list of them.

        Returns:
            The answer, or a list of answers.

        Raises:
            ValueError: a text cannot be answered, or the list has too many texts.
        """
        if isinstance(texts, self.one_text) if self.one_text else not isinstance(texts, list):
            [answer] = self.answers([texts])
            return answer
        texts = list(itertools.islice(texts, self.limits.max_texts + 1))
        if len(texts) > self.limits.max_texts:
            raise ValueError(
                f"the list has more texts than limits.max_texts, which is {self.limits.max_texts:,}; take the method "
                "answers, which yields the answers to any number of texts, or raise the limit"
            )
        return list(self.answers(texts))

    def answers(
        self, texts: Iterable, sources: Iterable[str] | None = None, on_error: str = "stop"
    ) -> Iterator[Any | Unanswered]:
        """Yields the answer to each text, in order.

        The method reads texts only a little ahead of the answers and holds few of them. `texts` may therefore have any
        length, such as a generator over a large file.

        Args:
            texts: iterable of texts in the form that the task takes. An item may also be a ValueError, the reason why a
                text could not be read.
            sources: names of the texts for error messages, such as "reviews.txt line 7".
            on_error: "stop" raises the error of a text that cannot be answered; if the text is not valid, before the
                texts around it are answered. "report" yields an Unanswered in its place.

        Raises:
            ValueError: a text cannot be answered, or `on_error` is not one of these.
        """
        check_choice("on_error", on_error, ON_ERROR)
        if sources is None:
            sources = (f"text {number}" for number in itertools.count(1))
            rows = zip(sources, texts, strict=False)
        else:
            rows = zip(sources, texts, strict=True)
        return self._answers(rows, on_error == "stop")

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
        """Yields lists of rows, read on demand."""
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
        """Yields each row when its `found` holds the results of all its questions."""
        pending, asked = collections.deque(), []
        for row in group:
            pending.append(row)
            for question in () if row.error else self._questions(row.encoded):
                asked.append((question, row.found))
                if len(asked) == _BATCHES_A_GROUP * self.network.batch_size:
                    self._ask(asked)
                    asked = []
                    # The last text may have more questions.
                    while len(pending) > 1:
                        yield pending.popleft()
        if asked:
            self._ask(asked)
        yield from pending

    def _ask(self, asked):
        """Appends the number of positions and the results of each question to the list that goes with it."""
        rows = self.network.answer([question for question, _ in asked])
        for (question, found), row in zip(asked, rows, strict=True):
            found.append((len(question.positions), row))

    def _finished(self, row, is_stopping):
        try:
            if row.error:
                raise row.error
            # JSON has no other numbers, and they have no meaning.
            if not all(np.isfinite(array).all() for _, arrays in row.found for array in arrays):
                raise ValueError(
                    f"{row.source}: the scores of the model are not finite numbers, so its weights are broken; take "
                    "another checkpoint, or train again with a lower learning rate"
                )
            return self._answer(row.text, row.encoded, row.found)
        except ValueError as error:
            if is_stopping:
                raise
            return Unanswered(row.source, str(error))

    def _encode_all(self, rows, counts):
        """Encodes the rows of a group, or records their errors. Subclasses count in `counts` for `_report`."""
        for row in rows:
            if row.error is None:
                try:
                    row.encoded = self._encode(row.text, row.source)
                except ValueError as error:
                    row.error = error

    def _report(self, counts):
        """Logs a summary of all texts; `counts` has the number of "texts" and the counts of `_encode_all`."""

    def _encode(self, text, source):
        """Checks a text and returns it in the form that `_questions` takes, cut to the part that the model reads."""
        raise NotImplementedError

    def _questions(self, encoded):
        """Yields the Questions of a text one at a time, because a long text may have one per token."""
        raise NotImplementedError

    def _answer(self, text, encoded, found):
        """Makes the answer from the (number of positions, results of `_read_out`) pairs of its questions."""
        raise NotImplementedError


def _num_chars(text):
    """Returns the number of characters in a text, a pair, or a text with choices; 0 for other values."""
    if isinstance(text, tuple | list):
        return sum(map(_num_chars, text))
    return len(text) if isinstance(text, str) else 0
