"""Base class of models that take text and return answers, entirely in a TensorFlow graph."""

import types
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import tensorflow as tf

from bert_keras.mistakes import Mistake
from bert_keras.tasks import ability_of
from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.graph.networks import IdsNetwork

if TYPE_CHECKING:  # needs tensorflow-text, which some systems lack
    from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer


class TextModel(tf.Module):
    """An IdsNetwork, a GraphTokenizer and the interpretation of the scores as one function of text.

    settings is the task.json of the model, which cuts texts to max_seq_length tokens.

    Attributes:
        python_settings: settings with which the predictor in Python answers as the graph does.
        meanings: descriptions of outputs that mean something else than in other tasks, by name, for model cards.
    """

    python_settings: ClassVar[Mapping[str, Any]] = {}
    meanings: ClassVar[dict[str, str]] = {}

    def __init__(self, network: IdsNetwork, tokenizer: "GraphTokenizer", settings: Mapping[str, Any]):
        super().__init__(name="text_model")
        self.network = network
        self.tokenizer = tokenizer
        # `tf.Module` would track a dict and save it with the SavedModel.
        self.settings = types.MappingProxyType(dict(settings))
        self.max_seq_length = settings["max_seq_length"]
        if self.max_seq_length > network.longest:
            raise Mistake(
                "max_seq_length is {}, but the model has {} positions; take the task.json that the training wrote",
                self.max_seq_length,
                network.longest,
            )

    @property
    def text_signature(self) -> dict[str, tf.TensorSpec]:
        """The string `tf.TensorSpec` of each text by name."""
        return {
            name: tf.TensorSpec([None, None] if name in LISTS else [None], tf.string, name)
            for name in text_names(self.settings)
        }

    def answer(self, texts: Mapping[str, Any]) -> dict[str, tf.Tensor]:
        """Answers a batch of texts that match `text_signature`, in a graph or eagerly. The batch may be empty.

        The model drops bytes that are not UTF-8. An empty text becomes [CLS] [SEP]. Returns a dict of the outputs of
        the class, and "is_cut" bool [B], true if the model ignored a part of the text.
        """
        texts = {name: tf.convert_to_tensor(texts[name], tf.string) for name in text_names(self.settings)}
        first, *others = texts
        num_rows = tf.shape(texts[first])[0]
        checks = [
            tf.debugging.assert_equal(
                num_rows, tf.shape(texts[other])[0], f"{first} and {other} need the same number of rows"
            )
            for other in others
        ]
        # Without this the rest runs in parallel with the checks, and its own error may come first.
        with tf.control_dependencies(checks):
            return self._answer({name: tf.identity(text) for name, text in texts.items()})

    def expected(self, answer: Any) -> dict[str, Any]:
        """Returns the outputs for one text from the answer of the predictor in Python, without those it lacks."""
        raise NotImplementedError

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        """Returns the answers to checked texts."""
        raise NotImplementedError

    def _pack(
        self, ids_a: tf.RaggedTensor, ids_b: tf.RaggedTensor | None = None
    ) -> tuple[dict[str, tf.Tensor], tf.Tensor]:
        return self.tokenizer.pack(ids_a, ids_b, self.max_seq_length)


def text_names(settings: Mapping[str, Any]) -> tuple[str, ...]:
    """Returns the names of the texts of one question, from the task.json of a model."""
    second = ("text_pair",) if settings.get("is_pair") else ()
    return (*ability_of(settings["task"]).texts, *second)
