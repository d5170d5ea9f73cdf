"""Attention of a model on a text: the shares of all heads, what each head looks at, and how the layers differ.

The similarity of the tokens of a layer is from "How Contextual are Contextualized Word Representations?" (Ethayarajh
2019).
"""

import base64
import dataclasses
import json
import os
import pathlib
from typing import Any

import numpy as np

from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.mistakes import Mistake
from bert_keras.prediction import FeatureExtractor
from bert_keras.prediction.attention import HEAD_COLUMNS, looks_at

# The size of a page grows with the square of the length.
_LONGEST = 128
LAYER_COLUMNS = ("norm", "like the layer below", "tokens alike", *HEAD_COLUMNS)


@dataclasses.dataclass(frozen=True)
class Attention:
    """The attention of a model on one text. L layers, N heads, T tokens.

    Attributes:
        tokens: the T tokens, [CLS] and [SEP] included.
        shares: float32 [L, N, T, T]; `shares[layer, head, i, j]` is the share of token j in the attention of token i.
        heads: float [L, N, 5]: the means over the tokens of HEAD_COLUMNS. All are shares, but the entropy is in bits.
        layers: float [1 + L, 8]: LAYER_COLUMNS of the embeddings and of each layer. "norm": mean norm of the tokens'
            vectors. "like the layer below": mean cosine of a token's vector and its vector in the layer below. "tokens
            alike": mean cosine of two different tokens. The others: means over the heads. The
            embeddings have NaN for the values of heads.
    """

    tokens: list[str]
    shares: np.ndarray
    heads: np.ndarray
    layers: np.ndarray


class AttentionReader:
    """Opens a model to read its attention.

    Args:
        path: a checkpoint of pre-training, or the run folder of a fine-tuned model.
        max_seq_length: maximum number of tokens of a text, [CLS] and [SEP] included; None: 128, or fewer if the model
            takes fewer.
        **files: `vocab_file`, `config_file` and `do_lower_case`, as for `FeatureExtractor`.

    Raises:
        FileNotFoundError, ValueError: the model cannot be opened.
    """

    def __init__(self, path: str | os.PathLike, max_seq_length: int | None = None, **files: Any) -> None:
        self.extractor = FeatureExtractor(path, layers=[-1], max_seq_length=max_seq_length, **files)
        self.longest = max_seq_length or min(_LONGEST, self.extractor.max_seq_length)
        if self.extractor.settings:
            raise Mistake("{} is an export, which gives no attention; give the run that it was made from", path)

    def read(self, text: str, text_pair: str | None = None) -> Attention:
        """Returns the attention of all heads on a text or a pair.

        Raises:
            ValueError: the text has no word, or more tokens than `max_seq_length`.
        """
        tokenizer = self.extractor.tokenizer
        input_ids, segment_ids, num_cut = encode_pair(tokenizer, text, text_pair, self.longest)
        if num_cut:
            raise Mistake(
                "the text has {} tokens, but only {} are allowed; make it shorter, or raise --max_seq_length",
                len(input_ids) + num_cut,
                self.longest,
            )
        tokens = tokenizer.convert_ids_to_tokens(input_ids)
        if set(tokens) == {"[CLS]", "[SEP]"}:
            raise Mistake("the text has no word; give one to look at")
        ids, segments = np.array([input_ids], np.int32), np.array([segment_ids], np.int32)
        model = self.extractor.model
        shares = np.stack([np.asarray(layer)[0] for layer in model.attention_probabilities(ids, segment_ids=segments)])
        outputs = model(ids, np.ones_like(ids), segments)
        states = [outputs["embedding_output"], *outputs["all_encoder_layers"]]
        states = np.stack([np.asarray(state)[0] for state in states]).astype(np.float64)  # [1 + L, T, H]
        if not np.isfinite(shares).all():
            raise Mistake("the attention is not made of finite numbers, so the weights are broken; give another model")
        shares = shares.astype(np.float32)
        heads = looks_at(shares, tokens)
        return Attention(tokens, shares, heads, _layer_table(states, heads))


def _layer_table(states, heads):
    """Returns LAYER_COLUMNS of the states [1 + L, T, H] and the table of heads [L, N, 5]."""
    norms = np.linalg.norm(states, axis=-1)  # [1 + L, T]
    units = states / np.maximum(norms, 1e-30)[..., None]
    num_tokens = states.shape[1]
    cosines = units @ units.transpose(0, 2, 1)  # [1 + L, T, T]
    alike = (cosines.sum((1, 2)) - np.trace(cosines, axis1=1, axis2=2)) / (num_tokens * (num_tokens - 1))
    nothing = np.full((1,), np.nan)
    below = np.concatenate([nothing, (units[1:] * units[:-1]).sum(-1).mean(-1)])
    of_heads = np.concatenate([np.full((1, heads.shape[-1]), np.nan), heads.mean(1)])
    return np.concatenate([np.stack([norms.mean(-1), below, alike], axis=-1), of_heads], axis=-1)


def attention_tables(attention: Attention) -> dict[str, Any]:
    """Returns the tables as lists of dicts for JSON: "heads" (with "layer" and "head" from 1) and "layers"."""
    heads = [
        {"layer": layer + 1, "head": head + 1, **dict(zip(HEAD_COLUMNS, map(float, row), strict=True))}
        for layer, rows in enumerate(attention.heads)
        for head, row in enumerate(rows)
    ]
    layers = [
        {
            "layer": layer,
            **{name: None if np.isnan(x) else float(x) for name, x in zip(LAYER_COLUMNS, row, strict=True)},
        }
        for layer, row in enumerate(attention.layers)
    ]
    return {"heads": heads, "layers": layers}


def attention_page(attention: Attention, model: str) -> str:
    """Returns an HTML page of the attention, which contains all that it needs. `model` is the name to show."""
    content = {
        "model": model,
        "tokens": attention.tokens,
        "shape": attention.shares.shape,
        "shares": base64.b64encode(attention.shares.astype("<f4").tobytes()).decode("ascii"),
        "columns": {"heads": HEAD_COLUMNS, "layers": LAYER_COLUMNS},
        **attention_tables(attention),
    }
    # A token such as </script> must not end the element.
    text = json.dumps(content, ensure_ascii=False, allow_nan=False).replace("<", "\\u003c")
    template = (pathlib.Path(__file__).parent / "attention_page.html").read_text(encoding="utf-8")
    return template.replace("{{content}}", text)
