"""serve.py from its command line to its answers."""

import contextlib
import json
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading
import time

import extra_serve  # noqa: F401
import pytest
import requests
from known_models import random_model, write_model

from bert_keras.cli.flags import run_main
from bert_keras.commands import serve

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_model(tmp_path_factory.mktemp("models") / "bert", random_model(num_hidden_layers=1))


@contextlib.contextmanager
def started(*arguments):
    """Starts the program. Yields the process, the address, and lists of its lines on standard error and output."""
    command = [sys.executable, str(ROOT / "serve.py"), "--port=0", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        lines, logged = [], []
        readers = [threading.Thread(target=lambda: logged.extend(process.stdout))]
        try:
            for line in process.stderr:
                lines.append(line)
                if match := re.search(r"serving at (\S+)", line):
                    break
            assert match, lines
            readers.append(threading.Thread(target=lambda: lines.extend(process.stderr)))
            for reader in readers:
                reader.start()
            yield process, match[1], lines, logged
        finally:
            process.kill()
            process.wait()
            for reader in readers:
                reader.join()


@pytest.mark.slow
def test_the_program_serves_and_a_signal_lets_running_requests_finish(folder):
    with started(f"--model=tiny={folder}", "--task=score", "--batch_timeout_ms=1500") as running:
        process, address, lines, logged = running
        while requests.get(f"{address}/readyz", timeout=30).status_code != 200:
            assert process.poll() is None, lines
        found = []

        def ask():
            found.append(requests.post(f"{address}/v1/score", json={"text": "paris"}, timeout=30))

        request = threading.Thread(target=ask)
        request.start()
        while "bert_requests_admitted 1.0" not in requests.get(f"{address}/metrics", timeout=30).text:
            assert request.is_alive()
        process.send_signal(signal.SIGTERM)
        request.join()
        assert found[0].status_code == 200
        assert found[0].json()["answers"][0]["text"] == "paris"
        assert process.wait(30) == 0
    statuses = [line["status"] for line in map(json.loads, logged) if line["path"] == "/v1/score"]
    assert statuses == [200]


def handles(process, number):
    """Whether a process has its own handler of a signal. On a busy machine, Python needs a second to start."""
    status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^SigCgt:\s*(\w+)", status, re.MULTILINE)[1], 16) >> (number - 1) & 1


@pytest.mark.slow
@pytest.mark.parametrize("moment", [2, "serving at"])
def test_a_signal_at_the_start_ends_the_program(folder, moment):
    """In particular while modules or models load and while models warm up, when TensorFlow's threads run."""
    command = [sys.executable, str(ROOT / "serve.py"), "--port=0", f"--model=tiny={folder}", "--task=score"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        if isinstance(moment, str):
            assert any(moment in line for line in process.stderr)
        else:
            while process.poll() is None and not handles(process, signal.SIGTERM):
                time.sleep(0.01)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(moment)
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)
    assert process.returncode == 0, errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "missing: --model_dir or --model"),
        (["--model=bert"], "--model=bert, but NAME=FOLDER is needed"),
        (["--model=a=b", "--model=a=c"], "there are two models with the name a"),
        (["--model=a=b", "--task=squad"], "--task has squad, but the tasks are"),
        (["--model=a=b", "--token_file={tmp}/empty"], "empty is empty; give a file with the token"),
        (["--model=a=b", "--token_file={tmp}/two"], "must have one word of ASCII characters"),
        (["--model=a=b", "--token_file={tmp}/none"], 'none" does not exist; check the path, and give a file with the'),
        (["--model=a=b", "--token_file={tmp}/bytes"], "bytes line 1: not UTF-8 (byte 0xff)"),
        (["--model=a=b", "--port={used}"], "another program listens at port {used} of 127.0.0.1; stop it, or choose"),
        (["--model=a=b", "--host=192.0.2.1"], "--host is 192.0.2.1, which is not an address of this machine"),
        (["--model=a=b", "--host=no.such.invalid"], "--host is no.such.invalid, which is not an address of this"),
        (
            ["--model=a={tmp}/versions", "--port=0", "--host=::1"],
            "2 is only a SavedModel; give the folder of an export",
        ),
        (["--model=a={tmp}/none", "--port=0"], "does not exist; give the folder of a run"),
        (["--model=a={folder}", "--port=0"], "has no task.json, so it is a checkpoint of pre-training; choose"),
        (["--model=a={tmp}", "--port=0"], "the folder {tmp} has no checkpoint; {tmp} holds "),
    ],
)
def test_a_mistake_is_one_line(folder, tmp_path, capsys, arguments, message, monkeypatch):
    monkeypatch.setattr(signal, "signal", lambda *_: None)
    for name, content in (("empty", b"\n"), ("two", b"a b\n"), ("bytes", b"a\xff\n")):
        (tmp_path / name).write_bytes(content)
    (tmp_path / "versions" / "2").mkdir(parents=True)
    (tmp_path / "versions" / "2" / "saved_model.pb").touch()
    with socket.create_server(("127.0.0.1", 0)) as other:
        names = {"tmp": tmp_path, "folder": folder, "used": other.getsockname()[1]}
        given = [argument.format(**names) for argument in arguments]
        assert run_main(serve.main, ["serve.py", *given]) == 1
    error = capsys.readouterr().err
    assert message.format(**names) in error
    assert error.count("\n") == 1
