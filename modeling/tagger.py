"""Taggers with LSTMs: on the features of a frozen BERT (paper, section 5.3), or trained with it (section 5.1).

Axes: B batch, T tokens, H hidden, U units, C classes.
"""

from typing import Any

import keras
from keras import ops

from bert_keras.modeling.base import TOKEN_INPUTS, BaseModel
from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.files import Checkpoint
from bert_keras.modeling.config import FINE_TUNING_DROPOUT, BertConfig
from bert_keras.modeling.dropout import Dropout
from bert_keras.modeling.heads import FINE_TUNING_INITIALIZER_RANGE
from bert_keras.modeling.layers import EncoderLayer, mark_built, next_seed, truncated_normal
from bert_keras.modeling.models import TokenClassifierModel
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.settings import choices

NUM_FEATURE_LAYERS = 4
NUM_RECURRENT_LAYERS = 2
UNITS = 768


@keras.saving.register_keras_serializable(package="bert_keras")
class FeatureBasedTagger(BaseModel):
    """Gives each token one of several classes, from the last four layers of a frozen BERT.

    The concatenated outputs of these layers go through two bidirectional LSTM layers and a linear layer. BERT has no
    dropout and gets no gradient. The optimizer must leave out the weights named `bert/...`, because weight decay would
    change them. The original BERT has no program for this model.

    Args:
        config: BertConfig. If it has fewer than four layers, the tagger uses all of them.
        num_classes: C.
        units: U, the width of an LSTM in each direction.
        **kwargs: see `BaseModel`.

    Attributes:
        is_per_token: True; its outputs have the tokens as second axis.
        is_frozen: True; BERT does not change.
    """

    is_per_token = True
    is_frozen = True
    _num_feature_layers = NUM_FEATURE_LAYERS

    def __init__(
        self,
        config: BertConfig,
        num_classes: int,
        units: int = UNITS,
        name: str = "feature_based_tagger",
        **kwargs: Any,
    ) -> None:
        super().__init__(config, name=name, **kwargs)
        self.num_classes, self.units = num_classes, units
        first_dropout = 1 + config.num_hidden_layers * EncoderLayer.NUM_DROPOUTS
        self.input_dropout = Dropout(FINE_TUNING_DROPOUT, first_dropout)
        width = min(self._num_feature_layers, config.num_hidden_layers) * config.hidden_size
        self.recurrent_layers = []
        with dtype_policy(self.dtype_policy):
            self.bert = BertModel(config, return_all_encoder_layers=True)
            with keras.name_scope("tagger"):
                for i in range(NUM_RECURRENT_LAYERS):
                    with keras.name_scope(f"layer_{i}"):
                        self.recurrent_layers.append(BidirectionalLstm(width, units, first_dropout + 1 + i))
                    width = 2 * units
                self.output_layer = keras.layers.Dense(
                    num_classes, kernel_initializer=truncated_normal(FINE_TUNING_INITIALIZER_RANGE), name="output"
                )
                self.output_layer.build((None, None, width))
        self._finish()

    def get_config(self) -> dict[str, Any]:
        return super().get_config() | {"num_classes": self.num_classes, "units": self.units}

    @classmethod
    def _sizes_of_head(cls, checkpoint: Checkpoint, options: dict[str, Any]) -> dict[str, Any]:
        num_classes = cls._num_classes(checkpoint, "tagger/output/bias", options.get("num_classes"))
        units, _ = checkpoint.shape("tagger/layer_0/forward/lstm_cell/recurrent_kernel")
        return {"num_classes": num_classes, "units": units}

    def call(self, features: dict[str, Any], dropout_seed: Any = None, training: bool | None = None) -> dict[str, Any]:
        """Returns a dict of "logits" float32 [B, T, C]; the arguments are those of all models, see `modeling.models`.

        Padding must be at the end of each sequence.
        """
        dropout_seed = self._dropout_seed(dropout_seed, training)
        inputs = {name: features[name] for name in TOKEN_INPUTS if name in features}
        encoded = self.bert(inputs, dropout_seed=None if self.is_frozen else dropout_seed, training=False)
        layers = encoded["all_encoder_layers"][-self._num_feature_layers :]
        x = ops.concatenate(layers, axis=-1)  # [B, T, 4 * H]
        x = ops.stop_gradient(x) if self.is_frozen else x
        x = self.input_dropout(x, dropout_seed)
        mask = features["input_mask"] if "input_mask" in features else ops.ones_like(features["input_ids"])
        is_token = _with_a_token(ops.cast(mask, "bool"))  # [B, T]
        for layer in self.recurrent_layers:
            x = layer(x, is_token, dropout_seed=dropout_seed)  # [B, T, 2 * U]
        return {"logits": ops.cast(self.output_layer(x), "float32")}


@keras.saving.register_keras_serializable(package="bert_keras")
class LstmTagger(FeatureBasedTagger):
    """Gives each token one of several classes: two bidirectional LSTM layers on a BERT that is trained with them.

    The paper has them for its left-to-right model (section 5.1), but does not tell their width.

    Args:
        units: U; None: the width of BERT.
        **kwargs: as in `FeatureBasedTagger`.
    """

    is_frozen = False
    _num_feature_layers = 1

    def __init__(
        self, config: BertConfig, num_classes: int, units: int | None = None, name: str = "lstm_tagger", **kwargs: Any
    ) -> None:
        super().__init__(config, num_classes, units or config.hidden_size, name=name, **kwargs)


def _with_a_token(is_token: Any) -> Any:
    """Marks the first position of rows without tokens (padding of a batch) as a token: cuDNN rejects empty rows."""
    is_first = ops.expand_dims(ops.arange(ops.shape(is_token)[1], dtype="int32") == 0, 0)  # [1, T]
    return is_token | (is_first & ~ops.any(is_token, axis=-1, keepdims=True))


class BidirectionalLstm(keras.layers.Layer):
    """Two LSTMs (Hochreiter and Schmidhuber 1997), one in each direction, concatenated; padding changes neither."""

    def __init__(self, input_size: int, units: int, dropout_index: int, name: str = "lstm") -> None:
        super().__init__(name=name)
        self.forward_lstm = _lstm(units, name="forward")
        self.backward_lstm = _lstm(units, go_backwards=True, name="backward")
        for lstm in (self.forward_lstm, self.backward_lstm):
            lstm.build((None, None, input_size))
        self.dropout = Dropout(FINE_TUNING_DROPOUT, dropout_index)
        self.supports_masking = True
        mark_built(self, (None, None, 2 * units))

    def call(self, x: Any, is_token: Any, dropout_seed: Any = None) -> Any:
        """Maps float [B, T, input] to [B, T, 2 * U]; is_token is bool [B, T], dropout_seed as for `Dropout`."""
        forward = self.forward_lstm(x, mask=is_token)  # [B, T, U]
        # The backward LSTM returns its outputs in reversed order.
        backward = ops.flip(self.backward_lstm(x, mask=is_token), axis=1)  # [B, T, U]
        return self.dropout(ops.concatenate([forward, backward], axis=-1), dropout_seed)


def _lstm(units: int, **options: Any) -> keras.layers.LSTM:
    seeds = {
        "kernel_initializer": keras.initializers.GlorotUniform(next_seed()),
        "recurrent_initializer": keras.initializers.Orthogonal(seed=next_seed()),
        "seed": next_seed(),
    }
    return keras.layers.LSTM(units, return_sequences=True, **seeds, **options)


# By the name in task.json and in the flag --tagger.
TAGGERS = dict(zip(choices.TAGGERS, (TokenClassifierModel, FeatureBasedTagger, LstmTagger), strict=True))
