"""Features as record files: written once, read back bit by bit, and rebuilt when any input changes."""

import json
import os
import unittest.mock

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data_prep.records.feature_cache import cached_features
from bert_keras.data_prep.records.writing import metadata_file

FACTS = {"data": "abc", "lengths": {"max_seq_length": 12}}


def make_features(seed=0):
    """Makes one array of 5 rows of each type that a task has, with the smallest and the largest value of the type."""
    random = np.random.default_rng(seed)
    values = random.standard_normal((5, 3)).astype(np.float32)
    values[0] = [np.float32(0.1), -0.0, np.finfo(np.float32).tiny]
    ids = random.integers(0, 30522, (5, 12)).astype(np.int32)
    ids[0, :3] = [np.iinfo(np.int32).max, np.iinfo(np.int32).min, -1]
    mask = random.integers(0, 2, (5, 12)).astype(np.int8)
    mask[0, :2] = [127, -128]
    long = random.integers(0, 9, 5)
    long[0] = np.iinfo(np.int64).min
    choices = random.integers(0, 30522, (5, 4, 6)).astype(np.int32)
    return {"input_ids": ids, "input_mask": mask, "unique_ids": long, "choices": choices, "label_values": values}


def assert_same(first, second):
    assert list(first) == list(second)
    for name, values in first.items():
        assert values.dtype == second[name].dtype, name
        assert values.shape == second[name].shape, name
        assert values.tobytes() == second[name].tobytes(), name


@pytest.fixture
def path(tmp_path):
    return str(tmp_path / "train.tf_record")


def builder_of(features):
    return unittest.mock.Mock(return_value=features)


@pytest.fixture
def build(path):
    """A builder whose records have been written once."""
    build = builder_of(make_features())
    assert_same(cached_features(path, FACTS, build), build.return_value)
    return build


def assert_built(path, build, num_calls, facts=FACTS):
    """Checks that the features are right, and how often they were built up to now."""
    assert_same(cached_features(path, facts, build), build.return_value)
    assert build.call_count == num_calls


def test_features_are_read_back_bit_by_bit(path, build, messages):
    assert_built(path, build, 1)
    assert messages == [f"{path}: 5 examples, made earlier from the same data"]


def test_more_rows_than_are_read_at_once(path):
    build = builder_of({"input_ids": np.random.default_rng(0).integers(0, 9, (1030, 2)).astype(np.int32)})
    cached_features(path, FACTS, build)
    assert_built(path, build, 1)


@pytest.mark.parametrize(
    "facts", [{}, {"data": "abc"}, {**FACTS, "lengths": {"max_seq_length": 13}}, {"labels": ("no", "yes")}]
)
def test_other_facts_build_again(path, build, facts):
    other = builder_of(make_features(seed=1))
    assert_built(path, other, 1, facts)
    assert_built(path, other, 1, facts)


def flip_a_byte(path):
    with open(path, "rb+") as file:
        file.seek(os.path.getsize(path) // 2)
        byte = file.read(1)[0]
        file.seek(-1, os.SEEK_CUR)
        file.write(bytes([byte ^ 0xFF]))


def cut_in_a_record(path):
    os.truncate(path, os.path.getsize(path) - 5)


def add_a_record(path):
    records = [record.numpy() for record in tf.data.TFRecordDataset(path)]
    with tf.io.TFRecordWriter(path) as writer:
        for record in [*records, records[0]]:
            writer.write(record)


def replace_with_other_records(path):
    with tf.io.TFRecordWriter(path) as writer:
        for _ in range(5):
            writer.write(tf.train.Example().SerializeToString())


@pytest.mark.parametrize("damage", [flip_a_byte, cut_in_a_record, add_a_record, replace_with_other_records])
def test_damaged_file_is_made_again(path, build, messages, damage):
    damage(path)
    assert_built(path, build, 2)
    assert messages[0] == f"{path} is damaged; making it again"
    assert_built(path, build, 2)


@pytest.mark.parametrize("text", ["", "[]", '{"kind": '])
def test_damaged_note_makes_the_file_again(path, build, messages, text):
    with open(metadata_file(path), "w", encoding="utf-8") as file:
        file.write(text)
    assert_built(path, build, 2)
    assert messages[0] == f"{metadata_file(path)} is damaged; making {path} again"


def test_missing_note_missing_file_and_other_format_are_made_again(path, build):
    os.remove(metadata_file(path))
    assert_built(path, build, 2)
    os.remove(path)
    assert_built(path, build, 3)
    with open(metadata_file(path), encoding="utf-8") as file:
        note = json.load(file)
    with open(metadata_file(path), "w", encoding="utf-8") as file:
        json.dump({**note, "code": "0"}, file)
    assert_built(path, build, 4)


def test_failed_build_leaves_the_old_records(path, build):
    def fail():
        raise ValueError("train.tsv line 41 is wrong")

    with pytest.raises(ValueError, match="train.tsv line 41 is wrong"):
        cached_features(path, {}, fail)
    assert_built(path, build, 1)


def test_fields_are_those_of_the_original(path):
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
