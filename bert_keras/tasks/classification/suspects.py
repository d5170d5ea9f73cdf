"""Finds labels that may be wrong, texts in both files, and the texts that most need a label.

All functions work on vectors of texts, float [N, H] with the length 1, and on the probabilities that models give to
texts that they were not trained on.
"""

import collections
import dataclasses
from collections.abc import Sequence

import numpy as np

from bert_keras.data_prep.text.same_text import find_contradictions, find_shared, group_numbers
from bert_keras.tasks.dry_run.statistics import SIGNS
from bert_keras.tasks.tables.examples import Example

_NUM_NEIGHBOURS = 3
# Cosine from which two texts are nearly the same.
_NEARLY_EQUAL = 0.95
_ROWS_AT_A_TIME = 1000
_DIMENSIONS_OF_WORDS = 300
# A sign of Chinese or Japanese, a word, or another sign.
_WORD = rf"[{SIGNS}]|[^\W{SIGNS}]+|[^\w\s]"
_TOLERANCE = 1e-6  # for equal probabilities, as in cleanlab


@dataclasses.dataclass(frozen=True)
class Suspect:
    """A text whose label may be wrong.

    Attributes:
        source: its place: "train.csv line 41", or "train_data row 39" for data in memory, whose rows count from 0.
        id: the one in `id_column`; empty without it.
        label: the one in the file.
        suggestion: the label that models of the other texts give.
        margin: the probability of the label, less that of the suggestion: near -1 for a clear contradiction.
        is_confident: whether the suggestion is above the threshold of its class; see `are_confident`.
        neighbours: the other texts with the most similar vectors, each as "place: label".
        text, text_pair: the text; text_pair is None for a single text.
    """

    source: str
    id: str
    label: str
    suggestion: str
    margin: float
    is_confident: bool
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


def vectors_of_words(examples: Sequence[Example]) -> np.ndarray:
    """Returns vectors of texts by their words and pairs of words, without a model, float [N, H].

    They are those of latent semantic analysis: the weights of the words, tf-idf, in fewer dimensions.
    """
    from sklearn.decomposition import TruncatedSVD  # they load only where they are needed
    from sklearn.feature_extraction.text import TfidfVectorizer

    texts = [" ".join(example.texts) for example in examples]
    counts = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True, token_pattern=_WORD).fit_transform(texts)
    size = min(_DIMENSIONS_OF_WORDS, min(counts.shape) - 1)
    vectors = TruncatedSVD(size, random_state=0).fit_transform(counts) if size > 0 else counts.toarray()
    return vectors / np.maximum(np.linalg.norm(vectors, axis=-1, keepdims=True), 1e-9)


def find_suspects(
    examples: Sequence[Example], labels: Sequence[str], vectors: np.ndarray, probabilities: np.ndarray
) -> list[Suspect]:
    """Returns the examples that get another label than their own, the clearest contradiction first.

    `probabilities` are of models that were not trained on the example, float [N, C].
    """
    ids = np.array([labels.index(str(example.label)) for example in examples])
    best, is_confident = probabilities.argmax(-1), are_confident(probabilities, ids)
    margins = probabilities[np.arange(len(ids)), ids] - probabilities.max(-1)
    suspicious = [row for row in np.argsort(margins, stable=True) if margins[row] < 0]
    texts = np.array(group_numbers(example.key for example in examples))
    first_rows = np.unique(texts, return_index=True)[1]
    suspects = []
    for row, nearest in zip(
        suspicious, _nearest(vectors[suspicious], vectors[first_rows], _NUM_NEIGHBOURS + 1), strict=True
    ):
        others = [examples[first_rows[number]] for number, _ in nearest if number != texts[row]][:_NUM_NEIGHBOURS]
        neighbours = tuple(f"{other.source}: {other.label}" for other in others)
        example = examples[row]
        answer = str(example.label), labels[int(best[row])], float(margins[row]), bool(is_confident[row]), neighbours
        suspects.append(Suspect(example.source, example.id, *answer, example.text_a, example.text_b))
    return suspects


def are_confident(probabilities: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """Returns which labels confident learning finds wrong, bool [N].

    The threshold of a class is the mean of its probabilities for the examples with its label. A label is wrong if
    another class is the most probable one and, among the classes at their thresholds, is the first.
    Source: Northcutt et al. 2021, "Confident Learning"; the same as `find_label_issues` of cleanlab 2.9 with
    filter_by="confident_learning", also in its tolerance.

    Args:
        probabilities: of models that were not trained on the example, float [N, C].
        ids: the labels, int [N]; a class may have none.
    """
    counts = np.bincount(ids, minlength=probabilities.shape[-1])
    sums = np.bincount(ids, probabilities[np.arange(len(ids)), ids], minlength=len(counts))
    thresholds = np.where(counts, sums / np.maximum(counts, 1), np.inf)
    is_at_threshold = probabilities >= np.maximum(thresholds, 2 * _TOLERANCE) - _TOLERANCE
    guesses = np.where(is_at_threshold.sum(-1) > 1, probabilities.argmax(-1), is_at_threshold.argmax(-1))
    label_probabilities = probabilities[np.arange(len(ids)), ids]
    return is_at_threshold.any(-1) & (guesses != ids) & (label_probabilities < probabilities.max(-1) - _TOLERANCE)


def find_confused_classes(examples: Sequence[Example], suspects: Sequence[Suspect]) -> list[ConfusedClasses]:
    """Returns the pairs of classes in `suspects`, the most frequent first."""
    sizes = collections.Counter(str(example.label) for example in examples)
    pairs = collections.Counter((suspect.label, suspect.suggestion) for suspect in suspects)
    return [ConfusedClasses(*pair, count, count / sizes[pair[0]]) for pair, count in pairs.most_common()]


def find_duplicates(examples: Sequence[Example]) -> list[Duplicate]:
    """Returns equal texts with different labels, group by group."""
    groups = find_contradictions((example.key for example in examples), (example.label for example in examples))
    return [
        Duplicate(number, example.source, example.id, str(example.label), example.text_a, example.text_b)
        for number, group in enumerate(groups, 1)
        for example in (examples[row] for row in group)
    ]


def find_leaks(
    evaluated: Sequence[Example], vectors: np.ndarray, examples: Sequence[Example], train_vectors: np.ndarray
) -> list[Leak]:
    """Returns the evaluated texts that equal a training example, or nearly do, the most similar first."""
    equal = dict(find_shared((example.key for example in evaluated), (example.key for example in examples)))
    leaks = []
    for row, [(number, cosine)] in enumerate(_nearest(vectors, train_vectors, 1)):
        example = evaluated[row]
        number, similarity = (equal[row], 1.0) if row in equal else (number, min(cosine, 1.0))
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
        nearest = np.argsort(-cosines, axis=-1, stable=True)[:, :number]
        found += [
            [(int(row), float(text_cosines[row])) for row in rows]
            for rows, text_cosines in zip(nearest, cosines, strict=True)
        ]
    return found
