"""The folders that a server serves. Of numbered versions, the newest answers; it may change while requests run."""

import functools
import gc
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Sequence

from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.served_models import ServedModel, numbered_folders, open_model

log = logging.getLogger("bert_keras")

# A version that could not be loaded is tried again after this time, or when its files change.
_SECONDS_UNTIL_RETRY = 300.0


class ServedFolder:
    """The model in a folder, or the newest of the models in its numbered folders, such as news/1 and news/2.

    A new version must get its final name when its files are complete.

    Args:
        folder: the folder of the model or of the versions.
        open_version: returns the models in the folder of a model, one for each task.

    Attributes:
        number: the number of the version that answers; None: the folder has no versions.
        models: its ServedModels. A change replaces the list and does not touch the old one.

    Raises:
        ValueError, OSError: the model or its newest version cannot be opened.
    """

    def __init__(self, folder: str, open_version: Callable[[str], list[ServedModel]]):
        self.folder, self._open = folder, open_version
        # Number of a version -> its files when it failed, and when that was.
        self._failures: dict[int, tuple[object, float]] = {}
        self._is_stopped = threading.Event()
        self._problem = ""
        paths = numbered_folders(folder)
        self.number = max(paths, default=None)
        self.models = self._open(folder if self.number is None else str(paths[self.number]))

    def update(self, start: Callable[[ServedModel], None]) -> None:
        """Changes to the newest version that works, also to an older one if the present one was deleted.

        The old models are freed when their requests have ended.

        Args:
            start: warms up a model.
        """
        paths = numbered_folders(self.folder)
        for number in sorted(paths, reverse=True):
            if number == self.number:
                return
            files, failed, failed_at = _files_in(paths[number]), *self._failures.get(number, (None, 0.0))
            if files == failed and time.monotonic() - failed_at < _SECONDS_UNTIL_RETRY:
                continue
            try:
                self._change(number, paths[number], start)
                return
            except Exception as error:  # the present version stays
                self._failures[number] = files, time.monotonic()
                log.error("%s: version %d cannot be served: %s", self.folder, number, error)

    def _change(self, number: int, path: pathlib.Path, start: Callable[[ServedModel], None]) -> None:
        loaded = self._open(str(path))
        try:
            tasks, needed = ([model.task for model in models] for models in (loaded, self.models))
            if tasks != needed:
                raise ValueError(
                    f"its tasks are {', '.join(tasks)}, but those of version {self.number} are {', '.join(needed)}; "
                    "give a model for other tasks its own name and start the server again"
                )
            for model in loaded:
                start(model)
        except BaseException:
            for model in loaded:
                model.stop()
            raise
        old, self.models, self.number = self.models, loaded, number
        self._failures.pop(number, None)
        log.info("%s: version %d answers from now on", self.folder, number)
        for model in old:
            model.retire()
        del old, model
        # Networks refer to themselves, so they stay in memory until Python collects such cycles.
        gc.collect()

    def watch(self, seconds: float, start: Callable[[ServedModel], None]) -> None:
        """Looks for another version in a thread, each time after some seconds, if there are versions."""

        def look() -> None:
            while not self._is_stopped.wait(seconds):
                try:
                    self.update(start)
                    self._problem = ""
                except Exception as error:  # a disk that does not answer; the next look may succeed
                    if str(error) != self._problem:
                        log.error("%s: its versions cannot be listed: %s", self.folder, error)
                    self._problem = str(error)

        if self.number is not None:
            threading.Thread(target=look, name=f"versions in {self.folder}", daemon=True).start()

    def stop(self) -> None:
        """Ends the thread of `watch`."""
        self._is_stopped.set()


def _files_in(folder: pathlib.Path) -> list[tuple[str, int, int]]:
    """Returns the path, the size and the time of each file in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def open_folders(folders: dict[str, str], tasks: Sequence[str], limits: Limits) -> list[ServedFolder]:
    """Opens the models of a server; those with versions are the last.

    Args:
        folders: run folders, exports or checkpoints of pre-training, or folders of versions, by name.
        tasks: the tasks of the checkpoints of pre-training.
        limits: Limits of the input.
    """
    local = [(name, local_model(path)) for name, path in folders.items()]
    return [
        ServedFolder(folder, functools.partial(open_model, name, tasks=tasks, limits=limits))
        for name, folder in sorted(local, key=lambda pair: bool(numbered_folders(pair[1])))
    ]
