"""The layers of BERT, from the bottom up: embeddings, self-attention, one encoder layer.

Every layer makes its weights in its constructor, and each weight has the name it has in the released checkpoints
(`bert/encoder/layer_0/attention/self/query/kernel`): layer names and name scopes spell it out.

There is no `training` argument. Dropout is drawn when a layer is given a `dropout_seed` and is absent without one.

Axes: B batch, T tokens, H hidden, I intermediate, N heads, D head size (H / N), S segment types.
"""

import math

import keras
from keras import ops

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
        return self.add_weight(
            name=name, shape=(num_rows, config.hidden_size), initializer=truncated_normal(config.initializer_range)
        )

    def call(self, input_ids, segment_ids, dropout_seed=None):
        """Embeds pieces.

        Args:
            input_ids: int32 [B, T].
            segment_ids: int32 [B, T]; an id without a row in the table adds nothing, as in the release.
            dropout_seed: see `Dropout`.

        Returns:
            float [B, T, H].
        """
        num_tokens = ops.shape(input_ids)[1]
        words = ops.take(self.word_embeddings, input_ids, axis=0)  # [B, T, H]
        # A product with one-hot rows, so that the few rows of the table have a dense gradient.
        segment_rows = ops.one_hot(segment_ids, self.num_segments, dtype=self.compute_dtype)  # [B, T, S]
        segments = ops.matmul(segment_rows, self.token_type_embeddings)  # [B, T, H]
        positions = self.position_embeddings[:num_tokens]  # [T, H]
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

    def call(self, hidden, mask_scores, dropout_seed=None):
        """Lets every token look at every token that is not padding.

        Args:
            hidden: float [B, T, H].
            mask_scores: float [B, 1, 1, T], see `padding_scores`.
            dropout_seed: see `Dropout`.

        Returns:
            float [B, T, H]: for each head the average of the values it looked at, heads side by side.
        """
        query = self._split_heads(self.query(hidden))  # [B, N, T, D]
        key = self._split_heads(self.key(hidden))  # [B, N, T, D]
        value = self._split_heads(self.value(hidden))  # [B, N, T, D]
        scores = ops.matmul(query, ops.transpose(key, (0, 1, 3, 2)))  # [B, N, T, T]
        # The softmax is taken in float32 whatever the precision of the products.
        scores = ops.cast(scores, "float32") / math.sqrt(self.head_size) + ops.cast(mask_scores, "float32")
        probabilities = ops.cast(ops.softmax(scores), self.compute_dtype)  # [B, N, T, T]
        context = ops.matmul(self.dropout(probabilities, dropout_seed), value)  # [B, N, T, D]
        return ops.reshape(ops.transpose(context, (0, 2, 1, 3)), ops.shape(hidden))  # [B, T, H]

    def _split_heads(self, x):
        num_tokens = ops.shape(x)[1]
        x = ops.reshape(x, (-1, num_tokens, self.num_heads, self.head_size))  # [B, T, N, D]
        return ops.transpose(x, (0, 2, 1, 3))  # [B, N, T, D]


class AddAndNorm(keras.layers.Layer):
    """The end of each sub-layer: project back to H, drop, add what came in, normalise (post-norm)."""

    def __init__(self, input_size, config, dropout_index, name="output"):
        super().__init__(name=name)
        with keras.name_scope(name):
            self.dense = dense(input_size, config.hidden_size, config)
            self.layer_norm = layer_norm(config)
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_index)

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
        """Transforms float [B, T, H] to float [B, T, H]; the arguments are those of `SelfAttention`."""
        context = self.self_attention(hidden, mask_scores, dropout_seed=dropout_seed)  # [B, T, H]
        attended = self.attention_output(context, hidden, dropout_seed=dropout_seed)  # [B, T, H]
        inner = self.activation(self.intermediate(attended))  # [B, T, I]
        return self.feed_forward_output(inner, attended, dropout_seed=dropout_seed)  # [B, T, H]


class Dropout:
    """Dropout whose mask is a pure function of a seed and of the place in the network.

    Zeroes each element with probability `rate` and divides the rest by `1 - rate`. The same seed gives the same mask
    on every run (on the same kind of device), so there is no random state to save, and replicas that are given
    different seeds draw different masks.

    Args:
        rate: probability in [0, 1).
        index: the place in the network; no two of one network share it.
    """

    def __init__(self, rate, index):
        self.rate = rate
        self.index = index

    def __call__(self, x, seed):
        """Drops elements of a float tensor.

        Args:
            x: float, any shape.
            seed: integer [2] in the backend's seed type (int32; uint32 on JAX), or None for no dropout. The mask is
                drawn with `seed + [0, index]`: seeds that are to give different masks everywhere in the network differ
                in their first element, or in the second by at least the number of dropouts in the network.
        """
        if seed is None or self.rate == 0:
            return x
        seed = ops.convert_to_tensor(seed)
        seed = FixedSeed(seed + ops.cast([0, self.index], seed.dtype))
        # The mask of keras.random.dropout, applied in half its time on TensorFlow; PyTorch's wants a seed with a state.
        is_kept = keras.random.uniform(ops.shape(x), seed=seed) >= self.rate
        return x * (ops.cast(is_kept, x.dtype) / (1.0 - self.rate))


class FixedSeed(keras.random.SeedGenerator):
    """Hands out the seed it was given: how a tensor is used as seed of a Keras random function."""

    def __init__(self, seed):
        # The parent's constructor would make a variable to hold a state; there is no state here.
        self.seed = seed

    def next(self, ordered=True):
        return self.seed


def padding_scores(input_mask):
    """Makes the scores that hide padding: 0 for a token, -10000 for padding.

    Args:
        input_mask: int32 [B, T], 1 for tokens and 0 for padding.

    Returns:
        float32 [B, 1, 1, T], to be added to attention scores [B, N, T, T].
    """
    scores = (1.0 - ops.cast(input_mask, "float32")) * PADDING_SCORE  # [B, T]
    return ops.expand_dims(ops.expand_dims(scores, 1), 1)


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
    return keras.initializers.TruncatedNormal(stddev=stddev)
