"""What follows the encoder: the masked-LM head, the linear head of most other tasks, and the pooling of vectors.

Axes: B batch, T tokens, E embedding, H hidden, P predictions, V vocabulary, C classes.
"""

import contextlib
import numbers
from typing import Any

import keras
import numpy as np
from keras import ops

from bert_keras.mistakes import Mistake
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.dropout import Dropout
from bert_keras.modeling.layers import (
    EncoderLayer,
    activation,
    dense,
    layer_norm,
    mark_built,
    truncated_normal,
)

# Constants of the fine-tuning heads. They ignore the config, as in the original BERT.
FINE_TUNING_INITIALIZER_RANGE = 0.02
# Constants of the span boundary objective: `--max-pair-targets` and `--pair-positional-embedding-size` of the published
# command (facebookresearch/SpanBERT, pretraining/README.md).
NUM_SPAN_POSITIONS = 15
_SPAN_POSITION_SIZE = 200


class MaskedLmHead(keras.layers.Layer):
    """Predicts the masked tokens (paper, section 3.1, task 1).

    The projection to the vocabulary is the largest product of a small model, so only the vectors at masked positions
    go through it. Its kernel is the word-embedding table, so the layer before it has the width of the embeddings.
    Source: `get_masked_lm_output` of the original.
    """

    def __init__(self, config: BertConfig, name: str = "predictions") -> None:
        super().__init__(name=name)
        self.activation = activation(config.hidden_act)
        with keras.name_scope("cls"):
            with keras.name_scope(name), keras.name_scope("transform"):
                self.dense = dense(config.hidden_size, config.embedding_width, config)
                self.layer_norm = layer_norm(config, config.embedding_width)
            self.output_bias = self.add_weight(name="output_bias", shape=(config.vocab_size,), initializer="zeros")
        mark_built(self, (None, None, config.vocab_size))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        """Returns None: the outputs have no token axis."""

    def call(self, sequence_output: Any, positions: Any, embedding_table: Any) -> Any:
        """Scores every token of the vocabulary at the masked positions, int32 [B, P]; returns float32 [B, P, V].

        `sequence_output` is float [B, T, H], and `embedding_table`, the word embeddings of the encoder, float [V, E].
        """
        masked = rows_at(sequence_output, positions)  # [B, P, H]
        transformed = self.layer_norm(self.activation(self.dense(masked)))  # [B, P, E]
        return _scores_of_vocabulary(transformed, embedding_table, self.output_bias)


class SpanBoundaryHead(keras.layers.Layer):
    """Predicts each token of a masked span from the two tokens around the span and the token's position in it.

    It does not see the vectors in the span. Two dense layers, each with a normalisation, then the word-embedding table.
    Source: Joshi et al. 2020, "SpanBERT", section 3.2, and `BertPairTargetPredictionHead` in pair_bert.py of
    facebookresearch/SpanBERT.
    """

    def __init__(self, config: BertConfig, name: str = "span_boundary") -> None:
        super().__init__(name=name)
        self.activation = activation(config.hidden_act)
        inputs = 2 * config.hidden_size + _SPAN_POSITION_SIZE
        with keras.name_scope("cls"):
            self.position_embeddings = self.add_weight(
                name="position_embeddings",
                shape=(NUM_SPAN_POSITIONS, _SPAN_POSITION_SIZE),
                initializer=truncated_normal(config.initializer_range),
            )
            with keras.name_scope(name):
                self.dense_1 = dense(inputs, config.hidden_size, config, name="dense_1")
                self.layer_norm_1 = layer_norm(config, name="LayerNorm_1")
                self.dense_2 = dense(config.hidden_size, config.embedding_width, config, name="dense_2")
                self.layer_norm_2 = layer_norm(config, config.embedding_width, name="LayerNorm_2")
            self.output_bias = self.add_weight(name="output_bias", shape=(config.vocab_size,), initializer="zeros")
        mark_built(self, (None, None, config.vocab_size))

    def compute_mask(self, inputs: Any, previous_mask: Any = None) -> None:
        """Returns None: the outputs have no token axis."""

    def call(self, sequence_output: Any, positions: Any, lefts: Any, rights: Any, embedding_table: Any) -> Any:
        """Scores every token of the vocabulary for the masked tokens; returns float32 [B, P, V].

        Args:
            sequence_output: float [B, T, H].
            positions, lefts, rights: int32 [B, P], the masked tokens and the tokens before and after their spans. A
                token more than NUM_SPAN_POSITIONS after the left one has no position embedding.
            embedding_table: float [V, E], the word embeddings of the encoder.
        """
        places = ops.one_hot(positions - lefts - 1, NUM_SPAN_POSITIONS, dtype=self.compute_dtype)
        place_embeddings = ops.matmul(places, self.position_embeddings)  # [B, P, 200]
        x = ops.concatenate(
            [rows_at(sequence_output, lefts), rows_at(sequence_output, rights), place_embeddings], axis=-1
        )
        x = self.layer_norm_1(self.activation(self.dense_1(x)))  # [B, P, H]
        x = self.layer_norm_2(self.activation(self.dense_2(x)))  # [B, P, E]
        return _scores_of_vocabulary(x, embedding_table, self.output_bias)


def _scores_of_vocabulary(x: Any, embedding_table: Any, output_bias: Any) -> Any:
    """Maps float [B, P, E] to float32 [B, P, V] with the word-embedding table [V, E] and a bias [V]."""
    if keras.backend.standardize_dtype(embedding_table.dtype) != "float32":
        # A network that stores 16 bits answers, and logits of 16 bits would change its probabilities by per cents.
        x, output_bias = ops.cast(x, "float32"), ops.cast(output_bias, "float32")
    logits = ops.matmul(x, ops.transpose(ops.cast(embedding_table, x.dtype))) + output_bias
    return ops.cast(logits, "float32")


class ReplacedTokenHead(keras.layers.Layer):
    """Scores each token as a replacement that a generator made (Clark et al. 2020, "ELECTRA", section 2)."""

    def __init__(self, config: BertConfig, name: str = "replaced_token") -> None:
        super().__init__(name=name)
        self.activation = activation(config.hidden_act)
        with keras.name_scope("cls"), keras.name_scope(name):
            self.dense = dense(config.hidden_size, config.hidden_size, config)
        self.linear = LinearHead(config, 1, ("cls", name), config.initializer_range)
        self.supports_masking = True
        mark_built(self, (None, None))

    def call(self, sequence_output: Any) -> Any:
        """Maps float [B, T, H] to float32 [B, T] logits; above 0, the token is probably a replacement."""
        return self.linear(self.activation(self.dense(sequence_output)))[..., 0]


class LinearHead(keras.layers.Layer):
    """A linear layer with the original names and shapes: `output_weights` [C, H] and `output_bias` [C].

    The name scopes of `scope` prefix the names of the weights. Source: `get_next_sentence_output` of
    the original run_pretraining.py, and `create_model` of run_classifier.py (with dropout) and run_squad.py.
    """

    def __init__(
        self,
        config: BertConfig,
        num_classes: int,
        scope: tuple[str, ...] = (),
        initializer_range: float = FINE_TUNING_INITIALIZER_RANGE,
        has_dropout: bool = False,
    ) -> None:
        super().__init__(name=scope[-1] if scope else "classifier")
        if not isinstance(num_classes, numbers.Integral) or num_classes < 1:
            raise Mistake("num_classes is {!r}, but must be a whole number above 0", num_classes)
        num_dropouts_below = 1 + config.num_hidden_layers * EncoderLayer.NUM_DROPOUTS
        self.dropout = Dropout(config.classifier_dropout if has_dropout else 0.0, num_dropouts_below)
        # add_weight would add the layer name to the names of the weights.
        with contextlib.ExitStack() as scopes:
            for part in scope:
                scopes.enter_context(keras.name_scope(part))
            self.output_weights = keras.Variable(
                truncated_normal(initializer_range),
                shape=(num_classes, config.hidden_size),
                dtype=self.variable_dtype,
                autocast=False,
                name="output_weights",
            )
            # 16 bits are too few for a bias such as the mean of the prices that a regression predicts.
            self.output_bias = keras.Variable(
                "zeros", shape=(num_classes,), dtype="float32", autocast=False, name="output_bias"
            )
        # Logits of tokens keep the mask of the tokens, so Keras losses leave out padding.
        self.supports_masking = True
        mark_built(self, (None, num_classes))

    def call(self, x: Any, dropout_seed: Any = None) -> Any:
        """Maps float [..., H] to float32 [..., C] logits; with a seed for `Dropout`, with dropout."""
        x = ops.cast(self.dropout(x, dropout_seed), "float32")
        weights = ops.cast(ops.transpose(self.output_weights), "float32")
        return ops.matmul(x, weights) + self.output_bias


def rows_at(x: Any, positions: Any) -> Any:
    """Gathers float [B, P, H] from float [B, T, H] at int32 [B, P], each in [0, T).

    A product with one-hot vectors does it, because its gradient is a product, not a scatter.
    """
    return ops.matmul(ops.one_hot(positions, ops.shape(x)[1], dtype=x.dtype), x)


def check_pooling(config: BertConfig, pooling: str, model: str = "the model") -> None:
    """Raises a Mistake if all texts would have the same vector: [CLS] is the first token, and sees no other one."""
    if pooling == "cls" and config.is_decoder:
        raise Mistake(
            "{} reads left to right (is_decoder in its config), so the vector of [CLS] is the same for all texts; "
            "choose another {pooling}, such as mean",
            model,
        )


def pool(values: Any, input_mask: Any, pooling: str) -> Any:
    """Makes one vector of the vectors of a text's tokens.

    Args:
        values: float [B, T, ..., H]; for several texts in a row [B, T, 1, H].
        input_mask: int or bool [B, T], 1 for tokens, which include [CLS] and [SEP], and 0 for padding; for S texts in a
            row [B, T, S], 1 for the tokens of each text.
        pooling: "cls", the vector of [CLS]; or "mean" or "max" over all tokens.

    Returns:
        float32 [B, ..., H]; for several texts in a row [B, S, H].
    """
    values = ops.cast(values, "float32")
    if pooling == "cls":
        return values[:, 0]
    is_token = ops.cast(input_mask, "bool")
    for _ in range(len(values.shape) - len(is_token.shape)):
        is_token = ops.expand_dims(is_token, -1)  # [B, T, ..., 1]
    if pooling == "max":
        values = ops.where(is_token, values, -np.finfo(np.float32).max)
        if keras.backend.backend() == "jax":
            # The gradient of a maximum looks for it among values that XLA may compute again, with another rounding.
            return ops.take_along_axis(values, ops.argmax(values, axis=1, keepdims=True), axis=1)[:, 0]
        return ops.max(values, axis=1)
    return ops.sum(ops.where(is_token, values, 0.0), axis=1) / ops.sum(ops.cast(is_token, "float32"), axis=1)
