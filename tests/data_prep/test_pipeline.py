"""Reading records: seed and step determine the order, and errors name the wrong file."""

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


@pytest.fixture(scope="module")
def records(tmp_path_factory, write_records):
    """23 examples in three files."""
    folder = tmp_path_factory.mktemp("records")
    for number, count in enumerate((10, 8, 5)):
        write_records(folder / f"part-{number}.tfrecord", count, seed=number)
    return open_records(f"{folder}/part-*.tfrecord", 12, 3, 40)


def take(dataset, count):
    return [{name: value.numpy() for name, value in batch.items()} for batch in dataset.take(count)]


def fingerprints(batches):
    return [row.tobytes() for batch in batches for row in batch["input_ids"]]


def assert_equal(batches, expected):
    for batch, other in zip(batches, expected, strict=True):
        assert batch.keys() == other.keys()
        for name, value in other.items():
            np.testing.assert_array_equal(batch[name], value)


def serialized(examples):
    for row in range(len(examples["input_ids"])):
        yield serialize_example({name: values[row].tolist() for name, values in examples.items()})


def write(path, examples):
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in serialized(examples):
            writer.write(record)


# Order.


def test_records_are_parsed(tmp_path, write_records):
    examples = write_records(tmp_path / "one.tfrecord", 7)
    records = open_records(str(tmp_path / "one.tfrecord"), 12, 3, 40)
    assert records.total_examples == 7
    [batch] = take(evaluation_batches(records, 7), 1)
    for name, value in examples.items():
        np.testing.assert_array_equal(batch[name], value)
        assert batch[name].dtype == (np.float32 if name == "masked_lm_weights" else np.int32)


@pytest.mark.parametrize("start_step", [1, 5, 17])
def test_reading_from_a_step_continues_an_unbroken_stream(records, start_step):
    whole = take(training_batches(records, 4, seed=9), 20)
    rest = take(training_batches(records, 4, seed=9, start_step=start_step), 20 - start_step)
    assert_equal(rest, whole[start_step:])


def test_every_epoch_has_each_example_once_in_its_own_order(records):
    rows = fingerprints(take(training_batches(records, 1, seed=9), 46))
    assert sorted(rows[:23]) == sorted(rows[23:]) == sorted(fingerprints(take(evaluation_batches(records, 1), 23)))
    assert len(set(rows)) == 23
    assert rows[:23] != rows[23:]
    assert rows[:23] != fingerprints(take(training_batches(records, 1, seed=10), 23))
    tf.random.set_seed(1)  # the global seed does not matter
    assert fingerprints(take(training_batches(records, 1, seed=9), 46)) == rows


def test_evaluation_gives_each_example_once_or_starts_again_like_the_original(records):
    batches = take(evaluation_batches(records, 10), 9)
    assert [batch["is_real_example"].sum() for batch in batches] == [10, 10, 3]
    assert all(batch["input_ids"].shape == (10, 12) for batch in batches)
    assert len(set(fingerprints(batches)[:23])) == 23
    assert not batches[-1]["masked_lm_weights"][3:].any()
    rows = fingerprints(take(evaluation_batches(records, 10, num_batches=5), 9))
    assert len(rows) == 50
    assert rows[23:46] == rows[:23]


def test_counting_and_resuming_report_their_progress(tmp_path, write_records, messages, monkeypatch):
    monkeypatch.setattr(Progress, "seconds_between", 0.0)
    for name in ("a.tfrecord", "b.tfrecord"):
        write_records(tmp_path / name, 3)
    records = open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert f"counting the examples of record files without metadata: {size:,} of {size:,} bytes" in messages[-1]
    messages.clear()
    take(training_batches(records, 2, seed=9, start_step=5), 1)
    lines = [f"reading up to step 6: {number} of 2 batches" for number in (1, 2)]
    assert [line.rsplit(" (", 1)[0] for line in messages] == lines


# Files that are refused at the start.


def test_names_and_patterns_are_separated_by_commas(tmp_path, write_records, messages):
    folder = tmp_path / "part [1]"
    folder.mkdir()
    for path in (tmp_path / "a.tfrecord", tmp_path / "b.tfrecord", folder / "c.tfrecord"):
        write_records(path, 2)
        path.with_name(f"{path.name}.json").write_text("{}")
        path.with_name(f".{path.name}.123.partial").write_bytes(b"unfinished")
    records = open_records(f"{tmp_path}/a*, {tmp_path}/b*, {folder}/c.tfrecord", 12, 3, 40)
    assert [path.rsplit("/", 1)[1] for path in records.files] == ["a.tfrecord", "b.tfrecord", "c.tfrecord"]
    assert messages == []
    assert open_records(f"{tmp_path}/*tfrecord*,{tmp_path}/a.tf*", 12, 3, 40).total_examples == 6
    assert messages[-1].endswith("a.tfrecord: named more than once, and read each time")


def good(path, write_records):
    write_records(path, 2)


def other_task(path, write_records):
    write(path, {"input_ids": np.array([[1, 2]])})


def no_example(path, write_records):
    with tf.io.TFRecordWriter(str(path)) as writer:
        writer.write(b"\xff\xff\xff")


def floats(path, write_records):
    examples = write_records(path, 1)
    write(path, {**examples, "input_mask": examples["input_mask"].astype(np.float32)})


def lost_examples(path, write_records):
    write_records(path, 4)
    path.with_name(f"{path.name}.json").write_text('{"num_examples": 9}')


def cut(num_bytes):
    def make(path, write_records):
        write_records(path, 4)
        path.write_bytes(path.read_bytes()[: -path.stat().st_size // 4 - num_bytes])

    return make


CUT = "x.tfrecord is not a whole TFRecord file: it ends or is damaged in example 3"
NO_EXAMPLES = "x.tfrecord does not hold pre-training examples: record 1"


@pytest.mark.parametrize(
    ("make", "settings", "message"),
    [
        (lambda path, _: path.write_bytes(b""), (12, 3, 40), "x.tfrecord holds no examples"),
        (lambda path, _: path.write_text("No record.\n" * 20), (12, 3, 40), "x.tfrecord is not a whole TFRecord file"),
        (lambda path, _: path.mkdir(), (12, 3, 40), "is a folder; name the record files in it, for example .*tfrecord"),
        (cut(5), (12, 3, 40), CUT),
        (cut(14), (12, 3, 40), CUT),
        (cut(60), (12, 3, 40), CUT),
        (other_task, (12, 3, 40), f"{NO_EXAMPLES} has no inpu"),
        (no_example, (12, 3, 40), f"{NO_EXAMPLES} is not a t"),
        (floats, (12, 3, 40), "x.tfrecord example 1: input_mask has 0 values, but 12 are needed"),
        (lost_examples, (12, 3, 40), "x.tfrecord holds 4 examples, but 9 were written to it; build it again"),
        (good, (16, 3, 40), "example 1: input_ids has 12 values, but 16 are needed; give the --max_seq_length and"),
        (good, (12, 5, 40), "example 1: masked_lm_positions has 3 values, but 5 are needed; give the --max_seq_length"),
    ],
)
def test_file_that_does_not_fit_is_named(tmp_path, write_records, make, settings, message):
    make(tmp_path / "x.tfrecord", write_records)
    with pytest.raises(ValueError, match=message):
        open_records(str(tmp_path / "x.tfrecord"), *settings)


def test_names_without_files_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing-\*' matches no file; build records with"):
        open_records(f"{tmp_path}/nothing-*", 12, 3, 40)
    with pytest.raises(ValueError, match="has an empty name next to a comma; remove the comma"):
        open_records(f",{tmp_path}/nothing", 12, 3, 40)


# Failures while reading.


def failure(records):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError)) as caught:
        take(evaluation_batches(records, 15), 1)
    return caught.value


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("masked_lm_positions", 12, "masked_lm_positions has 12, but needs numbers from 0 to 11; build the file again"),
        ("next_sentence_labels", 5, "next_sentence_labels has 5, but needs numbers from 0 to 1; build the file again"),
        ("input_ids", -1, "id -1 is outside the vocabulary of 40 entries"),
        ("masked_lm_ids", 77, "id 77 is outside the vocabulary of 40 entries"),
    ],
)
def test_numbers_out_of_range_are_named(tmp_path, write_records, make_examples, name, value, message):
    for number in range(2):
        write_records(tmp_path / f"{number}.tfrecord", 3)
    examples = make_examples(5)
    examples[name][3, -1] = value
    write(tmp_path / "2.tfrecord", examples)
    records = open_records(f"{tmp_path}/*.tfrecord", 12, 3, 40)
    error = failure(records)
    (tmp_path / "0.tfrecord").unlink()  # only the file in the error is read again
    (tmp_path / "1.tfrecord").write_bytes(b"")
    assert f"2.tfrecord example 4: {message}" in str(explain_failure(records, error))
    (tmp_path / "2.tfrecord").write_bytes(b"")
    assert "2.tfrecord now has at most 3 examples; it changed" in str(explain_failure(records, error))


def test_first_example_of_each_file_is_checked_at_the_start(tmp_path, make_examples):
    examples = make_examples(4)
    examples["input_ids"][0, -1] = 40
    write(tmp_path / "odd.tfrecord", examples)
    with pytest.raises(ValueError, match="odd.tfrecord example 1: id 40 is outside the vocabulary of 40 entries"):
        open_records(str(tmp_path / "odd.tfrecord"), 12, 3, 40)


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


def test_changed_bytes_are_found_without_reading_the_files(damaged_records, monkeypatch):
    records, length = damaged_records(-20)
    error = failure(records)
    monkeypatch.setattr(tf.data, "TFRecordDataset", None)
    assert f"1.tfrecord is damaged at byte {4 * length + 12}; build it again" in str(explain_failure(records, error))


def test_changed_length_is_found(damaged_records):
    records, length = damaged_records(-1)
    records, length = damaged_records(2 * length + 1)
    message = f"1.tfrecord is damaged at byte {2 * length}; build it again"
    assert message in str(explain_failure(records, failure(records)))


def test_search_for_damage_ends_in_time_or_finds_nothing(damaged_records, tmp_path, write_records):
    records, _ = damaged_records(1)
    error = failure(records)
    found = find_damage(records.files, records.compression_types, error, seconds=0)
    assert re.search(
        r"a record file is damaged at byte 0, and TensorFlow does not say which; the first 0 of 3 files were read "
        r"again and are whole, so build .*0.tfrecord and those after it again",
        str(found),
    )
    write_records(tmp_path / "1.tfrecord", 5, seed=1)  # it is whole again
    assert explain_failure(records, error) is error


@pytest.mark.parametrize("kind", [tf.errors.InvalidArgumentError, tf.errors.InternalError])
def test_error_that_is_not_about_records_is_returned_unchanged(tmp_path, write_records, kind):
    write_records(tmp_path / "a", 2)
    records = open_records(str(tmp_path / "a"), 12, 3, 40)
    (tmp_path / "a").unlink()  # reading it would fail
    error = kind(None, None, "Incompatible shapes: [2,3] vs. [2,4]")
    assert explain_failure(records, error) is error


def test_failures_in_compiled_steps_and_on_several_devices_are_explained(tmp_path, make_examples):
    examples = make_examples(6)
    examples["masked_lm_ids"][4, 1] = 77
    write(tmp_path / "odd.tfrecord", examples)
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


# Files with metadata, local and remote.


@pytest.fixture
def noted_file(tmp_path, make_examples):
    """Makes a file of four examples with metadata, like the programs."""
    path, examples = str(tmp_path / "noted.tfrecord"), make_examples(4)
    with RecordWriter([path]) as writer:
        writer.write_file(serialized(examples))
        writer.commit({"vocab_sha256": "a", "do_lower_case": True, "strip_accents": True})
    return path


def test_file_is_counted_only_if_its_size_changed(noted_file, monkeypatch):
    data = pathlib.Path(noted_file).read_bytes()
    with monkeypatch.context() as patch:
        patch.setattr(reading, "count_records", None)
        assert open_records(noted_file, 12, 3, 40).num_examples == (4,)
    pathlib.Path(noted_file).write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(ValueError, match="noted.tfrecord holds 3 examples, but 4 were written to it; build it again"):
        open_records(noted_file, 12, 3, 40)


def test_compressed_file_is_counted_unless_its_metadata_has_no_size(tmp_path, make_examples):
    path = str(tmp_path / "a.tfrecord.gz")
    with RecordWriter([path], is_gzip=True) as writer:
        writer.write_file(serialized(make_examples(3)))
        writer.commit({})
    write_metadata(path, {"num_examples": 4})  # an earlier version wrote no size; counting takes long
    assert open_records(path, 12, 3, 40).num_examples == (4,)
    write_metadata(path, {"num_examples": 4, "num_bytes": 1})
    with pytest.raises(ValueError, match="a.tfrecord.gz holds 3 examples, but 4 were written to it; build it again"):
        open_records(path, 12, 3, 40)


def to_object_store(path, name):
    address = f"ram://{pathlib.Path(path).parent.name}/{name}"
    tf.io.gfile.makedirs(f"ram://{pathlib.Path(path).parent.name}")
    for end in ("", ".json"):
        tf.io.gfile.copy(path + end, address + end, overwrite=True)
    return address


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vocab_sha256": "b"}, "were built with different vocabularies; build them with the same"),
        ({"do_lower_case": False}, "were built with different values of --do_lower_case"),
        ({"strip_accents": False}, "were built with different values of --strip_accents"),
        ({"num_examples": 5, "num_bytes": 1}, "holds 4 examples, but 5 were written to it"),
        ({"max_seq_length": 64}, "was built with --max_seq_length=64, but --max_seq_length=12 was given"),
        ({"vocab_size": 41}, "built with a vocabulary of 41 entries, but the model's vocab_size is 40"),
        ({"masking": {"cls_id": 2}}, "were built with different --dynamic_masking or --masked_lm_prob"),
    ],
)
def test_metadata_of_all_files_must_fit(noted_file, change, message):
    first, second = (to_object_store(noted_file, name) for name in ("a.tfrecord", "b.tfrecord"))
    assert open_records(first.replace("a.", "*."), 12, 3, 40).num_examples == (4, 4)
    write_metadata(second, {**read_metadata(second), **change})
    with pytest.raises(ValueError, match=message):
        open_records(f"{first},{second}", 12, 3, 40)


def test_remote_records_are_read_and_failures_explained_like_local_ones(noted_file):
    address = to_object_store(noted_file, "c.tfrecord")
    expected = take(training_batches(open_records(noted_file, 12, 3, 40), 2, seed=3, start_step=3), 4)
    records = open_records(address, 12, 3, 40)
    assert_equal(take(training_batches(records, 2, seed=3, start_step=3), 4), expected)
    tf.io.gfile.remove(f"{address}.json")
    assert open_records(address, 12, 3, 40).num_examples == (4,)  # counted
    data = bytearray(pathlib.Path(noted_file).read_bytes())
    data[-20] ^= 1
    with tf.io.gfile.GFile(address, "wb") as file:
        file.write(bytes(data))
    assert "c.tfrecord is damaged at byte" in str(explain_failure(records, failure(records)))
