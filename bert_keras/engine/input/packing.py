"""Packs several sequences into one row of fixed length, which reduces padding.

`modeling.BertModel` separates the sequences of a row by "sequence_ids" [R, T], "position_ids" [R, T], "cls_positions"
[R, S] and "sequence_weights" [R, S]. Losses and gradients are those of sequences in separate rows, except for dropout
masks. Axes: N sequences, R rows, T tokens, S sequences of a row, P predictions.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from bert_keras.mistakes import Mistake

# Number of rows that first fit searches; more take longer and hardly fill rows better.
_NUM_OPEN_ROWS = 64
_PREDICTIONS = "masked_lm_"


def first_fit(lengths: Iterable[int], row_length: int, max_sequences: int | None = None) -> list[list[int]]:
    """Puts each sequence, in the order given, into the first row that has room, or into a new one.

    Returns the indices of the sequences in each row. A `max_sequences` of None means any number in a row.
    """
    rows, open_rows, room = [], [], []
    for number, length in enumerate(lengths):
        if length > row_length:
            raise Mistake(
                "sequence {} has {} tokens, but a packed row has {}; give longer rows, or cut it",
                number,
                length,
                row_length,
            )
        place = next((place for place, left in enumerate(room) if left >= length), None)
        if place is None:
            if len(room) == _NUM_OPEN_ROWS:
                del open_rows[0], room[0]
            place = len(room)
            rows.append([])
            open_rows.append(rows[-1])
            room.append(row_length)
        open_rows[place].append(number)
        room[place] -= length
        if len(open_rows[place]) == max_sequences:
            del open_rows[place], room[place]
    return rows


def pack(
    features: Mapping[str, np.ndarray],
    row_length: int,
    max_sequences: int | None = None,
    row_multiple: int = 1,
    multiple: int = 1,
) -> dict[str, np.ndarray]:
    """Packs the features of sequences into rows.

    Args:
        features: arrays with the sequences as first axis. "input_ids", "input_mask" and "segment_ids" are
            [N, T'], with padding at the end. Token labels are integers of the same shape, features named masked_lm_...
            are [N, P'], and all others belong to the sequence: [N, ...].
        row_length, max_sequences: T and S; None: the maximum over the rows.
        row_multiple: R is a multiple of it, and rows of padding come last.
        multiple: P is a multiple of it, and S, too, unless it is given.

    Returns:
        Arrays of tokens [R, T], of predictions [R, P], of sequences [R, S, ...]; and int32 "sequence_ids"
        [R, T] (1 for the first of a row, 0 for padding), "position_ids" [R, T], "cls_positions" [R, S], float32
        "sequence_weights" [R, S], 1 for a sequence and 0 for padding.

    Raises:
        ValueError: a sequence is empty, has padding before a token, or is longer than a row.
    """
    mask = features["input_mask"]
    lengths = mask.sum(-1)
    if not lengths.all() or not np.array_equal(mask, np.arange(mask.shape[1]) < lengths[:, None]):
        raise Mistake(
            "input_mask has a row without a token or with padding before one; only sequences that are followed by "
            "their padding can be packed"
        )
    rows = first_fit(lengths.tolist(), row_length, max_sequences)
    # For each sequence: its row, its index in the row, and the position of its first token.
    numbers = np.concatenate([np.array(row, np.int64) for row in rows])
    row_of = np.repeat(np.arange(len(rows)), [len(row) for row in rows])
    place = np.concatenate([np.arange(len(row)) for row in rows])
    start = np.concatenate([np.cumsum([0, *lengths[row[:-1]]]) for row in rows])
    num_rows = -(-len(rows) // row_multiple) * row_multiple
    num_places = max_sequences or -(-(int(place.max()) + 1) // multiple) * multiple
    taken = {name: values[numbers] for name, values in features.items()}

    packed = _pack_predictions(taken, row_of, start, num_rows, multiple)
    source = np.nonzero(taken["input_mask"])  # sequence and position of each token
    target = (row_of[source[0]], start[source[0]] + source[1])
    taken |= {
        "sequence_ids": np.broadcast_to((place + 1).astype(np.int32)[:, None], mask.shape),
        "position_ids": np.broadcast_to(np.arange(mask.shape[1], dtype=np.int32), mask.shape),
        "cls_positions": start.astype(np.int32),
        "sequence_weights": np.ones(len(start), np.float32),
    }
    for name, values in taken.items():
        if name.startswith(_PREDICTIONS):
            continue
        if values.shape == mask.shape and not np.issubdtype(values.dtype, np.floating):
            packed[name] = np.full((num_rows, row_length), -1 if name == "label_ids" else 0, values.dtype)
            packed[name][target] = values[source]
        else:
            packed[name] = np.zeros((num_rows, num_places, *values.shape[1:]), values.dtype)
            packed[name][row_of, place] = values
    return packed


def _pack_predictions(
    features: Mapping[str, np.ndarray],
    row_of: np.ndarray,
    start: np.ndarray,
    num_rows: int,
    multiple: int,
) -> dict[str, np.ndarray]:
    """Joins the predictions of a row that have a weight, and shifts their positions to those in the row."""
    if "masked_lm_positions" not in features:
        return {}
    source = np.nonzero(features["masked_lm_weights"])  # sequence and column of each prediction
    target_row = row_of[source[0]]
    counts = np.bincount(target_row, minlength=num_rows)
    num_columns = -(-int(counts.max()) // multiple) * multiple
    column = np.arange(len(target_row)) - np.repeat(np.cumsum(counts) - counts, counts)
    packed = {}
    for name in (name for name in features if name.startswith(_PREDICTIONS)):
        values = features[name][source]
        values = values + start[source[0]] if name.endswith("_positions") else values
        packed[name] = np.zeros((num_rows, num_columns), features[name].dtype)
        packed[name][target_row, column] = values
    return packed
