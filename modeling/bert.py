"""BERT: maps token ids to a vector for each token and a vector for the whole sequence.

With `is_decoder` in the config, the model reads left to right: a token sees only itself and the tokens before it.

A packed row of a batch holds several sequences. They do not see each other, and each begins at position 0.

Axes: B batch, T tokens, H hidden, N heads, S sequences of a packed row.
"""

from typing import Any, Self

import keras
from keras import ops

from bert_keras.modeling.base import BaseModel
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import pool, rows_at
from bert_keras.modeling.layers import (
    PADDING_SCORE,
    Embeddings,
    EncoderLayer,
    activation,
    dense,
    padding_scores,
)
from bert_keras.modeling.number_format import dtype_policy


@keras.saving.register_keras_serializable(package="bert_keras")
class BertModel(BaseModel):
    """The encoder of "BERT: Pre-training of Deep Bidirectional Transformers" (Devlin et al. 2018, section 3).

    The constructor makes all weights, so you can load them before the first call. Source: `BertModel` of the original.

    Args:
        config: BertConfig.
        return_all_encoder_layers: whether the outputs also have "embedding_output" and "all_encoder_layers".
        name: of the model; two encoders in one model need different names.
        tied_embeddings: the embeddings of another encoder, to share their tables; see `Embeddings`.
        **kwargs: see `BaseModel`.

    Attributes:
        return_all_encoder_layers: bool; you can change it.
        is_recomputed: bool, False by default. If True, training stores only the input of each encoder layer and
            computes the other activations again for the gradients. The gradients are the same. This saves memory for
            long sequences and large batches, and costs time.
    """

    uses_pooler = True

    def __init__(
        self,
        config: BertConfig,
        return_all_encoder_layers: bool = False,
        name: str = "bert",
        tied_embeddings: Embeddings | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(config, name=name, **kwargs)
        self.return_all_encoder_layers = return_all_encoder_layers
        self.is_recomputed = False
        self.encoder_layers = []
        with dtype_policy(self.dtype_policy), keras.name_scope(name):
            self.embeddings = Embeddings(config, dropout_index=0, tied=tied_embeddings)
            with keras.name_scope("encoder"):
                for i in range(config.num_layers_of_weights):
                    first_dropout_index = 1 + i * EncoderLayer.NUM_DROPOUTS
                    self.encoder_layers.append(EncoderLayer(config, first_dropout_index, name=f"layer_{i}"))
            if config.has_shared_layers:
                self.encoder_layers *= config.num_hidden_layers  # the same layer at every depth
            with keras.name_scope("pooler"):
                self.pooler = dense(config.hidden_size, config.hidden_size, config)
            self.pooler_activation = activation(config.pooler_act)
        self._finish()

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"return_all_encoder_layers": self.return_all_encoder_layers}

    @property
    def embedding_table(self) -> keras.Variable:
        """The word embeddings, float [V, H]."""
        return self.embeddings.word_embeddings

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Encodes a batch of sequences.

        Args:
            features: dict of the inputs. Call the model as `bert(input_ids, input_mask, segment_ids)` or with a dict,
                see `BaseModel.__call__`. Further inputs are for packed rows: int32 [B, T] "sequence_ids", the number of
                each token's sequence; int32 [B, T] "position_ids", its position in that sequence; and int32 [B, S]
                "cls_positions", the position in the row where each sequence begins. A token then sees only tokens with
                its number. Padding has a separate number, and input_mask is ignored. Only this method, not a call of
                the model, takes float [B, T, E] "word_vectors" for the word embeddings, for gradients.
            dropout_seed: int32 [2] (uint32 on JAX) for dropout from this seed, whatever `training` is.
            training: bool; True: dropout from a new seed at each call, unless there is a dropout_seed. Keras sets it in
                `fit`. None or False: no dropout.

        Returns:
            dict of "sequence_output" float [B, T, H], the last layer; "pooled_output" float [B, H] from the first
            token, or [B, S, H] from the tokens at `cls_positions`. If the config has `is_decoder`, it comes from the
            last token of each sequence, because the first one sees only itself; with another `pooling` in the config,
            from all tokens of the sequence. With return_all_encoder_layers also
            "embedding_output" float [B, T, H], and "all_encoder_layers", a list of L float [B, T, H].
        """
        states, _ = self._hidden_states(features, self._dropout_seed(dropout_seed, training))
        shape = (*ops.shape(features["input_ids"]), self.config.hidden_size)
        states = [ops.reshape(hidden, shape) for hidden in (states if self.return_all_encoder_layers else states[-1:])]
        outputs = {
            "sequence_output": states[-1],
            # tanh for every hidden_act, as in the original BERT, unless the config has another pooler_act
            "pooled_output": self.pooler_activation(self.pooler(self._pooled_tokens(states[-1], features))),
        }
        if self.return_all_encoder_layers:
            outputs |= {"embedding_output": states[0], "all_encoder_layers": states[1:]}
        return outputs

    def compute_mask(self, inputs: dict[str, Any], previous_mask: Any = None) -> dict[str, Any] | None:
        """Returns the Keras mask of each output: bool [B, T] from input_mask for outputs with a token axis, or None."""
        if "input_mask" not in inputs or "sequence_ids" in inputs:
            return None
        is_token = ops.cast(inputs["input_mask"], "bool")
        masks = {"sequence_output": is_token, "pooled_output": None}
        if self.return_all_encoder_layers:
            masks |= {"embedding_output": is_token, "all_encoder_layers": [is_token] * len(self.encoder_layers)}
        return masks

    def attention_probabilities(self, input_ids: Any, input_mask: Any = None, segment_ids: Any = None) -> list[Any]:
        """Computes the share of each token (last axis) in each token's attention, for analyses and pictures.

        The arguments are those of a call. Returns a list of L float32 [B, N, T, T], for each layer and head; the last
        axis sums to 1.
        """
        features = self._features(input_ids, {"input_mask": input_mask, "segment_ids": segment_ids})
        states, mask_scores = self._hidden_states(
            {name: ops.convert_to_tensor(x) for name, x in features.items()}, None
        )
        return [
            layer.self_attention.probabilities(hidden, mask_scores)
            for layer, hidden in zip(self.encoder_layers, states[:-1], strict=True)
        ]

    def mask_scores(self, features: dict[str, Any]) -> Any:
        """Returns the numbers that hide tokens from others, float32 [B, 1, 1, T] or [B, 1, T, T], for `SelfAttention`.

        `features` are those of `call`, of which it reads "input_ids", "input_mask" and "sequence_ids".
        """
        input_ids = features["input_ids"]
        if "sequence_ids" in features:
            scores = other_sequence_scores(features["sequence_ids"])
        else:
            scores = padding_scores(_input_mask(features))
        return scores + later_token_scores(ops.shape(input_ids)[1]) if self.config.is_decoder else scores

    def _pooled_tokens(self, sequence_output: Any, features: dict[str, Any]) -> Any:
        """Returns the vectors that the pooler reads: float [B, H], or [B, S, H] of packed rows."""
        positions = features.get("cls_positions")  # [B, S]
        if self.config.pooling != "cls":
            if positions is None:
                return pool(sequence_output, _input_mask(features), self.config.pooling)
            is_own = ops.swapaxes(_tokens_of_sequences(positions, features), 1, 2)  # [B, T, S]
            return pool(ops.expand_dims(sequence_output, 2), is_own, self.config.pooling)
        if self.config.is_decoder:
            return self._last_tokens(sequence_output, positions, features)
        return sequence_output[:, 0] if positions is None else rows_at(sequence_output, positions)

    def _last_tokens(self, sequence_output: Any, positions: Any, features: dict[str, Any]) -> Any:
        if positions is None:
            mask = ops.cast(_input_mask(features), "int32")
            return rows_at(sequence_output, ops.expand_dims(last_positions(mask), 1))[:, 0]
        is_own = _tokens_of_sequences(positions, features)  # [B, S, T]
        return rows_at(sequence_output, last_positions(ops.cast(is_own, "int32")))

    def _encoder(self) -> Self:
        return self

    def _hidden_states(self, features: dict[str, Any], dropout_seed: Any) -> tuple[list[Any], Any]:
        """Returns the embeddings and the output of each layer, float [B * T, H], and the scores of the mask."""
        input_ids, mask_scores = features["input_ids"], self.mask_scores(features)
        segment_ids = features["segment_ids"] if "segment_ids" in features else ops.zeros_like(input_ids)
        others = {name: features.get(name) for name in ("position_ids", "word_vectors")}
        embedded = self.embeddings(input_ids, segment_ids, dropout_seed, **others)  # [B, T, H]
        states = [ops.reshape(embedded, (-1, self.config.hidden_size))]
        for i, layer in enumerate(self.encoder_layers):
            if self.config.has_shared_layers and dropout_seed is not None:
                # A shared layer draws other masks at each depth, the same as layers with separate weights.
                shift = ops.cast([0, i * EncoderLayer.NUM_DROPOUTS], dropout_seed.dtype)
                states.append(self._run(layer, states[-1], mask_scores, dropout_seed + shift))
            else:
                states.append(self._run(layer, states[-1], mask_scores, dropout_seed))
        return states, mask_scores

    def _run(self, layer: EncoderLayer, hidden: Any, mask_scores: Any, dropout_seed: Any) -> Any:
        if not self.is_recomputed or dropout_seed is None:
            return layer(hidden, mask_scores, dropout_seed=dropout_seed)
        return keras.remat(lambda hidden: layer(hidden, mask_scores, dropout_seed=dropout_seed))(hidden)


def other_sequence_scores(sequence_ids: Any) -> Any:
    """Maps int32 [B, T], the number of each token's sequence, to attention scores float32 [B, 1, T, T].

    They hide the sequences of a packed row from each other.
    """
    is_other = ops.not_equal(ops.expand_dims(sequence_ids, 2), ops.expand_dims(sequence_ids, 1))  # [B, T, T]
    return ops.expand_dims(ops.cast(is_other, "float32") * PADDING_SCORE, 1)


def later_token_scores(num_tokens: Any) -> Any:
    """Returns attention scores float32 [1, 1, T, T] that hide the later tokens from each token.

    They are twice those of padding. So even a padding token sees no later token, whatever the mask is.
    """
    places = ops.arange(num_tokens, dtype="int32")
    is_later = ops.expand_dims(places, 0) > ops.expand_dims(places, 1)  # [T, T]
    return ops.expand_dims(ops.cast(is_later, "float32") * (2 * PADDING_SCORE), (0, 1))


def last_positions(is_own: Any) -> Any:
    """Maps int32 [..., T], 1 for the tokens of a sequence and 0 for others, to the place of the last one, [...]."""
    return ops.max(is_own * ops.arange(ops.shape(is_own)[-1], dtype="int32"), axis=-1)


def _input_mask(features: dict[str, Any]) -> Any:
    """Returns the mask of the tokens, [B, T]; without one all are tokens."""
    return features["input_mask"] if "input_mask" in features else ops.ones_like(features["input_ids"])


def _tokens_of_sequences(positions: Any, features: dict[str, Any]) -> Any:
    """Returns which tokens of a packed row belong to the sequences that begin at int32 [B, S], bool [B, S, T]."""
    ids = features["sequence_ids"]  # [B, T]
    ids_of_sequences = ops.take_along_axis(ids, positions, axis=1)  # [B, S]
    return ops.equal(ops.expand_dims(ids, 1), ops.expand_dims(ids_of_sequences, 2))
