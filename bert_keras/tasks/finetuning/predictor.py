"""The base class of the fine-tuned tasks: it loads the model and turns texts into features."""

import collections
import logging
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Unpack

import numpy as np

from bert_keras.data_prep.text.places import Ids
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import ExportedNetwork
from bert_keras.model_folder.folder import TASK_FILE, ModelFolder
from bert_keras.modeling import BertConfig, ClassifierModel, weights_to_load
from bert_keras.modeling.base import BaseModel
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE
from bert_keras.modeling.checkpoints.loading import load_all_weights
from bert_keras.prediction.arguments import CallOptions, Limits, describe_value, renamed_labels
from bert_keras.prediction.loaded_model import Answer, Text
from bert_keras.prediction.network import Outputs, Question, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Row
from bert_keras.storage import paths
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks import ability_of
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.finetuning.why import FEWEST_SEQUENCES, SeenWord, seen_words, without_word
from bert_keras.tasks.predictor import TaskPredictor
from bert_keras.tasks.tables.encoding import make_features, starts_of_rows
from bert_keras.tasks.tables.examples import Example

log = logging.getLogger("bert_keras")

# The features of the sequences of a text, by name.
Arrays = dict[str, np.ndarray]
# A text and several others.
Texts = tuple[str, list[str]]


class FineTunedPredictor(TaskPredictor[Text, Answer]):
    """A fine-tuned model, loaded for prediction. It has the attributes of `LoadedModel`.

    Args:
        path: a run folder, its folder `model`, or the folder of an export.
        batch_size: maximum number of sequences in a batch.
        limits: Limits of the input; None: the defaults.
        labels: other names of the model's labels: a list of all in their order, or a dict such as {"LABEL_0": "bad"}.
        device: "cpu", "gpu", or one of several, such as "gpu:1"; None: a GPU if there is one.
        format: of an export, "saved_model", "onnx", "openvino", "litert" or "web"; None: the first that it has.
        task, is_pair, words: what the folder of another library may leave open, see `open_model`.
        precision: "float32", "bfloat16" or "float16" for the weights and the products; "auto": bfloat16 if the hardware
            is fast in it, else float32. Not for an export, which has its own.
        options: other defaults of the options of a call, which the class lists.

    Raises:
        FileNotFoundError: a part of the model is missing.
        ValueError: a part is damaged, does not fit the others, or is for another task; or Keras does not run on
            TensorFlow.
    """

    needs_task = True
    # Name of the head's weights; their first axis is the classes.
    head_weight = "output_weights"
    # For the log: name of the parts that are cut, and the setting of their maximum length.
    cut_parts = "texts"
    cut_setting = "max_seq_length"

    def __init__(
        self,
        path: str | os.PathLike,
        batch_size: int = 64,
        limits: Limits | None = None,
        labels: Sequence[str] | Mapping[str, str] | None = None,
        device: str | None = None,
        format: str | None = None,
        task: str | None = None,
        is_pair: bool | None = None,
        words: str | None = None,
        precision: str = "auto",
        **options: Unpack[CallOptions],
    ):
        self._names = labels
        files = ModelFolder.of(path, task=task, is_pair=is_pair, words=words)
        super().__init__(files, batch_size, limits, {**options}, device=device, format=format, precision=precision)

    def _prepare(self) -> None:
        if self._names is not None:
            if not self.labels:
                raise Mistake("a model for {} has no labels; leave out {labels}", self.settings["task"])
            names = renamed_labels(self.labels, self._names)
            self.settings = self.settings | {"labels": self._labels_with_names(names)}
        super()._prepare()

    def _labels_with_names(self, names: list[str]) -> list[str]:
        """Returns the labels of the head, given the names of `labels`."""
        return names

    def _load_model(self) -> BaseModel:
        checkpoint = self.files.need_checkpoint()
        if self.head_weight in checkpoint.names:
            self._check_num_classes(checkpoint.shape(self.head_weight)[0], checkpoint.prefix)
        with weights_to_load():
            model = self._make_model(self.config)
        # Other libraries ignore entries that their class lacks, and so do we; our own models have none.
        report = load_all_weights(model, checkpoint, has_other_heads=not self.files.has_task_file)
        log.log(logging.WARNING if report.unused else logging.INFO, "%s", report)
        return model

    def _open_network(self) -> ExportedNetwork:
        network = super()._open_network()
        two_tokens = np.ones((1, 2), np.int32)
        outputs = network({"input_ids": two_tokens, "input_mask": two_tokens, "segment_ids": two_tokens})
        if "logits" in outputs:
            self._check_num_classes(outputs["logits"].shape[-1], self.folder)
        return network

    def _check_num_classes(self, num_found: int, found_in: str) -> None:
        if num_found != self.num_classes and not (self.files.is_export or self.files.has_task_file):
            raise Mistake(
                "{} has a head of {} classes, but {} names {} (id2label, or num_labels); correct that file, or take "
                "the one that belongs to the weights",
                found_in,
                num_found,
                paths.join(self.files.folder, HUGGING_FACE_FILE),
                self.num_classes,
            )
        if num_found != self.num_classes:
            task_file = paths.join(self.folder, TASK_FILE)
            raise Mistake(
                "{} has a head of {} classes, but {} belongs to a model with "
                "{}; the files are from different runs, so take the folder of one run",
                found_in,
                num_found,
                task_file,
                self.num_classes,
            )

    @property
    def num_classes(self) -> int:
        """Number of classes of the head."""
        return len(self.settings["labels"])

    def _make_model(self, config: BertConfig) -> BaseModel:
        """Returns the Keras model that matches the checkpoint."""
        raise NotImplementedError

    def _encode_row(
        self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]
    ) -> tuple[Any, Arrays]:
        """Returns (example, features of its sequences)."""
        example, counts_of_row = super()._encode_row(row, counts, options, extra), collections.Counter()
        features = self._features(example, counts_of_row, options)
        row.is_cut = counts_of_row["cut"] > 0
        counts.update(counts_of_row)
        self.limits.check("max_sequences", len(features["input_ids"]), row.source, "sequences of the model's length")
        return example, features

    def _features(self, example: Any, counts: Counts, options: dict[str, Any]) -> Arrays:
        """Returns the features of an example. Adds 1 to "cut" of `counts` if it is cut, to "windows" if it has some."""
        return self._features_of([example], counts)

    def _features_of(self, examples: Sequence[Example], counts: Counts) -> Arrays:
        """Returns the features of texts or pairs, which have no labels."""
        stride = self.settings.get("doc_stride")
        return make_features(examples, self.tokenizer, self.max_seq_length, stride, counts=counts)

    def _report(self, counts: Counts) -> None:
        if counts["windows"]:
            message = "texts longer than %d tokens were read through windows: %d of %d"
            log.info(message, self.max_seq_length, counts["windows"], counts["texts"])
        if counts["cut"]:
            message = "%s longer than the model takes (%s=%d) lost their ends: %d"
            log.warning(message, self.cut_parts, self.cut_setting, self.settings[self.cut_setting], counts["cut"])

    def _check_text(self, text: str, source: str, what: str = "text") -> None:
        """Checks that a value is a text within the limits and is not blank."""
        self.limits.check_text(text, source, what)
        if is_blank(text):
            raise Mistake("{} has no word in its {}; give a {}", source, what, what)

    def _check_pair(self, pair: object, source: str, names: tuple[str, str], may_lack_second: bool = False) -> None:
        """Checks that a value is a pair of texts; `may_lack_second` allows the second to be empty."""
        if not isinstance(pair, tuple | list) or len(pair) != 2:
            raise Mistake(
                "{} is {}, but a pair of two texts is needed: {}", source, describe_value(pair), " and ".join(names)
            )
        for text, name in zip(pair, names, strict=True):
            if not (may_lack_second and name == names[1] and isinstance(text, str) and is_blank(text)):
                self._check_text(text, source, name)

    def _encode(self, text: Any, source: str) -> Any:
        """Checks a text, and returns it as the example that `_features` takes; here a single text."""
        self._check_text(text, source)
        return Example("", text, source=source)

    def _questions(self, encoded: tuple[Any, Arrays]) -> Iterator[Question]:
        _, rows = encoded
        for ids, segment_ids, mask in zip(rows["input_ids"], rows["segment_ids"], rows["input_mask"], strict=True):
            num_tokens = int(mask.sum())
            yield Question(ids[:num_tokens], segment_ids[:num_tokens])

    def _starts(self, encoded: Any, segment_ids: Sequence[Ids]) -> list[tuple[int, int]]:
        return starts_of_rows(segment_ids, self.settings.get("doc_stride"))


class ExplainedPredictor(FineTunedPredictor[Text, Answer]):
    """A predictor with the option `why`: True gives an answer the weights of its words."""

    has_gradients = False

    def _check_options(self, options: dict[str, Any]) -> None:
        why = options["why"]
        if why != "gradients" and not isinstance(why, bool):
            needed = 'true, false or "gradients"' if self.has_gradients else "true or false"
            raise Mistake("{why} is {!r}, but must be {}", why, needed)
        if why and "[MASK]" not in self.tokenizer.vocab:
            raise Mistake("{why} needs [MASK], which the vocabulary of this model does not have; leave it out")
        if why == "gradients" and not self.has_gradients:
            raise Mistake('{why} is "gradients", which only classifiers have; give true')
        if why == "gradients" and self.files.is_export:
            raise Mistake(
                '{why} is "gradients", which an export does not have; give true, or take the model of the run'
            )

    def _gradients_budget(self, source: str) -> Callable[[int], None]:
        """Returns a function that refuses a number of sequences for the gradients of a text."""
        return lambda count: self.limits.check("max_sequences", count, source, "sequences for its gradients")

    def _default_options(self) -> dict[str, Any]:
        return {"why": False}

    def _words(self, text: Any, example: Any, rows: Arrays) -> list[SeenWord]:
        """Returns the words to hide: those of all texts that the model reads."""
        values = (text,) if isinstance(text, str) else text
        texts = dict(zip((*ability_of(self.settings["task"]).texts, "text_pair"), values, strict=False))
        segment_ids = [question.segment_ids for question in super()._questions((example, rows))]
        return seen_words(texts, self._place(texts, (example, rows), segment_ids))

    def _encode_row(
        self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]
    ) -> tuple[Any, Arrays, list[SeenWord]]:
        """Returns (example, features of its sequences, words to hide in turn)."""
        example, rows = super()._encode_row(row, counts, options, extra)
        if options["why"] == "gradients":
            self._gradients_budget(row.source)(FEWEST_SEQUENCES * len(rows["input_ids"]))
        if options["why"] is not True:
            return example, rows, []
        words = self._words(row.text, example, rows)
        num_sequences = len(rows["input_ids"]) + sum(len(word.places) for word in words)
        self.limits.check("max_sequences", num_sequences, row.source, "sequences for its words, each hidden once")
        return example, rows, words

    def _questions(self, encoded: tuple[Any, Arrays, list[SeenWord]]) -> Iterator[Question]:
        example, rows, words = encoded
        questions = list(super()._questions((example, rows)))
        yield from questions
        for word in words:
            yield from without_word(questions, word, self.tokenizer.vocab["[MASK]"])


class TextsScorer(FineTunedPredictor[Texts, Answer]):
    """A model that gives a number to each of several texts, which it reads one by one, together with another text."""

    takes_pairs = True
    # Names of the first text, of one of the others and of all others; and what is needed, in words.
    names: ClassVar[tuple[str, str, str]]
    needed: ClassVar[str]

    @property
    def num_classes(self) -> int:
        return 1

    def _make_model(self, config: BertConfig) -> ClassifierModel:
        # A MultipleChoiceModel has the same weights.
        return ClassifierModel(config, 1)

    def _encode(self, question: Texts, source: str) -> Texts:
        is_pair = isinstance(question, tuple | list) and len(question) == 2
        if not is_pair or not isinstance(question[1], tuple | list) or len(question[1]) < LISTS[self.names[2]]:
            raise Mistake("{} is {}, but {} are needed", source, describe_value(question), self.needed)
        (text, others), (name, other_name, others_name) = question, self.names
        self._check_text(text, source, name)
        self.limits.check("max_sequences", len(others), source, others_name)
        for number, other in enumerate(others, 1):
            self._check_text(other, source, f"{other_name} {number}")
        return text, list(others)

    def _features(self, example: Texts, counts: Counts, options: dict[str, Any]) -> Arrays:
        text, others = example
        return self._features_of([Example("", text, other) for other in others], counts)

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return (outputs["logits"][:, 0],)  # [B]
