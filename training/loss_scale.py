"""The factor that keeps small gradients from vanishing in float16 (Micikevicius et al. 2018, "Mixed Precision").

The gradients are computed of a loss that is multiplied by it, and divided by it again. They overflow where it is too
large, so it is found by trying: an overflow halves it, and many steps without one double it.
"""

import tensorflow as tf

_START = 2.0**15
# Below it there is nothing to scale: what is not finite then is so without any factor.
_LOWEST = 1.0
_HIGHEST = 2.0**24
_STEPS_TO_GROWTH = 2000


class LossScale:
    """The factor and what is known of it, which are part of the state of a run. Make it in the scope of the strategy.

    Args:
        start: float, a power of two, so that multiplying by it changes no digit.
        steps_to_growth: int; after so many steps without an overflow it is doubled.

    Attributes:
        value: `tf.Variable`, float32 scalar.
    """

    def __init__(self, start=_START, steps_to_growth=_STEPS_TO_GROWTH):
        self.value = _variable(start, tf.float32)
        self._good_steps = _variable(0, tf.int64)
        self._steps_to_growth = steps_to_growth

    @property
    def state(self):
        """dict of str to `tf.Variable`, under their names in checkpoints."""
        return {"loss_scale": self.value, "loss_scale_steps": self._good_steps}

    def update(self, strategy, is_finite):
        """Takes in a step, the same on all replicas. To be called for all of them at once, in a merge call.

        Args:
            strategy: `tf.distribute.Strategy`.
            is_finite: bool scalar tensor; of the loss and of the reduced gradients.
        """

        def change(value, good_steps):
            counted = good_steps + 1
            is_growing = is_finite & (counted >= self._steps_to_growth)
            grown = tf.where(is_growing, tf.minimum(value * 2.0, _HIGHEST), value)
            value.assign(tf.where(is_finite, grown, tf.maximum(value / 2.0, _LOWEST)))
            good_steps.assign(tf.where(is_finite & ~is_growing, counted, 0))

        strategy.extended.update(self.value, change, args=(self._good_steps,), group=False)

    def without_skipped(self, result, is_finite, scale):
        """Returns what a step tells, all 0 if it was skipped, and in `num_skipped` whether it was.

        A step at the lowest scale that is not finite is not to be got over by skipping, and tells so.

        Args:
            result: dict of float32 scalars, or of dicts of them.
            is_finite: bool scalar tensor.
            scale: float32 scalar; of the step.
        """
        is_skipped = ~is_finite & (scale > _LOWEST)
        result = tf.nest.map_structure(lambda value: tf.where(is_skipped, 0.0, value), result)
        return {**result, "num_skipped": tf.cast(is_skipped, tf.float32)}


def _variable(value, dtype):
    return tf.Variable(value, trainable=False, dtype=dtype, aggregation=tf.VariableAggregation.ONLY_FIRST_REPLICA)
