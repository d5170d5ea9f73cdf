"""Dropout without a random state: each mask is a pure function of a seed and of the position in the network."""

import functools
import math
from collections.abc import Callable
from typing import Any

import keras
import numpy as np
from keras import ops

# The constants of Philox 4x32: its multipliers, and what a round adds to the two halves of the key.
_MULTIPLIERS = 0xD2511F53, 0xCD9E8D57
_KEY_STEPS = np.uint32(0x9E3779B9), np.uint32(0xBB67AE85)
_NUM_ROUNDS = 10


class Dropout:
    """Zeroes each element with probability `rate` and divides the rest by `1 - rate`.

    On one type of device, the same seed gives the same mask in every run, so a run has no random state to save.
    TensorFlow on a CPU or GPU and JAX on every device draw the same masks.
    Replicas with different seeds draw different masks.

    Args:
        rate: probability in [0, 1), rounded to a multiple of 1/65536.
        index: position in the network; unique within a network.
    """

    def __init__(self, rate: float, index: int) -> None:
        self.rate = rate
        self.index = index

    def is_active(self, seed: Any) -> bool:
        return seed is not None and self.rate > 0

    def __call__(self, x: Any, seed: Any) -> Any:
        """Drops elements of a float tensor of any shape.

        Args:
            x: the tensor.
            seed: integer [2] in the backend's seed type (int32; uint32 on JAX), or None for no dropout. The mask
                depends on `seed + [0, index]`. For different masks in all layers, use seeds whose first elements
                differ, or whose second elements differ by at least the number of dropouts in the network.
        """
        if not self.is_active(seed):
            return x
        draws = _random_halves(ops.shape(x), shifted(ops.convert_to_tensor(seed), self.index))
        is_kept = draws >= round(self.rate * 2**16) - 2**15
        return x * (ops.cast(is_kept, x.dtype) / (1.0 - self.rate))


def shifted(seed: Any, index: int) -> Any:
    """Returns another seed, for another use of the same one."""
    return seed + ops.cast([0, index], seed.dtype)


def _random_halves(shape: tuple, seed: Any) -> Any:
    """Returns uniform random integers of 16 bits and of a shape.

    Drawing random numbers takes most of the time of a dropout, so each int32 serves two elements.
    """
    if keras.backend.backend() == "jax":
        return _philox()(seed, shape, 8)
    size = math.prod(shape)
    pairs = random_bits((-(-size // 2), 1), seed)
    return ops.reshape(ops.reshape(ops.view(pairs, "int16"), (-1,))[:size], shape)


def random_bits(shape: tuple, seed: Any) -> Any:
    """Returns uniform random int32 of a shape."""
    if keras.backend.backend() == "jax":
        return _philox()(ops.convert_to_tensor(seed), shape, 4)
    if keras.backend.backend() != "tensorflow":
        return keras.random.randint(shape, -(2**31), 2**31 - 1, seed=FixedSeed(seed))
    import tensorflow as tf

    # Uses the seed directly as the generator's key. The other functions of TensorFlow and Keras scramble the seed
    # first. Scrambling takes as long as a draw, and on a CPU XLA repeats it for every draw.
    return tf.raw_ops.StatelessRandomUniformFullIntV2(
        shape=shape,
        key=tf.reshape(tf.bitcast(seed, tf.uint64), [1]),
        counter=tf.zeros([2], tf.uint64),
        alg=tf.random.Algorithm.AUTO_SELECT.value,
        dtype=tf.int32,
    )


def random_bits_of_rows(shape: tuple, seeds: Any) -> Any:
    """Returns uniform random int32 of a shape [B, ...]; each row has its seed in [B, 2]."""
    on_each = ops.vectorized_map if keras.backend.backend() == "jax" else ops.map
    return on_each(lambda seed: random_bits(shape[1:], seed), seeds)


@functools.cache
def _philox() -> Callable[[Any, tuple, int], Any]:
    """Returns `_philox_bits` for JAX, which reads its hundreds of operations once for a shape, not for each dropout."""
    import jax

    return jax.jit(_philox_bits, static_argnums=(1, 2))


def _philox_bits(seed: Any, shape: tuple, per_block: int) -> Any:
    """Returns the bits of TensorFlow's generator, Philox 4x32 with 10 rounds, for the key `seed`, uint32 [2].

    A block has four int32, or with `per_block` 8 their halves of 16 bits, also as int32.

    Each element computes its whole block and takes its part: XLA fuses that with the operation that reads it, so no
    mask is written to memory and each device computes its rows alone.

    Source: Salmon et al. 2011, "Parallel Random Numbers: As Easy as 1, 2, 3".
    """
    places = ops.reshape(ops.arange(math.prod(shape), dtype="uint32"), shape)
    first = places // np.uint32(per_block)  # block n has the counter n
    second = third = fourth = ops.zeros_like(first)
    keys = seed[0], seed[1]
    for _ in range(_NUM_ROUNDS):
        (high, low), (other_high, other_low) = map(_wide_product, (first, third), _MULTIPLIERS)
        first, second, third, fourth = other_high ^ second ^ keys[0], other_low, high ^ fourth ^ keys[1], low
        keys = keys[0] + _KEY_STEPS[0], keys[1] + _KEY_STEPS[1]
    # A block's parts from its first to its last bit: the words in order, of each the lower half first.
    word = places % np.uint32(per_block) // np.uint32(per_block // 4)
    lower, upper = ops.where(word == 0, first, second), ops.where(word == 2, third, fourth)
    bits = ops.view(ops.where(word < 2, lower, upper), "int32")
    if per_block == 4:
        return bits
    return ops.where(places % np.uint32(2) == 0, (bits << 16) >> 16, bits >> 16)


def _wide_product(x: Any, factor: int) -> tuple[Any, Any]:
    """Returns the upper and the lower 32 bits of uint32 products, without integers of 64 bits, which JAX lacks."""
    x_high, x_low, high, low = x >> 16, x & 0xFFFF, factor >> 16, factor & 0xFFFF
    middle = x_high * low + (x_low * low >> 16)
    other = x_low * high + (middle & 0xFFFF)
    return x_high * high + (middle >> 16) + (other >> 16), x * np.uint32(factor)


def draw_seed(generator: keras.random.SeedGenerator) -> Any:
    """Returns a new seed for `Dropout` from a `keras.random.SeedGenerator`; each replica gets a different one."""
    seed = keras.random.randint((2,), 0, 2**31 - 1, seed=generator)
    if keras.backend.backend() != "tensorflow":
        return ops.cast(seed, "uint32" if keras.backend.backend() == "jax" else "int32")
    import tensorflow as tf

    # The state of the generator is the same on all replicas.
    replica = tf.distribute.get_replica_context()
    return seed if replica is None else seed + tf.stack([tf.cast(replica.replica_id_in_sync_group, tf.int32), 0])


class FixedSeed(keras.random.SeedGenerator):
    """Passes a tensor to a Keras random function as its seed."""

    def __init__(self, seed: Any) -> None:
        # The parent's constructor would create a state variable.
        self.seed = seed

    def next(self, ordered: bool = True) -> Any:
        return self.seed
