"""The step of `engine.step` on TensorFlow: variables, sums over the replicas, and what XLA compiles of it."""

from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.replicas import graph_function, local_values, sum_over_replicas
from bert_keras.engine.loss_scale import new_variable, without_skipped
from bert_keras.engine.precision import can_compile_update
from bert_keras.engine.step import Trainer

# Their replicas run `step` at the same time, each in a thread.
_REPLICATED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


class TensorFlowTrainer(Trainer):
    """A `Trainer` for any `tf.distribute.Strategy`.

    `is_compiled`: on one device XLA compiles the whole step, on several what is before and what is after the exchange
    of gradients. False: XLA is not used. None: XLA compiles only the update of a large model, where that is safe, see
    `engine.precision.can_compile_update`.
    """

    def _prepare(self, is_compiled: bool | None) -> None:
        self.train = graph_function(self, "take_steps")
        if is_compiled:
            # XLA cannot compile the places where replicas wait for each other.
            is_replicated = isinstance(self.strategy, _REPLICATED)
            names = ("_own_vectors", "_sums", "_update") if is_replicated else ("_step_with_seeds",)
        else:
            is_possible = is_compiled is None and can_compile_update(self.optimizer, self.strategy, self._weights)
            names = ("_update",) if is_possible else ()
        self._compiled = {name: graph_function(self, name, jit_compile=True) for name in names}

    def _own(self, variable: keras.Variable) -> tf.Variable:
        return variable.value

    def _new(self, value: np.ndarray, dtype: Any) -> tf.Variable:
        return new_variable(value, dtype)

    def take_steps(self, iterator: Iterator[dict[str, Any]], num_steps: tf.Tensor) -> dict[str, Any]:
        """Does what `Trainer` says of `train`, which is this function as a graph."""
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
        """Does one update with this replica's part of a batch; returns the sums of `train`, without `loss_scale`.

        Every device runs it at the same time.
        """
        replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
        # Not in what XLA compiles, because it would draw other numbers.
        seeds = self._dropout_seeds(self.global_step, replica_id)
        return (self._compiled.get("_step_with_seeds") or self._step_with_seeds)(features, seeds)

    def _step_with_seeds(self, features: dict[str, tf.Tensor], seeds: tf.Tensor) -> dict[str, Any]:
        """Does what `step` describes, with the seeds of the dropout of this replica's micro-batches: int32 [N, 2]."""
        denominators = sum_over_replicas(self.loss.denominators(features))
        scale = self._loss_scale.value.read_value() if self._loss_scale else None
        if self.num_micro_batches * self.strategy.num_replicas_in_sync > 1 and hasattr(self.loss, "compare"):
            features = features | self._compared(features, seeds)
        sums = (self._compiled.get("_sums") or self._sums)(features, seeds, denominators, scale)
        gradients, numerators = sum_over_replicas(sums)
        loss = self.loss.value(numerators, denominators)
        norm = tf.distribute.get_replica_context().merge_call(self._update_replicas, args=(gradients, loss))
        result = {"numerators": numerators, "denominators": denominators, "loss": loss, "gradient_norm": norm}
        return result if scale is None else without_skipped(result, scale)

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
            own = {name: sum_over_replicas({name: _at(value, first, num_all)})[name] for name, value in own.items()}
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
        # The gradient of a lookup is a list of slices, and several of them may be of the same row. The dense gradient
        # sums them; their squares would make Adam's second moment wrong without any error.
        # TensorFlow exchanges gradients in packs only if their shapes are known.
        gradients = {
            name: tf.ensure_shape(tf.convert_to_tensor(gradient), self._weights[name].shape)
            for name, gradient in gradients.items()
            if gradient is not None
        }
        return gradients, numerators

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
        scale = self._loss_scale.value.read_value() if self._loss_scale else None
        gradients, norm = self.clipped(gradients, scale)
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
        for name, values in self.new_values(gradients, step, lambda variable: variable.read_value(), self._groups):
            for group, value in zip(self._groups, values, strict=True):
                group[name].assign(value)


def _rows(values: tf.Tensor, start: int | tf.Tensor, num_rows: int) -> tf.Tensor:
    """Returns num_rows rows of a tensor. XLA needs a constant number, which the difference of two ends is not."""
    size = tf.concat([[num_rows], tf.shape(values)[1:]], 0)
    return tf.slice(values, [start, *[0] * (values.shape.rank - 1)], size)


def _at(values: tf.Tensor, start: int | tf.Tensor, num_rows: int) -> tf.Tensor:
    """Returns num_rows rows of zeros, with the given rows from `start` on."""
    size = values.shape[0]
    padded = tf.pad(values, [[start, num_rows - size - start], *[[0, 0]] * (values.shape.rank - 1)])
    return tf.ensure_shape(padded, [num_rows, *values.shape[1:]])
