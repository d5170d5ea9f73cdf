"""In how many bits a network computes."""

import contextlib

import keras

_POLICIES = {"float32": "float32", "bfloat16": "mixed_bfloat16"}


@contextlib.contextmanager
def precision(name):
    """Has the networks that are made within it multiply in a precision.

    Weights, the optimizer's means, softmax, normalisations and losses are float32 in any case.

    Args:
        name: "float32" or "bfloat16".
    """
    before = keras.config.dtype_policy()
    keras.config.set_dtype_policy(_POLICIES[name])
    try:
        yield
    finally:
        keras.config.set_dtype_policy(before)
