"""Creates the content of report files: tables of predictions for programs, and a picture of the confusion matrix."""

import importlib.util
import io
import logging

import numpy as np

from bert_keras.evaluation.classification import confusion_matrix
from bert_keras.evaluation.tables import tab_separated

log = logging.getLogger("bert_keras")

# With more classes, the numbers in the cells would be too small to read.
_MOST_NUMBERED_CLASSES = 30
_MOST_INCHES = 24


def predictions_table(ids, texts, predictions, probabilities=None, labels=None):
    """Formats all predictions with their texts as a table.

    Args:
        ids: list of N str or int.
        texts: list of N str, or of tuples of str for pairs (or a question and its choices); None in a tuple is ignored.
        predictions: list of N str (class names) or numbers.
        probabilities: float [N, C], or None.
        labels: list of C str, the class names; needed with probabilities.

    Returns:
        str, tab-separated (`evaluation.tables.tab_separated`). Columns: `id`; `prediction`; with probabilities,
        `probability of <label>` for each label; `text`, or `text_a` and `text_b`, or `text_1`, `text_2`, ... for more
        than two.

    Raises:
        ValueError: the lists have different lengths.
    """
    _check_lengths(ids, texts=texts, predictions=predictions)
    columns = [] if probabilities is None else [f"probability of {label}" for label in labels]
    figures = [[]] * len(ids) if probabilities is None else [[f"{p:.6f}" for p in row] for row in probabilities]
    _check_lengths(ids, probabilities=figures)
    texts, text_columns = _text_columns(texts)
    rows = [
        [id_, _shown(prediction), *shares, *text]
        for id_, prediction, shares, text in zip(ids, predictions, figures, texts, strict=True)
    ]
    return tab_separated(["id", "prediction", *columns, *text_columns], rows)


def errors_table(ids, sources, texts, labels, predictions, confidences, by="confidence"):
    """Formats the wrong predictions as a table, the most confident first.

    The first rows point to doubtful labels, or to texts that mislead the model.

    Args:
        ids: list of N str or int.
        sources: list of N str; the place of each example in its file, such as "dev.tsv line 41".
        texts: as in `predictions_table`.
        labels: list of N str (names of the gold classes) or numbers.
        predictions: list of N str or numbers.
        confidences: float [N]; rows are sorted by it in descending order. For regression, the absolute error.
        by: str, the header of that column.

    Returns:
        str, tab-separated (`evaluation.tables.tab_separated`): `id`, `source`, `label`, `prediction`, the confidence,
        and the texts as in `predictions_table`. Rows with the same confidence keep their order.

    Raises:
        ValueError: the lists have different lengths.
    """
    _check_lengths(ids, sources=sources, texts=texts, labels=labels, predictions=predictions, confidences=confidences)
    texts, text_columns = _text_columns(texts)
    order = np.argsort(-np.asarray(confidences, np.float64), kind="stable")
    rows = [
        [ids[i], sources[i], _shown(labels[i]), _shown(predictions[i]), f"{confidences[i]:.6f}", *texts[i]]
        for i in order
        if labels[i] != predictions[i]
    ]
    return tab_separated(["id", "source", "label", "prediction", by, *text_columns], rows)


def confusion_picture(label_ids, predicted_ids, labels):
    """Draws the confusion matrix; the shade is the share of the gold class, which makes rare classes visible.

    Args:
        label_ids, predicted_ids: int [N], the gold and the predicted classes.
        labels: list of str, the names of the C classes.

    Returns:
        bytes, a PNG; None, with a log line, if matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        log.info("the confusion matrix is not drawn; to draw it: pip install 'matplotlib>=3.10,<4'")
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = confusion_matrix(label_ids, predicted_ids, len(labels))
    side = min(3 + 0.5 * len(labels), _MOST_INCHES)
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    _draw_confusions(figure, counts, [_short(label) for label in labels])
    file = io.BytesIO()
    # Without metadata, the same numbers give the same bytes with every version of matplotlib.
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _draw_confusions(figure, counts, labels):
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


def _short(label):
    return label if len(label) <= 24 else label[:23] + "\u2026"


def _text_columns(texts):
    """Returns the texts as lists of the same length, and the headers of their columns."""
    texts = [[text] if isinstance(text, str) else [part for part in text if part is not None] for text in texts]
    width = max(map(len, texts), default=1)
    columns = {1: ["text"], 2: ["text_a", "text_b"]}.get(width) or [f"text_{number + 1}" for number in range(width)]
    return [text + [""] * (width - len(text)) for text in texts], columns


def _shown(value):
    return value if isinstance(value, str) else f"{value:.6g}"


def _check_lengths(ids, **lists):
    for name, values in lists.items():
        if len(values) != len(ids):
            raise ValueError(f"there are {len(ids)} ids, but {len(values)} {name}; give one for each")
