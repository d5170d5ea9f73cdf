"""The pre-training of SpanBERT: masked LM and the span boundary objective (Joshi et al. 2020, "SpanBERT", section 3.2).

Axes: B batch, P predictions.
"""

from collections.abc import Callable
from typing import Any

from keras import ops

from bert_keras.modeling.losses import MASKED_LM_EPSILON, PretrainingLoss, example_weights, losses_and_hits


class SpanBoundaryLoss(PretrainingLoss):
    """Masked LM and the span boundary objective; the loss is the sum of both (SpanBERT).

    Differs from facebookresearch/SpanBERT, which adds 1 to the number of tokens that divides the second loss.
    Source: Joshi et al. 2020, "SpanBERT", section 3.2, and `NoNSPPairLoss` in spanbert_loss.py.

    Args:
        model: SpanBoundaryModel. The labels are those of `PretrainingLoss`, of which "masked_lm_ids" serve both losses,
            and float32 [B, P] "masked_lm_boundary_weights", 1 for the tokens of the second loss.
        masked_lm_loss_weight: see `PretrainingLoss`, but above 0.
    """

    _OWN_METRICS = ("span_boundary_loss", "span_boundary_accuracy")
    metric_names = (*PretrainingLoss.metric_names, *_OWN_METRICS)
    label_names = (
        *PretrainingLoss.label_names,
        *("masked_lm_left_positions", "masked_lm_right_positions", "masked_lm_boundary_weights"),
    )

    def __init__(self, model: Callable[..., dict[str, Any]], masked_lm_loss_weight: float = 1.0) -> None:
        super().__init__(model, False, masked_lm_loss_weight)

    def value(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns the loss to minimise, see `Loss.value`: the sum of the mean losses of the two objectives."""
        span_loss = numerators["span_boundary_loss"] / (denominators["span_boundary_loss"] + MASKED_LM_EPSILON)
        return super().value(numerators, denominators) + span_loss

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        row_weights = ops.expand_dims(example_weights(features), -1)
        weights = ops.cast(features["masked_lm_boundary_weights"], "float32") * row_weights  # [B, P]
        return super()._weights(features) | dict.fromkeys(self._OWN_METRICS, weights)

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        values = losses_and_hits(outputs["span_boundary_logits"], features["masked_lm_ids"])  # [B, P]
        return super()._values(outputs, features) | dict(zip(self._OWN_METRICS, values, strict=True))
