"""One update of the weights, for any number of devices: its state and its arithmetic, the same on TensorFlow and JAX.

A step computes the gradients of every micro-batch, makes them dense, and sums them over the micro-batches and then over
the replicas. Only then does it clip them by their global norm and apply Adam. In float16 it divides by the loss scale
before it takes the norm, and all replicas skip an update that is not finite. Losses are divided by the weight of the
whole global batch. The number of devices or micro-batches therefore does not change the result. After the update it
averages the weights, if that is wanted.

`tensorflow_step` and `jax_step` compute the gradients and store the values.
"""

import functools
import logging
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from bert_keras.engine.loss_scale import LossScale, new_variable
from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.loading import weights_by_name
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.optimization import AdamWeightDecay, clip_by_global_norm

log = logging.getLogger("bert_keras")

# Tensors or arrays by name.
Arrays = dict[str, Any]

_NOTHING_TO_TRAIN = "nothing to train: the loss depends only on weights that are frozen; freeze fewer layers"


class Trainer:
    """A loss, its optimizer and everything that changes during training. Use the subclass of a backend.

    Args:
        optimizer: its learning rate is a schedule.
        strategy: the loss's model was built in its scope.
        seed: the seed of dropout.
        num_micro_batches: the parts of each replica. More parts save memory and change nothing else.
        is_trained: takes a weight's name and returns whether to train it; None: all weights are trained.
        loss_scale: without it, small gradients vanish in float16.
        is_compiled: whether XLA compiles the step, once for every shape of the features; None: see the subclasses.
        ema_decay: d of the average of each trained weight, see `average`; 0: weights are not averaged. The averages
            start from the weights at this moment.

    Raises:
        ValueError: no weight is trained; the first step raises it if the loss depends on none of them.

    Attributes:
        train: takes several steps with the batches [parts, rows, ...] of an iterator, see `in_parts`, and an int32
            scalar tensor with their number, because TensorFlow would trace a graph for each Python int. Each replica
            has its own parts, and each batch may have another number of rows. It returns a dict with `numerators` and
            `denominators` (dicts of float32 scalars by metric), `loss` and `gradient_norm` before clipping (float32
            scalars), each summed over the steps. With a loss scale also `num_skipped` and `loss_scale` after the last
            step. `num_skipped` counts steps whose gradients overflowed: they change no weight, and the sums leave them
            out.
    """

    train: Callable[[Iterator[Mapping[str, Any]], tf.Tensor], dict[str, Any]]

    def __init__(
        self,
        loss: Loss,
        optimizer: AdamWeightDecay,
        strategy: Any,
        seed: int,
        num_micro_batches: int = 1,
        is_trained: Callable[[str], bool] | None = None,
        loss_scale: LossScale | None = None,
        is_compiled: bool | str | None = None,
        ema_decay: float = 0.0,
    ) -> None:
        self.loss = loss
        self.optimizer = optimizer
        self.strategy = strategy
        self.num_micro_batches = num_micro_batches
        self._seed = seed
        self._ema_decay = ema_decay
        self._loss_scale = loss_scale
        variables = {**weights_by_name(loss.model), **loss.own_weights}
        self._all_weights = {name: self._own(variable) for name, variable in variables.items()}
        self._weights = {
            name: weight for name, weight in self._all_weights.items() if not is_trained or is_trained(name)
        }
        self._units = {name: unit for name, unit in loss.weight_units.items() if name in self._weights}
        if not self._weights:
            raise Mistake(_NOTHING_TO_TRAIN)
        self._is_reported = False
        self._prepare(is_compiled)
        with strategy.scope():
            self.global_step = new_variable(0, tf.int64)
            self._m, self._v = (
                {
                    name: self._new(np.zeros(weight.shape, np.float32), weight.dtype)
                    for name, weight in self._weights.items()
                }
                for _ in range(2)
            )
            averaged = self._weights if ema_decay else {}
            self._averages = {name: self._new(weight.numpy(), weight.dtype) for name, weight in averaged.items()}
        # The variables that the update of a weight changes, in the order of `new_values`.
        self._groups = [self._weights, self._m, self._v, *([self._averages] if ema_decay else [])]

    def _prepare(self, is_compiled: bool | str | None) -> None:
        """Makes the functions that compute a step."""
        raise NotImplementedError

    def _own(self, variable: keras.Variable) -> Any:
        """Returns the variable of the backend in that of Keras."""
        raise NotImplementedError

    def _new(self, value: np.ndarray, dtype: Any) -> Any:
        """Returns a new variable of the state."""
        raise NotImplementedError

    @property
    def state(self) -> dict[str, Any]:
        """Everything that training changes, under the names of the original BERT.

        Dropout and the data are functions of the seed and `global_step`, so this state is enough to resume exactly.
        Averages have the names of their weights, so that everyone who reads a checkpoint uses them.
        """
        state = {"global_step": self.global_step, **self._all_weights}
        state.update(self._averages)
        state.update({f"{name}/unaveraged": self._weights[name] for name in self._averages})
        state.update(self._loss_scale.state if self._loss_scale else {})
        state.update({f"{name}/adam_m": slot for name, slot in self._m.items()})
        state.update({f"{name}/adam_v": slot for name, slot in self._v.items()})
        return state

    def swap_averages(self) -> None:
        """Exchanges the weights of the model with their averages, if there are any. Twice restores both."""
        for name, average in self._averages.items():
            value = self._weights[name].numpy()
            self._weights[name].assign(average.numpy())
            average.assign(value)

    def clipped(self, gradients: Arrays, scale: Any = None) -> tuple[Arrays, Any]:
        """Returns the gradients that the update uses, and their norm before clipping.

        Args:
            gradients: summed over the whole batch; a weight that the loss does not depend on has none.
            scale: the loss scale in these gradients, if there is one.
        """
        if scale is not None:
            gradients = {name: gradient / scale for name, gradient in gradients.items()}
        # The gradient of a weight that is measured in its unit.
        gradients = {n: g * self._units[n] if n in self._units else g for n, g in gradients.items()}
        clipped, norm = clip_by_global_norm(list(gradients.values()), self.optimizer.clip_norm)
        return dict(zip(gradients, clipped, strict=True)), norm

    def new_values(
        self, gradients: Arrays, step: Any, read: Callable[[Any], Any], groups: Sequence[Mapping[str, Any]]
    ) -> Iterator[tuple[str, list[Any]]]:
        """Yields for one weight after another its name and the new values of weight, m, v and, if wanted, average.

        The caller stores them before it asks for the next, because the memory does not hold the whole state twice.

        Args:
            gradients: from `clipped`. A weight without a gradient is left out, as in the original BERT; weight decay
                alone would shrink it.
            step: the number of earlier updates.
            read: returns the value in a place of the groups.
            groups: dicts by name with the present values, in the order of the results.
        """
        learning_rate = self.optimizer.schedule(step)
        for name, gradient in gradients.items():
            update = self._update_of(name)
            yield name, update(gradient, learning_rate, step, [read(group[name]) for group in groups])

    def _update_of(self, name: str) -> Callable[..., list[Any]]:
        """Returns the arithmetic of `new_values` for a weight."""
        return functools.partial(self._new_values_of, name)

    def _new_values_of(
        self, name: str, gradient: Any, learning_rate: Any, step: Any, values: Sequence[Any]
    ) -> list[Any]:
        weight, m, v, *averages = values
        unit = self._units.get(name, 1.0)
        value, m, v = self.optimizer.update(name, weight / unit, gradient, m, v, learning_rate, step)
        weight = value * unit
        return [weight, m, v, *(average(old, weight, self._ema_decay, step) for old in averages)]

    def _dropout_seeds(self, step: tf.Tensor | tf.Variable, replica_id: int | tf.Tensor) -> tf.Tensor:
        """Returns the seed of the dropout of each micro-batch: int32 [N, 2]."""
        return tf.stack([dropout_seed(self._seed, step, replica_id, index) for index in range(self.num_micro_batches)])

    def _vectors(self, features: Arrays, seed: Any) -> Any:
        """Returns the vectors that a loss compares: float32 [B, ..., H]."""
        return self.loss.model(features, dropout_seed=seed)["vectors"]

    def _report_trained(self, names: Sequence[str]) -> None:
        """Logs how many numbers training changes, once; `names` are those of the weights with a gradient."""
        if not names:
            raise Mistake(_NOTHING_TO_TRAIN)
        if self._is_reported:
            return
        self._is_reported = True
        num_trained, num_all = (
            sum(math.prod(self._all_weights[name].shape) for name in group) for group in (names, self._all_weights)
        )
        log.info("training changes %s of %s numbers", f"{num_trained:,}", f"{num_all:,}")


def joined(features: Mapping[str, Any]) -> Arrays:
    """Joins the parts of a batch: [parts, rows, ...] -> [parts * rows, ...]."""
    return {name: ops.reshape(value, (-1, *ops.shape(value)[2:])) for name, value in features.items()}


def part_of(features: Mapping[str, Any], index: Any) -> Arrays:
    """Returns a part of a batch: [parts, rows, ...] -> [rows, ...]."""
    return {name: value[index] for name, value in features.items()}


def average(old: Any, weight: Any, ema_decay: float, step: Any) -> Any:
    """Returns an average e that has moved towards its weight w after step t (from 0):

        e + (1 - min(d, (1 + t) / (10 + t))) * (w - e)

    The smaller decay of the first steps keeps the start from dominating a short run, so no bias needs a correction.

    Source: tf.train.ExponentialMovingAverage with `num_updates`.
    """
    t = ops.cast(step, old.dtype)
    decay = ops.minimum(ema_decay, (1.0 + t) / (10.0 + t))
    return old + (1.0 - decay) * (weight - old)


def dropout_seed(
    seed: int, step: int | tf.Tensor | tf.Variable, replica_id: int | tf.Tensor, micro_batch: int | tf.Tensor
) -> tf.Tensor:
    """Returns the seed of all dropout of a micro-batch: int32 [2].

    The first element differs with each argument; layers add their position to the second, which is 0.
    """
    folded = tf.constant([seed & 0x7FFFFFFF, 0], tf.int32)
    # fold_in mixes earlier values into the first element and leaves the newest in the second. The final 0 keeps
    # micro-batch 1 of one layer from sharing its masks with micro-batch 0 of the next.
    for part in (step, replica_id, micro_batch, 0):
        folded = tf.random.fold_in(folded, tf.cast(part, tf.int32))
    return folded
