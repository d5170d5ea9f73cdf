"""The loss over all texts of a query.

Axes: B queries, K texts of a query.
"""

from typing import Any

from keras import ops

from bert_keras.modeling.losses import Loss

_EXCLUDED = -1e9


class ListwiseLoss(Loss):
    """The cross-entropy between the relevance of the texts of a query, as shares, and the softmax of their scores.

    Source: Cao et al. 2007, "Learning to Rank: From Pairwise Approach to Listwise Approach"; with one relevant text,
    the loss is that of Nogueira et al. 2020 and of contrastive training.

    Args:
        model: MultipleChoiceModel; the labels are float32 [B, K] "label_values": `data.NO_TEXT`, 0 or above.
    """

    label_names = ("label_values",)

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        relevance = features["label_values"]
        logits = ops.where(relevance < 0, _EXCLUDED, outputs["logits"])
        gains = ops.maximum(relevance, 0.0)
        shares = gains / ops.sum(gains, axis=-1, keepdims=True)
        losses = -ops.sum(shares * ops.log_softmax(logits, axis=-1), axis=-1)
        # Of several texts with the highest score, the least relevant counts.
        is_best = ops.equal(logits, ops.max(logits, axis=-1, keepdims=True))
        hits = ops.min(ops.where(is_best, gains, ops.ones_like(gains)), axis=-1) > 0
        return {"loss": losses, "accuracy": ops.cast(hits, "float32")}
