"""One of several classes for each example: the kind of labels from which the others derive."""

import collections
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bert_keras.evaluation.classification import CLASSIFICATION_METRICS, class_report, classification_metrics
from bert_keras.mistakes import some_of
from bert_keras.tasks.tables.examples import Example, Label, check_labels, learn_labels

if TYPE_CHECKING:
    from bert_keras.modeling import BertConfig
    from bert_keras.modeling.losses import Loss

_LABELS_SHOWN = 20


class SingleLabel:
    """One of several classes for each example.

    Attributes:
        names: the labels in the order of their ids.
        scale: of a `Number`; else None.
        kind: its name, one of `tasks.tables.settings.KINDS`.
        metrics: the default metrics; the first one selects models.
        baseline_name: what the baseline predicts, for messages.
        confidence_name: the name of `errors` in reports.
        has_classes: whether answers are probabilities of classes.
        has_one: whether an example has exactly one class, which can have a weight.
        has_windows: whether long texts can be read in windows, and examples can share a row.
        no_effect: settings that change nothing in training, with the reasons.
    """

    kind: ClassVar[str] = "single_label"
    metrics: ClassVar[tuple[str, ...]] = ("accuracy", "f1_macro")
    baseline_name: ClassVar[str] = "most frequent class"
    confidence_name: ClassVar[str] = "confidence"
    has_classes: ClassVar[bool] = True
    has_one: ClassVar[bool] = True
    has_windows: ClassVar[bool] = True
    no_effect: ClassVar[Mapping[str, str]] = {}

    def __init__(self, names: Sequence[str] = (), scale: dict[str, float] | None = None) -> None:
        self.names, self.scale = tuple(names), scale

    @classmethod
    def learn(cls, examples: Sequence[Example]) -> tuple[str, ...]:
        """Returns the labels of training examples in the order of their ids."""
        return learn_labels(examples)

    def check(self, examples: Sequence[Example]) -> None:
        """Raises ValueError, with file and line, for a label that does not fit."""
        check_labels(examples, self.names)

    def features(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        """Returns the labels as the loss needs them: label_ids int32 [N], or label_values float32 [N] or [N, C]."""
        return {"label_ids": self.truth(examples).astype(np.int32)}

    def selecting_metrics(self) -> tuple[str, ...]:
        """Returns the metrics that the user may choose; "f1" is that of class 1, so it needs exactly two classes."""
        return tuple(name for name in CLASSIFICATION_METRICS if name != "f1" or len(self.names) == 2)

    def make_loss(self, config: "BertConfig", class_weights: list[float] | None) -> "Loss":
        """Builds the network; returns its loss."""
        from bert_keras.modeling import ClassificationLoss, ClassifierModel

        return ClassificationLoss(ClassifierModel(config, len(self.names)), class_weights)

    def any_label(self) -> Label | None:
        """Returns a label for examples whose label has no weight in the loss."""
        return (*self.names, None)[0]

    def names_in(self, label: Any) -> Sequence[str]:
        """Returns the labels of an example; a missing one counts as the label ""."""
        return (label or "",)

    def counts(self, examples: Iterable[Example]) -> collections.Counter[str]:
        """Returns how many of the examples have each label, those that occur first first."""
        return collections.Counter(name for example in examples for name in self.names_in(example.label) if name)

    def targets(self, examples: Sequence[Example]) -> np.ndarray:
        """Returns which of the labels the examples have, bool [N, C]."""
        return np.eye(len(self.names), dtype=bool)[self.truth(examples)]

    def truth(self, examples: Sequence[Example]) -> np.ndarray:
        """Returns the labels of examples as what `decide` returns: ids, int [N]."""
        ids = {label: number for number, label in enumerate(self.names)}
        labels: list[Any] = [example.label for example in examples]
        return np.array([ids[label] for label in labels])

    def values(self, logits: np.ndarray) -> np.ndarray:
        """Returns the answers to sequences from their logits, float64 [N, C]."""
        import scipy.special

        return scipy.special.softmax(logits, axis=-1)

    def losses(self, logits: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        """Returns the loss of each row, float64 [N], without class weights."""
        import scipy.special

        labels = features["label_ids"]
        return -scipy.special.log_softmax(logits, axis=-1)[np.arange(len(labels)), labels]

    def decide(self, answers: np.ndarray) -> np.ndarray:
        """Returns what answers say."""
        return answers.argmax(-1)

    def constant(self, truth: np.ndarray, train: Sequence[Example]) -> np.ndarray:
        """Returns what a baseline decides that does not read the examples."""
        return np.full_like(truth, self.names.index(self.counts(train).most_common(1)[0][0]))

    def measure(self, truth: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> dict[str, float]:
        """Returns metrics by name, at least those of `names`."""
        return classification_metrics(truth, decided, names)

    def parts(self, num_columns: int) -> list[Any]:
        """Returns the columns of logits that share a temperature."""
        return [slice(None)]

    def truth_probabilities(self, answers: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Returns the probabilities of what is true: of the label, or of each label's presence or absence."""
        return answers[targets]

    def confidences(self, answers: np.ndarray) -> np.ndarray:
        """Returns the probabilities of what is decided, float [N], or [N, C] for several labels."""
        return answers.max(-1)

    def outcome(self, answers: np.ndarray, examples: Sequence[Example]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Returns confidences, whether they are right, and probabilities of the truth; for each of several labels."""
        is_right = self.decide(answers) == self.truth(examples)
        probabilities = self.truth_probabilities(answers, self.targets(examples))
        return self.confidences(answers).ravel(), is_right.ravel(), probabilities

    def errors(self, answers: np.ndarray, examples: Sequence[Example]) -> np.ndarray:
        """Returns the number by which reports sort wrong answers, float [N]: the least confidence of an answer."""
        return self.confidences(answers).reshape(len(answers), -1).min(-1)

    def explained(self, scores: np.ndarray, answer: np.ndarray, example: Example) -> tuple[int, str, str]:
        """Returns the column of the scores to explain, words before the explanation, and the form of its numbers."""
        return int(scores.mean(0).argmax()), "", "+.3f"

    def report_values(self, answers: np.ndarray) -> list[str] | list[float]:
        """Returns the predictions as reports show them: label names, separated by commas, or numbers."""
        return [self.names[index] for index in answers.argmax(-1)]

    def summary(self, answers: np.ndarray) -> str:
        """Returns the number of predictions of each label, or the range of the values."""
        return self._counted(np.bincount(answers.argmax(-1)))

    def _counted(self, counts: np.ndarray) -> str:
        counted = [f"{label} ({count:,})" for label, count in zip(self.names, counts.tolist(), strict=False) if count]
        return some_of(counted, _LABELS_SHOWN, kind=" labels") or "no label at all"

    def class_report(self, answers: np.ndarray, examples: Sequence[Example]) -> str | None:
        """Returns the text of class_report.txt; None without classes."""
        return class_report(self.truth(examples), self.decide(answers), self.names)
