"""Runs of a few steps without graphs."""

import contextlib


@contextlib.contextmanager
def without_graphs():
    """Run each `tf.function` as Python: to trace a graph takes longer than about twenty steps of a tiny model."""
    import tensorflow as tf  # some tests that share this file's folder run without it

    tf.config.run_functions_eagerly(True)
    try:
        yield
    finally:
        tf.config.run_functions_eagerly(False)
