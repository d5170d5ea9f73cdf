"""The losses and metrics of a network. So far of one: pre-training.

Losses come as sums and weights apart (numerators and denominators), because a batch may be split over micro-batches and
devices: the sums are added up and divided once, by the weights of the whole batch, so that the split changes nothing.

Axes: B batch, T tokens, P predictions, V vocabulary.
"""

from keras import ops

# Keeps a batch without a single masked piece defined; the release adds it to the training loss, not to the metrics.
MASKED_LM_EPSILON = 1e-5


class PretrainingTask:
    """The loss and the metrics of pre-training: masked LM and next sentence, both as in the release.

    Release: `model_fn_builder` of run_pretraining.py.

    The features are those of `PretrainingModel` and int32 [B, P] "masked_lm_ids", float32 [B, P] "masked_lm_weights",
    int32 [B, 1] "next_sentence_labels", and optionally float32 [B] "is_real_example", 0 for rows that only fill up the
    last batch of an evaluation and count for nothing.

    Args:
        model: PretrainingModel, or any function of the same arguments and results.
    """

    metric_names = ("masked_lm_loss", "masked_lm_accuracy", "next_sentence_loss", "next_sentence_accuracy")

    def __init__(self, model):
        self.model = model

    def denominators(self, features):
        """Returns what each metric is divided by, a dict of float32 scalars: numbers of masked pieces and examples."""
        num_masked = ops.sum(_masked_lm_weights(features))
        num_examples = ops.sum(_example_weights(features))
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
        labels = ops.reshape(features["next_sentence_labels"], (-1,))
        sentence_losses, sentence_hits = _losses_and_hits(outputs["next_sentence_logits"], labels)  # [B]
        masked_weights = _masked_lm_weights(features)
        example_weights = _example_weights(features)
        return {
            "masked_lm_loss": ops.sum(masked_weights * masked_losses),
            "masked_lm_accuracy": ops.sum(masked_weights * masked_hits),
            "next_sentence_loss": ops.sum(example_weights * sentence_losses),
            "next_sentence_accuracy": ops.sum(example_weights * sentence_hits),
        }

    def loss(self, numerators, denominators):
        """Returns what is minimised, a float32 scalar: the sum of the two mean losses.

        With the denominators of the whole batch, the losses of its parts add up to the loss of the whole.
        """
        masked_lm = numerators["masked_lm_loss"] / (denominators["masked_lm_loss"] + MASKED_LM_EPSILON)
        # At least one example, so that a part that only fills up a batch is defined.
        return masked_lm + numerators["next_sentence_loss"] / ops.maximum(denominators["next_sentence_loss"], 1.0)

    def metrics(self, numerators, denominators):
        """Returns the mean of each metric, a dict of float32 scalars; 0 where nothing was counted."""
        return {name: ops.divide_no_nan(numerators[name], denominators[name]) for name in numerators}


def _losses_and_hits(logits, labels):
    """Returns the negative log-likelihood of each label, and 1.0 where it has the highest score; float32."""
    losses = ops.sparse_categorical_crossentropy(labels, logits, from_logits=True)
    # The first of the highest scores, as argmax gives it; with a vocabulary's width this takes a third of the time.
    best = ops.squeeze(ops.top_k(logits, k=1)[1], axis=-1)
    return losses, ops.cast(ops.equal(best, ops.cast(labels, best.dtype)), "float32")


def _example_weights(features):
    """Returns float32 [B]: 1 for examples, 0 for rows that only fill up the batch."""
    if "is_real_example" in features:
        return ops.reshape(ops.cast(features["is_real_example"], "float32"), (-1,))
    return ops.ones_like(features["input_ids"][:, 0], dtype="float32")


def _masked_lm_weights(features):
    """Returns float32 [B, P]: 1 for masked pieces, 0 for padding and in rows that only fill up the batch."""
    weights = ops.cast(features["masked_lm_weights"], "float32")
    return weights * ops.expand_dims(_example_weights(features), -1)
