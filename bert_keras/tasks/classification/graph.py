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


class _ListModel(TextModel):
    """Scores each text of a list together with another text. `least` is the smallest number of texts in a list."""

    least = 1

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        text, several = texts.values()
        num_rows, num_texts = tf.unstack(tf.shape(several))
        told = f"each {next(iter(texts))} needs {self.least} or more {list(texts)[1]}"
        with tf.control_dependencies([tf.debugging.assert_greater_equal(num_texts, self.least, told)]):
            several = tf.identity(several)
        rows = tf.repeat(tf.range(num_rows), num_texts)
        ids_a = tf.gather(self.tokenizer.tokenize(text), rows)
        features, is_cut = self._pack(ids_a, self.tokenizer.tokenize(tf.reshape(several, [-1])))
        logits = tf.reshape(self.network(features)["logits"], [num_rows, num_texts])
        is_cut = tf.reduce_any(tf.reshape(is_cut, [num_rows, num_texts]), axis=1)
        return {**self._read_out(logits), "is_cut": is_cut}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        raise NotImplementedError


class ChoiceModel(_ListModel):
    """Picks the continuation that fits a text best.

    Inputs: "text" string [B]; "choices" string [B, K], two or more. Outputs: "index" int32 [B], the best choice from 0;
    "probabilities" float32 [B, K]. "is_cut" is true if the text or any of its choices was cut.
    """

    least = 2

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"index": answer.index, "probabilities": answer.probabilities}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"index": tf.argmax(logits, axis=1, output_type=tf.int32), "probabilities": tf.nn.softmax(logits)}


class RankModel(_ListModel):
    """Scores how well texts fit a query.

    Inputs: "query" string [B]; "texts" string [B, K]. Output: "scores" float32 [B, K], in the order of the texts.
    "is_cut" is true if the query or any of its texts was cut.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"scores": [each.score for each in sorted(answer.texts, key=lambda text: text.index)]}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": tf.nn.sigmoid(logits) if self.settings["activation"] == "sigmoid" else logits}
