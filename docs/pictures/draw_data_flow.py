"""Draws data_flow.png: two sentences on their way from text to an answer.

The numbers are real: the released uncased vocabulary, the masking with random.Random(10), and a tiny model trained for
91 steps on this one example.
"""

from picture_style import BLUE, GREEN, GREY, INK, LINE, MONO, MUTED, PAPER, RED, Canvas

WIDTH, HEIGHT = 800, 800  # units of the drawing: pixels on a page
LEFT, CELL = 260, 37.4  # where the tokens begin, and their distance

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
    ("batches", ["bert_keras/engine/", "input/"], 418, 70),
    ("step", ["modeling/", "bert_keras/engine/", "step.py, loop.py"], 508, 76),
    ("checkpoint", ["modeling/checkpoints/"], 604, 92),
    ("answer", ["predict.py", "bert_keras/prediction/"], 716, 70),
]


def figures():
    canvas = Canvas(WIDTH, HEIGHT)
    canvas.line((28, STAGES[0][2] + 20), (28, STAGES[-1][2] + 20), zorder=0)
    for number, (name, files, top, height) in enumerate(STAGES, 1):
        canvas.box(190, top, 596, height, PAPER, edge="#e2e8f0")
        canvas.circle(28, top + 20, 11, str(number))
        canvas.write(48, top + 20, name, 14, weight="bold")
        for row, file in enumerate(files):
            canvas.write(48, top + 39 + 13 * row, file, 9, color=MUTED, font=MONO)
    tops = {name: top for name, _, top, _ in STAGES}
    draw_data(canvas, tops)
    draw_training(canvas, tops)
    return {"data_flow": canvas.figure}


def draw_data(canvas, tops):
    top = tops["text"]
    canvas.write(204, top + 20, "the man went to the store", 12, font=MONO)
    canvas.write(204, top + 38, "he bought milk", 12, font=MONO)
    canvas.write(774, top + 29, "one sentence a line, a blank line between documents", 9.5, color=MUTED, align="right")

    top = tops["tokens"]
    words = {place: token for place, token in enumerate(TOKENS) if token[0] != "["}
    cells(canvas, top + 12, words, color_of)
    cells(canvas, top + 38, {place: IDS[place] for place in words})
    label(canvas, top + 23, "token")
    label(canvas, top + 49, "id")

    top = tops["instances"]
    cells(canvas, top + 12, dict(enumerate(MASKED_TOKENS)), color_of)
    cells(canvas, top + 36, {place: TOKENS[place] for place in POSITIONS})
    label(canvas, top + 23, "input")
    label(canvas, top + 47, "to predict")
    note = "BERT predicts 15 % of the tokens: most become [MASK], some a random token, some stay."
    canvas.write(204, top + 71, note, 9.5, color=MUTED)

    top = tops["records"]
    for row, (name, values) in enumerate(FEATURES.items()):
        cells(canvas, top + 10 + 26 * row, dict(enumerate(values)), color_of)
        label(canvas, top + 21 + 26 * row, name)
    rest = "masked_lm_positions 3 6    masked_lm_ids 2253 3573    next_sentence_labels 0"
    canvas.write(204, top + 100, rest, 9.2, font=MONO)


def draw_training(canvas, tops):
    top = tops["batches"]
    for shift in (12, 6, 0):
        canvas.box(204 + shift, top + 12 + shift * 0.8, 130, 34, BLUE, edge="white")
    canvas.write(269, top + 29, "101 1996 2158 103 …", 8.6, font=MONO, align="center")
    canvas.write(376, top + 25, "input_ids  int32 [32, 128]", 10, font=MONO)
    canvas.write(376, top + 45, "by default 32 records of 128 tokens, in random order", 9.5, color=MUTED)

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
        canvas.box(x, top + 12, 98, 50, "white", edge=LINE)
        canvas.write(x + 49, top + 29, name, 11, align="center", weight="bold")
        canvas.write(x + 49, top + 47, result, 9.2, color=MUTED, align="center")
        if number:
            canvas.arrow((x - 16, top + 37), (x - 3, top + 37))

    top = tops["checkpoint"]
    for row, (name, shape) in enumerate(
        [
            ("bert/embeddings/word_embeddings", "[30522, 128]"),
            ("bert/embeddings/word_embeddings/adam_m", "[30522, 128]"),
            ("global_step", "91"),
        ]
    ):
        canvas.write(204, top + 20 + 18 * row, name, 9.6, font=MONO)
        canvas.write(470, top + 20 + 18 * row, shape, 9.6, font=MONO, color=MUTED)
    canvas.write(204, top + 74, "the names of the original BERT; 136 more entries", 9.5, color=MUTED)

    top = tops["answer"]
    x = 204
    for word in ["the", "man", "[MASK]", "to", "the", "store"]:
        is_mask = word == "[MASK]"
        width = 48 if is_mask else 37
        canvas.box(x, top + 14, width - 3, 22, RED if is_mask else BLUE)
        canvas.write(x + (width - 3) / 2, top + 25.5, word, 9.2, align="center")
        x += width
    canvas.arrow((x + 6, top + 25), (x + 36, top + 25))
    canvas.box(x + 44, top + 14, 52, 22, INK)
    canvas.write(x + 70, top + 25.5, "went", 10, color="white", align="center", weight="bold")
    note = "probability above 0.999, from a tiny model that has learned only this example"
    canvas.write(204, top + 54, note, 9.5, color=MUTED)


def color_of(place, value):
    if value in ("[MASK]", "protein", 103, 5250):
        return RED
    if place >= len(TOKENS) or TOKENS[place][0] == "[":
        return GREY
    return BLUE if place < 8 else GREEN


def cells(canvas, top, values, color=None):
    for place, value in values.items():
        x = LEFT + CELL * place
        if color:
            canvas.box(x, top, CELL - 3, 22, color(place, value))
        pixels = 8.2 if len(str(value)) > 5 else 9.2
        canvas.write(x + (CELL - 3) / 2, top + 11.5, str(value), pixels, align="center")


def label(canvas, y, text):
    canvas.write(LEFT - 8, y + 0.5, text, 8.6, color=MUTED, align="right")
