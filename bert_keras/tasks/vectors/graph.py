"""Text model for vectors, as trained by run_sentence_vectors.py or of a pre-trained model."""

from typing import Any

import tensorflow as tf

from bert_keras.modeling.heads import pool
from bert_keras.modeling.layers import normalize
from bert_keras.tasks.graph.text_model import TextModel


class VectorModel(TextModel):
    """Computes one vector of one layer for each text, like `Vectorizer` with the same settings.

    Input: "text" string [B]. Output: "vector" float32 [B, H], the vector of [CLS], or the mean or maximum over all
    tokens including [CLS] and [SEP]; with the setting normalize, of length 1. The setting prefix precedes each text.
    The network defines the layer.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"vector": answer.vector}

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        prefixed = tf.strings.join([self.settings.get("prefix", ""), texts["text"]])
        features, is_cut = self._pack(self.tokenizer.tokenize(prefixed))
        values = self.network(features)["sequence_output"]
        vector = pool(values, features["input_mask"], self.settings["pooling"])
        return {"vector": normalize(vector) if self.settings.get("normalize") else vector, "is_cut": is_cut}
