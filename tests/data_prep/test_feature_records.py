"""Features as record files: written once, read back bit by bit, and rebuilt when any input changes."""

import json
import os

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data_prep.records.feature_cache import cached_features
from bert_keras.data_prep.records.writing import metadata_file, read_metadata

FACTS = {"data": "abc", "lengths": {"max_seq_length": 12}}


def make_features(num_rows=5, seed=0):
    """Makes one array of each type that a task has, with the smallest and the largest value of the type."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((num_rows, 3)).astype(np.float32)
    values[0] = [np.float32(0.1), -0.0, np.finfo(np.float32).tiny]
    ids = random.integers(0, 30522, (num_rows, 12)).astype(np.int32)
    ids[0, :3] = [np.iinfo(np.int32).max, np.iinfo(np.int32).min, -1]
    mask = random.integers(0, 2, (num_rows, 12)).astype(np.int8)
    mask[0, :2] = [127, -128]
    long = random.integers(0, 9, num_rows)
    long[0] = np.iinfo(np.int64).min
    choices = random.integers(0, 30522, (num_rows, 4, 6)).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, "unique_ids": long, "choices": choices, "label_values": values}


class Builder:
    """Makes the features and counts the calls."""

    def __init__(self, features):
        self.features = features
        self.num_calls = 0

    def __call__(self):
        self.num_calls += 1
        return self.features


def assert_same(first, second):
    assert list(first) == list(second)
    for name, values in first.items():
        assert values.dtype == second[name].dtype, name
        assert values.shape == second[name].shape, name
        assert values.tobytes() == second[name].tobytes(), name


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "train.tf_record")


@pytest.fixture
def build(path):
    """A builder whose records have been written once."""
    build = Builder(make_features())
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 1
    return build


def test_what_was_built_once_is_read_back_bit_by_bit(path, build, messages):
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 1
    assert messages == [f"{path}: 5 examples, made earlier from the same data"]


def test_more_rows_than_are_read_at_once(path):
    random = np.random.default_rng(0)
    build = Builder({"input_ids": random.integers(0, 9, (1030, 2)).astype(np.int32)})
    cached_features(path, FACTS, build)
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 1


def test_facts_may_hold_tuples(path, build):
    facts = {"labels": ("no", "yes")}
    cached_features(path, facts, build)
    cached_features(path, facts, build)
    assert build.num_calls == 2  # called once by the fixture, with other facts


@pytest.mark.parametrize("facts", [{}, {"data": "abc"}, {**FACTS, "lengths": {"max_seq_length": 13}}])
def test_other_facts_build_anew(path, build, facts):
    other = Builder(make_features(seed=1))
    assert_same(cached_features(path, facts, other), other.features)
    assert other.num_calls == 1
    assert_same(cached_features(path, facts, other), other.features)
    assert other.num_calls == 1


def flip_a_byte(path):
    with open(path, "rb+") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))


def cut_in_a_record(path):
    os.truncate(path, os.path.getsize(path) - 5)


def cut_between_records(path):
    records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
    with tf.io.TFRecordWriter(path) as writer:
        for record in records[:-1]:
            writer.write(record)


def add_a_record(path):
    records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
    with tf.io.TFRecordWriter(path) as writer:
        for record in [*records, records[0]]:
            writer.write(record)


def replace_with_other_records(path):
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(5):
            writer.write(tf.train.Example().SerializeToString())


@pytest.mark.parametrize(
    "damage", [flip_a_byte, cut_in_a_record, cut_between_records, add_a_record, replace_with_other_records]
)
def test_a_damaged_file_is_made_again(path, build, messages, damage):
    damage(path)
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 2
    assert messages[0] == f"{path} is damaged; making it again"
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 2


@pytest.mark.parametrize("text", ["", "[]", '{"kind": '])
def test_a_damaged_note_makes_the_file_again(path, build, messages, text):
    with open(metadata_file(path), "w", encoding="utf-8") as file:
        file.write(text)
    assert_same(cached_features(path, FACTS, build), build.features)
    assert build.num_calls == 2
    assert messages[0] == f"{metadata_file(path)} is damaged; making {path} again"


def test_a_file_without_a_note_or_a_note_without_a_file_is_made_again(path, build):
    os.remove(metadata_file(path))
    cached_features(path, FACTS, build)
    assert build.num_calls == 2
    os.remove(path)
    cached_features(path, FACTS, build)
    assert build.num_calls == 3


def test_another_version_of_the_format_is_made_again(path, build):
    note = read_metadata(path)
    with open(metadata_file(path), "w", encoding="utf-8") as file:
        json.dump({**note, "format_version": 0}, file)
    cached_features(path, FACTS, build)
    assert build.num_calls == 2


def test_records_that_could_not_be_built_leave_the_old_ones(path, build):
    def fail():
        raise ValueError("train.tsv line 41 is wrong")

    with pytest.raises(ValueError, match="train.tsv line 41 is wrong"):
        cached_features(path, {}, fail)
    cached_features(path, FACTS, build)
    assert build.num_calls == 1


def test_records_are_examples_with_the_fields_of_the_release(path):
    """Parses the fields like `file_based_input_fn_builder` of run_classifier.py."""
    features = {name: make_features()["input_ids"] for name in ("input_ids", "input_mask", "segment_ids")}
    features["label_ids"] = np.arange(5, dtype=np.int32)
    cached_features(path, FACTS, lambda: features)
    fields = {name: tf.io.FixedLenFeature([12], tf.int64) for name in ("input_ids", "input_mask", "segment_ids")}
    fields["label_ids"] = tf.io.FixedLenFeature([], tf.int64)
    for row, record in enumerate(tf.data.TFRecordDataset(path)):
        example = tf.io.parse_single_example(record, fields)
        for name, values in features.items():
            np.testing.assert_array_equal(example[name], values[row])
    assert row == 4
    assert sorted(tf.train.Example.FromString(record.numpy()).features.feature) == sorted(features)
