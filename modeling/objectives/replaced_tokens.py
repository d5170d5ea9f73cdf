"""The pre-training of ELECTRA: generator, tokens that it replaces, and loss (Clark et al. 2020, "ELECTRA", section 2).

Axes: B batch, T tokens, P predictions, V vocabulary.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from bert_keras.mistakes import Mistake
from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.names import LOSS_PREFIX
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.dropout import random_bits_of_rows, shifted
from bert_keras.modeling.heads import MaskedLmHead
from bert_keras.modeling.losses import (
    MASKED_LM_EPSILON,
    Loss,
    argmax,
    losses_and_hits,
    masked_lm_weights,
    weighted_sum,
)
from bert_keras.modeling.number_format import dtype_policy

# The seeds of the generator's dropout and of its samples, in steps of more than the number of dropouts in a network.
_GENERATOR, _SAMPLES = 2**16, 2**17


def generator_config(config: BertConfig, size: float) -> BertConfig:
    """Returns the config of a generator: width, heads and inner width are `size` times those of the discriminator.

    The number of layers and the embeddings are those of the discriminator; a projection maps the embeddings to the
    width. In the released models, the size is 1/4 (Small, Large) or 1/3 (Base).

    Raises:
        ValueError: no network has these sizes.
    """
    hidden_size = round(size * config.hidden_size)
    width = config.embedding_width
    try:
        return dataclasses.replace(
            config,
            hidden_size=hidden_size,
            num_attention_heads=max(1, round(size * config.num_attention_heads)),
            intermediate_size=round(size * config.intermediate_size),
            embedding_size=None if width == hidden_size else width,
        )
    except Mistake as error:
        raise Mistake("a generator of {:g} times the discriminator's size is not possible: {}", size, error) from None


class Generator:
    """A small masked LM that shares its embeddings with a discriminator.

    The tables and their normalisation are shared, as published. The weights are part of the loss, not of the model.

    Args:
        discriminator: a model with an encoder `bert`.
        size: see `generator_config`.

    Attributes:
        own_weights: dict of str to keras.Variable, the weights that the discriminator does not have.
    """

    def __init__(self, discriminator: keras.Model, size: float) -> None:
        self.config = generator_config(discriminator.config, size)
        with dtype_policy(discriminator.dtype_policy):
            self.bert = BertModel(self.config, name="generator", tied_embeddings=discriminator.bert.embeddings)
            with keras.name_scope("generator"):
                self.head = MaskedLmHead(self.config)
        shared = {id(weight) for weight in discriminator.weights}
        # The pooler is not used.
        unused = {id(weight) for weight in self.bert.pooler.weights}
        self.own_weights = {
            f"{LOSS_PREFIX}{weight.path}": weight
            for weight in (*self.bert.weights, *self.head.weights)
            if id(weight) not in shared | unused
        }

    def __call__(self, features: dict[str, Any], dropout_seed: Any = None) -> Any:
        """Returns the scores of the masked tokens, float32 [B, P, V]; see `PretrainingModel.call`."""
        inputs = {name: features[name] for name in self.bert.input_names if name in features}
        encoded = self.bert(inputs, dropout_seed=dropout_seed)
        positions = features["masked_lm_positions"]
        return self.head(encoded["sequence_output"], positions, self.bert.embedding_table)


def gumbel_noise(shape: tuple, seeds: Any) -> Any:
    """Returns independent samples of the Gumbel distribution, float32 of a shape [B, ...].

    Each row is a pure function of its own seed for `Dropout`, [B, 2], so the split of a batch changes none. The index
    of the largest sum of logits and noise is a sample of the softmax of the logits.
    """
    # 23 bits and a half are exact in float32, and never 0 or 1.
    bits = ops.right_shift(random_bits_of_rows(shape, seeds), 9)
    uniform = (ops.cast(bits, "float32") + (2**22 + 0.5)) / 2**23
    return -ops.log(-ops.log(uniform))


def replace_tokens(features: dict[str, Any], samples: Any) -> tuple[Any, Any]:
    """Puts samples of the generator, int32 [B, P], at the masked positions of the original text.

    Returns:
        The token ids int32 [B, T], and bool [B, T], whether a token differs from the original one.
    """
    ids, positions = features["input_ids"], features["masked_lm_positions"]
    is_at = ops.equal(ops.expand_dims(positions, -1), ops.arange(ops.shape(ids)[1], dtype="int32"))  # [B, P, T]
    is_at = ops.logical_and(is_at, ops.expand_dims(features["masked_lm_weights"] > 0, -1))

    def placed(values: Any) -> Any:
        return ops.max(ops.where(is_at, ops.expand_dims(values, -1), -1), axis=1)  # [B, T], -1 elsewhere

    replaced, original = placed(samples), placed(features["masked_lm_ids"])
    return ops.where(replaced >= 0, replaced, ids), ops.not_equal(replaced, original)


class ReplacedTokenLoss(Loss):
    """The pre-training of ELECTRA: a generator replaces masked tokens, and the model finds the replaced ones.

    The generator learns masked LM, and its samples replace the masked tokens. A sample that equals the original token
    counts as original. The loss of the model, the discriminator, is over all tokens except padding. No gradient goes
    through the samples.
    Source: Clark et al. 2020, "ELECTRA", section 2, and `PretrainingModel` in run_pretraining.py of
    google-research/electra.

    Args:
        model: ReplacedTokenModel. The labels are those of the masked LM in `PretrainingLoss`. Optional integers [B, 2]
            "example_seeds" determine the samples of each example, whatever part of a batch it is in.
        generator_size: see `generator_config`.
        masked_lm_loss_weight, replaced_token_loss_weight: factors of the losses of generator and discriminator, each 0
            or more; as in `PretrainingLoss`, a loss with the factor 0 is left out.

    Attributes:
        generator: `Generator`.
    """

    # The shares are those of the replaced tokens, and of the tokens that the model holds for replaced, in all tokens.
    metric_names = (
        *("masked_lm_loss", "masked_lm_accuracy", "replaced_token_loss", "replaced_token_accuracy"),
        *("replaced_token_precision", "replaced_token_recall", "replaced_share", "predicted_share"),
    )
    label_names = ("masked_lm_positions", "masked_lm_ids", "masked_lm_weights")

    def __init__(
        self,
        model: keras.Model,
        generator_size: float = 0.25,
        masked_lm_loss_weight: float = 1.0,
        replaced_token_loss_weight: float = 50.0,
    ) -> None:
        super().__init__(model)
        self.generator = Generator(model, generator_size)
        self.own_weights = self.generator.own_weights
        self._loss_weights = masked_lm_loss_weight, replaced_token_loss_weight

    def numerators(self, features: dict[str, Any], dropout_seed: Any = None) -> dict[str, Any]:
        seed = None if dropout_seed is None else ops.convert_to_tensor(dropout_seed)
        logits = self.generator(features, None if seed is None else shifted(seed, _GENERATOR))  # [B, P, V]
        samples = argmax(logits + gumbel_noise(ops.shape(logits), _seeds_of_examples(features, seed)))  # [B, P]
        input_ids, is_replaced = replace_tokens(features, ops.cast(samples, "int32"))  # [B, T]
        outputs = self.model({**features, "input_ids": input_ids}, dropout_seed=dropout_seed)
        outputs |= {"masked_lm_logits": logits, "is_replaced": is_replaced}
        values = self._values(outputs, features)
        return {name: ops.sum(weights * values[name]) for name, weights in self._weights(features).items()}

    def value(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> Any:
        """Returns the weighted sum of the losses of generator and discriminator, see `Loss.value`."""
        masked_lm = numerators["masked_lm_loss"] / (denominators["masked_lm_loss"] + MASKED_LM_EPSILON)
        replaced = ops.divide_no_nan(numerators["replaced_token_loss"], denominators["replaced_token_loss"])
        return weighted_sum(self._loss_weights, (masked_lm, replaced))

    def metrics(self, numerators: dict[str, Any], denominators: dict[str, Any]) -> dict[str, Any]:
        """Returns `Loss.metrics`; precision and recall are 0 without predicted or replaced tokens."""
        hits = numerators["replaced_token_precision"]
        return super().metrics(numerators, denominators) | {
            "replaced_token_precision": ops.divide_no_nan(hits, numerators["predicted_share"]),
            "replaced_token_recall": ops.divide_no_nan(hits, numerators["replaced_share"]),
        }

    def _weights(self, features: dict[str, Any]) -> dict[str, Any]:
        masked, is_token = masked_lm_weights(features), ops.cast(features["input_mask"], "float32")
        return {name: masked if name.startswith("masked_lm") else is_token for name in self.metric_names}

    def _values(self, outputs: dict[str, Any], features: dict[str, Any]) -> dict[str, Any]:
        masked = losses_and_hits(outputs["masked_lm_logits"], features["masked_lm_ids"])  # [B, P]
        labels, logits = ops.cast(outputs["is_replaced"], "float32"), outputs["logits"]  # [B, T]
        predicted = ops.cast(logits > 0, "float32")
        losses = ops.softplus(logits) - labels * logits  # the binary cross-entropy
        found = labels * predicted
        values = (*masked, losses, ops.cast(ops.equal(predicted, labels), "float32"), found, found, labels, predicted)
        return dict(zip(self.metric_names, values, strict=True))


def _seeds_of_examples(features: dict[str, Any], dropout_seed: Any) -> Any:
    """Returns a seed for the samples of each example, [B, 2].

    Without seeds among the features, it depends on the tokens of the example: each evaluation draws the same samples,
    and training draws others with each seed of dropout.
    """
    dtype = "uint32" if keras.backend.backend() == "jax" else "int32"
    if "example_seeds" in features:
        return ops.cast(features["example_seeds"], dtype)
    sums = [ops.sum(features[name], axis=-1) for name in ("input_ids", "masked_lm_ids")]
    seeds = ops.cast(ops.stack(sums, axis=-1), dtype)
    return seeds if dropout_seed is None else seeds + shifted(dropout_seed, _SAMPLES)
