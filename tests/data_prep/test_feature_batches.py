"""Batches of features in memory: row order and truncation."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import make_inputs
from tiny_data import assert_same_batches, take

from bert_keras.engine.input.feature_batches import prediction_batches, training_batches


def make_features(lengths, num_tokens=40):
    """Makes rows of the given lengths; every array encodes the row, so that mixed-up rows are detected."""
    inputs = make_inputs(np.random.default_rng(0), lengths, num_tokens, 30522)
    return inputs | {"label_ids": np.arange(len(lengths), dtype=np.int32)}


LENGTHS = [3, 8, 9, 40, 5, 16, 17, 2, 33, 4, 11]


@pytest.fixture(scope="module")
def features():
    return make_features(LENGTHS)


def rows_of(batches):
    return np.concatenate([batch["label_ids"] for batch in batches]).tolist()


def assert_batches_hold_the_rows(batches, features):
    """Checks that every batch has whole rows and that only zeros were cut off."""
    for batch in batches:
        rows = batch["label_ids"]
        length = batch["input_mask"].shape[-1]
        for name in ("input_ids", "input_mask", "segment_ids"):
            np.testing.assert_array_equal(batch[name], features[name][rows][..., :length], err_msg=name)
            assert not features[name][rows][..., length:].any()


def test_each_epoch_is_a_different_permutation(features):
    rows = np.reshape(rows_of(take(training_batches(features, 4, seed=3), 11)), (4, 11))
    for epoch in rows:
        assert sorted(epoch) == list(range(11))
    assert len({tuple(range(11)), *map(tuple, rows)}) == 5


def test_every_row_may_come_first():
    """The original BERT shuffles within a window, which keeps late rows of a file out of the first batches."""
    features = make_features([4] * 300, num_tokens=4)
    for seed in range(4):
        [batch] = take(training_batches(features, 100, seed), 1)
        assert 20 < sum(batch["label_ids"] >= 200) < 50  # 33 of 100 are expected


def test_batches_are_a_function_of_seed_and_step(features):
    batches = take(training_batches(features, 4, seed=3, is_trimmed=True), 9)
    for step in (1, 6):
        later = take(training_batches(features, 4, seed=3, start_step=step, is_trimmed=True), 3)
        assert_same_batches(later, batches[step : step + 3])
    whole = take(training_batches(features, 4, seed=3), 9)
    assert_batches_hold_the_rows(whole, features)
    assert {batch["input_ids"].shape for batch in whole} == {(4, 40)}  # nothing is cut unless asked for
    assert rows_of(whole) == rows_of(batches)
    assert rows_of(take(training_batches(features, 4, seed=4), 9)) != rows_of(batches)


def test_a_batch_may_be_larger_than_the_data(features):
    [batch] = take(training_batches(features, 25, seed=0), 1)
    assert sorted(np.bincount(batch["label_ids"], minlength=11)) == [2] * 8 + [3] * 3
    assert_batches_hold_the_rows([batch], features)
    # The length of a batch is never more than that of the data, here 10.
    [batch] = take(training_batches(make_features([9], num_tokens=10), 2, seed=0, is_trimmed=True), 1)
    assert batch["input_ids"].shape == (2, 10)


@pytest.mark.parametrize(("step", "lengths"), [(8, {8, 16, 24, 40}), (24, {24, 40})])
def test_batches_are_cut_to_a_multiple_of_a_step(features, step, lengths):
    batches = take(training_batches(features, 2, seed=0, is_trimmed=True, length_step=step), 40)
    assert_batches_hold_the_rows(batches, features)
    for batch in batches:
        longest = max(LENGTHS[row] for row in batch["label_ids"])
        assert batch["input_ids"].shape == (2, min(40, -(-longest // step) * step))
    assert {batch["input_ids"].shape[1] for batch in batches} >= lengths


def test_labels_of_tokens_are_cut_and_those_of_sequences_are_not(features):
    labels = np.where(features["input_mask"], features["input_ids"] % 5, -1).astype(np.int32)
    several = np.random.default_rng(0).random((11, 40)).astype(np.float32)  # as many labels as tokens
    features = {**features, "token_labels": labels, "label_values": several}
    for batch in take(training_batches(features, 2, seed=0, is_trimmed=True), 12):
        rows, length = batch["label_ids"], batch["input_ids"].shape[1]
        np.testing.assert_array_equal(batch["token_labels"], labels[rows, :length])
        np.testing.assert_array_equal(batch["label_values"], several[rows])


def test_choices_are_cut_to_the_longest_of_all_choices():
    features = make_features([[3, 9], [17, 4], [5, 6], [2, 24]])
    batches = take(training_batches(features, 2, seed=1, is_trimmed=True), 8)
    assert_batches_hold_the_rows(batches, features)
    longest = np.array([9, 17, 6, 24])
    for batch in batches:
        assert batch["input_ids"].shape == (2, 2, -(-longest[batch["label_ids"]].max() // 8) * 8)


def test_types_are_those_that_the_network_takes(features):
    features = {**features, "label_values": np.ones(11, np.float32), "unique_ids": np.arange(11)}
    dataset = training_batches(features, 4, seed=0, is_trimmed=True)
    types = {name: spec.dtype for name, spec in dataset.element_spec.items()}
    assert types == dict.fromkeys(features, tf.int32) | {"label_values": tf.float32}
    # The number of rows is static, as splitting a batch requires; the number of tokens is not.
    assert dataset.element_spec["input_ids"].shape.as_list() == [4, None]
    assert dataset.element_spec["label_ids"].shape.as_list() == [4]


@pytest.mark.parametrize("is_trimmed", [False, True])
@pytest.mark.parametrize("batch_size", [4, 11, 16])
def test_predictions_see_each_row_once_and_fill_up_the_last_batch(features, is_trimmed, batch_size):
    dataset, order = prediction_batches(features, batch_size, is_trimmed)
    batches = take(dataset, 99)
    rows = rows_of(batches)
    assert rows[:11] == order.tolist()
    assert sorted(order) == list(range(11))
    assert len(batches) == -(-11 // batch_size)
    assert rows[11:] == [order[-1]] * (len(batches) * batch_size - 11)
    assert_batches_hold_the_rows(batches, features)
    if not is_trimmed:
        assert order.tolist() == list(range(11))


def test_predictions_that_are_cut_begin_with_the_longest(features):
    dataset, order = prediction_batches(features, 4, is_trimmed=True)
    assert [LENGTHS[row] for row in order] == sorted(LENGTHS, reverse=True)
    assert [batch["input_ids"].shape for batch in take(dataset, 9)] == [(4, 40), (4, 11), (4, 4)]
    dataset = prediction_batches(features, 2, is_trimmed=True, length_step=24)[0]
    assert [batch["input_ids"].shape[1] for batch in take(dataset, 9)] == [40, 24, 24, 24, 24, 24]
    # Rows of the same length keep their order, and of several choices the longest counts.
    assert prediction_batches(make_features([4, 9, 4, 9, 4]), 2, is_trimmed=True)[1].tolist() == [1, 3, 0, 2, 4]
    features = make_features([[3, 9], [17, 4], [5, 6]])
    dataset, order = prediction_batches(features, 2, is_trimmed=True)
    assert order.tolist() == [1, 0, 2]
    assert_batches_hold_the_rows(take(dataset, 9), features)


def test_a_thread_that_tunes_is_off(features):
    """The end of a program might have to wait for it."""
    for batches in (training_batches(features, 2, seed=1), prediction_batches(features, 2)[0]):
        assert batches.options().autotune.enabled is False
