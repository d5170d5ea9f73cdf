"""Text models for classification, as trained by run_classifier.py."""

from typing import Any

import tensorflow as tf

from bert_keras.tasks.graph.text_model import TextModel

_LEAST_PROBABILITY = 0.5


class ClassModel(TextModel):
    """Predicts a class, a number or several labels for texts or pairs of texts.

    Inputs: "text" and, if the model takes pairs, "text_pair", string [B]. The second text may be empty.

    Outputs:
        classification: "label" string [B], the most probable class; "labels" string [B, C], all classes;
            "probabilities" float32 [B, C].
        regression: "value" float32 [B].
        multi_label: "labels"; "probabilities", independent of each other; "applies" bool [B, C], true from 0.5.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        if self.settings["task"] == "regression":
            return {"value": answer.value}
        outputs = {"labels": list(answer.probabilities), "probabilities": list(answer.probabilities.values())}
        if self.settings["task"] == "multi_label":
            return outputs | {"applies": [label in answer.labels for label in answer.probabilities]}
        return outputs | {"label": answer.label}

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        features, is_cut = self._pack(*(self.tokenizer.tokenize(text) for text in texts.values()))
        return {**self._read_out(self.network(features)["logits"]), "is_cut": is_cut}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        if self.settings["task"] == "regression":
            return {"value": logits[:, 0]}
        names = tf.constant(self.settings["labels"])
        labels = tf.tile(tf.expand_dims(names, 0), [tf.shape(logits)[0], 1])  # [B, C]
        if self.settings["task"] == "multi_label":
            probabilities = tf.nn.sigmoid(logits)
            return {"labels": labels, "probabilities": probabilities, "applies": probabilities >= _LEAST_PROBABILITY}
        probabilities = tf.nn.softmax(logits)
        label = tf.gather(names, tf.argmax(probabilities, axis=1))
        return {"label": label, "labels": labels, "probabilities": probabilities}
