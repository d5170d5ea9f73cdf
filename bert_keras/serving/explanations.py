"""How a model reads an item: the tokens with their places in the texts, and the attention of a layer."""

from typing import Any

import keras
import numpy as np

from bert_keras.data_prep.text.places import Ids, Token, describe
from bert_keras.mistakes import Mistake
from bert_keras.modeling import BertModel
from bert_keras.prediction.attention import HEAD_COLUMNS, looks_at
from bert_keras.serving.batching import ModelError, Ticket
from bert_keras.serving.forms import explained_form, read_form
from bert_keras.serving.served_models import ServedModel

# Maximum number of values in an answer: 16 heads and 362 tokens.
_MOST_VALUES = 1 << 21
_DECIMALS = 4


def encoder_of(model: ServedModel) -> BertModel | None:
    """Returns the encoder of a model; None for an export, which has only its outputs."""
    network = model.predictor.model
    encoder = getattr(network, "bert", network)
    return encoder if isinstance(encoder, BertModel) else None


def tokens_answer(
    model: ServedModel, path: str, body: dict[str, Any], ticket: Ticket, max_items: int
) -> dict[str, Any]:
    """Returns the sequences that a model reads for an item, each as {"tokens": [...]}.

    A token has its "start" and "end" in the text of the item's field "text". They are code points; [CLS] and [SEP] have
    null. The sequences of a text with choices are those of its choices.

    Raises:
        ValueError: the item is not valid.
    """
    _, fields = read_form([explained_form([model])], body)
    sequences = [{"tokens": describe(model.predictor.tokenizer, tokens)} for tokens, _ in _read(model, fields["item"])]
    return {"model": model.name, "sequences": sequences}


def attention_answer(
    model: ServedModel, path: str, body: dict[str, Any], ticket: Ticket, max_items: int
) -> dict[str, Any]:
    """Returns the attention in an item: tokens as above of the first sequence, and [N, T, T] of a layer.

    "looks_at" has the means of each head over the tokens; see `prediction.attention`.

    Raises:
        ValueError: the model is an export, the item or the layer is not valid, or the sequence is too long.
    """
    encoder = encoder_of(model)
    if encoder is None:
        raise Mistake("{} is an export, which gives no attention; serve the run or the checkpoint", model.name)
    num_heads = encoder.config.num_attention_heads
    layers = {"type": "integer", "minimum": 0, "maximum": encoder.config.num_hidden_layers - 1}
    _, fields = read_form([explained_form([model], layer=layers)], body)
    tokens, segment_ids = _read(model, fields["item"])[0]
    num_values = num_heads * len(tokens) ** 2
    if num_values > _MOST_VALUES:
        raise Mistake(
            "the attention of {} tokens in {} heads has {:,} values, but at most {:,} are allowed; give a shorter text",
            len(tokens),
            num_heads,
            num_values,
            _MOST_VALUES,
        )
    ids = np.array([[token.id for token in tokens]], np.int32)
    with model.predictor.network.turn():
        layers_of_ids = encoder.attention_probabilities(ids, segment_ids=np.array([segment_ids], np.int32))
        values = keras.ops.convert_to_numpy(layers_of_ids[fields["layer"]])
    if not np.isfinite(values).all():
        raise ModelError("its attention is not finite numbers, so its weights are broken")
    rounded = np.round(values[0].astype(np.float64), _DECIMALS)  # [N, T, T]
    described = describe(model.predictor.tokenizer, tokens)
    [means] = looks_at(values, [token["token"] for token in described]).round(_DECIMALS).tolist()
    heads = [dict(zip(HEAD_COLUMNS, row, strict=True)) for row in means]
    return {"model": model.name, "tokens": described, "attention": rounded, "looks_at": heads}


def _read(model: ServedModel, item: str | dict[str, Any]) -> list[tuple[list[Token], Ids]]:
    """Returns the tokens and the segment ids of each sequence of an item."""
    return model.predictor.tokens(model.fields_of(item), "the request")
