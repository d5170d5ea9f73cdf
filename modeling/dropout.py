"""Dropout without a random state: a mask is a pure function of a seed and of the place in the network."""

import math

import keras
from keras import ops


class Dropout:
    """Zeroes each element with probability `rate` and divides the rest by `1 - rate`.

    The same seed gives the same mask on every run (on the same kind of device), so there is no random state to save,
    and replicas that are given different seeds draw different masks.

    Args:
        rate: probability in [0, 1), used to the nearest 1/65536.
        index: the place in the network; no two of one network share it.
    """

    def __init__(self, rate, index):
        self.rate = rate
        self.index = index

    def is_active(self, seed):
        """Returns whether anything is dropped when called with that seed."""
        return seed is not None and self.rate > 0

    def __call__(self, x, seed):
        """Drops elements of a float tensor.

        Args:
            x: float, any shape.
            seed: integer [2] in the backend's seed type (int32; uint32 on JAX), or None for no dropout. The mask is
                drawn with `seed + [0, index]`: seeds that are to give different masks everywhere in the network differ
                in their first element, or in the second by at least the number of dropouts in the network.
        """
        if not self.is_active(seed):
            return x
        seed = ops.convert_to_tensor(seed)
        # Drawing random numbers is most of the work, so each of them serves two elements, 16 bits for each.
        size = math.prod(ops.shape(x))
        pairs = _random_bits(-(-size // 2), seed + ops.cast([0, self.index], seed.dtype))
        draws = ops.reshape(ops.view(pairs, "int16"), (-1,))[:size]
        is_kept = ops.reshape(draws >= round(self.rate * 2**16) - 2**15, ops.shape(x))
        return x * (ops.cast(is_kept, x.dtype) / (1.0 - self.rate))


def _random_bits(num_draws, seed):
    """Returns int32 [num_draws, 1], every value as likely as any other."""
    if keras.backend.backend() != "tensorflow":
        return keras.random.randint((num_draws, 1), -(2**31), 2**31 - 1, seed=FixedSeed(seed))
    import tensorflow as tf

    # The generator with the seed for its key. TensorFlow's other functions, and so Keras's, scramble a seed first: as
    # long a computation as a draw, which XLA, on a CPU, does again for every draw.
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=(num_draws, 1),
        key=tf.reshape(tf.bitcast(seed, tf.uint64), [1]),
        counter=tf.zeros([2], tf.uint64),
        alg=tf.random.Algorithm.AUTO_SELECT.value,
        dtype=tf.int32,
    )


class FixedSeed(keras.random.SeedGenerator):
    """Hands out the seed it was given: how a tensor is used as seed of a Keras random function."""

    def __init__(self, seed):
        # The parent's constructor would make a variable to hold a state; there is no state here.
        self.seed = seed

    def next(self, ordered=True):
        return self.seed
