"""Operations of oneDNN, each of which does the work of several, for networks on a CPU whose weights stay the same.

TensorFlow 2.21 inserts some of them by itself, but not the normalisation, because Keras 3 writes it in another way. It
also takes a weight for constant only if the weight is part of the graph. Of a constant weight in 16 bits, oneDNN keeps
a copy in the order that its fastest product needs. The operations have no gradients.
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
# Whether the layers of a network use these operations.
_is_on = contextvars.ContextVar("is_on", default=False)


@contextlib.contextmanager
def fused_operations(is_wanted: bool) -> Iterator[None]:
    """Makes the layers of a network that is traced within the block use these operations, where TensorFlow has them.

    From the first call on, the traced function may take the weights of that call. It affects the current thread only.
    """
    with _switched(is_wanted and _is_traced() and _has_operations()):
        yield


@contextlib.contextmanager
def _switched(is_on: bool) -> Iterator[None]:
    token = _is_on.set(is_on)
    try:
        yield
    finally:
        _is_on.reset(token)


def is_fused() -> bool:
    """Returns whether the layers use these operations now."""
    return _is_on.get()


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


def fused_layer_norm(layer: keras.layers.LayerNormalization, x: Any) -> Any:
    """Maps float [..., H] to float [..., H] as the layer does; it computes in float32."""
    if not is_fused():
        return layer(x)
    import tensorflow as tf

    gamma, beta = (keras.ops.cast(weight, x.dtype) for weight in (layer.gamma, layer.beta))
    return _operation(_NORMALIZATION, [x, gamma, beta], x.shape, {"epsilon": tf.compat.v1.AttrValue(f=layer.epsilon)})


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
    layers = keras.layers.Dense(8, dtype=policy), keras.layers.LayerNormalization(dtype=policy)

    def run(x: Any) -> Any:
        with _switched(True):
            return fused_layer_norm(layers[1], fused_dense(layers[0], x, residual=x))

    with tf.init_scope():
        x = tf.ones([1, 8], tf.bfloat16)
        for layer in layers:
            layer.build(x.shape)
        try:
            tf.function(run, autograph=False)(x)
        except (tf.errors.OpError, ValueError):  # no such operation, or not for this processor
            return False
    return True
