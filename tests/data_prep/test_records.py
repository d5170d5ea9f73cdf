"""Records: TensorFlow reads the same bytes back, files appear complete or not at all, and their metadata."""

import errno
import gzip
import os
import pathlib

import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from bert_keras.data_prep.records.tfrecord_format import checksums, compressing, frame, is_gzip_file
from bert_keras.data_prep.records.writing import (
    check_record_files,
    created_folders,
    publish,
    read_metadata,
    serialize_example,
    tell_replaced,
    write_metadata,
    write_records,
)
from bert_keras.storage import paths

int64 = st.integers(-(2**63), 2**63 - 1)
small = st.integers(0, 300)


def entries(folder):
    return sorted(path.name for path in pathlib.Path(folder).iterdir())


def records_of(file):
    return [record.numpy() for record in tf.data.TFRecordDataset(str(file))]


# Examples and the format of the file.


@settings(max_examples=50)
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
def test_serialized_examples_are_those_of_tensorflow(features):
    example = tf.train.Example.FromString(serialize_example(features))
    expected = tf.train.Example()
    for name, values in features.items():
        kind = "float_list" if isinstance(values[0], float) else "int64_list"
        getattr(expected.features.feature[name], kind).value.extend(values)
    assert example.features == expected.features


def test_checksum_is_the_published_one():
    # RFC 3720, B.4: the CRC-32C of 32 zeros and of 32 ones; masked as TFRecord does.
    for record, crc in ((bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)):
        masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
        assert checksums([record]).tolist() == [masked]


@given(records=st.lists(st.binary(max_size=40), max_size=20))
def test_framing_does_not_depend_on_other_records(records):
    assert list(frame(records)) == [framed for record in records for framed in frame([record])]


def test_bytes_are_those_of_tensorflow_compressed_or_not(tmp_path, monkeypatch):
    records = [b"", b"a", b"abc", b"abcd", b"x" * 5000, *(b"%d" % number * (number % 97) for number in range(2100))]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    for name, is_gzip, seconds in (("plain", False, 0), ("gzip", True, 1e9), ("later", True, 2e9)):
        monkeypatch.setattr("time.time", lambda seconds=seconds: seconds)
        with open(tmp_path / name, "wb") as plain, compressing(plain, is_gzip) as file:
            file.writelines(frame(records))
        assert is_gzip_file(str(tmp_path / name)) == is_gzip
        assert list(tf.data.TFRecordDataset(str(tmp_path / name), "GZIP" if is_gzip else "").as_numpy_iterator()) == (
            records
        )
    assert (tmp_path / "plain").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert gzip.decompress((tmp_path / "gzip").read_bytes()) == (tmp_path / "theirs").read_bytes()
    assert (tmp_path / "gzip").read_bytes() == (tmp_path / "later").read_bytes()


# Writing files.


def test_each_file_gets_its_records_and_metadata(tmp_path):
    for name, num_records in (("b", 3), ("a", 2)):
        write_records(str(tmp_path / name), (b"record %d" % number for number in range(num_records)), {"kind": name})
    assert records_of(tmp_path / "b") == [b"record 0", b"record 1", b"record 2"]
    files = [str(tmp_path / f"new {name}") for name in ("b", "a")]
    publish(files, [str(tmp_path / name) for name in ("b", "a")], [3, 2], [{"kind": "test"}, {"kind": "other"}])
    assert records_of(files[0]) == [b"record 0", b"record 1", b"record 2"]
    assert records_of(files[1]) == [b"record 0", b"record 1"]
    assert [read_metadata(file) for file in files] == [
        {"kind": "test", "num_examples": 3, "num_bytes": 72},
        {"kind": "other", "num_examples": 2, "num_bytes": 48},
    ]
    assert entries(tmp_path) == ["a.json", "b.json", "new a", "new a.json", "new b", "new b.json"]


@pytest.mark.parametrize("num_records", [0, 1024, 2500])
def test_records_keep_their_order_in_all_batches(tmp_path, num_records):
    write_records(str(tmp_path / "a"), (b"%d" % number for number in range(num_records)), {})
    assert records_of(tmp_path / "a") == [b"%d" % number for number in range(num_records)]
    assert read_metadata(str(tmp_path / "a"))["num_examples"] == num_records


def test_records_may_be_remote(tmp_path):
    for file in (str(tmp_path / "a"), f"ram://{tmp_path.name}/a"):
        write_records(file, [b"record"], {"kind": "test"})
    assert paths.read_bytes(file) == (tmp_path / "a").read_bytes()
    assert read_metadata(file) == read_metadata(str(tmp_path / "a"))
    assert paths.list_dir(paths.parent(file)) == ["a", "a.json"]


@pytest.fixture
def old(tmp_path):
    """A record file with metadata that existed before."""
    (tmp_path / "old").write_bytes(b"precious")
    write_metadata(str(tmp_path / "old"), {"kind": "old"})
    return tmp_path / "old"


@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_failure_leaves_no_new_file_and_the_old_one_unchanged(tmp_path, old, error):
    def fail():
        yield b"record"
        assert len(entries(tmp_path)) == 3  # there is a hidden file
        raise error

    for file in (old, tmp_path / "new"):
        with pytest.raises(error):
            write_records(str(file), fail(), {})
    assert entries(tmp_path) == ["old", "old.json"]
    assert old.read_bytes() == b"precious"
    assert read_metadata(str(old)) == {"kind": "old"}


def test_existing_files_are_replaced_at_the_end(tmp_path, old, messages):
    def look():
        yield b"record"
        assert old.read_bytes() == b"precious"

    (tmp_path / "link").symlink_to(old)
    write_records(str(tmp_path / "link"), look(), {"kind": "new"})
    assert (tmp_path / "link").is_symlink()
    assert records_of(old) == [b"record"]
    assert read_metadata(str(old))["kind"] == "new"
    assert messages == []
    tell_replaced([str(tmp_path / "none"), str(old)])
    assert messages == [f"{old} exists; the new records replace existing files when they are complete"]
    tell_replaced([str(old), str(old)])
    assert messages[-1].startswith(f"{old} and 1 more files exist; the new records replace")


def test_failure_between_the_last_two_steps_leaves_no_metadata_of_other_records(tmp_path, old, monkeypatch):
    def fail(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("bert_keras.data_prep.records.writing.write_metadata", fail)
    with pytest.raises(KeyboardInterrupt):
        write_records(str(old), [b"record"], {"kind": "new"})
    assert entries(tmp_path) == ["old"]


@pytest.mark.parametrize("content", ['{"mine": 1}', "[1]", "", "text"])
def test_metadata_never_replaces_a_file_of_the_user(tmp_path, content):
    (tmp_path / "wiki.json").write_text(content)
    with pytest.raises(ValueError, match='the metadata of ".*wiki" would replace ".*wiki.json"; choose'):
        check_record_files([str(tmp_path / "wiki")])
    write_metadata(str(tmp_path / "wiki"), {"num_examples": 1})
    check_record_files([str(tmp_path / "wiki")])


def test_the_address_of_an_input_is_not_an_output(tmp_path):
    with pytest.raises(ValueError, match="is the input"):
        check_record_files([f"file://{tmp_path}/v.txt"], [f"{tmp_path}/v.txt"])


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
@pytest.mark.parametrize("size", [1, 100_000], ids=["on closing", "on writing"])
def test_full_disk_is_reported_with_the_file(tmp_path, monkeypatch, size):
    monkeypatch.setattr(paths, "open_file", lambda path, mode: open("/dev/full", mode))  # noqa: SIM115
    with pytest.raises(OSError, match=f"No space left on device: '{tmp_path}/new'"):
        write_records(str(tmp_path / "new"), [os.urandom(size)], {})
    assert entries(tmp_path) == []


def test_folder_that_cannot_be_written_is_named(tmp_path, monkeypatch):
    # Simulates the refusal, because root may write everywhere.
    def refuse(*_, **__):
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(os, "makedirs", refuse)
    sentence = f'cannot write into the output folder "{tmp_path}/new": Permission denied'
    with pytest.raises(ValueError, match=sentence), created_folders([str(tmp_path / "new" / "file")]):
        pass
    monkeypatch.setattr(os, "access", lambda *_: False)
    sentence = f'the output folder "{tmp_path}/new" cannot be written, because {tmp_path} is read-only; give another'
    with pytest.raises(ValueError, match=sentence):
        check_record_files([str(tmp_path / "new" / "file")])


def test_folders_created_in_vain_are_removed_unless_used(tmp_path, messages):
    files = [str(tmp_path / name) for name in ("a/b/file", "a/c/file", "used/d/file", "file")]
    with pytest.raises(KeyboardInterrupt), created_folders(files):  # noqa: PT012
        assert entries(tmp_path / "a") == ["b", "c"]
        (tmp_path / "used" / "note").touch()
        raise KeyboardInterrupt
    assert entries(tmp_path) == ["used"]
    assert entries(tmp_path / "used") == ["note"]
    assert f"removed the empty folder {tmp_path}/a again" in messages


def test_outputs_are_checked_without_creating_anything(tmp_path):
    text, vocab, out = tmp_path / "text.json", tmp_path / "vocab.json", str(tmp_path / "folder" / "out")
    text.write_text("a")
    vocab.write_text("[UNK]")
    (tmp_path / "link").symlink_to(text)
    check_record_files([out, out + "2"], [str(text)], str(vocab))
    for files, sentence in (
        ([], "an output file has no name; give at least one, and remove extra commas"),
        ([out, ""], "an output file has no name"),
        ([out, f"{tmp_path}/folder/../folder/out"], 'out" is given twice; the outputs need different names'),
        ([out, out + ".json"], 'out.json" is given twice'),
        ([str(tmp_path / "link")], 'the output file ".*link" is the input ".*text.json"; choose another name'),
        ([str(tmp_path / "text")], 'the output file ".*text.json" is the input ".*text.json"; choose'),
        ([f"{tmp_path}/./vocab.json"], 'json" is the vocabulary file ".*vocab.json"; choose another name'),
        ([str(tmp_path)], "exists and is not an ordinary file; choose another name"),
        ([os.devnull], 'the output "/dev/null" exists and is not an ordinary file'),
        ([str(text / "x" / "out")], 'text.json/x" cannot be created, because .*text.json is a file; give'),
    ):
        with pytest.raises(ValueError, match=sentence):
            check_record_files(files, [str(text)], str(vocab))
    assert entries(tmp_path) == ["link", "text.json", "vocab.json"]


@pytest.mark.parametrize("content", [b'{"kind": ', b"[1]", b"\xff", b'{"vocab_size": null}', b'{"vocab_size": "9"}'])
def test_damaged_metadata_is_named(tmp_path, content):
    assert read_metadata(str(tmp_path / "x")) is None
    (tmp_path / "x.json").write_bytes(content)
    found = "its vocab_size is not a number" if b"vocab" in content else "it is not a JSON object"
    with pytest.raises(ValueError, match=rf"x\.json is damaged: {found}; build the records again, or"):
        read_metadata(str(tmp_path / "x"))
