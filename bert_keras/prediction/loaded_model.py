"""The base class of all classes that load a model: files, device, calls with one or several texts."""

import itertools
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Generic, Self, TypeVar, Unpack, overload

import keras
import numpy as np
import tensorflow as tf

from bert_keras.data_prep.text.places import Ids, Token, locate, place_rows
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import (
    OPENERS,
    ExportedNetwork,
    format_of_export,
    open_exported,
    precision_of_export,
)
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.model_folder.task_checks import shown_model
from bert_keras.modeling.base import BaseModel
from bert_keras.modeling.fused import fused_operations
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.prediction.arguments import ANSWER_PRECISIONS, Limits, PipeOptions, check_choice
from bert_keras.prediction.containers import Whole, is_one, iterate
from bert_keras.prediction.network import (
    Network,
    Outputs,
    Question,
    ReadOut,
    Tensors,
    check_batch_size,
    device_named,
    lengths_up_to,
    on_device,
)
from bert_keras.prediction.precision import may_fuse, take_precision
from bert_keras.settings.devices import check_backend
from bert_keras.storage import paths

# Remedy for weights that are not finite numbers.
NOT_FINITE = "take another checkpoint, or train again with a lower learning rate"
# A text in the form that a task takes, and the answer to it.
Text = TypeVar("Text")
Answer = TypeVar("Answer")


class LoadedModel(Generic[Text, Answer]):
    """The base of all classes that load a model.

    Attributes:
        folder: path of the model; for a run of fine-tuning, of its folder `model`.
        settings: dict; the contents of the model's task.json; None for a checkpoint of pre-training.
        files: ModelFolder; `config` is its BertConfig, and `tokenizer` its FullTokenizer.
        model: the Keras model with its weights, or the network of an export. Do not change its weights: in bfloat16,
            the operations on a CPU keep a copy of them.
        network: Network.
        limits: Limits of the input.
        options: dict of the options of a call and their defaults; each class lists its options.
        max_seq_length: maximum number of tokens in a sequence.
        precision: the number format in use: "float32", "bfloat16", "float16", or of an export also "int8".
    """

    # Whether only models with a task.json are possible, not checkpoints of pre-training.
    needs_task = False
    # Whether a tuple may be one text: a pair, or a text with choices.
    takes_pairs = False
    # The network of another predictor, which this one takes.
    _shared: Any = None
    # See `Network`.
    extra_specs: ClassVar[dict[str, tf.TensorSpec]] = {}
    # The task.json, as an `Ability` describes it; None for a checkpoint of pre-training.
    settings: Any
    files: ModelFolder
    # Calls differ between the classes.
    model: Any

    def __init__(
        self,
        path: str | os.PathLike,
        batch_size: int,
        limits: Limits | None,
        strategy: Any = None,
        device: str | None = None,
        format: str | None = None,
        precision: str = "auto",
        **text_options: Any,
    ) -> None:
        check_backend(keras.backend.backend())
        check_batch_size(batch_size)
        check_choice("precision", precision, ANSWER_PRECISIONS)
        if limits is not None and not isinstance(limits, Limits):
            raise Mistake("{limits} is {!r}, but must be Limits, such as Limits(max_chars=1000)", limits)
        self.limits, self.options = limits or Limits(), {}
        self.files = ModelFolder.of(path, **text_options)
        self._device, self._format = device_named(device), format or self.files.format_of_file
        if format is not None:
            check_choice("format", format, tuple(OPENERS))
            if not self.files.is_export:
                raise Mistake("{} is not an export, so it has no formats; leave out {format}", path)
            if self.files.format_of_file not in (None, format):
                raise Mistake("{} is the format {}; leave out {format}", path, self.files.format_of_file)
        self.folder, self.settings = paths.as_text(path), None
        if self.needs_task or self.files.is_export:
            self.folder, self.settings = self.files.folder, self._task_of_class()
        self.files.check(may_be_export=True)
        if self.files.is_export:
            self._format = format_of_export(self.folder, self._format) or self._format
        self.config, self.tokenizer = self.files.config, self.files.tokenizer
        self.max_seq_length = self.files.max_seq_length if self.settings else self.files.preparation.longest
        self._prepare()
        self.precision = self._take_precision(precision, strategy)
        # The user's settings of Keras, such as floatx in ~/.keras/keras.json, change no answer.
        with on_device(self._device), dtype_policy("float32" if self.files.is_export else self.precision):
            self.model = self._open_network() if self.files.is_export else self._load_model()
        lengths = self._lengths()
        self.network = Network(
            self._call_fused, self._read_out, lengths, batch_size, strategy, self._device, self.extra_specs
        )
        # Where nobody else can change its weights. A server puts another object in the place of the network later.
        self._is_fused = self._shared is None and self.network.is_on_cpu and may_fuse(self.precision)

    def _take_precision(self, precision: str, strategy: tf.distribute.Strategy | None) -> str:
        if self.files.is_export:
            own = precision_of_export(self.folder, self._format)
            if precision != "auto":
                raise Mistake("{} is an export, whose precision is {}; leave out {precision}", self.folder, own)
            return own
        if self._shared is None:
            return take_precision(precision, self._device, strategy)
        own = self._shared.dtype_policy.name
        if precision not in ("auto", own):
            raise Mistake("the shared model has the precision {}; leave out {precision}", own)
        return own

    def __repr__(self) -> str:
        return shown_model(type(self).__name__, self.folder, ", ".join(self._task_names()), self.labels)

    @property
    def labels(self) -> list[str]:
        """The labels that the model can give, in the order of their ids; empty for tasks without labels."""
        return list((self.settings or {}).get("labels", ()))

    @property
    def num_traces(self) -> int:
        """Number of times the network has been traced: once; see `Network`."""
        return self.network.num_traces

    @overload
    def __call__(self, texts: Text, *, batch_size: int | None = None, **options: Unpack[PipeOptions]) -> Answer: ...

    @overload
    def __call__(
        self, texts: Iterable[Text], *, batch_size: int | None = None, **options: Unpack[PipeOptions]
    ) -> list[Answer]: ...

    @overload  # an Unanswered may be among the answers
    def __call__(
        self, texts: Any, *, on_error: str, batch_size: int | None = None, **options: Unpack[PipeOptions]
    ) -> Any: ...

    def __call__(self, texts: Any, *, batch_size: int | None = None, **options: Any) -> Any:
        """Answers a text, or each of several texts.

        Args:
            texts: a text in the form that the task takes: a str, or a tuple if the task takes pairs. Or several texts:
                a list, a NumPy array, a column of a table, a generator or any other iterable. A tuple has several texts
                if the task only takes single texts, or if the tuple does not begin with a str.
            batch_size: maximum number of sequences in a batch; None: that of the object.
            options: other arguments of `pipe`.

        Returns:
            The answer, or a list of answers.

        Raises:
            ValueError: a text cannot be answered, there are too many texts, or an option is not valid.
        """
        if is_one(texts, self.takes_pairs):
            [answer] = self.pipe(iter([texts]), batch_size, **options)
            return answer
        texts = Whole(itertools.islice(iterate(texts), self.limits.max_texts + 1))
        if len(texts) > self.limits.max_texts:
            raise Mistake(
                "there are more texts than limits.max_texts, which is {:,}; take the method "
                "pipe, which yields the answers to any number of texts, or raise the limit",
                self.limits.max_texts,
            )
        return list(self.pipe(texts, batch_size, **options))

    def pipe(self, texts: Iterable[Text], batch_size: int | None = None, **options: Any) -> Iterator[Any]:
        """Yields the answer to each text, in order, and holds few texts at a time."""
        raise NotImplementedError

    def num_tokens(self, text: Any) -> int:
        """Returns the number of tokens of a text or of the parts of one, uncut and without special tokens."""
        if isinstance(text, Iterable) and not isinstance(text, str):
            return sum(map(self.num_tokens, text))
        self.limits.check_text(text, "the text")
        return len(self._ids_of_text(text))

    def _ids_of_text(self, text: str) -> list[int]:
        return self.tokenizer.encode(text)

    def _place(self, texts: Mapping[str, Any], encoded: Any, segment_ids: Sequence[Ids]) -> list[list[Token]]:
        """Returns the tokens of each sequence of texts, given these by their names and as the task encodes them."""
        return place_rows(self.tokenizer, segment_ids, texts, self._starts(encoded, segment_ids), self._locate)

    def _locate(self, text: str, name: str) -> list[Token]:
        """Returns all tokens of a text, as the task cuts it."""
        return locate(self.tokenizer, text, name)

    def _starts(self, encoded: Any, segment_ids: Sequence[Ids]) -> list[tuple[int, int]]:
        """Returns how many tokens of the first and of the second text are before each sequence."""
        return [(0, 0)] * len(segment_ids)

    def warmup(self, lengths: Iterable[int] | None = None) -> Self:
        """Compiles the network, so that the first answers come as fast as later ones. Returns the object itself.

        The network is compiled once for all lengths, which takes seconds for a large model. Then it is run.

        Args:
            lengths: numbers of tokens of the texts to run, [CLS] and [SEP] included; None: the maximum of the model, or
                all padded lengths with a strategy, which compiles each of them.

        Raises:
            ValueError: a length is not valid, or the weights or the results of the model are not finite numbers.
        """
        for weight in getattr(self.model, "weights", ()):
            if not np.isfinite(keras.ops.convert_to_numpy(weight)).all():
                raise Mistake(
                    "{}: the weight {} has values that are not finite numbers; {}", self.folder, weight.path, NOT_FINITE
                )
        if not isinstance(lengths, Iterable | None):
            raise Mistake("lengths is {!r}, but must be a list of whole numbers", lengths)
        chosen = list(self.network.lengths_to_trace if lengths is None else lengths)
        longest = self.network.lengths[-1]
        for length in chosen:
            if type(length) is not int or not 1 <= length <= longest:
                raise Mistake(
                    "lengths has {!r}, but must be whole numbers from 1 to {}, which the model takes", length, longest
                )
        for length in chosen:
            found = self.network.answer(self._warmup_questions(length), **self._extra(self.options))
            if not all(np.isfinite(array).all() for row in found for array in row):
                raise Mistake(
                    "{}: the results for sequences of {} tokens are not finite numbers, so its weights are broken; {}",
                    self.folder,
                    length,
                    NOT_FINITE,
                )
        return self

    def _warmup_questions(self, length: int) -> list[Question]:
        """Returns sequences of a length: one of padding, and one of tokens from the whole vocabulary."""
        ids = np.linspace(0, self.config.vocab_size - 1, length).astype(int)
        segment_ids = (np.arange(length) >= length // 2) * (self.config.type_vocab_size > 1)
        return [Question(ids * 0, ids * 0, [0], [0]), Question(ids, segment_ids.astype(int), [0], [0])]

    def _extra(self, options: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of the features `extra_specs` for the options of a call."""
        return {}

    def _task_of_class(self) -> dict[str, Any]:
        """Returns the task.json of the model, which must be for this class."""
        raise NotImplementedError

    def _task_names(self) -> list[str]:
        """Returns the tasks that the object can do, for its description."""
        return [self.settings["task"]] if self.settings else []

    def _prepare(self) -> None:
        """Checks what the class needs of the files, before the weights are loaded."""

    def _load_model(self) -> BaseModel:
        """Returns the Keras model with the weights of the checkpoint."""
        raise NotImplementedError

    def _open_network(self) -> ExportedNetwork:
        """Returns the network of an export as a function of the features."""
        return open_exported(self.folder, self._format, self._device)

    def _call(self, features: Tensors) -> Outputs:
        return self.model(features)

    def _call_fused(self, features: Tensors) -> Outputs:
        """Calls the network, with operations of oneDNN where they are faster."""
        with fused_operations(self._is_fused):
            return self._call(features)

    def _lengths(self) -> list[int]:
        """Returns the padded lengths."""
        # OpenVINO prepares for each shape, which takes longer than padding.
        return lengths_up_to(self.max_seq_length, num_steps=4 if self._format == "openvino" else 16)

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        """See `Network`."""
        raise NotImplementedError
