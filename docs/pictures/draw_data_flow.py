#!/usr/bin/env python3
"""Draws docs/pictures/data_flow.png: two sentences on their way from text to an answer.

    python docs/pictures/draw_data_flow.py

The numbers are real: the released uncased vocabulary, the masking with random.Random(10), and a tiny model trained for
91 steps on this one example.
"""

import pathlib

from matplotlib.figure import Figure
from matplotlib.patches import Circle, FancyBboxPatch

WIDTH, HEIGHT = 800, 800  # units of the drawing: pixels on a page
LEFT, CELL = 260, 37.4  # where the tokens begin, and their distance
INK, MUTED, LINE, PAPER = "#1d2733", "#64748b", "#94a3b8", "#f8fafc"
FIRST, SECOND, SPECIAL, MASKED = "#dbeafe", "#dcfce7", "#e2e8f0", "#fecaca"
MONO = "DejaVu Sans Mono"

TOKENS = ["[CLS]", "the", "man", "went", "to", "the", "store", "[SEP]", "he", "bought", "milk", "[SEP]"]
MASKED_TOKENS = ["[CLS]", "the", "man", "[MASK]", "to", "the", "protein", "[SEP]", "he", "bought", "milk", "[SEP]"]
IDS = [101, 1996, 2158, 2253, 2000, 1996, 3573, 102, 2002, 4149, 6501, 102]
FEATURES = {
    "input_ids": [101, 1996, 2158, 103, 2000, 1996, 5250, 102, 2002, 4149, 6501, 102, 0, 0],
    "input_mask": [1] * 12 + [0] * 2,
    "segment_ids": [0] * 8 + [1] * 4 + [0] * 2,
}
POSITIONS = (3, 6)
STAGES = [  # name, files, top, and the height of its box
    ("text", ["your files"], 14, 56),
    ("tokens", ["data_prep/text/", "tokenization.py"], 90, 66),
    ("instances", ["data_prep/pretraining/", "instances.py, masking.py"], 176, 86),
    ("records", ["data_prep/records/"], 282, 116),
    ("batches", ["training/input/"], 418, 70),
    ("step", ["modeling/", "training/step.py", "training/loop.py"], 508, 76),
    ("checkpoint", ["modeling/checkpoints/"], 604, 92),
    ("answer", ["predict.py", "prediction/"], 716, 70),
]


def main():
    figure = Figure(figsize=(WIDTH / 100, HEIGHT / 100), dpi=160)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set(xlim=(0, WIDTH), ylim=(HEIGHT, 0))
    axes.axis("off")
    axes.plot([28, 28], [STAGES[0][2] + 20, STAGES[-1][2] + 20], color=LINE, linewidth=1.2, zorder=0)
    for number, (name, files, top, height) in enumerate(STAGES, 1):
        box(axes, 190, top, 596, height, PAPER, edge="#e2e8f0")
        axes.add_patch(Circle((28, top + 20), 11, facecolor=INK, edgecolor="white", linewidth=2))
        write(axes, 28, top + 20.5, str(number), 10, color="white", align="center", weight="bold")
        write(axes, 48, top + 20, name, 14, weight="bold")
        for row, file in enumerate(files):
            write(axes, 48, top + 39 + 13 * row, file, 9, color=MUTED, font=MONO)
    tops = {name: top for name, _, top, _ in STAGES}
    draw_data(axes, tops)
    draw_training(axes, tops)
    figure.savefig(pathlib.Path(__file__).with_name("data_flow.png"))


def draw_data(axes, tops):
    top = tops["text"]
    write(axes, 204, top + 20, "the man went to the store", 12, font=MONO)
    write(axes, 204, top + 38, "he bought milk", 12, font=MONO)
    write(axes, 774, top + 29, "one sentence a line, a blank line between documents", 9.5, color=MUTED, align="right")

    top = tops["tokens"]
    words = {place: token for place, token in enumerate(TOKENS) if token[0] != "["}
    cells(axes, top + 12, words, color_of)
    cells(axes, top + 38, {place: IDS[place] for place in words})
    label(axes, top + 23, "token")
    label(axes, top + 49, "id")

    top = tops["instances"]
    cells(axes, top + 12, dict(enumerate(MASKED_TOKENS)), color_of)
    cells(axes, top + 36, {place: TOKENS[place] for place in POSITIONS})
    label(axes, top + 23, "input")
    label(axes, top + 47, "to predict")
    note = "BERT predicts 15 % of the tokens: most become [MASK], some a random token, some stay."
    write(axes, 204, top + 71, note, 9.5, color=MUTED)

    top = tops["records"]
    for row, (name, values) in enumerate(FEATURES.items()):
        cells(axes, top + 10 + 26 * row, dict(enumerate(values)), color_of)
        label(axes, top + 21 + 26 * row, name)
    rest = "masked_lm_positions 3 6    masked_lm_ids 2253 3573    next_sentence_labels 0"
    write(axes, 204, top + 100, rest, 9.2, font=MONO)


def draw_training(axes, tops):
    top = tops["batches"]
    for shift in (12, 6, 0):
        box(axes, 204 + shift, top + 12 + shift * 0.8, 130, 34, FIRST, edge="white")
    write(axes, 269, top + 29, "101 1996 2158 103 …", 8.6, font=MONO, align="center")
    write(axes, 376, top + 25, "input_ids  int32 [32, 128]", 10, font=MONO)
    write(axes, 376, top + 45, "by default 32 records of 128 tokens, in random order", 9.5, color=MUTED)

    top = tops["step"]
    parts = [
        ("BERT", "→ logits"),
        ("loss", "10.94"),
        ("gradients", "of 46 weights"),
        ("clip", "norm 14.5 → 1"),
        ("Adam", "→ new weights"),
    ]
    for number, (name, result) in enumerate(parts):
        x = 204 + 116 * number
        box(axes, x, top + 12, 98, 50, "white", edge=LINE)
        write(axes, x + 49, top + 29, name, 11, align="center", weight="bold")
        write(axes, x + 49, top + 47, result, 9.2, color=MUTED, align="center")
        if number:
            arrow(axes, x - 16, top + 37, x - 3)

    top = tops["checkpoint"]
    for row, (name, shape) in enumerate(
        [
            ("bert/embeddings/word_embeddings", "[30522, 128]"),
            ("bert/embeddings/word_embeddings/adam_m", "[30522, 128]"),
            ("global_step", "91"),
        ]
    ):
        write(axes, 204, top + 20 + 18 * row, name, 9.6, font=MONO)
        write(axes, 470, top + 20 + 18 * row, shape, 9.6, font=MONO, color=MUTED)
    write(axes, 204, top + 74, "the names of the original BERT; 136 more entries", 9.5, color=MUTED)

    top = tops["answer"]
    x = 204
    for word in ["the", "man", "[MASK]", "to", "the", "store"]:
        is_mask = word == "[MASK]"
        width = 48 if is_mask else 37
        box(axes, x, top + 14, width - 3, 22, MASKED if is_mask else FIRST)
        write(axes, x + (width - 3) / 2, top + 25.5, word, 9.2, align="center")
        x += width
    arrow(axes, x + 6, top + 25, x + 36)
    box(axes, x + 44, top + 14, 52, 22, INK)
    write(axes, x + 70, top + 25.5, "went", 10, color="white", align="center", weight="bold")
    note = "probability above 0.999, from a tiny model that has learned only this example"
    write(axes, 204, top + 54, note, 9.5, color=MUTED)


def color_of(place, value):
    if value in ("[MASK]", "protein", 103, 5250):
        return MASKED
    if place >= len(TOKENS) or TOKENS[place][0] == "[":
        return SPECIAL
    return FIRST if place < 8 else SECOND


def cells(axes, top, values, color=None):
    for place, value in values.items():
        x = LEFT + CELL * place
        if color:
            box(axes, x, top, CELL - 3, 22, color(place, value))
        pixels = 8.2 if len(str(value)) > 5 else 9.2
        write(axes, x + (CELL - 3) / 2, top + 11.5, str(value), pixels, align="center")


def label(axes, y, text):
    write(axes, LEFT - 8, y + 0.5, text, 8.6, color=MUTED, align="right")


def box(axes, x, y, width, height, color, edge="none"):
    style = "round,pad=0,rounding_size=4"
    axes.add_patch(
        FancyBboxPatch((x, y), width, height, boxstyle=style, facecolor=color, edgecolor=edge, linewidth=0.8)
    )


def arrow(axes, x, y, end):
    axes.annotate("", (end, y), (x, y), arrowprops={"arrowstyle": "-|>", "color": MUTED, "linewidth": 1.2})


def write(axes, x, y, text, pixels, color=INK, align="left", font="DejaVu Sans", weight="normal"):
    size = pixels * 0.72  # points
    axes.text(x, y, text, size=size, color=color, ha=align, va="center_baseline", family=font, weight=weight)


if __name__ == "__main__":
    main()
