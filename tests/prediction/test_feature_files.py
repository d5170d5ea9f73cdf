"""Lines of text as the original BERT splits them, and files of vectors byte by byte."""

import gzip
import json
import random

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from bert_keras.storage import paths
from bert_keras.tasks.vectors.feature_files import count_lines, format_of, open_feature_file, read_lines, split_line
from bert_keras.tasks.vectors.features import Features

FIRST = Features(
    ["[CLS]", "é", '"'],
    np.array([[[0.5, -1.25], [1e-7, -1e-7]], [[0.1234565, 2.0], [3.0, 4.0]], [[5, 6], [7, 8]]], np.float32),
)
SECOND = Features(["[SEP]"], np.array([[[123456.789, 1e-30], [0.3, -0.1]]], np.float32))
POOLED = [Features(features.tokens, features.values[0]) for features in (FIRST, SECOND)]


def write(path, features, pooling="none"):
    with open_feature_file(path, format_of(path), [-1, "embeddings"], pooling) as write_text:
        for of_text in features:
            write_text(of_text)
    return path


def test_json_lines_are_those_of_the_original(tmp_path):
    content = write(tmp_path / "features.jsonl", [FIRST, SECOND]).read_bytes()
    assert content == (
        rb'{"linex_index": 0, "features": ['
        rb'{"token": "[CLS]", "layers": [{"index": -1, "values": [0.5, -1.25]}, '
        rb'{"index": "embeddings", "values": [0.0, -0.0]}]}, '
        rb'{"token": "\u00e9", "layers": [{"index": -1, "values": [0.123457, 2.0]}, '
        rb'{"index": "embeddings", "values": [3.0, 4.0]}]}, '
        rb'{"token": "\"", "layers": [{"index": -1, "values": [5.0, 6.0]}, '
        rb'{"index": "embeddings", "values": [7.0, 8.0]}]}]}'
        b"\n"
        rb'{"linex_index": 1, "features": ['
        rb'{"token": "[SEP]", "layers": [{"index": -1, "values": [123456.789062, 0.0]}, '
        rb'{"index": "embeddings", "values": [0.3, -0.1]}]}]}'
        b"\n"
    )


def test_json_lines_of_pooled_texts_have_only_layers(tmp_path):
    content = write(tmp_path / "features.json", POOLED, "cls").read_text()
    assert content == (
        '{"linex_index": 0, "layers": [{"index": -1, "values": [0.5, -1.25]}, '
        '{"index": "embeddings", "values": [0.0, -0.0]}]}\n'
        '{"linex_index": 1, "layers": [{"index": -1, "values": [123456.789062, 0.0]}, '
        '{"index": "embeddings", "values": [0.3, -0.1]}]}\n'
    )


@given(st.lists(st.floats(-1e5, 1e5, width=32), min_size=1))
def test_numbers_are_rounded_like_round(tmp_path_factory, numbers):
    values = np.array(numbers, np.float32)
    path = write(tmp_path_factory.mktemp("rounding") / "a.jsonl", [Features(["a"], values[None, None].repeat(2, 1))])
    [line] = path.read_text().splitlines()
    expected = [round(float(value), 6) for value in values]
    assert json.dumps(json.loads(line)["features"][0]["layers"][0]["values"]) == json.dumps(expected)


@pytest.mark.parametrize("name", ["a.npz", "a.h5", "a.HDF5"])
def test_arrays_hold_the_rows_of_all_texts(tmp_path, name):
    path = write(tmp_path / name, [FIRST, SECOND])
    if name == "a.npz":
        arrays = np.load(path)
        tokens, layers, pooling = arrays["tokens"].tolist(), arrays["layers"].tolist(), arrays["pooling"]
    else:
        arrays = h5py.File(path)
        tokens, layers = arrays["tokens"].asstr()[:].tolist(), arrays.attrs["layers"].tolist()
        pooling = arrays.attrs["pooling"]
    with arrays:
        assert (tokens, layers, str(pooling)) == (["[CLS]", "é", '"', "[SEP]"], ["-1", "embeddings"], "none")
        starts = arrays["starts"][:]
        assert starts.tolist() == [0, 3, 4]
        for number, features in enumerate((FIRST, SECOND)):
            values = arrays["values"][starts[number] : starts[number + 1]]
            assert values.dtype == np.float32
            np.testing.assert_array_equal(values, features.values)


@pytest.mark.parametrize("name", ["a.npz", "a.h5"])
def test_pooled_arrays_have_a_row_per_text(tmp_path, name):
    path = write(tmp_path / name, POOLED, "max")
    with np.load(path) if name == "a.npz" else h5py.File(path) as arrays:
        assert sorted(arrays) == (["layers", "pooling", "values"] if name == "a.npz" else ["values"])
        np.testing.assert_array_equal(arrays["values"][:], [features.values for features in POOLED])


@pytest.mark.parametrize("name", ["a.jsonl", "a.npz", "a.h5"])
def test_a_file_gets_its_name_when_it_is_complete(tmp_path, name):
    path = tmp_path / name
    path.write_text("as it was")

    def broken():
        yield FIRST
        assert path.read_text() == "as it was"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write(path, broken())
    assert path.read_text() == "as it was"
    assert list(tmp_path.iterdir()) == [path]
    write(path, [FIRST])
    assert path.read_bytes() != b"as it was"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["a.jsonl", "a.npz", "a.h5"])
def test_an_object_store_gets_the_same_file(tmp_path, name):
    remote = f"ram://features/{name}"
    write(remote, [FIRST, SECOND])
    content = paths.read_bytes(remote)
    if name == "a.jsonl":
        assert content == write(tmp_path / name, [FIRST, SECOND]).read_bytes()
    else:
        (tmp_path / name).write_bytes(content)
        with np.load(tmp_path / name) if name == "a.npz" else h5py.File(tmp_path / name) as arrays:
            np.testing.assert_array_equal(arrays["values"][:], np.concatenate([FIRST.values, SECOND.values]))
    paths.remove(remote)


def test_the_ending_decides_the_format():
    endings = {"a.npz": "npz", "a.h5": "hdf5", "b.hdf5": "hdf5", "a.jsonl": "jsonl", "out.txt": "jsonl", "npz": "jsonl"}
    assert {name: format_of(name) for name in endings} == endings


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("he was\n", "he was"),
        ("  he was \r\n", "he was"),
        ("\n", ""),
        ("he ||| was", ("he", "was")),
        ("a ||| b ||| c", ("a ||| b", "c")),
        ("a ||| ||| b", ("a |||", "b")),
        ("a |||  b", ("a", " b")),
        ("a||| b", "a||| b"),
        ("||| b", "||| b"),
        ("a ||| ", "a |||"),
        (" ||| ", "|||"),
        ("a\u2028 ||| b\x0cc", ("a\u2028", "b\x0cc")),
    ],
)
def test_the_last_separator_splits_a_line(line, expected):
    assert split_line(line) == expected


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("compress", [bytes, gzip.compress])
def test_blank_lines_are_empty_texts(tmp_path, end, compress):
    path = tmp_path / "texts.txt"
    path.write_bytes(compress(end.join(["\ufeffhe", "", " é ||| b", " ", "last"]).encode()))
    assert count_lines(path) == 5
    assert list(read_lines(path)) == ["he", "", ("é", "b"), "", "last"]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", r"texts.txt is empty; give one text a line$"),
        (random.Random(0).randbytes(500), "texts.txt is not text but binary data"),
        (b"he\nwas\nso \xe9\n", r"texts.txt line 3: not UTF-8 \(byte 0xe9\); save it as UTF-8$"),
    ],
)
def test_damaged_files_are_refused(tmp_path, content, message):
    (tmp_path / "texts.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        count_lines(tmp_path / "texts.txt")


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"^{tmp_path}/none.txt is not a file; give a text file, one text a"):
        count_lines(tmp_path / "none.txt")
    (tmp_path / "a.csv").write_text("text,label\nhe,1\n")
    with pytest.raises(ValueError, match="a.csv is a table by its name, but each line is read as a text; give a file"):
        count_lines(tmp_path / "a.csv")
