"""The server over HTTP: answers of every task, limits, deadlines, health, metrics and logs."""

import base64
import concurrent.futures
import dataclasses
import gzip
import json
import logging
import re
import threading

import extra_serve  # noqa: F401
import jsonschema
import numpy as np
import pytest
import requests
from known_models import random_model, write_model
from running_server import LONG_TEXT, SERVED, connect, name_of, serving, wait_until

from bert_keras.prediction import network
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.answers import other_paths
from bert_keras.serving.explanations import encoder_of
from bert_keras.serving.versions import open_folders

# Task -> route, items with its fields, and an option with its value.
CASES = {
    "classification": ("classify", [{"text": "paris is a", "text_pair": "b"}, {"text": "he ate", "text_pair": ""}]),
    "regression": ("classify", ["paris", "he was hungry so he ate ."]),
    "multi_label": ("classify", ["london", {"text": "she was so hungry"}]),
    "multiple_choice": ("choose", [{"text": "he was hungry", "choices": ["so he ate", "paris", "a b c d e"]}]),
    "rerank": ("rerank", [{"query": "he was hungry", "texts": ["so he ate", "paris", "a b c d e"]}]),
    "question_answering": ("answer", [{"question": "where is he", "context": "he is in paris " * 9}]),
    "token_classification": ("entities", ["he is in paris .", "she walks in london " * 9]),
    "fill_mask": ("fill-mask", ["paris is the [MASK] of france", "[MASK] [MASK]"]),
    "next_sentence": ("next-sentence", [{"text_a": "he was hungry", "text_b": "so he ate"}]),
    "score": ("score", ["he was hungry so he ate .", "paris"]),
    "vectors": ("embeddings", ["he was hungry so he ate .", "paris"]),
}
OPTIONS = {
    "classification": {"why": True},
    "regression": {"why": "gradients"},
    "multi_label": {"threshold": 0.1, "top_k": 2},
    "question_answering": {"why": True},
    "token_classification": {"why": True},
    "fill_mask": {"top_k": 2},
}


def assert_close(found, expected):
    """Compare two values of JSON; numbers may differ by 1e-5."""
    if isinstance(expected, dict):
        assert list(found) == list(expected)
        found, expected = list(found.values()), list(expected.values())
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        for one, other in zip(found, expected, strict=True):
            assert_close(one, other)
    elif isinstance(expected, float):
        assert found == pytest.approx(expected, rel=1e-5, abs=1e-5)
    else:
        assert found == expected


@pytest.mark.parametrize("task", SERVED)
def test_each_task_answers_as_in_python(ask, answers_of, task):
    (route, items), options = CASES[task], OPTIONS.get(task, {})
    status, answer = ask(route, {"model": name_of(task), "items": items, **options})
    assert (status, answer.get("error")) == (200, None)
    assert answer["model"] == name_of(task)
    assert_close(answer["answers"], answers_of(task, items, **options))


def test_the_body_may_be_one_item_with_its_options(ask, answers_of):
    text = "paris is the [MASK] of france"
    status, answer = ask("fill-mask", {"text": text, "top_k": 3})
    assert status == 200
    assert_close(answer["answers"], answers_of("fill_mask", [text], top_k=3))


@pytest.mark.usefixtures("no_graphs")  # each batch calls what a trace of the network calls
def test_a_network_can_be_traced_while_it_serves(ask, answers_of):
    for task in ("classification", "vectors"):
        route, items = CASES[task]
        status, answer = ask(route, {"model": name_of(task), "items": items})
        assert (status, answer.get("error")) == (200, None)
        assert_close(answer["answers"], answers_of(task, items))


def test_requests_that_share_batches_get_their_own_answers(server, ask, answers_of):
    words = ["paris", "london", "he", "she", "was", "hungry", "ate", "walk"]
    bodies = [[" ".join(words[: 1 + number % 8] * (1 + number % 3))] for number in range(48)]
    expected = [answers_of("score", items) for items in bodies]
    with concurrent.futures.ThreadPoolExecutor(24) as pool:
        found = list(pool.map(lambda items: ask("score", {"items": items}), bodies))
    assert {status for status, _ in found} == {200}
    for (_, answer), each in zip(found, expected, strict=True):
        assert_close(answer["answers"], each)


def test_vectors_in_the_form_of_openai(ask, answers_of):
    texts = ["he was hungry", "paris"]
    vectors = [answer["vector"] for answer in answers_of("vectors", texts)]
    status, answer = ask("embeddings", {"input": texts, "model": "bert"})
    assert (status, answer["object"], answer["usage"]["prompt_tokens"]) == (200, "list", 5 + 3)
    assert [item["index"] for item in answer["data"]] == [0, 1]
    assert_close([item["embedding"] for item in answer["data"]], vectors)
    _, answer = ask("embeddings", {"input": texts[1], "model": "bert", "encoding_format": "base64"})
    decoded = np.frombuffer(base64.b64decode(answer["data"][0]["embedding"]), "<f4")
    np.testing.assert_allclose(decoded, vectors[1], rtol=1e-5, atol=1e-5)


def test_a_query_in_the_form_of_text_embeddings_inference(ask, answers_of):
    body = {"query": "he was hungry", "texts": ["so he ate", "paris", "a b c d e"]}
    for is_raw in (False, True):
        [expected] = answers_of("rerank", [body], raw_scores=is_raw)
        status, answer = ask("rerank", body | {"raw_scores": is_raw, "return_text": False, "truncate": True})
        assert status == 200
        assert_close(answer, [{"index": each["index"], "score": each["score"]} for each in expected["texts"]])
    _, answer = ask("rerank", body | {"return_text": True})
    assert [each["text"] for each in answer] == [body["texts"][each["index"]] for each in answer]
    assert ask("rerank", body | {"texts": ["he " * 20]})[0] == 200
    for wrong, message in (
        ({"texts": ["he " * 20], "truncate": False}, "a text is longer than the 16 tokens that the model takes with"),
        ({"return_text": 1}, '"return_text" is 1, but must be true or false'),
        ({"raw_scores": "no"}, '"raw_scores" is "no", but must be true or false'),
        ({"texts": []}, '"texts" is [], but must be a list of one text or more'),
        ({"top_n": 1}, '"top_n" is not a field of a request with "query" and "texts"; its fields are "query", '),
    ):
        status, answer = ask("rerank", body | wrong)
        assert status == 422
        assert answer["error"].startswith(message)


# Task -> an item, the tokens of its texts, and whether the model ignores some of them.
LENGTHS = [
    ("classification", {"text": LONG_TEXT, "text_pair": "he"}, None, False),  # windows
    ("classification", {"text": "he", "text_pair": LONG_TEXT}, None, True),
    ("classification", {"text": "he was", "text_pair": ""}, 2, False),
    ("regression", "he was hungry", 3, False),
    ("regression", "he " * 14, 14, False),
    ("regression", "he " * 15, 15, True),
    ("multi_label", "he " * 40, 40, False),
    ("multiple_choice", {"text": "he", "choices": ["he was", "paris"]}, 4, False),
    ("multiple_choice", {"text": "he", "choices": ["he", "he " * 15]}, 17, True),
    ("rerank", {"query": "he", "texts": ["he was", "paris"]}, 4, False),
    ("rerank", {"query": "he", "texts": ["he", "he " * 15]}, 17, True),
    ("question_answering", {"question": "he was", "context": "he " * 40}, 42, False),
    ("question_answering", {"question": "he " * 7, "context": "he"}, 8, True),
    ("token_classification", "he " * 40, 40, False),
    ("token_classification", "he" + "s" * 40, None, True),
    ("fill_mask", "paris [MASK] [MASK]", 3, False),
    ("next_sentence", {"text_a": "he was", "text_b": "he"}, 3, False),
    ("score", "he was hungry", 3, False),
    ("vectors", "he " * 24, 24, False),
    ("vectors", "he " * 25, 25, True),
]


@pytest.mark.parametrize(("task", "item", "num_tokens", "is_cut"), LENGTHS)
def test_each_answer_says_whether_its_text_was_cut(ask, task, item, num_tokens, is_cut):
    body = {"model": name_of(task), "items": [item]}
    status, answer = ask(CASES[task][0], body)
    [answer] = answer["answers"]
    assert (status, answer["is_cut"]) == (200, is_cut)
    assert num_tokens in (None, answer["num_tokens"])
    if task == "vectors":
        [entry] = ask("embeddings", {"model": "bert", "input": item})[1]["data"]
        assert (entry["num_tokens"], entry["is_cut"]) == (num_tokens, is_cut)


def test_numbers_that_are_not_finite_are_an_error(ask, models, plain, monkeypatch):
    [model] = [model for model in models if model.task == "vectors"]
    network = model.predictor.network._network
    answer = network.answer

    def broken(*arguments, **extra):
        return [tuple(np.full_like(array, np.nan) for array in row) for row in answer(*arguments, **extra)]

    monkeypatch.setattr(network, "answer", broken)
    status, answer_ = ask("embeddings", {"model": "bert", "text": "paris"})
    assert (status, "not finite numbers" in answer_["error"]) == (500, True)
    encoder = encoder_of(model)
    probabilities = encoder.attention_probabilities
    monkeypatch.setattr(
        encoder, "attention_probabilities", lambda *_, **__: [each * np.nan for each in probabilities(*_, **__)]
    )
    status, answer_ = ask("attention", {"model": "bert", "task": "vectors", "item": "paris", "layer": 0})
    assert (status, "not finite numbers" in answer_["error"]) == (500, True)


def test_attention_that_nobody_waits_for_is_not_computed(server, ask, models, monkeypatch):
    [model] = [model for model in models if model.task == "vectors"]
    computed = []
    monkeypatch.setattr(encoder_of(model), "attention_probabilities", lambda *_, **__: computed.append(1))
    body = {"model": "bert", "task": "vectors", "item": "paris", "layer": 0}
    with network._one_at_a_time:
        assert ask("attention", body, X_Timeout_Ms="50")[0] == 504
        wait_until(lambda: server.metrics.admitted._value.get() == 0)
    assert not computed


def test_vectors_are_written_with_the_digits_of_float32(server, ask, answers_of):
    text = requests.post(
        f"{server.url}/v1/embeddings", json={"model": "bert", "text": "he was hungry"}, timeout=60
    ).text
    digits = text.partition("[")[2].partition("[")[2].partition("]")[0].split(",")
    for number in digits:
        assert np.float32(number) == np.float32(float(number))
        assert len(number.lstrip("-").replace("0.", "").replace(".", "")) <= 12


def test_the_description_is_valid_and_describes_requests_and_answers(server, ask, capsys):
    validator = pytest.importorskip("openapi_spec_validator")
    document = requests.get(f"{server.url}/openapi.json", timeout=60).json()
    validator.OpenAPIV31SpecValidator(document).validate()
    explanations = {"/v1/tokens", "/v1/attention"}
    assert set(document["paths"]) == explanations | {*other_paths()} | {f"/v1/{route}" for route, _ in CASES.values()}
    for task, (route, items) in CASES.items():
        operation = document["paths"][f"/v1/{route}"]["post"]
        body = {"model": name_of(task), "items": items, **OPTIONS.get(task, {})}
        sent = operation["requestBody"]["content"]["application/json"]["schema"]
        received = operation["responses"]["200"]["content"]["application/json"]["schema"]
        jsonschema.validate(body, {**sent, "components": document["components"]})
        jsonschema.validate(ask(route, body)[1], {**received, "components": document["components"]})
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(body | {"wrong": 1}, {**sent, "components": document["components"]})
        for sample in operation["x-codeSamples"]:
            if sample["lang"] == "Python":
                exec(sample["source"], {})
                # The server's log goes to the same stream.
                assert "{'model': " in [line[:10] for line in capsys.readouterr().out.splitlines()]
    status, answer = ask("embeddings", {"input": "paris", "model": "bert"})
    received = document["paths"]["/v1/embeddings"]["post"]["responses"]["200"]["content"]["application/json"]["schema"]
    jsonschema.validate(answer, {**received, "components": document["components"]})


MISTAKES = {
    "not JSON": ("score", b"{", 400, "not valid JSON"),
    "not UTF-8": ("score", b'{"text": "\xff"}', 400, "not valid JSON"),
    "NaN": ("score", b'{"text": NaN}', 400, "not valid JSON"),
    "too deep": ("score", b"[" * 19_000, 400, "not valid JSON"),
    "a list": ("score", b"[]", 422, "the JSON is [], but must be an object"),
    "no item": ("score", b'{"items": []}', 422, '"items" is [], but must be a list of one item or more'),
    "too many items": (
        "score",
        json.dumps({"items": ["a"] * 51}).encode(),
        422,
        '"items" has 51 entries, but at most 50 are allowed',
    ),
    "too large": ("score", b" " * ((1 << 20) + 1), 413, "larger than 1,048,576 bytes"),
    "a wrong field": (
        "score",
        b'{"txt": "a"}',
        422,
        '"txt" is not a field of a request with "text"; do you mean "text"?',
    ),
    "a number": (
        "score",
        b'{"items": [1]}',
        422,
        'number 1 of "items" is 1, but must be an object with "text" or a text',
    ),
    "an unknown option": ("score", b'{"items": ["a"], "top_k": 1}', 422, '"top_k" is not a field'),
    "a wrong option": (
        "fill-mask",
        b'{"text": "[MASK]", "top_k": 0}',
        422,
        '"top_k" is 0, but must be a whole number of 1 or more',
    ),
    "a text of the wrong type": ("score", b'{"text": 3}', 422, '"text" is 3, but must be a text'),
    "half a character": ("score", b'{"text": "\\ud800"}', 400, "not valid JSON: no low surrogate"),
    "a compressed body": ("score", gzip.compress(b'{"text": "a"}'), 400, "not valid JSON: it is compressed with gzip"),
    "too many characters": ("score", json.dumps({"text": "a" * 100_001}).encode(), 422, "100,001 characters"),
    "a text of many": ("fill-mask", b'{"items": ["[MASK]", "a"]}', 422, "item 2 has no [MASK]"),
    "which model": ("classify", b'{"text": "a"}', 422, '"model" is missing'),
    "no such model": ("classify", b'{"text": "a", "model": "x"}', 404, 'there is no model "x"'),
    "no such route": ("translate", b"{}", 404, "there is no /v1/translate"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_gets_a_status_and_one_sentence(ask, mistake):
    route, data, status, reason = MISTAKES[mistake]
    found, answer = ask(route, data=data)
    assert (found, list(answer)) == (status, ["error"])
    assert reason in answer["error"]


def test_the_wrong_method_and_the_wrong_deadline(server, ask):
    assert requests.get(f"{server.url}/v1/score", timeout=10).status_code == 405
    assert requests.post(f"{server.url}/metrics", timeout=10).status_code == 405
    status, answer = ask("score", {"text": "a"}, X_Timeout_Ms="soon")
    assert (status, 'X-Timeout-Ms is "soon"' in answer["error"]) == (422, True)


def test_health_models_and_metrics(server, ask):
    assert requests.get(f"{server.url}/livez", timeout=10).status_code == 200
    assert ask("score", {"text": "paris"})[0] == 200
    listed = requests.get(f"{server.url}/models", timeout=10).json()["models"]
    assert {(model["name"], model["task"]) for model in listed} == {(name_of(task), task) for task in CASES}
    metrics = requests.get(f"{server.url}/metrics", timeout=10).text
    for name in ("request_seconds", "queue_seconds", "inference_seconds", "batch_fill"):
        assert re.search(rf'bert_{name}_count{{length="\d+",model="bert"', metrics)
    assert 'bert_tokens_total{model="bert",task="score"}' in metrics
    wait_until(lambda: "bert_requests_admitted 0.0" in requests.get(f"{server.url}/metrics", timeout=10).text)


def test_the_log_has_a_line_of_json_with_the_id_and_without_the_text(server, caplog):
    with caplog.at_level(logging.INFO, "bert_keras.requests"):
        logging.getLogger("bert_keras.requests").addHandler(caplog.handler)
        response = requests.post(
            f"{server.url}/v1/score", json={"text": "hungry"}, headers={"X-Request-Id": "r-7"}, timeout=10
        )
        wait_until(lambda: '"r-7"' in caplog.text)  # the line comes after the response
    assert response.headers["X-Request-Id"] == "r-7"
    line = next(json.loads(each.getMessage()) for each in caplog.records if '"r-7"' in each.getMessage())
    assert (line["request_id"], line["status"], line["task"]) == ("r-7", 200, "score")
    assert "hungry" not in caplog.text


@dataclasses.dataclass
class SlowNetwork:
    """A network whose batches wait for `may_run`."""

    network: object
    may_run: threading.Event = dataclasses.field(default_factory=threading.Event)
    has_begun: threading.Event = dataclasses.field(default_factory=threading.Event)
    num_sequences: int = 0

    def __getattr__(self, name):
        return getattr(self.network, name)

    def answer(self, questions, *arguments, **extra):
        self.has_begun.set()
        assert self.may_run.wait(60)
        self.num_sequences += len(questions)
        return self.network.answer(questions, *arguments, **extra)


@pytest.fixture
def slow(server, models):
    """The slow network of the model that scores; the server is as before after the test."""
    [model] = [model for model in models if model.task == "score"]
    batching = model.predictor.network
    network, batching._network = batching._network, SlowNetwork(batching._network)
    yield batching._network
    batching._network.may_run.set()
    wait_until(lambda: server.metrics.admitted._value.get() == 0)
    batching._network = network


def test_a_request_ends_at_its_deadline_and_frees_its_place(server, ask, slow):
    status, answer = ask("score", {"text": "paris"}, X_Timeout_Ms="50")
    assert (status, "before the deadline" in answer["error"]) == (504, True)
    wait_until(lambda: server.metrics.admitted._value.get() == 0)
    slow.may_run.set()
    assert ask("score", {"text": "paris"})[0] == 200


def test_a_client_that_goes_away_frees_its_place_and_its_sequences_are_dropped(server, ask, slow):
    body = json.dumps({"text": "a b c d"}).encode()
    request = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body)
    # The first request occupies the thread of the batches; the second one waits in the queue.
    connections = []
    for _ in range(2):
        connections.append(connect(server))
        connections[-1].sendall(request)
        wait_until(lambda: server.metrics.admitted._value.get() == len(connections))
        assert slow.has_begun.wait(30)
    for connection in connections:
        connection.close()
    wait_until(lambda: server.metrics.admitted._value.get() == 0)
    slow.may_run.set()
    assert ask("score", {"text": "paris"})[0] == 200
    assert slow.num_sequences == 4 + 1


def test_a_model_that_fails_is_a_500_and_the_server_goes_on(ask, slow):
    slow.may_run.set()
    slow.network, network = None, slow.network
    status, answer = ask("score", {"text": "paris"})
    assert (status, "the model bert failed" in answer["error"]) == (500, True)
    slow.network = network
    assert ask("score", {"text": "paris"})[0] == 200


def test_a_full_server_refuses_and_a_token_and_origins_are_checked(tmp_path):
    folder = write_model(tmp_path / "bert", random_model(num_hidden_layers=1))
    [served] = open_folders({"bert": str(folder)}, ["next_sentence"], Limits())
    [model] = served.models
    slow = SlowNetwork(model.predictor.network)
    body = {"text_a": "paris", "text_b": "london"}
    origin = "https://example.com"
    with serving([served], max_queue=1, token="secret", cors_origins=(origin,)) as server:
        model.predictor.network._network = slow

        def post(**headers):
            told = {"Authorization": "bearer secret"} | headers
            return requests.post(f"{server.url}/v1/next-sentence", json=body, headers=told, timeout=60)

        for wrong in ("Bearer wrong", "Basic secret", "secret", "Bearer", "Bearer secret secret", "BEARER"):
            assert post(Authorization=wrong).status_code == 401
        assert requests.get(f"{server.url}/livez", timeout=10).status_code == 200
        assert requests.get(f"{server.url}/metrics", timeout=10).status_code == 401
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            first = pool.submit(post)
            wait_until(lambda: server.metrics.admitted._value.get() == 1)
            second = post(Origin=origin)
            assert (second.status_code, second.headers["Retry-After"]) == (429, "1")
            assert second.headers["Access-Control-Allow-Origin"] == origin
            slow.may_run.set()
            assert first.result().status_code == 200
        assert 'bert_rejections_total{status="429"} 1.0' in server.metrics.exposed().decode()
