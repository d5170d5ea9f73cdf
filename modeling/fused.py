"""Operations that do the work of several: those of oneDNN in this process, and what runtimes make of an exported file.

TensorFlow 2.21 inserts some operations of oneDNN by itself, but not the normalisation, because Keras 3 writes it in
another way. It also takes a weight for constant only if the weight is part of the graph. Of a constant weight in 16
bits, oneDNN keeps a copy in the order that its fastest product needs. Its operations here are for networks on a CPU
whose weights stay the same, and have no gradients.

ONNX Runtime and OpenVINO have one operation for a normalisation, and recognise it only if it is written as in the
definition.
"""

import contextlib
import contextvars
import functools
from collections.abc import Iterator
from typing import Any

import keras

_PRODUCT, _NORMALIZATION = "_MklNativeFusedMatMul", "_MklLayerNorm"
# The names that the product has for the activations of a config.
_ACTIVATIONS = {"gelu": "GeluApproximate", "gelu_erf": "GeluExact", "relu": "Relu", "tanh": "Tanh", "linear": ""}
_KERAS, _ONEDNN, _RUNTIMES = "Keras", "oneDNN", "runtimes"
# What the layers of a network are written for: one of these.
_target = contextvars.ContextVar("target", default=_KERAS)


@contextlib.contextmanager
def fused_operations(is_wanted: bool) -> Iterator[None]:
    """Makes the layers of a network that is traced within the block use oneDNN, where TensorFlow has its operations.

    From the first call on, the traced function may take the weights of that call. It affects the current thread only.
    """
    with _written_for(_ONEDNN if is_wanted and _is_traced() and _has_operations() else _KERAS):
        yield


def written_for_runtimes() -> contextlib.AbstractContextManager[None]:
    """Makes the layers of a network that is traced within the block write normalisations as runtimes recognise them."""
    return _written_for(_RUNTIMES)


@contextlib.contextmanager
def _written_for(target: str) -> Iterator[None]:
    token = _target.set(target)
    try:
        yield
    finally:
        _target.reset(token)


def is_fused() -> bool:
    """Returns whether the layers use the operations of oneDNN now."""
    return _target.get() == _ONEDNN


def fused_dense(layer: keras.layers.Dense, x: Any, activation: str = "linear", residual: Any = None) -> Any:
    """Maps float [N, I] to float [N, O]: the activation of a dense layer's output, or its sum with a residual [N, O].

    `activation` is a name in `config.HIDDEN_ACTIVATIONS`. Without `fused_operations`, the layer computes the output,
    and there may be neither an activation nor a residual.
    """
    if not is_fused():
        return layer(x)
    import tensorflow as tf

    Attribute = tf.compat.v1.AttrValue  # noqa: N806
    added = [] if residual is None else [residual]
    names = [name.encode() for name in ("BiasAdd", "Add" if added else "", _ACTIVATIONS[activation]) if name]
    kernel, bias = (keras.ops.cast(weight, x.dtype) for weight in (layer.kernel, layer.bias))
    attributes = {
        "_kernel": Attribute(s=b"MklNameChangeOp"),  # the label of the operations that oneDNN computes
        "fused_ops": Attribute(list=Attribute.ListValue(s=names)),
        "num_args": Attribute(i=1 + len(added)),
        "is_filter_const": Attribute(b=True),
    }
    return _operation(_PRODUCT, [x, kernel, bias, *added], [None, bias.shape[0]], attributes)


class LayerNorm(keras.layers.LayerNormalization):
    """The layer of Keras, which maps float [..., H] to float [..., H] and computes in float32."""

    def call(self, inputs: Any) -> Any:
        """Normalises the last axis."""
        if is_fused():
            import tensorflow as tf

            gamma, beta = (keras.ops.cast(weight, inputs.dtype) for weight in (self.gamma, self.beta))
            attributes = {"epsilon": tf.compat.v1.AttrValue(f=self.epsilon)}
            return _operation(_NORMALIZATION, [inputs, gamma, beta], inputs.shape, attributes)
        if _target.get() == _RUNTIMES:
            x = keras.ops.cast(inputs, "float32")
            centred = x - keras.ops.mean(x, axis=-1, keepdims=True)
            # A power, not a square, as in the files of PyTorch.
            variance = keras.ops.mean(keras.ops.power(centred, 2.0), axis=-1, keepdims=True)
            return keras.ops.cast(
                centred / keras.ops.sqrt(variance + self.epsilon) * self.gamma + self.beta, inputs.dtype
            )
        return super().call(inputs)


def _operation(name: str, inputs: list[Any], shape: Any, attributes: dict[str, Any]) -> Any:
    import tensorflow as tf

    dtype = inputs[0].dtype
    attributes |= {"T": tf.compat.v1.AttrValue(type=dtype.as_datatype_enum)}
    # The public functions have no operations of oneDNN.
    operation = tf.compat.v1.get_default_graph().create_op(
        name, inputs, [dtype], name=name.strip("_"), attrs=attributes
    )
    operation.outputs[0].set_shape(shape)
    return operation.outputs[0]


def _is_traced() -> bool:
    import tensorflow as tf

    return keras.backend.backend() == "tensorflow" and not tf.executing_eagerly()


@functools.cache
def _has_operations() -> bool:
    """Returns whether TensorFlow computes the operations in bfloat16 here, as builds for other processors do not."""
    import tensorflow as tf

    policy = keras.DTypePolicy("bfloat16")
    dense, layer_norm = keras.layers.Dense(8, dtype=policy), LayerNorm(dtype=policy)

    def run(x: Any) -> Any:
        with _written_for(_ONEDNN):
            return layer_norm(fused_dense(dense, x, residual=x))

    with tf.init_scope():
        x = tf.ones([1, 8], tf.bfloat16)
        for layer in (dense, layer_norm):
            layer.build(x.shape)
        try:
            tf.function(run, autograph=False)(x)
        except (tf.errors.OpError, ValueError):  # no such operation, or not for this processor
            return False
    return True
