"""Draws architecture.png: BERT-Base from the ids to the logits, with the sizes of its weights."""

import functools
import math

from bert_keras import BertConfig, PretrainingModel, weights_by_name
from bert_keras.modeling.layers import weights_to_load
from picture_style import BLUE, GREEN, GREY, INK, MUTED, RED, VIOLET, YELLOW, Canvas

MODEL = "uncased_L-12_H-768_A-12"
WIDTH = 640


@functools.cache
def sizes():
    """Returns the config of the model, and the shape of each weight by name."""
    config = BertConfig.from_name(MODEL)
    with weights_to_load():
        model = PretrainingModel(config)
    return config, {name: tuple(weight.shape) for name, weight in weights_by_name(model).items()}


def num_weights(prefix):
    """Returns the number of the weights whose names begin with the prefix, in millions."""
    return sum(math.prod(shape) for name, shape in sizes()[1].items() if name.startswith(prefix)) / 1e6


def figures():
    config, _ = sizes()
    canvas = Canvas(WIDTH, 860)
    title = f"BERT-Base: {num_weights('bert/'):.0f} million weights"
    canvas.write(20, 26, title, 16, weight="bold")
    draw_heads(canvas, 60, config)
    draw_encoder(canvas, 196, config)
    draw_embeddings(canvas, 656)
    return {"architecture": canvas.figure}


def draw_heads(canvas, top, config):
    heads = [
        ("masked LM", f"a score for each of\n{config.vocab_size:,} tokens", RED, 20),
        ("next sentence", "2 classes, from\nthe pooled [CLS]", VIOLET, 226),
        ("your task", "fine-tuning replaces\nthe first two", GREEN, 432),
    ]
    for name, note, color, x in heads:
        canvas.box(x, top, 188, 76, color)
        canvas.write(x + 94, top + 18, name, 14.5, align="center", weight="bold")
        for row, line in enumerate(note.split("\n")):
            canvas.write(x + 94, top + 40 + 18 * row, line, 12.5, align="center")
        canvas.arrow((x + 94, top + 132), (x + 94, top + 80))
    for row, line in enumerate((f"{config.hidden_size} numbers", "for each token")):
        canvas.write(217, top + 97 + 18 * row, line, 12.5, color=MUTED, align="center")


def draw_encoder(canvas, top, config):
    layer = num_weights("bert/encoder/layer_0/")
    # The layers behind the first one.
    for shift in (12, 6):
        canvas.box(20 + shift, top + 12 - shift, 588, 396, "white", edge="#cbd5e1")
    canvas.box(20, top + 12, 588, 396, "#f8fafc", edge="#94a3b8")
    name = f"encoder: {config.num_hidden_layers} layers of {layer:.1f} million weights"
    canvas.write(38, top + 36, name, 14.5, weight="bold")
    canvas.write(38, top + 57, f"together {num_weights('bert/encoder/'):.1f} million", 12.5, color=MUTED)
    heads = f"{config.num_attention_heads} heads of size {config.head_size}"
    inner = f"{config.hidden_size} → {config.intermediate_size} → {config.hidden_size}, {config.hidden_act}"
    parts = [  # from the top down
        ("add, normalise", "LayerNorm", GREY, 42),
        ("feed-forward network", inner, YELLOW, 64),
        ("add, normalise", "LayerNorm", GREY, 42),
        ("self-attention", f"query, key, value: {heads}", BLUE, 64),
    ]
    y, left, width = top + 78, 120, 380
    middles = []
    for name, note, color, height in parts:
        canvas.box(left, y, width, height, color)
        if height > 50:
            canvas.write(left + width / 2, y + 22, name, 14.5, align="center", weight="bold")
            canvas.write(left + width / 2, y + 43, note, 12.5, align="center")
        else:
            canvas.write(left + width / 2, y + height / 2, f"{name} ({note})", 13.5, align="center")
        middles.append((y, height))
        y += height + 28
    for (upper, height), (lower, _) in zip(middles, middles[1:], strict=False):
        canvas.arrow((left + width / 2, lower), (left + width / 2, upper + height + 2))
    # Each residual connection begins below a part and ends at the normalisation above it.
    ends = [(middles[1], middles[0]), (middles[3], middles[2])]
    for (start, height), (end, end_height) in ends:
        below, side = start + height + 14, left + width + 44
        canvas.line((left + width / 2, below), (side, below), (side, end + end_height / 2), color=MUTED)
        canvas.arrow((side, end + end_height / 2), (left + width + 2, end + end_height / 2))
    canvas.arrow((left + width / 2, top + 458), (left + width / 2, middles[3][0] + middles[3][1] + 2))
    canvas.arrow((left + width / 2, middles[0][0] - 1), (left + width / 2, middles[0][0] - 22))


def draw_embeddings(canvas, top):
    _, shapes = sizes()
    tables = [
        ("word", "word_embeddings", "input_ids"),
        ("segment", "token_type_embeddings", "segment_ids"),
        ("position", "position_embeddings", "0, 1, 2, …"),
    ]
    total = f"embeddings: the normalised sum; {num_weights('bert/embeddings/'):.1f} million weights"
    canvas.box(20, top, 600, 40, GREY)
    canvas.write(320, top + 20.5, total, 13.5, align="center", weight="bold")
    for number, (name, weight, source) in enumerate(tables):
        x = 20 + 206 * number
        rows, columns = shapes[f"bert/embeddings/{weight}"]
        canvas.arrow((x + 94, top + 72), (x + 94, top + 43))
        canvas.box(x, top + 74, 188, 62, GREEN)
        canvas.write(x + 94, top + 95, f"{name} table", 14.5, align="center", weight="bold")
        canvas.write(x + 94, top + 117, f"{rows:,} × {columns}", 12.5, align="center")
        canvas.arrow((x + 94, top + 164), (x + 94, top + 139))
        canvas.write(x + 94, top + 178, source, 13.5, color=INK, align="center", font="DejaVu Sans Mono")
        if number:
            canvas.write(x - 9, top + 105, "+", 20, align="center")
