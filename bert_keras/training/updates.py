"""Chooses how each weight's update is computed: by TensorFlow, or by a program that XLA compiles."""

import functools
import logging
from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf

from bert_keras.modeling.optimization import AdamWeightDecay
from bert_keras.training.distribution.tpu import is_tpu

log = logging.getLogger("bert_keras")

# Minimum number of elements of a weight for which compiling its update saves time.
_COMPILED_SIZE = 2**18


def choose_updates(
    optimizer: AdamWeightDecay, weights: Mapping[str, tf.Variable], strategy: tf.distribute.Strategy
) -> dict[str, Callable[..., Any]]:
    """Returns for each weight its `AdamWeightDecay.update`, without the name.

    XLA compiles the update of a large weight into one pass over its memory instead of a dozen. Weights with the same
    rule share a function, which XLA compiles once for each shape.
    """
    updates: dict[str, Callable[..., Any]] = {name: functools.partial(optimizer.update, name) for name in weights}
    large = [name for name, weight in weights.items() if weight.shape.num_elements() >= _COMPILED_SIZE]
    compiled = {}
    for name in large:
        jitted = tf.function(lambda *values, update=updates[name]: update(*values), jit_compile=True)
        compiled.setdefault(optimizer.rule(name), jitted)
    if large and _is_compilable(compiled[optimizer.rule(large[0])], strategy):
        updates.update({name: compiled[optimizer.rule(name)] for name in large})
    return updates


def _is_compilable(update: Callable[..., Any], strategy: tf.distribute.Strategy) -> bool:
    """Returns whether XLA can compile an update for the devices; if not, logs the reason."""
    if is_tpu(strategy):  # where XLA compiles the whole step
        return True
    try:
        # Use a graph, because TensorFlow warns of strategies that run anything else; and a partial, see graph_function.
        run = functools.partial(
            strategy.run, lambda: update(*[tf.zeros([1])] * 4, tf.zeros([]), tf.zeros([], tf.int64))
        )
        tf.function(run, autograph=False)()
    except tf.errors.OpError as error:
        log.warning(
            "XLA cannot compile the update of large weights (%s); TensorFlow computes it without XLA, which is slower",
            error.message.strip().split("\n")[0],
        )
        return False
    return True
