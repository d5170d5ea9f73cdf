"""What stands on top of the encoder: the two heads of pre-training.

Axes: B batch, T tokens, H hidden, P predictions, V vocabulary.
"""

import keras
from keras import ops

from modeling.layers import activation, dense, layer_norm, truncated_normal


class MaskedLmHead(keras.layers.Layer):
    """Predicts the pieces that were masked (paper, section 3.1, task 1).

    The vectors at the masked positions are picked out before the projection to the vocabulary, which is by far the
    largest product of a small model. The projection is the word-embedding table, so it has no kernel of its own.

    Release: `get_masked_lm_output` of run_pretraining.py.
    """

    def __init__(self, config, name="predictions"):
        super().__init__(name=name)
        self.activation = activation(config.hidden_act)
        with keras.name_scope("cls"):
            with keras.name_scope(name), keras.name_scope("transform"):
                self.dense = dense(config.hidden_size, config.hidden_size, config)
                self.layer_norm = layer_norm(config)
            self.output_bias = self.add_weight(name="output_bias", shape=(config.vocab_size,), initializer="zeros")

    def call(self, sequence_output, positions, embedding_table):
        """Scores every piece of the vocabulary at the masked positions.

        Args:
            sequence_output: float [B, T, H].
            positions: int32 [B, P], each in [0, T).
            embedding_table: float [V, H], the word embeddings of the encoder.

        Returns:
            float32 [B, P, V] logits.
        """
        # Picked with one-hot rows, whose gradient is one more product instead of a scatter.
        rows = ops.one_hot(positions, ops.shape(sequence_output)[1], dtype=self.compute_dtype)  # [B, P, T]
        masked = ops.matmul(rows, sequence_output)  # [B, P, H]
        transformed = self.layer_norm(self.activation(self.dense(masked)))  # [B, P, H]
        logits = ops.matmul(transformed, ops.transpose(embedding_table)) + self.output_bias  # [B, P, V]
        return ops.cast(logits, "float32")


class NextSentenceHead(keras.layers.Layer):
    """Predicts whether the second segment follows the first (paper, section 3.1, task 2).

    Class 0 is "follows", class 1 is "taken from elsewhere".

    Release: `get_next_sentence_output` of run_pretraining.py.
    """

    def __init__(self, config, name="seq_relationship"):
        super().__init__(name=name)
        with keras.name_scope("cls"):
            # Output-major, [classes, H], as the release stores it.
            self.output_weights = self.add_weight(
                name="output_weights",
                shape=(2, config.hidden_size),
                initializer=truncated_normal(config.initializer_range),
            )
            self.output_bias = self.add_weight(name="output_bias", shape=(2,), initializer="zeros")

    def call(self, pooled_output):
        """Maps pooled_output, float [B, H], to float32 [B, 2] logits."""
        logits = ops.matmul(pooled_output, ops.transpose(self.output_weights)) + self.output_bias  # [B, 2]
        return ops.cast(logits, "float32")
