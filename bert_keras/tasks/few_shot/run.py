"""Few-shot classification: a logistic regression on the vectors of an encoder, which first learns to tell the classes.

The encoder learns from all pairs of texts in a batch, so a few steps are enough. The two stages are the idea of
Tunstall et al. 2022, "Efficient Few-Shot Learning Without Prompts" (SetFit). The model is an ordinary classifier. Its
pooler gives the mean of the tokens the length 1, and the regression is its head, so prediction, the server and all
exports need nothing else.
"""

import dataclasses
import logging
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.devices import distribute, is_compiled
from bert_keras.engine.distribution.workers import Workers
from bert_keras.engine.evaluation_pass import Inference, finish, last, length_step
from bert_keras.engine.input.feature_batches import batches_of, in_parts
from bert_keras.engine.loop import Hooks, train
from bert_keras.engine.trainer import make_trainer
from bert_keras.mistakes import Message, Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import ClassifierModel, weights_by_name
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.runs.metrics_log import draw_learning_curves
from bert_keras.runs.run_dir import ALL_STEPS, RunDir
from bert_keras.tasks.classification.task import Classification
from bert_keras.tasks.few_shot.settings import FewShotSettings, classifier_settings
from bert_keras.tasks.finetuning.model_dir import has_model, load_start, write_model
from bert_keras.tasks.finetuning.run import FineTuning, Trained
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.vectors.losses import NO_CLASS, ClassesLoss

if TYPE_CHECKING:
    from sklearn.linear_model import LogisticRegression

log = logging.getLogger("bert_keras")


def few_shot_config(files: ModelFolder) -> ModelFolder:
    """Returns the model with the pooler of a few-shot model: the pooling of its vectors, mean of other encoders."""
    stored = files.with_answer("vectors").task or {}
    if stored.get("prefix"):
        log.warning("the texts have no prefix, but the vectors of %s were trained with %r", files, stored["prefix"])
    is_of_vectors = files.config.pooler_act in ("unit_length", "linear")  # of few labels, here or in SetFit
    pooling = stored.get("pooling", files.config.pooling if is_of_vectors else "mean")
    return files.with_config(pooling=pooling, pooler_act="unit_length")


def load_encoder(model: ClassifierModel, files: ModelFolder) -> None:
    """Loads the encoder into a network with the config of `few_shot_config`; its pooler then has the identity."""
    load_start(model, files, new_head=True)
    weights = weights_by_name(model)
    weights["bert/pooler/dense/kernel"].assign(np.eye(files.config.hidden_size))
    weights["bert/pooler/dense/bias"].assign(np.zeros(files.config.hidden_size))


def vectors_of(
    model: ClassifierModel, strategy: tf.distribute.Strategy, batch_size: int, is_trimmed: bool = True
) -> Inference:
    """Returns what computes the "vectors" that the head reads, float32 [N, H]."""
    return Inference(cast(Any, Encoder(model)), strategy, batch_size, is_trimmed)


def open_encoder(files: ModelFolder, batch_size: int, precision: str = "float32") -> Inference:
    """Returns what computes the "vectors" of a model from `few_shot_config`, without training a head."""
    with dtype_policy(precision):
        network = ClassifierModel(files.config, 2)  # nothing reads its head
    load_encoder(network, files)
    return vectors_of(network, tf.distribute.get_strategy(), batch_size)


class FewShot(Classification):
    """The task of run_few_shot.py; the names of the classes are examples, too.

    Args:
        settings: those of the program.
        files: the model to start from, with the config of `few_shot_config`, or the one to use.
        stored: the task.json of the model if the run does not train; else None.
    """

    program = "run_few_shot"

    def __init__(self, settings: FewShotSettings, files: ModelFolder, stored: dict[str, Any] | None = None) -> None:
        names = list(settings.class_names) if settings.do_train else []
        super().__init__(classifier_settings(settings), files, {"labels": names} if names else stored)
        if not settings.do_train:
            return
        read = [example for part in (self.data.train, self.data.dev, self.data.test) for example in part or ()]
        if names and (pair := next((example for example in read if example.text_b is not None), None)):
            message = "{class_names} are single texts, but {} has a pair; leave them out, or name one {text_column}"
            raise Mistake(message, pair.source)
        class_texts = [Example(name, name.replace("_", " "), label=name, source=f"the class {name}") for name in names]
        self.examples = [*(self.data.train or ()), *class_texts]
        self.num_train_examples = len(self.examples)

    def remedies(self, settings: Any) -> list[Message]:
        here = f" (here {settings.contrastive_epochs})" if settings.do_train else ""
        more = Message("more {contrastive_epochs}{}", here)
        return [Message("more examples of each class"), more, Message("another encoder ({init_checkpoint})")]


class FewShotRun(FineTuning):
    """A run that fits a head after the training of the encoder."""

    def _decided(self, tries: list[dict[str, Any]]) -> Self:
        """Returns the run itself: it is too short for XLA, and its batches suit any number of devices."""
        return self

    def train(self, settings: Any, run_dir: RunDir) -> Trained | None:
        """Trains the encoder, fits the head, and writes the model into `model/`."""
        task: Any = self.task
        files = self.opened.files
        if has_model(run_dir) and run_dir.state["end"]:
            log.info("nothing to train: the head is fitted")
            return Trained()
        network, step = self._build(settings), 1
        load_encoder(network.model, files)
        hooks = self._train_encoder(network.model, settings, run_dir)
        if hooks:
            if not run_dir.state["end"]:
                return None
            step = hooks.settings.num_train_steps
        weights = weights_by_name(network.model)
        encoder = vectors_of(network.model, self.strategy, settings.eval_batch_size, self._is_trimmed)
        vectors = last(encoder.outputs(task.train_features))["vectors"]
        labels, class_weights = task.train_features["label_ids"], task.class_weights
        kernel, bias = fit_head(vectors, labels, None if class_weights is None else np.array(class_weights)[labels])
        weights["output_weights"].assign(kernel)
        weights["output_bias"].assign(bias)
        log.info("the head is fitted to the vectors of %s examples", f"{len(labels):,}")
        has_evaluation = task.eval_features is not None
        evaluation = finish(self._evaluator(network, settings)(), step) if has_evaluation else None
        write_model(run_dir, task, settings, files, network.model, step, evaluation.metrics if evaluation else {})
        if evaluation and self.callbacks.on_evaluation and run_dir.is_writable:
            self.callbacks.on_evaluation(step, evaluation.metrics)
        run_dir.finish(step, ALL_STEPS)
        run_dir.forget_checkpoints()  # they have Adam's moments, too, and the model is complete
        return Trained(None, network, step, evaluation)

    def _train_encoder(self, model: ClassifierModel, settings: FewShotSettings, run_dir: RunDir) -> Hooks | None:
        """Makes the vectors of each class similar. Returns the hooks of the loop; None if there is nothing to train."""
        if not settings.contrastive_epochs:
            return None
        features: Any = self.task.train_features
        if np.bincount(features["label_ids"]).max() < 2:
            log.info("no class has two examples to compare, so the encoder stays as it is")
            return None
        rows = contrastive_batches(features["label_ids"], settings.contrastive_epochs, settings.seed)
        num_devices = self.strategy.num_replicas_in_sync
        loss = ClassesLoss(Encoder(model))
        features = {name: features[name] for name in loss.feature_names}
        rows, features = filled(rows, features, num_devices)
        steps = dataclasses.replace(
            settings,
            num_train_steps=len(rows),
            num_warmup_steps=int(len(rows) * settings.warmup_proportion),
            train_batch_size=rows.shape[1],
            log_steps=len(rows) // settings.contrastive_epochs,
        )
        step = length_step(features["input_ids"].shape[-1], is_compiled(settings))

        def batches(start: int) -> Iterable:
            parts = in_parts(batches_of(features, rows[start:], self._is_trimmed, step), num_devices)
            return distribute(self.strategy, parts, is_endless=True)

        hooks = Hooks(
            run_dir, steps, self.task.num_train_examples, self.console, Workers(self.strategy), callbacks=self.callbacks
        )
        trainer = make_trainer(loss, self.strategy, steps, is_trained=lambda name: not name.startswith(_FIXED))
        train(trainer, batches, hooks)
        draw_learning_curves(run_dir)
        return hooks


class Encoder:
    """The vectors that the head of a classifier reads, as a model for `Inference` and `Trainer`."""

    is_per_token = False

    def __init__(self, model: ClassifierModel) -> None:
        self.bert = model.bert
        self.name, self.name_in_checkpoint = model.name, model.name_in_checkpoint
        self.weights = self.variables = model.weights

    def __call__(self, features: dict[str, Any], dropout_seed: Any = None) -> dict[str, Any]:
        return {"vectors": self.bert(features, dropout_seed=dropout_seed)["pooled_output"]}


def contrastive_batches(labels: np.ndarray, num_epochs: int, seed: int) -> np.ndarray:
    """Returns the rows of each batch, int [steps, B].

    Each epoch has as many batches of equal size as all examples need, and leaves out a random rest. The examples come
    in groups of up to 4 of one class, because an example learns nothing in a batch without another one of its class.
    """
    num_batches = -(-len(labels) // _LARGEST_BATCH)
    size = len(labels) // num_batches
    draw, epochs = np.random.default_rng(seed), []
    for _ in range(num_epochs):
        rows = draw.permutation(len(labels))
        rows = rows[np.argsort(labels[rows], stable=True)]
        places = np.arange(len(rows)) - np.searchsorted(labels[rows], labels[rows])  # within the class
        _, groups = np.unique([labels[rows], places // 4], axis=1, return_inverse=True)
        rows = rows[np.argsort(draw.permutation(len(rows))[groups.reshape(-1)], stable=True)]
        epochs.append(rows[: size * num_batches].reshape(num_batches, size))
    return np.concatenate(epochs)


def filled(
    rows: np.ndarray, features: dict[str, np.ndarray], multiple_of: int
) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Fills each batch to a size that the devices can share, so that their number does not change its examples.

    The filling is a copy of the shortest example, as another example at the end, with a label that does not count.
    """
    num_examples, shortest = len(features["label_ids"]), features["input_mask"].sum(-1).argmin()
    features = {name: np.concatenate([values, values[[shortest]]]) for name, values in features.items()}
    features["label_ids"][-1] = NO_CLASS
    filling = np.full((len(rows), -rows.shape[1] % multiple_of), num_examples)
    return np.concatenate([rows, filling], axis=1), features


def fit_head(
    vectors: np.ndarray, labels: np.ndarray, example_weights: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Fits a logistic regression to vectors, and returns it as a linear head with one row a class.

    Args:
        vectors: float [N, H], of length 1.
        labels: int [N], each class from 0 to C - 1 at least once.
        example_weights: float [N], or None: all are equal.

    Returns:
        The kernel, float [C, H], and the bias, float [C].
    """
    model = regression().fit(vectors, labels, example_weights)
    kernel, bias = model.coef_, model.intercept_
    if len(kernel) == 1:  # of two classes, scikit-learn has the difference
        kernel, bias = np.concatenate([-kernel, kernel]) / 2, np.concatenate([-bias, bias]) / 2
    return kernel, bias


def regression() -> "LogisticRegression":
    """Returns the logistic regression for vectors of the length 1, before its fit."""
    from sklearn.linear_model import LogisticRegression  # it loads only where it is needed

    return LogisticRegression(C=_INVERSE_REGULARIZATION, max_iter=1000)


# Vectors of the length 1 differ little in each number, so the default of scikit-learn, 1, keeps answers near 1 / C.
_INVERSE_REGULARIZATION = 10.0
# The pooler and the head, whose weights the fit of the head sets.
_FIXED = ("bert/pooler", "output_")
_LARGEST_BATCH = 64
