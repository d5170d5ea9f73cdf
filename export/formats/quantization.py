"""Smaller numbers for the weights: which format takes which, and the network in bfloat16."""

from collections.abc import Callable

import keras

from bert_keras.modeling import weights_by_name
from bert_keras.modeling.precision import dtype_policy

# Format -> what it can be quantised to.
_TAKES = {"saved_model": ("bfloat16",), "onnx": ("int8",), "litert": ("int8",)}

FORMATS = tuple(_TAKES)
QUANTIZE_CHOICES = ("int8", "bfloat16")


def check_quantize(quantize: str | None, formats) -> None:
    """Refuses what a format cannot be quantised to.

    Args:
        quantize: "int8": weights of 8 bits, and products with activations that are rounded to 8 bits as they come;
            "bfloat16": weights and products of 16 bits; None: float32 as trained.
        formats: list of str, of FORMATS.

    Raises:
        ValueError: one of them does not take it.
    """
    if quantize is None:
        return
    wrong = [name for name in formats if quantize not in _TAKES[name]]
    if wrong:
        able = [name for name, choices in _TAKES.items() if quantize in choices]
        raise ValueError(
            f"--quantize={quantize} is of the format {' or '.join(able) or 'none'}, and --format has "
            f"{', '.join(wrong)}; leave --quantize out for {'these' if len(wrong) > 1 else 'it'}, or export twice"
        )


def in_bfloat16(model: keras.Model, make_model: Callable[[], keras.Model]) -> keras.Model:
    """Returns a copy of a model whose weights are stored and multiplied in bfloat16.

    Softmax and the statistics of layer normalisation are taken in float32, as in training with mixed precision.

    Args:
        model: in float32; it stays as it is.
        make_model: function without arguments that makes another of its kind and size.

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
