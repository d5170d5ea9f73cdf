"""Draws packing.png: a batch with and without `--pack`, and the attention mask of a packed row."""

import functools

import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.patches import Rectangle

from bert_keras.engine.input.feature_batches import training_batches
from bert_keras.engine.input.packed_batches import packed_training_batches
from bert_keras.modeling.bert import other_sequence_scores
from bert_keras.settings.groups import RunSettings
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.encoding import make_features
from bert_keras.tasks.tables.examples import Example
from picture_style import GREY, INK, MUTED, STRONG, Canvas
from sample_data import SAMPLE_TEXT, sample_tokenizer

ROW_LENGTH, BATCH_SIZE, SEED = 64, 12, 1
SETTINGS = RunSettings(train_batch_size=BATCH_SIZE, seed=SEED)
MARGIN, WIDTH = 20, 640


@functools.cache
def batches():
    """Returns the first training batch of the sentences of the sample text, without and with packing."""
    lines = filter(None, SAMPLE_TEXT.read_text(encoding="utf-8").splitlines())
    examples = [
        Example(id=str(number), text_a=line, label="any", source=f"documents.txt line {number}")
        for number, line in enumerate(lines, 1)
    ]
    features = make_features(examples, sample_tokenizer(), ROW_LENGTH, labels=SingleLabel(["any"]))
    del features["example_index"]
    plain = next(training_batches(features, BATCH_SIZE, SEED).as_numpy_iterator())
    packed = next(packed_training_batches(features, SETTINGS, num_devices=1).as_numpy_iterator())
    return plain, {name: values[0] for name, values in packed.items()}


def visible(sequence_ids):
    """Returns bool [T, T] for int [T]: which tokens (columns) each token of a row sees."""
    return np.asarray(other_sequence_scores(sequence_ids[None]))[0, 0] == 0


def figures():
    plain, packed = batches()
    # Of the rows with the most examples, the one with the most padding.
    paddings = (packed["input_mask"] == 0).sum(-1)
    mask_row = max(range(len(paddings)), key=lambda row: (packed["sequence_weights"][row].sum(), paddings[row]))
    tops = [64, 64 + 12 * BATCH_SIZE + 52]
    canvas = Canvas(WIDTH, tops[1] + 12 * len(packed["input_mask"]) + 476)
    canvas.write(MARGIN, 24, f"A batch of {BATCH_SIZE} examples", 15, weight="bold")
    numbers = plain["input_mask"] * np.arange(1, BATCH_SIZE + 1)[:, None]
    draw_rows(canvas, tops[0], numbers, "without --pack")
    # The number of an example in the batch, from its tokens.
    numbers_by_tokens = {tuple(ids[mask > 0]): number for number, (ids, mask) in enumerate(rows_of(plain), 1)}
    ids, sequences = packed["input_ids"], packed["sequence_ids"]
    numbers = np.zeros_like(sequences)
    for row, sequence in {(row, s) for row, s in np.ndindex(len(ids), sequences.max() + 1) if s}:
        is_part = sequences[row] == sequence
        if is_part.any():
            numbers[row, is_part] = numbers_by_tokens[tuple(ids[row, is_part])]
    draw_rows(canvas, tops[1], numbers, "with --pack")
    top = tops[1] + 12 * len(ids) + 42
    canvas.write(MARGIN, top, f"The attention mask of row {mask_row + 1}", 15, weight="bold")
    draw_mask(canvas, top + 58, numbers[mask_row], packed["sequence_ids"][mask_row], packed["position_ids"][mask_row])
    return {"packing": canvas.figure}


def rows_of(batch):
    return zip(batch["input_ids"], batch["input_mask"], strict=True)


def color_of(number):
    """Returns the colour of an example's tokens; 0 is padding."""
    return STRONG[(number - 1) % len(STRONG)] if number else GREY


def draw_rows(canvas, top, numbers, name):
    """Draws the rows of a batch; `numbers` has the number of each token's example."""
    padding = 100 * (numbers == 0).mean()
    text = f"{name}: {len(numbers)} rows of {numbers.shape[1]} tokens, {padding:.0f} % padding"
    canvas.write(MARGIN, top - 14, text, 13.5)
    step = (WIDTH - 2 * MARGIN) / numbers.shape[1]
    for row, column in np.ndindex(*numbers.shape):
        color = color_of(numbers[row, column])
        corner = (MARGIN + step * column, top + 12 * row)
        canvas.axes.add_patch(Rectangle(corner, step * 0.9, 10, facecolor=color, edgecolor="none"))


def draw_mask(canvas, top, numbers, sequence_ids, position_ids):
    """Draws which tokens each token of a row sees, in the colour of its example."""
    sees, num_tokens = visible(sequence_ids), len(sequence_ids)
    image = np.ones((num_tokens, num_tokens, 3))
    for row, column in np.argwhere(sees):
        image[row, column] = to_rgb(color_of(numbers[row]))
    left, side = 150, 340
    canvas.axes.imshow(image, extent=(left, left + side, top + side, top), interpolation="nearest", aspect="auto")
    canvas.axes.set(xlim=(0, canvas.width), ylim=(canvas.height, 0))
    canvas.line((left, top), (left + side, top), (left + side, top + side), (left, top + side), (left, top))
    step = side / num_tokens
    for sequence in range(sequence_ids.max() + 1):
        columns = np.flatnonzero(sequence_ids == sequence)
        if not len(columns):
            continue
        first, last = columns[0], columns[-1]
        middle = (first + last + 1) / 2 * step
        color = color_of(numbers[first]) if sequence else MUTED
        name = f"example {numbers[first]}" if sequence else "padding"
        canvas.write(left - 12, top + middle, name, 13, color=color, align="right", weight="bold")
        if sequence:
            text = f"{position_ids[first]} … {position_ids[last]}"
            canvas.write(left + middle, top - 12, text, 12, color=color, align="center")
    canvas.write(left + side / 2, top - 32, "positions in the example", 12.5, color=MUTED, align="center")
    canvas.write(left + side + 12, top + 20, "each token", 12.5, color=INK)
    canvas.write(left + side + 12, top + 38, "(a row) sees the", 12.5, color=INK)
    canvas.write(left + side + 12, top + 56, "coloured tokens", 12.5, color=INK)
