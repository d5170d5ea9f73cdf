"""Requests before the server is ready, whose bodies are slow, and whose clients go away."""

import logging
import socket
import threading

import pytest

pytest.importorskip("uvicorn", reason="needs the extra [serve]")
pytest.importorskip("starlette", reason="needs the extra [serve]")
pytest.importorskip("prometheus_client", reason="needs the extra [serve]")

import requests
from known_models import random_model, write_model
from running_server import serving, wait_until

from bert_keras.prediction.arguments import Limits
from bert_keras.serving.served_models import finer, open_models


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = random_model(num_hidden_layers=1, max_position_embeddings=24)
    return str(write_model(tmp_path_factory.mktemp("models") / "bert", model))


def open_scorer(folder):
    [model] = open_models({"bert": folder}, ["score"], Limits())
    return model


def connect(server):
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_requests_get_503_until_every_length_is_warm(folder):
    model, may_end = open_scorer(folder), threading.Event()
    warmup = model.predictor.warmup
    model.predictor.warmup = lambda: (may_end.wait(60), warmup())
    with serving([model], is_ready=False) as server:
        for method, path in (("GET", "readyz"), ("POST", "v1/score")):
            response = requests.request(method, f"{server.url}/{path}", json={"text": "paris"}, timeout=60)
            assert (response.status_code, "warming up" in response.text) == (503, True)
        assert response.headers["Retry-After"] == "5"
        assert requests.get(f"{server.url}/livez", timeout=60).status_code == 200
        assert model.predictor.num_traces == 0
        may_end.set()
        wait_until(lambda: requests.get(f"{server.url}/readyz", timeout=60).status_code == 200)
        assert model.predictor.num_traces == len(model.predictor.network.lengths)
        assert requests.post(f"{server.url}/v1/score", json={"text": "paris"}, timeout=60).status_code == 200
        assert model.predictor.num_traces == len(model.predictor.network.lengths)


def test_a_warm_up_that_fails_is_reported(folder):
    model = open_scorer(folder)

    def fail():
        raise MemoryError("no room")

    model.predictor.warmup = fail
    with serving([model], is_ready=False) as server:
        wait_until(lambda: requests.get(f"{server.url}/livez", timeout=60).status_code == 500)
        for path in ("livez", "readyz"):
            assert "the warm-up failed: MemoryError: no room" in requests.get(f"{server.url}/{path}", timeout=60).text


def test_a_body_that_does_not_arrive_gets_408_and_frees_its_place(folder):
    with serving([open_scorer(folder)]) as server, connect(server) as connection:
        connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\nX-Timeout-Ms: 200\r\n\r\n{")
        answer = connection.makefile("rb").read()  # to its end, because the server closes the connection
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive before the deadline" in answer
        wait_until(lambda: server.metrics.admitted._value.get() == 0)
        assert 'bert_rejections_total{status="408"} 1.0' in server.metrics.exposed().decode()


def test_a_client_that_goes_away_is_logged_as_499(folder, caplog):
    logging.getLogger("bert_keras.requests").addHandler(caplog.handler)
    model, may_run = open_scorer(folder), threading.Event()
    with serving([model]) as server, caplog.at_level(logging.INFO, "bert_keras.requests"):
        answer = model.predictor.network._network.answer
        model.predictor.network._network.answer = lambda *all_, **extra: (may_run.wait(60), answer(*all_, **extra))[1]
        with connect(server) as connection:
            connection.sendall(b'POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 17\r\n\r\n{"text": "paris"}')
            wait_until(lambda: server.metrics.admitted._value.get() == 1)
        wait_until(lambda: server.metrics.admitted._value.get() == 0)
        may_run.set()
        wait_until(lambda: 'bert_rejections_total{status="499"} 1.0' in server.metrics.exposed().decode())
        wait_until(lambda: any('"status": 499' in each.getMessage() for each in caplog.records))
    logging.getLogger("bert_keras.requests").removeHandler(caplog.handler)


def test_a_client_that_goes_away_while_it_sends_its_body_is_no_error_of_the_server(folder, caplog):
    with serving([open_scorer(folder)]) as server:
        with connect(server) as connection:
            connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        wait_until(lambda: 'bert_rejections_total{status="499"} 1.0' in server.metrics.exposed().decode())
    assert not [record for record in caplog.records if record.exc_info]


def test_a_server_has_a_padded_length_between_each_two_that_are_far_apart():
    assert finer([16, 32, 64, 128, 130]) == [16, 24, 32, 48, 64, 96, 128, 130]
    assert finer([64]) == [64]
