"""The layers of BERT, from the bottom up: embeddings, self-attention, one encoder layer.

Every layer makes its weights in its constructor. Layer names and name scopes give each weight its name in the original
checkpoints, such as `bert/encoder/layer_0/attention/self/query/kernel`.

The layers have no `training` argument. A call with a `dropout_seed` uses dropout; a call without one does not. The
models draw a seed if Keras calls them for training.

The encoder works on [B * T, H], because TensorFlow fuses a product with its bias and activation for this shape, but not
for [B, T, H].

Axes: B batch, T tokens, E embedding, H hidden, I intermediate, N heads, D head size (H / N), S segment types.
"""

import contextlib
import contextvars
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import keras
from keras import ops

from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.dropout import Dropout
from bert_keras.modeling.fused import LayerNorm, fused_dense, is_fused

# True while a model is made whose weights a checkpoint will overwrite.
_is_loading = contextvars.ContextVar("is_loading", default=False)
# Draws the seeds of the initial weights; None: Keras draws them from the global state of `random`.
_seeds: contextvars.ContextVar[random.Random | None] = contextvars.ContextVar("seeds", default=None)

# Added to the score of a padding token before the softmax. It is finite, so a row of padding only stays defined.
PADDING_SCORE = -10000.0


class Embeddings(keras.layers.Layer):
    """The normalised sum of word, segment and position embeddings (paper, section 3 and figure 2).

    With an `embedding_size` E in the config, the embeddings have this width, and a projection maps the sum to H.
    `tied` are embeddings of the same width, whose tables and normalisation take the place of new ones.
    Source: `embedding_lookup` and `embedding_postprocessor` of the original modeling.py.
    """

    def __init__(
        self, config: BertConfig, dropout_index: int, name: str = "embeddings", tied: "Embeddings | None" = None
    ) -> None:
        super().__init__(name=name)
        self.num_segments = config.type_vocab_size
        self.word_embeddings = self._table("word_embeddings", config.vocab_size, config, tied)
        if self.num_segments:
            self.token_type_embeddings = self._table("token_type_embeddings", config.type_vocab_size, config, tied)
        self.position_embeddings = self._table("position_embeddings", config.max_position_embeddings, config, tied)
        with keras.name_scope(name):
            self.layer_norm = tied.layer_norm if tied else layer_norm(config, config.embedding_width)
            self.projection = None
            if config.embedding_size is not None:
                self.projection = dense(config.embedding_size, config.hidden_size, config, name="projection")
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_index)
        mark_built(self, (None, None, config.hidden_size))

    def _table(self, name: str, num_rows: int, config: BertConfig, tied: "Embeddings | None") -> keras.Variable:
        if tied is not None:
            return getattr(tied, name)
        # Autocast would cast the whole table; without it, only the embeddings of the batch are cast.
        return self.add_weight(
            name=name,
            shape=(num_rows, config.embedding_width),
            initializer=truncated_normal(config.initializer_range),
            autocast=False,
        )

    def call(
        self,
        input_ids: Any,
        segment_ids: Any,
        dropout_seed: Any = None,
        position_ids: Any = None,
        word_vectors: Any = None,
    ) -> Any:
        """Maps ids, int32 [B, T], to float [B, T, H]; without position_ids, the positions are 0, 1, 2, ...

        A segment id beyond the table adds nothing, as in the original BERT; but the only row of a table belongs to all
        tokens, as in other libraries. Word vectors, float [B, T, E], replace the rows of the table of words.
        """
        summed = ops.take(self.word_embeddings, input_ids, axis=0) if word_vectors is None else word_vectors
        if self.num_segments == 1:
            summed = summed + self.token_type_embeddings  # [B, T, E] + [1, E]
        elif self.num_segments:
            # A product with one-hot vectors gives the small table a dense gradient.
            segment_rows = ops.one_hot(segment_ids, self.num_segments, dtype=self.variable_dtype)  # [B, T, S]
            summed = summed + ops.matmul(segment_rows, self.token_type_embeddings)  # [B, T, E]
        num_tokens = ops.shape(input_ids)[1]
        is_known = isinstance(num_tokens, int) and num_tokens <= self.position_embeddings.shape[0]
        if position_ids is None and keras.backend.backend() != "tensorflow" and not is_known:
            # While Keras infers shapes for an unknown T, T is a symbol on JAX, and may exceed the table on PyTorch.
            positions = ops.take(self.position_embeddings, ops.arange(num_tokens, dtype="int32"), axis=0)  # [T, E]
        elif position_ids is None:
            positions = self.position_embeddings[:num_tokens]  # [T, E]
        else:
            positions = ops.take(self.position_embeddings, position_ids, axis=0)  # [B, T, E]
        embedded = self.dropout(self.layer_norm(summed + positions), dropout_seed)
        return embedded if self.projection is None else self.projection(embedded)


class SelfAttention(keras.layers.Layer):
    """Multi-head self-attention without its output projection (Vaswani et al. 2017, section 3.2).

    Source: `attention_layer` of the original modeling.py.
    """

    def __init__(self, config: BertConfig, dropout_index: int, name: str = "self") -> None:
        super().__init__(name=name)
        self.num_heads = config.num_attention_heads
        self.head_size = config.head_size
        with keras.name_scope(name):
            self.query = dense(config.hidden_size, config.hidden_size, config, name="query")
            self.key = dense(config.hidden_size, config.hidden_size, config, name="key")
            self.value = dense(config.hidden_size, config.hidden_size, config, name="value")
        self.dropout = Dropout(config.attention_probs_dropout_prob, dropout_index)
        # Without this, Keras runs the encoder layer twice while tracing, to find what to build.
        self.built = True

    def call(self, hidden: Any, mask_scores: Any, dropout_seed: Any = None) -> Any:
        """Maps float [B * T, H] to float [B * T, H]: weighted averages of the values, the heads concatenated.

        `padding_scores` or `other_sequence_scores` make the mask scores, float [B, 1, 1, T] or [B, 1, T, T], which are
        added to the attention scores.
        """
        layers = (self.query, self.key, self.value)
        query, key, value = (self._heads(fused_dense(layer, hidden), mask_scores) for layer in layers)
        mask_scores = ops.cast(mask_scores, self.compute_dtype)
        if keras.backend.backend() == "jax" and not self.dropout.is_active(dropout_seed):
            # One operation: a GPU that supports it never holds all scores at once. cuDNN needs them as [B, 1, T, T].
            num_tokens = ops.shape(mask_scores)[-1]
            rows = ops.broadcast_to(mask_scores, (*ops.shape(mask_scores)[:2], num_tokens, num_tokens))
            # On a TPU, Keras 3.15 takes a kernel that ignores the bias and hides later tokens.
            is_on_gpu = keras.distribution.list_devices()[0].startswith("gpu")
            context = ops.dot_product_attention(
                query, key, value, bias=rows, flash_attention=None if is_on_gpu else False
            )  # [B, T, N, D]
        else:
            context = self._attend(query, key, value, mask_scores, dropout_seed)  # [B, T, N, D]
        return ops.reshape(context, ops.shape(hidden))  # [B * T, H]

    def probabilities(self, hidden: Any, mask_scores: Any) -> Any:
        """Maps float [B * T, H] to float32 [B, N, T, T]: the weight of each value in a token's average, by head."""
        query, key = (self._heads(layer(hidden), mask_scores) for layer in (self.query, self.key))  # [B, T, N, D]
        return self._probabilities(query, key, ops.cast(mask_scores, self.compute_dtype))

    def _heads(self, x: Any, mask_scores: Any) -> Any:
        return ops.reshape(x, (-1, ops.shape(mask_scores)[-1], self.num_heads, self.head_size))  # [B, T, N, D]

    def _probabilities(self, query: Any, key: Any, mask_scores: Any) -> Any:
        query = ops.transpose(query, (0, 2, 1, 3))  # [B, N, T, D]
        key = ops.transpose(key, (0, 2, 3, 1))  # [B, N, D, T]
        # In compute_dtype, because TensorFlow fuses these three operations.
        scores = ops.matmul(query, key) / math.sqrt(self.head_size) + mask_scores  # [B, N, T, T]
        # Computed in float32 for every compute_dtype; oneDNN does this by itself.
        return ops.softmax(scores if is_fused() else ops.cast(scores, "float32"))

    def _attend(self, query: Any, key: Any, value: Any, mask_scores: Any, dropout_seed: Any) -> Any:
        probabilities = ops.cast(self._probabilities(query, key, mask_scores), self.compute_dtype)  # [B, N, T, T]
        value = ops.transpose(value, (0, 2, 1, 3))  # [B, N, T, D]
        context = ops.matmul(self.dropout(probabilities, dropout_seed), value)  # [B, N, T, D]
        return ops.transpose(context, (0, 2, 1, 3))


class AddAndNorm(keras.layers.Layer):
    """The end of each sub-layer: project to H, apply dropout, add the residual, normalise (post-norm)."""

    def __init__(self, input_size: int, config: BertConfig, dropout_index: int, name: str = "output") -> None:
        super().__init__(name=name)
        with keras.name_scope(name):
            self.dense = dense(input_size, config.hidden_size, config)
            self.layer_norm = layer_norm(config)
        self.dropout = Dropout(config.hidden_dropout_prob, dropout_index)
        self.built = True  # as in SelfAttention

    def call(self, x: Any, residual: Any, dropout_seed: Any = None) -> Any:
        if is_fused():
            return self.layer_norm(fused_dense(self.dense, x, residual=residual))
        return self.layer_norm(residual + self.dropout(self.dense(x), dropout_seed))


class EncoderLayer(keras.layers.Layer):
    """One layer of the encoder: self-attention, then a feed-forward network on each token.

    Source: loop body of `transformer_model` of the original modeling.py.
    """

    NUM_DROPOUTS = 3

    def __init__(self, config: BertConfig, first_dropout_index: int, name: str) -> None:
        super().__init__(name=name)
        self.activation_name, self.activation = config.hidden_act, activation(config.hidden_act)
        with keras.name_scope(name):
            with keras.name_scope("attention"):
                self.self_attention = SelfAttention(config, first_dropout_index)
                self.attention_output = AddAndNorm(config.hidden_size, config, first_dropout_index + 1)
            with keras.name_scope("intermediate"):
                self.intermediate = dense(config.hidden_size, config.intermediate_size, config)
            self.feed_forward_output = AddAndNorm(config.intermediate_size, config, first_dropout_index + 2)
        mark_built(self, (None, config.hidden_size))

    def call(self, hidden: Any, mask_scores: Any, dropout_seed: Any = None) -> Any:
        """Maps float [B * T, H] to float [B * T, H]; the arguments are those of `SelfAttention`."""
        context = self.self_attention(hidden, mask_scores, dropout_seed=dropout_seed)  # [B * T, H]
        attended = self.attention_output(context, hidden, dropout_seed=dropout_seed)  # [B * T, H]
        inner = self._inner(attended, dropout_seed is not None)  # [B * T, I]
        return self.feed_forward_output(inner, attended, dropout_seed=dropout_seed)  # [B * T, H]

    def _inner(self, attended: Any, is_training: bool) -> Any:
        if is_fused():
            return fused_dense(self.intermediate, attended, self.activation_name)
        x = self.intermediate(attended)
        # Training uses float32: without XLA, the operations of a gelu and its gradient then take half the time.
        # Prediction uses compute_dtype, because TensorFlow then fuses the gelu. TensorFlow finds the operations only if
        # their names come after "intermediate/dense" in the alphabet.
        with keras.name_scope("intermediate_gelu"):
            return ops.cast(self.activation(ops.cast(x, "float32")), x.dtype) if is_training else self.activation(x)


def padding_scores(input_mask: Any) -> Any:
    """Maps int32 [B, T], 1 for tokens and 0 for padding, to attention scores float32 [B, 1, 1, T] that hide padding."""
    scores = (1.0 - ops.cast(input_mask, "float32")) * PADDING_SCORE  # [B, T]
    return ops.expand_dims(ops.expand_dims(scores, 1), 1)


def activation(name: str) -> Callable[[Any], Any]:
    """Returns the activation function of a name in `config.POOLER_ACTIVATIONS`."""
    return {
        "gelu": lambda x: ops.gelu(x, approximate=True),
        "gelu_erf": lambda x: 0.5 * x * (1.0 + ops.erf(x / math.sqrt(2.0))),
        "relu": ops.relu,
        "tanh": ops.tanh,
        "linear": lambda x: x,
        "unit_length": normalize,
    }[name]


def normalize(vectors: Any) -> Any:
    """Returns float [..., H] vectors with the length 1, computed in float32; a vector of zeros stays one."""
    x = ops.cast(vectors, "float32")
    return ops.cast(x / ops.maximum(ops.sqrt(ops.sum(ops.square(x), axis=-1, keepdims=True)), 1e-12), vectors.dtype)


def dense(input_size: int, output_size: int, config: BertConfig, name: str = "dense") -> keras.layers.Dense:
    """Makes a dense layer with its weights: kernel [input, output] and bias [output]."""
    layer = keras.layers.Dense(output_size, kernel_initializer=truncated_normal(config.initializer_range), name=name)
    layer.build((None, input_size))
    return layer


def layer_norm(config: BertConfig, width: int | None = None, name: str = "LayerNorm") -> LayerNorm:
    """Makes a layer normalisation over the last axis with its weights gamma and beta [width]; None: [H]."""
    layer = LayerNorm(epsilon=config.layer_norm_eps, name=name)
    layer.build((None, width or config.hidden_size))
    return layer


def mark_built(layer: keras.layers.Layer, output_shape: tuple[int | None, ...]) -> None:
    """Tells Keras that a layer has all its weights, and the shape of its output, which a summary shows.

    The layer then takes no further weights or layers. Do not use it for a model, because Keras would export the model
    with float inputs of this shape.
    """
    layer.output_shape = output_shape
    layer.build(output_shape)


def truncated_normal(stddev: float) -> keras.initializers.Initializer:
    """Makes an initialiser that redraws numbers beyond two standard deviations, or zeros within `weights_to_load`.

    Make one for each weight: a Keras initialiser returns the same numbers at every use.
    """
    return (
        keras.initializers.Zeros()
        if _is_loading.get()
        else keras.initializers.TruncatedNormal(0.0, stddev, next_seed())
    )


@contextlib.contextmanager
def weights_to_load() -> Iterator[None]:
    """Initialises all weights with 0 within the block, for a model that you then load from a checkpoint.

    This saves seconds for BERT-Base. It affects the current thread only.
    """
    token = _is_loading.set(True)
    try:
        yield
    finally:
        _is_loading.reset(token)


@contextlib.contextmanager
def initial_seed(seed: int) -> Iterator[None]:
    """Makes all initial weights of the networks made within the block functions of the seed.

    It neither reads nor changes a global random state, so other threads cannot disturb it. The weights are those of a
    network made after `keras.utils.set_random_seed(seed)`. It affects the current thread only.
    """
    token = _seeds.set(random.Random(seed))
    try:
        yield
    finally:
        _seeds.reset(token)


def next_seed() -> int | None:
    """Returns the seed of the next initialiser within `initial_seed`, and None elsewhere: Keras then draws one."""
    seeds = _seeds.get()
    return seeds and seeds.randint(1, 10**9)  # the range from which Keras draws


def is_seeded() -> bool:
    """Returns whether the code runs within `initial_seed`."""
    return _seeds.get() is not None
