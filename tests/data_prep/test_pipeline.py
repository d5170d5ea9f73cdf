"""Reading records: seed and step determine the order, and errors name the wrong file."""

import gzip
import json
import pathlib
import re

import numpy as np
import pytest
import tensorflow as tf
from tiny_data import assert_same_batches, take

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.records import reading
from bert_keras.data_prep.records.checks import find_damage
from bert_keras.data_prep.records.reading import explain_failure
from bert_keras.data_prep.records.writing import read_metadata, serialize_example, write_metadata, write_records
from bert_keras.engine.input.pretraining_batches import evaluation_batches, training_batches
from bert_keras.storage import paths


def open_records(pattern, max_seq_length=12, max_predictions_per_seq=3, vocab_size=40):
    return reading.open_records(str(pattern), max_seq_length, max_predictions_per_seq, vocab_size)


@pytest.fixture(scope="module")
def records(tmp_path_factory, write_records):
    """23 examples in three files."""
    folder = tmp_path_factory.mktemp("records")
    for number, count in enumerate((10, 8, 5)):
        write_records(folder / f"part-{number}.tfrecord", count, seed=number)
    return open_records(f"{folder}/part-*.tfrecord")


def fingerprints(batches):
    return [row.tobytes() for batch in batches for row in batch["input_ids"]]


def test_records_are_counted_and_parsed(tmp_path, write_records):
    examples = write_records(tmp_path / "one.tfrecord", 7)
    records = open_records(tmp_path / "one.tfrecord")
    assert records.total_examples == 7
    [batch] = take(evaluation_batches(records, 7), 1)
    for name, value in examples.items():
        np.testing.assert_array_equal(batch[name], value)
        assert batch[name].dtype == (np.float32 if name == "masked_lm_weights" else np.int32)


def test_reading_continues_at_any_step_and_tells_how_far_it_is(records, messages, monkeypatch):
    monkeypatch.setattr(Progress, "seconds_between", 0.0)
    whole = take(training_batches(records, 4, seed=9), 20)
    assert messages == []
    for start_step in (5, 6, 17):  # the second epoch begins within the sixth batch
        rest = take(training_batches(records, 4, seed=9, start_step=start_step), 3)
        assert_same_batches(rest, whole[start_step : start_step + 3])
        if start_step == 5:
            lines = [f"reading up to step 6: {number} of 5 batches" for number in range(1, 6)]
            assert [line.rsplit(" (", 1)[0] for line in messages] == lines


def test_each_epoch_has_each_example_once_in_its_own_order_whatever_the_global_seed(records):
    rows = fingerprints(take(training_batches(records, 1, seed=9), 46))
    assert sorted(rows[:23]) == sorted(rows[23:]) == sorted(fingerprints(take(evaluation_batches(records, 1), 23)))
    assert len(set(rows)) == 23
    assert rows[:23] != rows[23:]
    assert rows[:23] != fingerprints(take(training_batches(records, 1, seed=10), 23))
    for global_seed in (0, 1):
        tf.random.set_seed(global_seed)
        assert fingerprints(take(training_batches(records, 1, seed=9), 46)) == rows


def test_evaluation_gives_each_example_once_or_repeats_the_files(records):
    batches = take(evaluation_batches(records, 10), 9)
    assert [batch["is_real_example"].sum() for batch in batches] == [10, 10, 3]
    assert all(batch["input_ids"].shape == (10, 12) for batch in batches)
    rows = fingerprints(batches)[:23]
    assert len(set(rows)) == 23
    assert not batches[-1]["masked_lm_weights"][3:].any()
    assert fingerprints(take(evaluation_batches(records, 10, num_batches=5), 9)) == [*rows, *rows, *rows[:4]]


def test_paths_and_patterns_are_separated_by_commas(tmp_path, write_records, messages):
    for name in ("a.tfrecord", "b.tfrecord"):
        write_records(tmp_path / name, 2)
        (tmp_path / f"{name}.json").write_text("{}")
    records = open_records(f"{tmp_path}/a*, {tmp_path}/b*")
    assert [path.rsplit("/", 1)[1] for path in records.files] == ["a.tfrecord", "b.tfrecord"]
    folder = tmp_path / "part [1]"
    folder.mkdir()
    write_records(folder / "a.tfrecord", 2)
    (folder / ".b.tfrecord.unfinished-host-1-01234567").write_bytes(b"unfinished")
    assert open_records(folder / "a.tfrecord").total_examples == 2
    (tmp_path / ".b.tfrecord.unfinished-host-1-01234567").write_bytes(b"unfinished")
    assert open_records(f"{tmp_path}/a*tfrecord,{tmp_path}/a.tf*d").total_examples == 4
    assert "a.tfrecord: named more than once, and read each time" in "\n".join(messages)


def with_floats(examples):
    example = {name: values[0].tolist() for name, values in examples.items()}
    return serialize_example(example | {"input_mask": [float(value) for value in example["input_mask"]]})


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda data, examples: b"", "x.tfrecord holds no examples"),
        (lambda data, examples: data[: -len(data) // 4 - 5], "not a whole TFRecord file: it ends or is damaged in"),
        (lambda data, examples: data[: -len(data) // 4 - 14], "it ends or is damaged in example 3"),
        (lambda data, examples: data[: -len(data) // 4 - 60], "it ends or is damaged in example 3"),
        (lambda data, examples: b"A sentence, not a record.\n" * 20, "x.tfrecord is not a TFRecord file, but text"),
        (lambda data, examples: b"short\n", "x.tfrecord is not a TFRecord file, but text; build records of it"),
        (lambda data, examples: [serialize_example({"input_ids": [1, 2]})], "examples: record 1 has no input_mask"),
        (lambda data, examples: [b"\xff\xff\xff"], "does not hold pre-training examples: record 1 is not a tf.train"),
        (lambda data, examples: [with_floats(examples)], "example 1: input_mask has 0 values, but 12 are needed"),
    ],
    ids=["empty", "cut 5", "cut 14", "cut 60", "text", "short text", "other task", "no example", "floats"],
)
def test_a_file_without_good_records_is_named(tmp_path, write_records, change, message):
    path = tmp_path / "x.tfrecord"
    examples = write_records(path, 4)
    changed = change(path.read_bytes(), examples)
    if isinstance(changed, bytes):
        path.write_bytes(changed)
    else:
        with tf.io.TFRecordWriter(str(path)) as writer:
            writer.write(changed[0])
    with pytest.raises(ValueError, match=message):
        open_records(path)


@pytest.mark.parametrize(("byte", "place"), [(3, 0), (9, 0), (40, 12), (-2, 12)])
def test_damage_in_the_first_record_is_found_on_opening_without_a_pipeline(
    tmp_path, write_records, monkeypatch, byte, place
):
    """A pipeline of tf.data would take 15 ms of the processor for each file."""
    monkeypatch.setattr(tf.data, "TFRecordDataset", None)
    write_records(tmp_path / "a", 1)
    plain, compressed = (tmp_path / "a").read_bytes(), tmp_path / "b.gz"

    def write(content):
        (tmp_path / "a").write_bytes(content)
        compressed.write_bytes(gzip.compress(content))
        for path in (tmp_path / "a", compressed):
            write_metadata(path, {"num_examples": 1, "num_bytes": path.stat().st_size})

    write(plain)
    assert open_records(f"{tmp_path}/a,{compressed}").total_examples == 2
    damaged = bytearray(plain)
    damaged[byte] ^= 1
    write(damaged)
    for name in ("a", "b.gz"):
        with pytest.raises(ValueError, match=f"{name} is damaged at byte {place}; build it again"):
            open_records(tmp_path / name)


def test_only_patterns_leave_out_names_that_notes_and_unfinished_files_have(tmp_path, write_records):
    for name in (".a", "b", "c.json"):
        write_records(tmp_path / name, 2)
    assert open_records(f"{tmp_path}/*").files == (f"{tmp_path}/b",)
    assert open_records(f"{tmp_path}/.a,{tmp_path}/c.json").total_examples == 4


BUILT = {"max_seq_length": 12, "max_predictions_per_seq": 3, "vocab_size": 40}


@pytest.mark.parametrize(
    ("pattern", "sizes", "notes", "message"),
    [
        ("nothing-*", {}, {}, r"nothing-\*' matches no file; build records with"),
        ("0.tfrecord,", {}, {}, "has an empty name next to a comma; remove the comma"),
        ("", {}, {}, "is a folder; name the record files in it, for example .*tfrecord"),
        ("0*d", {"max_seq_length": 16}, {}, "0.tfrecord example 1: input_ids has 12 values, but 16 are needed; give"),
        ("0*d", {"max_predictions_per_seq": 5}, {}, "masked_lm_positions has 3 values, but 5 are needed; give the"),
        ("0*d", {}, {"0": {"num_examples": 9}}, "0.tfrecord holds 2 examples, but 9 were written to it; build it"),
        ("0*d", {"max_seq_length": 64}, {"0": BUILT}, "with max_seq_length=12, but max_seq_length=64 was given"),
        ("0*d", {"vocab_size": 30}, {"0": BUILT}, "a vocabulary of 40 entries, but the model's vocab_size is 30"),
        ("*d", {}, {"0": {"vocab_sha256": 0}, "1": {"vocab_sha256": 1}}, "with different vocabularies; build them"),
        ("*d", {}, {"0": {"do_lower_case": 0}, "1": {"do_lower_case": 1}}, "different values of do_lower_case"),
        ("*d", {}, {"0": {"strip_accents": 0}, "1": {"strip_accents": 1}}, "different values of strip_accents"),
    ],
    ids=[
        *("no match", "comma", "folder", "length", "predictions", "lost examples", "built length", "built vocabulary"),
        *("vocabularies", "casing", "accents"),
    ],
)
def test_files_that_do_not_fit_are_named(tmp_path, write_records, pattern, sizes, notes, message):
    for name in ("0", "1"):
        write_records(tmp_path / f"{name}.tfrecord", 2)
    for name, note in notes.items():
        (tmp_path / f"{name}.tfrecord.json").write_text(json.dumps(note))
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        open_records(f"{tmp_path}/{pattern}", **sizes)


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("masked_lm_positions", 12, "masked_lm_positions has 12, but needs numbers from 0 to 11; build the file again"),
        ("next_sentence_labels", 5, "next_sentence_labels has 5, but needs numbers from 0 to 1; build the file again"),
        ("input_ids", -1, "id -1 is outside the vocabulary of 40 entries"),
    ],
    ids=["position", "label", "id"],
)
def test_numbers_out_of_range_are_named(tmp_path, make_examples, name, value, message):
    examples = make_examples(4)
    for row in (3, 0):  # the first is found when the file is opened, the others when they are read
        examples[name][row, -1] = value
        _write(tmp_path / "odd.tfrecord", examples)
        with pytest.raises(ValueError, match=f"odd.tfrecord example {row + 1}: {message}"):
            read_all(open_records(tmp_path / "odd.tfrecord"))


def read_all(records):
    try:
        take(evaluation_batches(records, records.total_examples), 1)
    except tf.errors.InvalidArgumentError as error:
        raise explain_failure(records, error) from error


@pytest.fixture
def damaged_records(tmp_path, write_records):
    """Return a function of a byte's position: damages it in the second of three files that were opened before.

    The byte is `offset` after the beginning of record `record`, of 5.
    """

    def make(record, offset):
        for number in range(3):
            write_records(tmp_path / f"{number}.tfrecord", 6 - number, seed=number)
        records = open_records(f"{tmp_path}/*.tfrecord")
        data = bytearray((tmp_path / "1.tfrecord").read_bytes())
        start = len(data) // 5 * record
        data[start + offset] ^= 1
        (tmp_path / "1.tfrecord").write_bytes(data)
        return records, start

    return make


def failure(records):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError)) as caught:
        take(evaluation_batches(records, 15), 1)
    return caught.value


def test_a_record_whose_bytes_changed_is_named_without_reading_the_files(damaged_records, monkeypatch):
    records, start = damaged_records(4, 20)
    error = failure(records)
    monkeypatch.setattr(tf.data, "TFRecordDataset", None)
    assert f"1.tfrecord is damaged at byte {start + 12}; build it again" in str(explain_failure(records, error))


def test_a_record_whose_length_changed_is_named_in_limited_time(damaged_records, tmp_path, write_records):
    records, start = damaged_records(2, 1)
    error = failure(records)
    assert f"1.tfrecord is damaged at byte {start}; build it again" in str(explain_failure(records, error))
    found = find_damage(records.files, records.compression_types, error, seconds=0)
    assert re.search(
        rf"a record file is damaged at byte {start}, and TensorFlow does not say which; the first 0 of 3 files were "
        r"read again and are whole, so build .*0.tfrecord and those after it again",
        str(found),
    )
    write_records(tmp_path / "1.tfrecord", 5, seed=1)  # whole again
    assert explain_failure(records, error) is error


@pytest.mark.parametrize("kind", [tf.errors.InvalidArgumentError, tf.errors.InternalError])
def test_an_error_that_is_not_about_records_stays_as_it_is(tmp_path, write_records, kind):
    write_records(tmp_path / "gone.tfrecord", 2)
    records = open_records(tmp_path / "gone.tfrecord")
    (tmp_path / "gone.tfrecord").unlink()  # reading it would fail
    error = kind(None, None, "Incompatible shapes: [2,3] vs. [2,4]")
    assert explain_failure(records, error) is error


def test_of_many_files_only_the_one_in_the_error_is_read_again(tmp_path, write_records, make_examples):
    for number in range(2):
        write_records(tmp_path / f"{number}.tfrecord", 3)
    examples = make_examples(5)
    examples["masked_lm_ids"][3, 1] = 77
    _write(tmp_path / "2.tfrecord", examples)
    records = open_records(f"{tmp_path}/*.tfrecord")
    error = failure(records)
    (tmp_path / "0.tfrecord").unlink()
    (tmp_path / "1.tfrecord").write_bytes(b"")
    assert "2.tfrecord example 4: id 77 is outside the vocabulary" in str(explain_failure(records, error))
    (tmp_path / "2.tfrecord").write_bytes(b"")
    assert "2.tfrecord now has at most 0 examples; it changed" in str(explain_failure(records, error))


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
    write_records(path, _serialized(examples), {"vocab_sha256": "a", "do_lower_case": True})
    return path


def test_a_file_is_counted_only_if_its_size_is_not_that_in_its_metadata(noted_file, monkeypatch):
    with monkeypatch.context() as patch:
        patch.setattr(reading, "count_records", None)
        assert open_records(noted_file).num_examples == (4,)
    data = pathlib.Path(noted_file).read_bytes()
    pathlib.Path(noted_file).write_bytes(data[: len(data) * 3 // 4])
    with pytest.raises(ValueError, match="noted.tfrecord holds 3 examples, but 4 were written to it; build it again"):
        open_records(noted_file)


@pytest.mark.parametrize("noted", [{}, {"num_bytes": 1}])
def test_a_compressed_file_without_its_size_is_counted(noted, tmp_path, make_examples):
    path = str(tmp_path / "a.tfrecord.gz")
    write_records(path, _serialized(make_examples(3)), {})
    pathlib.Path(path).write_bytes(gzip.compress(pathlib.Path(path).read_bytes()))
    write_metadata(path, {"num_examples": 4, **noted})
    with pytest.raises(ValueError, match="a.tfrecord.gz holds 3 examples, but 4 were written to it; build it again"):
        open_records(path)


def test_counting_tells_how_far_it_is(tmp_path, write_records, messages, monkeypatch):
    monkeypatch.setattr(Progress, "seconds_between", 0.0)
    write_records(tmp_path / "a.tfrecord", 3)
    write_records(tmp_path / "b.tfrecord", 3)
    open_records(f"{tmp_path}/*.tfrecord")
    size = sum(path.stat().st_size for path in tmp_path.iterdir())
    assert f"counting the examples of record files without metadata: {size:,} of {size:,} bytes" in messages[-1]


def test_remote_records_are_read_checked_and_explained_as_local_ones(noted_file):
    folder = f"ram://{pathlib.Path(noted_file).parent.name}"
    for name in ("a.tfrecord", "b.tfrecord"):
        for end in ("", ".json"):
            paths.copy(noted_file + end, f"{folder}/{name}{end}")
    expected = take(training_batches(open_records(noted_file), 2, seed=3, start_step=3), 4)
    records = open_records(f"{folder}/a.tfrecord")
    assert_same_batches(take(training_batches(records, 2, seed=3, start_step=3), 4), expected)
    assert open_records(f"{folder}/*.tfrecord").num_examples == (4, 4)
    metadata = read_metadata(f"{folder}/b.tfrecord")
    write_metadata(f"{folder}/b.tfrecord", {**metadata, "vocab_sha256": "b"})
    with pytest.raises(ValueError, match="were built with different vocabularies"):
        open_records(f"{folder}/*.tfrecord")
    write_metadata(f"{folder}/b.tfrecord", {**metadata, "num_examples": 5, "num_bytes": 1})
    with pytest.raises(ValueError, match="holds 4 examples, but 5 were written to it"):
        open_records(f"{folder}/b.tfrecord")
    paths.remove(f"{folder}/a.tfrecord.json")
    assert open_records(f"{folder}/a.tfrecord").num_examples == (4,)  # counted
    data = bytearray(pathlib.Path(noted_file).read_bytes())
    data[-20] ^= 1
    with paths.open_file(f"{folder}/a.tfrecord", "wb") as file:
        file.write(bytes(data))
    assert "a.tfrecord is damaged at byte" in str(explain_failure(records, failure(records)))


def test_failures_in_compiled_steps_and_on_several_devices_are_explained(tmp_path, make_examples):
    examples = make_examples(6)
    examples["masked_lm_ids"][4, 1] = 77
    _write(tmp_path / "odd.tfrecord", examples)
    records = open_records(tmp_path / "odd.tfrecord")
    strategy = tf.distribute.MirroredStrategy(["CPU:0"])
    batches = iter(strategy.experimental_distribute_dataset(training_batches(records, 2, seed=1)))

    @tf.function
    def steps():
        for _ in tf.range(3):
            strategy.run(lambda batch: batch["input_ids"], (next(batches),))

    with pytest.raises(tf.errors.InvalidArgumentError) as caught:
        steps()
    assert "odd.tfrecord example 5: id 77 is outside the vocabulary" in str(explain_failure(records, caught.value))
