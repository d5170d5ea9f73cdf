"""Records: TensorFlow reads the same bytes back, files appear complete or not at all, and their metadata."""

import errno
import json
import os
import pathlib

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.records.writing import (
    RecordWriter,
    check_record_files,
    metadata_file,
    read_metadata,
    serialize_example,
    tell_replaced,
    write_metadata,
)

int64 = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 300)


def entries(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


def write_then(files, action):
    """Writes a record to each file, calls a function with the writer, and closes the writer."""
    with RecordWriter(files) as writer:
        for _ in files:
            writer.write_file([b"record"])
        action(writer)


def records_of(file):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(file))]


@given(
    features=st.dictionaries(
        st.text(max_size=200),
        st.one_of(
            st.lists(small, min_size=1, max_size=300),
            st.lists(int64, min_size=1),
            st.lists(st.floats(width=32, allow_nan=False), min_size=1),
        ),
        min_size=1,
    )
)
def test_serialised_examples_are_those_of_tensorflow(features):
    example = tf.train.Example.FromString(serialize_example(features))
    expected = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(expected.features.feature[name], kind).value.extend(values)
    assert example.features == expected.features


def test_tensorflow_parses_serialised_examples():
    serialized = serialize_example({"ids": [0, 127, 128, 30521, 2**40, -1], "weights": [1.0, 0.5, 0.0], "one": [1]})
    parsed = tf.io.parse_single_example(
        serialized,
        {
            "ids": tf.io.FixedLenFeature([6], tf.int64),
            "weights": tf.io.FixedLenFeature([3], tf.float32),
            "one": tf.io.FixedLenFeature([1], tf.int64),
        },
    )
    np.testing.assert_array_equal(parsed["ids"], [0, 127, 128, 30521, 2**40, -1])
    np.testing.assert_array_equal(parsed["weights"], np.float32([1, 0.5, 0]))
    np.testing.assert_array_equal(parsed["one"], [1])


def test_records_go_to_the_files_in_turn_and_metadata_beside_them(tmp_path):
    files = [str(tmp_path / "new" / name) for name in ("b", "a")]
    with RecordWriter(files) as writer:
        for first, end in ((0, 3), (3, 5)):
            writer.write_file(b"record %d" % number for number in range(first, end))
        assert not os.path.exists(files[0])
        writer.commit({"kind": "test"})
    assert records_of(files[0]) == [b"record 0", b"record 1", b"record 2"]
    assert records_of(files[1]) == [b"record 3", b"record 4"]
    assert [read_metadata(file) for file in files] == [
        {"kind": "test", "num_examples": 3, "num_bytes": 72},
        {"kind": "test", "num_examples": 2, "num_bytes": 48},
    ]
    assert entries(tmp_path / "new") == ["a", "a.json", "b", "b.json"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_a_failure_leaves_no_file_and_what_was_there_untouched(tmp_path, error):
    old = tmp_path / "old"
    old.write_bytes(b"precious")
    write_metadata(str(old), {"kind": "old"})

    def fail(writer):
        assert len(entries(tmp_path)) == 4  # the writer holds two hidden files
        raise error

    with pytest.raises(error):
        write_then([str(old), str(tmp_path / "new")], fail)
    assert entries(tmp_path) == ["old", "old.json"]
    assert old.read_bytes() == b"precious"
    assert read_metadata(str(old)) == {"kind": "old"}


@pytest.mark.parametrize("num_records", [0, 1023, 1024, 2500])
def test_records_keep_their_order_however_many_are_gathered(tmp_path, num_records):
    with RecordWriter([str(tmp_path / "a")]) as writer:
        writer.write_file(b"%d" % number for number in range(num_records))
        writer.commit({})
    assert records_of(tmp_path / "a") == [b"%d" % number for number in range(num_records)]
    assert read_metadata(str(tmp_path / "a"))["num_examples"] == num_records


def test_without_commit_nothing_is_left(tmp_path):
    write_then([str(tmp_path / "new")], lambda writer: None)
    assert entries(tmp_path) == []


def test_existing_files_are_replaced_at_the_end(tmp_path, messages):
    old = tmp_path / "old"
    old.write_bytes(b"precious")
    write_metadata(str(old), {"kind": "old"})
    with RecordWriter([str(old)]) as writer:
        writer.write_file([b"record"])
        assert old.read_bytes() == b"precious"
        writer.commit({"kind": "new"})
    assert records_of(old) == [b"record"]
    assert read_metadata(str(old))["kind"] == "new"
    assert messages == []
    tell_replaced([str(tmp_path / "none"), str(old)])
    assert messages == [f"{old} exists; the new records replace existing files when they are complete"]
    tell_replaced([str(old), str(old)])
    assert messages[-1].startswith(f"{old} and 1 more files exist; the new records replace")


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "disk").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "disk" / "file")
    write_then([str(tmp_path / "link")], lambda writer: writer.commit({}))
    assert (tmp_path / "link").is_symlink()
    assert records_of(tmp_path / "link") == [b"record"]


def test_a_failure_between_the_last_two_steps_leaves_no_metadata_of_other_records(tmp_path, monkeypatch):
    old = str(tmp_path / "old")
    pathlib.Path(old).write_bytes(b"precious")
    write_metadata(old, {"kind": "old"})

    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bert_keras.data_prep.records.writing.write_metadata", fail)
    with pytest.raises(KeyboardInterrupt):
        write_then([old], lambda writer: writer.commit({"kind": "new"}))
    assert read_metadata(old) is None
    assert entries(tmp_path) == ["old"]


@pytest.mark.parametrize("method", ["write", "close"])
def test_a_full_disk_is_told_with_the_file(tmp_path, monkeypatch, method):
    class FullDisk:
        def __init__(self, path, is_gzip):
            pass

        def write(self, framed):
            if method == "write":
                raise OSError(errno.ENOSPC, "No space left on device")

        def close(self):
            raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("bert_keras.data_prep.records.writing.TFRecordFile", FullDisk)
    sentence = f'cannot write "{tmp_path}/new": No space left on device; free some space there'
    with pytest.raises(OSError, match=sentence):
        write_then([str(tmp_path / "new")], lambda writer: writer.commit({}))
    assert entries(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path, monkeypatch):
    # Simulates the refusal, because root may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "makedirs", refuse)
    sentence = f'cannot write into the output folder "{tmp_path}/new": Permission denied'
    with pytest.raises(ValueError, match=sentence), RecordWriter([str(tmp_path / "new" / "file")]):
        pass
    monkeypatch.setattr(os, "access", lambda *_: False)
    sentence = f'"{tmp_path}/new" cannot be written to; choose another, or change its permissions'
    with pytest.raises(ValueError, match=sentence):
        check_record_files([str(tmp_path / "new" / "file")])


def test_folders_created_for_nothing_are_removed_again(tmp_path, messages):
    (tmp_path / "there").mkdir()
    files = [str(tmp_path / name) for name in ("there/a/b/file", "there/a/c/file", "there/file")]

    def fail(writer):
        assert entries(tmp_path / "there" / "a") == ["b", "c"]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_then(files, fail)
    assert entries(tmp_path) == ["there"]
    assert entries(tmp_path / "there") == []
    assert messages[-1] == f"removed the empty folder {tmp_path}/there/a again"


def test_a_created_folder_stays_where_something_came_into_it(tmp_path):
    def fail(writer):
        (tmp_path / "a" / "note").touch()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_then([str(tmp_path / "a" / "b" / "file"), str(tmp_path / "a" / "file")], fail)
    assert entries(tmp_path / "a") == ["note"]


def test_outputs_are_checked_without_creating_anything(tmp_path):
    text, vocab, out = tmp_path / "text", tmp_path / "vocab.json", str(tmp_path / "folder" / "out")
    text.write_text("a")
    vocab.write_text("[UNK]")
    (tmp_path / "link").symlink_to(text)
    check_record_files([out, out + "2"], [str(text)], str(vocab))
    assert entries(tmp_path) == ["link", "text", "vocab.json"]
    for files, sentence in (
        ([], "an output file has no name; give at least one, and remove extra commas"),
        ([out, ""], "an output file has no name"),
        ([out, f"{tmp_path}/folder/../folder/out"], 'out" is given twice; the outputs need different names'),
        ([out, out + ".json"], 'out.json" is given twice'),
        ([str(tmp_path / "link")], 'the output file ".*link" is the input ".*text"; choose another name'),
        ([f"{tmp_path}/./vocab.json"], 'json" is the vocabulary file ".*vocab.json"; choose another name'),
        ([str(tmp_path / "vocab")], 'the output file ".*vocab.json" is the vocabulary file ".*vocab.json"; choose'),
        ([str(tmp_path)], "exists and is not an ordinary file; choose another name"),
        ([os.devnull], 'the output "/dev/null" exists and is not an ordinary file'),
        ([str(text / "x" / "out")], 'text/x" cannot be created, because ".*text" is not a folder'),
    ):
        with pytest.raises(ValueError, match=sentence):
            check_record_files(files, [str(text)], str(vocab))
    assert vocab.read_text() == "[UNK]"


def test_metadata_of_an_input_name_is_refused(tmp_path):
    (tmp_path / "out.json").write_text("{}")
    with pytest.raises(ValueError, match=r'out\.json" is the input ".*out\.json"'):
        check_record_files([str(tmp_path / "out")], [str(tmp_path / "out.json")])


def test_metadata_round_trip(tmp_path):
    file = str(tmp_path / "x.tfrecord")
    assert read_metadata(file) is None
    write_metadata(file, {"kind": "pretraining", "share": 0.5})
    assert metadata_file(file) == f"{file}.json"
    assert json.loads(pathlib.Path(f"{file}.json").read_text()) == read_metadata(file)
    assert read_metadata(file) == {"kind": "pretraining", "share": 0.5}
    assert entries(tmp_path) == ["x.tfrecord.json"]


@pytest.mark.parametrize("content", [b'{"kind": ', b"[1]", b"\xff"])
def test_damaged_metadata_is_told(tmp_path, content):
    (tmp_path / "x.json").write_bytes(content)
    with pytest.raises(ValueError, match=r"x\.json is damaged: it is not a JSON object; build the records again, or"):
        read_metadata(str(tmp_path / "x"))
