"""Text model for multiple choice, as trained by run_classifier.py."""

from typing import Any

import tensorflow as tf

from bert_keras.tasks.graph.list_model import ListModel


class ChoiceModel(ListModel):
    """Picks the continuation that fits a text best.

    Inputs: "text" string [B]; "choices" string [B, K], two or more. Outputs: "index" int32 [B], the best choice from 0;
    "probabilities" float32 [B, K]. "is_cut" is true if the text or any of its choices was cut.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"index": answer.index, "probabilities": answer.probabilities}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"index": tf.argmax(logits, axis=1, output_type=tf.int32), "probabilities": tf.nn.softmax(logits)}
