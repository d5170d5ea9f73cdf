"""A server in this process that tests reach over HTTP."""

import contextlib
import socket
import threading
import time

import requests
import uvicorn

from bert_keras.serving.app import Server, ServerSettings


@contextlib.contextmanager
def serving(models, **settings):
    """Serves models while the block runs. Yields the Server, whose `url` is its address, when it is ready."""
    server = Server(models, ServerSettings(**settings))
    listener = socket.create_server(("127.0.0.1", 0))
    server.url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    running = uvicorn.Server(uvicorn.Config(server.app, log_config=None, access_log=False, timeout_graceful_shutdown=5))
    thread = threading.Thread(target=running.run, kwargs={"sockets": [listener]})
    thread.start()
    try:
        deadline = time.monotonic() + 60
        while requests.get(f"{server.url}/readyz", timeout=10).status_code != 200:
            assert time.monotonic() < deadline, server.failure
            time.sleep(0.05)
        yield server
    finally:
        running.should_exit = True
        thread.join()
        listener.close()
