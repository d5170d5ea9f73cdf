"""The processes of JAX that train together, on one machine or several: they meet at the start and end together.

JAX itself ends a process without a sentence if another one is missing or has the same number. So the processes first
meet at the address of the coordinator, and JAX opens its own service there afterwards.
"""

import atexit
import contextlib
import errno
import json
import logging
import os
import re
import socket
import sys
import threading
import time
from typing import Any

import keras

from bert_keras.mistakes import Mistake

log = logging.getLogger("bert_keras")

# The default of JAX.
_SECONDS_TO_MEET = 300.0
# After a failure, for the others to end with the same message.
_SECONDS_TO_LEAVE = 10.0

_unfinished, _leaving = threading.Event(), threading.Event()


def connect(settings: Any) -> None:
    """Connects this process to those that the settings name, if any. Call it before JAX looks for devices."""
    if not settings.coordinator_address:
        return
    place = _place(settings)
    arguments: list[Any] = [*place] if place else []
    import jax

    if not jax.distributed.is_initialized():  # by an earlier run of this process
        # Otherwise JAX would catch SIGTERM, which training and `cli.flags.run_main` answer.
        jax.config.update("jax_enable_preemption_service", False)
        if place:
            log.info("this is process %d; waiting for all %d processes to start", place[2], place[1])
            meet(*place, _SECONDS_TO_MEET)
        try:
            # "deactivate", because a cluster may know other numbers.
            jax.distributed.initialize(*arguments, cluster_detection_method="deactivate" if place else None)
        except ValueError as error:
            raise Mistake(
                "{coordinator_address}=auto: JAX finds no cluster of Slurm, Open MPI, Kubernetes or a TPU here ({}); "
                "give HOST:PORT of process 0, {num_processes} and {process_id}",
                error,
            ) from error
        except RuntimeError as error:
            if "must be called before" not in str(error):
                raise
            raise Mistake(
                "JAX has already computed something in this process, but processes must connect before that; start a "
                "new process"
            ) from error
        from bert_keras.engine.distribution.jax_devices import JaxDevices

        # On CPUs, devices connect at their first sum, and wait only 30 s for each other. Later sums wait longer.
        JaxDevices(jax.devices()).sums([0])
        threading.Thread(target=_leave, daemon=True).start()
        # Runs before the function with which JAX waits for the others.
        atexit.register(lambda: _leaving.set() if _unfinished.is_set() else None)
    _unfinished.set()


def note_end() -> None:
    """Notes that all processes have ended the run, so this one may continue alone."""
    _unfinished.clear()


def _leave() -> None:
    """Ends a process whose run has failed, unless the others end with it, since they may wait for its numbers."""
    _leaving.wait()
    time.sleep(_SECONDS_TO_LEAVE)
    with contextlib.suppress(OSError):
        sys.stdout.flush()
    os._exit(1)


def _place(settings: Any) -> tuple[str, int, int] | None:
    """Returns address, number of processes and own number; None if the cluster says them."""
    address, num_processes, process_id = (
        getattr(settings, name) for name in ("coordinator_address", "num_processes", "process_id")
    )
    if keras.backend.backend() != "jax":
        raise Mistake(
            "{coordinator_address} is for JAX; set KERAS_BACKEND=jax, or leave it out and name TensorFlow's workers in "
            "the environment variable TF_CONFIG"
        )
    if settings.strategy != "auto":
        raise Mistake("{coordinator_address} and {strategy}={} contradict each other; leave one out", settings.strategy)
    if address == "auto" and num_processes is None and process_id is None:
        return None
    is_address = re.fullmatch(r".+:\d{1,5}", address)
    if not is_address or num_processes is None or process_id is None or process_id >= num_processes:
        raise Mistake(
            "{coordinator_address}={}, {num_processes}={} and {process_id}={} do not fit; give HOST:PORT, the number "
            "of processes and a number below that, or {coordinator_address}=auto alone",
            address,
            num_processes,
            process_id,
        )
    return address, num_processes, process_id


def meet(address: str, num_processes: int, process_id: int, seconds: float) -> None:
    """Waits until each of the processes has called it once. If one has not, or another twice, it fails in all."""
    problem = (
        _greet(address, [process_id, num_processes], seconds)
        if process_id
        else _gather(address, num_processes, time.monotonic() + seconds)
    )
    if problem:
        raise Mistake(problem)


def _gather(address: str, num_processes: int, deadline: float) -> str:
    """Waits for the other processes, and answers them with the problem that it returns; "" if all are there."""
    problem, present, has_both = "", {0}, socket.has_dualstack_ipv6()
    with contextlib.ExitStack() as stack:
        try:
            where, family = ("", int(address.rpartition(":")[2])), socket.AF_INET6 if has_both else socket.AF_INET
            server = stack.enter_context(socket.create_server(where, family=family, dualstack_ipv6=has_both))
        except OSError as error:
            raise Mistake(
                "{coordinator_address}={}: process 0 cannot open the port ({}); give one that is free on its machine, "
                "and {process_id}=0 to one process only",
                address,
                os.strerror(error.errno or errno.EADDRINUSE),
            ) from error
        connections = []
        while len(present) < num_processes and not problem:
            try:
                server.settimeout(max(0.01, deadline - time.monotonic()))
                connection = stack.enter_context(server.accept()[0])
            except TimeoutError:
                missing = sorted({*range(num_processes)} - present)
                problem = f"the processes {missing} of {num_processes} have not started in time; start all in minutes"
                break
            with contextlib.suppress(ValueError, TypeError, OSError):  # of a stranger
                connection.settimeout(5)
                process_id, number = map(int, json.loads(connection.recv(100)))
                connections.append(connection)
                if number != num_processes:
                    problem = f"the processes have {{num_processes}}={num_processes} and {number}; give all the same"
                elif process_id in present:
                    problem = f"{{process_id}}={process_id} was given to several processes; give each its own number"
                present.add(process_id)
        for connection in connections:
            with contextlib.suppress(OSError):
                connection.sendall(json.dumps(problem).encode())
    return problem


def _greet(address: str, place: list[int], seconds: float) -> str:
    """Tells process 0 who is there, as soon as it listens, and returns its answer."""
    deadline, reason = time.monotonic() + seconds, "none"
    host, _, port = address.rpartition(":")
    while (left := deadline - time.monotonic()) > 0:
        try:
            # Brackets surround addresses of IPv6.
            with socket.create_connection((host.strip("[]"), int(port)), timeout=left) as connection:
                connection.sendall(json.dumps(place).encode())
                # Longer than process 0, which answers at its own deadline at the latest.
                connection.settimeout(left + 10)
                with connection.makefile("rb") as answer:
                    return json.loads(answer.read())
        except ValueError:  # another program listens there, or process 0 has ended
            reason = "another answer"
        except OSError as error:
            reason = error.strerror or str(error)
        time.sleep(0.2)
    raise Mistake(
        "no process answers at {coordinator_address}={} within {:g} s ({}); start {process_id}=0 on that machine, and "
        "check that the port can be reached from here",
        address,
        seconds,
        reason,
    )
