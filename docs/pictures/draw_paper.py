"""Draws the figures 1, 2 and 4 of the BERT paper in the style of this project.

- pretraining_and_fine_tuning.png: one encoder, pre-trained once and fine-tuned for each task (figure 1).
- input_representation.png: the three embeddings of each token, with the ids that the project computes (figure 2).
- fine_tuning_tasks.png: which vectors each kind of task uses (figure 4).
"""

from bert_keras.data_prep.text.model_inputs import encode_pair
from picture_style import BLUE, GREEN, GREY, INK, MONO, MUTED, RED, VIOLET, YELLOW, Canvas, text_width
from sample_data import sample_tokenizer

WIDTH = 640
PAIR = ("the river is wide", "it begins in the hills")
QUESTION = ("where ?", "in the hills")


def encoded(*texts):
    """Returns the tokens, ids and segment ids of a text or a pair."""
    tokenizer = sample_tokenizer()
    ids, segments, _ = encode_pair(tokenizer, texts[0], texts[1] if len(texts) > 1 else None, max_seq_length=64)
    return tokenizer.convert_ids_to_tokens(ids), ids, segments


def figures():
    return {
        "pretraining_and_fine_tuning": pretraining_and_fine_tuning(),
        "input_representation": input_representation(),
        "fine_tuning_tasks": fine_tuning_tasks(),
    }


def shade(token, segment):
    return GREY if token in ("[CLS]", "[SEP]") else RED if token == "[MASK]" else GREEN if segment else BLUE


def network(canvas, x, y, width, texts, masked=()):
    """Draws the tokens, the encoder above them and a vector for each token; returns the middle of each vector."""
    tokens, _, segments = encoded(*texts)
    token_texts = ["[MASK]" if number in masked else token for number, token in enumerate(tokens)]
    step = width / len(tokens)
    size = min(12, 1.5 * step / max(map(len, token_texts)))
    canvas.box(x, y + 52, width, 50, INK, text="BERT", size=16, text_color="white", weight="bold")
    middles = [x + step * (number + 0.5) for number in range(len(tokens))]
    for number, middle in enumerate(middles):
        left, token = middle - step / 2 + 1.5, token_texts[number]
        canvas.box(left, y + 130, step - 3, 26, shade(token, segments[number]), text=token, size=size)
        canvas.arrow((middle, y + 129), (middle, y + 104))
        canvas.arrow((middle, y + 51), (middle, y + 28))
        canvas.box(left, y, step - 3, 27, "white", edge="#94a3b8", text=f"T{number}" if number else "C", size=11)
    return middles


def outputs(canvas, y, middles, texts, color=YELLOW):
    """Draws what the vectors below give: the text of each range (first, last) of tokens, all equally wide or wider."""
    step = middles[1] - middles[0]
    for (first, last), text in texts.items():
        for place in {first, last}:
            canvas.arrow((middles[place], y + 44), (middles[place], y + 29))
        left, right = middles[first] - step / 2 + 1.5, middles[last] + step / 2 - 1.5
        width = max(right - left, text_width(text, 12.5) + 28)
        canvas.box(left, y, width, 27, color, text=text, size=12.5, weight="bold")


def pretraining_and_fine_tuning():
    canvas = Canvas(WIDTH, 604)
    canvas.write(20, 24, "1. Pre-training, once, on text without labels", 15, weight="bold")
    masked = (4, 9)
    middles = network(canvas, 20, 96, 600, PAIR, masked)
    outputs(canvas, 51, middles, {(0, 0): "next sentence?"}, VIOLET)
    tokens, *_ = encoded(*PAIR)
    outputs(canvas, 51, middles, {(number, number): tokens[number] for number in masked}, RED)
    canvas.write(370, 65, "the tokens behind [MASK]", 12.5, color=MUTED, align="center")
    canvas.arrow((320, 268), (320, 304))
    canvas.write(334, 286, "its weights are the start of each fine-tuning", 13, color=MUTED)
    canvas.write(20, 326, "2. Fine-tuning, for each task, with labels", 15, weight="bold")
    tasks = [
        ("run_classifier.py", "classify", ("it is wide",), {(0, 0): "class"}),
        ("run_squad.py", "find an answer", QUESTION, {(4, 6): "answer"}),
        ("run_ner.py", "tag words", ("the ice is old",), {(1, 1): "O", (2, 2): "B", (3, 3): "O", (4, 4): "O"}),
    ]
    step = (600 - 40) / sum(len(encoded(*texts)[0]) for _, _, texts, _ in tasks)
    x = 20
    for program, name, texts, output_texts in tasks:
        width = step * len(encoded(*texts)[0])
        canvas.write(x, 352, name, 13.5, weight="bold")
        outputs(canvas, 371, network(canvas, x, 416, width, texts), output_texts)
        canvas.write(x, 588, program, 12, color=MUTED, font=MONO)
        x += width + 20
    return canvas.figure


def input_representation():
    tokens, ids, segments = encoded(*PAIR)
    canvas = Canvas(WIDTH, 330)
    left, step = 104, (WIDTH - 120) / len(tokens)
    canvas.write(20, 24, "The input of the encoder is the sum of three embeddings", 15, weight="bold")
    rows = [
        ("tokens", "input_ids", tokens, ids, None),
        ("word", "embeddings", [f"E{id_}" for id_ in ids], None, YELLOW),
        ("segment", "embeddings", ["EA" if segment == 0 else "EB" for segment in segments], None, VIOLET),
        ("position", "embeddings", [f"E{place}" for place in range(len(ids))], None, RED),
    ]
    for row, (name, second, texts, numbers, color) in enumerate(rows):
        y = 52 + 70 * row
        canvas.write(20, y + 9, name, 12.5, weight="bold")
        canvas.write(20, y + 26, second, 12, color=MUTED)
        for number, text in enumerate(texts):
            x = left + step * number
            fill = color or shade(tokens[number], segments[number])
            size = min(12, 1.5 * step / max(4, len(text)))
            if color:
                canvas.box(x, y + 2, step - 4, 28, fill)
                subscript(canvas, x + (step - 4) / 2, y + 16, text)
            else:
                canvas.box(x, y - 2, step - 4, 26, fill, text=text, size=size)
                canvas.write(x + (step - 4) / 2, y + 36, str(numbers[number]), 11, align="center", font=MONO)
            if row > 1:
                canvas.write(x + (step - 4) / 2, y - 19, "+", 15, align="center")
    canvas.write(left, 314, "then layer normalisation, and dropout in training", 12.5, color=MUTED)
    return canvas.figure


def subscript(canvas, x, y, text):
    """Writes a letter with an index."""
    letter, index = text[0], text[1:]
    left = x - (text_width(letter, 13) + 2 + text_width(index, 9.5)) / 2
    canvas.write(left, y - 1, letter, 13)
    canvas.write(left + text_width(letter, 13) + 2, y + 4, index, 9.5)


def fine_tuning_tasks():
    canvas = Canvas(WIDTH, 570)
    tasks = [
        (
            "A pair of texts",
            "run_classifier.py",
            "MNLI, QQP, MRPC, your CSV",
            ("it is wide", "it is deep"),
            {(0, 0): "class"},
        ),
        ("A text", "run_classifier.py", "SST-2, CoLA, your CSV", ("the river is wide",), {(0, 0): "class"}),
        ("A question and a text", "run_squad.py", "SQuAD", QUESTION, {(4, 4): "start", (6, 6): "end"}),
        (
            "Each token",
            "run_ner.py",
            "named entities",
            ("the ice is old",),
            {(n, n): "OBOO"[n - 1] for n in range(1, 5)},
        ),
    ]
    for number, (name, program, examples, texts, output_texts) in enumerate(tasks):
        x, y = 20 + 316 * (number % 2), 26 + 280 * (number // 2)
        canvas.write(x, y, name, 14.5, weight="bold")
        canvas.write(x, y + 21, examples, 12.5, color=MUTED)
        canvas.write(x + 284, y, program, 12, color=MUTED, align="right", font=MONO)
        outputs(canvas, y + 43, network(canvas, x, y + 88, 284, texts), output_texts)
    return canvas.figure
