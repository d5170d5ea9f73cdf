"""The sections of report.html about the answers of a classifier."""

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.model_inputs import encode_pair
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.evaluation.calibration import answered_shares, draw_reliability, expected_calibration_error, reliability
from bert_keras.evaluation.classification import confusion_matrix, scores_of_classes
from bert_keras.evaluation.html_report import Html, heat_map, join, note, picture, shortened, table, tag, text_list
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage import paths
from bert_keras.storage.json_files import parse_json
from bert_keras.tasks.classification.data import ClassificationData, digest_of
from bert_keras.tasks.classification.labels import shown_label
from bert_keras.tasks.classification.report.files import CALIBRATION_FILE
from bert_keras.tasks.tables.examples import Example

# With more classes, a table of the most confused ones takes the place of the matrix.
_MOST_CLASSES_SHOWN = 30
_TEXTS_SHOWN = 20
_CHARS_OF_A_LONG_TEXT = 200
# Of so many texts that fill a sequence, those with the most characters, the tokens are counted for the list.
_COUNTED = 200


def sections_of(
    run_dir: RunDir, data: ClassificationData, answers: np.ndarray, outcome: tuple[np.ndarray, ...] | None
) -> tuple[dict[str, Html], dict[str, Html]]:
    """Returns sections about numbers and about texts, by heading; `answers` are those of `Classification.answers`.

    `outcome` has confidences, whether they are right, and the probabilities of the truth; None for regression.
    """
    dev = data.dev or []
    if outcome is None:
        order = np.argsort(-data.kind.errors(answers, dev), stable=True)
        return {}, {"Largest differences": _text_list(data, answers, order)}
    sections, truth, predicted = {}, data.kind.truth(dev), data.kind.decide(answers)
    if truth.ndim == 1:
        sections["Confusions"] = _confusions(truth, predicted, data.labels)
    sections["Classes"] = _classes(*scores_of_classes(truth, predicted, len(data.labels)), data.labels)
    sections["Calibration"] = _calibration(run_dir, data, *outcome[:2])
    truth_probabilities = np.reshape(outcome[2], (len(dev), -1)).min(-1)
    is_wrong = (truth != predicted).reshape(len(dev), -1).any(-1)
    order = np.argsort(truth_probabilities, stable=True)
    if not is_wrong.any():
        return sections, {"Most suspicious labels": note("The model gives each text the label that it has.")}
    message = (
        "The model gives these texts other labels. Read those with the lowest probabilities first: some may be wrong."
    )
    suspects = _text_list(data, answers, order[is_wrong[order]], truth_probabilities)
    return sections, {"Most suspicious labels": join(note(message), suspects)}


def long_texts(data: ClassificationData, features: dict[str, np.ndarray], tokenizer: FullTokenizer) -> tuple[int, Html]:
    """Returns how many evaluated examples fill all tokens of a sequence, and a section with the longest texts."""
    dev, length, index = data.dev or [], features["input_mask"].shape[-1], features["example_index"]
    is_full = features["input_mask"].all(-1).reshape(len(index), -1).any(-1)
    num_full, num_windows = len(set(index[is_full].tolist())), np.bincount(index)
    message = f"All examples have fewer than {length} tokens."
    if num_full:
        message = f"{num_full:,} of {len(dev):,} examples fill all {length} tokens of a sequence"
        message += "; the rest is in more sequences." if num_windows.max() > 1 else "; a longer text is cut."
    lengths = np.zeros(len(dev), np.int64)
    np.maximum.at(lengths, index, features["input_mask"].sum(-1, dtype=np.int64).reshape(len(index), -1).max(-1))
    num_chars = [example.num_chars for example in dev]
    found = [
        (_num_tokens(dev[row], tokenizer), row) for row in np.lexsort((np.negative(num_chars), -lengths))[:_COUNTED]
    ]
    items = []
    for num_tokens, row in sorted(found, key=lambda pair: -pair[0])[: _TEXTS_SHOWN // 2]:
        example = dev[row]
        read = f"in {num_windows[row]} sequences" if num_windows[row] > 1 else f"cut to {length}"
        facts = [f"{num_tokens:,} tokens", *([read] if num_tokens > length else []), example.source]
        items.append((facts, [shortened(text, _CHARS_OF_A_LONG_TEXT) for text in example.texts]))
    return num_full, join(note(message), text_list(items))


def _num_tokens(example: Example, tokenizer: FullTokenizer) -> int:
    """Returns the number of tokens of an example that is not cut, of multiple choice the longest one."""
    seconds = example.choices or (example.text_b,)
    return max(len(encode_pair(tokenizer, example.text_a, second, None)[0]) for second in seconds)


def _text_list(
    data: ClassificationData, answers: np.ndarray, order: np.ndarray, truth_probabilities: np.ndarray | None = None
) -> Html:
    """Returns the first examples in an order, with their labels and answers."""
    dev, predicted = data.dev or [], data.kind.report_values(answers)
    items = []
    for row in order[:_TEXTS_SHOWN]:
        label, answer = (
            f"{name:.4g}" if isinstance(name, float) else name or "none"
            for name in (shown_label(dev[row].label), predicted[row])
        )
        chance = [] if truth_probabilities is None else [f"probability {truth_probabilities[row]:.4f}"]
        facts = [["label ", tag("b", label)], chance, ["prediction ", tag("b", answer)], [dev[row].source]]
        items.append(([join(*fact) for fact in facts if fact], dev[row].texts))
    return text_list(items)


def _confusions(truth: np.ndarray, predicted: np.ndarray, labels: Sequence[str]) -> Html:
    if len(labels) <= _MOST_CLASSES_SHOWN:
        message = (
            "A row has the examples of a label, a column those of a prediction. The shade is the share of the row."
        )
        return join(heat_map(confusion_matrix(truth, predicted, len(labels)), labels), note(message))
    is_wrong, sizes = truth != predicted, np.bincount(truth)
    pairs: collections.Counter[tuple[int, int]]
    pairs = collections.Counter(zip(truth[is_wrong].tolist(), predicted[is_wrong].tolist(), strict=True))
    rows = [
        [labels[label], count, f"{100 * count / sizes[label]:.1f} %", tag("td", shortened(labels[answer]), dir="auto")]
        for (label, answer), count in pairs.most_common(_MOST_CLASSES_SHOWN)
    ]
    message = f"The most frequent of {len(pairs):,} confused pairs of the {len(labels):,} labels."
    return join(table(["label", "examples", "of the label", "prediction"], rows), note(message))


def _classes(scores: np.ndarray, counts: np.ndarray, labels: Sequence[str]) -> Html:
    """Returns a table of the classes; of many, those with the lowest F1."""
    rows = [[name, *row, count] for name, row, count in zip(labels, scores.tolist(), counts.tolist(), strict=True)]
    message = []
    if len(rows) > _MOST_CLASSES_SHOWN:
        rows = sorted((row for row in rows if row[4]), key=lambda row: row[3])[:_MOST_CLASSES_SHOWN]
        message = [note(f"Those of {len(labels):,} with the lowest F1; class_report.txt has all.")]
    return join(table(["label", "precision", "recall", "F1", "examples"], rows), *message)


def _calibration(run_dir: RunDir, data: ClassificationData, confidences: np.ndarray, is_right: np.ndarray) -> Html:
    """Returns the reliability and the shares of answers; also the reliability before a calibration of this run."""
    file, before = run_dir.file(CALIBRATION_FILE), None
    if paths.is_file(file):
        stored = parse_json(paths.read_text(file), file, "remove it")
        before = stored["before"] if stored.get("their_sha256") == digest_of(data.dev or ()) else None
    message = f"The expected calibration error is {expected_calibration_error(confidences, is_right):.3f}"
    message += f"; before the calibration it was {before['ece']:.3f} (grey)" if before else ""
    message += ". On the dashed line, answers are right as often as their confidence says."

    def draw(axes: Any) -> None:
        if before:
            draw_reliability(axes, before["reliability"], "#6b7280")
        draw_reliability(axes, reliability(confidences, is_right), "#2563eb")

    rows = [
        [f"{row['threshold']:g}", f"{100 * row['share']:.1f} %", "" if right is None else f"{100 * right:.1f} %"]
        for row in answered_shares(confidences, is_right)
        for right in [row["accuracy"]]
    ]
    answered = table(["confidence from", "answers", "right"], rows)
    return join(tag("div", picture(draw, 3.4), answered, class_="pictures"), note(message))
