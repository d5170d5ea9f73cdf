"""Batches of packed rows: the examples of a step, each once, in as few rows as possible."""

import numpy as np
import pytest
from tiny_data import take

from bert_keras.engine.input.feature_batches import training_batches
from bert_keras.engine.input.packed_batches import pack_batches, packed_training_batches
from bert_keras.settings.groups import RunSettings
from tests.data_prep.test_feature_batches import LENGTHS, make_features

SHAPES = {
    "open": {"num_parts": 1},
    "two parts": {"num_parts": 2},
    "fixed": {"num_parts": 2, "num_rows": 3, "max_sequences": 5},
}


@pytest.fixture(scope="module")
def features():
    features = make_features(LENGTHS)
    labels = np.where(features["input_mask"], features["input_ids"] % 5, -1).astype(np.int32)
    return {**features, "numbers": features.pop("label_ids"), "label_ids": labels}


def packed(features, batch_size, **shape):
    return pack_batches(training_batches(features, batch_size, seed=3), **shape)


def examples_of(batch):
    """Returns the number of examples of a packed batch, then ids, segments, labels and positions of their tokens."""
    rows = {name: values.reshape(-1, *values.shape[2:]) for name, values in batch.items()}
    examples = []
    for row, place in zip(*np.nonzero(rows["sequence_weights"]), strict=True):
        is_own = rows["sequence_ids"][row] == place + 1
        assert np.argmax(is_own) == rows["cls_positions"][row, place]
        names = ("input_ids", "segment_ids", "label_ids", "position_ids")
        examples.append((int(rows["numbers"][row, place]), *(rows[name][row][is_own].tolist() for name in names)))
    is_nothing = rows["sequence_ids"] == 0
    assert not rows["input_mask"][is_nothing].any()
    assert (rows["label_ids"][is_nothing] == -1).all()
    return examples


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_the_examples_of_a_batch_are_those_of_the_same_step_unpacked(features, shape):
    unpacked = take(training_batches(features, 5, seed=3), 7)
    dataset = packed(features, 5, **shape)
    for expected, batch in zip(unpacked, take(dataset, 7), strict=True):
        assert {values.shape[0] for values in batch.values()} == {shape["num_parts"]}
        rows = []
        for row, number in enumerate(expected["numbers"]):
            length = LENGTHS[number]
            tokens = (expected[name][row, :length].tolist() for name in ("input_ids", "segment_ids", "label_ids"))
            rows.append((int(number), *tokens, list(range(length))))
        assert sorted(examples_of(batch)) == sorted(rows)
        assert {values.dtype for values in batch.values()} == {np.dtype("int32"), np.dtype("float32")}
    known = {name: spec.shape.as_list() for name, spec in dataset.element_spec.items()}
    is_fixed = "num_rows" in shape
    assert known["input_ids"] == ([2, 3, 40] if is_fixed else [shape["num_parts"], None, None])
    assert known["sequence_weights"] == ([2, 3, 5] if is_fixed else [shape["num_parts"], None, None])


def test_the_longest_come_first_and_rows_fill_up():
    features = make_features([6, 4, 1, 3, 6, 4, 5, 5, 6], num_tokens=10)
    [batch] = take(pack_batches(training_batches(features, 9, seed=0), num_parts=3), 1)
    assert batch["input_ids"].shape == (3, 2, 10)
    assert batch["input_mask"].sum(-1).tolist() == [[10, 10], [10, 10], [0, 0]]  # 6+4, 6+4, 6+3+1, 5+5


def test_examples_that_fill_less_than_a_row_make_a_shorter_one():
    features = make_features([3, 8, 7, 2], num_tokens=40)
    [batch] = take(pack_batches(training_batches(features, 4, seed=0)), 1)
    assert batch["input_ids"].shape == (1, 1, 24)
    [batch] = take(pack_batches(training_batches(features, 4, seed=0), 1, 1, 4), 1)
    assert batch["input_ids"].shape == (1, 1, 40)


def test_how_full_rows_are(features, messages):
    for batch_size, is_trimmed in ((4, False), (11, True)):
        num_batches = len(LENGTHS) // batch_size
        unpacked = take(training_batches(features, batch_size, 3, is_trimmed=is_trimmed), num_batches)
        settings = RunSettings(train_batch_size=batch_size, seed=3)
        batches = take(packed_training_batches(features, settings, 1, is_trimmed=is_trimmed), num_batches)
        counts = [batch["input_mask"].shape[1] for batch in batches]
        packed_share, share = (
            100 * (1 - np.concatenate([batch["input_mask"].ravel() for batch in some]).mean())
            for some in (batches, unpacked)
        )
        assert messages[-1] == (
            f"packing: {batch_size} examples fill {np.mean(counts):.1f} rows of 40 tokens, at most {max(counts)}; "
            f"padding: {packed_share:.1f} %, unpacked {share:.1f} %"
        )
