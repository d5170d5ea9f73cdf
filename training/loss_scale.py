"""The loss scale, which keeps small gradients from vanishing in float16 (Micikevicius et al. 2018, "Mixed Precision").

The loss is multiplied by the scale, and the gradients are divided by it. They overflow if the scale is too large. An
overflow therefore halves the scale, and many steps without one double it.
"""

import tensorflow as tf

_START = 2.0**15
# At this scale the loss is unchanged, so scaling cannot be the cause of values that are not finite.
_LOWEST = 1.0
_HIGHEST = 2.0**24
_STEPS_TO_GROWTH = 2000


class LossScale:
    """The loss scale and its step count, both part of the state of a run. Create it in the scope of the strategy.

    Args:
        start: float; a power of two, so that multiplication is exact.
        steps_to_growth: int; the scale doubles after this many steps without an overflow.

    Attributes:
        value: `tf.Variable`, float32 scalar.
    """

    def __init__(self, start=_START, steps_to_growth=_STEPS_TO_GROWTH):
        self.value = _variable(start, tf.float32)
        self._good_steps = _variable(0, tf.int64)
        self._steps_to_growth = steps_to_growth

    @property
    def state(self):
        """dict of str to `tf.Variable`, by name in checkpoints."""
        return {"loss_scale": self.value, "loss_scale_steps": self._good_steps}

    def update(self, strategy, is_finite):
        """Updates the scale after a step. Call it once for all replicas, in a merge call.

        Args:
            strategy: `tf.distribute.Strategy`.
            is_finite: bool scalar tensor; whether the loss and the reduced gradients are finite.
        """

        def change(value, good_steps):
            counted = good_steps + 1
            is_growing = is_finite & (counted >= self._steps_to_growth)
            grown = tf.where(is_growing, tf.minimum(value * 2.0, _HIGHEST), value)
            value.assign(tf.where(is_finite, grown, tf.maximum(value / 2.0, _LOWEST)))
            good_steps.assign(tf.where(is_finite & ~is_growing, counted, 0))

        strategy.extended.update(self.value, change, args=(self._good_steps,), group=False)

    def without_skipped(self, result, is_finite, scale):
        """Returns the result of a step with `num_skipped` added (0 or 1); a skipped step has 0 in all other values.

        A step that is not finite at the lowest scale does not count as skipped, because a lower scale cannot help. Its
        result keeps the values that are not finite.

        Args:
            result: dict of float32 scalars, or of dicts of them.
            is_finite: bool scalar tensor.
            scale: float32 scalar; the scale of the step.
        """
        is_skipped = ~is_finite & (scale > _LOWEST)
        result = tf.nest.map_structure(lambda value: tf.where(is_skipped, 0.0, value), result)
        return {**result, "num_skipped": tf.cast(is_skipped, tf.float32)}


def _variable(value, dtype):
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
