"""Worker processes, and a work folder with the finished tasks, so that a restarted build continues from there."""

import concurrent.futures
import contextlib
import functools
import itertools
import json
import logging
import multiprocessing
import multiprocessing.connection
import os
import signal
import tempfile
import threading
import zlib
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from bert_keras.cli.progress import Progress
from bert_keras.cli.start import start_for_addresses
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.mistakes import Mistake, SystemFailure
from bert_keras.storage import paths, writing

if TYPE_CHECKING:
    import numpy as np

log = logging.getLogger("bert_keras")

_LINES_AT_ONCE = 1024


class NotedFile(contextlib.AbstractContextManager):
    """File whose size and CRC-32 are tracked while writing; it gets its final name only when complete."""

    # Nothing waits for the disk: after a power failure, the checksums show which files to make again.
    def __init__(self, folder: str, name: str):
        self.name, self._path = name, os.path.join(folder, name)
        self.num_bytes = self.checksum = 0
        # Two machines may run the same task at the same time. Each writes a separate file with the same content.
        self._hidden = os.path.join(os.path.dirname(self._path), writing.hidden_name(name))
        self._file = open(self._hidden, "wb")  # noqa: SIM115 (closed by __exit__)

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        try:
            self._file.close()
            if kind is None:
                os.replace(self._hidden, self._path)
        finally:
            paths.remove(self._hidden)

    def write(self, data: "bytes | array | np.ndarray") -> None:
        """Writes bytes or an array of numbers."""
        if len(data):  # an empty array cannot be cast
            view = memoryview(cast(Any, data)).cast("B")  # NumPy's types have no buffer before Python 3.12
            self._file.write(view)
            self.num_bytes += view.nbytes
            self.checksum = zlib.crc32(view, self.checksum)

    def writelines(self, lines: Iterable[bytes]) -> None:
        lines = iter(lines)
        while batch := list(itertools.islice(lines, _LINES_AT_ONCE)):
            self.write(b"".join(batch))


class WorkFolder:
    """Local folder of unfinished work, with a JSON note for each finished task.

    A note holds the task's result, and the size and checksum of each file that the task wrote. Entering the folder
    locks it for one process and checks these files: tasks with missing or damaged files run again. Exiting keeps the
    content.
    """

    def __init__(self, path: str):
        self.path = path

    def __enter__(self) -> "WorkFolder":
        os.makedirs(self.path, exist_ok=True)
        with contextlib.ExitStack() as stack:
            try:
                self._lock = writing.lock(self.file("lock"))
                if self._lock is not None:
                    stack.callback(self._lock.close)
                    # Another process may have deleted its folder with the lock since this one opened the file.
                    if not os.path.samestat(os.fstat(self._lock.fileno()), os.stat(self._lock.name)):
                        raise FileNotFoundError
            except (BlockingIOError, FileNotFoundError):
                raise Mistake(
                    "another process is building the same files in {} now; wait for it, or stop it", self.path
                ) from None
            self._forget_damaged()
            stack.pop_all()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def delete(self) -> None:
        """Removes the folder, or warns that this fails.

        It gets another name before its lock ends, so no other process can begin in it.
        """
        removed = os.path.join(os.path.dirname(self.path), writing.hidden_name(self.path))
        try:
            os.rename(self.path, removed)
            if self._lock is not None:
                self._lock.close()  # before the files go, because some network file systems keep open files
            paths.remove_dir(removed)
        except OSError as error:
            where = error.filename or removed
            log.warning("%s is not needed any longer, but cannot be removed: %s", where, error.strerror)

    def __getstate__(self) -> dict:
        return {"path": self.path}

    @property
    def has_results(self) -> bool:
        return any(name.endswith(".json") for name in os.listdir(self.path))

    def file(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return os.path.join(self.path, name)

    def create(self, name: str) -> NotedFile:
        """Opens a file in the folder for writing; pass it to `finish` when complete."""
        return NotedFile(self.path, name)

    def result(self, task: str) -> dict | None:
        """Returns the result of a task; None if it is not finished."""
        note = self._read_note(task)
        return note and note["result"]

    def finish(self, task: str, result: dict, files: Sequence[NotedFile] = (), replaces: Sequence[str] = ()) -> dict:
        """Writes the note of a finished task with a result of JSON values and complete files; returns the result.

        The files of the folder that it replaces are no longer needed, because this task is finished.
        """
        note = {
            "result": result,
            "files": {file.name: [file.num_bytes, file.checksum] for file in files},
            "replaces": list(replaces),
        }
        with self.create(f"{task}.json") as file:
            file.write(json.dumps(note).encode("utf-8"))
        return result

    def remove(self, prefix: str) -> None:
        """Removes the notes and files whose names start with `prefix`."""
        names = [name for name in os.listdir(self.path) if name.startswith(prefix)]
        for name in sorted(names, key=lambda name: not name.endswith(".json")):  # never a note without its files
            paths.remove(self.file(name))

    def _read_note(self, task: str) -> dict | None:
        try:
            with open(self.file(f"{task}.json"), encoding="utf-8") as file:
                note = json.load(file)
            return note if {"result", "files", "replaces"} <= note.keys() else None
        except (FileNotFoundError, ValueError, AttributeError):
            return None

    def _forget_damaged(self) -> None:
        """Removes unfinished files of an earlier process, and notes whose files do not match."""
        writing.remove_left_over(self.path, is_locked=True)
        tasks = [name.removesuffix(".json") for name in os.listdir(self.path) if name.endswith(".json")]
        notes = {task: self._read_note(task) or {"files": {f"{task}.json": [-1, 0]}, "replaces": ()} for task in tasks}
        replaced_by = {name: task for task, note in notes.items() for name in note["replaces"]}

        @functools.cache
        def first_damaged(task: str) -> str | None:
            for name, (num_bytes, checksum) in notes[task]["files"].items():
                is_replaced = name in replaced_by and first_damaged(replaced_by[name]) is None
                if not is_replaced and not _is_whole(self.file(name), num_bytes, checksum):
                    return name
            return None

        for task in tasks:
            damaged = first_damaged(task)
            if damaged is not None:
                log.warning("%s is missing or damaged; making it again", self.file(damaged))
                paths.remove(self.file(f"{task}.json"))


@contextlib.contextmanager
def temporary_work(folder: str | None) -> Iterator[WorkFolder]:
    """Yields a WorkFolder that is removed at the end, in a local folder; None: the system's temporary folder."""
    place = os.path.join(folder or tempfile.gettempdir(), "bert-keras")
    with writing.scratch(place) as path, WorkFolder(path) as work:
        yield work


def _is_whole(file: str, num_bytes: int, checksum: int) -> bool:
    try:
        if os.path.getsize(file) != num_bytes:
            return False
        found = 0
        with open(file, "rb") as content:
            while block := content.read(1 << 20):
                found = zlib.crc32(block, found)
        return found == checksum
    except OSError:
        return False


class ThisProcess(contextlib.AbstractContextManager):
    """Drop-in replacement for `Workers` that runs the tasks in this process, in order."""

    def __init__(self, context: Any):
        self._context = context

    def __exit__(self, *exception: object) -> None:
        pass

    def run(self, function: Callable, folder: WorkFolder, tasks: Mapping[str, Any]) -> Iterator[tuple[str, dict]]:
        for name, task in tasks.items():
            result = folder.result(name)
            yield name, function(self._context, folder, name, task) if result is None else result


class Workers(contextlib.AbstractContextManager):
    """Pool of worker processes; exiting stops them, after an error without waiting for their tasks.

    The processes are spawned, not forked, and import only what their functions need. They exit with the main process,
    even if it crashes. Each receives the context once: the first argument of every function that runs a task.
    """

    def __init__(self, number: int, context: Any):
        self._number = number
        method = multiprocessing.get_context("spawn")
        # Nothing is ever sent. The workers exit when this process closes the other end or exits.
        leaves, self._alive = method.Pipe(duplex=False)
        self._executor = concurrent.futures.ProcessPoolExecutor(number, method, _start, (context, leaves))

    def __exit__(self, kind: type[BaseException] | None, *exception: object) -> None:
        if kind is not None:
            self._alive.close()
        self._executor.shutdown(cancel_futures=True)
        self._alive.close()

    def run(self, function: Callable, folder: WorkFolder, tasks: Mapping[str, Any]) -> Iterator[tuple[str, dict]]:
        """Runs the unfinished tasks; yields name and result of each, in order of completion.

        The module-level function takes context, folder, task name and task. It must write its result to the folder
        (`WorkFolder.finish`) and return it. Raises ChildProcessError if a process dies.
        """
        try:
            yield from self._run(function, folder, iter(tasks.items()))
        except concurrent.futures.BrokenExecutor:
            raise SystemFailure(
                "one of the {} worker processes died, perhaps because memory ran out; run the command again "
                "with a smaller {num_workers}, and it continues from the finished work",
                self._number,
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


def _start(context: Any, leaves: multiprocessing.connection.Connection) -> None:
    global _context
    _context = context
    start_for_addresses()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the main process stops the workers

    def end_with_the_leader() -> None:
        with contextlib.suppress(OSError):
            leaves.poll(None)
        os._exit(1)

    threading.Thread(target=end_with_the_leader, daemon=True).start()


def _work(function: Callable, folder: WorkFolder, name: str, task: Any) -> dict:
    return function(_context, folder, name, task)


class Work(NamedTuple):
    """Workers, the folder in which they work, and the progress of their tasks."""

    workers: "Workers | Any"  # or what replaces them
    folder: WorkFolder
    progress: Progress

    def run(
        self, function: Callable, tasks: Mapping[str, Any], doing: str, sizes: Mapping[str, int], unit: str = "bytes"
    ) -> Iterator[tuple[str, dict]]:
        """Runs the unfinished tasks like `Workers.run`, and shows the progress; `sizes` are those of the tasks.

        Raises UnusableTextError if a task noted a mistake, see `noting_mistakes`.
        """
        done = 0
        self.progress.start(doing, sum(sizes.values()), unit)
        for name, result in self.workers.run(function, self.folder, tasks):
            if "mistake" in result:
                raise UnusableTextError(*result["mistake"])
            done += sizes[name]
            self.progress.reach(done)
            yield name, result
        self.progress.finish()
