"""The number format of a network: how many bits its weights and its matrix products have."""

import contextlib
from collections.abc import Iterator

import keras


@contextlib.contextmanager
def dtype_policy(name: str | keras.DTypePolicy) -> Iterator[None]:
    """Sets the Keras dtype policy for the networks made within the block, and restores the previous policy after it.

    With "mixed_bfloat16", matrix products have 16 bits, and weights, softmax, normalisations and losses have 32. With
    "bfloat16", the weights have 16 bits, too.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
