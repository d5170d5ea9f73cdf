"""Text model for reranking, as trained by run_reranker.py."""

from typing import Any

import tensorflow as tf

from bert_keras.tasks.graph.list_model import ListModel


class RankModel(ListModel):
    """Scores how well texts fit a query.

    Inputs: "query" string [B]; "texts" string [B, K]. Output: "scores" float32 [B, K], in the order of the texts.
    "is_cut" is true if the query or any of its texts was cut.
    """

    def expected(self, answer: Any) -> dict[str, Any]:
        return {"scores": [text.score for text in sorted(answer.texts, key=lambda text: text.index)]}

    def _read_out(self, logits: tf.Tensor) -> dict[str, tf.Tensor]:
        return {"scores": tf.nn.sigmoid(logits) if self.settings["activation"] == "sigmoid" else logits}
