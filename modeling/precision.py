"""The precision that networks are made for."""

import contextlib

import keras


@contextlib.contextmanager
def dtype_policy(name):
    """Gives the networks that are made within it a dtype policy of Keras; what was set before is set again after it.

    In "mixed_bfloat16" products are computed in 16 bits; weights, softmax, normalisations and losses stay float32. In
    "bfloat16" the weights have 16 bits, too.

    Args:
        name: str, as `keras.config.set_dtype_policy` takes it.
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(name)
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
