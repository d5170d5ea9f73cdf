"""The server answers with models for vectors: runs, and folders of sentence-transformers."""

import extra_serve  # noqa: F401
import numpy as np
import pytest
import requests
from converted import convert
from fine_tuned_models import OF_VECTORS, write_fine_tuned
from known_models import randomise, small_config
from running_server import serving

from bert_keras import open_model
from bert_keras.modeling import SentenceModel
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.versions import open_folders

TEXTS = ["paris is the capital of france", "he"]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    folder = tmp_path_factory.mktemp("models")
    model = randomise(SentenceModel(small_config(num_hidden_layers=1)))
    run = write_fine_tuned(folder / "run", model, "vectors", **OF_VECTORS)
    (convert(run, folder / "folder") / "task.json").unlink()
    models = open_folders({"run": str(run), "folder": str(folder / "folder")}, (), Limits())
    expected = [answer.vector for answer in open_model(run)(TEXTS)]
    with serving(models) as running:
        running.expected = expected
        yield running


@pytest.mark.parametrize("name", ["run", "folder"])
def test_vectors(server, name):
    body = {"model": name, "input": TEXTS}
    answer = requests.post(f"{server.url}/v1/embeddings", json=body, timeout=60).json()
    found = [item["embedding"] for item in answer["data"]]
    np.testing.assert_allclose(found, server.expected, rtol=0, atol=1e-5)
    np.testing.assert_allclose(np.linalg.norm(found, axis=1), 1, rtol=1e-5)


def test_a_request_may_have_another_prefix(server):
    vectors = []
    for fields in ({"prefix": "he was "}, {}):  # the model's is "he was "
        text = TEXTS[0] if fields else f"he was {TEXTS[0]}"
        body = {"model": "run", "text": text, "prefix": "", **fields}
        [answer] = requests.post(f"{server.url}/v1/embeddings", json=body, timeout=60).json()["answers"]
        vectors.append(answer["vector"])
    np.testing.assert_allclose(*vectors, rtol=0, atol=1e-5)


def test_tokens_have_their_places_in_the_text_without_the_prefix(server):
    body = {"model": "run", "item": "paris is"}
    answer = requests.post(f"{server.url}/v1/tokens", json=body, timeout=60).json()
    [sequence] = answer["sequences"]
    found = [(token["token"], token["start"], token["end"]) for token in sequence["tokens"]]
    prefix = [("he", 0, 0), ("was", 0, 0)]
    assert found[1:-1] == [*prefix, ("paris", 0, 5), ("is", 6, 8)]
