"""Compiles functions of TensorFlow with XLA, as TPUs need it."""

import tensorflow as tf


def lower(function, features):
    """Returns the program that XLA makes of a function of a dict of tensors, without running it.

    `features` are `tf.TensorSpec` with static shapes. Variables that the function reads and assigns become further
    inputs and outputs. The program is a serialized `HloModuleProto`.
    """
    zeros = {name: tf.zeros(spec.shape, spec.dtype) for name, spec in features.items()}
    write = tf.function(lambda batch: function(batch), autograph=False, jit_compile=True).experimental_get_compiler_ir(
        zeros
    )
    return write(stage="hlo_serialized")
