"""Finds labels that may be wrong, texts in both files, and the texts that most need a label.

All functions work on vectors of texts, float [N, H] with the length 1, and on the probabilities that models give to
texts that they were not trained on.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_keras.data_prep.tasks.examples import Example

_NUM_NEIGHBOURS = 3
# Cosine from which two texts are nearly the same.
_NEARLY_EQUAL = 0.95
_ROWS_AT_A_TIME = 1000


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A text whose label may be wrong.

    Attributes:
        source: its place: "train.csv line 41", or "train_data row 39" for data in memory, whose rows count from 0.
        id: the one in `id_column`; empty without it.
        label: the one in the file.
        suggestion: the label that models of the other texts give.
        margin: the probability of the label, less that of the suggestion: near -1 for a clear contradiction.
        neighbours: the texts with the most similar vectors of the encoder, each as "place: label".
        text, text_pair: the text; text_pair is None for a single text.
    """

    source: str
    id: str
    label: str
    suggestion: str
    margin: float
    neighbours: tuple[str, ...]
    text: str
    text_pair: str | None = None


@dataclasses.dataclass(frozen=True)
class ConfusedClasses:
    """Two classes: `count` texts of `label` get the `suggestion`; `share` is their part of all texts of the label."""

    label: str
    suggestion: str
    count: int
    share: float


@dataclasses.dataclass(frozen=True)
class Duplicate:
    """One of several equal texts with different labels.

    `group` numbers the texts that are the same, from 1.
    """

    group: int
    source: str
    id: str
    label: str
    text: str
    text_pair: str | None = None


@dataclasses.dataclass(frozen=True)
class Leak:
    """A text to evaluate on that training has, too: the same (`similarity` 1), or nearly (a cosine from 0.95)."""

    source: str
    id: str
    train_source: str
    train_id: str
    similarity: float
    label: str
    train_label: str
    text: str
    train_text: str


@dataclasses.dataclass(frozen=True)
class NextLabel:
    """A text to label next: with the most probable `guess`, its lead before the second label, and the text."""

    source: str
    id: str
    guess: str
    margin: float
    text: str
    text_pair: str | None = None


def find_suspects(
    examples: Sequence[Example], labels: Sequence[str], vectors: np.ndarray, probabilities: np.ndarray
) -> list[Suspect]:
    """Returns the examples that get another label than their own, the clearest contradiction first.

    `probabilities` are of models that were not trained on the example, float [N, C].
    """
    rows = np.arange(len(examples))
    of_label = probabilities[rows, [labels.index(str(example.label)) for example in examples]]
    best = probabilities.argmax(-1)
    margins = of_label - probabilities.max(-1)
    suspicious = [row for row in np.argsort(margins, kind="stable") if margins[row] < 0]
    suspects = []
    for row, nearest in zip(suspicious, _nearest(vectors[suspicious], vectors, _NUM_NEIGHBOURS + 1), strict=True):
        others = [number for number, _ in nearest if number != row][:_NUM_NEIGHBOURS]
        neighbours = tuple(f"{examples[number].source}: {examples[number].label}" for number in others)
        example = examples[row]
        answer = str(example.label), labels[int(best[row])], float(margins[row]), neighbours
        suspects.append(Suspect(example.source, example.id, *answer, example.text_a, example.text_b))
    return suspects


def find_confused_classes(examples: Sequence[Example], suspects: Sequence[Suspect]) -> list[ConfusedClasses]:
    """Returns the pairs of classes in `suspects`, the most frequent first."""
    sizes = collections.Counter(str(example.label) for example in examples)
    pairs = collections.Counter((suspect.label, suspect.suggestion) for suspect in suspects)
    return [ConfusedClasses(*pair, count, count / sizes[pair[0]]) for pair, count in pairs.most_common()]


def find_duplicates(examples: Sequence[Example], keys: Sequence[object]) -> list[Duplicate]:
    """Returns the texts with equal `keys`, one for each example, but different labels, group by group."""
    groups = collections.defaultdict(list)
    for example, key in zip(examples, keys, strict=True):
        groups[key].append(example)
    contradicting = [group for group in groups.values() if len({example.label for example in group}) > 1]
    return [
        Duplicate(number, example.source, example.id, str(example.label), example.text_a, example.text_b)
        for number, group in enumerate(contradicting, 1)
        for example in group
    ]


def find_leaks(
    evaluated: Sequence[Example],
    keys: Sequence[object],
    vectors: np.ndarray,
    examples: Sequence[Example],
    train_keys: Sequence[object],
    train_vectors: np.ndarray,
) -> list[Leak]:
    """Returns the evaluated texts that equal a training example, or nearly do, the most similar first."""
    places = {key: number for number, key in enumerate(train_keys)}
    leaks = []
    nearest = _nearest(vectors, train_vectors, 1)
    for example, key, [(number, cosine)] in zip(evaluated, keys, nearest, strict=True):
        number, similarity = (places[key], 1.0) if key in places else (number, min(cosine, 1.0))
        if similarity >= _NEARLY_EQUAL:
            other = examples[number]
            labels = str(example.label), str(other.label)
            texts = (" | ".join(filter(None, (one.text_a, one.text_b))) for one in (example, other))
            sources = example.source, example.id, other.source, other.id
            leaks.append(Leak(*sources, similarity, *labels, *texts))
    return sorted(leaks, key=lambda leak: -leak.similarity)


def choose_next(
    examples: Sequence[Example], labels: Sequence[str], vectors: np.ndarray, probabilities: np.ndarray, number: int
) -> list[NextLabel]:
    """Returns up to `number` texts that help most with a label: unclear ones that are unlike each other.

    Each choice has the largest product of 1 - margin and of 1 - the cosine to the most similar text before it.
    """
    ordered = np.sort(probabilities, axis=-1)
    margins = ordered[:, -1] - ordered[:, -2]
    best, distance = probabilities.argmax(-1), np.ones(len(examples))
    chosen: list[NextLabel] = []
    is_left = np.ones(len(examples), bool)
    for _ in range(min(number, len(examples))):
        row = int(np.where(is_left, (1 - margins) * distance, -1.0).argmax())
        is_left[row] = False
        distance = np.minimum(distance, np.maximum(1 - vectors @ vectors[row], 0))
        example = examples[row]
        guess = labels[int(best[row])]
        chosen.append(NextLabel(example.source, example.id, guess, float(margins[row]), example.text_a, example.text_b))
    return chosen


def _nearest(vectors: np.ndarray, others: np.ndarray, number: int) -> list[list[tuple[int, float]]]:
    """Returns the nearest of the other vectors for each vector, with their cosines, the nearest first."""
    found = []
    for start in range(0, len(vectors), _ROWS_AT_A_TIME):
        cosines = vectors[start : start + _ROWS_AT_A_TIME] @ others.T
        nearest = np.argsort(-cosines, axis=-1, kind="stable")[:, :number]
        found += [
            [(int(row), float(of_text[row])) for row in rows] for rows, of_text in zip(nearest, cosines, strict=True)
        ]
    return found
