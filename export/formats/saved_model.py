"""Writes text models as SavedModels, which load without this project."""

import os
import pathlib

import tensorflow as tf

from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.classes import ChoiceModel, ClassModel
from bert_keras.export.graph.spans import SpanModel
from bert_keras.export.graph.tags import TagModel
from bert_keras.export.graph.text_model import TextModel
from bert_keras.export.graph.tokenization import GraphTokenizer
from bert_keras.export.graph.vectors import FillMaskModel, VectorModel
from bert_keras.storage import paths, writing

# TensorFlow Serving needs a folder of numbered versions.
VERSION = "1"

_CLASSES = {
    "classification": ClassModel,
    "regression": ClassModel,
    "multi_label": ClassModel,
    "multiple_choice": ChoiceModel,
    "question_answering": SpanModel,
    "token_classification": TagModel,
    "fill_mask": FillMaskModel,
    "vectors": VectorModel,
}


def make_text_model(network: IdsNetwork, tokenizer: GraphTokenizer, settings: dict) -> TextModel:
    """Makes the text model of a task.

    Args:
        network: IdsNetwork of the task.
        tokenizer: GraphTokenizer of the model's vocabulary.
        settings: dict; the task.json of the model.

    Returns:
        ClassModel, ChoiceModel, SpanModel, TagModel, FillMaskModel or VectorModel.

    Raises:
        ValueError: the settings do not fit the model.
    """
    return _CLASSES[settings["task"]](network, tokenizer, settings)


def write_saved_model(text_model: TextModel, folder: str | os.PathLike) -> str:
    """Writes a text model as folder/1, ready for TensorFlow Serving. The folder 1 appears only when it is complete.

    The signature "serving_default" takes text and returns the answers of the text model. The signature "ids" takes the
    inputs of the network and returns its scores. Loading needs `import tensorflow_text`.

    Args:
        text_model: TextModel.
        folder: created if it does not exist.

    Returns:
        the path of the SavedModel.

    Raises:
        ValueError: folder/1 already exists.
    """
    folder = pathlib.Path(folder)
    path = folder / VERSION
    if path.exists():
        raise ValueError(f"{path} already exists; give another folder, or remove it")
    folder.mkdir(parents=True, exist_ok=True)
    unfinished = writing.unfinished_name(path)
    try:
        tf.saved_model.save(
            text_model,
            unfinished,
            signatures={"serving_default": _of_text(text_model), "ids": _of_ids(text_model.network)},
        )
        writing.publish(unfinished, path)
    finally:
        paths.remove_dir(unfinished)
    return str(path)


def _of_text(text_model):
    function = tf.function(lambda texts: text_model.answer(texts), autograph=False)
    return function.get_concrete_function(text_model.text_signature)


def _of_ids(network):
    def score(features):
        sizes = tf.shape(features["input_ids"])
        told = f"input_ids is longer than the {network.longest} tokens that the model takes"
        checks = [tf.debugging.assert_less_equal(sizes[1], network.longest, told)]
        for name in ("input_mask", "segment_ids"):
            told = f"{name} and input_ids differ in shape"
            checks.append(tf.debugging.assert_equal(tf.shape(features[name]), sizes, told))
        # Without this the network runs in parallel with the checks, and its own error may come first.
        with tf.control_dependencies(checks):
            return network({name: tf.identity(ids) for name, ids in features.items()})

    return tf.function(score, autograph=False).get_concrete_function(network.signature)
