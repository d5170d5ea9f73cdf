"""The windows of a question and its passage: their positions and their features."""

import logging
import math
from collections.abc import Sequence

import numpy as np

log = logging.getLogger("bert_keras")

FIRST_UNIQUE_ID = 1_000_000_000


def max_context(starts: Sequence[int], lengths: Sequence[int], num_pieces: int) -> np.ndarray:
    """Finds the window with the most context around each token.

    It is the window with the highest min(tokens to the left, tokens to the right) + 0.01 * its length; ties go to the
    earliest.
    Source: `_check_is_max_context` of the original run_squad.py, which tries all windows for each token.

    Args:
        starts: the index of each window's first token.
        lengths: the number of tokens in each window.
        num_pieces: int; the number of tokens in the passage.

    Returns:
        int32 [num_pieces], the index of a window for each token.
    """
    best = np.zeros(num_pieces, np.int32)
    best_score = np.full(num_pieces, -1.0)
    for window, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        places = np.arange(length)
        # This order and precision give the same ties as the original.
        score = np.minimum(places, places[::-1]) + 0.01 * length
        is_better = score > best_score[start : start + length]
        best[start : start + length][is_better] = window
        best_score[start : start + length][is_better] = score[is_better]
    return best


class Windows:
    """The windows of a question: their positions in its passage, and their rows of features.

    Args:
        example_index: of the question.
        question: list of int; its token ids, already truncated.
        pieces: PassagePieces, or an object with its `ids`, `words` and length.
        max_seq_length: int; the tokens of a row.
        doc_stride: int; the maximum number of tokens from the start of a window to that of the next.

    Attributes:
        starts: list of int; the index of each window's first token.
        lengths: list of int; the number of passage tokens in each window.
    """

    def __init__(self, example_index, question, pieces, max_seq_length, doc_stride):
        self.example_index = example_index
        self.question = question
        self.pieces = pieces
        self.first = len(question) + 2  # the position in a row where the passage starts
        room = max_seq_length - len(question) - 3
        step = min(room, doc_stride)
        num_windows = 1 + max(0, math.ceil((len(pieces) - room) / step)) if len(pieces) else 0
        self.starts = [window * step for window in range(num_windows)]
        self.lengths = [min(room, len(pieces) - start) for start in self.starts]

    def fill(self, rows, vocab):
        """Writes the windows into their rows of the features."""
        head = [vocab["[CLS]"], *self.question, vocab["[SEP]"]]
        best = max_context(self.starts, self.lengths, len(self.pieces)) if len(self.starts) > 1 else None
        rows["example_index"][:] = self.example_index
        rows["doc_span_index"][:] = np.arange(len(self.starts))
        rows["doc_start"][:] = self.starts
        rows["input_ids"][:, : self.first] = head
        for row, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            first, end = self.first, self.first + length
            rows["input_ids"][row, first:end] = self.pieces.ids[start : start + length]
            rows["input_ids"][row, end] = vocab["[SEP]"]
            rows["input_mask"][row, : end + 1] = 1
            rows["segment_ids"][row, first : end + 1] = 1
            rows["token_to_orig_map"][row, first:end] = self.pieces.words[start : start + length]
            rows["token_is_max_context"][row, first:end] = 1 if best is None else best[start : start + length] == row

    def label(self, rows, span):
        """Writes the answer's position into each window that contains all of it; returns how many windows do not."""
        num_outside = 0
        for row, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            if span and span[0] >= start and span[1] < start + length:
                rows["start_positions"][row] = span[0] - start + self.first
                rows["end_positions"][row] = span[1] - start + self.first
            elif span:
                num_outside += 1
        return num_outside


def empty_features(num_windows, max_seq_length, is_training):
    """Returns features of windows for `Windows.fill`, named as in `squad.make_features`."""
    features = {
        "input_ids": np.zeros((num_windows, max_seq_length), np.int32),
        "input_mask": np.zeros((num_windows, max_seq_length), np.int8),
        "segment_ids": np.zeros((num_windows, max_seq_length), np.int8),
        "unique_ids": FIRST_UNIQUE_ID + np.arange(num_windows, dtype=np.int64),
        "example_index": np.zeros(num_windows, np.int32),
        "doc_span_index": np.zeros(num_windows, np.int32),
        "doc_start": np.zeros(num_windows, np.int32),
        "token_to_orig_map": np.full((num_windows, max_seq_length), -1, np.int32),
        "token_is_max_context": np.zeros((num_windows, max_seq_length), np.int8),
    }
    if is_training:
        features["start_positions"] = np.zeros(num_windows, np.int32)
        features["end_positions"] = np.zeros(num_windows, np.int32)
        features["is_impossible"] = np.zeros(num_windows, np.int8)
    return features


def report(windows, max_seq_length, num_cut, max_query_length, num_outside):
    """Logs a summary of the windows and of truncated questions in one line."""
    num_windows = [len(of_example.starts) for of_example in windows]
    notes = [f"{sum(number > 1 for number in num_windows)} of the questions need more than one"]
    empty = num_windows.count(0)
    if empty:
        notes.append(f"{empty} questions have no window, because their text has no words")
    if num_cut:
        notes.append(f"{num_cut} questions are cut to {max_query_length} tokens")
    if num_outside:
        notes.append(f"{num_outside} windows do not contain the whole answer and are labelled with [CLS]")
    log.info(
        "%d questions in %d windows of %d tokens: %s",
        *(len(windows), sum(num_windows), max_seq_length, "; ".join(notes)),
    )
