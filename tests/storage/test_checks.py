"""Unwritable outputs, and outputs that would replace an input, fail before any work."""

import os
import re

import pytest

from bert_keras.data_prep.pretraining.flags import name_outputs
from bert_keras.storage.checks import check_ending, check_new_folder, check_output_file
from bert_keras.storage.writing import hidden_name
from bert_keras.tasks.vectors import feature_files


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("vocab.txt", "other.txt"):
        (tmp_path / name).write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "vocab.txt")
    (tmp_path / "sub").mkdir()
    return tmp_path


def test_new_and_old_files_may_be_written(folder):
    inputs = {"vocab_file": folder / "vocab.txt", "input_file": [folder / "missing.txt"], "config": None}
    check_output_file(str(folder / "new.txt"), "output_file", inputs)
    check_output_file(str(folder / "other.txt"), "output_file", inputs)
    check_output_file("gs://bucket/new.txt", "output_file", {"vocab_file": "gs://bucket/vocab.txt"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        (".", "is a folder"),
        ("missing/a.txt", "missing does not exist; create it"),
        ("vocab.txt", "is also vocab_file, which would be lost"),
        ("link.txt", "is also vocab_file"),
        ("sub/../vocab.txt", "is also vocab_file"),
        ("later.txt", "is also input_file"),
    ],
)
def test_unusable_output_file_is_named(folder, name, message):
    inputs = {"vocab_file": "vocab.txt", "input_file": ["other.txt", "later.txt"]}
    with pytest.raises(ValueError, match=f"^output_file.*{message}"):
        check_output_file(name, "output_file", inputs)


@pytest.mark.parametrize(
    ("check", "name", "advice"),
    [
        (feature_files.format_of, "a.jsonl.gz", "one of .jsonl, .json, .ndjson, .npz, .h5, .hdf5"),
        (lambda name: feature_files.format_of(name, "hdf5"), "a.npz", "one of .h5, .hdf5"),
        (name_outputs, "a.tfrecord.bz2", ".gz"),
        (name_outputs, "a.tfrecord,b.parquet", ".gz"),
        (lambda name: check_ending(name, "output_file", ()), "vocab.JSON", ".txt"),
    ],
)
def test_a_name_promises_no_other_format(check, name, advice):
    last = name.split(",")[-1]
    ending = os.path.splitext(last)[1].lower()
    told = re.escape(f"output_file={last}: no {ending} file is written here; end it with {advice}")
    with pytest.raises(ValueError, match=f"^{told}$"):
        check(name)


@pytest.mark.parametrize("name", ["vocab.txt", "link.txt", "sub/../vocab.txt"])
def test_the_address_of_a_local_file_is_that_file(folder, name):
    with pytest.raises(ValueError, match="is also vocab_file, which would be lost"):
        check_output_file(f"file://{folder}/{name}", "output_file", {"vocab_file": str(folder / "vocab.txt")})


def test_folder_without_permission_is_named(folder, monkeypatch):
    # Simulates the refusal, because root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="output_file=new.txt: the folder . cannot be written to"):
        check_output_file("new.txt", "output_file")
    with pytest.raises(ValueError, match="export_dir=new cannot be written, because .* is read-only; give another"):
        check_new_folder("new", "export_dir")


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("gs://out", "output=gs://out is a remote path; give a local folder, and copy it when it is complete"),
        ("a[b", r"output=a\[b: TensorFlow takes \[ \* \? in a path for a pattern; rename it"),
        ("model.ckpt", "output=model.ckpt names a file; give the folder that the files are to be put into"),
        ("vocab.txt", "output=vocab.txt names a file; give the folder"),
        (".", "output=. holds link.txt, other.txt, sub and 2 more; nothing is overwritten, so give a folder that is"),
        ("written", r"output=written holds .a.unfinished-\S+; nothing is overwritten"),
        ("vocab.txt/a", "output=vocab.txt/a cannot be created, because .*vocab.txt is a file; give another folder"),
    ],
)
def test_unusable_new_folder_is_named(folder, path, message):
    with pytest.MonkeyPatch.context() as other:
        other.setattr(os, "getpid", os.getppid)
        (folder / "written" / hidden_name("a")).mkdir(parents=True)
    check_new_folder("sub", "output")
    check_new_folder("new/folder", "output")
    with pytest.raises(ValueError, match=message):
        check_new_folder(path, "output", (".ckpt",))
