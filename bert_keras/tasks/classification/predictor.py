"""Text classification, regression and multi-label classification with a fine-tuned model."""

import dataclasses
import functools
import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Literal, Unpack, overload

import numpy as np
import tensorflow as tf

from bert_keras.mistakes import Mistake, several
from bert_keras.modeling import BertConfig, ClassifierModel
from bert_keras.modeling.checkpoints.hugging_face_config import PROBLEM_TYPES
from bert_keras.prediction.arguments import OpenOptions, check_threshold, check_top_k, describe_value
from bert_keras.prediction.loaded_model import Answer
from bert_keras.prediction.network import Outputs, ReadOut, Tensors, on_device
from bert_keras.prediction.predictor import Found
from bert_keras.tasks.classification import LABEL_SETS
from bert_keras.tasks.finetuning.predictor import Arrays, ExplainedPredictor
from bert_keras.tasks.finetuning.why import (
    IntegratedGradients,
    SeenWord,
    WordWeight,
    gradients_of_words,
    strongest,
    weights_of_words,
)
from bert_keras.tasks.graph.networks import copy_in
from bert_keras.tasks.tables.examples import Example

# Maximum number of classes to show.
_MOST_CLASSES = 5


@dataclasses.dataclass(frozen=True)
class Classification:
    """The class of a text.

    Attributes:
        text: the given text; for a pair, the first.
        text_pair: the second text; None if the model takes single texts.
        label: the most probable class.
        probabilities: dict of every class to its probability, in the order of their ids. They sum to 1. With the option
            `top_k` only the most probable.
        words: the weight of each word for the probability of `label`, with the option `why`; None without it.
        label_set: the labels that may be right, the most probable first, with the option `coverage`; None without it.
    """

    text: str
    text_pair: str | None
    label: str
    probabilities: dict[str, float]
    words: list[WordWeight] | None = None
    label_set: list[str] | None = None

    def readable(self) -> str:
        classes = _ranked(self.probabilities, _MOST_CLASSES)
        label_set = [f"  label set: {', '.join(self.label_set)}"] if self.label_set else []
        return "\n".join([_shown_texts(self), *classes, *label_set, *strongest(self.words, "+.3f")])


@dataclasses.dataclass(frozen=True)
class Regression:
    """The predicted `value` for a text, on the scale of the training data.

    The texts are as in `Classification`, and so are `words`, with weights for `value`.
    """

    text: str
    text_pair: str | None
    value: float
    words: list[WordWeight] | None = None

    def readable(self) -> str:
        return "\n".join([f"{self.value:.6g}  {_shown_texts(self)}", *strongest(self.words, "+.3g")])


@dataclasses.dataclass(frozen=True)
class MultiLabel:
    """The labels that apply to a text. The texts are as in `Classification`.

    Attributes:
        labels: those with a probability of at least 0.5 (the option `threshold`), in the order of their ids; may be
            empty. The option `top_k` does not change them.
        probabilities: dict of every label to the probability that it applies, as in `Classification`.
        words: as in `Classification`, with weights for the most probable label.
    """

    text: str
    text_pair: str | None
    labels: list[str]
    probabilities: dict[str, float]
    words: list[WordWeight] | None = None

    def readable(self) -> str:
        labels = [
            *_ranked({label: p for label, p in self.probabilities.items() if label in self.labels}, len(self.labels))
        ]
        labels += [f"  {'':6}  {label}" for label in self.labels if label not in self.probabilities]
        labels = labels or ["  no label"]
        return "\n".join([_shown_texts(self), *labels, *strongest(self.words, "+.3f")])


class TextClassifier(ExplainedPredictor[str | tuple[str, str], Answer]):
    """Classifies texts with a model of run_classifier.py: `TextClassifier("output")("a text").label`.

    A call takes a str, or a tuple of two if the model takes pairs, and returns a Classification, Regression or
    MultiLabel, depending on the model. Given several texts, it returns a list. Type checkers take the answer for a
    Classification unless you give `task`.

    Texts longer than the model takes are handled as in its training: they are cut, or read through windows. The
    probabilities (for regression: values) of the windows are averaged. The log reports the number of such texts.

    The arguments are those of `FineTunedPredictor`. Options of a call:

    - `top_k`: number of labels in `probabilities`, the most probable first; by default all, in the order of their ids.
    - `threshold`: the lowest probability of a label that applies; by default 0.5. Only for models of several labels.
    - `coverage`: 0.9 gives the answer `label_set`, which has the right label in at least 90 % of texts like those of
      the training. The most probable label is always in it. From 0.5 to 0.99 in steps of 0.01; only for models of one
      label a text that were trained with `calibrate`.
    - `why`: True gives the answer `words`. The weight of a word is the probability of the label (regression: the value)
      less that of the text with [MASK] for each token of the word. A text needs one more sequence for each of its
      words. Words that the model does not read have no weight. "gradients" gives integrated gradients of the label's
      logit (regression: the value) between [MASK] for all words and the text; not for exports.
    """

    head = "classifier"
    takes_pairs = True
    has_gradients = True

    if TYPE_CHECKING:  # the arguments are those of the base class, but the task sets the type of the answers

        @overload
        def __init__(
            self: "TextClassifier[Classification]",
            path: str | os.PathLike,
            batch_size: int = 64,
            *,
            task: Literal["classification"] | None = None,
            **options: Unpack[OpenOptions],
        ) -> None: ...

        @overload
        def __init__(
            self: "TextClassifier[Regression]",
            path: str | os.PathLike,
            batch_size: int = 64,
            *,
            task: Literal["regression"],
            **options: Unpack[OpenOptions],
        ) -> None: ...

        @overload
        def __init__(
            self: "TextClassifier[MultiLabel]",
            path: str | os.PathLike,
            batch_size: int = 64,
            *,
            task: Literal["multi_label"],
            **options: Unpack[OpenOptions],
        ) -> None: ...

        @overload
        def __init__(
            self: "TextClassifier[Classification | Regression | MultiLabel]",
            path: str | os.PathLike,
            batch_size: int = 64,
            *,
            task: str,
            **options: Unpack[OpenOptions],
        ) -> None: ...

        def __init__(self, *arguments: Any, **options: Any) -> None: ...

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        if settings["task"] == "regression":
            return 'print(float(outputs["logits"][0, 0]))'
        if settings["task"] == "multi_label":
            return 'print(dict(zip(labels, (1 / (1 + np.exp(-outputs["logits"][0]))).tolist())))'
        return """scores = np.exp(outputs["logits"][0] - outputs["logits"][0].max())
print(dict(zip(labels, (scores / scores.sum()).tolist())))"""

    @classmethod
    def problem_type(cls, settings: Mapping[str, Any]) -> str:
        tasks = ("classification", "multi_label", "regression")
        return dict(zip(tasks, PROBLEM_TYPES, strict=True))[settings["task"]]

    @classmethod
    def is_for(cls, task: str) -> bool:
        return task != "rerank" and super().is_for(task)

    @property
    def num_classes(self) -> int:
        """Number of classes of the head; 1 for a regression."""
        return 1 if self.settings["task"] == "regression" else super().num_classes

    def _default_options(self) -> dict[str, Any]:
        task = self.settings["task"]
        task_options = {
            "classification": {"top_k": None, "coverage": None},
            "multi_label": {"top_k": None, "threshold": 0.5},
        }
        return task_options.get(task, {}) | super()._default_options()

    def _check_options(self, options: dict[str, Any]) -> None:
        if options.get("top_k") is not None:
            check_top_k(options["top_k"], len(self.labels), "the number of the model's labels,")
        check_threshold(options.get("threshold", 0.5))
        if options.get("coverage") is not None:
            self._least_probability(options["coverage"])
        super()._check_options(options)

    def _make_model(self, config: BertConfig) -> ClassifierModel:
        return ClassifierModel(config, self.num_classes)

    def _encode(self, text: str | tuple[str, str], source: str) -> Example:
        # A model of another library, which does not say whether it takes pairs, takes both.
        is_pair = isinstance(text, tuple | list) if self.settings["is_pair"] is None else self.settings["is_pair"]
        if is_pair:
            # As in training, the second text may be empty.
            self._check_pair(text, source, ("first text", "second text"), may_lack_second=True)
            text_a, text_b = text
            return Example("", text_a, text_b, source=source)
        if isinstance(text, tuple | list):
            raise Mistake(
                "{} is {}, but the model takes single texts; give one str, or a list of several",
                source,
                describe_value(text),
            )
        return super()._encode(text, source)

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        activation = {"classification": tf.nn.softmax, "multi_label": tf.nn.sigmoid}.get(self.settings["task"])
        return (activation(outputs["logits"]) if activation else outputs["logits"],)  # [B, C]

    def _answer(
        self,
        text: str | tuple[str, str],
        encoded: tuple[Example, Arrays, list[SeenWord]],
        found: Found,
        top_k: int | None = None,
        threshold: float = 0.5,
        coverage: float | None = None,
        why: bool | str = False,
    ) -> Classification | Regression | MultiLabel:
        example, rows, hidden = encoded
        num_rows = len(rows["input_ids"])
        all_scores = np.array([row for _, (row,) in found], np.float64)  # [rows and hidden words, C]
        scores = all_scores[:num_rows].mean(axis=0)  # [C]
        values: Any = scores.tolist()
        words, label = None, int(scores.argmax())
        if why == "gradients":
            words = self._gradients(text, example, rows, label)
        elif why:
            label_scores = all_scores[:, label].tolist()
            words = weights_of_words(hidden, label_scores[:num_rows], iter(label_scores[num_rows:]))
        if self.settings["task"] == "regression":
            return Regression(example.text_a, example.text_b, values[0], words)
        probabilities: dict[str, float] = dict(zip(self.settings["labels"], values, strict=True))
        label_set = None
        if coverage is not None:
            least = self._least_probability(coverage)
            likely = sorted(probabilities, key=lambda name: -probabilities[name])
            label_set = likely[:1] + [name for name in likely[1:] if probabilities[name] >= least]
        if top_k is not None:
            probabilities = dict(sorted(probabilities.items(), key=lambda item: -item[1])[:top_k])
        if self.settings["task"] == "classification":
            best = self.settings["labels"][label]
            return Classification(example.text_a, example.text_b, best, probabilities, words, label_set)
        labels = [name for name, value in zip(self.settings["labels"], values, strict=True) if value >= threshold]
        return MultiLabel(example.text_a, example.text_b, labels, probabilities, words)

    def _least_probability(self, coverage: object) -> float:
        """Returns the lowest probability of a label in a label set."""
        if not (thresholds := self.settings.get(LABEL_SETS)):
            raise Mistake(
                "{coverage} needs a model that was trained with {calibrate}, and this one was not; leave it out"
            )
        if not isinstance(coverage, int | float) or (found := thresholds.get(str(coverage))) is None:
            raise Mistake("{coverage} is {!r}, but must be from 0.5 to 0.99, in steps of 0.01", coverage)
        return found

    @functools.cached_property
    def _exact_model(self) -> ClassifierModel:
        """The network in float32: sums of gradients in 16 bits would not be the difference that they explain."""
        return self.model if self.precision == "float32" else copy_in("float32", self.model)

    def _gradients(self, text: str | tuple[str, str], example: Example, rows: Arrays, label: int) -> list[WordWeight]:
        questions = list(self._questions((example, rows, [])))
        with on_device(self._device):
            mask_id = self.tokenizer.vocab["[MASK]"]
            budget = self._gradients_budget(example.source)
            gradients = IntegratedGradients(self._exact_model, self.network, label, budget)
            return gradients_of_words(gradients, questions, self._words(text, example, rows), mask_id)


def _shown_texts(answer: Classification | Regression | MultiLabel) -> str:
    return answer.text if answer.text_pair is None else f"{answer.text}  |  {answer.text_pair}"


def _ranked(probabilities: Mapping[str, float], num_shown: int) -> list[str]:
    """Returns a line for each of the most probable classes, and a line with the number of others."""
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])
    lines = [f"  {probability:.4f}  {label}" for label, probability in ranked[:num_shown]]
    num_others = len(ranked) - num_shown
    return lines if num_others <= 0 else [*lines, f"  and {several(num_others, 'others')}; JSON has all"]
