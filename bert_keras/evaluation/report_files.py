"""Creates the content of report files: tables of predictions for programs, and a picture of the confusion matrix."""

import functools
import io
import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.metrics import confusion_matrix

from bert_keras.evaluation.tables import tab_separated

if TYPE_CHECKING:
    from matplotlib.figure import Figure

log = logging.getLogger("bert_keras")

# With more classes, the numbers in the cells would be too small to read.
_MOST_NUMBERED_CLASSES = 30
# With more classes, nobody could read the picture or the table, and drawing takes minutes.
MOST_CLASSES_OF_A_MATRIX = 200
_MOST_INCHES = 24


def prediction_rows(
    ids: Sequence,
    texts: Sequence[str | tuple[str | None, ...]],
    predictions: Sequence,
    probabilities: Any = None,
    labels: Sequence[str] = (),
) -> list[dict[str, Any]]:
    """Returns all predictions (class names or numbers) with their texts, a list of dicts by the columns of the table.

    A text is a str, or a tuple of str for pairs (or a question and its choices); None in a tuple is ignored. The
    probabilities are float [N, C], with the names of the C classes as labels; the rows have six digits of them.
    """
    columns = [f"probability of {label}" for label in labels] if probabilities is not None else []
    shares = [[]] * len(ids) if probabilities is None else [[float(f"{x:.6f}") for x in row] for row in probabilities]
    texts_of_rows, text_columns = _text_columns(texts)
    header = ["id", "prediction", *columns, *text_columns]
    return [
        dict(zip(header, (id_, prediction, *shares_of_row, *text), strict=True))
        for id_, prediction, shares_of_row, text in zip(ids, predictions, shares, texts_of_rows, strict=True)
    ]


def predictions_table(rows: Sequence[dict[str, Any]]) -> str:
    """Formats `prediction_rows`, of which there is at least one, as a tab-separated table."""

    def shown(name: str, value: Any) -> str:
        return (
            f"{value:.6f}" if name.startswith("probability of ") else _shown(value) if name == "prediction" else value
        )

    return tab_separated(list(rows[0]), [[shown(*cell) for cell in row.items()] for row in rows])


def errors_table(
    ids: Sequence[object],
    sources: Sequence[str],
    texts: Sequence[str | tuple[str | None, ...]],
    labels: Sequence[str | float],
    predictions: Sequence[str | float],
    confidences: Sequence[float],
    by: str = "confidence",
    words: Sequence[str] | None = None,
) -> str:
    """Formats wrong predictions as a tab-separated table.

    `sources` are the places of the examples, such as "dev.tsv line 41". `by` is the header of `confidences`, float [N];
    for regression these are the absolute errors. `words` are those that carry the predictions; None: no such column.
    """
    texts_of_rows, text_columns = _text_columns(texts)
    rows = [
        [
            ids[i],
            sources[i],
            _shown(labels[i]),
            _shown(predictions[i]),
            f"{confidences[i]:.6f}" if by == "confidence" else _shown(confidences[i]),
            *([] if words is None else [words[i]]),
            *texts_of_rows[i],
        ]
        for i in range(len(ids))
    ]
    header = ["id", "source", "label", "prediction", by, *([] if words is None else ["words"]), *text_columns]
    return tab_separated(header, rows)


def confusion_picture(label_ids: ArrayLike, predicted_ids: ArrayLike, labels: Sequence[str]) -> bytes:
    """Draws the confusion matrix as bytes of a PNG.

    The shade is the share of the gold class, which makes rare classes visible.
    """
    from matplotlib.figure import Figure

    counts = confusion_matrix(label_ids, predicted_ids, labels=range(len(labels)))
    side = min(2.5 + 0.4 * len(labels), _MOST_INCHES)
    # Small pictures have two dots for each pixel of a page.
    figure = Figure(figsize=(side + 1, side), dpi=200 if len(labels) <= 12 else 100, layout="constrained")
    shown = list(map(_drawable, labels))
    if num_changed := sum(text != label for text, label in zip(shown, labels, strict=True)):
        told = "confusion_matrix.png: %s of %s labels are shortened, or have codes for characters that its font lacks"
        log.info(told, f"{num_changed:,}", f"{len(labels):,}")
    _draw_confusions(figure, counts, shown)
    return png_of(figure)


def png_of(figure: "Figure") -> bytes:
    """Returns a picture as bytes of a PNG, the same ones with every version of matplotlib."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    file = io.BytesIO()
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _drawable(label: str) -> str:
    """Returns a label of at most 24 characters; `\\u4e2d` for a character that the font of the picture lacks."""
    label = "".join(char if char in " \t" or _has_glyph(char) else ascii(char)[1:-1] for char in label)
    return label if len(label) <= 24 else label[:23] + "\u2026"


@functools.cache
def _has_glyph(char: str) -> bool:
    from matplotlib.font_manager import FontProperties, findfont, get_font

    font = get_font(findfont(FontProperties()))
    return char.isprintable() and font.get_char_index(ord(char)) != 0


def _draw_confusions(figure: "Figure", counts: np.ndarray, labels: Sequence[str]) -> None:
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(labels))
    size = 10 if len(labels) <= 12 else 8 if len(labels) <= _MOST_NUMBERED_CLASSES else 6
    turn = {} if sum(map(len, labels)) < 30 else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    # With parse_math, a dollar sign would begin a formula.
    axes.set_xticks(places, labels, fontsize=size, parse_math=False, **turn)
    axes.set_yticks(places, labels, fontsize=size, parse_math=False)
    axes.set_xlabel("prediction")
    axes.set_ylabel("label")
    figure.colorbar(image, label="share of the label", shrink=0.8)
    if len(labels) > _MOST_NUMBERED_CLASSES:
        return
    for row, column in np.argwhere(counts):
        colour = "white" if shares[row, column] > 0.5 else "black"
        axes.text(column, row, str(counts[row, column]), ha="center", va="center", color=colour, fontsize=size)


def _text_columns(texts: Sequence[str | tuple[str | None, ...]]) -> tuple[list[list[str]], list[str]]:
    """Returns the texts as lists of the same length, and the headers of their columns."""
    rows = [[text] if isinstance(text, str) else [part for part in text if part is not None] for text in texts]
    width = max(map(len, rows), default=1)
    columns = {1: ["text"], 2: ["text_a", "text_b"]}.get(width) or [f"text_{number + 1}" for number in range(width)]
    return [row + [""] * (width - len(row)) for row in rows], columns


def _shown(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.8g}"
