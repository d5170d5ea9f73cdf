"""Requests that cost more than they look: each gets its answer or a refusal, and other requests continue meanwhile."""

import concurrent.futures
import json
import time

import extra_serve  # noqa: F401
import pytest
import requests

MARKS = "a" + "\u0301\u0316" * 49_999
# Name -> route, body (JSON, or bytes), headers, the statuses that are correct, and a part of the error.
COSTLY = {
    "marks": ("score", {"text": MARKS}, {}, 422, "from character 2 of its text on there are more than 100 combining"),
    "marks of Tibetan": ("score", {"text": "\u0f40" + "\u0f73" * 30_000}, {}, 422, "combining marks"),
    "marks in a second text": ("next-sentence", {"text_a": "a", "text_b": MARKS}, {}, 422, "combining marks"),
    "marks in a choice": ("choose", {"text": "a", "choices": ["b", MARKS]}, {}, 422, "choice 2"),
    "marks in a context": ("answer", {"question": "a", "context": MARKS}, {}, 422, "its context"),
    "marks in a word to tag": ("entities", {"text": MARKS}, {}, 422, "combining marks"),
    "marks in a candidate": ("fill-mask", {"text": "[MASK]", "candidates": [MARKS]}, {}, 422, "candidates: from"),
    "marks in tokens": ("tokens", {"model": "bert", "task": "vectors", "item": MARKS}, {}, 422, "combining marks"),
    "marks at OpenAI's route": ("embeddings", {"input": [MARKS], "model": "bert"}, {}, 422, "combining marks"),
    "short rows of marks": ("embeddings", {"text": ("e" + "\u0316\u0301" * 45) * 1000}, {"model": "bert"}, 200, None),
    "zero width": ("embeddings", {"text": "\u200b" * 99_999 + "a"}, {}, 200, None),
    "a long word": ("embeddings", {"text": "a" * 100_000}, {}, 200, None),
    "a long row of dots": ("entities", {"text": "." * 100_000}, {}, 200, None),
    "many dots in a word": ("entities", {"text": "a." * 50_000}, {}, (200, 422), None),
    "many hyphens in a word": ("entities", {"text": "a-b'" * 25_000}, {}, (200, 422), None),
    "many ideographs": ("entities", {"text": "\u4e2d" * 100_000}, {}, (200, 422), None),
    "many words": ("answer", {"question": "a " * 50_000, "context": "b " * 50_000}, {}, (200, 422), None),
    "deep lists": ("score", b"[" * 500_000 + b"]" * 500_000, {}, (400, 422), None),
    "deep objects": ("score", b'{"a":' * 200_000, {}, 400, "not valid JSON"),
    "many lists": ("score", b"[" + b"[]," * 349_000 + b"1]", {}, 422, "but must be an object"),
    "many fields": ("score", json.dumps({f"{n}": 0 for n in range(70_000)}).encode(), {}, 422, "is not a field of"),
    "a long number": ("fill-mask", b'{"text": "[MASK]", "top_k": %s}' % (b"9" * 500_000), {}, 400, "not valid JSON"),
    "a number of 300 digits": ("fill-mask", b'{"text": "[MASK]", "top_k": %s}' % (b"9" * 300), {}, 422, '"top_k" is '),
    "a small number": ("fill-mask", b'{"text": "[MASK]", "top_k": 1e-%s}' % (b"9" * 5000), {}, 422, '"top_k" is '),
    "a long deadline": ("score", {"text": "a"}, {"X-Timeout-Ms": "9" * 5000}, 422, "X-Timeout-Ms"),
    "another long deadline": ("score", {"text": "a"}, {"X-Timeout-Ms": "\u0663".encode() * 10}, 422, "X-Timeout-Ms"),
    "a long header": ("score", {"text": "a"}, {"X-Request-Id": "9" * 60_000}, 200, None),
    "many masks": ("fill-mask", {"text": "[MASK]" * 10_000}, {}, 422, "10,000 [MASK]"),
    "many guesses": ("fill-mask", {"text": "[MASK]" + "a " * 45_000, "top_k": 29}, {}, 422, "make it shorter"),
    "many candidates": ("fill-mask", {"text": "[MASK]", "candidates": ["paris"] * 90_000}, {}, 200, None),
    "many items": ("score", {"items": ["a"] * 200_000}, {}, 422, '"items" has 200,000 entries'),
    "many choices": ("choose", {"text": "a", "choices": ["b"] * 200_000}, {}, 422, "200,000 choices"),
    "many names": ("classify", {"text": "a", "model": "x" * 900_000}, {}, 404, "there is no model"),
    "attention of a long text": (
        "attention",
        {"model": "multi_label", "task": "multi_label", "item": "he " * 30_000, "layer": 0},
        {},
        422,
        "sequences of the model's length",
    ),
}
MODELS = {"entities": "token_classification", "choose": "multiple_choice", "answer": "question_answering"}


@pytest.mark.parametrize("name", COSTLY)
def test_the_server_answers_others_while_a_costly_request_runs(server, name):
    route, body, headers, statuses, reason = COSTLY[name]
    if isinstance(body, dict):
        body = json.dumps({"model": MODELS.get(route, "bert")} | body).encode()

    def send():
        url = f"{server.url}/v1/{route}"
        return requests.post(url, body, headers=headers, timeout=60)

    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        sent = pool.submit(send)
        while True:
            # Seconds of this process alone, because other programs may use the machine.
            is_last, started = sent.done(), time.process_time()
            assert requests.get(f"{server.url}/livez", timeout=60).status_code == 200
            assert time.process_time() - started < 1
            if is_last:
                break
            time.sleep(0.02)
    response = sent.result()
    assert response.status_code in (statuses if isinstance(statuses, tuple) else (statuses,)), response.text[:300]
    assert not reason or reason in response.json()["error"]
    assert len(response.content) < 1 << 20
    if response.status_code != 200:
        assert list(response.json()) == ["error"]
        assert len(response.text) < 2000


def test_the_answers_of_a_request_have_a_limit(ask, monkeypatch):
    body = {"model": "bert", "items": ["[MASK]"] * 20, "top_k": 25}
    status, answer = ask("fill-mask", body)
    assert (status, len(answer["answers"])) == (200, 20)
    monkeypatch.setattr("bert_keras.serving.answers._MOST_ANSWER_BYTES", 20_000)
    status, answer = ask("fill-mask", body)
    assert status == 422
    assert answer["error"] == "the answers are larger than 20,000 bytes; send fewer texts, or choose a smaller top_k"


def test_a_body_of_many_lists_is_not_parsed(ask, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.requests._MOST_CONTAINERS", 100)
    status, answer = ask("score", data=b'{"text": [' + b"[]," * 100 + b"1]}")
    assert (status, "more than 100 opening brackets" in answer["error"]) == (422, True)
