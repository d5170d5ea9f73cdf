"""Exports in every format answer over HTTP like the runs that they were made from."""

import json
import shutil

import pytest

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")

import requests
from fine_tuned_models import FINE_TUNED, write_fine_tuned
from running_server import serving
from tiny_exports import write_export, write_network

from bert_keras.export.formats.choices import PLACES
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.prediction import open_model
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.versions import open_folders

PAIRS = [("he was hungry", "so he ate"), ("paris", ""), ("she " * 20, "london")]


def asked(server, path, body):
    """Return the JSON of the answer to a request."""
    response = requests.post(f"{server.url}/v1/{path}", json=body, timeout=60)
    assert response.status_code == 200, response.text
    return response.json()


def test_every_format_answers_like_the_run(tmp_path):
    make, settings = FINE_TUNED["classification"]
    model = make()
    run = write_fine_tuned(tmp_path / "run", model, "classification", **settings)
    write_network(IdsNetwork(model, "classification"), write_export(tmp_path / "all", run / "model"))
    folders = {"run": str(run)}
    for name, place in PLACES.items():
        folders[name] = str(shutil.copytree(tmp_path / "all", tmp_path / name))
        (tmp_path / name / "export.json").write_text(json.dumps({"formats": {name: {"path": place}}}))
    expected = open_model(run)(PAIRS)
    items = [{"text": text, "text_pair": pair} for text, pair in PAIRS]
    with serving(open_folders(folders, [], Limits())) as server:
        for name in folders:
            answers = asked(server, "classify", {"model": name, "items": items})["answers"]
            for answer, each in zip(answers, expected, strict=True):
                assert (answer["label"], answer["text_pair"]) == (each.label, each.text_pair)
                assert answer["probabilities"] == pytest.approx(each.probabilities, rel=1e-5, abs=1e-5)
