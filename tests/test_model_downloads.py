"""convert_checkpoint.py lists and downloads released models."""

import os
import re
import sys

import keras
import pytest
import rich.console
import tiny_released
from tiny_released import NAME

from bert_keras import released_models
from bert_keras.cli import console as console_module
from bert_keras.commands import convert_checkpoint


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Return a function that runs the program in an empty folder: its status, its output, and its errors."""
    monkeypatch.chdir(tmp_path)

    def call(*flags):
        monkeypatch.setattr(sys, "argv", ["convert_checkpoint.py", *flags])
        with pytest.raises(SystemExit) as stop:
            convert_checkpoint.run_program()
        captured = capsys.readouterr()
        return stop.value.code, captured.out, captured.err

    return call


@pytest.fixture
def server(monkeypatch, tmp_path_factory):
    with tiny_released.served_model(monkeypatch, tmp_path_factory.mktemp("files")) as server:
        tiny_released.add_model(monkeypatch, server.address)
        yield server
    keras.utils.enable_interactive_logging()


def on_terminal(monkeypatch, width=80):
    make = rich.console.Console
    options = {"force_terminal": True, "width": width, "legacy_windows": False, "color_system": None}
    monkeypatch.setattr(console_module.rich.console, "Console", lambda file: make(file=file, **options))


def test_the_list_has_one_line_for_each_model_in_a_pipe(run):
    status, out, _ = run("--list")
    header, *lines = out.splitlines()
    assert status == 0
    assert header.split() == ["name", "weights", "case", "use", "parameters", "address"]
    for model, line in zip(released_models(), lines, strict=True):
        name, *_, address = line.split()
        assert (name, address) == (model.name, model.address)
        assert f" {model.readable_size} " in line
        assert f" {model.num_parameters:,} " in line
    base = re.split(r"  +", lines[0].strip())
    assert base[1:5] == ["440 MB", "uncased", "Start here for English. (base)", "110,106,428"]


def test_the_list_fits_a_terminal_of_80_columns(run, monkeypatch):
    on_terminal(monkeypatch)
    _, out, _ = run("--list")
    lines = out.splitlines()
    assert max(map(len, lines)) <= 80
    assert lines[-1] == "To download one: python convert_checkpoint.py --download=NAME"
    assert all(any(line.startswith(f"{model.name} ") for line in lines) for model in released_models())


def test_a_model_is_downloaded_and_unpacked(run, server, tmp_path):
    status, out, _ = run(f"--download={NAME}")
    assert status == 0
    assert os.listdir(tmp_path) == [NAME]
    files = "bert_config.json, bert_model.ckpt.data-00000-of-00001, bert_model.ckpt.index, vocab.txt"
    assert out.splitlines() == [f"downloading {server.address} (0 MB)", f"{NAME} holds {files}"]
    assert run("--download=nano", "--output=other/folder")[0] == 0
    assert sorted(os.listdir(tmp_path / "other" / "folder")) == sorted(os.listdir(tmp_path / NAME))


def test_a_terminal_gets_a_bar(run, server, monkeypatch):
    on_terminal(monkeypatch, width=120)
    status, out, _ = run("--download=nano")
    assert status == 0
    assert f"{len(server.data)}/{len(server.data)}" in out


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            ["--download=nanno"],
            'no released model is called "nanno"; did you mean "nano"? (convert_checkpoint.py --list',
        ),
        (["--download="], 'no released model is called ""; (convert_checkpoint.py --list shows all names'),
        (["--download=nano", "--format=safetensors"], "--download goes without --format; convert in a second command"),
        (["--list", "--output=x"], "--list goes without --output; convert in a second command"),
        (["--download=nano", "--output=full"], "--output=full holds file; nothing is overwritten, so give a folder"),
        (["--download=nano", "--output=gs://bucket/x"], "--output=gs://bucket/x is a remote path; give a local folder"),
        (["--download=nano", "--output=x.zip"], "--output=x.zip names a file; give the folder that the files are to"),
        (["--download=nano"], "cannot be downloaded: the server answered 404 Not Found"),
    ],
)
def test_a_mistake_prints_one_line_and_writes_nothing(run, server, tmp_path, flags, message):
    server.statuses = [404]
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    status, _, err = run(*flags)
    (line,) = err.splitlines()
    assert status == 1
    assert line.startswith("convert_checkpoint.py: ")
    assert message in line
    assert sorted(os.listdir(tmp_path)) == ["full"]
