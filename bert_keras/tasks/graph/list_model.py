"""Base class of text models that score each text of a list together with another text."""

import tensorflow as tf

from bert_keras.tasks.ability import LISTS
from bert_keras.tasks.graph.text_model import TextModel


class ListModel(TextModel):
    """Scores each text of a list together with another text."""

    def _answer(self, texts: dict[str, tf.Tensor]) -> dict[str, tf.Tensor]:
        text, several = texts.values()
        num_rows, num_texts = tf.unstack(tf.shape(several))
        name, several_name = texts
        least = LISTS[several_name]
        message = f"each {name} needs {least} or more {several_name}"
        with tf.control_dependencies([tf.debugging.assert_greater_equal(num_texts, least, message)]):
            several = tf.identity(several)
        rows = tf.repeat(tf.range(num_rows), num_texts)
        ids_a = tf.gather(self.tokenizer.tokenize(text), rows)
        features, is_cut = self._pack(ids_a, self.tokenizer.tokenize(tf.reshape(several, [-1])))
        logits = tf.reshape(self.network(features)["logits"], [num_rows, num_texts])
        is_cut = tf.reduce_any(tf.reshape(is_cut, [num_rows, num_texts]), axis=1)
        return {**self._read_out(logits), "is_cut": is_cut}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        raise NotImplementedError
