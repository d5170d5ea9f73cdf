"""A server in this process that tests reach over HTTP."""

import contextlib
import socket
import threading
import time

import requests
import tensorflow as tf
import uvicorn

from bert_keras.serving.app import Server, ServerSettings


@contextlib.contextmanager
def serving(models, versioned=(), is_ready=True, **settings):
    """Serves models while the block runs. Yields the Server, whose `url` is its address.

    Args:
        is_ready: whether to wait until the models are warm.
    """
    server = Server(models, ServerSettings(**settings), versioned)
    listener = socket.create_server(("127.0.0.1", 0))
    listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # as in serve.py
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = uvicorn.Server(uvicorn.Config(server.app, log_config=None, access_log=False, timeout_graceful_shutdown=5))
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


def write_adder(folder, number):
    """Writes a version of a SavedModel that adds its number to x, under its final name when it is complete."""
    module = tf.Module()
    x = tf.TensorSpec([None], tf.float32, name="x")
    module.add = tf.function(lambda x: {"y": x + number}, input_signature=[x])
    tf.saved_model.save(module, str(folder / f".{number}"), signatures=module.add)
    (folder / f".{number}").rename(folder / str(number))


def wait_until(is_true):
    """Waits until a function of no arguments returns a true value."""
    deadline = time.monotonic() + 30
    while not is_true():
        assert time.monotonic() < deadline
        time.sleep(0.01)
