"""Creates the content of report files: tables of predictions for programs."""

from collections.abc import Sequence
from typing import Any

from bert_keras.evaluation.tables import tab_separated

# With more classes, nobody could read the table.
MOST_CLASSES_OF_A_MATRIX = 200


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

    def cell_text(name: str, value: Any) -> str:
        return (
            f"{value:.6f}" if name.startswith("probability of ") else _format(value) if name == "prediction" else value
        )

    return tab_separated(list(rows[0]), [[cell_text(*cell) for cell in row.items()] for row in rows])


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
            _format(labels[i]),
            _format(predictions[i]),
            f"{confidences[i]:.6f}" if by == "confidence" else _format(confidences[i]),
            *([] if words is None else [words[i]]),
            *texts_of_rows[i],
        ]
        for i in range(len(ids))
    ]
    header = ["id", "source", "label", "prediction", by, *([] if words is None else ["words"]), *text_columns]
    return tab_separated(header, rows)


def _text_columns(texts: Sequence[str | tuple[str | None, ...]]) -> tuple[list[list[str]], list[str]]:
    """Returns the texts as lists of the same length, and the headers of their columns."""
    rows = [[text] if isinstance(text, str) else [part for part in text if part is not None] for text in texts]
    width = max(map(len, rows), default=1)
    columns = {1: ["text"], 2: ["text_a", "text_b"]}.get(width) or [f"text_{number + 1}" for number in range(width)]
    return [row + [""] * (width - len(row)) for row in rows], columns


def _format(value: str | float) -> str:
    return value if isinstance(value, str) else f"{value:.8g}"
