"""The step of `engine.step` on TensorFlow: variables, sums over the replicas, and what XLA compiles of it."""

from collections.abc import Callable, Iterator
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.replicas import gather_replicas, graph_function, local_values, sum_over_replicas
from bert_keras.engine.loss_scale import new_variable, without_skipped
from bert_keras.engine.precision import FUSIBLE, can_compile_update, clustered
from bert_keras.engine.step import Arrays, Trainer, joined, part_of

# Their replicas run `step` at the same time, each in a thread.
_REPLICATED = (tf.distribute.MirroredStrategy, tf.distribute.MultiWorkerMirroredStrategy)


class TensorFlowTrainer(Trainer):
    """A `Trainer` for any `tf.distribute.Strategy`.

    `is_compiled`: on one device XLA compiles the whole step, on several what is before and what is after the exchange
    of gradients. False: XLA is not used. None: XLA compiles only the update of a large model, where that is safe, see
    `engine.precision.can_compile_update`. "fusible": also the operations between the products.
    """

    def _prepare(self, is_compiled: bool | str | None) -> None:
        self._updates: dict[tuple[Any, ...], Callable[..., list[tf.Tensor]]] = {}
        self.train = graph_function(self, "take_steps")
        if is_compiled == FUSIBLE:
            self.train = clustered(self.train)
        if is_compiled is True:
            # XLA cannot compile the places where replicas wait for each other.
            is_replicated = isinstance(self.strategy, _REPLICATED)
            names = ("_own_vectors", "_sums", "_update") if is_replicated else ("_step_with_seeds",)
        else:
            is_possible = is_compiled is not False and can_compile_update(self.optimizer, self.strategy, self._weights)
            names = ("_update",) if is_possible else ()
        self._compiled = {name: graph_function(self, name, jit_compile=True) for name in names}

    def _own(self, variable: keras.Variable) -> tf.Variable:
        return variable.value

    def _new(self, value: np.ndarray, dtype: Any) -> tf.Variable:
        return new_variable(value, dtype)

    def take_steps(self, iterator: Iterator[Arrays], num_steps: tf.Tensor) -> Arrays:
        """Does what `Trainer` says of `train`, which is this function as a graph."""
        zeros = {name: tf.zeros([]) for name in self.loss.metric_names}
        totals = {"numerators": zeros, "denominators": dict(zeros), "loss": tf.zeros([]), "gradient_norm": tf.zeros([])}
        if self._loss_scale:
            totals["num_skipped"] = tf.zeros([])

        def one_more(number: tf.Tensor, totals: Arrays) -> tuple[tf.Tensor, Arrays]:
            result = local_values(self.strategy, self.strategy.run(self.step, args=(next(iterator),)))
            return number + 1, tf.nest.map_structure(tf.add, totals, result)

        _, totals = tf.while_loop(lambda number, totals: number < num_steps, one_more, (tf.constant(0), totals))
        if self._loss_scale:
            totals["loss_scale"] = self._loss_scale.value.read_value()
        return totals

    def step(self, features: Arrays) -> Arrays:
        """Does one update with this replica's part of a batch; returns the sums of `train`, without `loss_scale`.

        Every device runs it at the same time.
        """
        # Of a batch of other parts, XLA would leave some out or compute some twice.
        features = {name: tf.ensure_shape(v, [self.num_micro_batches, *v.shape[1:]]) for name, v in features.items()}
        replica_id = tf.distribute.get_replica_context().replica_id_in_sync_group
        # Not in what XLA compiles, because it would draw other numbers.
        seeds = self._dropout_seeds(self.global_step, replica_id)
        return (self._compiled.get("_step_with_seeds") or self._step_with_seeds)(features, seeds)

    def _step_with_seeds(self, features: Arrays, seeds: tf.Tensor) -> Arrays:
        """Does what `step` describes, with the seeds of the dropout of this replica's micro-batches: int32 [N, 2]."""
        denominators = sum_over_replicas(self.loss.denominators(joined(features)))
        scale = self._loss_scale.value.read_value() if self._loss_scale else None
        if self.loss.compare and self.num_micro_batches * self.strategy.num_replicas_in_sync > 1:
            features = features | self._compared(self.loss.compare, features, seeds)
        sums = (self._compiled.get("_sums") or self._sums)(features, seeds, denominators, scale)
        gradients, numerators = sum_over_replicas(sums)
        loss = self.loss.value(numerators, denominators)
        norm = tf.distribute.get_replica_context().merge_call(self._update_replicas, args=(gradients, loss))
        result = {"numerators": numerators, "denominators": denominators, "loss": loss, "gradient_norm": norm}
        return result if scale is None else without_skipped(result, scale)

    def _sums(
        self,
        features: Arrays,
        seeds: tf.Tensor,
        denominators: Arrays,
        scale: tf.Tensor | None,
    ) -> tuple[Arrays, Arrays]:
        """Returns the dense gradients by weight name and the numerators, summed over this replica's micro-batches."""
        if self.num_micro_batches == 1:
            return self._gradients(part_of(features, 0), denominators, seeds[0], scale)
        found: Arrays = {}

        def add(index: tf.Tensor, sums: Any) -> Any:
            part = self._gradients(part_of(features, index), denominators, seeds[index], scale)
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

    def _compared(self, compare: Callable[[Any, Arrays], Arrays], features: Arrays, seeds: tf.Tensor) -> Arrays:
        """Returns further features for a loss that compares all examples of the global batch: `loss.compare`.

        The vectors of all micro-batches and replicas are computed without gradients and compared. The micro-batches
        then compute them again, with the same dropout, and multiply them by the gradients of the comparison.
        """
        own = {name: features[name] for name in self.loss.label_names}
        own["vectors"] = (self._compiled.get("_own_vectors") or self._own_vectors)(features, seeds)
        num_replicas = self.strategy.num_replicas_in_sync
        # [parts, rows, ...] -> [replicas, parts, rows, ...]. One sum each, because their types differ.
        all_parts = {name: gather_replicas(value, num_replicas) for name, value in own.items()}
        shape = tf.shape(all_parts["vectors"])[:3]
        examples = joined(joined(all_parts))
        compared = compare(examples.pop("vectors"), examples)
        replica = tf.distribute.get_replica_context().replica_id_in_sync_group
        return {
            name: tf.reshape(value, tf.concat([shape, tf.shape(value)[1:]], 0))[replica]
            for name, value in compared.items()
        }

    def _own_vectors(self, features: Arrays, seeds: tf.Tensor) -> tf.Tensor:
        """Returns the vectors of this replica's examples: float32 [parts, rows, ..., H]."""
        return tf.map_fn(
            lambda index: self._vectors(part_of(features, index), seeds[index]),
            tf.range(self.num_micro_batches),
            parallel_iterations=1,
            fn_output_signature=tf.float32,
        )

    def _gradients(
        self,
        features: Arrays,
        denominators: Arrays,
        seed: tf.Tensor,
        scale: tf.Tensor | None,
    ) -> tuple[Arrays, Arrays]:
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

    def _update_replicas(self, strategy: tf.distribute.Strategy, gradients: Arrays, loss: tf.Tensor) -> tf.Tensor:
        """Calls `_update` on every replica; returns the norm of one of them, which is that of all."""
        update = self._compiled.get("_update") or self._update
        return strategy.extended.update(
            self.global_step, lambda step, *values: update(*values), args=(gradients, loss), group=False
        )[0]

    def _update(self, gradients: Arrays, loss: tf.Tensor) -> tf.Tensor:
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

    def _update_weights(self, gradients: Arrays) -> None:
        step = self.global_step.read_value()
        for name, values in self.new_values(gradients, step, lambda variable: variable.read_value(), self._groups):
            for group, value in zip(self._groups, values, strict=True):
                group[name].assign(value)

    def _update_of(self, name: str) -> Callable[..., list[tf.Tensor]]:
        # All weights of a shape with the same rule share a graph: to trace the step of BERT-Base takes 23 % less.
        rule = (self._weights[name].shape, self._units.get(name), self.optimizer.rule(name))
        if rule not in self._updates:
            self._updates[rule] = graph_function(self, "_new_values_of", name)
        return self._updates[rule]
