"""The requests of docs/guides/serve.md are answered by a server."""

import json
import shutil
import subprocess
import sys

import extra_serve  # noqa: F401
import pytest
from blocks import blocks_of, logical_lines
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import random_model, write_model
from running_server import serving

from bert_keras.prediction.arguments import Limits
from bert_keras.serving.versions import open_folders

ADDRESS = "http://127.0.0.1:8501"


@pytest.mark.slow
def test_the_requests_of_the_page_are_answered(tmp_path):
    folders = {
        "shop": str(
            write_fine_tuned(
                tmp_path / "run", random_classifier(2), "classification", **OF_TEXTS, labels=["bad", "good"]
            )
        ),
        "bert": str(write_model(tmp_path / "bert", random_model(num_hidden_layers=2))),
    }
    blocks = blocks_of("docs/guides/serve.md")
    curls = [
        line for block in blocks for line in logical_lines(block.text) if ADDRESS in line and line.startswith("curl ")
    ]
    scripts = [block.text for block in blocks if block.kind == "python"]
    assert (len(curls), len(scripts)) == (4, 1)
    with serving(open_folders(folders, ["fill_mask", "vectors"], Limits())) as server:
        for script in scripts:
            # A separate process: the log of a program that another test ran could print here.
            command = [sys.executable, "-c", script.replace(ADDRESS, server.url)]
            printed = subprocess.run(command, capture_output=True, check=True, text=True).stdout
            assert printed == "Paris is in France. 16\nLondon is not. 16\n"
        if shutil.which("curl"):
            commands = [command.replace(ADDRESS, server.url) for command in curls]
            done = [subprocess.run(each, shell=True, capture_output=True, check=True) for each in commands]
            *by_task, tokens, attention = [json.loads(each.stdout) for each in done]
            assert ["answers" in answer for answer in by_task] == [True, True]
            assert [token["text"] for token in tokens["sequences"][0]["tokens"]] == [None, *["text"] * 4, None]
            assert (len(attention["tokens"]), len(attention["attention"])) == (4, 2)
