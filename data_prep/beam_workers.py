"""Work shared by the machines of an Apache Beam runner, in place of the processes of one machine."""

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from data_prep.workers import WorkFolder

log = logging.getLogger("bert_keras")


class BeamWorkers:
    """Acts like `data_prep.workers.Workers`: each round of tasks is a pipeline.

    Tasks and results pass through the work folder, so that all machines have to see it, and the files that tasks read,
    under the same paths. This project has to be installed on them.

    Args:
        options: the runner's, such as ["--runner=FlinkRunner", "--flink_master=host:8081"].
        context: is given to every function with its task.

    Raises:
        ValueError: Apache Beam is not installed.
    """

    def __init__(self, options: Sequence[str], context: Any):
        try:
            from apache_beam.options.pipeline_options import PipelineOptions
        except ImportError:
            raise ValueError("apache-beam is not installed; run pip install 'bert-keras[beam]'") from None
        self._options, self._context = PipelineOptions(list(options)), context

    def __enter__(self) -> "BeamWorkers":
        return self

    def __exit__(self, *exception) -> None:
        pass

    def run(self, function: Callable, folder: WorkFolder, tasks: Mapping[str, Any]) -> Iterator[tuple[str, dict]]:
        """Has the tasks done that are not finished yet.

        Args, yields: as of `Workers.run`; the results come when all tasks are done.

        Raises:
            RuntimeError: a task failed; the runner's message is in it.
        """
        import apache_beam as beam

        unfinished = [(name, task) for name, task in tasks.items() if folder.result(name) is None]
        if unfinished:
            log.info("a pipeline of %d tasks", len(unfinished))
            with beam.Pipeline(options=self._options) as pipeline:
                # Reshuffled, because a runner may keep in one place what was created in one.
                _ = (
                    pipeline
                    | beam.Create(unfinished)
                    | beam.Reshuffle()
                    | beam.MapTuple(_Task(function, self._context, folder))
                )
        for name in tasks:
            yield name, folder.result(name)


class _Task:
    """The function of a task with all that it needs, but for the task."""

    def __init__(self, function: Callable, context: Any, folder: WorkFolder):
        self._function, self._context, self._folder = function, context, folder

    def __call__(self, name: str, task: Any) -> None:
        self._function(self._context, self._folder, name, task)
