"""Writes text models as SavedModels, which load without this project."""

import os
import pathlib
from collections.abc import Mapping
from typing import Any, cast

import tensorflow as tf

from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
from bert_keras.export.choices import PLACES
from bert_keras.tasks import graph_of
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import TextModel


def make_text_model(network: IdsNetwork, tokenizer: GraphTokenizer, settings: Mapping[str, Any]) -> TextModel:
    """Makes the `TextModel` of a task from its IdsNetwork, a GraphTokenizer and the task.json of the model."""
    return cast(Any, graph_of(settings["task"]))(network, tokenizer, settings)


def write_saved_model(text_model: TextModel, folder: str | os.PathLike) -> str:
    """Writes a TextModel into a folder, in a subfolder as TensorFlow Serving needs it. Returns the path, a str.

    The signature "serving_default" takes text and returns the answers of the text model. The signature "ids" takes the
    inputs of the network and returns its scores. Loading needs `import tensorflow_text`.
    """
    path = str(pathlib.Path(folder, PLACES["saved_model"]))
    # `save` traces the functions of the tokenizer; what is traced before it would be in the file twice.
    answer_texts = tf.function(lambda texts: text_model.answer(texts), [text_model.text_signature], autograph=False)
    tf.saved_model.save(
        text_model, path, {"serving_default": answer_texts, "ids": _make_ids_function(text_model.network)}
    )
    return path


def _make_ids_function(network: IdsNetwork) -> Any:
    def score(features: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        sizes = tf.shape(features["input_ids"])
        message = f"input_ids is longer than the {network.longest} tokens that the model takes"
        checks = [tf.debugging.assert_less_equal(sizes[1], network.longest, message)]
        for name in ("input_mask", "segment_ids"):
            message = f"{name} and input_ids differ in shape"
            checks.append(tf.debugging.assert_equal(tf.shape(features[name]), sizes, message))
        # Without this the network runs in parallel with the checks, and its own error may come first.
        with tf.control_dependencies(checks):
            return network({name: tf.identity(ids) for name, ids in features.items()})

    return tf.function(score, [network.signature], autograph=False)
