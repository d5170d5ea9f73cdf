"""The words that carry the wrong answers of an evaluation."""

import functools
import logging
from collections.abc import Callable, Sequence

import numpy as np

from bert_keras.data_prep.text.places import locate, place_rows
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.tasks.ability import IDS
from bert_keras.tasks.classification.data import ClassificationData
from bert_keras.tasks.finetuning.why import SeenWord, seen_words, strongest, weights_of_words
from bert_keras.tasks.tables.encoding import starts_of_rows

log = logging.getLogger("bert_keras")

# At most so many words of each answer, so many answers, and so many tokens that the network reads to find the words.
# Every evaluation does this, so it must take little time: BERT-Base on two cores reads so many in about 15 seconds.
_MOST_WORDS, _MOST_ERRORS, _MOST_TOKENS = 3, 20, 1 << 14


class WordsOfErrors:
    """Finds words by hiding each in turn behind [MASK], weighted as by `why` of `TextClassifier`.

    Args:
        data: its `dev` has the examples of the evaluation.
        features: those of the examples, see `tasks.finetuning.task.Task`.
        tokenizer: its vocabulary has [MASK].
        doc_stride: that of the features.
    """

    def __init__(
        self,
        data: ClassificationData,
        features: dict[str, np.ndarray],
        tokenizer: FullTokenizer,
        doc_stride: int | None,
    ) -> None:
        self._data, self._features, self._tokenizer, self._doc_stride = data, features, tokenizer, doc_stride

    def cells(
        self,
        places: Sequence[int],
        answers: np.ndarray,
        scores: np.ndarray,
        scores_of: Callable[[dict[str, np.ndarray]], np.ndarray],
    ) -> list[str]:
        """Returns the words of examples, one text for each.

        Of several labels, the one with the largest error is explained. Examples after the first `_MOST_ERRORS`, or
        after those that `_MOST_TOKENS` suffice for, have "".

        Args:
            places: numbers of the examples.
            answers: those of `Classification.answers`, to all examples.
            scores: the answers to all sequences, float64 [N, C]; for regression [N, 1].
            scores_of: returns the scores of other sequences from their features.
        """
        explained: list[tuple[int, np.ndarray, list[SeenWord]]] = []
        hidden: list[tuple[int, list[int]]] = []
        locate_text = functools.partial(locate, self._tokenizer)
        num_tokens, index, dev = 0, self._features["example_index"], self._data.dev or []
        for place in places:
            rows = np.flatnonzero(index == place)
            texts = {"text": dev[place].text_a, "text_pair": dev[place].text_b or ""}
            segment_ids = [self._features["segment_ids"][row][self._features["input_mask"][row] > 0] for row in rows]
            starts = starts_of_rows(segment_ids, self._doc_stride)
            words = seen_words(texts, place_rows(self._tokenizer, segment_ids, texts, starts, locate_text))
            of_words = [(rows[row], positions) for word in words for row, positions in word.places.items()]
            num_tokens += sum(int(self._features["input_mask"][row].sum()) for row, _ in of_words)
            if num_tokens > _MOST_TOKENS or len(explained) == _MOST_ERRORS:
                message = "eval_errors.tsv has words for the first %s of %s errors: at most %s, with at most %s tokens"
                numbers = (len(explained), len(places), _MOST_ERRORS, _MOST_TOKENS)
                log.info(message, *(f"{number:,}" for number in numbers))
                break
            hidden += of_words
            explained.append((place, rows, words))
        if not hidden:
            return [""] * len(places)
        rows_to_hide = [row for row, _ in hidden]
        features = {name: self._features[name][rows_to_hide] for name in IDS}
        for input_ids, (_, positions) in zip(features["input_ids"], hidden, strict=True):
            input_ids[positions] = self._tokenizer.vocab["[MASK]"]
        without = iter(scores_of(features))
        cells = []
        for place, rows, words in explained:
            label, about, form = self._data.kind.explained(scores[rows], answers[place], dev[place])
            weights = weights_of_words(words, scores[rows, label].tolist(), (float(row[label]) for row in without))
            lines = strongest(weights, form, _MOST_WORDS)
            cells.append(about + ", ".join(" ".join(line.split()) for line in lines))
        return cells + [""] * (len(places) - len(cells))
