"""Compares the answers of a SavedModel to texts with those of the classes of `prediction` in Python."""

import copy
import dataclasses

import numpy as np

from bert_keras.export.checks.fresh_process import largest_difference, scale_of


@dataclasses.dataclass(frozen=True)
class LiveComparison:
    """Differences between the answers of a SavedModel and those of Python.

    Attributes:
        largest: float; the largest difference of two numbers.
        num_compared: int; number of texts that both answer.
        num_other: int; number of these texts whose answers differ.
    """

    largest: float
    num_compared: int
    num_other: int


def compare_with_live(task, predictor, texts, outputs, tolerance, is_quantised=False):
    """Compares the answers to texts that both can answer completely.

    The function skips texts that are empty or have no words or masks. It also skips cut texts, which Python reads
    through windows.

    Args:
        task: str, the task in task.json.
        predictor: an object of `prediction` for that task; for vectors with one layer and a pooling.
        texts: dict of arrays of bytes [B] or [B, K], in the order of the signature's inputs.
        outputs: dict of arrays [B, ...], the answers of the SavedModel.
        tolerance: float; see `largest_difference`; relative to the largest number if that is above 1.
        is_quantised: whether answers may differ. The function then only counts other answers, and ignores tolerance.

    Returns:
        LiveComparison.

    Raises:
        ValueError: answers differ, and is_quantised is false.
    """
    rows = [row for row in range(len(outputs["is_cut"])) if _is_comparable(row, texts, outputs)]
    asked = [_in_python(values[row] for values in texts.values()) for row in rows]
    if task == "question_answering":
        predictor = _by_offsets(predictor)
    largest, num_other = 0.0, 0
    for row, answer in zip(rows, predictor(asked) if asked else [], strict=True):
        expected = {name: np.asarray(value)[np.newaxis] for name, value in _EXPECTED[task](answer).items()}
        # Remove the padding of the batch.
        found = {
            name: outputs[name][(slice(row, row + 1), *map(slice, value.shape[1:]))] for name, value in expected.items()
        }
        what = f"serving_default, against Python, text {row + 1}"
        try:
            allowed = np.inf if is_quantised else tolerance * scale_of(expected)
            largest = max(largest, largest_difference(expected, found, allowed, what))
        except ValueError:
            if not is_quantised:
                raise
            num_other += 1
    return LiveComparison(largest, len(rows), num_other)


def _by_offsets(answerer):
    """Returns a copy of the answerer that answers with substrings of the text, as the graph always does."""
    answerer = copy.copy(answerer)
    answerer.settings = answerer.settings | {"answer_text": "offsets"}
    return answerer


def _is_comparable(row, texts, outputs):
    parts = [part for values in texts.values() for part in np.ravel(values[row])]
    has_parts = all(outputs[name][row] for name in ("num_words", "num_masks") if name in outputs)
    return has_parts and not outputs["is_cut"][row] and all(_decode(part).strip() for part in parts)


def _in_python(values):
    parts = [[_decode(part) for part in value] if isinstance(value, np.ndarray) else _decode(value) for value in values]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _decode(text):
    return text.decode("utf-8", errors="ignore")


def _encode(texts):
    return np.array([text.encode() for text in texts], object)


def _of_class(answer):
    return {
        "label": np.array(answer.label.encode(), object),
        "labels": _encode(answer.probabilities),
        "probabilities": list(answer.probabilities.values()),
    }


def _of_labels(answer):
    return {
        "labels": _encode(answer.probabilities),
        "probabilities": list(answer.probabilities.values()),
        "applies": [label in answer.labels for label in answer.probabilities],
    }


def _of_question(answer):
    expected = {
        "answer": np.array(answer.text.encode(), object),
        "start": -1 if answer.start is None else answer.start,
        "end": -1 if answer.end is None else answer.end,
        "is_impossible": answer.is_impossible,
    }
    return expected | ({} if answer.null_odds is None else {"null_odds": answer.null_odds})


def _of_words(answer):
    return {
        "num_words": len(answer.words),
        "words": _encode(word.word for word in answer.words),
        "tags": _encode(word.tag for word in answer.words),
        "probabilities": [word.probability for word in answer.words],
        "starts": [word.start for word in answer.words],
        "ends": [word.end for word in answer.words],
    }


def _of_masks(answer):
    tokens = [[guess.token.encode() for guess in guesses] for guesses in answer.masks]
    return {
        "num_masks": len(answer.masks),
        "tokens": np.array(tokens, object),
        "probabilities": [[guess.probability for guess in guesses] for guesses in answer.masks],
    }


_EXPECTED = {
    "classification": _of_class,
    "regression": lambda answer: {"value": answer.value},
    "multi_label": _of_labels,
    "multiple_choice": lambda answer: {"index": answer.index, "probabilities": answer.probabilities},
    "question_answering": _of_question,
    "token_classification": _of_words,
    "fill_mask": _of_masks,
    "vectors": lambda answer: {"vector": answer.values[0]},
}
