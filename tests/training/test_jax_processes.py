"""The processes of JAX: how they find each other, and how commands that do not fit are refused."""

import concurrent.futures
import contextlib
import socket
import time

import pytest
from workers import hold_port

from bert_keras.engine.distribution.jax_processes import connect, meet
from bert_keras.mistakes import Mistake
from bert_keras.settings.groups import RunSettings


@pytest.fixture
def port():
    with contextlib.ExitStack() as stack:
        yield hold_port(stack)


def meet_all(port, *places, seconds=20.0):
    """Lets threads meet as (number of processes, own number); returns the message of each, None if all is well."""

    def message(place):
        try:
            meet(f"127.0.0.1:{port}", *place, seconds)
        except Mistake as error:
            return str(error)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        return [*pool.map(message, places)]


def test_processes_meet_in_any_order_beside_a_stranger(port):
    def visit():
        while True:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)) as stranger:
                return stranger.send(b"GET / HTTP/1.1\r\n\r\n")
            time.sleep(0.01)

    with concurrent.futures.ThreadPoolExecutor() as pool:
        visitor = pool.submit(visit)
        assert meet_all(port, (4, 3), (4, 1), (4, 0), (4, 2)) == [None] * 4
        assert visitor.result() > 0
    assert meet_all(port, (1, 0)) == [None]


def test_a_number_that_two_processes_have_is_named_to_all(port):
    for message in meet_all(port, (4, 0), (4, 1), (4, 1)):
        assert message == "process_id=1 was given to several processes; give each its own number"


def test_processes_must_agree_on_their_number(port):
    for message in meet_all(port, (3, 0), (4, 1)):
        assert message == "the processes have num_processes=3 and 4; give all the same"


def test_all_say_which_process_is_missing(port):
    for message in meet_all(port, (4, 0), (4, 2), seconds=1.0):
        assert message == "the processes [1, 3] of 4 have not started in time; start all in minutes"


def test_a_coordinator_that_does_not_answer_is_named(port):
    (message,) = meet_all(port, (2, 1), seconds=0.5)
    assert message == (
        f"no process answers at coordinator_address=127.0.0.1:{port} within 0.5 s (Connection refused); start "
        "process_id=0 on that machine, and check that the port can be reached from here"
    )


def test_a_second_process_0_cannot_open_the_port(port):
    with socket.create_server(("", port)):
        (message,) = meet_all(port, (2, 0))
    assert message == (
        f"coordinator_address=127.0.0.1:{port}: process 0 cannot open the port (Address already in use); give one that "
        "is free on its machine, and process_id=0 to one process only"
    )


PLACE = {"coordinator_address": "10.0.0.1:1234", "num_processes": 2, "process_id": 1}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"strategy": "one"}, "coordinator_address and strategy=one contradict each other; leave one out"),
        (
            {"coordinator_address": "auto"},
            "coordinator_address=auto, num_processes=2 and process_id=1 do not fit; give",
        ),
        (
            {"coordinator_address": "a"},
            "coordinator_address=a, num_processes=2 and process_id=1 do not fit; give HOST:PO",
        ),
        ({"process_id": None}, "coordinator_address=10.0.0.1:1234, num_processes=2 and process_id=None do not fit"),
        ({"num_processes": None}, "coordinator_address=10.0.0.1:1234, num_processes=None and process_id=1 do not"),
        (
            {"process_id": 2},
            "coordinator_address=10.0.0.1:1234, num_processes=2 and process_id=2 do not fit; give HOST",
        ),
    ],
)
def test_flags_that_do_not_fit_are_refused(monkeypatch, changes, expected):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(Mistake, match=f"^{expected}"):
        connect(RunSettings(**(PLACE | changes)))


def test_tensorflow_has_its_own_way():
    with pytest.raises(Mistake, match="coordinator_address is for JAX; set KERAS_BACKEND=jax, or leave it out and na"):
        connect(RunSettings(**PLACE))
    assert connect(RunSettings()) is None


def test_a_cluster_that_is_not_there_is_a_mistake(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")

    def initialize(cluster_detection_method):
        raise ValueError("coordinator_address should be defined.")

    monkeypatch.setattr("jax.distributed.initialize", initialize)
    with pytest.raises(Mistake, match="auto: JAX finds no cluster of Slurm, Open MPI, Kubernetes or a TPU here"):
        connect(RunSettings(coordinator_address="auto"))


def test_processes_cannot_connect_after_a_computation(monkeypatch):
    jax = pytest.importorskip("jax")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    jax.devices("cpu")
    with pytest.raises(Mistake, match="JAX has already computed something in this process, but processes must connect"):
        connect(RunSettings(coordinator_address="auto"))
