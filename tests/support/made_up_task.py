"""A fine-tuning task of random features, for tests of the code that all fine-tuning programs share."""

import dataclasses
import json

import keras
import numpy as np
from known_models import TOKENS, write_model
from states import assert_bit_equal, weights_in  # noqa: F401 (for the tests)
from tiny_bert import make_config

from bert_keras.cli.console import open_console
from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.engine.report import NO_CALLBACKS
from bert_keras.modeling import ClassificationLoss, ClassifierModel, PretrainingModel
from bert_keras.settings.fields import setting
from bert_keras.settings.groups import EvaluatedSettings
from bert_keras.tasks.finetuning.opening import open_fine_tuning
from bert_keras.tasks.finetuning.run import FineTuning
from bert_keras.tasks.finetuning.task import Task

PROGRAM = "run_made_up"
NUM_TOKENS = 8


@dataclasses.dataclass(frozen=True, kw_only=True)
class MadeUpSettings(EvaluatedSettings):
    title = "Made up"

    max_seq_length: int = setting("Maximum number of tokens.", NUM_TOKENS, lower_bound=4)


def make_features(num_rows, seed, num_classes=2):
    """Makes rows of random tokens; the label says whether the second token is in the first half of the vocabulary."""
    random = np.random.default_rng(seed)
    mask = np.arange(NUM_TOKENS) < random.integers(4, NUM_TOKENS + 1, num_rows)[:, None]
    ids = random.integers(5, len(TOKENS), mask.shape) * mask
    return {
        "input_ids": ids.astype(np.int32),
        "input_mask": mask.astype(np.int8),
        "segment_ids": np.zeros(mask.shape, np.int8),
        "label_ids": (ids[:, 1] * num_classes // len(TOKENS)).astype(np.int32),
    }


class MadeUp(Task):
    """A task of 24 training rows and ten evaluation rows; with batches of eight, an epoch has three steps.

    Args:
        scores: metrics that `evaluate` returns in turn instead of the true ones; it raises exceptions among them.
        does_evaluate, does_predict: whether there are rows for it.
        baseline: float; the accuracy of the baseline.
        num_classes: of the head.
        name: identifies the data, like a digest.
        labels: names of the classes.
    """

    program = PROGRAM
    metric = "accuracy"
    metric_names = ("accuracy", "margin")
    num_train_examples = 24

    def __init__(
        self, scores=(), does_evaluate=True, does_predict=False, baseline=0.0, num_classes=2, name="abc", labels=None
    ):
        self.train_features = make_features(24, 1, num_classes)
        self.eval_features = make_features(10, 2, num_classes) if does_evaluate else None
        self.predict_features = make_features(5, 3, num_classes) if does_predict else None
        self.scores = list(scores)
        self.num_evaluations = 0
        self.baseline = {"accuracy": baseline, "margin": 0.0}
        self.facts = {"train_data": name}
        self._num_classes = num_classes
        self._labels = labels or ["low", "high"]

    def describe(self):
        return {
            "task": "classification",
            "labels": self._labels,
            "is_pair": False,
            "doc_stride": None,
            "max_seq_length": NUM_TOKENS,
        }

    def make_network(self, config):
        return ClassificationLoss(ClassifierModel(config, self._num_classes))

    def evaluate(self, outputs):
        self.num_evaluations += 1
        logits, labels = outputs["logits"], self.eval_features["label_ids"]
        accuracy = float((logits.argmax(-1) == labels).mean())
        if self.scores:
            accuracy = self.scores.pop(0)
            if isinstance(accuracy, BaseException):
                # A copy, so that `scores` does not keep the objects of its traceback alive.
                raise type(accuracy)(str(accuracy))
        # A number that differs for other weights.
        return {"accuracy": accuracy, "margin": float(logits[:, 0].astype(np.float64).sum())}

    def write_evaluation(self, run_dir, outputs):
        run_dir.write_text("answers.json", json.dumps(outputs["logits"].tolist()))

    def write_predictions(self, run_dir, outputs):
        run_dir.write_text("predictions.json", json.dumps(outputs["logits"].tolist()))


def write_start(folder, num_layers=1):
    """Writes a pre-trained model of width 8, and returns its folder."""
    keras.utils.set_random_seed(5)
    config = make_config(vocab_size=len(TOKENS), num_hidden_layers=num_layers, initializer_range=0.3)
    return write_model(folder, PretrainingModel(config))


def open_run(**given):
    """Opens the run of a command line with these flags."""
    settings = MadeUpSettings.from_argv([PROGRAM, *(f"--{name}={value}" for name, value in given.items())])
    return open_fine_tuning(settings, PROGRAM, ("classification",), ("max_seq_length",))


def run(task, output_dir, callbacks=NO_CALLBACKS, **given):
    """Runs a command; by default it trains six steps of eight rows and evaluates."""
    usual = {"do_train": True, "do_eval": task.eval_features is not None, "do_predict": False}
    usual |= {"train_batch_size": 8, "num_train_epochs": 2, "learning_rate": 0.01, "log_steps": 1}
    usual |= {"iterations_per_loop": 1, "output_dir": output_dir}
    if not given.get("do_train", True):
        usual = {"output_dir": output_dir, "do_eval": task.eval_features is not None}
    given = {"eval_batch_size": 10, **usual, **given}
    opened = open_run(**{name: value for name, value in given.items() if value is not None})
    console = open_console()
    return FineTuning(task, opened, strategy_of(opened.settings), console, callbacks).execute().metrics


def task_of(folder):
    """Returns the task.json of the model of a run."""
    return json.loads((folder / "model" / "task.json").read_text(encoding="utf-8"))
