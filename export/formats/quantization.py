"""Quantization: the types that each format supports, and models in bfloat16."""

from collections.abc import Callable

import keras

from bert_keras.modeling import weights_by_name
from bert_keras.modeling.layers import dtype_policy

_TAKES = {"saved_model": ("bfloat16",), "onnx": ("int8",), "litert": ("int8",)}

FORMATS = tuple(_TAKES)
QUANTIZE_CHOICES = ("int8", "bfloat16")


def check_quantize(quantize: str | None, formats) -> None:
    """Checks that all formats support a type of quantization.

    Args:
        quantize: "int8": weights of 8 bits, and products with activations that are rounded to 8 bits at run time;
            "bfloat16": weights and products of 16 bits; None: float32.
        formats: list of str, from FORMATS.

    Raises:
        ValueError: a format does not support it.
    """
    if quantize is None:
        return
    wrong = [name for name in formats if quantize not in _TAKES[name]]
    if wrong:
        able = [name for name, choices in _TAKES.items() if quantize in choices]
        raise ValueError(
            f"--quantize={quantize} works only with {' or '.join(able) or 'none'}, but --format has "
            f"{', '.join(wrong)}; leave --quantize out for {'these' if len(wrong) > 1 else 'it'}, or export twice"
        )


def in_bfloat16(model: keras.Model, make_model: Callable[[], keras.Model]) -> keras.Model:
    """Returns a copy of a model that stores and multiplies its weights in bfloat16.

    Softmax and the statistics of layer normalisation use float32, as in training with mixed precision.

    Args:
        model: in float32; does not change.
        make_model: function without arguments that returns a new model of the same class and size.

    Raises:
        ValueError: the model has recurrent layers, which Keras cannot make in bfloat16.
    """
    if hasattr(model, "recurrent_layers"):
        raise ValueError(
            "a tagger with LSTMs (--tagger=bilstm) cannot be in bfloat16: Keras cannot make their weights; leave "
            "--quantize out, or take --format=onnx with --quantize=int8"
        )
    with dtype_policy("bfloat16"):
        copy = make_model()
    values = weights_by_name(model)
    for name, weight in weights_by_name(copy).items():
        weight.assign(values[name].value)
    return copy
