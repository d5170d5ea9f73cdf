"""Runs a network on data without changing it, on any number of devices: metrics of batches, outputs of examples.

A pass is a generator, which yields None before each batch and its result at last, so the caller may leave it.
"""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras.cli.progress import Progress
from bert_keras.engine.distribution.devices import distribute
from bert_keras.engine.distribution.replicas import graph_function, local_values, sum_over_replicas
from bert_keras.engine.input.feature_batches import LENGTH_STEP, prediction_batches
from bert_keras.engine.report import in_words
from bert_keras.mistakes import Mistake
from bert_keras.modeling.losses import Loss
from bert_keras.runs.run_dir import RunDir

log = logging.getLogger("bert_keras")

# The outputs of a network for features.
Infer = Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]


@dataclasses.dataclass(frozen=True)
class Evaluation:
    """The metrics by name; the outputs of `Inference` for the examples, and its function; None of pre-training."""

    metrics: dict[str, float]
    outputs: dict[str, np.ndarray] | None = None
    infer: Infer | None = None


def last(results: Iterable[Any]) -> Any:
    """Runs a pass to its end, and returns its result."""
    *_, result = results
    return result


def finish(evaluation: Iterable[Evaluation | None], step: int) -> Evaluation:
    """Runs an evaluation of a step to its end; logs the metrics, and returns the `Evaluation`."""
    result = last(evaluation)
    log.info("evaluation of step %d: %s", step, in_words(result.metrics))
    return result


class Evaluator:
    """Measures the model of a loss without changing it. `is_compiled`: XLA compiles the network with its losses."""

    def __init__(self, loss: Loss, strategy: tf.distribute.Strategy, is_compiled: bool = False) -> None:
        self.loss = loss
        self.strategy = strategy
        self._numerators = loss.numerators
        is_on_jax = keras.backend.backend() == "jax"  # which compiles everything
        if is_compiled and not is_on_jax:
            # AutoGraph would rewrite every method with `super()`, and keep the frame of the call.
            self._numerators = tf.function(
                lambda features: loss.numerators(features), jit_compile=True, autograph=False
            )
        if is_on_jax:
            weights = [*loss.own_weights.values()]
            self._run = strategy.compiled(
                lambda features: self._with_loss(self._own_sums(features)), lambda: [*loss.model.variables, *weights]
            )
        else:
            self._run = graph_function(self, "_sums")

    def evaluate(self, batches: Iterable[dict[str, Any]]) -> Iterator[Evaluation | None]:
        """A pass to an `Evaluation`, whose metrics are weighted by the denominators of each batch.

        `loss` is the unweighted mean of the batch losses, as in the original BERT.
        """
        numerators, denominators, losses = {}, {}, []
        for features in batches:
            yield None
            result = self._run(features)
            losses.append(float(result["loss"]))
            for name in self.loss.metric_names:
                numerators[name] = numerators.get(name, 0.0) + float(result["numerators"][name])
                denominators[name] = denominators.get(name, 0.0) + float(result["denominators"][name])
        if not losses:
            raise Mistake("evaluation found no batch; give records that hold examples")
        metrics = {name: float(value) for name, value in self.loss.metrics(numerators, denominators).items()}
        yield Evaluation({"loss": sum(losses) / len(losses), **metrics})

    def _sums(self, features: dict[str, Any]) -> dict[str, Any]:
        return local_values(self.strategy, self.strategy.run(self.step, args=(features,)))

    def step(self, features: dict[str, tf.Tensor]) -> dict[str, Any]:
        """Measures this replica's part of a batch, and returns the sums and the loss of the whole batch."""
        return self._with_loss(sum_over_replicas(self._own_sums(features)))

    def _own_sums(self, features: dict[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
        return self._numerators(features), self.loss.denominators(features)

    def _with_loss(self, sums: tuple[dict[str, Any], dict[str, Any]]) -> dict[str, Any]:
        numerators, denominators = sums
        return {"numerators": numerators, "denominators": denominators, "loss": self.loss.value(*sums)}


class Inference:
    """Runs a model on examples without changing it. You can reuse it after the weights change.

    Args:
        model: one of `modeling.models`; its `is_per_token` says whether it has an output for each token.
        batch_size: over all devices.
        is_trimmed: whether to cut each batch to its longest sequence, see `engine.input.feature_batches`.
        is_compiled: whether XLA compiles the model, once for every length.
    """

    def __init__(
        self,
        model: keras.Model,
        strategy: tf.distribute.Strategy,
        batch_size: int,
        is_trimmed: bool = False,
        is_compiled: bool = False,
    ) -> None:
        self._model = model
        self._strategy = strategy
        self._batch_size = batch_size
        self._is_trimmed = is_trimmed
        self._is_compiled = is_compiled
        self._answer = model
        if is_compiled and keras.backend.backend() != "jax":
            self._answer = tf.function(lambda features: model(features), jit_compile=True, autograph=False)
        if keras.backend.backend() == "jax":
            answer = strategy.compiled(lambda features: model(features), lambda: model.variables)
            self._run = lambda iterator: answer(next(iterator))
        else:
            self._run = graph_function(self, "_next_outputs")

    def outputs(self, features: dict[str, np.ndarray]) -> Iterator[dict[str, np.ndarray] | None]:
        """A pass to the outputs by name, float32 [N, ...] in the order of the examples; 0 for tokens that were cut."""
        features = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
        num_rows, num_tokens = len(features["input_ids"]), features["input_ids"].shape[-1]
        step = length_step(num_tokens, is_compiled=True) if self._is_compiled else 1
        batches, order = prediction_batches(features, self._batch_size, self._is_trimmed, step)
        collected, row, progress = {}, 0, Progress()
        progress.start("predicting", num_rows, "sequences")
        iterator = iter(distribute(self._strategy, batches))
        while row < num_rows:
            yield None
            rows = order[row : row + self._batch_size]
            for name, values in self._run(iterator).items():
                values = np.asarray(values)[: len(rows)]
                if self._model.is_per_token:
                    values = _padded(values, num_tokens)
                if name not in collected:
                    collected[name] = np.empty((num_rows, *values.shape[1:]), np.float32)
                collected[name][rows] = values
            row += len(rows)
            progress.advance(len(rows))
        yield collected

    def _next_outputs(self, iterator: Iterator[dict[str, Any]]) -> dict[str, tf.Tensor]:
        # Calling `next` inside the graph lets batches of every length share one graph.
        outputs = self._strategy.run(self._answer, args=(next(iterator),))
        return {name: self._strategy.gather(values, axis=0) for name, values in outputs.items()}


def length_step(num_tokens: int, is_compiled: bool) -> int:
    """Returns the number that the lengths of trimmed batches are multiples of.

    XLA compiles a program for each length, so compiled batches have at most eight lengths.
    """
    return LENGTH_STEP * -(-num_tokens // (8 * LENGTH_STEP)) if is_compiled else LENGTH_STEP


def _padded(values: np.ndarray, num_tokens: int) -> np.ndarray:
    """Pads [B, t, ...] with zeros to [B, T, ...]."""
    return np.pad(values, [(0, 0), (0, num_tokens - values.shape[1]), *[(0, 0)] * (values.ndim - 2)])


def write_eval_results(run_dir: RunDir, step: int, metrics: Mapping[str, float | np.floating]) -> None:
    """Writes eval_results.txt in the format of the original BERT: one line `key = value` for each key, sorted.

    A metric as float32 has the same digits as in the original BERT.
    """
    results = {"global_step": step, **metrics}
    run_dir.create()
    run_dir.write_text("eval_results.txt", "".join(f"{name} = {results[name]}\n" for name in sorted(results)))
