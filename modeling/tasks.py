"""The losses and metrics of the networks: of pre-training, and of each kind of fine-tuning.

Losses come as sums and weights apart (numerators and denominators), because a batch may be split over micro-batches and
devices: the sums are added up and divided once, by the weights of the whole batch, so that the split changes nothing.

Of packed rows (see `modeling.models`) the labels of a sequence have the shape [B, S, ...] instead of [B, ...], and
float32 [B, S] "sequence_weights" is 1 for a sequence and 0 where a row has fewer. Answers to questions cannot be
packed: their softmax runs over padding.

Axes: B batch, T tokens, P predictions, V vocabulary, C classes, K choices, S sequences of a packed row.
"""

import keras
from keras import ops

# Keeps a batch without a single masked piece defined; the release adds it to the training loss, not to the metrics.
MASKED_LM_EPSILON = 1e-5


class PretrainingTask:
    """The loss and the metrics of pre-training: masked LM and next sentence, both as in the release.

    Release: `model_fn_builder` of run_pretraining.py.

    The features are those of `PretrainingModel` and int32 [B, P] "masked_lm_ids", float32 [B, P] "masked_lm_weights",
    int32 [B, 1] "next_sentence_labels" (-1: the example takes no part in that task), and optionally float32 [B]
    "is_real_example", 0 for rows that only fill up the last batch of an evaluation and count for nothing.

    Args:
        model: PretrainingModel, or any function of the same arguments and results.
        has_sentence_task: False if no example has a label of the sentence task. Then the loss does not depend on the
            pooler and the head of that task, so training leaves their weights as they are.
    """

    metric_names = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")

    def __init__(self, model, has_sentence_task=True):
        self.model = model
        self.has_sentence_task = has_sentence_task

    def denominators(self, features):
        """Returns what each metric is divided by, a dict of float32 scalars: numbers of masked pieces and examples."""
        num_masked = ops.sum(_masked_lm_weights(features))
        num_examples = ops.sum(_next_sentence_weights(features))
        return {
            "masked_lm_loss": num_masked,
            "masked_lm_accuracy": num_masked,
            "next_sentence_loss": num_examples,
            "next_sentence_accuracy": num_examples,
        }

    def numerators(self, features, dropout_seed=None):
        """Runs the model and returns the weighted sums of its losses and hits, a dict of float32 scalars."""
        outputs = self.model(features, dropout_seed=dropout_seed)
        masked_losses, masked_hits = _losses_and_hits(outputs["masked_lm_logits"], features["masked_lm_ids"])  # [B, P]
        sentence_logits = outputs["next_sentence_logits"]  # [B, 2]; [B, S, 2] of packed rows
        labels = ops.reshape(features["next_sentence_labels"], ops.shape(sentence_logits)[:-1])
        sentence_losses, sentence_hits = _losses_and_hits(sentence_logits, ops.maximum(labels, 0))  # [B] or [B, S]
        masked_weights = _masked_lm_weights(features)
        sentence_weights = _next_sentence_weights(features)
        return {
            "masked_lm_loss": ops.sum(masked_weights * masked_losses),
            "masked_lm_accuracy": ops.sum(masked_weights * masked_hits),
            "next_sentence_loss": ops.sum(sentence_weights * sentence_losses),
            "next_sentence_accuracy": ops.sum(sentence_weights * sentence_hits),
        }

    def loss(self, numerators, denominators):
        """Returns what is minimised, a float32 scalar: the sum of the mean losses.

        With the denominators of the whole batch, the losses of its parts add up to the loss of the whole.
        """
        masked_lm = numerators["masked_lm_loss"] / (denominators["masked_lm_loss"] + MASKED_LM_EPSILON)
        if not self.has_sentence_task:
            return masked_lm
        # At least one example, so that a part that only fills up a batch is defined.
        return masked_lm + numerators["next_sentence_loss"] / ops.maximum(denominators["next_sentence_loss"], 1.0)

    def metrics(self, numerators, denominators):
        """Returns the mean of each metric, a dict of float32 scalars; 0 where nothing was counted."""
        return {name: ops.divide_no_nan(numerators[name], denominators[name]) for name in numerators}


class FineTuningTask:
    """What the tasks below have in common: each metric is a weighted mean, and the one that is minimised is `loss`.

    Args:
        model: one of the models of `modeling.models`, or any function of the same arguments and results.
    """

    metric_names = ("loss", "accuracy")
    label_names = ("label_ids",)

    def __init__(self, model):
        self.model = model

    @property
    def feature_names(self):
        """The keys of the features that training reads, a tuple of str."""
        return ("input_ids", "input_mask", "segment_ids", *self.label_names)

    def denominators(self, features):
        """Returns what each metric is divided by, a dict of float32 scalars."""
        return {name: ops.sum(weights) for name, weights in self._weights(features).items()}

    def numerators(self, features, dropout_seed=None):
        """Runs the model and returns the weighted sum of each metric, a dict of float32 scalars."""
        values = self._values(self.model(features, dropout_seed=dropout_seed), features)
        return {name: ops.sum(weights * values[name]) for name, weights in self._weights(features).items()}

    def loss(self, numerators, denominators):
        """Returns what is minimised, a float32 scalar; with the denominators of the whole batch, parts add up."""
        return ops.divide_no_nan(numerators["loss"], denominators["loss"])

    def metrics(self, numerators, denominators):
        """Returns the mean of each metric, a dict of float32 scalars; 0 where nothing was counted."""
        return {name: ops.divide_no_nan(numerators[name], denominators[name]) for name in numerators}

    def _weights(self, features):
        """Returns what each value counts, float32 tensors of the shapes of the values."""
        return dict.fromkeys(self.metric_names, _sequence_weights(features))

    def _values(self, outputs, features):
        """Returns the value of each metric for each example, float32 tensors."""
        raise NotImplementedError


class ClassificationTask(FineTuningTask):
    """One of several classes for each sequence, or one of several choices.

    Release: `create_model` of run_classifier.py.

    Args:
        model: ClassifierModel or MultipleChoiceModel; the labels are int32 [B] "label_ids".
        class_weights: list of C floats; how much an example of each class counts in the loss, which is the weighted
            mean of the losses. None: all the same, as in the release.
    """

    def __init__(self, model, class_weights=None):
        super().__init__(model)
        self.class_weights = class_weights

    def _weights(self, features):
        weights = super()._weights(features)  # [B]
        if self.class_weights is not None:
            of_class = ops.take(ops.convert_to_tensor(self.class_weights, "float32"), features["label_ids"])
            weights["loss"] = weights["loss"] * of_class
        return weights

    def _values(self, outputs, features):
        losses, hits = _losses_and_hits(outputs["logits"], features["label_ids"])  # [B]
        return {"loss": losses, "accuracy": hits}


class RegressionTask(FineTuningTask):
    """A number for each sequence (paper, section 4.1, STS-B): squared error of the one logit.

    Args:
        model: ClassifierModel of one class; the labels are float32 [B] "label_values".
    """

    metric_names = ("loss",)
    label_names = ("label_values",)

    def _values(self, outputs, features):
        return {"loss": ops.square(outputs["logits"][..., 0] - features["label_values"])}


class MultiLabelTask(FineTuningTask):
    """Any number of classes for each sequence: each is a question of its own, answered by a sigmoid.

    Args:
        model: ClassifierModel; the labels are float32 [B, C] "label_values", 1 for each class that applies.
    """

    label_names = ("label_values",)

    def _values(self, outputs, features):
        logits, labels = outputs["logits"], features["label_values"]  # [B, C]
        losses = ops.binary_crossentropy(labels, logits, from_logits=True)
        hits = ops.cast(ops.equal(logits > 0, labels > 0.5), "float32")
        return {"loss": ops.mean(losses, axis=-1), "accuracy": ops.mean(hits, axis=-1)}  # [B]


class TokenClassificationTask(FineTuningTask):
    """One of several classes for each token (paper, section 5.3).

    Args:
        model: TokenClassifierModel; the labels are int32 [B, T] "label_ids", -1 for tokens that do not count.
    """

    def _weights(self, features):
        counts = ops.cast(features["label_ids"] >= 0, "float32")  # [B, T]
        return dict.fromkeys(self.metric_names, counts)

    def _values(self, outputs, features):
        losses, hits = _losses_and_hits(outputs["logits"], ops.maximum(features["label_ids"], 0))  # [B, T]
        return {"loss": losses, "accuracy": hits}


class SquadTask(FineTuningTask):
    """The first and the last token of an answer (paper, section 4.2). Release: `model_fn_builder` of run_squad.py.

    The loss is the mean of the two cross-entropies over all T positions, padding and question included.

    Args:
        model: SquadModel; the labels are int32 [B] "start_positions" and "end_positions".
    """

    metric_names = ("loss", "start_accuracy", "end_accuracy")
    label_names = ("start_positions", "end_positions")

    def _values(self, outputs, features):
        start_losses, start_hits = _losses_and_hits(outputs["start_logits"], features["start_positions"])  # [B]
        end_losses, end_hits = _losses_and_hits(outputs["end_logits"], features["end_positions"])
        return {"loss": (start_losses + end_losses) / 2.0, "start_accuracy": start_hits, "end_accuracy": end_hits}


def _losses_and_hits(logits, labels):
    """Returns the negative log-likelihood of each label, and 1.0 where it has the highest score; float32."""
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    best = _argmax(logits)
    return losses, ops.cast(ops.equal(best, ops.cast(labels, best.dtype)), "float32")


def _argmax(logits):
    """Returns the place of the highest score, int32 without the last axis."""
    if keras.backend.backend() != "tensorflow":
        return ops.argmax(logits, axis=-1)
    import tensorflow as tf

    # Keras's own takes four times as long over a vocabulary, and XLA compiles top_k to a sort of all scores.
    return tf.argmax(logits, axis=-1, output_type=tf.int32)


def _example_weights(features):
    """Returns float32 [B]: 1 for examples, 0 for rows that only fill up the batch."""
    if "is_real_example" in features:
        return ops.reshape(ops.cast(features["is_real_example"], "float32"), (-1,))
    return ops.ones(ops.shape(features["input_ids"])[:1], dtype="float32")


def _next_sentence_weights(features):
    """Returns float32 [B] or [B, S]: as `_sequence_weights`, and 0 for sequences without a label."""
    weights = _sequence_weights(features)
    is_labelled = ops.reshape(features["next_sentence_labels"], ops.shape(weights)) >= 0
    return weights * ops.cast(is_labelled, "float32")


def _sequence_weights(features):
    """Returns float32 [B], or [B, S] of packed rows: 1 for each sequence, 0 for what only fills up a row or a batch."""
    weights = _example_weights(features)
    if "sequence_weights" in features:
        return features["sequence_weights"] * ops.expand_dims(weights, -1)
    return weights


def _masked_lm_weights(features):
    """Returns float32 [B, P]: 1 for masked pieces, 0 for padding and in rows that only fill up the batch."""
    weights = ops.cast(features["masked_lm_weights"], "float32")
    return weights * ops.expand_dims(_example_weights(features), -1)
