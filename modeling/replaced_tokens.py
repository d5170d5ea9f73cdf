"""The generator of ELECTRA and the tokens that it replaces (Clark et al. 2020, "ELECTRA", section 2).

Axes: B batch, T tokens, P predictions, V vocabulary.
"""

import dataclasses
from typing import Any

import keras
from keras import ops

from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.names import LOSS_PREFIX
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.dropout import random_bits
from bert_keras.modeling.heads import MaskedLmHead
from bert_keras.modeling.layers import dtype_policy


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
    except ValueError as error:
        raise ValueError(f"a generator of {size:g} times the discriminator's size is not possible: {error}") from None


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


def gumbel_noise(shape: tuple, seed: Any) -> Any:
    """Returns independent samples of the Gumbel distribution, float32, as a pure function of a seed for `Dropout`.

    The index of the largest sum of logits and noise is a sample of the softmax of the logits.
    """
    # 23 bits and a half are exact in float32, and never 0 or 1.
    bits = ops.right_shift(random_bits(shape, seed), 9)
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

    def placed(values):
        return ops.max(ops.where(is_at, ops.expand_dims(values, -1), -1), axis=1)  # [B, T], -1 elsewhere

    replaced, original = placed(samples), placed(features["masked_lm_ids"])
    return ops.where(replaced >= 0, replaced, ids), ops.not_equal(replaced, original)
