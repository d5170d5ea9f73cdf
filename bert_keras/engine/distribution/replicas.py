"""What TensorFlow's replicas run: graphs, and sums over all replicas."""

import functools
import weakref
from collections.abc import Callable
from typing import Any, TypeVar

import tensorflow as tf

T = TypeVar("T")

# Devices exchange gradients in packs of this size, so that the exchange starts before the backward pass ends. Otherwise
# TensorFlow copies all gradients into one pack.
_COMMUNICATION = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=50 * 2**20)


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


def gather_replicas(value: tf.Tensor, num_replicas: int) -> tf.Tensor:
    """Returns the values of all replicas, [replicas, ...]: the sum of each at its place among zeros."""
    if num_replicas == 1:
        return value[tf.newaxis]
    replica = tf.distribute.get_replica_context().replica_id_in_sync_group
    is_own = tf.reshape(tf.range(num_replicas) == replica, [-1, *[1] * value.shape.rank])
    return sum_over_replicas(tf.where(is_own, value, tf.zeros([], value.dtype)))


def local_values(strategy: tf.distribute.Strategy, result: T) -> T:
    """Returns the values of one replica. After a reduction every replica holds the same values."""
    return tf.nest.map_structure(lambda value: strategy.experimental_local_results(value)[0], result)


def graph_function(owner: object, name: str, *first: Any, jit_compile: bool | None = None) -> Callable[..., Any]:
    """Returns the method `name` of an object as a `tf.function` that does not keep the object alive.

    `first` are the first arguments of the method, which the function does not take.

    AutoGraph is off: it would rewrite every function that is called, and double the time of tracing.
    """
    # TensorFlow warns of too many traces, and counts those of all functions with the same code together. A partial has
    # no code, so it counts alone.
    method = functools.partial(getattr(type(owner), name), weakref.proxy(owner), *first)
    return tf.function(method, autograph=False, jit_compile=jit_compile)
