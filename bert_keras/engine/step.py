"""One update of the weights, for any number of devices.

A step computes the gradients of every micro-batch, makes them dense, and sums them over the micro-batches and then over
the replicas. Only then does it clip them by their global norm and apply Adam. In float16 it divides by the loss scale
before it takes the norm, and all replicas skip an update that is not finite. Losses are divided by the weight of the
whole global batch. The number of devices or micro-batches therefore does not change the result. After the update it
averages the weights, if that is wanted.
"""

import functools
import logging
import math
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.tpu import is_tpu
from bert_keras.engine.input.packed_batches import PackedLoss
from bert_keras.engine.precision import can_use_xla
from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.loading import weights_by_name
from bert_keras.modeling.losses import Loss
from bert_keras.modeling.optimization import AdamWeightDecay, clip_by_global_norm

log = logging.getLogger("bert_keras")

T = TypeVar("T")

# Devices exchange gradients in packs of this size, so that the exchange starts before the backward pass ends. Otherwise
# TensorFlow copies all gradients into one pack.
_COMMUNICATION = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=50 * 2**20)
# At this loss scale the loss is unchanged, so scaling cannot be the cause of values that are not finite.
_LOWEST_SCALE = 1.0
_NOTHING_TO_TRAIN = "nothing to train: the loss depends only on weights that are frozen; freeze fewer layers"
_HIGHEST_SCALE = 2.0**24
# Minimum number of trained numbers for which compiling the update saves time.
_LARGE = 2**20
# Their replicas run `step` at the same time, each in a thread.
_REPLICATED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


class Trainer:
    """A loss, its optimizer and everything that changes during training.

    Args:
        loss: if it compares the examples of a batch, it also has `compare`, see
            `tasks.vectors.losses.RankingLoss`.
        optimizer: its learning rate is a schedule.
        strategy: the loss's model was built in its scope.
        seed: the seed of dropout.
        num_micro_batches: number of equal parts of a replica's batch, which it must divide. More parts save memory and
            change nothing else.
        is_trained: takes a weight's name and returns whether to train it; None: all weights are trained.
        loss_scale: without it, small gradients vanish in float16.
        is_compiled: whether XLA compiles the step, once for every shape of the features: on one device the whole step,
            on several what is before and what is after the exchange of gradients. False: XLA is not used. None:
            XLA compiles only the update of a large model, where that is safe, see `_can_compile`.
        ema_decay: d of the average of each trained weight, see `_average`; 0: weights are not averaged. The averages
            start from the weights at this moment.

    Raises:
        ValueError: no weight is trained; the first step raises it if the loss depends on none of them.

    Attributes:
        train: `take_steps` as a `tf.function`.
        sum_over_replicas: sums a structure of tensors over all devices; a test may replace it.
    """

    def __init__(
        self,
        loss: Loss | PackedLoss,
        optimizer: AdamWeightDecay,
        strategy: tf.distribute.Strategy,
        seed: int,
        num_micro_batches: int = 1,
        is_trained: Callable[[str], bool] | None = None,
        loss_scale: "LossScale | None" = None,
        is_compiled: bool | None = None,
        ema_decay: float = 0.0,
    ) -> None:
        self.loss: Any = loss
        self.optimizer = optimizer
        self.strategy = strategy
        self.num_micro_batches = num_micro_batches
        self.sum_over_replicas = sum_over_replicas
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
            self.global_step = _variable(0, tf.int64)
            self._m, self._v = (
                {
                    name: self._new(np.zeros(weight.shape, np.float32), weight.dtype)
                    for name, weight in self._weights.items()
                }
                for _ in range(2)
            )
            averaged = self._weights if ema_decay else {}
            self._averages = {name: self._new(weight.numpy(), weight.dtype) for name, weight in averaged.items()}

    def _prepare(self, is_compiled: bool | None) -> None:
        """Makes the functions that compute a step."""
        self.train = graph_function(self, "take_steps")
        if is_compiled:
            # XLA cannot compile the places where replicas wait for each other.
            is_replicated = isinstance(self.strategy, _REPLICATED)
            names = ("_own_vectors", "_sums", "_update") if is_replicated else ("_step_with_seeds",)
        else:
            names = ("_update",) if is_compiled is None and self._can_compile() else ()
        self._compiled = {name: graph_function(self, name, jit_compile=True) for name in names}

    def _can_compile(self) -> bool:
        """Returns whether XLA can compile the update of a large model for the devices; if not, logs the reason.

        Without XLA, TensorFlow makes a dozen passes over the memory of each weight, and keeps more of it.
        """
        is_large = sum(math.prod(weight.shape) for weight in self._weights.values()) >= _LARGE
        # XLA compiles everything for a TPU. It ends the process for a GPU that it does not know.
        if not is_large or is_tpu(self.strategy) or not can_use_xla():
            return False
        optimizer, name = self.optimizer, next(iter(self._weights))

        def update() -> Any:
            zeros = tf.zeros([1])
            return optimizer.update(name, zeros, zeros, zeros, zeros, tf.zeros([]), tf.zeros([], tf.int64))

        compiled = tf.function(update, autograph=False, jit_compile=True)
        try:
            # Use a graph, because TensorFlow warns of strategies that run anything else; a partial: see graph_function.
            tf.function(functools.partial(self.strategy.run, lambda: compiled()), autograph=False)()
        except tf.errors.OpError as error:
            reason = error.message.strip().split("\n")[0]
            log.warning(
                "XLA cannot compile the update (%s); TensorFlow computes it without XLA, which is slower", reason
            )
            return False
        return True

    def _own(self, variable: keras.Variable) -> Any:
        """Returns the variable of the backend in that of Keras."""
        return variable.value

    def _new(self, value: np.ndarray, dtype: Any) -> Any:
        """Returns a new variable of the state."""
        return _variable(value, dtype)

    @property
    def state(self) -> dict[str, tf.Variable]:
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

    def take_steps(self, iterator: Iterator[dict[str, Any]], num_steps: tf.Tensor) -> dict[str, Any]:
        """Takes several steps. Call it as `train`, which does not return to Python between them.

        `num_steps` is an int32 scalar tensor, because TensorFlow would trace a graph for each Python int.

        Returns:
            dict with `numerators` and `denominators` (dicts of float32 scalars by metric), `loss` and `gradient_norm`
            before clipping (float32 scalars), each summed over the steps. With a loss scale also `num_skipped` and
            `loss_scale` after the last step. `num_skipped` counts steps whose gradients overflowed: they change no
            weight, and the sums leave them out.
        """
        zeros = {name: tf.zeros([]) for name in self.loss.metric_names}
        totals = {"numerators": zeros, "denominators": dict(zeros), "loss": tf.zeros([]), "gradient_norm": tf.zeros([])}
        if self._loss_scale:
            totals["num_skipped"] = tf.zeros([])

        def one_more(number: tf.Tensor, totals: dict[str, Any]) -> tuple[tf.Tensor, dict[str, Any]]:
            result = local_values(self.strategy, self.strategy.run(self.step, args=(next(iterator),)))
            return number + 1, tf.nest.map_structure(tf.add, totals, result)

        _, totals = tf.while_loop(lambda number, totals: number < num_steps, one_more, (tf.constant(0), totals))
        if self._loss_scale:
            totals["loss_scale"] = self._loss_scale.value.read_value()
        return totals

    def step(self, features: dict[str, tf.Tensor]) -> dict[str, Any]:
        """Does one update with this replica's part of a batch; returns the sums of `take_steps`, without `loss_scale`.

        Every device runs it at the same time.
        """
        replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
        # Not in what XLA compiles, because it would draw other numbers.
        seeds = self._dropout_seeds(self.global_step, replica_id)
        return (self._compiled.get("_step_with_seeds") or self._step_with_seeds)(features, seeds)

    def _dropout_seeds(self, step: tf.Tensor | tf.Variable, replica_id: int | tf.Tensor) -> tf.Tensor:
        """Returns the seed of the dropout of each micro-batch: int32 [N, 2]."""
        return tf.stack([dropout_seed(self._seed, step, replica_id, index) for index in range(self.num_micro_batches)])

    def _step_with_seeds(self, features: dict[str, tf.Tensor], seeds: tf.Tensor) -> dict[str, Any]:
        """Does what `step` describes, with the seeds of the dropout of this replica's micro-batches: int32 [N, 2]."""
        denominators = self.sum_over_replicas(self.loss.denominators(features))
        scale = self._loss_scale.value.read_value() if self._loss_scale else None
        if self.num_micro_batches * self.strategy.num_replicas_in_sync > 1 and hasattr(self.loss, "compare"):
            features = features | self._compared(features, seeds)
        sums = (self._compiled.get("_sums") or self._sums)(features, seeds, denominators, scale)
        gradients, numerators = self.sum_over_replicas(sums)
        loss = self.loss.value(numerators, denominators)
        norm = tf.distribute.get_replica_context().merge_call(self._update_replicas, args=(gradients, loss))
        result = {"numerators": numerators, "denominators": denominators, "loss": loss, "gradient_norm": norm}
        return self._loss_scale.without_skipped(result, scale) if self._loss_scale else result

    def _sums(
        self,
        features: dict[str, tf.Tensor],
        seeds: tf.Tensor,
        denominators: dict[str, tf.Tensor],
        scale: tf.Tensor | None,
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the dense gradients by weight name and the numerators, summed over this replica's micro-batches."""
        if self.num_micro_batches == 1:
            return self._gradients(features, denominators, seeds[0], scale)
        found: dict[str, tf.Tensor] = {}

        def add(index: tf.Tensor, sums: Any) -> Any:
            part = self._gradients(self._part(features, index), denominators, seeds[index], scale)
            found.update(part[0])
            part = ({name: part[0].get(name, 0.0) for name in self._weights}, part[1])
            return index + 1, tf.nest.map_structure(tf.add, sums, part)

        zeros = {name: tf.zeros(weight.shape) for name, weight in self._weights.items()}
        _, (gradients, numerators) = tf.while_loop(
            lambda index, sums: index < self.num_micro_batches,
            add,
            (tf.constant(0), (zeros, {name: tf.zeros([]) for name in self.loss.metric_names})),
            maximum_iterations=self.num_micro_batches,
            parallel_iterations=1,  # or several micro-batches would be in memory at the same time
        )
        return {name: gradients[name] for name in found}, numerators

    def _part(self, features: dict[str, tf.Tensor], index: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns the features of a micro-batch."""
        size = features["input_ids"].shape[0] // self.num_micro_batches
        return {name: _rows(value, index * size, size) for name, value in features.items()}

    def _compared(self, features: dict[str, tf.Tensor], seeds: tf.Tensor) -> dict[str, tf.Tensor]:
        """Returns further features for a loss that compares all examples of the global batch: `loss.compare`.

        The vectors of all micro-batches and replicas are computed without gradients and compared. The micro-batches
        then compute them again, with the same dropout, and multiply them by the gradients of the comparison.
        """
        own = {name: features[name] for name in self.loss.label_names}
        own["vectors"] = (self._compiled.get("_own_vectors") or self._own_vectors)(features, seeds)
        num_rows, replica = own["vectors"].shape[0], tf.distribute.get_replica_context()
        first, num_all = num_rows * replica.replica_id_in_sync_group, num_rows * self.strategy.num_replicas_in_sync
        if num_all > num_rows:
            # The sum of all replicas' rows, each at its place among zeros. One sum each, because their types differ.
            own = {
                name: self.sum_over_replicas({name: _at(value, first, num_all)})[name] for name, value in own.items()
            }
        compared = self.loss.compare(own.pop("vectors"), own)
        return {name: _rows(value, first, num_rows) for name, value in compared.items()}

    def _own_vectors(self, features: dict[str, tf.Tensor], seeds: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of this replica's examples: float32 [B, ..., H]."""
        vectors = tf.map_fn(
            lambda index: self._vectors(self._part(features, index), seeds[index]),
            tf.range(self.num_micro_batches),
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )  # [micro-batches, size, ..., H]
        return tf.reshape(vectors, [features["input_ids"].shape[0], *vectors.shape[2:]])

    def _vectors(self, features: dict[str, tf.Tensor], seed: tf.Tensor) -> tf.Tensor:
        return self.loss.model(features, dropout_seed=seed)["vectors"]

    def _gradients(
        self,
        features: dict[str, tf.Tensor],
        denominators: dict[str, tf.Tensor],
        seed: tf.Tensor,
        scale: tf.Tensor | None,
    ) -> tuple[dict[str, tf.Tensor], dict[str, tf.Tensor]]:
        """Returns the dense gradients of a micro-batch by weight name, and its numerators."""
        with tf.GradientTape() as tape:
            numerators = self.loss.numerators(features, dropout_seed=seed)
            loss = self.loss.value(numerators, denominators)
        gradients = tape.gradient(loss, self._weights, scale)
        self._report_trained([name for name, gradient in gradients.items() if gradient is not None])
        # A weight that the loss does not depend on has no gradient. The update leaves it out, as in the original BERT;
        # weight decay alone would shrink it.
        # The gradient of a lookup is a list of slices, and several of them may be of the same row. The dense gradient
        # sums them; their squares would make Adam's second moment wrong without any error.
        # TensorFlow exchanges gradients in packs only if their shapes are known.
        gradients = {
            name: tf.ensure_shape(tf.convert_to_tensor(gradient), self._weights[name].shape)
            for name, gradient in gradients.items()
            if gradient is not None
        }
        return gradients, numerators

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

    def _update_replicas(
        self, strategy: tf.distribute.Strategy, gradients: dict[str, tf.Tensor], loss: tf.Tensor
    ) -> tf.Tensor:
        """Calls `_update` on every replica; returns the norm of one of them, which is that of all."""
        update = self._compiled.get("_update") or self._update
        return strategy.extended.update(
            self.global_step, lambda step, *values: update(*values), args=(gradients, loss), group=False
        )[0]

    def _update(self, gradients: dict[str, tf.Tensor], loss: tf.Tensor) -> tf.Tensor:
        """Changes the state on one device, with the sums over all; returns the norm of the gradients, not clipped."""
        if self._loss_scale:
            gradients = {name: gradient / self._loss_scale.value for name, gradient in gradients.items()}
        # The gradient of a weight that is measured in its unit.
        gradients = {name: gradient * self._units.get(name, 1.0) for name, gradient in gradients.items()}
        clipped, norm = clip_by_global_norm(list(gradients.values()), self.optimizer.clip_norm)
        gradients = dict(zip(gradients, clipped, strict=True))
        if not self._loss_scale:
            self._update_weights(gradients)
        else:
            is_finite = tf.math.is_finite(loss + norm)
            tf.cond(is_finite, lambda: self._update_weights(gradients), lambda: None)
            self._loss_scale.update(is_finite)
        self.global_step.assign_add(1)
        return norm

    def _update_weights(self, gradients: dict[str, tf.Tensor]) -> None:
        step = self.global_step.read_value()
        learning_rate = self.optimizer.schedule(step)
        for name, gradient in gradients.items():
            weight, m, v, unit = self._weights[name], self._m[name], self._v[name], self._units.get(name, 1.0)
            value, *moments = self.optimizer.update(
                name, weight.read_value() / unit, gradient, m.read_value(), v.read_value(), learning_rate, step
            )
            for variable, new in zip((weight, m, v), (value * unit, *moments), strict=True):
                variable.assign(new)
            if name in self._averages:
                self._average(self._averages[name], weight, step)

    def _average(self, average: tf.Variable, weight: tf.Variable, step: tf.Tensor) -> None:
        """Moves an average towards its weight. With e for the average and w for the weight after step t (from 0):

            e <- e + (1 - min(d, (1 + t) / (10 + t))) * (w - e)

        The smaller decay of the first steps keeps the start from dominating a short run, so no bias needs a correction.

        Source: tf.train.ExponentialMovingAverage with `num_updates`.
        """
        t = tf.cast(step, average.dtype)
        decay = tf.minimum(self._ema_decay, (1.0 + t) / (10.0 + t))
        average.assign_add((1.0 - decay) * (weight - average))


class LossScale:
    """Keeps small gradients from vanishing in float16. Create it in the scope of the strategy.

    The loss is multiplied by the scale, and the gradients are divided by it. They overflow if the scale is too large.
    An overflow therefore halves the scale, and `steps_to_growth` steps without one double it. The scale is a power of
    two, so that multiplication is exact.

    Source: Micikevicius et al. 2018, "Mixed Precision Training".
    """

    def __init__(self, start: float = 2.0**15, steps_to_growth: int = 2000) -> None:
        self.value = _variable(start, tf.float32)
        self._good_steps = _variable(0, tf.int64)
        self.state = {"loss_scale": self.value, "loss_scale_steps": self._good_steps}
        self._steps_to_growth = steps_to_growth

    def update(self, is_finite: tf.Tensor) -> None:
        """Updates the scale after a step; `is_finite` is a bool scalar."""
        counted = self._good_steps + 1
        is_growing = is_finite & (counted >= self._steps_to_growth)
        grown = tf.where(is_growing, tf.minimum(self.value * 2.0, _HIGHEST_SCALE), self.value)
        self.value.assign(tf.where(is_finite, grown, tf.maximum(self.value / 2.0, _LOWEST_SCALE)))
        self._good_steps.assign(tf.where(is_finite & ~is_growing, counted, 0))

    def without_skipped(self, result: dict[str, Any], scale: tf.Tensor) -> dict[str, Any]:
        """Returns the result of a step at a scale, with `num_skipped` added: 0 or 1. A skipped one has 0 in all others.

        A step that is not finite at the lowest scale does not count as skipped, because a lower scale cannot help. Its
        result keeps the values that are not finite.
        """
        is_finite = tf.math.is_finite(result["loss"] + result["gradient_norm"])
        is_skipped = ~is_finite & (scale > _LOWEST_SCALE)
        result = tf.nest.map_structure(lambda value: tf.where(is_skipped, 0.0, value), result)
        return {**result, "num_skipped": tf.cast(is_skipped, tf.float32)}


def sum_over_replicas(values: T) -> T:
    """Returns a structure of tensors, each summed over all replicas. Every replica must call it."""
    # `replica.all_reduce` would register a gradient of the sum, which keeps the graph and its weights in memory.
    summed = tf.distribute.get_replica_context().merge_call(
        lambda strategy, *flat: strategy.extended.batch_reduce_to(
            tf.distribute.ReduceOp.SUM, [(value, value) for value in flat], _COMMUNICATION
        ),
        args=tf.nest.flatten(values),
    )
    return tf.nest.pack_sequence_as(values, summed)


def local_values(strategy: tf.distribute.Strategy, result: T) -> T:
    """Returns the values of one replica. After a reduction every replica holds the same values."""
    return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], result)


def graph_function(owner: object, name: str, jit_compile: bool | None = None) -> Callable[..., Any]:
    """Returns the method `name` of an object as a `tf.function` that does not keep the object alive.

    AutoGraph is off: it would rewrite every function that is called, and double the time of tracing.
    """
    # TensorFlow warns of too many traces, and counts those of all functions with the same code together. A partial has
    # no code, so it counts alone.
    method = functools.partial(_call, weakref.ref(owner), name)
    return tf.function(method, autograph=False, jit_compile=jit_compile)


def _call(weak_owner: weakref.ref[Any], name: str, *arguments: Any) -> Any:
    return getattr(weak_owner(), name)(*arguments)


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


def _rows(values: tf.Tensor, start: int | tf.Tensor, num_rows: int) -> tf.Tensor:
    """Returns num_rows rows of a tensor. XLA needs a constant number, which the difference of two ends is not."""
    size = tf.concat([[num_rows], tf.shape(values)[1:]], 0)
    return tf.slice(values, [start, *[0] * (values.shape.rank - 1)], size)


def _at(values: tf.Tensor, start: int | tf.Tensor, num_rows: int) -> tf.Tensor:
    """Returns num_rows rows of zeros, with the given rows from `start` on."""
    size = values.shape[0]
    padded = tf.pad(values, [[start, num_rows - size - start], *[[0, 0]] * (values.shape.rank - 1)])
    return tf.ensure_shape(padded, [num_rows, *values.shape[1:]])


def _variable(value: Any, dtype: tf.DType | None = None) -> tf.Variable:
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
