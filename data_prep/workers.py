"""Processes that share work, and a folder that remembers what is finished, so that a new start goes on from there."""

import concurrent.futures
import contextlib
import json
import logging
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any

log = logging.getLogger("bert_keras")


class WorkFolder:
    """A hidden folder of unfinished work, each task with its result: JSON that appears once its files are complete.

    The folder is for one piece of work and one process that leads it. A context manager: leaving it gives it free for
    others, and leaves it where it is.

    Args:
        path: the folder, created where it is missing.

    Raises:
        ValueError: another process is at work in it.
    """

    def __init__(self, path: str):
        self.path = path
        os.makedirs(path, exist_ok=True)

    def __enter__(self) -> "WorkFolder":
        self._lock = open(self.file("lock"), "w")  # noqa: SIM115 (closed by __exit__)
        with contextlib.suppress(ImportError):  # Windows has no such locks
            import fcntl

            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                self._lock.close()
                raise ValueError(
                    f"another process is building the same files in {self.path} now; wait for it, or stop it"
                ) from None
        return self

    def __exit__(self, *exception) -> None:
        self._lock.close()

    def __getstate__(self) -> dict:
        return {"path": self.path}

    def file(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.path, name)

    def result(self, task: str) -> dict | None:
        """Returns the result of a task; None where it is not finished."""
        try:
            with open(self.file(f"{task}.json"), encoding="utf-8") as file:
                return json.load(file)
        except FileNotFoundError:
            return None

    def finish(self, task: str, result: dict) -> dict:
        """Notes the result of a task, whose files are complete, and returns it."""
        partial = self.file(f"{task}.json.{os.getpid()}")
        with open(partial, "w", encoding="utf-8") as file:
            json.dump(result, file)
        os.replace(partial, self.file(f"{task}.json"))
        return result

    def forget(self, task: str) -> None:
        """Makes a task one that is not finished."""
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.file(f"{task}.json"))


class Workers:
    """Processes that work on tasks. A context manager: leaving it ends them, whatever they are doing after a failure.

    They are started anew (not forked) and import only what their functions need. They end with the process that
    started them, however that one ends.

    Args:
        number: how many.
        context: is given to every function with its task; is sent to each process once.
    """

    def __init__(self, number: int, context: Any):
        self._number = number
        method = multiprocessing.get_context("spawn")
        # Nothing is ever sent. That the other end is closed, which the end of this process does too, ends the workers.
        leaves, self._alive = method.Pipe(duplex=False)
        self._executor = concurrent.futures.ProcessPoolExecutor(number, method, _start, (context, leaves))

    def __enter__(self) -> "Workers":
        return self

    def __exit__(self, kind, *exception) -> None:
        if kind is not None:
            self._alive.close()
        self._executor.shutdown(cancel_futures=True)
        self._alive.close()

    def run(self, function: Callable, folder: WorkFolder, tasks: Mapping[str, Any]) -> Iterator[tuple[str, dict]]:
        """Has the tasks done that are not finished yet.

        Args:
            function: of the context, the folder, the name of the task and the task; has to note the result in the
                folder and to return it. A function of a module.
            folder: where finished tasks are noted.
            tasks: by name.

        Yields:
            The name and the result of each task, as they come.

        Raises:
            ChildProcessError: a process died.
        """
        try:
            yield from self._run(function, folder, iter(tasks.items()))
        except concurrent.futures.BrokenExecutor:
            raise ChildProcessError(
                f"one of the {self._number} worker processes died, perhaps because memory ran out; give fewer "
                "--num_workers, and the same command again goes on from what is finished"
            ) from None

    def _run(self, function: Callable, folder: WorkFolder, waiting: Iterator) -> Iterator[tuple[str, dict]]:
        running = {}
        while True:
            for name, task in waiting:
                result = folder.result(name)
                if result is not None:
                    yield name, result
                    continue
                running[self._executor.submit(_work, function, folder, name, task)] = name
                if len(running) == 2 * self._number:
                    break
            if not running:
                return
            done, _ = concurrent.futures.wait(running, return_when=concurrent.futures.FIRST_COMPLETED)
            for future in done:
                yield running.pop(future), future.result()


def _start(context: Any, leaves) -> None:
    """Begins a worker process."""
    global _context
    _context = context
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all of them; the one that leads ends the others

    def end_with_the_leader():
        with contextlib.suppress(OSError):
            leaves.poll(None)
        os._exit(1)

    threading.Thread(target=end_with_the_leader, daemon=True).start()


def _work(function: Callable, folder: WorkFolder, name: str, task: Any) -> dict:
    return function(_context, folder, name, task)
