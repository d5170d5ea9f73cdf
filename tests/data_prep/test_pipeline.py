"""Reading records: an order that a seed and a step give, and files that are told apart when they are wrong."""

import json

import numpy as np
import pytest
import tensorflow as tf

from data_prep.pipeline import evaluation_batches, training_batches
from data_prep.pretraining_records import explain_failure, open_records
from data_prep.records import serialize_example


@pytest.fixture
def records(tmp_path, write_records):
    """23 examples in three files."""
    for number, count in enumerate((10, 8, 5)):
        write_records(tmp_path / f"part-{number}.tfrecord", count, seed=number)
    return open_records(f"{tmp_path}/part-*.tfrecord", 12, 3, 40)


def take(dataset, count):
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset.take(count)]


def fingerprints(batches):
    return [row.tobytes() for batch in batches for row in batch["input_ids"]]


def test_records_are_counted_and_parsed(tmp_path, write_records):
    examples = write_records(tmp_path / "one.tfrecord", 7)
    records = open_records(str(tmp_path / "one.tfrecord"), 12, 3, 40)
    assert records.total_examples == 7
    [batch] = take(evaluation_batches(records, 7), 1)
    for name, value in examples.items():
        np.testing.assert_array_equal(batch[name], value)
        assert batch[name].dtype == (np.float32 if name == "masked_lm_weights" else np.int32)


@pytest.mark.parametrize("start_step", [1, 5, 6, 17])
def test_reading_from_a_step_on_gives_what_an_unbroken_stream_gives(records, start_step):
    whole = take(training_batches(records, 4, seed=9), 20)
    rest = take(training_batches(records, 4, seed=9, start_step=start_step), 20 - start_step)
    for expected, batch in zip(whole[start_step:], rest, strict=True):
        for name, value in expected.items():
            np.testing.assert_array_equal(batch[name], value)


def test_every_pass_has_each_example_once_and_in_an_order_of_its_own(records):
    rows = fingerprints(take(training_batches(records, 1, seed=9), 46))
    assert sorted(rows[:23]) == sorted(rows[23:]) == sorted(fingerprints(take(evaluation_batches(records, 1), 23)))
    assert len(set(rows)) == 23
    assert rows[:23] != rows[23:]
    assert rows[:23] != fingerprints(take(training_batches(records, 1, seed=10), 23))


@pytest.mark.parametrize("global_seed", [0, 1])
def test_the_order_is_the_same_whatever_the_global_seed(records, global_seed):
    rows = fingerprints(take(training_batches(records, 1, seed=0), 46))
    tf.random.set_seed(global_seed)
    assert fingerprints(take(training_batches(records, 1, seed=0), 46)) == rows


def test_evaluation_gives_each_example_once_and_fills_up_the_last_batch(records):
    batches = take(evaluation_batches(records, 10), 9)
    assert [batch["is_real_example"].sum() for batch in batches] == [10, 10, 3]
    assert all(batch["input_ids"].shape == (10, 12) for batch in batches)
    assert len(set(fingerprints(batches)[:23])) == 23
    assert not batches[-1]["masked_lm_weights"][3:].any()


def test_evaluation_as_in_the_release_starts_again_at_the_first_file(records):
    rows = fingerprints(take(evaluation_batches(records, 10, num_batches=5), 9))
    assert len(rows) == 50
    assert rows[23:46] == rows[:23]


def test_paths_and_patterns_are_separated_by_commas_and_metadata_is_no_record_file(tmp_path, write_records):
    for name in ("a.tfrecord", "b.tfrecord"):
        write_records(tmp_path / name, 2)
        (tmp_path / f"{name}.json").write_text("{}")
    records = open_records(f"{tmp_path}/a*, {tmp_path}/b*", 12, 3, 40)
    assert [path.rsplit("/", 1)[1] for path in records.files] == ["a.tfrecord", "b.tfrecord"]


def test_a_pattern_without_a_match_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing-\*' matches no file; build records with"):
        open_records(f"{tmp_path}/nothing-*", 12, 3, 40)


def test_files_without_examples_are_refused(tmp_path):
    (tmp_path / "empty.tfrecord").write_bytes(b"")
    with pytest.raises(ValueError, match="empty.tfrecord holds no examples"):
        open_records(str(tmp_path / "empty.tfrecord"), 12, 3, 40)


@pytest.mark.parametrize("cut", [5, 14, 60])
def test_a_file_that_was_cut_short_is_named(tmp_path, write_records, cut):
    path = tmp_path / "cut.tfrecord"
    write_records(path, 4)
    path.write_bytes(path.read_bytes()[: -path.stat().st_size // 4 - cut])
    with pytest.raises(ValueError, match=r"cut.tfrecord is no whole TFRecord file: it ends or is damaged in example 3"):
        open_records(str(path), 12, 3, 40)


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "text.txt").write_text("A sentence that is no record.\n" * 20)
    with pytest.raises(ValueError, match="text.txt is no whole TFRecord file"):
        open_records(str(tmp_path / "text.txt"), 12, 3, 40)


def test_records_of_another_task_are_named(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "other.tfrecord")) as writer:
        writer.write(serialize_example({"input_ids": [1, 2]}))
    with pytest.raises(ValueError, match="other.tfrecord holds no pre-training examples: record 1 has no input_mask"):
        open_records(str(tmp_path / "other.tfrecord"), 12, 3, 40)
    with tf.io.TFRecordWriter(str(tmp_path / "bytes.tfrecord")) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="bytes.tfrecord holds no pre-training examples: record 1 is no tf.train.Exam"):
        open_records(str(tmp_path / "bytes.tfrecord"), 12, 3, 40)


@pytest.mark.parametrize(
    ("length", "predictions", "message"),
    [
        (16, 3, "input_ids has 12 values, but 16 are needed; give the --max_seq_length and --max_predictions_per_seq"),
        (12, 5, "masked_lm_positions has 3 values, but 5 are needed; give the --max_seq_length and"),
    ],
)
def test_records_of_another_length_are_named(tmp_path, write_records, length, predictions, message):
    write_records(tmp_path / "short.tfrecord", 2)
    with pytest.raises(ValueError, match=f"short.tfrecord example 1: {message}"):
        open_records(str(tmp_path / "short.tfrecord"), length, predictions, 40)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("masked_lm_positions", 12, "masked_lm_positions has 12, but needs numbers from 0 to 11; build the file again"),
        ("next_sentence_labels", 5, "next_sentence_labels has 5, but needs numbers from 0 to 1; build the file again"),
        ("input_ids", -1, "id -1 is outside the vocabulary of 40 entries"),
    ],
)
@pytest.mark.parametrize("row", [0, 3])
def test_numbers_that_mean_nothing_are_named(tmp_path, make_examples, name, value, message, row):
    examples = make_examples(4)
    examples[name][row, -1] = value
    with tf.io.TFRecordWriter(str(tmp_path / "odd.tfrecord")) as writer:
        for number in range(4):
            writer.write(serialize_example({key: values[number].tolist() for key, values in examples.items()}))

    def read():
        records = open_records(str(tmp_path / "odd.tfrecord"), 12, 3, 40)
        try:
            take(evaluation_batches(records, 4), 1)
        except tf.errors.InvalidArgumentError as error:
            raise explain_failure(records, error) from error

    with pytest.raises(ValueError, match=f"odd.tfrecord example {row + 1}: {message}"):
        read()


def test_numbers_of_another_kind_are_named(tmp_path, make_examples):
    example = {name: values[0].tolist() for name, values in make_examples(1).items()}
    example["input_mask"] = [float(value) for value in example["input_mask"]]
    with tf.io.TFRecordWriter(str(tmp_path / "floats.tfrecord")) as writer:
        writer.write(serialize_example(example))
    with pytest.raises(ValueError, match="floats.tfrecord example 1: input_mask has 0 values, but 12 are needed"):
        open_records(str(tmp_path / "floats.tfrecord"), 12, 3, 40)


def test_a_file_that_lost_whole_examples_is_named(tmp_path, write_records):
    write_records(tmp_path / "short.tfrecord", 4)
    (tmp_path / "short.tfrecord.json").write_text('{"num_examples": 9}')
    with pytest.raises(ValueError, match="short.tfrecord holds 4 examples, but 9 were written to it; build it again"):
        open_records(str(tmp_path / "short.tfrecord"), 12, 3, 40)


@pytest.mark.parametrize(
    ("name", "what"), [("vocab_sha256", "vocabularies"), ("do_lower_case", "values of --do_lower_case")]
)
def test_files_of_different_vocabularies_are_named(tmp_path, write_records, name, what):
    for number in range(2):
        write_records(tmp_path / f"{number}.tfrecord", 2)
        (tmp_path / f"{number}.tfrecord.json").write_text(json.dumps({name: number}))
    with pytest.raises(ValueError, match=f"0.tfrecord and .*1.tfrecord were built with different {what}; build them"):
        open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)


def test_names_that_cannot_be_record_files_are_told(tmp_path, write_records, messages):
    write_records(tmp_path / "a.tfrecord", 2)
    with pytest.raises(ValueError, match="has an empty name beside a comma; remove the comma"):
        open_records(f"{tmp_path}/a.tfrecord,", 12, 3, 40)
    with pytest.raises(ValueError, match="is a folder; name the record files in it, for example .*tfrecord"):
        open_records(str(tmp_path), 12, 3, 40)
    folder = tmp_path / "part [1]"
    folder.mkdir()
    write_records(folder / "a.tfrecord", 2)
    (folder / ".b.tfrecord.123.partial").write_bytes(b"unfinished")
    assert open_records(str(folder / "a.tfrecord"), 12, 3, 40).total_examples == 2
    (tmp_path / ".b.tfrecord.123.partial").write_bytes(b"unfinished")
    assert open_records(f"{tmp_path}/*tfrecord*,{tmp_path}/a.tf*", 12, 3, 40).total_examples == 4
    assert "a.tfrecord: named more than once, and read as often" in "\n".join(messages)


def test_stored_settings_that_differ_are_named(tmp_path, write_records):
    path = tmp_path / "built.tfrecord"
    write_records(path, 2)
    metadata = {"max_seq_length": 12, "max_predictions_per_seq": 3, "vocab_size": 40}
    (tmp_path / "built.tfrecord.json").write_text(json.dumps(metadata))
    assert open_records(str(path), 12, 3, 40).metadata["vocab_size"] == 40
    with pytest.raises(ValueError, match="was built with --max_seq_length=12, but --max_seq_length=64 was asked for"):
        open_records(str(path), 64, 3, 40)
    with pytest.raises(ValueError, match="was built with a vocabulary of 40 entries, but the model's vocab_size is 30"):
        open_records(str(path), 12, 3, 30)


def test_ids_outside_the_vocabulary_are_named(tmp_path, write_records):
    write_records(tmp_path / "first.tfrecord", 5, vocab_size=20)
    examples = write_records(tmp_path / "second.tfrecord", 5, seed=1)
    highest = np.maximum(examples["input_ids"].max(axis=1), examples["masked_lm_ids"].max(axis=1))
    vocab_size = int(highest[0]) + 1  # lets the first example of the file pass, which is looked at at the start
    culprit = int(np.argmax(highest >= vocab_size))
    assert 20 <= highest[0] < highest[culprit]
    records = open_records(f"{tmp_path}/first.tfrecord,{tmp_path}/second.tfrecord", 12, 3, vocab_size)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        take(evaluation_batches(records, 10), 1)
    explained = explain_failure(records, caught.value)
    assert isinstance(explained, ValueError)
    assert f"second.tfrecord example {culprit + 1}: id {highest[culprit]} is outside the vocabulary" in str(explained)


def test_a_record_whose_bytes_changed_is_named(tmp_path, write_records):
    path = tmp_path / "damaged.tfrecord"
    write_records(path, 6)
    data = bytearray(path.read_bytes())
    data[-20] ^= 1  # inside the last example; the lengths that frame the records stay right
    path.write_bytes(data)
    records = open_records(str(path), 12, 3, 40)
    with pytest.raises(tf.errors.DataLossError) as caught:
        take(evaluation_batches(records, 6), 1)
    assert "damaged.tfrecord is damaged in example 6" in str(explain_failure(records, caught.value))


def test_an_error_that_no_file_explains_is_handed_on(records):
    error = tf.errors.InternalError(None, None, "something else")
    assert explain_failure(records, error) is error
