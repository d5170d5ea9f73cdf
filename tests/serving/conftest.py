"""One running server with a model for each task, which the tests of a process share."""

import json

import pytest

MAX_ITEMS, MAX_BODY_BYTES = 50, 1 << 20


@pytest.fixture(scope="session")
def folders(tmp_path_factory):
    """The folders as ServedFolders; `bert` has four tasks."""
    import extra_serve  # noqa: F401
    from fine_tuned_models import FINE_TUNED, write_fine_tuned
    from known_models import random_model, write_model

    from bert_keras.prediction.arguments import Limits
    from bert_keras.serving.versions import open_folders

    folder, folders = tmp_path_factory.mktemp("models"), {}
    for task, (make, settings) in FINE_TUNED.items():
        windows = {"doc_stride": 5} if task in ("classification", "multi_label") else {}
        folders[task] = str(write_fine_tuned(folder / task, make(), task, **settings | windows))
    bert = random_model(num_hidden_layers=2, max_position_embeddings=26)
    folders["bert"] = str(write_model(folder / "bert", bert))
    tasks = ("fill_mask", "next_sentence", "score", "vectors")
    return open_folders(folders, tasks, Limits(max_texts=MAX_ITEMS, max_chars=100_000, max_sequences=500))


@pytest.fixture(scope="session")
def models(folders):
    """The models in the folders as ServedModels."""
    return [model for folder in folders for model in folder.models]


@pytest.fixture(scope="session")
def plain(models):
    """The networks of the models before a server changes them."""
    return {model.task: model.predictor.network for model in models}


@pytest.fixture(scope="session")
def server(folders, plain):
    from running_server import serving

    with serving(folders, max_items=MAX_ITEMS, max_body_bytes=MAX_BODY_BYTES, max_queue=32) as running:
        yield running


@pytest.fixture
def ask(server):
    """Return a function that posts to a route and returns the status and the JSON of the response."""
    import requests

    def post(route, body=None, data=None, **headers):
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        data = json.dumps(body).encode() if data is None else data
        response = requests.post(f"{server.url}/v1/{route}", data, headers=given, timeout=60)
        return response.status_code, response.json()

    return post


@pytest.fixture
def answers_of(models, plain):
    """Return a function that answers items with a model as in Python, without a server."""
    from bert_keras.serving.requests import body_of

    def answer(task, items, **options):
        [model] = [model for model in models if model.task == task]
        batching, model.predictor.network = model.predictor.network, plain[task]
        try:
            return json.loads(body_of(list(model.answers(items, options))))
        finally:
            model.predictor.network = batching

    return answer
