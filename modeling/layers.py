"""The layers of BERT, from the bottom up: embeddings, self-attention, one encoder layer.

Every layer makes its weights in its constructor, and each weight has the name it has in the released checkpoints
(`bert/encoder/layer_0/attention/self/query/kernel`): layer names and name scopes spell it out.

There is no `training` argument. Dropout is drawn when a layer is given a `dropout_seed` and is absent without one.

The encoder works on a table with a row for each token of the batch, [B * T, H]: a product with its bias and what
follows is then one operation on TensorFlow, which it is not for [B, T, H].

Axes: B batch, T tokens, H hidden, I intermediate, N heads, D head size (H / N), S segment types.
"""

import contextlib
import contextvars
import math

import keras
from keras import ops

from bert_keras.modeling.dropout import Dropout

# Whether weights are made to be overwritten by those of a checkpoint.
_is_loading = contextvars.ContextVar("is_loading", default=False)

# Added to the score of a padding token before the softmax: finite, so a row that is all padding stays defined.
PADDING_SCORE = -10000.0


class Embeddings(keras.layers.Layer):
    """The sum of word, segment and position embeddings, normalised (paper, section 3 and figure 2).

    Release: `embedding_lookup` and `embedding_postprocessor`.
    """

    def __init__(self, config, dropout_index, name="embeddings"):
        super().__init__(name=name)
        self.num_segments = config.type_vocab_size
        self.word_embeddings = self._add_table("word_embeddings", config.vocab_size, config)
        self.token_type_embeddings = self._add_table("token_type_embeddings", config.type_vocab_size, config)
        self.position_embeddings = self._add_table("position_embeddings", config.max_position_embeddings, config)
        with keras.name_scope(name):
            self.layer_norm = layer_norm(config)
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_index)

    def _add_table(self, name, num_rows, config):
        # Not cast to the precision of the products where it is used: of the words, only the rows that occur are.
        return self.add_weight(
            name=name,
            shape=(num_rows, config.hidden_size),
            initializer=truncated_normal(config.initializer_range),
            autocast=False,
        )

    def call(self, input_ids, segment_ids, dropout_seed=None, position_ids=None):
        """Embeds pieces.

        Args:
            input_ids: int32 [B, T].
            segment_ids: int32 [B, T]; an id without a row in the table adds nothing, as in the release.
            dropout_seed: see `Dropout`.
            position_ids: int32 [B, T]; without them tokens stand where they are.

        Returns:
            float [B, T, H].
        """
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, T, H]
        # A product with one-hot rows, so that the few rows of the table have a dense gradient.
        segment_rows = ops.one_hot(segment_ids, self.num_segments, dtype=self.variable_dtype)  # [B, T, S]
        segments = ops.matmul(segment_rows, self.token_type_embeddings)  # [B, T, H]
        if position_ids is None:
            positions = self.position_embeddings[: ops.shape(input_ids)[1]]  # [T, H]
        else:
            positions = ops.take(self.position_embeddings, position_ids, axis=0)  # [B, T, H]
        return self.dropout(self.layer_norm(words + segments + positions), dropout_seed)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention without its output projection (Vaswani et al. 2017, section 3.2).

    Release: `attention_layer`.
    """

    def __init__(self, config, dropout_index, name="self"):
        super().__init__(name=name)
        self.num_heads = config.num_attention_heads
        self.head_size = config.head_size
        with keras.name_scope(name):
            self.query = dense(config.hidden_size, config.hidden_size, config, name="query")
            self.key = dense(config.hidden_size, config.hidden_size, config, name="key")
            self.value = dense(config.hidden_size, config.hidden_size, config, name="value")
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_index)
        # Else Keras would run the encoder layer twice when it is traced, to see what there is to build.
        self.built = True

    def call(self, hidden, mask_scores, dropout_seed=None):
        """Lets every token look at every token that is not padding.

        Args:
            hidden: float [B * T, H].
            mask_scores: float [B, 1, 1, T], see `padding_scores`; or [B, 1, T, T], a row for each token that looks.
            dropout_seed: see `Dropout`.

        Returns:
            float [B * T, H]: for each head the average of the values it looked at, heads side by side.
        """
        heads = (-1, ops.shape(mask_scores)[-1], self.num_heads, self.head_size)
        query = ops.reshape(self.query(hidden), heads)  # [B, T, N, D]
        key = ops.reshape(self.key(hidden), heads)  # [B, T, N, D]
        value = ops.reshape(self.value(hidden), heads)  # [B, T, N, D]
        mask_scores = ops.cast(mask_scores, self.compute_dtype)
        if keras.backend.backend() == "jax" and not self.dropout.is_active(dropout_seed):
            context = _fused_attention(query, key, value, mask_scores)  # [B, T, N, D]
        else:
            context = self._attend(query, key, value, mask_scores, dropout_seed)  # [B, T, N, D]
        return ops.reshape(context, ops.shape(hidden))  # [B * T, H]

    def _attend(self, query, key, value, mask_scores, dropout_seed):
        query = ops.transpose(query, (0, 2, 1, 3))  # [B, N, T, D]
        key = ops.transpose(key, (0, 2, 3, 1))  # [B, N, D, T]
        # In the precision of the products: TensorFlow makes one operation of these three.
        scores = ops.matmul(query, key) / math.sqrt(self.head_size) + mask_scores  # [B, N, T, T]
        # The softmax is taken in float32 whatever the precision of the products.
        probabilities = ops.cast(ops.softmax(ops.cast(scores, "float32")), self.compute_dtype)
        value = ops.transpose(value, (0, 2, 1, 3))  # [B, N, T, D]
        context = ops.matmul(self.dropout(probabilities, dropout_seed), value)  # [B, N, T, D]
        return ops.transpose(context, (0, 2, 1, 3))


class AddAndNorm(keras.layers.Layer):
    """The end of each sub-layer: project back to H, drop, add what came in, normalise (post-norm)."""

    def __init__(self, input_size, config, dropout_index, name="output"):
        super().__init__(name=name)
        with keras.name_scope(name):
            self.dense = dense(input_size, config.hidden_size, config)
            self.layer_norm = layer_norm(config)
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_index)
        self.built = True  # as above

    def call(self, x, residual, dropout_seed=None):
        return self.layer_norm(residual + self.dropout(self.dense(x), dropout_seed))


class EncoderLayer(keras.layers.Layer):
    """One layer of the encoder: self-attention, then a feed-forward network on each token.

    Release: the body of the loop in `transformer_model`.
    """

    NUM_DROPOUTS = 3

    def __init__(self, config, first_dropout_index, name):
        super().__init__(name=name)
        self.activation = activation(config.hidden_act)
        with keras.name_scope(name):
            with keras.name_scope("attention"):
                self.self_attention = SelfAttention(config, first_dropout_index)
                self.attention_output = AddAndNorm(config.hidden_size, config, first_dropout_index + 1)
            with keras.name_scope("intermediate"):
                self.intermediate = dense(config.hidden_size, config.intermediate_size, config)
            self.feed_forward_output = AddAndNorm(config.intermediate_size, config, first_dropout_index + 2)

    def call(self, hidden, mask_scores, dropout_seed=None):
        """Transforms float [B * T, H] to float [B * T, H]; the arguments are those of `SelfAttention`."""
        context = self.self_attention(hidden, mask_scores, dropout_seed=dropout_seed)  # [B * T, H]
        attended = self.attention_output(context, hidden, dropout_seed=dropout_seed)  # [B * T, H]
        inner = self._activate(self.intermediate(attended), dropout_seed is not None)  # [B * T, I]
        return self.feed_forward_output(inner, attended, dropout_seed=dropout_seed)  # [B * T, H]

    def _activate(self, x, is_training):
        # In training in float32: outside XLA, the small operations of a gelu and its gradient take half the time so.
        # Else in the precision of the products, with which TensorFlow makes it one operation. It finds the parts of a
        # gelu only if its operations come after "dense" in the alphabet.
        with keras.name_scope("gelu"):
            return ops.cast(self.activation(ops.cast(x, "float32")), x.dtype) if is_training else self.activation(x)


def _fused_attention(query, key, value, mask_scores):
    """Does what `SelfAttention` does in JAX's one operation, which on a GPU that can never holds all scores at once."""
    num_tokens = ops.shape(query)[1]
    # cuDNN takes a row of scores for each token that looks.
    rows = ops.broadcast_to(mask_scores, (*ops.shape(mask_scores)[:2], num_tokens, num_tokens))
    return ops.dot_product_attention(query, key, value, bias=rows)


def padding_scores(input_mask):
    """Makes the scores that hide padding: 0 for a token, -10000 for padding.

    Args:
        input_mask: int32 [B, T], 1 for tokens and 0 for padding.

    Returns:
        float32 [B, 1, 1, T], to be added to attention scores [B, N, T, T].
    """
    scores = (1.0 - ops.cast(input_mask, "float32")) * PADDING_SCORE  # [B, T]
    return ops.expand_dims(ops.expand_dims(scores, 1), 1)


def other_sequence_scores(sequence_ids):
    """Makes the scores that hide the sequences of a packed row from each other: 0 within one, -10000 between two.

    Args:
        sequence_ids: int32 [B, T], a number for each sequence of a row; padding is one more.

    Returns:
        float32 [B, 1, T, T], to be added to attention scores [B, N, T, T].
    """
    is_other = ops.not_equal(ops.expand_dims(sequence_ids, 2), ops.expand_dims(sequence_ids, 1))  # [B, T, T]
    return ops.expand_dims(ops.cast(is_other, "float32") * PADDING_SCORE, 1)


def rows_at(x, positions):
    """Picks vectors out of sequences, by a product with one-hot rows: its gradient is one more instead of a scatter.

    Args:
        x: float [B, T, H].
        positions: int32 [B, P], each in [0, T).

    Returns:
        float [B, P, H].
    """
    return ops.matmul(ops.one_hot(positions, ops.shape(x)[1], dtype=x.dtype), x)


def activation(name):
    """Returns the function of that name in `HIDDEN_ACTIVATIONS`; config.py has checked the name."""
    return {
        "gelu": lambda x: ops.gelu(x, approximate=True),
        "gelu_erf": lambda x: 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0))),
        "relu": ops.relu,
        "tanh": ops.tanh,
        "linear": lambda x: x,
    }[name]


def dense(input_size, output_size, config, name="dense"):
    """Makes a dense layer with its weights: kernel [input, output] and bias [output]."""
    layer = keras.layers.Dense(output_size, kernel_initializer=truncated_normal(config.initializer_range), name=name)
    layer.build((None, input_size))
    return layer


def layer_norm(config):
    """Makes a layer normalisation over the last axis with its weights gamma and beta [H]."""
    layer = keras.layers.LayerNormalization(epsilon=config.layer_norm_eps, name="LayerNorm")
    layer.build((None, config.hidden_size))
    return layer


def truncated_normal(stddev):
    """Makes an initialiser that redraws what falls beyond two standard deviations.

    One for each weight: a Keras initialiser that is used twice gives the same numbers twice.
    """
    return keras.initializers.Zeros() if _is_loading.get() else keras.initializers.TruncatedNormal(stddev=stddev)


@contextlib.contextmanager
def weights_to_load():
    """Makes all weights 0 within the block, for a model whose weights a checkpoint then gives.

    Random numbers for BERT-Base take seconds. Only this thread is affected.
    """
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)
