"""The routes that explain an answer: the tokens of an item with their places, and the attention of a layer."""

import extra_serve  # noqa: F401
import jsonschema
import numpy as np
import pytest
import requests
from running_server import LONG_TEXT, SERVED, name_of

from bert_keras.prediction.attention import HEAD_COLUMNS, looks_at

pytestmark = pytest.mark.slow

# Task -> an item. Many are longer than the model, and read through windows.
CASES = {
    "classification": {"text": LONG_TEXT, "text_pair": "paris is a"},
    "regression": {"text": "paris"},
    "multi_label": {"text": LONG_TEXT},
    "multiple_choice": {"text": "he was hungry", "choices": ["so he ate", "paris", "so he ate"]},
    "rerank": {"query": "he was hungry", "texts": ["so he ate", "paris", "so he ate"]},
    "question_answering": {"question": "where is he", "context": LONG_TEXT},
    "token_classification": {"text": LONG_TEXT + "walks-paris's \u200b x" + "s" * 40},
    "fill_mask": {"text": "[MASK] \U0001f600 is the [MASK]s of france"},
    "next_sentence": {"text_a": "he was hungry", "text_b": "so he walked"},
    "score": {"text": "he was hungry, so he walks"},
    "vectors": {"text": "he was hungry"},
}


@pytest.fixture
def ask(ask):
    """Return a function that posts to a route about a task and returns the status and the JSON of the response."""
    return lambda route, task, **fields: ask(route, {"model": name_of(task), "task": task, **fields})


def model_of(server, task):
    [model] = [model for model in server.models if model.task == task]
    return model


def questions_of(model, item, monkeypatch):
    """Return the sequences that the network reads while the model answers an item."""
    asked = []
    network = model.predictor.network

    class Recorder:
        lengths, batch_size = network.lengths, network.batch_size

        def answer(self, questions, *arguments, **extra):
            asked.extend(questions)
            return network.answer(questions, *arguments, **extra)

        def answer_by_length(self, questions, *arguments, **extra):
            yield from enumerate(self.answer(questions, *arguments, **extra))

    monkeypatch.setattr(model.predictor, "network", Recorder())
    list(model.answers([item], {}))
    monkeypatch.undo()
    return asked


@pytest.mark.parametrize("task", SERVED)
def test_the_tokens_are_those_that_the_network_reads_with_their_places(server, ask, monkeypatch, task):
    item, model = CASES[task], model_of(server, task)
    status, answer = ask("tokens", task, item=item)
    assert (status, answer.get("error")) == (200, None)
    questions = questions_of(model, item, monkeypatch)
    tokenizer = model.predictor.tokenizer
    expected = [list(question.input_ids) for question in questions]
    if task == "score":  # one sequence, without the mask of each question
        ids = [question.target_ids[0] for question in questions]
        expected = [[expected[0][0], *ids, expected[0][-1]]]
    found = [[token["token"] for token in sequence["tokens"]] for sequence in answer["sequences"]]
    assert found == [tokenizer.convert_ids_to_tokens(ids) for ids in expected]
    for number, sequence in enumerate(answer["sequences"]):
        for token in sequence["tokens"]:
            if token["text"] is None:
                assert token["token"] in ("[CLS]", "[SEP]")
                continue
            text = item[token["text"]]
            text = text[number] if isinstance(text, list) else text
            words = text[token["start"] : token["end"]]
            # A token of the vocabulary is its characters; others are unknown.
            assert token["token"] in (words, words.lower(), f"##{words.lower()}", "[UNK]")


def test_windows_continue_where_the_text_does(ask):
    for task, field in (("multi_label", "text"), ("question_answering", "context"), ("token_classification", "text")):
        _, answer = ask("tokens", task, item=CASES[task])
        starts = [
            [token["start"] for token in sequence["tokens"] if token["text"] == field]
            for sequence in answer["sequences"]
        ]
        assert len(starts) > 3
        assert sorted({start for window in starts for start in window}) == sorted(dict.fromkeys(sum(starts, [])))
        for before, after in zip(starts, starts[1:], strict=False):
            assert before[0] < after[0] <= before[-1] < after[-1], task


@pytest.mark.parametrize("task", SERVED)
def test_the_attention_is_that_of_the_encoder(server, ask, task):
    model = model_of(server, task)
    _, questions = model.predictor.sequences(model.text_of(CASES[task]))
    ids, segment_ids = np.array([questions[0].input_ids]), np.array([questions[0].segment_ids])
    if task == "score":
        ids[0, questions[0].positions[0]] = questions[0].target_ids[0]
    encoder = getattr(model.predictor.model, "bert", model.predictor.model)
    layers = encoder.attention_probabilities(ids, segment_ids=segment_ids)
    for layer, values in enumerate(layers):
        status, answer = ask("attention", task, item=CASES[task], layer=layer)
        assert (status, len(answer["tokens"])) == (200, ids.shape[1])
        np.testing.assert_allclose(answer["attention"], np.array(values)[0], atol=6e-5)
        means = looks_at(np.array(values), [token["token"] for token in answer["tokens"]])[0]
        np.testing.assert_allclose([list(head.values()) for head in answer["looks_at"]], means, atol=6e-5)
        assert all(tuple(head) == HEAD_COLUMNS for head in answer["looks_at"])


def test_mistakes_are_sentences(ask, server):
    text = {"text": "paris"}
    for route, task, fields, status, error in [
        ("tokens", "score", {}, 422, '"item" is missing; a request needs it'),
        ("tokens", "score", {"item": text, "layer": 1}, 422, '"layer" is not a field of a request with "item"'),
        ("tokens", "score", {"item": {"txt": "a"}}, 422, '"txt" is not a field of "item"; do you mean "text"?'),
        ("tokens", "fill_mask", {"item": text}, 422, "the request has no [MASK]"),
        ("attention", "score", {"item": text, "layer": 2}, 422, '"layer" is 2, but must be a whole number from 0 to 1'),
        (
            "attention",
            "score",
            {"item": text, "layer": True},
            422,
            '"layer" is true, but must be a whole number from 0 to 1',
        ),
    ]:
        found, answer = ask(route, task, **fields)
        assert (found, error in answer["error"]) == (status, True), answer
    response = requests.post(f"{server.url}/v1/tokens", json={"model": "bert", "item": "a"}, timeout=60)
    assert '"task" is missing; the tasks of the model bert are: fill_mask' in response.json()["error"]
    response = requests.post(f"{server.url}/v1/tokens", json={"model": "no", "item": "a"}, timeout=60)
    assert (response.status_code, 'there is no model "no"' in response.json()["error"]) == (404, True)


def test_attention_of_many_tokens_is_refused(ask, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.explanations._MOST_VALUES", 40)
    status, answer = ask("attention", "score", item={"text": "he was hungry"}, layer=0)
    assert status == 422
    assert answer["error"] == (
        "the attention of 5 tokens in 2 heads has 50 values, but at most 40 are allowed; give a shorter text"
    )


def test_the_list_of_models_and_the_files_of_the_page(server):
    listed = requests.get(f"{server.url}/models", timeout=60).json()["models"]
    by_task = {model["task"]: model for model in listed}
    assert by_task["fill_mask"]["labels"] is None
    assert by_task["token_classification"]["labels"] == ["LOC", "PER"]
    assert {(model["num_layers"], model["num_heads"]) for model in listed} == {(1, 2), (2, 2)}
    page = requests.get(f"{server.url}/", timeout=60)
    assert (page.url, page.headers["Content-Type"]) == (f"{server.url}/page/", "text/html; charset=utf-8")
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    script = requests.get(f"{server.url}/page/backend.js", timeout=60)
    assert script.headers["Content-Type"].startswith("text/javascript")
    assert "fetch(" in script.text
    for name in ("page/missing.js", "page/../app.py", "page/%2e%2e/app.py", "page/__init__.py"):
        assert requests.get(f"{server.url}/{name}", timeout=60).status_code == 404, name


def test_the_description_has_both_routes(server, ask):
    document = requests.get(f"{server.url}/openapi.json", timeout=60).json()
    for task, item in CASES.items():
        for route, fields in (("tokens", {"item": item}), ("attention", {"item": item, "layer": 0})):
            operation = document["paths"][f"/v1/{route}"]["post"]
            sent = operation["requestBody"]["content"]["application/json"]["schema"]
            received = operation["responses"]["200"]["content"]["application/json"]["schema"]
            body = {"model": name_of(task), "task": task, **fields}
            jsonschema.validate(body, sent | {"components": document["components"]})
            answer = ask(route, task, **fields)[1]
            jsonschema.validate(answer, received | {"components": document["components"]})
            with pytest.raises(jsonschema.ValidationError):
                jsonschema.validate(body | {"wrong": 1}, sent | {"components": document["components"]})
