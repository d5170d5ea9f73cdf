"""Choices of feature extraction: layers and pooling. Imports without TensorFlow."""

import logging
from collections.abc import Sequence

from bert_keras.prediction.argument_error import ArgumentError

log = logging.getLogger("bert_keras")

# Name of the input of the first layer, which the original BERT cannot extract.
EMBEDDINGS = "embeddings"
POOLINGS = ("none", "cls", "mean", "max")
# The original BERT's default.
DEFAULT_LAYERS = (-1, -2, -3, -4)


def parse_layers(text: str) -> list[int | str]:
    """Returns the layers of a comma-separated list, such as "-1,-2" or "embeddings,0".

    Raises:
        ArgumentError: an entry is neither a whole number nor "embeddings".
    """
    layers = []
    for entry in (part.strip() for part in text.split(",")):
        try:
            layers.append(entry if entry == EMBEDDINGS else int(entry))
        except ValueError:
            raise ArgumentError(_not_a_layer(text, entry)) from None
    return layers


def choose_layers(layers: Sequence[int | str] | None, num_hidden_layers: int) -> tuple[int | str, ...]:
    """Checks the requested layers of a model.

    Args:
        layers: numbers of layers, or "embeddings"; None: the last four, or all if the model has fewer.
        num_hidden_layers: number of layers of the model.

    Returns:
        tuple of the layers.

    Raises:
        ArgumentError: the list is empty, or the model lacks a layer.
    """
    if layers is None:
        layers = DEFAULT_LAYERS[:num_hidden_layers]
        if layers != DEFAULT_LAYERS:
            log.info("the model has %d layers, so all of them are taken: %s", num_hidden_layers, _listed(layers))
    if not layers:
        raise ArgumentError(
            lambda name: (
                f'{name("layers")} is empty; give at least one, such as -1 for the last layer, or "{EMBEDDINGS}"'
            )
        )
    for layer in layers:
        if layer != EMBEDDINGS and layer not in range(-num_hidden_layers, num_hidden_layers):
            raise ArgumentError(_missing_layer(layer, num_hidden_layers))
    return tuple(layers)


def _not_a_layer(text, entry):
    return lambda name: (
        f'{name("layers")} is "{text}", and "{entry}" is not a layer; give whole numbers (0 the first layer, -1 the '
        f'last) or "{EMBEDDINGS}", separated by commas'
    )


def _missing_layer(layer, num_hidden_layers):
    return lambda name: (
        f"{name('layers')} has {layer}, but the model's {num_hidden_layers} layers are 0 to {num_hidden_layers - 1}, "
        f'or from the end -1 to -{num_hidden_layers}; give these, or "{EMBEDDINGS}" for the input of the first'
    )


def _listed(layers):
    return ", ".join(map(str, layers))
