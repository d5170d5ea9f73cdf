"""The kinds of labels of a classifier: one of several, several, a number, or the number of a choice.

An object of a kind holds the names of the labels. It knows the network and its answers, the metrics, the baseline and
what the reports show.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from bert_keras.evaluation.classification import multi_label_metrics, regression_metrics
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.examples import Example, Label, check_numbers, learn_labels

if TYPE_CHECKING:
    from bert_keras.modeling import BertConfig
    from bert_keras.modeling.losses import Loss

# Lower is better, so these cannot compare checkpoints.
ERRORS = ("mae", "rmse")


class Choice(SingleLabel):
    """One of several texts for each example."""

    kind = "multiple_choice"
    metrics = ("accuracy",)
    has_one = False
    has_windows = False
    no_effect: ClassVar = {
        "pack": "the choices of an example are rows that are compared with each other",
        "class_weights": "it is for data with one label each, but these are multiple_choice",
        "calibrate": "it divides the logits of classes, but these data are multiple_choice",
    }

    @classmethod
    def learn(cls, examples: Sequence[Example]) -> tuple[str, ...]:
        """Returns the numbers of the choices."""
        return tuple(map(str, range(max(len(example.choices) for example in examples))))

    def selecting_metrics(self) -> tuple[str, ...]:
        return self.metrics

    def make_loss(self, config: "BertConfig", class_weights: list[float] | None) -> "Loss":
        from bert_keras.modeling import ClassificationLoss, MultipleChoiceModel

        return ClassificationLoss(MultipleChoiceModel(config))


class SeveralLabels(SingleLabel):
    """Any number of labels for each example. The decisions are int [N, C] of 0 and 1."""

    kind = "multi_label"
    metrics = ("f1_micro", "f1_macro", "accuracy")
    baseline_name = "no label"
    has_one = False
    no_effect: ClassVar = {"class_weights": "it is for data with one label each, but these are multi_label"}

    @classmethod
    def learn(cls, examples: Sequence[Example]) -> tuple[str, ...]:
        return learn_labels(examples, has_several=True)

    def features(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        return {"label_values": self.targets(examples).astype(np.float32)}

    def selecting_metrics(self) -> tuple[str, ...]:
        return self.metrics

    def make_loss(self, config: "BertConfig", class_weights: list[float] | None) -> "Loss":
        from bert_keras.modeling import ClassifierModel, MultiLabelLoss

        return MultiLabelLoss(ClassifierModel(config, len(self.names)))

    def any_label(self) -> Label | None:
        return ()

    def names_in(self, label: Any) -> Sequence[str]:
        return label or ("",)

    def targets(self, examples: Sequence[Example]) -> np.ndarray:
        example_labels: list[Any] = [example.label for example in examples]
        return np.array([[label in labels for label in self.names] for labels in example_labels])

    def truth(self, examples: Sequence[Example]) -> np.ndarray:
        return self.targets(examples).astype(np.int8)

    def values(self, logits: np.ndarray) -> np.ndarray:
        import scipy.special

        return scipy.special.expit(logits)

    def losses(self, logits: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        signed = np.where(features["label_values"] > 0.5, -logits, logits)
        return np.logaddexp(0, signed).mean(-1)

    def decide(self, answers: np.ndarray) -> np.ndarray:
        return (answers >= 0.5).astype(np.int8)

    def constant(self, truth: np.ndarray, train: Sequence[Example]) -> np.ndarray:
        return np.zeros_like(truth)

    def measure(self, truth: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> dict[str, float]:
        return multi_label_metrics(truth, decided)

    def parts(self, num_columns: int) -> list[Any]:
        return [[column] for column in range(num_columns)]

    def truth_probabilities(self, answers: np.ndarray, targets: np.ndarray) -> np.ndarray:
        return np.where(targets, answers, 1 - answers).ravel()

    def confidences(self, answers: np.ndarray) -> np.ndarray:
        return np.maximum(answers, 1 - answers)

    def explained(self, scores: np.ndarray, answer: np.ndarray, example: Example) -> tuple[int, str, str]:
        label = int(np.abs(answer - self.targets([example])[0]).argmax())
        return label, f"{self.names[label]}: ", "+.3f"

    def report_values(self, answers: np.ndarray) -> list[str] | list[float]:
        return [",".join(sorted(np.array(self.names)[answer >= 0.5])) for answer in answers]

    def summary(self, answers: np.ndarray) -> str:
        return self._counted(self.decide(answers).sum(0))


class Number(SingleLabel):
    """A number for each example. `scale` has its "mean" and "std" in training; without it, numbers are not scaled.

    Answers are float64 [N], and so is what is decided.
    """

    kind = "regression"
    metrics = ("spearman", "pearson", *ERRORS)
    baseline_name = "always the mean"
    confidence_name = "difference"
    has_classes = False
    has_one = False
    no_effect: ClassVar = {
        "class_weights": "it is for data with one label each, but these are regression",
        "calibrate": "it divides the logits of classes, but these data are regression",
        "label_smoothing": "the labels of a regression are numbers",
        "temperature": "it divides the logits of classes, but a regression has none",
    }

    @classmethod
    def learn(cls, examples: Sequence[Example]) -> tuple[str, ...]:
        return ()

    def check(self, examples: Sequence[Example]) -> None:
        check_numbers(examples)

    def features(self, examples: Sequence[Example]) -> dict[str, np.ndarray]:
        return {"label_values": self.truth(examples).astype(np.float32)}

    def selecting_metrics(self) -> tuple[str, ...]:
        return tuple(name for name in self.metrics if name not in ERRORS)

    def make_loss(self, config: "BertConfig", class_weights: list[float] | None) -> "Loss":
        from bert_keras.modeling import ClassifierModel, RegressionLoss

        return RegressionLoss(ClassifierModel(config, 1), **(self.scale or {}))

    def any_label(self) -> Label | None:
        return 0.0

    def names_in(self, label: Any) -> Sequence[str]:
        return ("",)

    def truth(self, examples: Sequence[Example]) -> np.ndarray:
        labels: list[Any] = [example.label for example in examples]
        return np.array(labels, np.float64)

    def values(self, logits: np.ndarray) -> np.ndarray:
        return logits[:, 0]

    def losses(self, logits: np.ndarray, features: Mapping[str, np.ndarray]) -> np.ndarray:
        std = self.scale["std"] if self.scale else 1.0
        return np.square((logits[:, 0] - features["label_values"]) / std)

    def decide(self, answers: np.ndarray) -> np.ndarray:
        return answers

    def constant(self, truth: np.ndarray, train: Sequence[Example]) -> np.ndarray:
        return np.full(len(truth), (self.scale or {}).get("mean", np.mean(truth)))

    def measure(self, truth: np.ndarray, decided: np.ndarray, names: Sequence[str]) -> dict[str, float]:
        return regression_metrics(truth, decided)

    def errors(self, answers: np.ndarray, examples: Sequence[Example]) -> np.ndarray:
        """Returns the differences from the labels."""
        return np.abs(answers - self.truth(examples))

    def explained(self, scores: np.ndarray, answer: np.ndarray, example: Example) -> tuple[int, str, str]:
        return 0, "", "+.3g"

    def report_values(self, answers: np.ndarray) -> list[str] | list[float]:
        return [float(answer) for answer in answers]

    def summary(self, answers: np.ndarray) -> str:
        return f"from {answers.min():.4g} to {answers.max():.4g}"

    def class_report(self, answers: np.ndarray, examples: Sequence[Example]) -> str | None:
        return None


# By name.
LABELS: dict[str, type[SingleLabel]] = {
    kind_class.kind: kind_class for kind_class in (SingleLabel, Number, SeveralLabels, Choice)
}


def shown_label(label: Label) -> str | float:
    """Returns a label as reports show it."""
    return ",".join(sorted(label)) if isinstance(label, tuple) else label
