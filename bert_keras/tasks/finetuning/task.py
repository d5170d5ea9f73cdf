"""The interface of a fine-tuning task, which `tasks.finetuning.run.FineTuning` executes.

docs/guides/your_own_task.md shows how to write one.
"""

import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from bert_keras.engine.evaluation_pass import Infer
from bert_keras.engine.report import in_words
from bert_keras.mistakes import Message, NotFinite
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.losses import Loss
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.groups import FineTuningSettings

if TYPE_CHECKING:  # --help does not need it
    from bert_keras.tasks.reports.page import Findings


# Metrics of which a lower value is better.
_ERRORS = ("mae", "rmse")

# Settings that change nothing if training leaves the encoder as it is.
ENCODER_TRAINING_SETTINGS = ("freeze_layers", "layer_decay", "lora_rank", "recompute")


class Task:
    """A fine-tuning task: its data, its network and its evaluation.

    A subclass reads and checks its data in the constructor, before a network exists. It needs the methods `describe`,
    `make_network`, `evaluate` and `write_predictions`; the others have defaults.

    Attributes:
        program: str; the program that runs the task.
        metric: str; the metric that compares checkpoints, settings and seeds. Higher is better.
        metric_names: tuple of str; all metrics of `evaluate`.
        train_features, eval_features, predict_features: dict of arrays with the rows as first axis, complete after
            `prepare`: "input_ids" int32, "input_mask" and "segment_ids" int8, [N, T], the labels, and other features
            that the task needs; None without such data.
        calibration_features: the same of labelled examples for `fit_temperature`; None without them.
        num_train_examples: int; the number of steps is computed from it.
        facts: dict of JSON values that must not change when a run resumes, such as digests of the training data.
        files: dict of paths by flag name, such as "eval_file", if they differ from the flags.
        texts: dict of two lists of `Placed`, "train" and "eval": to find texts that are in both.
        baseline: dict of float by name; the metrics of a baseline on the evaluation data; empty without one.
        baseline_name: str; what the baseline predicts, for the log, such as "most frequent class".
        page_examples: list of dict; a few examples of the data for the page of serve.py, as the items of its requests.
        infer: function of features such as `eval_features`, of any rows, that returns the outputs of the network; only
            in `write_evaluation`, where it is the network of the evaluation.
        results: dict of numbers by name, which `evaluate` may set: the entries of eval_results.txt. None: the metrics
            with the prefix "eval_", as in the original BERT.
        has_labels: bool; whether a training example has a label.
        has_head: bool; whether the network has weights above the encoder.
        frozen: tuple of str; training does not change weights whose names begin with one of these.
        is_trimmed: bool; whether batches may be cut to their longest sequence.
        no_effect: dict; settings that change nothing in the training of the task, by name, with the reasons.
    """

    program = ""
    metric = ""
    metric_names: tuple[str, ...] = ()
    train_features: Any = None
    eval_features: Any = None
    predict_features: Any = None
    calibration_features: Any = None
    num_train_examples = 0
    num_steps: int | None = None
    baseline_name = ""
    infer: Infer | None = None
    results: dict[str, Any] | None = None
    has_labels = True
    has_head = True
    frozen: tuple[str, ...] = ()
    is_trimmed = True

    # Each task has its own dicts. A subclass may set them, or define attributes of these names.
    facts = functools.cached_property(lambda self: {})
    files = functools.cached_property(lambda self: {})
    no_effect: Any = functools.cached_property(lambda self: {})
    texts = functools.cached_property(lambda self: {})
    baseline = functools.cached_property(lambda self: {})
    page_examples = functools.cached_property(lambda self: [])

    def _tell_data(self, train: Any, evaluated: Any, facts: dict[str, str]) -> None:
        """Sets `texts` and `facts`, also those given, from the two data: `placed` ones with a `digest`, or None."""
        found = {part: data for part, data in (("train", train), ("eval", evaluated)) if data}
        self.facts = {f"{part}_file_sha256": data.digest for part, data in found.items()} | facts
        self.texts = {part: data.placed for part, data in found.items()}

    @classmethod
    def reopened(cls, settings: Any, files: Any, stored: dict[str, Any]) -> "Task":
        """Makes the task of a run again to evaluate its model, given the ModelFolder and the task.json of the model."""
        make: Any = cls
        return make(settings, files, stored)

    def prepare(self, folder: str) -> None:
        """Makes the features, or reads them from the run folder. Not needed if the constructor makes them."""

    def describe(self) -> dict[str, Any]:
        """Returns JSON values for task.json: all that predictions need besides the model's other files."""
        raise NotImplementedError

    def make_network(self, config: BertConfig) -> Loss:
        """Builds the network, and returns its loss, one of `modeling.losses`, which holds it as `model`."""
        raise NotImplementedError

    def evaluate(self, outputs: dict[str, np.ndarray]) -> dict[str, float]:
        """Computes the metrics, none of them NaN, from the network's outputs for the rows of `eval_features`."""
        raise NotImplementedError

    def shortfall(
        self, metrics: Mapping[str, float], baseline: Mapping[str, float], settings: FineTuningSettings
    ) -> Message | None:
        """Returns what to do if an evaluation is not better than the baseline; None: it is, or has no baseline."""
        name = next((name for name in (self.metric, *_ERRORS) if name in baseline and name in metrics), None)
        if name is None or (metrics[name] < baseline[name] if name in _ERRORS else metrics[name] > baseline[name]):
            return None
        return Message(
            "{} is not better than the baseline{}, {}: the model is of no use yet. Train again in another "
            "{output_dir}; try {}",
            in_words({name: metrics[name]}),
            self.baseline_name and f" ({self.baseline_name})",
            in_words({name: baseline[name]}).removeprefix(f"{name} "),
            self.remedies(settings),
        )

    def remedies(self, settings: FineTuningSettings) -> list[Message]:
        """Returns what may help a model that is not better than the baseline."""
        now = settings.max_steps or settings.num_train_epochs, settings.learning_rate
        here = [f" (here {_listed(values)})" if settings.do_train else "" for values in now]
        length = Message("more {max_steps}{}" if settings.max_steps else "more {num_train_epochs}{}", here[0])
        seeds = [Message("several seeds ({num_seeds}=5)")] if settings.num_seeds == 1 else []
        return [Message("a lower {learning_rate}{}", here[1]), length, *seeds]

    def fit_temperature(self, outputs: dict[str, np.ndarray]) -> np.ndarray:
        """Returns what to divide the weights of the head by, float [C], from the outputs for `calibration_features`.

        `describe` then returns it, too. A task with these features needs this method and `write_calibration`.
        """
        raise NotImplementedError

    def write_calibration(self, run_dir: RunDir, before: dict[str, np.ndarray], after: dict[str, np.ndarray]) -> None:
        """Writes reports on the outputs for `eval_features` before and after the division."""
        raise NotImplementedError

    def write_evaluation(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> Any:
        """Writes reports of the evaluation into the run folder; see `evaluate` for `outputs`.

        Returns the predictions, see `write_predictions`, if the data are also those to predict.
        """

    def findings(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> "Findings | None":
        """Returns what report.html says about the evaluation; None: the task has no such page."""

    def write_predictions(self, run_dir: RunDir, outputs: dict[str, np.ndarray]) -> Any:
        """Writes the predictions for `predict_features` into the run folder; returns them for Python."""
        raise NotImplementedError


def finite_logits(outputs: dict[str, np.ndarray]) -> np.ndarray:
    """Returns the logits as float64; refuses numbers that are not finite."""
    logits = outputs["logits"].astype(np.float64)
    is_finite = np.isfinite(logits).reshape(len(logits), -1).all(-1)
    if not is_finite.all():
        raise NotFinite(
            "the model's outputs for {:,} of {:,} sequences are not finite numbers; train again with a lower "
            "{learning_rate}",
            np.sum(~is_finite),
            len(logits),
        )
    return logits


def _listed(values: Any) -> str:
    return ", ".join(f"{value:g}" for value in (values if isinstance(values, tuple | list) else (values,)))
