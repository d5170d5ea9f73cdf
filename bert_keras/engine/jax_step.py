"""The step of `engine.step` as one pure function that JAX compiles.

It maps weights, slots, a batch and seeds to weights, slots and sums. XLA writes the new weights and slots over the old
ones. The state has the same names as on TensorFlow, and dropout the same masks as on one device of it, so a run may
continue on the other backend.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import jax
import jax.extend
import jax.numpy as jnp
import keras
import numpy as np
import tensorflow as tf

from bert_keras.engine.distribution.jax_devices import errors_of_tensorflow
from bert_keras.engine.step import Arrays, Trainer, joined, part_of


class JaxTrainer(Trainer):
    """A `Trainer` whose `strategy` is a `JaxDevices`. It has no loss scale: bfloat16 needs none.

    JAX compiles every step, so `is_compiled` has no effect.
    """

    def _prepare(self, is_compiled: bool | str | None) -> None:
        self.train = self._take_steps
        self._has_gradient: list[str] | None = None
        self._step = jax.jit(self._updated, donate_argnums=(0, 1), out_shardings=self.strategy.whole)
        self._seeds = tf.function(lambda step: self._dropout_seeds(step, 0), autograph=False)

    def _own(self, variable: keras.Variable) -> keras.Variable:
        return variable

    @errors_of_tensorflow()
    def _new(self, value: np.ndarray, dtype: Any) -> keras.Variable:
        return keras.Variable(value, dtype=dtype, trainable=False)

    @errors_of_tensorflow()
    def _take_steps(self, iterator: Iterator[Mapping[str, Any]], num_steps: Any) -> dict[str, Any]:
        """Does what `Trainer` says of `train`; it returns to Python between the steps, but does not wait there."""
        self.strategy.spread(variable for group in (*self._groups, self._fixed()) for variable in group.values())
        state, totals, others = self._start()
        totals = self.strategy.place(totals, self.strategy.whole)
        first = int(self.global_step.numpy())
        for step in range(first, first + int(num_steps)):
            features = {name: np.asarray(values) for name, values in next(iterator).items()}
            features = {name: values.reshape(self._shape_of_parts(values)) for name, values in features.items()}
            features = self.strategy.place(features, self.strategy.parts)
            seeds = self._seeds(tf.constant(step, tf.int64)).numpy().view(np.uint32)
            self._find_gradients(state[0], others, features, seeds)
            state, totals = self._step(state, totals, others, features, seeds, np.int32(step))
        jax.block_until_ready(totals)
        self.global_step.assign_add(int(num_steps))
        for variables, values in zip(self._groups, state, strict=True):
            for name, variable in variables.items():
                variable.assign(values[name])
        sums = ("numerators", "denominators")  # JAX sorts the names of a dict
        return totals | {name: {metric: totals[name][metric] for metric in self.loss.metric_names} for name in sums}

    def lower(self, batch: Mapping[str, jax.ShapeDtypeStruct]) -> jax.stages.Lowered:
        """Returns the step for a batch of these shapes, ready to be compiled for the devices, which need not exist."""
        whole, num_parts = self.strategy.whole, self.num_micro_batches
        start = (*self._start(), np.zeros([num_parts, 2], np.uint32), np.int32(0))
        state, totals, others, seeds, step = jax.tree.map(
            lambda value: jax.ShapeDtypeStruct(value.shape, value.dtype, sharding=whole), start
        )
        features = {
            name: jax.ShapeDtypeStruct(self._shape_of_parts(value), value.dtype, sharding=self.strategy.parts)
            for name, value in batch.items()
        }
        self._find_gradients(state[0], others, features, seeds)
        return self._step.lower(state, totals, others, features, seeds, step)

    def _shape_of_parts(self, values: Any) -> tuple[int, ...]:
        """Returns the shape of the parts that all devices compute together, in which each has some of the rows."""
        num_devices = values.shape[0] // self.num_micro_batches
        return (self.num_micro_batches, num_devices * values.shape[1], *values.shape[2:])

    def _start(self) -> tuple[list[Arrays], Arrays, Arrays]:
        """Returns the values of the state, totals of zero, and the values of the other weights."""
        zeros = {name: np.float32(0) for name in self.loss.metric_names}
        totals = {"numerators": zeros, "denominators": zeros, "loss": np.float32(0), "gradient_norm": np.float32(0)}
        return _values(self._groups), totals, _values(self._fixed())

    def _fixed(self) -> dict[str, keras.Variable]:
        """Returns the weights that training does not change."""
        fixed = {name: variable for name, variable in self._all_weights.items() if name not in self._weights}
        return fixed | {str(number): variable for number, variable in enumerate(self.loss.fixed_weights)}

    def _updated(
        self, state: list[Arrays], totals: Arrays, others: Arrays, features: Arrays, seeds: Any, step: Any
    ) -> tuple[list[Arrays], Arrays]:
        """Returns the state after a step, and the totals with its sums added."""
        state = [dict(values) for values in state]
        denominators = self.loss.denominators(joined(features))
        gradients, numerators = self._summed(state[0], others, features, seeds, denominators)
        gradients, norm = self.clipped({name: gradients[name] for name in self._has_gradient or ()})
        for name, values in self.new_values(gradients, step, lambda value: value, state):
            for group, value in zip(state, values, strict=True):
                group[name] = value
        loss = self.loss.value(numerators, denominators)
        result = {"numerators": numerators, "denominators": denominators, "loss": loss, "gradient_norm": norm}
        return state, jax.tree.map(jnp.add, totals, result)

    def _summed(
        self, weights: Arrays, others: Arrays, features: Arrays, seeds: Any, denominators: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Returns the gradients and the numerators, summed over the micro-batches of features [parts, rows, ...]."""
        if self.loss.compare and self.num_micro_batches > 1:
            features = features | self._compared(self.loss.compare, weights, others, features, seeds)

        def compute(part: Arrays, seed: Any) -> tuple[Arrays, Arrays]:
            return self._compute_part(weights, others, part, seed, denominators)

        if self.num_micro_batches == 1:
            return compute(part_of(features, 0), seeds[0])
        rest = {name: values[1:] for name, values in features.items()}

        def add(sums: Any, part: Any) -> tuple[Any, None]:
            return jax.tree.map(jnp.add, sums, compute(*part)), None

        return jax.lax.scan(add, compute(part_of(features, 0), seeds[0]), (rest, seeds[1:]))[0]

    def _compute_part(
        self, weights: Arrays, others: Arrays, features: Arrays, seed: Any, denominators: Arrays
    ) -> tuple[Arrays, Arrays]:
        """Returns the gradients and the numerators of a micro-batch."""

        def value(weights: Arrays) -> tuple[Any, Arrays]:
            with self._scope(weights, others):
                numerators = self.loss.numerators(features, dropout_seed=seed)
            return self.loss.value(numerators, denominators), numerators

        return jax.grad(value, has_aux=True)(weights)

    def _compared(self, compare: Any, weights: Arrays, others: Arrays, features: Arrays, seeds: Any) -> Arrays:
        """Does what `TensorFlowTrainer._compared` describes."""

        def vectors_of(part: tuple[Arrays, Any]) -> Any:
            with self._scope(weights, others):
                return self._vectors(*part)

        own = {name: features[name] for name in self.loss.label_names}
        own["vectors"] = jax.lax.map(vectors_of, (features, seeds))  # [parts, rows, K, H]
        own = joined(own)
        compared = compare(own.pop("vectors"), own)
        return {name: jnp.reshape(value, (len(seeds), -1, *value.shape[1:])) for name, value in compared.items()}

    def _scope(self, weights: Arrays, others: Arrays) -> keras.StatelessScope:
        """Returns a scope in which the variables have these values."""
        fixed = {str(number): variable for number, variable in enumerate(self.loss.fixed_weights)}
        variables = {**self._all_weights, **fixed}
        return keras.StatelessScope(
            state_mapping=[(variables[name], value) for name, value in {**weights, **others}.items()]
        )

    def _find_gradients(self, weights: Arrays, others: Arrays, features: Arrays, seeds: Any) -> None:
        """Finds the weights that the loss depends on, the first time. JAX gives the others a gradient of zeros."""
        if self._has_gradient is not None:
            return

        def gradients(weights: Arrays, others: Arrays, features: Arrays, seeds: Any) -> Arrays:
            denominators = self.loss.denominators(joined(features))
            return self._compute_part(weights, others, part_of(features, 0), seeds[0], denominators)[0]

        program = jax.make_jaxpr(gradients)(weights, others, features, seeds).jaxpr
        reached = set(program.invars[: len(weights)])
        for equation in program.eqns:
            if any(isinstance(value, jax.extend.core.Var) and value in reached for value in equation.invars):
                reached.update(equation.outvars)
        names = sorted(weights)  # the order in which JAX returns the values of a dict
        found = {
            name
            for name, value in zip(names, program.outvars, strict=True)
            if isinstance(value, jax.extend.core.Var) and value in reached
        }
        self._has_gradient = [name for name in weights if name in found]
        self._report_trained(self._has_gradient)


def _values(variables: Any) -> Any:
    """Returns the values of a structure of dicts of variables."""
    return jax.tree.map(lambda variable: variable.value, variables, is_leaf=lambda x: isinstance(x, keras.Variable))
