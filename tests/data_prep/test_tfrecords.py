"""TensorFlow reads record files written without it, checksums included."""

import gzip
import pathlib

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.data_prep.records.tfrecord_format import TFRecordFile, checksums, frame, is_gzip_file


def write(path, records, is_gzip=False):
    file = TFRecordFile(str(path), is_gzip)
    file.write(frame(records))
    file.close()


def test_a_checksum_is_the_published_one():
    # RFC 3720, B.4: the CRC-32C of 32 zeros and of 32 ones; masked as TFRecord does.
    for record, crc in ((bytes(32), 0x8A9136AA), (b"\xff" * 32, 0x62A8AB43), (bytes(range(32)), 0x46DD794E)):
        masked = (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF
        assert checksums([record]).tolist() == [masked]


@given(records=st.lists(st.binary(max_size=40), max_size=20))
def test_a_checksum_is_that_of_the_record_whatever_stands_beside_it(records):
    assert list(frame(records)) == [framed for record in records for framed in frame([record])]


@pytest.mark.parametrize("kind", ["", "GZIP"])
def test_tensorflow_reads_what_is_written(tmp_path, kind):
    records = [b"", b"a", b"abc", b"abcd", b"x" * 5000, *(b"%d" % number * (number % 97) for number in range(2100))]
    write(tmp_path / "records", records, kind == "GZIP")
    assert list(tf.data.TFRecordDataset(str(tmp_path / "records"), kind).as_numpy_iterator()) == records
    assert is_gzip_file(str(tmp_path / "records")) == (kind == "GZIP")


def test_tensorflow_writes_the_same_bytes(tmp_path):
    records = [b"one", b"two" * 100, b""]
    with tf.io.TFRecordWriter(str(tmp_path / "theirs")) as writer:
        for record in records:
            writer.write(record)
    write(tmp_path / "ours", records)
    write(tmp_path / "compressed", records, is_gzip=True)
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert gzip.decompress((tmp_path / "compressed").read_bytes()) == (tmp_path / "theirs").read_bytes()


def test_compressed_files_do_not_tell_when_they_were_written(tmp_path, monkeypatch):
    for name, seconds in (("a", 1e9), ("b", 2e9)):
        monkeypatch.setattr("time.time", lambda seconds=seconds: seconds)
        write(tmp_path / name, [b"record"], is_gzip=True)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


@pytest.mark.skipif(not pathlib.Path("/dev/full").exists(), reason="this system has no device that is always full")
def test_a_full_disk_is_an_error():
    with pytest.raises(OSError, match="No space left on device"):
        write("/dev/full", [b"record"])
