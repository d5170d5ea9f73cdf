"""Requests before the server is ready, whose bodies are slow, and whose clients go away."""

import contextlib
import logging
import threading

import extra_serve  # noqa: F401
import pytest
import requests
from known_models import random_model, write_model
from running_server import connect, serving, wait_until

from bert_keras.cli.server_address import hosts_of
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.middleware import open_request_log, requests_log
from bert_keras.serving.versions import open_folders


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    model = random_model(num_hidden_layers=1, max_position_embeddings=8)
    return str(write_model(tmp_path_factory.mktemp("models") / "bert", model))


def open_scorer(folder):
    """Returns a served folder, and the model in it."""
    [served] = open_folders({"bert": folder}, ["score"], Limits())
    return served, served.models[0]


def test_requests_get_503_until_the_network_is_warm(folder):
    (served, model), may_end = open_scorer(folder), threading.Event()
    warmup = model.predictor.warmup
    model.predictor.warmup = lambda: (may_end.wait(60), warmup())
    with serving([served], is_ready=False) as server:
        for method, path in (("GET", "readyz"), ("POST", "v1/score")):
            response = requests.request(method, f"{server.url}/{path}", json={"text": "paris"}, timeout=60)
            assert (response.status_code, "warming up" in response.text) == (503, True)
        assert response.headers["Retry-After"] == "5"
        assert requests.get(f"{server.url}/livez", timeout=60).status_code == 200
        assert model.predictor.num_traces == 0
        may_end.set()
        wait_until(lambda: requests.get(f"{server.url}/readyz", timeout=60).status_code == 200)
        assert model.predictor.num_traces == 1
        assert requests.post(f"{server.url}/v1/score", json={"text": "paris"}, timeout=60).status_code == 200
        assert model.predictor.num_traces == 1


def test_a_warm_up_that_fails_is_reported(folder):
    served, model = open_scorer(folder)

    def fail():
        raise MemoryError("no room")

    model.predictor.warmup = fail
    with serving([served], is_ready=False) as server:
        wait_until(lambda: requests.get(f"{server.url}/livez", timeout=60).status_code == 500)
        for path in ("livez", "readyz"):
            assert "the warm-up failed: MemoryError: no room" in requests.get(f"{server.url}/{path}", timeout=60).text


def test_a_body_that_does_not_arrive_gets_408_and_frees_its_place(folder):
    with serving([open_scorer(folder)[0]]) as server, connect(server) as connection:
        connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\nX-Timeout-Ms: 200\r\n\r\n{")
        answer = connection.makefile("rb").read()  # to its end, because the server closes the connection
        assert answer.startswith(b"HTTP/1.1 408 ")
        assert b"the body did not arrive before the deadline" in answer
        wait_until(lambda: server.metrics.admitted._value.get() == 0)
        assert 'bert_rejections_total{status="408"} 1.0' in server.metrics.exposed().decode()


def test_a_client_that_goes_away_is_logged_as_499(folder, caplog):
    logging.getLogger("bert_keras.requests").addHandler(caplog.handler)
    (served, model), may_run = open_scorer(folder), threading.Event()
    with serving([served]) as server, caplog.at_level(logging.INFO, "bert_keras.requests"):
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
    with serving([open_scorer(folder)[0]]) as server:
        with connect(server) as connection:
            connection.sendall(b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        wait_until(lambda: 'bert_rejections_total{status="499"} 1.0' in server.metrics.exposed().decode())
    assert not [record for record in caplog.records if record.exc_info]


def test_bodies_that_arrive_slowly_take_no_places(monkeypatch):
    with serving([], max_queue=1) as server, contextlib.ExitStack() as stack:
        for _ in range(8):
            connection = stack.enter_context(connect(server))
            connection.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        wait_until(lambda: len(server.running.server_state.tasks) == 8)
        assert requests.post(f"{server.url}/v1/tokens", json={"model": "x"}, timeout=60).status_code == 404
        monkeypatch.setattr("bert_keras.serving.requests._SECONDS_TO_SEND", 0.05)
        slow = stack.enter_context(connect(server))
        slow.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n")
        assert slow.makefile("rb").read().startswith(b"HTTP/1.1 408 ")


@pytest.mark.parametrize("sent", [b"", b"POST /v1/tok", b"GET /livez HTTP/1.1\r\nHost: x\r\n\r\nGET /li"])
def test_a_client_that_does_not_send_its_headers_loses_its_connection(monkeypatch, sent):
    monkeypatch.setattr("bert_keras.serving.connections._SECONDS_OF_HEADERS", 0.1)
    with serving([]) as server, connect(server) as connection:
        connection.sendall(sent)
        with contextlib.suppress(ConnectionResetError):
            while connection.recv(1000):
                pass


def test_of_too_many_connections_the_oldest_are_closed(monkeypatch):
    monkeypatch.setattr("bert_keras.serving.connections._MORE_CONNECTIONS", 4)
    with serving([], max_queue=1) as server, contextlib.ExitStack() as stack:
        connections = [stack.enter_context(connect(server)) for _ in range(20)]
        for connection in connections[:10]:
            connection.sendall(b"POST /v1/tokens HTTP/1.1\r\nHost: x\r\nContent-Length: 99\r\n\r\n{")
        wait_until(lambda: len(server.running.server_state.connections) == 6)
        for _ in range(5):
            assert requests.post(f"{server.url}/v1/tokens", json={"model": "x"}, timeout=60).status_code == 404


def test_the_end_of_the_server_does_not_wait_for_work_that_was_given_up(folder, monkeypatch):
    monkeypatch.setattr("bert_keras.serving.served_models._SECONDS_TO_STOP", 0.1)
    (served, model), may_run = open_scorer(folder), threading.Event()
    with serving([served]) as server:
        network = model.predictor.network._network
        network.answer = lambda *_, **__: may_run.wait(60)
        answer = requests.post(
            f"{server.url}/v1/score", json={"text": "paris"}, headers={"X-Timeout-Ms": "50"}, timeout=60
        )
        assert answer.status_code == 504
    assert not may_run.is_set()  # the server has ended, and the network has not answered
    may_run.set()


def test_only_the_names_of_a_local_server_are_its_hosts():
    with serving([], hosts=hosts_of("127.0.0.1")) as server:
        port = server.url.rpartition(":")[2]
        for host, status in [
            (f"localhost:{port}", 200),
            (f"127.0.0.1:{port}", 200),
            ("LOCALHOST", 200),
            (f"[::1]:{port}", 200),
            (f"evil.example:{port}", 403),
            ("127.0.0.1.evil.example", 403),
            ("localhost@evil.example", 403),
            ("[::1", 403),
            ("::1", 403),
        ]:
            for path in ("livez", "page/main.js", "v1/nothing"):
                found = requests.get(f"{server.url}/{path}", headers={"Host": host}, timeout=60)
                assert found.status_code == (404 if path == "v1/nothing" and status == 200 else status), (host, path)
        assert (
            "answers only requests for localhost, 127.0.0.1, ::1, not for [::1"
            in requests.get(server.url, headers={"Host": "[::1"}, timeout=60).text
        )
    assert hosts_of("127.0.0.2") == ("localhost", "127.0.0.1", "::1", "127.0.0.2")
    assert hosts_of("0.0.0.0") == hosts_of("::") == hosts_of("192.168.0.1") == hosts_of("my-machine") == ()


def test_unknown_paths_are_not_redirected():
    with serving([]) as server:
        for path in ("x", "livez/", "models/", "v1", "page/x/", "v1/tokens/", "//evil.example", "/evil.example/.."):
            found = requests.get(f"{server.url}/{path}", allow_redirects=False, timeout=60)
            assert found.status_code == 404, path
        for path in ("", "page"):
            found = requests.get(f"{server.url}/{path}", allow_redirects=False, timeout=60)
            assert (found.status_code, found.headers["Location"]) == (307, "page/")


def test_a_closed_standard_output_is_one_warning(messages, capsys):
    class Closed:
        def write(self, text):
            raise BrokenPipeError

        def flush(self):
            raise BrokenPipeError

    lines = open_request_log(Closed())
    for number in range(20):
        requests_log.info("%d", number)
    lines.stop()
    requests_log.handlers.clear()
    assert messages == ["standard output is closed or full, so the server does not log further requests"]
    assert capsys.readouterr().err == ""
