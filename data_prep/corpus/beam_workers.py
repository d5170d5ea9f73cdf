"""Runs tasks on the machines of an Apache Beam runner, instead of the processes of one machine."""

import contextlib
import logging
import os
import re
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.corpus.workers import WorkFolder
from bert_keras.mistakes import Mistake

log = logging.getLogger("bert_keras")

_SECONDS_UNTIL_VISIBLE = 120.0  # NFS may hide a new file from other machines for a minute
_SECONDS_TO_CONNECT = 5.0
# The exception of a task in the traceback of another process.
_IN_TASK = re.compile(r"^(?:[\w.]*\.)?(\w+): (.*?)(?: \[while running .*)?$", re.MULTILINE)
# The reason in an error of gRPC.
_CONNECTION = re.compile(r'RpcError.*?details = "([^"]*)"', re.DOTALL)


class BeamWorkers(contextlib.AbstractContextManager):
    """Drop-in replacement for `data_prep.corpus.workers.Workers`: each round of tasks is a pipeline.

    Tasks and results pass through the work folder. All machines must see this folder and the input files of the tasks
    under the same paths, and must have this project installed. `options` are those of the runner.
    """

    def __init__(self, options: Sequence[str], context: Any):
        try:
            import apache_beam as beam  # pyright: ignore[reportMissingImports] (an extra)
            from apache_beam.options.pipeline_options import PipelineOptions  # pyright: ignore[reportMissingImports] (an extra)
        except ImportError:
            raise Mistake("apache-beam is not installed; run pip install 'bert-keras[beam]'") from None
        self._options, self._context = PipelineOptions(list(options)), context
        try:
            beam.Pipeline(options=self._options)
        except (ValueError, ImportError) as error:
            raise Mistake("Apache Beam rejects {}: {}", " ".join(options), error) from error
        _check_job_server(self._options.get_all_options().get("job_endpoint"))

    def __exit__(self, *exception: object) -> None:
        pass

    def run(self, function: Callable, folder: WorkFolder, tasks: Mapping[str, Any]) -> Iterator[tuple[str, dict]]:
        """Runs the unfinished tasks like `Workers.run`; the results come after all tasks are done."""
        import apache_beam as beam  # pyright: ignore[reportMissingImports] (an extra)

        # NFS caches failed lookups: checking for a missing file could hide it later. Listing the folder avoids this.
        names = set(os.listdir(folder.path))
        unfinished = [(name, task) for name, task in tasks.items() if f"{name}.json" not in names]
        if unfinished:
            log.info("running a pipeline of %d tasks", len(unfinished))
            with _in_one_sentence(), beam.Pipeline(options=self._options) as pipeline:
                # Without Reshuffle, a runner may keep all tasks on the machine that created them.
                _ = (
                    pipeline
                    | beam.Create(unfinished)
                    | beam.Reshuffle()
                    | beam.MapTuple(_Task(function, self._context, folder))
                )
        for name in tasks:
            yield name, _wait_for(name, folder)


def _check_job_server(address: str | None) -> None:
    """Refuses the address of a job server that does not answer: Beam would wait for it for many minutes."""
    host, _, port = (address or "").rpartition(":")
    if not port.isdecimal():  # none is given, or "embed"
        return
    try:
        socket.create_connection((host, int(port)), _SECONDS_TO_CONNECT).close()
    except OSError as error:
        raise Mistake(
            "no job server of Apache Beam answers at job_endpoint={} ({}); start it first", address, error
        ) from error


@contextlib.contextmanager
def _in_one_sentence() -> Iterator[None]:
    """Turns what a runner raises for the user's mistakes, and for what it lacks, into one sentence."""
    import grpc  # pyright: ignore[reportMissingImports] (a package of Beam)

    try:
        yield
    except FileNotFoundError as error:
        if error.filename != "java":
            raise
        raise Mistake("the runner of Apache Beam needs Java, but there is no program java; install it") from error
    except (RuntimeError, grpc.RpcError) as error:
        text = str(error)
        if connection := _CONNECTION.search(text):
            raise Mistake("Apache Beam has no connection: {}; check the addresses", connection[1]) from error
        if text.startswith("Unable to fetch"):
            raise Mistake("the runner of Apache Beam needs a file. {}", text) from error
        *_, (kind, sentence) = _IN_TASK.findall(text) or [("", "")]
        if kind == "ModuleNotFoundError" and "bert_keras" in sentence:
            raise Mistake("a worker of Apache Beam has no bert_keras; install this project on each machine") from error
        # Their class says whether finished work is of use.
        mistakes = {class_.__name__: class_ for class_ in (Mistake, *Mistake.__subclasses__())}
        if kind in mistakes:
            raise mistakes[kind]("{}", sentence) from error
        raise


def _wait_for(name: str, folder: WorkFolder) -> dict:
    """Returns the result of a finished task as soon as this machine sees it."""
    end = time.monotonic() + _SECONDS_UNTIL_VISIBLE
    while (result := folder.result(name)) is None:
        if time.monotonic() > end:
            raise OSError(
                f"the pipeline has ended, but the result of its task {name} is not in {folder.path}; all machines need "
                "to see this folder under the same path"
            )
        time.sleep(1)
    return result


class _Task:
    """Binds everything that a task's function needs, except the task."""

    def __init__(self, function: Callable, context: Any, folder: WorkFolder):
        self._function, self._context, self._folder = function, context, folder

    def __call__(self, name: str, task: Any) -> None:
        # A runner may repeat a task. After the first run, the input files may be gone.
        if self._folder.result(name) is None:
            self._function(self._context, self._folder, name, task)
