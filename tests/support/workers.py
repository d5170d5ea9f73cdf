"""Runs a program in several cooperating processes of this machine, over real connections."""

import contextlib
import json
import os
import pathlib
import random
import socket
import subprocess
import sys
import tempfile
import time

from other_backends import environment_of

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Below the system's range of automatic ports, so that no other connection takes one first.
_PORTS = range(20_000, 32_000)
# Before a script: see quick_start.py.
_START = "from bert_keras.cli.start import start_tensorflow\nstart_tensorflow()\n"
# For hanging processes; a busy machine may need a minute to start TensorFlow in all of them.
_LONGEST_SECONDS = 480

# Pre-trains; one worker, or all, runs a line of Python before a step.
PRETRAIN = """
import os, resource, signal, sys
index, worker, step, action = sys.argv[1:5]
from bert_keras.programs.command import PROGRAMS
from bert_keras.engine import loop
from bert_keras.tasks.pretraining import run as pretraining
from bert_keras.cli.flags import run_main
steps_until_due = loop.steps_until_due
def acting(settings, at):
    if at == int(step) and worker in (index, "all"):
        exec(action, globals())
    return steps_until_due(settings, at)
loop.steps_until_due = acting
sys.exit(run_main(PROGRAMS["run_pretraining"].main, ["run_pretraining.py", *sys.argv[5:]]))
"""
NOTHING = ("none", 0, "")
KILL = "os.kill(os.getpid(), signal.SIGKILL)"
STOP = "os.kill(os.getpid(), signal.SIGTERM)"


def run_workers(count, script, *arguments, folders=None, jax_devices=0):
    """Runs a Python script in `count` processes, with the worker's number as its first argument. Ends hanging ones.

    Args:
        count: int.
        script: str.
        *arguments: of the script.
        folders: list of paths, the working directory of each; None: this process's.
        jax_devices: number of devices of each process on JAX, which gets its place as flags; 0: TensorFlow, TF_CONFIG.

    Returns:
        list of (status, standard output, standard error); the status of a hanging process is None.
    """
    with contextlib.ExitStack() as stack:
        addresses = [f"127.0.0.1:{hold_port(stack)}" for _ in range(count)]
        workers = []
        for index in range(count):
            config = {"cluster": {"worker": addresses}, "task": {"type": "worker", "index": index}}
            path = os.pathsep.join([str(ROOT), str(ROOT / "tests" / "support")])
            environment = {**os.environ, "TF_CONFIG": json.dumps(config), "PYTHONPATH": path}
            place = []
            if jax_devices:
                environment = os.environ | environment_of("jax", jax_devices) | {"PYTHONPATH": path}
            if jax_devices and count > 1:
                place = [f"--coordinator_address={addresses[0]}", f"--num_processes={count}", f"--process_id={index}"]
            command = [sys.executable, "-c", _START + script, str(index), *map(str, arguments), *place]
            # Files, because a worker would block when the pipe of an unread process fills up.
            streams = [stack.enter_context(tempfile.TemporaryFile("w+")) for _ in range(2)]
            worker = subprocess.Popen(
                command, env=environment, stdout=streams[0], stderr=streams[1], cwd=folders[index] if folders else None
            )
            stack.callback(worker.wait)
            stack.callback(worker.kill)
            workers.append((worker, streams))
        deadline = time.monotonic() + _LONGEST_SECONDS
        return [_end_of(worker, streams, deadline) for worker, streams in workers]


def _end_of(worker, streams, deadline):
    with contextlib.suppress(subprocess.TimeoutExpired):
        worker.wait(max(0, deadline - time.monotonic()))
    texts = []
    for stream in streams:
        stream.seek(0)
        texts.append(stream.read())
    return worker.returncode, *texts


def hold_port(stack):
    """Returns a port that no other test takes before the stack is closed; TensorFlow needs it to be free."""
    for port in random.sample(_PORTS, len(_PORTS)):
        # The tests reserve the UDP port of the same number.
        held = socket.socket(type=socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.socket() as tried:
            held.bind(("", port))
            tried.bind(("", port))
            stack.callback(held.close)
            return port
        held.close()
    raise OSError(f"no port from {_PORTS.start} to {_PORTS.stop} is free")
