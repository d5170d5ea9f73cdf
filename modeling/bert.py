"""BERT: maps token ids to a vector for each token and a vector for the whole sequence.

A packed row of a batch holds several sequences. They do not see each other, and each begins at position 0.

Axes: B batch, T tokens, H hidden, N heads, S sequences of a packed row.
"""

import keras
from keras import ops

from bert_keras.modeling.layers import Embeddings, EncoderLayer, dense, other_sequence_scores, padding_scores, rows_at


class BertModel(keras.Model):
    """The encoder of "BERT: Pre-training of Deep Bidirectional Transformers" (Devlin et al. 2018, section 3).

    The constructor makes all weights, so you can load them before the first call. Source: `BertModel` of the original.

    Args:
        config: BertConfig.
        name: prefix of the name of every weight.

    Attributes:
        is_recomputed: bool, False by default. If True, training stores only the input of each encoder layer and
            computes the other activations again for the gradients. The gradients are the same. This saves memory for
            long sequences and large batches, and costs time.
    """

    def __init__(self, config, name="bert"):
        super().__init__(name=name)
        self.config = config
        self.is_recomputed = False
        self.encoder_layers = []
        with keras.name_scope(name):
            self.embeddings = Embeddings(config, dropout_index=0)
            with keras.name_scope("encoder"):
                for i in range(config.num_hidden_layers):
                    first_dropout_index = 1 + i * EncoderLayer.NUM_DROPOUTS
                    self.encoder_layers.append(EncoderLayer(config, first_dropout_index, name=f"layer_{i}"))
            with keras.name_scope("pooler"):
                self.pooler = dense(config.hidden_size, config.hidden_size, config)
        self.built = True

    @property
    def embedding_table(self):
        """The word embeddings, float [V, H]."""
        return self.embeddings.word_embeddings

    def call(
        self,
        input_ids,
        input_mask=None,
        segment_ids=None,
        dropout_seed=None,
        sequence_ids=None,
        position_ids=None,
        cls_positions=None,
    ):
        """Encodes a batch of sequences.

        Args:
            input_ids: int32 [B, T], token ids.
            input_mask: int32 [B, T], 1 for tokens and 0 for padding; None: all are tokens.
            segment_ids: int32 [B, T]; None: all are 0.
            dropout_seed: int32 [2] (uint32 on JAX) to train with dropout, None to predict.
            sequence_ids: int32 [B, T], for packed rows: the number of each token's sequence. A token sees only tokens
                with its number. Padding has a separate number, and input_mask is ignored.
            position_ids: int32 [B, T], for packed rows: the position of each token in its sequence.
            cls_positions: int32 [B, S], for packed rows: the position in the row where each sequence begins.

        Returns:
            dict of "sequence_output" float [B, T, H], the last layer; "pooled_output" float [B, H] from the first
            token, or [B, S, H] from the tokens at `cls_positions`; "embedding_output" float [B, T, H];
            "all_encoder_layers", a list of L float [B, T, H].

        Raises:
            ValueError: an input is not of rank 2, two inputs differ in shape, or the sequences are too long.
        """
        rows = {"input_ids": input_ids, "input_mask": input_mask, "segment_ids": segment_ids}
        self._check_inputs(rows | {"sequence_ids": sequence_ids, "position_ids": position_ids})
        input_mask = ops.ones_like(input_ids) if input_mask is None else input_mask
        segment_ids = ops.zeros_like(input_ids) if segment_ids is None else segment_ids
        mask_scores = padding_scores(input_mask) if sequence_ids is None else other_sequence_scores(sequence_ids)
        embedded = self.embeddings(input_ids, segment_ids, dropout_seed, position_ids)  # [B, T, H]
        layer_outputs = []
        hidden = ops.reshape(embedded, (-1, self.config.hidden_size))  # [B * T, H]
        for layer in self.encoder_layers:
            hidden = self._run(layer, hidden, mask_scores, dropout_seed)  # [B * T, H]
            layer_outputs.append(ops.reshape(hidden, ops.shape(embedded)))  # [B, T, H]
        sequence_output = layer_outputs[-1]
        first_tokens = sequence_output[:, 0] if cls_positions is None else rows_at(sequence_output, cls_positions)
        return {
            "sequence_output": sequence_output,
            # tanh for every hidden_act, as in the original BERT
            "pooled_output": ops.tanh(self.pooler(first_tokens)),
            "embedding_output": embedded,
            "all_encoder_layers": layer_outputs,
        }

    def attention_probabilities(self, input_ids, input_mask=None, segment_ids=None):
        """Computes the share of each token (last axis) in each token's attention, for analyses and pictures.

        The arguments are those of a call. Returns a list of L float [B, N, T, T], for each layer and head; the last
        axis sums to 1.
        """
        outputs = self(input_ids, input_mask, segment_ids)
        inputs = [outputs["embedding_output"], *outputs["all_encoder_layers"][:-1]]
        mask_scores = padding_scores(ops.ones_like(input_ids) if input_mask is None else input_mask)
        return [
            layer.self_attention.probabilities(ops.reshape(hidden, (-1, self.config.hidden_size)), mask_scores)
            for layer, hidden in zip(self.encoder_layers, inputs, strict=True)
        ]

    def _run(self, layer, hidden, mask_scores, dropout_seed):
        if not self.is_recomputed or dropout_seed is None:
            return layer(hidden, mask_scores, dropout_seed=dropout_seed)
        return keras.remat(lambda hidden: layer(hidden, mask_scores, dropout_seed=dropout_seed))(hidden)

    def _check_inputs(self, inputs):
        shapes = {name: tuple(x.shape) for name, x in inputs.items() if x is not None}
        for name, shape in shapes.items():
            if len(shape) != 2:
                raise ValueError(f"{self.name} got {name} of shape {list(shape)}, but needs [batch, tokens]")
            for size, needed in zip(shape, shapes["input_ids"], strict=True):
                if size != needed and None not in (size, needed):
                    raise ValueError(
                        f"{self.name} got {name} of shape {list(shape)}, but input_ids of shape "
                        f"{list(shapes['input_ids'])}; they must be equal"
                    )
        num_tokens = shapes["input_ids"][1]
        longest = self.config.max_position_embeddings
        if num_tokens is not None and num_tokens > longest:
            raise ValueError(
                f"{self.name} got sequences of {num_tokens} tokens, but max_position_embeddings is {longest}; "
                f"make the sequences shorter, or take a config with more positions"
            )
