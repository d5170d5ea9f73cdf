"""Runs a program in several processes of this machine that work together, over real connections."""

import json
import os
import pathlib
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]


def start_workers(count, script, *arguments):
    """Starts `count` processes that run a Python script, which is told the number of its worker first.

    Returns:
        list of subprocess.Popen.
    """
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    addresses = [f"127.0.0.1:{one.getsockname()[1]}" for one in sockets]
    for one in sockets:
        one.close()
    workers = []
    for index in range(count):
        config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
        path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
        environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": path}
        command = [sys.executable, "-c", script, str(index), *map(str, arguments)]
        pipe = subprocess.PIPE
        workers.append(subprocess.Popen(command, env=environment, stdout=pipe, stderr=pipe, text=True))
    return workers


def wait_for(workers, seconds=240):
    """Waits for the end of all, and ends those that do not come to it.

    Returns:
        list of (status, standard output, standard error).
    """
    deadline, ended = time.monotonic() + seconds, []
    try:
        for worker in workers:
            out, error = worker.communicate(timeout=max(1, deadline - time.monotonic()))
            ended.append((worker.returncode, out, error))
    finally:
        for worker in workers:
            worker.kill()
    return ended


def run_workers(count, script, *arguments):
    """Starts workers and waits for them, as `start_workers` and `wait_for`."""
    return wait_for(start_workers(count, script, *arguments))
