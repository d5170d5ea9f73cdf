"""The loss scale keeps small gradients from vanishing in float16.

The loss is multiplied by the scale, and the gradients are divided by it. They overflow if the scale is too large. An
overflow therefore halves the scale, and a number of steps without one double it. The scale is a power of two, so that
multiplication is exact.

Source: Micikevicius et al. 2018, "Mixed Precision Training".
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

# At this loss scale the loss is unchanged, so scaling cannot be the cause of values that are not finite.
_LOWEST = 1.0
_HIGHEST = 2.0**24


class LossScale:
    """The variables of a loss scale. Create it in the scope of the strategy."""

    def __init__(self, start: float = 2.0**15, steps_to_growth: int = 2000) -> None:
        self.value = new_variable(start, tf.float32)
        self._good_steps = new_variable(0, tf.int64)
        self.state = {"loss_scale": self.value, "loss_scale_steps": self._good_steps}
        self._steps_to_growth = steps_to_growth

    def update(self, is_finite: tf.Tensor) -> None:
        """Updates the scale after a step; `is_finite` is a bool scalar."""
        scale, counted = self.value.read_value(), self._good_steps.read_value() + 1
        is_growing = is_finite & (counted >= self._steps_to_growth)
        grown = tf.where(is_growing, tf.minimum(scale * 2.0, _HIGHEST), scale)
        self.value.assign(tf.where(is_finite, grown, tf.maximum(scale / 2.0, _LOWEST)))
        self._good_steps.assign(tf.where(is_finite & ~is_growing, counted, 0))


def without_skipped(result: dict[str, Any], scale: Any) -> dict[str, Any]:
    """Returns the result of a step at a scale, with `num_skipped` added: 0 or 1. A skipped one has 0 in all others.

    A step that is not finite at the lowest scale does not count as skipped, because a lower scale cannot help. Its
    result keeps the values that are not finite.
    """
    is_finite = ops.isfinite(result["loss"] + result["gradient_norm"])
    is_skipped = ~is_finite & (scale > _LOWEST)
    result = keras.tree.map_structure(lambda value: ops.where(is_skipped, 0.0, value), result)
    return {**result, "num_skipped": ops.cast(is_skipped, "float32")}


def new_variable(value: Any, dtype: tf.DType | None = None) -> tf.Variable:
    """Returns a variable of the state, of which every replica has the same value."""
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
