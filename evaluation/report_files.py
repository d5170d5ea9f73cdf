"""What a run tells of its predictions, as the content of files: tables for programs, a picture of the confusions."""

import importlib.util
import io
import logging

import numpy as np

from bert_keras.evaluation.classification import confusion_matrix
from bert_keras.evaluation.tables import tab_separated

log = logging.getLogger("bert_keras")

# Beyond these the numbers in the cells, and the picture itself, would be too small to read.
_MOST_NUMBERED_CLASSES = 30
_MOST_INCHES = 24


def predictions_table(ids, texts, predictions, probabilities=None, labels=None):
    """Every prediction with what it is about.

    Args:
        ids: list of N str or int.
        texts: list of N str, or of tuples of str for pairs (or a question and its choices); None in them is no text.
        predictions: list of N str (the names of the classes) or numbers.
        probabilities: float [N, C], or None.
        labels: list of C str, the names of the classes; needed with probabilities.

    Returns:
        str, tab-separated (`evaluation.tables.tab_separated`). Columns: `id`; `prediction`; `probability of <label>`
        for each label where there are probabilities; `text`, or `text_a` and `text_b`, or `text_1`, `text_2`, ... for
        more than two.

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
    """The predictions that are wrong, the surest first: where labels are doubtful, or a model misled.

    Args:
        ids: list of N str or int.
        sources: list of N str; the place of each in its file, such as "dev.tsv line 41".
        texts: list of N str, or of tuples of str for pairs (or a question and its choices); None in them is no text.
        labels: list of N str (names of the right classes) or numbers.
        predictions: list of N str or numbers.
        confidences: float [N], by which the rows are sorted, descending; for numbers how far the prediction is off.
        by: str, the head of that column.

    Returns:
        str, tab-separated (`evaluation.tables.tab_separated`): `id`, `source`, `label`, `prediction`, the confidence,
        and the texts as in `predictions_table`. Rows of the same confidence stay in their order.

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
    """The confusion matrix as a picture: shades are shares of the right class, so that rare classes are seen too.

    Args:
        label_ids: int [N], the right classes.
        predicted_ids: int [N].
        labels: list of str, the names of the C classes.

    Returns:
        bytes, a PNG; None, with a log line, where matplotlib is not installed.
    """
    if importlib.util.find_spec("matplotlib") is None:
        log.info("no picture of the confusion matrix: pip install 'matplotlib>=3.10,<4' adds it")
        return None
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    counts = confusion_matrix(label_ids, predicted_ids, len(labels))
    side = min(3 + 0.5 * len(labels), _MOST_INCHES)
    figure = Figure(figsize=(side + 1, side), layout="constrained")
    _draw_confusions(figure, counts, [_short(label) for label in labels])
    file = io.BytesIO()
    # Without metadata, so that the same figures give the same bytes with every version.
    FigureCanvasAgg(figure).print_png(file, metadata={"Software": None})
    return file.getvalue()


def _draw_confusions(figure, counts, labels):
    axes = figure.subplots()
    shares = counts / np.maximum(counts.sum(axis=1, keepdims=True), 1)
    image = axes.imshow(shares, cmap="Blues", vmin=0, vmax=1)
    places = range(len(labels))
    size = 10 if len(labels) <= 12 else 8 if len(labels) <= _MOST_NUMBERED_CLASSES else 6
    turn = {} if sum(map(len, labels)) < 30 else {"rotation": 45, "ha": "right", "rotation_mode": "anchor"}
    # A dollar sign would begin a formula.
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
    """Returns the texts as lists of one length, and the heads of their columns."""
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
