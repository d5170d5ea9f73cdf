"""The words that carry the wrong answers of an evaluation."""

import functools
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.places import locate, place_rows
from bert_keras.tasks.ability import IDS
from bert_keras.tasks.finetuning.why import SeenWord, seen_words, strongest, weights_of_words
from bert_keras.tasks.tables.encoding import starts_of_rows

log = logging.getLogger("bert_keras")

# At most so many words of each answer, so many answers, and so many tokens that the network reads to find the words.
# Every evaluation does this, so it must take little time: BERT-Base on two cores reads so many in about 15 seconds.
_MOST_WORDS, _MOST_ERRORS, _MOST_TOKENS = 3, 20, 1 << 14


def words_of_errors(
    task: Any, outputs: dict[str, np.ndarray], answers: np.ndarray, places: Sequence[int]
) -> list[str] | None:
    """Finds words by hiding each in turn behind [MASK], weighted as by `why` of `TextClassifier`.

    Of several labels, the one with the largest error is explained. Examples after the first `_MOST_ERRORS`, or after
    those that `_MOST_TOKENS` suffice for, have "".

    Args:
        task: the `tasks.classification.task.Classification` of an evaluation.
        outputs: of the network for all examples.
        answers: those of `task.answers`, to all examples.
        places: numbers of the examples with errors.

    Returns:
        The words of the examples, one text for each. None: no word can be hidden.
    """
    data, all_features, tokenizer, infer = task.data, task.eval_features, task.tokenizer, task.infer
    if infer is None or "[MASK]" not in tokenizer.vocab or not data.kind.has_windows:
        return None
    explained: list[tuple[int, np.ndarray, list[SeenWord]]] = []
    hidden: list[tuple[int, list[int]]] = []
    locate_text = functools.partial(locate, tokenizer)
    num_tokens, index, dev = 0, all_features["example_index"], data.dev or []
    for place in places:
        rows = np.flatnonzero(index == place)
        texts = {"text": dev[place].text_a, "text_pair": dev[place].text_b or ""}
        segment_ids = [all_features["segment_ids"][row][all_features["input_mask"][row] > 0] for row in rows]
        starts = starts_of_rows(segment_ids, task.doc_stride)
        words = seen_words(texts, place_rows(tokenizer, segment_ids, texts, starts, locate_text))
        word_places = [(rows[row], positions) for word in words for row, positions in word.places.items()]
        num_tokens += sum(int(all_features["input_mask"][row].sum()) for row, _ in word_places)
        if num_tokens > _MOST_TOKENS or len(explained) == _MOST_ERRORS:
            message = "eval_errors.tsv has words for the first %s of %s errors: at most %s, with at most %s tokens"
            numbers = (len(explained), len(places), _MOST_ERRORS, _MOST_TOKENS)
            log.info(message, *(f"{number:,}" for number in numbers))
            break
        hidden += word_places
        explained.append((place, rows, words))
    if not hidden:
        return [""] * len(places)
    rows_to_hide = [row for row, _ in hidden]
    features = {name: all_features[name][rows_to_hide] for name in IDS}
    for input_ids, (_, positions) in zip(features["input_ids"], hidden, strict=True):
        input_ids[positions] = tokenizer.vocab["[MASK]"]
    scores, without = task.scores(outputs), iter(task.scores(infer(features)))
    cells = []
    for place, rows, words in explained:
        label, about, form = data.kind.explained(scores[rows], answers[place], dev[place])
        weights = weights_of_words(words, scores[rows, label].tolist(), (float(row[label]) for row in without))
        lines = strongest(weights, form, _MOST_WORDS)
        cells.append(about + ", ".join(" ".join(line.split()) for line in lines))
    return cells + [""] * (len(places) - len(cells))
