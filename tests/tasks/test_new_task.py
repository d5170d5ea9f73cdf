"""A task of one file outside the product: it trains, resumes, predicts, explains, is served, and exports.

The file is the example of docs/guides/your_own_task.md as it is.
"""

import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import requests
from known_models import random_model, write_model

from bert_keras import tasks
from bert_keras.prediction import TextClassifier, open_model
from bert_keras.runs.metrics_log import read_metrics

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "guides" / "your_own_task.md"
TEXTS = ["she was so hungry", "he ate"]
ITEMS = [{"text": text} for text in TEXTS]


def flags_of(folder, name):
    """Returns the flags of a run in a folder."""
    flags = [f"--{action}_file={folder / 'reviews.txt'}" for action in ("train", "eval", "predict")]
    flags += ["--do_train", "--do_eval", "--do_predict", f"--init_checkpoint={folder / 'start'}"]
    flags += ["--max_seq_length=8", "--train_batch_size=4", "--num_train_epochs=20", "--learning_rate=0.01"]
    return [*flags, "--save_checkpoints_steps=10", "--jit=false", f"--output_dir={folder / name}"]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with the program, data, a model to start from, and a run; the task is known in this process."""
    folder = tmp_path_factory.mktemp("own")
    files = re.findall(r"<!-- file: (.*?) -->\n```python\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.DOTALL)
    for name, text in files:
        (folder / name).write_text(text, encoding="utf-8")
    (folder / "reviews.txt").write_text("good\tshe was so hungry\nbad\the ate\n" * 4)
    write_model(folder / "start", random_model(num_hidden_layers=1))
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(folder)
        patch.setattr(tasks, "_TASKS", {**tasks._TASKS})
        import run_reviews

        assert run_reviews.main(["run_reviews.py", *flags_of(folder, "run")]) == {"accuracy": 1.0}
        yield folder
        del sys.modules["run_reviews"]


def test_it_trains_evaluates_and_predicts(folder):
    assert (folder / "run" / "predictions.txt").read_text() == "good\nbad\n" * 4
    run = json.loads((folder / "run" / "model" / "task.json").read_text())
    assert (run["task"], run["labels"]) == ("reviews", ["bad", "good"])


def test_python_predicts_and_explains(folder):
    live = open_model(folder / "run")
    answers = live(TEXTS, why=True)
    assert [answer.label for answer in answers] == ["good", "bad"]
    assert [word.word for word in answers[0].words] == TEXTS[0].split()
    with pytest.raises(ValueError, match="is a model for reviews"):
        TextClassifier(folder / "run")
    with pytest.raises(ValueError, match="there is a task 'reviews'"):
        tasks.add("reviews", tasks.ability_of("reviews"))


def test_a_server_answers_and_describes_it(folder):
    pytest.importorskip("starlette", reason="needs the extra [serve]")
    from running_server import serving

    from bert_keras.prediction.arguments import Limits
    from bert_keras.serving.versions import open_folders

    with serving(open_folders({"film": str(folder / "run")}, (), Limits())) as server:
        reply = requests.post(f"{server.url}/v1/review", json={"items": ITEMS}, timeout=60).json()
        described = requests.get(f"{server.url}/openapi.json", timeout=60).json()
        [model] = requests.get(f"{server.url}/models", timeout=60).json()["models"]
    assert [answer["label"] for answer in reply["answers"]] == ["good", "bad"]
    assert described["components"]["schemas"]["Review"]["properties"]["label"] == {"type": "string"}
    assert model["page"]["button"] == "Judge"


@pytest.mark.slow
def test_the_page_shows_its_form_and_its_answer(folder):
    pytest.importorskip("starlette", reason="needs the extra [serve]")
    from browser import chromium
    from running_server import serving
    from server_page import Page

    from bert_keras.prediction.arguments import Limits
    from bert_keras.serving.versions import open_folders

    with chromium() as driver, serving(open_folders({"film": str(folder / "run")}, (), Limits())) as server:
        page = Page(driver, server.url)
        page.open().run(text=TEXTS[0])
        assert page.texts("#title, #run, .result") == ["Judge a review", "Judge", "good"]
        assert page.texts(".bar.chosen .bar-name") == ["good"]
        page.unfold("why")
        assert page.texts("#why .result, #why mark")
        page.check_log()


@pytest.mark.slow
def test_a_killed_run_continues_as_if_nothing_had_happened(folder):
    command = [sys.executable, folder / "run_reviews.py", *flags_of(folder, "killed")]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not (folder / "killed" / "model.ckpt-10.index").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    subprocess.run(command, env=environment, check=True, capture_output=True)
    for name in ("predictions.txt", "eval_results.txt"):
        assert (folder / "killed" / name).read_bytes() == (folder / "run" / name).read_bytes()
    losses = {}
    for name in ("killed", "run"):
        rows = read_metrics(str(folder / name / "metrics.csv"))
        losses[name] = [float(row["loss"]) for row in rows if row["split"] == "train"]
    assert losses["killed"] == pytest.approx(losses["run"], rel=1e-4)


@pytest.mark.slow
def test_the_command_line_predicts(folder):
    command = [sys.executable, folder / "with_reviews.py", "predict.py", f"--model_dir={folder / 'run'}", *TEXTS]
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    found = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True)
    assert [line.split()[0] for line in found.stdout.splitlines()] == ["good", "bad"]


@pytest.mark.slow
def test_exports_give_the_same_answers(folder):
    from bert_keras.export.api import export_model

    for refused in ({"format": ["web"]}, {"format": ["onnx"], "quantize": "int8"}):
        with pytest.raises(ValueError, match="the task reviews"):
            export_model(folder / "run", export_dir=folder / "refused", **refused)
    export_model(folder / "run", export_dir=folder / "export", format=["saved_model", "onnx"])
    expected = open_model(folder / "run")(TEXTS)
    for format in ("saved_model", "onnx"):
        for answer, right in zip(open_model(folder / "export", format=format)(TEXTS), expected, strict=True):
            assert answer.label == right.label
            np.testing.assert_allclose([*answer.probabilities.values()], [*right.probabilities.values()], atol=1e-5)
