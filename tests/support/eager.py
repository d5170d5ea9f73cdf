"""Runs of a few steps, and predictors of a few texts, without graphs."""

import contextlib
import sys

import pytest


@contextlib.contextmanager
def without_graphs():
    """Run each `tf.function` as Python: to trace a graph takes longer than about twenty steps of a tiny model.

    So do predictors, unless a test imports them later.
    """
    import tensorflow as tf  # some tests that share this file's folder run without it

    predictors = sys.modules.get("bert_keras.prediction.network")
    tf.config.run_functions_eagerly(True)
    try:
        with pytest.MonkeyPatch.context() as patch:
            if predictors:
                as_python = property(lambda network: network._function.python_function)
                patch.setattr(predictors.Network, "_compiled", as_python)
            yield
    finally:
        tf.config.run_functions_eagerly(False)
