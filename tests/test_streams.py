"""Standard streams that are narrow, closed or full: no program ends with a traceback, and no message costs any work."""

import dataclasses
import io
import logging
import os
import pathlib
import subprocess
import sys

import pytest

from bert_keras.cli import console as module
from bert_keras.cli.console import open_console
from bert_keras.cli.flags import run_main
from bert_keras.commands import evaluate_predictions

ROOT = pathlib.Path(__file__).resolve().parents[1]
needs_full = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no /dev/full")


BUILD = "$PYTHON $ROOT/data_prep/create_pretraining_data.py --input_file=süß.txt --vocab_file=vocab.txt"
BUILD += " --max_seq_length=16 --max_predictions_per_seq=2 --dupe_factor=2"


def write_text(folder):
    (folder / "süß.txt").write_text("süße äpfel am morgen\n" * 20 + "\nnoch ein text\nund mehr\n", encoding="utf-8")
    (folder / "vocab.txt").write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nam\nmorgen\n")


def run_in_shell(command, cwd, **environment):
    environment = {**os.environ, "PYTHON": sys.executable, "ROOT": str(ROOT), **environment}
    return subprocess.run(
        ["bash", "-c", command], cwd=cwd, env=environment, capture_output=True, text=True, check=False
    )


@pytest.mark.parametrize(
    "streams",
    [
        ">&-",
        "2>&-",
        "<&- >&- 2>&-",
        pytest.param("> /dev/full", marks=needs_full),
        pytest.param("> /dev/full 2> /dev/full", marks=needs_full),
        "| head -c 0",
    ],
)
def test_records_are_written_whatever_happens_to_the_messages(tmp_path, streams):
    write_text(tmp_path)
    command = f"set -o pipefail; {BUILD} --output_file=süß.tfrecord {streams}"
    done = run_in_shell(command, tmp_path, PYTHONIOENCODING="ascii")
    assert (done.returncode, "Traceback" in done.stderr, "ignored" in done.stderr) == (0, False, False), done.stderr
    assert (tmp_path / "süß.tfrecord").stat().st_size > 1000


def test_characters_that_a_stream_lacks_are_escaped(tmp_path):
    write_text(tmp_path)
    done = run_in_shell(f"{BUILD} --output_file=süß.txt", tmp_path, PYTHONIOENCODING="ascii:strict")
    assert (done.returncode, "Traceback" in done.stderr) == (1, False)
    assert "s\\xfc\\xdf.txt" in done.stderr


class Failing(io.StringIO):
    """A stream that fails at the chosen function."""

    def __init__(self, function, error):
        super().__init__()
        setattr(self, function, self._fail)
        self._error = error

    def _fail(self, *arguments):
        raise self._error


@pytest.mark.parametrize("function", ["write", "flush"])
@pytest.mark.parametrize("error", [BrokenPipeError(), OSError(28, "No space left on device")])
def test_a_message_that_cannot_be_written_stops_nothing(monkeypatch, function, error):
    monkeypatch.setattr(sys, "stdout", Failing(function, error))
    console = open_console()
    logging.getLogger("bert_keras").info("step 1")
    console.print("a table")


@pytest.mark.parametrize(
    ("error", "status", "shown"),
    [
        (BrokenPipeError(), 141, ""),
        (OSError(28, "No space left"), 1, "p.py: standard output cannot be written (No space left); the output is not"),
    ],
)
def test_results_that_cannot_be_written_are_a_mistake(monkeypatch, capsys, error, status, shown):
    monkeypatch.setattr(module, "drop_output", lambda stream: None)
    monkeypatch.setattr(sys, "stdout", Failing("flush", error))
    assert run_main(lambda argv: print("result"), ["p.py"]) == status
    assert capsys.readouterr().err.startswith(shown)


def test_programs_that_write_texts_start_without_standard_output(monkeypatch):
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "argv", ["evaluate_predictions.py", "--help"])
    with pytest.raises(SystemExit, match="^0$"):
        evaluate_predictions.run_program()


def test_a_full_disk_is_a_mistake_with_the_name_of_the_file(capsys):
    def fail(argv):
        raise OSError(28, "No space left on device", "out/a.txt")

    assert run_main(fail, ["p.py"]) == 1
    expected = "p.py: out/a.txt cannot be written (No space left on device); make room there\n"
    assert capsys.readouterr().err == expected


@pytest.mark.parametrize("encoding", ["ascii", "utf-8"])
@pytest.mark.parametrize("is_closed", [False, True])
def test_messages_of_python_calls_are_escaped_and_stop_nothing(monkeypatch, encoding, is_closed):
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding, write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    messages = module.Messages("stdout", is_of_program=False)
    if is_closed:
        stream.close()
    assert messages.write("süß\n") == 4
    messages.flush()
    assert is_closed or raw.getvalue() == ("süß\n".encode() if encoding == "utf-8" else b"s\\xfc\\xdf\n")


def home_flags():
    from absl import flags

    values = flags.FlagValues()
    for name in ("input_file", "output_dir", "init_checkpoint", "teacher", "label_separator", "prefix"):
        flags.DEFINE_string(name, None, "", flag_values=values)
    return values


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("~/a.txt,b/~/c,~/d*", "HOME/a.txt,b/~/c,HOME/d*"),
        ("~", "HOME"),
        ("gs://b/~x", "gs://b/~x"),
        ("./~x", "./~x"),
        ("out~", "out~"),
        ("file:///a/b, file://localhost/c", "/a/b, /c"),
        ("gs://b/file:///c", "gs://b/file:///c"),
        ("file:/a/b, file:/c", "/a/b, /c"),
        ("C:/a,12:30/b", "C:/a,12:30/b"),
    ],
)
@pytest.mark.parametrize("name", ["input_file", "output_dir", "init_checkpoint", "teacher"])
def test_a_path_may_begin_with_the_home_folder_or_be_an_address(tmp_path, monkeypatch, name, given, expected):
    from bert_keras.cli.flags import parse
    from bert_keras.settings.fields import checked_arguments, setting

    monkeypatch.setenv("HOME", str(tmp_path))
    expected, values = expected.replace("HOME", str(tmp_path)), home_flags()
    parse(values, ["p", f"--{name}={given}"], "")
    assert values[name].value == expected
    group = dataclasses.make_dataclass("Group", [(name, str, setting("A path.", ""))])
    assert checked_arguments([group], "f", {name: given}) == {name: expected}


def test_a_tilde_that_is_not_a_path_stays_and_an_unknown_home_is_refused():
    from bert_keras.cli.flags import parse

    values = home_flags()
    parse(values, ["p", "--label_separator=~", "--prefix=~/x"], "")
    assert (values.label_separator, values.prefix) == ("~", "~/x")
    with pytest.raises(ValueError, match="output_dir=~nobody-has-this/out begins with ~, but there is no such user"):
        parse(values, ["p", "--output_dir=~nobody-has-this/out"], "")
