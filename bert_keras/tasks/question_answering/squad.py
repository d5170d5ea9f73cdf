"""Converts SQuAD questions to windows of features.

A context may be too long for the model. Overlapping windows cover it, and each is a row of features together with the
question. `tasks.question_answering.squad_answers` combines the predictions of the windows.
"""

import bisect
import collections
import dataclasses
import logging
import re
from collections.abc import Mapping, Sequence

import numpy as np

from bert_keras.data_prep.text.places import locate
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens
from bert_keras.mistakes import Mistake
from bert_keras.tasks.tables.encoding import window_starts

log = logging.getLogger("bert_keras")

FIRST_UNIQUE_ID = 1_000_000_000

# As in the original BERT, only these five characters separate words; a no-break space is part of a word.
_WORD = re.compile("[^ \t\r\n\u202f]+")


class Passage:
    """A text that questions refer to, its words, and the position in the text where each word starts."""

    def __init__(self, text: str):
        self.text = text
        matches = list(_WORD.finditer(text))
        self.words = [match.group() for match in matches]
        self.word_starts = [match.start() for match in matches]
        self._tokens: tuple[FullTokenizer, PassageTokens] | None = None

    def tokens(self, tokenizer: FullTokenizer) -> "PassageTokens":
        """Returns the tokens of the passage, which it keeps: windows and answers need them."""
        if self._tokens is None or self._tokens[0] is not tokenizer:
            self._tokens = tokenizer, PassageTokens(self, tokenizer)
        return self._tokens[1]

    def word_at(self, place: int) -> int:
        """Returns the index of the word at a position in the text; at white space, of the word before."""
        return bisect.bisect_right(self.word_starts, place) - 1


@dataclasses.dataclass(frozen=True)
class SquadExample:
    """A question about a passage, which is one object for all its questions; in training with its answer.

    `start_position` and `end_position` are the indices of the answer's first and last word; -1 if missing or not read.
    """

    question_id: str
    question: str
    passage: Passage
    answer_text: str = ""
    start_position: int = -1
    end_position: int = -1
    is_impossible: bool = False


class PassageTokens:
    """The tokens of a passage, int32 arrays: ids, words (index of each token's word), starts and ends (in the text).

    A word has the same tokens in the text as alone, so the whole text is tokenized at once.
    """

    def __init__(self, passage: Passage, tokenizer: FullTokenizer):
        tokens = [token[:3] for token in locate(tokenizer, passage.text, "context")]
        self.ids, self.starts, self.ends = np.array(tokens, np.int32).reshape(-1, 3).T.copy()
        self.words = np.searchsorted(np.array(passage.word_starts, np.int32), self.starts, "right").astype(np.int32) - 1

    def first_of_word(self, word: int) -> int:
        """Returns the index of the first token of a word, or of the next word's if it has none."""
        return int(np.searchsorted(self.words, word))


def make_features(
    examples: Sequence[SquadExample],
    tokenizer: FullTokenizer,
    max_seq_length: int,
    doc_stride: int,
    max_query_length: int,
    is_training: bool,
    counts: collections.Counter | None = None,
) -> dict[str, np.ndarray]:
    """Converts questions to the features of their windows: [CLS] question [SEP] window [SEP] and padding.

    A training window without the whole answer is labelled with [CLS], as in the original BERT. If `counts` is given, it
    replaces the log line: "windows" grows by the number of questions with several windows, "cut" by that of truncated
    ones.
    Source: `convert_examples_to_features` of the original run_squad.py.
    Differs from the original: a context is tokenized once rather than for each question. One loop over the windows, not
    one for each token, finds the window with the most context.

    Returns:
        dict of arrays, N windows in the order of the questions: `input_ids` int32 [N, T], `input_mask` and
        `segment_ids` int8 [N, T], `unique_ids` int64 [N], `example_index` and `doc_span_index` int32 [N], `doc_start`
        int32 [N] (the index in the passage of the window's first token), `token_to_orig_map` int32 [N, T] (the word of
        a passage token, else -1), `token_is_max_context` int8 [N, T] (1 if no other window has more context around the
        token). In training also `start_positions`, `end_positions` int32 [N] and `is_impossible` int8 [N].
    """
    check_room(max_seq_length, max_query_length)
    check_special_tokens(tokenizer.vocab, ("[CLS]", "[SEP]"))
    windows, num_cut = [], 0
    for index, example in enumerate(examples):
        question = tokenizer.encode(example.question)
        num_cut += len(question) > max_query_length
        passage = example.passage.tokens(tokenizer)  # the questions about a passage share the object
        windows.append(_Windows(index, question[:max_query_length], passage, max_seq_length, doc_stride))
    num_windows = [len(window_set.starts) for window_set in windows]
    features = _empty_features(sum(num_windows), max_seq_length, is_training)
    row, num_outside = 0, 0
    for example, window_set in zip(examples, windows, strict=True):
        rows = slice(row, row + len(window_set.starts))
        window_features = {name: values[rows] for name, values in features.items()}
        window_set.fill(window_features, tokenizer.vocab)
        if is_training:
            window_features["is_impossible"][:] = example.is_impossible
            num_outside += window_set.label(window_features, gold_span(example, window_set.passage, tokenizer))
        row = rows.stop
    if counts is None:
        cut = f"{num_cut} questions are cut to {max_query_length} tokens" if num_cut else ""
        _report(num_windows, max_seq_length, cut, num_outside)
    else:
        counts.update(windows=sum(number > 1 for number in num_windows), cut=num_cut)
    return features


def check_room(max_seq_length: int, max_query_length: int) -> None:
    """Refuses lengths that leave no room for a text."""
    if max_seq_length <= max_query_length + 3:
        raise Mistake(
            "{max_seq_length}={} leaves no room for a text after a question of {max_query_length}={} and 3 "
            "special tokens; give more than {}",
            max_seq_length,
            max_query_length,
            max_query_length + 3,
        )


def gold_span(example: SquadExample, passage: PassageTokens, tokenizer: FullTokenizer) -> tuple[int, int] | None:
    """Returns the first and the last token of an answer, or None if the question has no answer.

    If the answer's words contain its exact tokens, the span is narrowed to these: "1895" in "(1895-1943)".
    Source: `_improve_answer_span` of the original run_squad.py.
    """
    if example.is_impossible:
        return None
    first = passage.first_of_word(example.start_position)
    last = passage.first_of_word(example.end_position + 1) - 1
    answer = tokenizer.encode(example.answer_text)
    span = passage.ids[first : last + 1].tolist()
    for start in range(len(span) - len(answer) + 1 if answer else 0):
        if span[start : start + len(answer)] == answer:
            return first + start, first + start + len(answer) - 1
    return first, last


def max_context(starts: Sequence[int], lengths: Sequence[int], num_tokens: int) -> np.ndarray:
    """Finds the window with the most context around each token of a passage, int32 [num_tokens].

    It is the window with the highest min(tokens to the left, tokens to the right) + 0.01 * its length; ties go to the
    earliest.
    Source: `_check_is_max_context` of the original run_squad.py, which tries all windows for each token.
    """
    best = np.zeros(num_tokens, np.int32)
    best_score = np.full(num_tokens, -1.0)
    for window, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        places = np.arange(length)
        # This order and precision give the same ties as the original.
        score = np.minimum(places, places[::-1]) + 0.01 * length
        is_better = score > best_score[start : start + length]
        best[start : start + length][is_better] = window
        best_score[start : start + length][is_better] = score[is_better]
    return best


class _Windows:
    """The windows of a question in its PassageTokens: the first token and the number of tokens of each.

    `question` are token ids, already truncated.
    """

    def __init__(
        self, example_index: int, question: list[int], passage: PassageTokens, max_seq_length: int, doc_stride: int
    ):
        self.example_index = example_index
        self.question = question
        self.passage = passage
        self.first = len(question) + 2  # the position in a row where the passage starts
        num_tokens = len(passage.ids)
        room = max_seq_length - len(question) - 3
        self.starts = window_starts(num_tokens, room, min(room, doc_stride)) if num_tokens else []
        self.lengths = [min(room, num_tokens - start) for start in self.starts]

    def fill(self, rows: Mapping[str, np.ndarray], vocab: Mapping[str, int]) -> None:
        """Writes the windows into their rows of the features."""
        best = max_context(self.starts, self.lengths, len(self.passage.ids)) if len(self.starts) > 1 else None
        rows["example_index"][:] = self.example_index
        rows["doc_span_index"][:] = np.arange(len(self.starts))
        rows["doc_start"][:] = self.starts
        rows["input_ids"][:, : self.first] = [vocab["[CLS]"], *self.question, vocab["[SEP]"]]
        for row, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            first, end = self.first, self.first + length
            rows["input_ids"][row, first:end] = self.passage.ids[start : start + length]
            rows["input_ids"][row, end] = vocab["[SEP]"]
            rows["input_mask"][row, : end + 1] = 1
            rows["segment_ids"][row, first : end + 1] = 1
            rows["token_to_orig_map"][row, first:end] = self.passage.words[start : start + length]
            rows["token_is_max_context"][row, first:end] = 1 if best is None else best[start : start + length] == row

    def label(self, rows: Mapping[str, np.ndarray], span: tuple[int, int] | None) -> int:
        """Writes the answer's position into each window that contains all of it; returns how many windows do not."""
        if span is None:
            return 0
        starts, ends = np.array(self.starts), np.array(self.starts) + self.lengths
        is_inside = (span[0] >= starts) & (span[1] < ends)
        rows["start_positions"][is_inside] = self.first + span[0] - starts[is_inside]
        rows["end_positions"][is_inside] = self.first + span[1] - starts[is_inside]
        return int(np.sum(~is_inside))


def _empty_features(num_windows: int, max_seq_length: int, is_training: bool) -> dict[str, np.ndarray]:
    shape = (num_windows, max_seq_length)
    features = {
        "input_ids": np.zeros(shape, np.int32),
        "input_mask": np.zeros(shape, np.int8),
        "segment_ids": np.zeros(shape, np.int8),
        "unique_ids": FIRST_UNIQUE_ID + np.arange(num_windows, dtype=np.int64),
        "example_index": np.zeros(num_windows, np.int32),
        "doc_span_index": np.zeros(num_windows, np.int32),
        "doc_start": np.zeros(num_windows, np.int32),
        "token_to_orig_map": np.full(shape, -1, np.int32),
        "token_is_max_context": np.zeros(shape, np.int8),
    }
    labels = {"start_positions": np.int32, "end_positions": np.int32, "is_impossible": np.int8}
    if is_training:
        features |= {name: np.zeros(num_windows, dtype) for name, dtype in labels.items()}
    return features


def _report(num_windows: list[int], max_seq_length: int, cut: str, num_outside: int) -> None:
    """Logs a summary of the windows and of truncated questions in one line."""
    notes = [f"{sum(number > 1 for number in num_windows)} of the questions need more than one"]
    num_empty = num_windows.count(0)
    if num_empty:
        notes.append(f"{num_empty} questions have no window, because their text has no words")
    if cut:
        notes.append(cut)
    if num_outside:
        notes.append(f"{num_outside} windows do not contain the whole answer and are labelled with [CLS]")
    summary = f"{len(num_windows)} questions in {sum(num_windows)} windows of {max_seq_length} tokens"
    log.info("%s: %s", summary, "; ".join(notes))
