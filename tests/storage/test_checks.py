"""Unwritable outputs, and outputs that would replace an input, fail before any work."""

import os

import pytest

from bert_keras.storage.checks import check_output_file


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "vocab.txt").write_text("x")
    (tmp_path / "other.txt").write_text("x")
    (tmp_path / "link.txt").symlink_to(tmp_path / "vocab.txt")
    return tmp_path


def test_new_and_old_files_may_be_written(folder):
    inputs = {"--vocab_file": folder / "vocab.txt", "--input_file": [folder / "missing.txt"], "--config": None}
    check_output_file(str(folder / "new.txt"), "--output_file", inputs)
    check_output_file(str(folder / "other.txt"), "--output_file", inputs)
    check_output_file("gs://bucket/new.txt", "--output_file", {"--vocab_file": "gs://bucket/vocab.txt"})


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("", "is empty"),
        (".", "is a folder"),
        ("missing/a.txt", "there is no folder"),
        ("vocab.txt", "is also --vocab_file, which would be lost"),
        ("link.txt", "is also --vocab_file"),
        ("sub/../vocab.txt", "is also --vocab_file"),
        ("later.txt", "is also --input_file"),
    ],
)
def test_what_cannot_be_an_output(folder, monkeypatch, name, message):
    monkeypatch.chdir(folder)
    (folder / "sub").mkdir()
    inputs = {"--vocab_file": "vocab.txt", "--input_file": ["other.txt", "later.txt"]}
    with pytest.raises(ValueError, match=f"^--output_file.*{message}"):
        check_output_file(name, "--output_file", inputs)
    assert (folder / "vocab.txt").read_text() == "x"


def test_a_folder_without_permission_is_refused(folder, monkeypatch):
    # Simulates the refusal, because root may write everywhere.
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    with pytest.raises(ValueError, match="cannot be written to"):
        check_output_file(str(folder / "new.txt"), "--output_file")
