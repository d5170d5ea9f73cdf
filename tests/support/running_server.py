"""A server in this process that tests reach over HTTP."""

import contextlib
import socket
import threading
import time

import requests
from fine_tuned_models import FINE_TUNED

from bert_keras.serving.app import Server, ServerSettings
from bert_keras.serving.connections import BoundedServer, config_of
from bert_keras.tasks import abilities

# The tasks of the server of these tests. `replaced_tokens` needs another checkpoint; tests/prediction serves it.
SERVED = [task for task in abilities() if task != "replaced_tokens"]
# Longer than the models of these tests read at once.
LONG_TEXT = "\U0001f600 he is in paris , she walks . so he ate \u05e9\u05dc\u05d5\u05dd " * 3


@contextlib.contextmanager
def serving(folders, is_ready=True, **settings):
    """Serves ServedFolders while the block runs. Yields the Server; `url` is its address, `running` that of uvicorn.

    Args:
        is_ready: whether to wait until the models are warm.
    """
    server = Server(folders, ServerSettings(**settings))
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in serve.py
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = BoundedServer(config_of(server.app, 4.0), server.settings.max_queue, server.settings.timeout)
    server.running = running
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 300
        while is_ready and requests.get(f"{server.url}/readyz", timeout=10).status_code != 200:
            assert time.monotonic() < deadline, server.failure
            time.sleep(0.05)
        yield server
    finally:
        running.should_exit = True
        thread.join()
        listener.close()


def name_of(task):
    """Returns the name of the model for a task in the server of these tests."""
    return task if task in FINE_TUNED else "bert"


def connect(server):
    """Opens a connection to a server."""
    host, port = server.url.removeprefix("http://").split(":")
    return socket.create_connection((host, int(port)), timeout=60)


def wait_until(is_true):
    """Waits until a function of no arguments returns a true value."""
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
