"""The budget and the deadline of each explanation, and the lines of the log about cut texts."""

import concurrent.futures
import threading
import time

import extra_serve  # noqa: F401
import pytest
import requests
from fine_tuned_models import FINE_TUNED, OF_TEXTS, random_classifier, write_fine_tuned
from running_server import serving, wait_until

from bert_keras.prediction.arguments import Limits
from bert_keras.serving.versions import open_folders
from bert_keras.tasks.finetuning import why

TEXT = "he was hungry so he ate a b c d e f g h i j k l m n o p"


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    """A server with a classifier that reads windows, and a tagger; a text may have 100 sequences."""
    folder, folders = tmp_path_factory.mktemp("models"), {}
    settings = OF_TEXTS | {"labels": ["a", "b", "c"], "doc_stride": 4}
    model = random_classifier(3, seed=4, num_hidden_layers=1)
    folders["multi_label"] = str(write_fine_tuned(folder / "a", model, "multi_label", **settings))
    make, settings = FINE_TUNED["token_classification"]
    folders["tagger"] = str(write_fine_tuned(folder / "b", make(), "token_classification", **settings))
    with serving(open_folders(folders, (), Limits(max_sequences=100))) as server:
        yield server


def ask(server, route, body, **headers):
    response = requests.post(f"{server.url}/v1/{route}", json=body, headers=headers, timeout=60)
    return response.status_code, response.json()


@pytest.mark.parametrize(
    ("route", "body", "things"),
    [
        ("classify", {"text": TEXT * 2, "why": "gradients"}, "for its gradients"),
        ("classify", {"text": TEXT * 3, "why": True}, "for its words, each hidden once"),
        ("entities", {"text": TEXT * 3, "why": True}, "for its words, each hidden once"),
        ("classify", {"text": TEXT * 40}, "of the model's length"),
    ],
)
def test_each_explanation_has_the_limit_of_sequences(served, monkeypatch, route, body, things):
    for model in served.models:
        monkeypatch.setattr(model.predictor.network._network, "answer", lambda *_, **__: pytest.fail("it computes"))
    status, answer = ask(served, route, body)
    told = f" sequences {things}, but the server's max_sequences is 100; make it sh"
    assert (status, told in answer["error"]) == (422, True), answer


def test_gradients_that_nobody_waits_for_are_not_computed(served, monkeypatch):
    """The deadline comes while a batch of several is computed; then no other one begins."""
    [model] = [model for model in served.models if model.task == "multi_label"]
    encoder, computed, may_run = model.predictor.model.bert, [], threading.Event()
    call = encoder.call

    def slow(features, *rest, **more):
        if isinstance(features, dict) and "word_vectors" in features:
            computed.append(len(features["word_vectors"]))
            assert len(computed) < 2 or may_run.wait(30)
        return call(features, *rest, **more)

    monkeypatch.setattr(why, "_TOKENS_A_PASS", 16)  # one sequence a batch
    monkeypatch.setattr(encoder, "call", slow)
    body = {"text": "he was hungry", "why": "gradients"}
    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        first = pool.submit(ask, served, "classify", body, **{"X-Timeout-Ms": "4000"})
        wait_until(lambda: len(computed) == 2)
        # The second one waits for its turn until its deadline.
        second = pool.submit(ask, served, "classify", body, **{"X-Timeout-Ms": "500"})
        assert [first.result()[0], second.result()[0]] == [504, 504]
    may_run.set()
    wait_until(lambda: served.metrics.admitted._value.get() == 0)
    time.sleep(0.3)
    assert computed == [2, computed[1]]
    monkeypatch.undo()
    status, answer = ask(served, "classify", body)
    assert (status, len(answer["answers"][0]["words"])) == (200, 3)


def test_hidden_words_that_nobody_waits_for_are_not_computed(served, monkeypatch):
    [model] = [model for model in served.models if model.task == "token_classification"]
    network, may_run, computed = model.predictor.network._network, threading.Event(), []
    answer = network.answer

    def slow(questions, *rest, **extra):
        computed.append(len(questions))
        assert may_run.wait(30)
        return answer(questions, *rest, **extra)

    monkeypatch.setattr(network, "answer", slow)
    monkeypatch.setattr(model.predictor.network, "_max_batch_tokens", 16)
    assert ask(served, "entities", {"text": "he was hungry", "why": True}, **{"X-Timeout-Ms": "300"})[0] == 504
    may_run.set()
    wait_until(lambda: served.metrics.admitted._value.get() == 0)
    assert sum(computed) == 1


def test_cut_texts_are_logged_once_and_counted(served, messages):
    long_word = {"text": "he" + "s" * 40 + " he"}
    for _ in range(3):
        assert ask(served, "entities", {"items": [long_word, {"text": "he"}]})[1]["answers"][0]["is_cut"]
    told = [message for message in messages if "lost its end" in message]
    assert [message[:56] for message in told] == ["tagger: a text is longer than the 16 tokens that the mod"]
    metrics = requests.get(f"{served.url}/metrics", timeout=60).text
    assert 'bert_cut_texts_total{model="tagger",task="token_classification"} 3.0' in metrics


def test_a_text_that_is_too_long_gets_no_advice_about_python(tmp_path):
    from known_models import random_model, write_model

    folder = write_model(tmp_path / "bert", random_model(num_hidden_layers=1, max_position_embeddings=8))
    tasks = ("fill_mask", "next_sentence", "score")
    cases = [
        ("fill-mask", {"text": "[MASK] he was hungry so he ate"}),
        ("next-sentence", {"text_a": "he was hungry", "text_b": "so he ate"}),
        ("tokens", {"task": "fill_mask", "item": "[MASK] he was hungry so he ate"}),
    ]
    with serving(open_folders({"bert": str(folder)}, tasks, Limits())) as server:
        for route, body in cases:
            status, answer = ask(server, route, body)
            assert (status, answer["error"].endswith("that the model takes; make it shorter")) == (422, True), answer
