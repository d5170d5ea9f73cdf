"""The words that carry an answer: each word is hidden in turn, or the gradients of the word embeddings tell."""

import dataclasses
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

import numpy as np
import tensorflow as tf

from bert_keras.data_prep.text.places import Token
from bert_keras.modeling import ClassifierModel
from bert_keras.prediction.network import Question, Turns

log = logging.getLogger("bert_keras")

# Number of words to show.
_MOST_WORDS = 5
# Numbers of points between the text without words and the text: as many as the largest error needs, as a share of the
# difference of the logit, or as a number. On BBC news, MiniLM needed 64 or 128 for a third of the texts.
_NUMS_OF_POINTS = (32, 64, 128, 256, 512)
_LARGEST_ERROR, _LEAST_ERROR = 0.02, 1e-4
# Number of tokens whose activations are in memory at once.
_TOKENS_A_PASS = 512
# Sequences that the gradients of a sequence need at least: the two ends of the line, and the points between.
FEWEST_SEQUENCES = 2 + _NUMS_OF_POINTS[0]


@dataclasses.dataclass(frozen=True)
class WordWeight:
    """A word of a text, and how much it moves the answer.

    Attributes:
        word: as in the text.
        start, end: character offsets in its text: text[start:end].
        weight: the score of the answer, less the score without the word; below 0, the word speaks against the answer.
            By gradients: its part of the difference of the label's logit between the text and one of only [MASK].
        field: the name of its text: "text", for the second text of a pair "text_pair", for an answer to a question
            "context".
    """

    word: str
    start: int
    end: int
    weight: float
    field: str


@dataclasses.dataclass(frozen=True)
class SeenWord:
    """A word that the model reads, without a weight yet; `places` has its positions in each row that has some."""

    word: WordWeight
    places: dict[int, list[int]]


def seen_words(texts: Mapping[str, str], rows: Iterable[Iterable[Token]]) -> list[SeenWord]:
    """Returns the words of texts that rows of tokens have, in the order of the texts."""
    places = {}
    for row, tokens in enumerate(rows):
        for position, token in enumerate(tokens):
            if token.text in texts:
                places.setdefault((token.text, token.word), {}).setdefault(row, []).append(position)
    found = [
        SeenWord(WordWeight(texts[name][start:end], start, end, 0.0, name), word_places)
        for (name, (start, end)), word_places in places.items()
    ]
    order = list(texts)
    return sorted(found, key=lambda seen: (order.index(seen.word.field), seen.word.start))


def without_word(questions: Sequence[Question], word: SeenWord, mask_id: int) -> Iterator[Question]:
    """Yields the sequences that have a word, with [MASK] for each of its tokens."""
    for row, positions in word.places.items():
        input_ids = np.array(questions[row].input_ids)
        input_ids[positions] = mask_id
        yield Question(input_ids, questions[row].segment_ids)


def weights_of_words(
    words: Sequence[SeenWord], scores: Sequence[float], scores_without: Iterator[float]
) -> list[WordWeight]:
    """Returns the weight of each word for a score that is the mean of the rows.

    Args:
        words: of `seen_words`.
        scores: of the rows.
        scores_without: of the sequences of `without_word`, for one word after the other.
    """
    changes = [sum(scores[row] - next(scores_without) for row in word.places) for word in words]
    return weighed(words, (change / len(scores) for change in changes))


def gradients_of_words(
    gradients: "IntegratedGradients", questions: Sequence[Question], words: Sequence[SeenWord], mask_id: int
) -> list[WordWeight]:
    """Returns the integrated gradients of each word for the logit of a label, which is the mean of the sequences.

    The integral is along the line from [MASK] to each word, in the space of word embeddings; [CLS] and [SEP] stay. The
    weights add up to the difference of the logit between its ends ("Axiomatic Attribution for Deep Networks",
    Sundararajan et al. 2017). Gauss-Legendre points are exact for far fewer points than equal steps.
    """
    weights = np.zeros(len(words))
    for row, question in enumerate(questions):
        places = [word.places.get(row, []) for word in words]
        masked = np.array(question.input_ids)
        masked[[position for positions in places for position in positions]] = mask_id
        attributions = gradients.attributions(question, masked, len(questions) - row - 1)
        weights += [attributions[positions].sum() for positions in places]
    return weighed(words, (weights / len(questions)).tolist())


class IntegratedGradients:
    """The integrated gradients of a text's sequences for the logit of a label.

    Args:
        model: the classifier.
        network: gives each batch its turn, and ends the work if nobody waits for it any more.
        label: number of the label.
        check_budget: refuses a number of sequences that is too large for one text.
    """

    def __init__(self, model: ClassifierModel, network: Turns, label: int, check_budget: Callable[[int], None]):
        self._model, self._network, self._label, self._check_budget = model, network, label, check_budget
        self._num_computed = 0

    def attributions(self, question: Question, baseline_ids: np.ndarray, num_left: int) -> np.ndarray:
        """Returns the part of each token in the difference of a logit between a sequence and a baseline, float [T].

        num_left is the number of sequences of the text that come after this one.

        Raises:
            ValueError: the text needs too many sequences.
        """
        table = tf.convert_to_tensor(self._model.bert.embedding_table)
        baseline, vectors = (tf.gather(table, ids) for ids in (baseline_ids, question.input_ids))  # [T, E]
        with self._network.turn():
            at_baseline, at_vectors = self._logit(question, tf.stack([baseline, vectors])).numpy().tolist()
        self._num_computed += 2
        difference, parts = at_vectors - at_baseline, np.zeros(len(baseline_ids))
        for num_points in _NUMS_OF_POINTS:
            self._check_budget(self._num_computed + num_points + num_left * FEWEST_SEQUENCES)
            parts = self._integral(question, baseline, vectors, num_points)
            if abs(parts.sum() - difference) <= max(_LARGEST_ERROR * abs(difference), _LEAST_ERROR):
                return parts
        message = (
            "the gradients of the words add up to %.4g instead of %.4g, so they are not exact; why=true does not have "
            "this"
        )
        log.warning(message, parts.sum(), difference)
        return parts

    def _integral(self, question: Question, baseline: tf.Tensor, vectors: tf.Tensor, num_points: int) -> np.ndarray:
        """Returns the integral along the line of vectors [T, E] from a baseline, for each token."""
        points, weights = np.polynomial.legendre.leggauss(num_points)  # for an integral from -1 to 1
        size, total = max(1, _TOKENS_A_PASS // len(vectors)), tf.zeros_like(vectors)
        for first in range(0, num_points, size):
            shares = tf.constant((points[first : first + size] + 1) / 2, vectors.dtype)
            between = baseline + shares[:, None, None] * (vectors - baseline)  # [B, T, E]
            with self._network.turn(), tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(between)
                logits = self._logit(question, between)
                gradients = tape.gradient(logits, between)
            self._num_computed += len(shares)
            point_weights = tf.constant(weights[first : first + size] / 2, vectors.dtype)
            total += tf.einsum("b,bte->te", point_weights, gradients)
        return tf.reduce_sum(total * (vectors - baseline), axis=-1).numpy()

    def _logit(self, question: Question, word_vectors: tf.Tensor) -> tf.Tensor:
        """Returns the logits [B] of the vectors of words [B, T, E] in the place of a sequence's words."""
        rows = {"input_ids": question.input_ids, "segment_ids": question.segment_ids}
        features = {
            name: tf.tile(tf.constant(row, tf.int32)[None], [len(word_vectors), 1]) for name, row in rows.items()
        }
        encoded = self._model.bert.call(features | {"word_vectors": word_vectors})
        return self._model.head(encoded["pooled_output"], dropout_seed=None)[:, self._label]


def weighed(words: Sequence[SeenWord], weights: Iterable[float]) -> list[WordWeight]:
    """Returns words with their weights."""
    return [dataclasses.replace(seen.word, weight=weight) for seen, weight in zip(words, weights, strict=True)]


def strongest(words: Sequence[WordWeight] | None, form: str, num_words: int = _MOST_WORDS) -> list[str]:
    """Returns a line for each of the words that move the answer most, with weights in a form such as "+.3f"."""
    chosen = sorted(words or (), key=lambda word: -abs(word.weight))[:num_words]
    return [f"  {word.weight:{form}}  {word.word}" for word in sorted(chosen, key=lambda word: -word.weight)]
