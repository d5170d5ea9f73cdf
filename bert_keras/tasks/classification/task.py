"""Fine-tuning for classification, regression, multi-label and multiple-choice tasks (paper, sections 4.1 and 4.4).

Source: run_classifier.py of the original BERT.
"""

import dataclasses
import functools
import logging
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras.data_prep.records.feature_cache import cached_features
from bert_keras.data_prep.text.same_text import Placed
from bert_keras.evaluation.calibration import fit_temperature, label_set_thresholds, negative_log_likelihood
from bert_keras.evaluation.intervals import FEWEST_ROWS, bootstrap, wilson
from bert_keras.mistakes import Message
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import BertConfig
from bert_keras.modeling.losses import Loss
from bert_keras.runs.run_dir import RUN_CONFIG, RunDir, read_run_config
from bert_keras.storage import paths
from bert_keras.tasks.classification import LABEL_SETS
from bert_keras.tasks.classification.data import digest_of, facts_of, read_classification_data
from bert_keras.tasks.classification.kinds import class_weights_of
from bert_keras.tasks.classification.labels import ERRORS
from bert_keras.tasks.classification.report.files import write_calibration, write_evaluation, write_predictions
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.finetuning.task import Task, finite_logits
from bert_keras.tasks.reports.commands import commands_of_classifier
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.settings import KINDS

if TYPE_CHECKING:
    from bert_keras.tasks.reports.page import Findings

log = logging.getLogger("bert_keras")

# Examples for the page: at most so many, the longest, and the length that is preferred, in characters.
_NUM_PAGE_EXAMPLES, _MOST_CHARS, _PREFERRED_CHARS = 3, 2000, 80


class Classification(Task):
    """The task of run_classifier.py. The constructor reads and checks all examples.

    Args:
        settings: those of the program, from `tasks.classification.kinds.complete_settings`.
        stored: the task.json of the model if the run does not train, or of the teacher; None without either.
    """

    program = "run_classifier"

    def __init__(self, settings: ClassifierSettings, files: ModelFolder, stored: dict[str, Any] | None = None) -> None:
        self.data = read_classification_data(settings, stored, None if settings.new_head else files.labels)
        self.data.check_lengths(settings)
        self.metric = self.data.metrics[0]
        self.metric_names = ("loss", *self.data.metrics)
        self.baseline_name = self.data.kind.baseline_name
        self.num_train_examples = len(self.data.train or ()) + len(self.data.unlabeled or ())
        self.has_labels = self.data.has_labels
        self.no_effect = dict(self.data.kind.no_effect)
        if not self.has_labels:
            names = ["label_smoothing", "class_weights", "eval_share", "calibrate"]
            names += ["label_loss_weight"] if settings.label_loss_weight else []
            self.no_effect |= dict.fromkeys(names, "no training example has a label")
            if not settings.soft_loss_weight:
                text = "without labels and with {soft_loss_weight}=0, the head of the student learns nothing"
                log.warning(Message(text))
        self.max_seq_length = settings.max_seq_length
        self.doc_stride = settings.doc_stride
        self.class_weights = class_weights_of(settings.class_weights, self.data.kind, self.data.train)
        self.examples = self.data.train
        self._eval_batch_size = settings.eval_batch_size
        self._temperature: list[float] | None = None
        self._label_sets: dict[str, float] | None = None
        self.tokenizer = files.tokenizer

    @property
    def facts(self) -> dict[str, Any]:
        """The labels, and the digests of the examples to train and to evaluate on."""
        unlabeled = self.data.unlabeled and digest_of(self.data.unlabeled)[:16]
        evaluation = self.data.dev and {
            "metric": self.metric,
            "examples": len(self.data.dev),
            "their_sha256": digest_of(self.data.dev)[:16],
        }
        optional = {"label_scale": self.data.kind.scale, "unlabeled": unlabeled}
        return {
            "data": facts_of(self.data.labels, self.data.train or ()),
            "evaluation": evaluation,
            **{name: value for name, value in optional.items() if value},
        }

    @property
    def texts(self) -> dict[str, list[Placed]]:
        """Those of the calibration, and those that only a teacher labels, count as trained on."""
        data = self.data
        trained = [*(data.train or ()), *(data.calibration or ()), *(data.unlabeled or ())]
        return {
            "train": [example.placed for example in trained],
            "eval": [example.placed for example in data.dev or ()],
        }

    def describe(self) -> dict[str, Any]:
        examples = self.data.train or self.data.unlabeled or self.data.dev or self.data.test or ()
        optional = {"label_scale": self.data.kind.scale, "temperature": self._temperature, LABEL_SETS: self._label_sets}
        return {
            "task": KINDS[self.data.kind.kind],
            "labels": list(self.data.labels),
            **{name: value for name, value in optional.items() if value},
            "is_pair": any(example.text_b for example in examples),
            "max_seq_length": self.max_seq_length,
            "doc_stride": self.doc_stride,
        }

    def prepare(self, folder: str) -> None:
        self.train_features = self._features(folder, "train", self.examples)
        if self.data.unlabeled:
            unlabeled = self._features(folder, "unlabeled", self.data.unlabeled)
            self.train_features = _with_label_weights(self.train_features, unlabeled)
        self.eval_features = self._features(folder, "eval", self.data.dev)
        self.predict_features = self._features(folder, "predict", self.data.test)
        self.calibration_features = self._features(folder, "calibration", self.data.calibration)

    def make_network(self, config: BertConfig) -> Loss:
        return self.data.kind.make_loss(config, self.class_weights)

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        losses = self.data.kind.losses(finite_logits(outputs), self.eval_features)
        size = self._eval_batch_size
        answers = self.answers(outputs, self.eval_features)
        metrics = {"loss": float(losses.mean()), **self._judge(self.data.kind.decide(answers))}
        # As in the original BERT, "loss" is the mean of the batch means.
        batch_losses = [losses[start : start + size].mean() for start in range(0, len(losses), size)]
        self.results = {f"eval_{name}": np.float32(value) for name, value in metrics.items()}
        self.results["loss"] = np.float32(np.mean(batch_losses))
        return metrics

    @property
    def baseline(self) -> dict[str, float]:
        """The metrics of the most frequent class, of no label (multi-label), or of the mean (regression).

        For regression these are the errors only, because a constant has no correlation with anything.
        """
        constant = self.data.kind.constant(self._truth, self.data.train or self.data.dev or ())
        known = self.data.metrics if self.data.kind.has_classes else ERRORS
        return {name: value for name, value in self._judge(constant).items() if name in known}

    @functools.cached_property
    def page_examples(self) -> list[dict[str, Any]]:
        """Whole texts with different labels, held out from training if possible; short ones go first."""
        found: dict[Any, dict[str, Any]] = {}
        examples = self.data.dev or self.data.train or ()
        for example in sorted(examples, key=lambda example: abs(example.num_chars - _PREFERRED_CHARS)):
            if example.num_chars <= _MOST_CHARS and len(found) < _NUM_PAGE_EXAMPLES:
                texts = {"text": example.text_a, "text_pair": example.text_b, "choices": [*example.choices]}
                found.setdefault(example.label, {name: value for name, value in texts.items() if value})
        return [*found.values()]

    def fit_temperature(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """One temperature for all classes, or one for each of several labels. Also finds what label sets need."""
        logits, truth = finite_logits(outputs), self.data.kind.targets(self.data.calibration or ())
        columns = self.data.kind.parts(logits.shape[-1])

        def nll(temperature: float, part: Any) -> float:
            answers = self.answers({"logits": logits[:, part] / temperature}, self.calibration_features)
            return negative_log_likelihood(self.data.kind.truth_probabilities(answers, truth[:, part]))

        found = [fit_temperature(functools.partial(nll, part=part), len(truth)) for part in columns]
        self._temperature = [float(f"{temperature:.6g}") for temperature in found]
        if self.data.kind.has_one:
            answers = self.answers({"logits": logits / self._temperature[0]}, self.calibration_features)
            self._label_sets = label_set_thresholds(self.data.kind.truth_probabilities(answers, truth))
        return np.broadcast_to(np.array(self._temperature), logits.shape[-1])

    def write_calibration(self, run_dir: RunDir, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> None:
        dev = self.data.dev or ()
        parts = [self.data.kind.outcome(self.answers(outputs, self.eval_features), dev) for outputs in (before, after)]
        write_calibration(run_dir, self.data, self._temperature or [], *parts)

    def write_evaluation(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> None:
        from bert_keras.tasks.classification.report.words_of_errors import words_of_errors  # --help does not need it

        answers = self.answers(outputs, self.eval_features)
        write_evaluation(run_dir, self.data, answers, functools.partial(words_of_errors, self, outputs, answers))

    def findings(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> "Findings":
        from bert_keras.tasks.classification.report.page import long_texts, sections_of  # --help does not need them
        from bert_keras.tasks.reports.page import Findings

        answers, features = self.answers(outputs, self.eval_features), self.eval_features
        kind, size = self.data.kind, len(answers)
        outcome = kind.outcome(answers, self.data.dev or ()) if kind.has_classes else None
        numbers, texts = sections_of(run_dir, self.data, answers, outcome)
        num_full, longest = long_texts(self.data, features, self.tokenizer)
        commands = []
        if paths.is_file(config := run_dir.file(RUN_CONFIG)):
            stored, has_cut_texts = read_run_config(config), num_full > 0 and not self.doc_stride
            commands = commands_of_classifier(run_dir.path, stored, kind, has_cut_texts)
        return Findings(
            num_rows=size,
            unit="examples",
            intervals=self._intervals(kind.decide(answers)),
            numbers=numbers,
            texts=texts | {"Longest texts": longest},
            baseline=self.baseline_name,
            commands=[*commands],
        )

    def _intervals(self, decided: np.ndarray) -> dict[str, list[float]]:
        """Returns the bounds of the metrics by name, see `evaluation.intervals`; only of those that have some."""
        size, found = len(decided), {}
        if size >= FEWEST_ROWS:
            bounds = bootstrap(lambda rows: [*self._judge(decided[rows], rows).values()], size).T.tolist()
            found = {name: [*pair] for name, pair in zip(self.data.metrics, bounds, strict=True) if pair[0] < pair[1]}
        if "accuracy" in self.data.metrics:
            found["accuracy"] = wilson(self._judge(decided)["accuracy"], size)
        return found

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> list[dict[str, Any]]:
        return write_predictions(run_dir, self.data, self.answers(outputs, self.predict_features))

    def answers(self, outputs: dict[str, np.ndarray], features: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the mean over the windows of each example: float64 [N, C] probabilities; for regression [N] values.

        Raises:
            ValueError: a logit is not finite.
        """
        values = self.data.kind.values(finite_logits(outputs))
        index = features["example_index"]
        sums = np.zeros((index[-1] + 1, *values.shape[1:]))
        np.add.at(sums, index, values)
        counts = np.bincount(index).reshape(-1, *[1] * (values.ndim - 1))
        return sums / counts

    def scores(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Returns the answers to sequences that are whole examples, float64 [N, C]; for regression [N, 1]."""
        size = len(outputs["logits"])
        return self.answers(outputs, {"example_index": np.arange(size)}).reshape(size, -1)

    @functools.cached_property
    def _truth(self) -> np.ndarray:
        return self.data.kind.truth(self.data.dev or ())

    def _judge(self, decided: np.ndarray, rows: Any = slice(None)) -> dict[str, float]:
        """Returns the metrics of what is decided for some rows."""
        metrics = self.data.kind.measure(self._truth[rows], decided, self.data.metrics)
        return {name: metrics[name] for name in self.data.metrics}

    def _features(self, folder: str, split: str, examples: list[Example] | None) -> dict[str, np.ndarray] | None:
        if examples is None:
            return None
        if split == "predict":
            # Ignore labels in a file to predict.
            examples = [dataclasses.replace(example, label=None) for example in examples]
        facts = {
            "examples": digest_of(examples),
            "kind": self.data.kind.kind,
            "labels": list(self.data.labels),
            **self.tokenizer.facts,
            "max_seq_length": self.max_seq_length,
            "doc_stride": self.doc_stride,
        }

        def build() -> dict[str, np.ndarray]:
            kind = self.data.kind
            return make_features(examples, self.tokenizer, self.max_seq_length, self.doc_stride, split, kind)

        return cached_features(paths.join(folder, f"{split}.tf_record"), facts, build)


def _with_label_weights(
    labelled: dict[str, np.ndarray] | None, unlabeled: dict[str, np.ndarray] | None
) -> dict[str, np.ndarray]:
    """Joins features; "label_weights", float32 [N], are 1 with labels and 0 without."""
    parts = [
        {**features, "label_weights": np.full(len(features["input_ids"]), weight, np.float32)}
        for features, weight in ((labelled, 1.0), (unlabeled, 0.0))
        if features is not None
    ]
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
