"""The losses of vectors of texts: ranking and classes among the texts of a batch, and the cosine of scored pairs.

Axes: B examples, K texts of an example, H hidden, C candidates.
"""

from typing import Any

import keras
import tensorflow as tf
from keras import ops

from bert_keras.modeling import SentenceModel
from bert_keras.modeling.layers import normalize
from bert_keras.modeling.losses import Loss, losses_and_hits

_EXCLUDED = -1e9
# The label of a row that fills a batch and does not count.
NO_CLASS = -1

# Number of a missing text, which pads an example that has fewer texts than others.
NO_TEXT = -1


class CosineLoss(Loss):
    """Makes the cosine of the vectors of two texts equal to their score, by the squared error.

    Source: Reimers and Gurevych 2019, "Sentence-BERT", section 3.

    Args:
        model: SentenceModel; the labels are float32 [B] "label_values", from -1 to 1.
    """

    metric_names = ("loss",)
    label_names = ("label_values",)

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        vectors = normalize(outputs["vectors"])  # [B, 2, H]
        cosines = ops.sum(vectors[:, 0] * vectors[:, 1], axis=-1)
        return {"loss": ops.square(cosines - features["label_values"])}


class ComparingLoss(Loss):
    """Base class of losses that compare all examples of a batch, also across devices and micro-batches.

    `Trainer` first computes all vectors, then their gradients with `compare`, and then the gradients of the weights
    part by part.

    Source for parts of batches: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
    Setup".
    """

    def compare(self, vectors: Any, features: dict[str, Any]) -> dict[str, Any]:
        """Compares the examples of a whole batch.

        Args:
            vectors: float32 [B, ..., H].
            features: the labels of the loss.

        Returns:
            The inputs of `numerators` from each example, all float32: the gradient of the sum of the losses
            "vector_gradients" [B, ..., H], and the value of each metric [B].
        """
        if keras.backend.backend() == "jax":
            import jax

            def summed(vectors: Any) -> tuple[Any, dict[str, Any]]:
                values = self._values({"vectors": vectors}, features)
                return ops.sum(values["loss"]), values

            gradients, values = jax.grad(summed, has_aux=True)(vectors)
        else:
            with tf.GradientTape() as tape:
                tape.watch(vectors)
                values = self._values({"vectors": vectors}, features)
            gradients = tape.gradient(values["loss"], vectors)
        return {"vector_gradients": gradients, **{f"compared_{name}": value for name, value in values.items()}}

    def numerators(self, features: dict[str, Any], dropout_seed: Any = None) -> dict[str, Any]:
        """See `Loss.numerators`. With the features of `compare`, the loss has its value and gradient from there."""
        if "vector_gradients" not in features:
            return super().numerators(features, dropout_seed)
        vectors = self.model(features, dropout_seed=dropout_seed)["vectors"]
        sums = {name: ops.sum(features[f"compared_{name}"]) for name in self.metric_names}
        product = ops.sum(features["vector_gradients"] * vectors)
        return sums | {"loss": sums["loss"] + product - ops.stop_gradient(product)}


class RankingLoss(ComparingLoss):
    """Finds the second text of each example among the second and further texts of all examples of a batch.

    The loss of an example is the cross-entropy of its second text, with the cosines times `scale` as logits. The other
    texts of the batch are the negatives. A candidate does not count if it equals the first or the second text, or
    answers an equal first text.

    Without labels, both texts of an example are the same, and only dropout makes their vectors differ (SimCSE).

    Sources: Henderson et al. 2017, "Efficient Natural Language Response Suggestion for Smart Reply", section 4.4; Gao,
    Yao and Chen 2021, "SimCSE".

    Args:
        model: SentenceModel; the labels are int32 [B, K] "text_numbers": equal texts have the same number.
        scale: factor of the cosines, the inverse of the temperature.
    """

    label_names = ("text_numbers",)

    def __init__(self, model: SentenceModel, scale: float = 20.0) -> None:
        super().__init__(model)
        self._scale = scale

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        vectors, numbers = normalize(outputs["vectors"]), features["text_numbers"]
        # The second texts of all examples, then their third texts, and so on.
        candidates = ops.reshape(ops.transpose(vectors[:, 1:], (1, 0, 2)), (-1, vectors.shape[-1]))  # [C, H]
        logits = self._scale * ops.matmul(vectors[:, 0], ops.transpose(candidates))  # [B, C]
        logits = ops.where(_is_excluded(numbers), _EXCLUDED, logits)
        losses, hits = losses_and_hits(logits, ops.arange(ops.shape(vectors)[0], dtype="int32"))
        return {"loss": losses, "accuracy": hits}


class ClassesLoss(ComparingLoss):
    """Gives texts of the same class similar vectors: the supervised contrastive loss.

    The loss of an example is the mean cross-entropy of the other examples of its class among all others of the batch,
    with the cosines divided by `temperature` as logits. It is 0 for an example without another one of its class.

    Source: Khosla et al. 2020, "Supervised Contrastive Learning", equation 2.

    Args:
        model: function of features to "vectors" float32 [B, H]; the labels are int32 [B] "label_ids", or NO_CLASS.
    """

    metric_names = ("loss",)

    def __init__(self, model: Any, temperature: float = 0.1) -> None:
        super().__init__(model)
        self._temperature = temperature

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        return {"loss": ops.cast(features["label_ids"] != NO_CLASS, "float32")}

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        vectors, labels = normalize(outputs["vectors"]), features["label_ids"]
        rows = ops.arange(ops.shape(vectors)[0])
        is_other = ops.not_equal(ops.expand_dims(rows, 1), rows) & (labels != NO_CLASS)  # [B, B]
        logits = ops.matmul(vectors, ops.transpose(vectors)) / self._temperature  # [B, B]
        log_probabilities = ops.log_softmax(ops.where(is_other, logits, _EXCLUDED))
        is_same = ops.cast(ops.equal(ops.expand_dims(labels, 1), labels) & is_other, "float32")
        sums = ops.sum(is_same * log_probabilities, axis=-1)
        return {"loss": -ops.divide_no_nan(sums, ops.sum(is_same, axis=-1))}


def _is_excluded(numbers: Any) -> Any:
    """Returns bool [B, C]: which candidates are not negatives of an example, other than its own second text."""
    first, second = numbers[:, :1], numbers[:, 1:2]  # [B, 1]
    candidates = ops.concatenate([numbers[:, text] for text in range(1, numbers.shape[1])])[None]  # [1, C]
    rows = ops.arange(ops.shape(numbers)[0], dtype="int32")  # [B]
    places = ops.arange(ops.shape(candidates)[1], dtype="int32")  # [C]
    answers_same = ops.equal(first, ops.tile(numbers[:, 0], numbers.shape[1] - 1)) & (places <= rows[-1])
    is_own = ops.equal(ops.expand_dims(rows, 1), places)
    is_same = ops.equal(candidates, first) | ops.equal(candidates, second) | answers_same
    return (is_same | ops.equal(candidates, NO_TEXT)) & ~is_own
