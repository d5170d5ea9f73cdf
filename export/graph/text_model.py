"""A model that takes text and gives answers, all in a TensorFlow graph: what every task has in common."""

import types

import tensorflow as tf

from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.graph.tokenization import GraphTokenizer


class TextModel(tf.Module):
    """The tokenizer, the network and the reading of its scores as one function of text.

    Args:
        network: the IdsNetwork of the task.
        tokenizer: GraphTokenizer of the model's vocabulary.
        settings: dict; what the task.json of the model says.

    Attributes:
        network, tokenizer, settings: as given.
        max_seq_length: the most pieces of a sequence that are looked at, an int; the others are cut off.

    Raises:
        ValueError: the model has fewer positions than max_seq_length.
    """

    # Name of each text -> its shape; the first axis of all is B.
    inputs = {"text": [None]}

    def __init__(self, network: IdsNetwork, tokenizer: GraphTokenizer, settings: dict):
        super().__init__(name="text_model")
        self.network = network
        self.tokenizer = tokenizer
        # A dict would be wrapped, to be written to the SavedModel.
        self.settings = types.MappingProxyType(dict(settings))
        self.max_seq_length = settings["max_seq_length"]
        if self.max_seq_length > network.longest:
            raise ValueError(
                f"max_seq_length is {self.max_seq_length}, but the model has {network.longest} positions; take the "
                "task.json that the training wrote"
            )

    @property
    def text_signature(self) -> dict[str, tf.TensorSpec]:
        """The `tf.TensorSpec` of each text by its name, all of strings."""
        return {name: tf.TensorSpec(shape, tf.string, name) for name, shape in self.inputs.items()}

    def answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Answers a batch of texts, in a graph or eagerly.

        Bytes that are not UTF-8 are dropped. An empty text is answered too, as [CLS] and [SEP] alone.

        Args:
            texts: dict with what `text_signature` says; there may be no row.

        Returns:
            dict of tensors, all of which have the batch as first axis: what the class says, and "is_cut" bool [B]:
            whether only a part of the text was looked at.

        Raises:
            tf.errors.InvalidArgumentError: the texts differ in how many rows they have.
        """
        texts = {name: tf.convert_to_tensor(texts[name], tf.string) for name in self.inputs}
        first, *others = texts
        checks = [
            tf.debugging.assert_equal(
                tf.shape(texts[first])[0],
                tf.shape(texts[other])[0],
                f"{first} and {other} need the same number of rows",
            )
            for other in others
        ]
        # Else what follows would run beside the checks, and its own error might come first.
        with tf.control_dependencies(checks):
            return self._answer({name: tf.identity(text) for name, text in texts.items()})

    def _answer(self, texts):
        """Returns the answers to texts that have been checked."""
        raise NotImplementedError

    def _pack(self, ids_a, ids_b=None):
        """Packs the pieces of texts, see `GraphTokenizer.pack`.

        Returns:
            the features that the network takes, a dict of int32 [B, T]; is_cut bool [B].
        """
        *ids, is_cut = self.tokenizer.pack(ids_a, ids_b, self.max_seq_length)
        return dict(zip(("input_ids", "input_mask", "segment_ids"), ids, strict=True)), is_cut
