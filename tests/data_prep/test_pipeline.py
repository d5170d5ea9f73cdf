"""Reading records: seed and step determine the order, and errors name the wrong file."""

import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.records import reading
from bert_keras.data_prep.records.checks import find_damage
from bert_keras.data_prep.records.reading import explain_failure, open_records
from bert_keras.data_prep.records.writing import RecordWriter, read_metadata, serialize_example, write_metadata
from bert_keras.training.input.pretraining_batches import evaluation_batches, training_batches


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
    with pytest.raises(
        ValueError, match=r"cut.tfrecord is not a whole TFRecord file: it ends or is damaged in example 3"
    ):
        open_records(str(path), 12, 3, 40)


def test_a_file_of_something_else_is_named(tmp_path):
    (tmp_path / "text.txt").write_text("A sentence that is no record.\n" * 20)
    with pytest.raises(ValueError, match="text.txt is not a whole TFRecord file"):
        open_records(str(tmp_path / "text.txt"), 12, 3, 40)


def test_records_of_another_task_are_named(tmp_path):
    with tf.io.TFRecordWriter(str(tmp_path / "other.tfrecord")) as writer:
        writer.write(serialize_example({"input_ids": [1, 2]}))
    with pytest.raises(ValueError, match="other.tfrecord does not hold pre-training examples: record 1 has no inpu"):
        open_records(str(tmp_path / "other.tfrecord"), 12, 3, 40)
    with tf.io.TFRecordWriter(str(tmp_path / "bytes.tfrecord")) as writer:
        writer.write(b"\xff\xff\xff")
    with pytest.raises(ValueError, match="bytes.tfrecord does not hold pre-training examples: record 1 is not a t"):
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
    _write(tmp_path / "odd.tfrecord", examples)

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
    ("name", "what"),
    [
        ("vocab_sha256", "vocabularies"),
        ("do_lower_case", "values of --do_lower_case"),
        ("strip_accents", "values of --strip_accents"),
    ],
)
def test_files_of_different_vocabularies_are_named(tmp_path, write_records, name, what):
    for number in range(2):
        write_records(tmp_path / f"{number}.tfrecord", 2)
        (tmp_path / f"{number}.tfrecord.json").write_text(json.dumps({name: number}))
    with pytest.raises(ValueError, match=f"0.tfrecord and .*1.tfrecord were built with different {what}; build them"):
        open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)


def test_names_that_cannot_be_record_files_are_told(tmp_path, write_records, messages):
    write_records(tmp_path / "a.tfrecord", 2)
    with pytest.raises(ValueError, match="has an empty name next to a comma; remove the comma"):
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
    assert "a.tfrecord: named more than once, and read each time" in "\n".join(messages)


def test_stored_settings_that_differ_are_named(tmp_path, write_records):
    path = tmp_path / "built.tfrecord"
    write_records(path, 2)
    metadata = {"max_seq_length": 12, "max_predictions_per_seq": 3, "vocab_size": 40}
    (tmp_path / "built.tfrecord.json").write_text(json.dumps(metadata))
    assert open_records(str(path), 12, 3, 40).metadata["vocab_size"] == 40
    with pytest.raises(ValueError, match="was built with --max_seq_length=12, but --max_seq_length=64 was given"):
        open_records(str(path), 64, 3, 40)
    with pytest.raises(ValueError, match="was built with a vocabulary of 40 entries, but the model's vocab_size is 30"):
        open_records(str(path), 12, 3, 30)


def test_ids_outside_the_vocabulary_are_named(tmp_path, write_records):
    write_records(tmp_path / "first.tfrecord", 5, vocab_size=20)
    examples = write_records(tmp_path / "second.tfrecord", 5, seed=1)
    highest = np.maximum(examples["input_ids"].max(axis=1), examples["masked_lm_ids"].max(axis=1))
    vocab_size = int(highest[0]) + 1  # the check at the start accepts the first example of the file
    culprit = int(np.argmax(highest >= vocab_size))
    assert 20 <= highest[0] < highest[culprit]
    records = open_records(f"{tmp_path}/first.tfrecord,{tmp_path}/second.tfrecord", 12, 3, vocab_size)
    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        take(evaluation_batches(records, 10), 1)
    explained = explain_failure(records, caught.value)
    assert isinstance(explained, ValueError)
    assert f"second.tfrecord example {culprit + 1}: id {highest[culprit]} is outside the vocabulary" in str(explained)


@pytest.fixture
def damaged_records(tmp_path, write_records):
    """Return a function of a position that damages this byte of the second of three files after they were opened."""

    def make(position):
        for number in range(3):
            write_records(tmp_path / f"{number}.tfrecord", 6 - number, seed=number)
        records = open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)
        data = bytearray((tmp_path / "1.tfrecord").read_bytes())
        data[position % len(data)] ^= 1
        (tmp_path / "1.tfrecord").write_bytes(data)
        return records, len(data) // 5

    return make


def failure(records):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError)) as caught:
        take(evaluation_batches(records, 15), 1)
    return caught.value


def test_a_record_whose_bytes_changed_is_named_without_reading_the_files(damaged_records, monkeypatch):
    records, length = damaged_records(-20)
    error = failure(records)
    monkeypatch.setattr(tf.data, "TFRecordDataset", None)
    assert f"1.tfrecord is damaged at byte {4 * length + 12}; build it again" in str(explain_failure(records, error))


def test_a_record_whose_length_changed_is_named(damaged_records):
    records, length = damaged_records(-1)
    records, length = damaged_records(2 * length + 1)
    assert f"1.tfrecord is damaged at byte {2 * length}; build it again" in str(
        explain_failure(records, failure(records))
    )


def test_looking_for_a_damaged_file_ends_in_time_and_says_what_was_read(damaged_records):
    records, length = damaged_records(1)
    found = find_damage(records.files, records.compression_types, failure(records), seconds=0)
    assert re.search(
        r"a record file is damaged at byte 0, and TensorFlow does not say which; the first 0 of 3 files were read "
        r"again and are whole, so build .*0.tfrecord and those after it again",
        str(found),
    )


def test_a_damaged_file_that_is_whole_again_leaves_the_error_as_it_is(damaged_records, tmp_path, write_records):
    records, _ = damaged_records(1)
    error = failure(records)
    write_records(tmp_path / "1.tfrecord", 5, seed=1)
    assert explain_failure(records, error) is error


@pytest.mark.parametrize("kind", [tf.errors.InvalidArgumentError, tf.errors.InternalError])
def test_an_error_that_is_not_about_records_is_handed_on_at_once(records, tmp_path, kind):
    for file in tmp_path.iterdir():
        file.unlink()  # reading them would fail
    error = kind(None, None, "Incompatible shapes: [2,3] vs. [2,4]")
    assert explain_failure(records, error) is error


def test_of_many_files_only_the_one_in_the_error_is_read_again(tmp_path, write_records, make_examples):
    for number in range(2):
        write_records(tmp_path / f"{number}.tfrecord", 3)
    examples = make_examples(5)
    examples["masked_lm_ids"][3, 1] = 77
    _write(tmp_path / "2.tfrecord", examples)
    records = open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)
    error = failure(records)
    (tmp_path / "0.tfrecord").unlink()
    (tmp_path / "1.tfrecord").write_bytes(b"")
    assert "2.tfrecord example 4: id 77 is outside the vocabulary" in str(explain_failure(records, error))
    (tmp_path / "2.tfrecord").write_bytes(b"")
    assert "2.tfrecord now has at most 3 examples; it changed" in str(explain_failure(records, error))


def _serialized(examples):
    for row in range(len(examples["input_ids"])):
        yield serialize_example({name: values[row].tolist() for name, values in examples.items()})


def _write(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in _serialized(examples):
            writer.write(record)


@pytest.fixture
def noted_file(tmp_path, make_examples):
    """Makes a file of four examples with metadata, like the programs."""
    path, examples = str(tmp_path / "noted.tfrecord"), make_examples(4)
    with RecordWriter([path]) as writer:
        writer.write_file(_serialized(examples))
        writer.commit({"vocab_sha256": "a", "do_lower_case": True})
    return path


def test_a_file_with_a_note_is_not_read_through_to_count_it(noted_file, monkeypatch):
    monkeypatch.setattr(reading, "count_records", None)
    assert open_records(noted_file, 12, 3, 40).num_examples == (4,)


def test_a_file_that_is_not_as_large_as_noted_is_counted(noted_file):
    data = pathlib.Path(noted_file).read_bytes()
    pathlib.Path(noted_file).write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(ValueError, match="noted.tfrecord holds 3 examples, but 4 were written to it; build it again"):
        open_records(noted_file, 12, 3, 40)


@pytest.mark.parametrize("has_size", [True, False])
def test_a_compressed_file_that_is_not_as_large_as_noted_is_counted(tmp_path, make_examples, has_size):
    path = str(tmp_path / "a.tfrecord.gz")
    with RecordWriter([path], is_gzip=True) as writer:
        writer.write_file(_serialized(make_examples(3)))
        writer.commit({})
    size = {"num_bytes": 1} if has_size else {}
    write_metadata(path, {"num_examples": 4, **size})
    if not has_size:  # an earlier version wrote no size; counting takes long
        assert open_records(path, 12, 3, 40).num_examples == (4,)
        return
    with pytest.raises(ValueError, match="a.tfrecord.gz holds 3 examples, but 4 were written to it; build it again"):
        open_records(path, 12, 3, 40)


def test_counting_tells_how_far_it_is(tmp_path, write_records, messages, monkeypatch):
    monkeypatch.setattr(Progress, "seconds_between", 0.0)
    write_records(tmp_path / "a.tfrecord", 3)
    write_records(tmp_path / "b.tfrecord", 3)
    open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert f"counting the examples of record files without metadata: {size:,} of {size:,} bytes" in messages[-1]


def test_resuming_tells_how_far_it_has_read(records, messages, monkeypatch):
    monkeypatch.setattr(Progress, "seconds_between", 0.0)
    take(training_batches(records, 2, seed=9, start_step=5), 1)
    lines = [f"reading up to step 6: {number} of 5 batches" for number in range(1, 6)]
    assert [line.rsplit(" (", 1)[0] for line in messages] == lines


def _to_object_store(path, name):
    address = f"ram://{pathlib.Path(path).parent.name}/{name}"
    tf.io.gfile.makedirs(f"ram://{pathlib.Path(path).parent.name}")
    for end in ("", ".json"):
        tf.io.gfile.copy(path + end, address + end, overwrite=True)
    return address


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_sha256": "b"}, "were built with different vocabularies"),
        ({"do_lower_case": False}, "were built with different values of --do_lower_case"),
        ({"num_examples": 5, "num_bytes": 1}, "holds 4 examples, but 5 were written to it"),
        ({"max_seq_length": 64}, "was built with --max_seq_length=64, but --max_seq_length=12 was given"),
        ({"masking": {"cls_id": 2}}, "were built with different --dynamic_masking or --masked_lm_prob"),
    ],
)
def test_the_notes_of_remote_records_are_checked(noted_file, change, message):
    first, second = (_to_object_store(noted_file, name) for name in ("a.tfrecord", "b.tfrecord"))
    assert open_records(first.replace("a.", "*."), 12, 3, 40).num_examples == (4, 4)
    write_metadata(second, {**read_metadata(second), **change})
    with pytest.raises(ValueError, match=message):
        open_records(f"{first},{second}", 12, 3, 40)


def test_remote_records_are_read_and_failures_explained_as_local_ones(noted_file):
    address = _to_object_store(noted_file, "c.tfrecord")
    expected = take(training_batches(open_records(noted_file, 12, 3, 40), 2, seed=3, start_step=3), 4)
    records = open_records(address, 12, 3, 40)
    for batch, local in zip(take(training_batches(records, 2, seed=3, start_step=3), 4), expected, strict=True):
        for name, value in local.items():
            np.testing.assert_array_equal(batch[name], value)
    tf.io.gfile.remove(f"{address}.json")
    assert open_records(address, 12, 3, 40).num_examples == (4,)  # counted
    data = bytearray(pathlib.Path(noted_file).read_bytes())
    data[-20] ^= 1
    with tf.io.gfile.GFile(address, "wb") as file:
        file.write(bytes(data))
    assert "c.tfrecord is damaged at byte" in str(explain_failure(records, failure(records)))


def test_failures_in_compiled_steps_and_on_several_devices_are_explained(tmp_path, make_examples):
    examples = make_examples(6)
    examples["masked_lm_ids"][4, 1] = 77
    _write(tmp_path / "odd.tfrecord", examples)
    records = open_records(str(tmp_path / "odd.tfrecord"), 12, 3, 40)
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    batches = iter(strategy.experimental_distribute_dataset(training_batches(records, 2, seed=1)))

    @tf.function
    def steps():
        for _ in tf.range(3):
            strategy.run(lambda batch: batch["input_ids"], (next(batches),))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        steps()
    assert "odd.tfrecord example 5: id 77 is outside the vocabulary" in str(explain_failure(records, caught.value))
