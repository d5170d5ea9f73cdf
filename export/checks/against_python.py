"""What a SavedModel gives for texts, held to what the classes of `prediction` answer in Python."""

import copy
import dataclasses

import numpy as np

from bert_keras.export.checks.fresh_process import largest_difference, scale_of


@dataclasses.dataclass(frozen=True)
class LiveComparison:
    """How far a SavedModel is from Python.

    Attributes:
        largest: float; the largest difference of two numbers.
        num_compared: int; the texts that both answer.
        num_other: int; those of them to which the answers are not the same.
    """

    largest: float
    num_compared: int
    num_other: int


def compare_with_live(task, predictor, texts, outputs, tolerance, is_quantised=False):
    """Compares the texts that both can answer: Python refuses empty ones, and reads long ones through windows.

    Args:
        task: str, as task.json has it.
        predictor: an object of `prediction` for that task; of vectors with one layer and a pooling.
        texts: dict of arrays of bytes [B] or [B, K], the inputs of the signature in their order.
        outputs: dict of arrays [B, ...] that it gave.
        tolerance: float; see `largest_difference`; it is a share of the largest number, where one is above 1.
        is_quantised: whether answers may be others; they are counted.

    Returns:
        LiveComparison.

    Raises:
        ValueError: an answer is another.
    """
    rows = [row for row in range(len(outputs["is_cut"])) if _is_comparable(row, texts, outputs)]
    asked = [_in_python(values[row] for values in texts.values()) for row in rows]
    if task == "question_answering":
        predictor = _by_offsets(predictor)
    largest, num_other = 0.0, 0
    for row, answer in zip(rows, predictor(asked) if asked else [], strict=True):
        expected = {name: np.asarray(value)[np.newaxis] for name, value in _EXPECTED[task](answer).items()}
        # Rows of a batch are padded to the longest.
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
    """Returns the answerer, giving what stands in the text: in a graph that is so whatever the training was told."""
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
