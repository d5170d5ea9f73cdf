"""The losses and metrics of BERT's pre-training and of each kind of fine-tuning.

Each loss returns weighted sums (numerators) and sums of weights (denominators). The training step adds the sums of all
micro-batches and devices and divides once, so the split of a batch does not change the result.

With packed rows (see `modeling.bert`), the labels of sequences have the shape [B, S, ...] instead of [B, ...]. float32
[B, S] "sequence_weights" is 1 for a sequence and 0 for an unused place of the row. Question answering cannot be
packed, because its softmax includes padding.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, K choices, S sequences of a packed row.
"""

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import keras
from keras import ops

# Avoids a division by 0 without masked tokens. As in the original BERT, it is in the training loss, not in the metrics.
MASKED_LM_EPSILON = 1e-5


class Loss:
    """Base class: each metric is a weighted mean, and training minimises the metric `loss`.

    Float32 [B] "is_real_example" is optional; 0 marks rows that fill the last batch of an evaluation and do not count.

    Args:
        model: one of the models of `modeling.models`, or any function with the same arguments and results.

    Attributes:
        label_smoothing: e, from 0 to below 1, for losses with classes (Szegedy et al. 2016, "Rethinking the Inception
            Architecture"). The loss of an example is that of the label times 1 - e, plus e times the mean loss of all
            classes. Other metrics do not change. Masked LM has none: the released models were trained without it, and
            users read the probabilities of the tokens.
        own_weights: dict of str to keras.Variable, weights of the loss that are not part of the model. Training changes
            them, and its checkpoints hold them.
        weight_units: dict of str to float, the units of weights by name; 1 for all others. Training computes a weight's
            update in its unit, so that a weight of any scale learns like one around 1.
        fixed_weights: list of keras.Variable, weights that the loss reads and training never changes: the teacher's.
        compare: for a loss that compares all examples of a batch, see `tasks.vectors.losses.ComparingLoss`; else None.
    """

    metric_names: tuple[str, ...] = ("loss", "accuracy")
    label_names: tuple[str, ...] = ("label_ids",)
    label_smoothing = 0.0
    compare: Callable[[Any, dict[str, Any]], dict[str, Any]] | None = None
    # Each loss has its own dicts.
    own_weights = functools.cached_property(lambda self: {})
    weight_units = functools.cached_property(lambda self: {})
    fixed_weights = functools.cached_property(lambda self: [])

    def __init__(self, model: Callable[..., dict[str, Any]]) -> None:
        self.model: Any = model

    @property
    def feature_names(self) -> tuple[str, ...]:
        """The keys of the features that training reads."""
        return ("input_ids", "input_mask", "segment_ids", *self.label_names)

    def denominators(self, features: dict[str, Any]) -> dict[str, Any]:
        """Returns the divisor of each metric, a dict of float32 scalars, such as the number of examples or labels."""
        return {name: ops.sum(weights) for name, weights in self._weights(features).items()}

    def numerators(self, features: dict[str, Any], dropout_seed: Any = None) -> dict[str, Any]:
        """Runs the model and returns the weighted sum of each metric, a dict of float32 scalars."""
        values = self._values(self.model(features, dropout_seed=dropout_seed), features)
        return {name: ops.sum(weights * values[name]) for name, weights in self._weights(features).items()}

    def value(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns the loss to minimise, a float32 scalar.

        If the denominators are those of the whole batch, the losses of its parts add up to the loss of the batch.
        """
        return ops.divide_no_nan(numerators["loss"], denominators["loss"])

    def metrics(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> dict[str, Any]:
        """Returns the mean of each metric, a dict of float32 scalars; 0 where nothing was counted."""
        return {name: ops.divide_no_nan(numerators[name], denominators[name]) for name in numerators}

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        """Returns the weights of the values of each metric, a dict of float32 tensors."""
        return dict.fromkeys(self.metric_names, _sequence_weights(features))

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        """Returns the values of each metric before averaging, a dict of float32 tensors."""
        raise NotImplementedError


class PretrainingLoss(Loss):
    """Masked LM and next sentence prediction, both as in the original BERT.

    Source: `model_fn_builder` of the original run_pretraining.py.

    Args:
        model: PretrainingModel. The labels are int32 [B, P] "masked_lm_ids", float32 [B, P] "masked_lm_weights" and
            int32 [B, 1] "next_sentence_labels", -1 for an example without this task.
        has_sentence_task: False if no example has a label of the sentence task. The loss then does not depend on the
            pooler and the head of that task, so training does not change their weights.
        masked_lm_loss_weight, next_sentence_loss_weight: factors of the two losses in the sum, each 0 or more. A loss
            with the factor 0 is left out, so training does not change weights that only this loss depends on.
    """

    metric_names = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")
    label_names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights", "next_sentence_labels")

    def __init__(
        self,
        model: Callable[..., dict[str, Any]],
        has_sentence_task: bool = True,
        masked_lm_loss_weight: float = 1.0,
        next_sentence_loss_weight: float = 1.0,
    ) -> None:
        super().__init__(model)
        self._loss_weights = masked_lm_loss_weight, next_sentence_loss_weight if has_sentence_task else 0.0
        if not any(self._loss_weights):
            raise ValueError(
                "no loss has a weight above 0; give one to the masked LM, or to a sentence task with labels"
            )

    def value(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns the loss to minimise, see `Loss.value`: the weighted sum of the mean losses of the two tasks."""
        masked_lm = numerators["masked_lm_loss"] / (denominators["masked_lm_loss"] + MASKED_LM_EPSILON)
        # The maximum avoids a division by 0 for a batch of padding rows.
        sentence = numerators["next_sentence_loss"] / ops.maximum(denominators["next_sentence_loss"], 1.0)
        return weighted_sum(self._loss_weights, (masked_lm, sentence))

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        masked = masked_lm_weights(features)  # [B, P]
        sentence = _sequence_weights(features)  # [B] or [B, S]
        is_labelled = ops.reshape(features["next_sentence_labels"], ops.shape(sentence)) >= 0
        sentence = sentence * ops.cast(is_labelled, "float32")
        return dict(zip(PretrainingLoss.metric_names, (masked, masked, sentence, sentence), strict=True))

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        masked = losses_and_hits(outputs["masked_lm_logits"], features["masked_lm_ids"])  # [B, P]
        sentence_logits = outputs["next_sentence_logits"]  # [B, 2]; [B, S, 2] of packed rows
        labels = ops.reshape(features["next_sentence_labels"], ops.shape(sentence_logits)[:-1])
        sentence = losses_and_hits(sentence_logits, ops.maximum(labels, 0))  # [B] or [B, S]
        return dict(zip(PretrainingLoss.metric_names, (*masked, *sentence), strict=True))


class ClassificationLoss(Loss):
    """One of several classes for each sequence, or one of several choices.

    Source: `create_model` of the original run_classifier.py.

    Args:
        model: ClassifierModel or MultipleChoiceModel; the labels are int32 [B] "label_ids".
        class_weights: list of C floats, the weight of an example of each class in the loss, a weighted mean. None: all
            weights are equal, as in the original BERT.
    """

    def __init__(self, model: Callable[..., dict[str, Any]], class_weights: Sequence[float] | None = None) -> None:
        super().__init__(model)
        self.class_weights = class_weights

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        weights = super()._weights(features)  # [B]
        if self.class_weights is not None:
            class_weights = ops.take(ops.convert_to_tensor(self.class_weights, "float32"), features["label_ids"])
            weights["loss"] = weights["loss"] * class_weights
        return weights

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        losses, hits = losses_and_hits(outputs["logits"], features["label_ids"], self.label_smoothing)  # [B]
        return {"loss": losses, "accuracy": hits}


class RegressionLoss(Loss):
    """A number for each sequence (paper, section 4.1, STS-B), with the squared error of the logit as loss.

    Args:
        model: ClassifierModel with one class; the labels are float32 [B] "label_values". If `std` is not 1, it must
            have a new head, which changes: it then predicts `mean`, up to a small random number of deviations.
        mean, std: the mean and the standard deviation of the labels. The loss is in squared deviations, and the head is
            trained as if it predicted the number of deviations from the mean. Its weights and logits stay in the unit
            of the labels, so checkpoints and exports need no conversion. As in the original BERT, 0 and 1.
    """

    metric_names = ("loss",)
    label_names = ("label_values",)

    def __init__(self, model: keras.Model, mean: float = 0.0, std: float = 1.0) -> None:
        super().__init__(model)
        self.std = std
        if (mean, std) != (0.0, 1.0):
            self.weight_units = {"output_weights": std, "output_bias": std}
            model.head.output_weights.assign(model.head.output_weights * std)
            model.head.output_bias.assign(ops.full(model.head.output_bias.shape, mean))

    def squared_errors(self, predicted: Any, expected: Any) -> Any:
        """Returns squared differences of numbers in the unit of the labels, in squared deviations."""
        return ops.square((predicted - expected) / self.std)

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        return {"loss": self.squared_errors(outputs["logits"][..., 0], features["label_values"])}


class MultiLabelLoss(Loss):
    """Any number of classes for each sequence, each with a separate sigmoid.

    Args:
        model: ClassifierModel; the labels are float32 [B, C] "label_values", 1 for each class that applies.
    """

    label_names = ("label_values",)

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        logits, labels = outputs["logits"], features["label_values"]  # [B, C]
        hits = ops.cast(ops.equal(logits > 0, labels > 0.5), "float32")
        if self.label_smoothing:
            labels = (1.0 - self.label_smoothing) * labels + 0.5 * self.label_smoothing
        losses = ops.binary_crossentropy(labels, logits, from_logits=True)
        return {"loss": ops.mean(losses, axis=-1), "accuracy": ops.mean(hits, axis=-1)}  # [B]


class TokenClassificationLoss(Loss):
    """One of several classes for each token (paper, section 5.3).

    Args:
        model: TokenClassifierModel; the labels are int32 [B, T] "label_ids", -1 for tokens without a label.
    """

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        return dict.fromkeys(self.metric_names, ops.cast(features["label_ids"] >= 0, "float32"))  # [B, T]

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        labels = ops.maximum(features["label_ids"], 0)
        losses, hits = losses_and_hits(outputs["logits"], labels, self.label_smoothing)  # [B, T]
        return {"loss": losses, "accuracy": hits}


class SquadLoss(Loss):
    """The start and the end of an answer (paper, section 4.2).

    The loss is the mean of the two cross-entropies over all T positions, including padding and question. Label
    smoothing spreads over all positions except padding.
    Source: `model_fn_builder` of the original run_squad.py.

    Args:
        model: SquadModel; the labels are int32 [B] "start_positions" and "end_positions".
    """

    metric_names = ("loss", "start_accuracy", "end_accuracy")
    label_names = ("start_positions", "end_positions")

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        smoothing = self.label_smoothing, features["input_mask"] if self.label_smoothing else None
        starts, ends = features["start_positions"], features["end_positions"]
        start_losses, start_hits = losses_and_hits(outputs["start_logits"], starts, *smoothing)  # [B]
        end_losses, end_hits = losses_and_hits(outputs["end_logits"], ends, *smoothing)
        return {"loss": (start_losses + end_losses) / 2.0, "start_accuracy": start_hits, "end_accuracy": end_hits}


def weighted_sum(weights: Iterable[float], losses: Iterable[Any]) -> Any:
    """Returns the sum of losses times their weights, without those of weight 0."""
    weighted = [weight * loss for weight, loss in zip(weights, losses, strict=True) if weight]
    return sum(weighted[1:], weighted[0])


def losses_and_hits(logits: Any, labels: Any, label_smoothing: float = 0.0, classes: Any = None) -> tuple[Any, Any]:
    """Returns the negative log-likelihood of each label, and 1.0 if it has the highest logit, else 0.0; float32.

    Smoothing spreads a share of each label over the classes [..., C] that are 1; None: all classes.
    """
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    if label_smoothing:
        shares = ops.ones_like(logits) if classes is None else ops.cast(classes, logits.dtype)
        mean = ops.sum(shares * logits, axis=-1) / ops.sum(shares, axis=-1)
        losses = (1.0 - label_smoothing) * losses + label_smoothing * (ops.logsumexp(logits, axis=-1) - mean)
    best = argmax(logits)
    return losses, ops.cast(ops.equal(best, ops.cast(labels, best.dtype)), "float32")


def argmax(logits: Any) -> Any:
    """Returns the index of the highest logit along the last axis."""
    if keras.backend.backend() != "tensorflow":
        return ops.argmax(logits, axis=-1)
    import tensorflow as tf

    # For a vocabulary, ops.argmax takes four times as long. XLA compiles top_k to a sort of all logits.
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def masked_lm_weights(features: dict[str, Any]) -> Any:
    """Returns float32 [B, P]: 1 for masked tokens, 0 for unused places and padding rows."""
    is_masked = ops.cast(features["masked_lm_weights"], "float32")
    return is_masked * ops.expand_dims(example_weights(features), -1)


def example_weights(features: dict[str, Any]) -> Any:
    """Returns float32 [B]: 1 for examples, 0 for padding rows of the batch."""
    if "is_real_example" in features:
        return ops.reshape(ops.cast(features["is_real_example"], "float32"), (-1,))
    return ops.ones(ops.shape(features["input_ids"])[:1], dtype="float32")


def _sequence_weights(features: dict[str, Any]) -> Any:
    """Returns float32 [B], or [B, S] for packed rows: 1 for sequences, 0 for unused places and padding rows."""
    weights = example_weights(features)
    if "sequence_weights" in features:
        return features["sequence_weights"] * ops.expand_dims(weights, -1)
    return weights
