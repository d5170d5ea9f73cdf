"""The windows in which a question and its passage are shown to the network: where they are, and their features."""

import logging
import math
from collections.abc import Sequence

import numpy as np

log = logging.getLogger("bert_keras")

FIRST_UNIQUE_ID = 1_000_000_000


def max_context(starts: Sequence[int], lengths: Sequence[int], num_pieces: int) -> np.ndarray:
    """Finds the window that shows the most around each piece.

    That is the one with the highest min(pieces to the left, pieces to the right) + 0.01 * its length, and of several
    the earliest. Release: `_check_is_max_context` of run_squad.py, which goes through all windows for each piece.

    Args:
        starts: where each window starts.
        lengths: how many pieces it has.
        num_pieces: int; the pieces of the passage.

    Returns:
        int32 [num_pieces], the index of a window.
    """
    best = np.zeros(num_pieces, np.int32)
    best_score = np.full(num_pieces, -1.0)
    for window, (start, length) in enumerate(zip(starts, lengths, strict=True)):
        places = np.arange(length)
        # In this order and precision, so that what is equal in the release is equal here.
        score = np.minimum(places, places[::-1]) + 0.01 * length
        is_better = score > best_score[start : start + length]
        best[start : start + length][is_better] = window
        best_score[start : start + length][is_better] = score[is_better]
    return best


class Windows:
    """The windows of a question: where they are in its passage, and their rows of features.

    Args:
        example_index: of the question.
        question: list of int; the ids of its pieces, already cut.
        pieces: PassagePieces, or whatever has `ids` and `words` of its length.
        max_seq_length: int; the pieces of a row.
        doc_stride: int; pieces from the start of a window to that of the next, at most.

    Attributes:
        starts: list of int; the piece that each window starts with.
        lengths: list of int; how many pieces of the passage it has.
    """

    def __init__(self, example_index, question, pieces, max_seq_length, doc_stride):
        self.example_index = example_index
        self.question = question
        self.pieces = pieces
        self.first = len(question) + 2  # the position of a row at which the passage starts
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
        """Writes the answer's place in each window that holds all of it; returns how many windows of one do not."""
        num_outside = 0
        for row, (start, length) in enumerate(zip(self.starts, self.lengths, strict=True)):
            if span and span[0] >= start and span[1] < start + length:
                rows["start_positions"][row] = span[0] - start + self.first
                rows["end_positions"][row] = span[1] - start + self.first
            elif span:
                num_outside += 1
        return num_outside


def empty_features(num_windows, max_seq_length, is_training):
    """Returns the features of windows that have not been filled in, named as in `squad.make_features`."""
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
    """Says in one line what became of the questions."""
    num_windows = [len(of_example.starts) for of_example in windows]
    notes = [f"{sum(number > 1 for number in num_windows)} of the questions take more than one"]
    empty = num_windows.count(0)
    if empty:
        notes.append(f"{empty} questions are about a text without words and have none")
    if num_cut:
        notes.append(f"{num_cut} questions are cut to {max_query_length} pieces")
    if num_outside:
        notes.append(f"{num_outside} windows do not hold the whole answer and are labelled with [CLS]")
    log.info(
        "%d questions in %d windows of %d pieces: %s",
        *(len(windows), sum(num_windows), max_seq_length, "; ".join(notes)),
    )
