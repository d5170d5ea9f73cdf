"""Packing of sequences into rows, without losing any."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.engine.input.packing import first_fit, pack


def make_features(lengths, width):
    lengths = np.array(lengths)
    mask = (np.arange(width) < lengths[:, None]).astype(np.int32)
    ids = np.arange(1, mask.size + 1, dtype=np.int32).reshape(mask.shape) * mask
    return {"input_ids": ids, "input_mask": mask, "segment_ids": mask * (np.arange(width) > 1).astype(np.int32)}


def test_each_sequence_goes_into_the_first_row_with_room():
    assert first_fit([5, 4, 6, 3, 1, 2, 9], row_length=10) == [[0, 1, 4], [2, 3], [5], [6]]
    assert first_fit([5, 4, 6, 3, 1, 2, 9], row_length=10, max_sequences=2) == [[0, 1], [2, 3], [4, 5], [6]]


def test_rows_are_closed_when_many_are_open():
    # A hundred rows with one free token, then sequences of one token, which see only the last 64 rows.
    rows = first_fit([9] * 100 + [1] * 100, row_length=10)
    assert [len(row) for row in rows] == [1] * 36 + [2] * 64 + [10, 10, 10, 6]


@settings(max_examples=30)
@given(st.lists(st.integers(1, 12), min_size=1, max_size=60), st.integers(12, 40), st.none() | st.integers(1, 4))
def test_every_sequence_is_in_one_row_and_no_row_is_too_full(lengths, row_length, max_sequences):
    rows = first_fit(lengths, row_length, max_sequences)
    assert sorted(number for row in rows for number in row) == list(range(len(lengths)))
    assert all(sum(lengths[number] for number in row) <= row_length for row in rows)
    assert all(row == sorted(row) and len(row) <= (max_sequences or len(row)) for row in rows)
    packed = pack(make_features(lengths, 12), row_length, max_sequences)
    ids = packed["input_ids"]
    for row, numbers in enumerate(rows):
        for place, number in enumerate(numbers):
            is_own = packed["sequence_ids"][row] == place + 1
            assert ids[row][is_own].tolist() == list(range(12 * number + 1, 12 * number + 1 + lengths[number]))
            assert packed["position_ids"][row][is_own].tolist() == list(range(lengths[number]))
            assert ids[row, packed["cls_positions"][row, place]] == 12 * number + 1
        assert packed["sequence_weights"][row].sum() == len(numbers)
    assert (packed["input_mask"] == (packed["sequence_ids"] > 0)).all()
    assert packed["input_mask"].sum() == sum(lengths)


def test_labels_move_with_their_sequences_and_tokens():
    features = make_features([3, 2, 4], 4) | {
        "next_sentence_labels": np.array([[1], [0], [1]]),
        "label_values": np.array([[0.5, 1.5], [2.5, 3.5], [4.5, 5.5]], np.float32),
        "label_ids": np.array([[7, 8, 9, -1], [1, -1, -1, -1], [4, 5, 6, 7]]),
        "masked_lm_positions": np.array([[1, 2], [1, 0], [3, 0]]),
        "masked_lm_ids": np.array([[11, 12], [21, 0], [31, 0]]),
        "masked_lm_weights": np.array([[1, 1], [1, 0], [1, 0]], np.float32),
    }
    packed = pack(features, row_length=6, max_sequences=3)
    assert packed["input_ids"].tolist() == [[1, 2, 3, 5, 6, 0], [9, 10, 11, 12, 0, 0]]
    assert packed["segment_ids"].tolist() == [[0, 0, 1, 0, 0, 0], [0, 0, 1, 1, 0, 0]]
    assert packed["sequence_ids"].tolist() == [[1, 1, 1, 2, 2, 0], [1, 1, 1, 1, 0, 0]]
    assert packed["position_ids"].tolist() == [[0, 1, 2, 0, 1, 0], [0, 1, 2, 3, 0, 0]]
    assert packed["cls_positions"].tolist() == [[0, 3, 0], [0, 0, 0]]
    assert packed["sequence_weights"].tolist() == [[1, 1, 0], [1, 0, 0]]
    assert packed["next_sentence_labels"].tolist() == [[[1], [0], [0]], [[1], [0], [0]]]
    assert packed["label_values"].tolist() == [[[0.5, 1.5], [2.5, 3.5], [0, 0]], [[4.5, 5.5], [0, 0], [0, 0]]]
    assert packed["label_ids"].tolist() == [[7, 8, 9, 1, -1, -1], [4, 5, 6, 7, -1, -1]]
    assert packed["masked_lm_positions"].tolist() == [[1, 2, 4], [3, 0, 0]]
    assert packed["masked_lm_ids"].tolist() == [[11, 12, 21], [31, 0, 0]]
    assert packed["masked_lm_weights"].tolist() == [[1, 1, 1], [1, 0, 0]]
    assert pack(features, row_length=6, multiple=4)["masked_lm_ids"].tolist() == [[11, 12, 21, 0], [31, 0, 0, 0]]


def test_rows_are_filled_up_to_a_multiple_with_rows_of_nothing():
    features = make_features([3, 2, 4], 4) | {"label_ids": np.arange(12).reshape(3, 4), "label_values": np.ones(3)}
    rows, filled_up = pack(features, row_length=6), pack(features, row_length=6, row_multiple=3)
    for name, values in filled_up.items():
        assert values[:2].tolist() == rows[name].tolist()
        assert set(values[2].ravel()) == {-1 if name == "label_ids" else 0}
        assert values.shape[0] == 3


def test_rows_that_cannot_be_packed_are_refused():
    features = make_features([3, 5], 5)
    with pytest.raises(ValueError, match="sequence 1 has 5 tokens, but a packed row has 4; give longer rows"):
        pack(features, row_length=4)
    for mask in ([0, 1, 1, 0, 0], [0, 0, 0, 0, 0]):
        features["input_mask"][0] = mask
        with pytest.raises(ValueError, match="a row without a token or with padding before one; only sequences that"):
            pack(features, row_length=8)
