"""The folders that a server serves. Of numbered versions, the newest answers; it may change while requests run."""

import functools
import gc
import json
import logging
import pathlib
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.prediction.arguments import Limits
from bert_keras.serving.batching import ModelError
from bert_keras.serving.forms import Form, check, one_form, read_form, without_null
from bert_keras.serving.requests import RefusedError, body_of, read_json, shown_json
from bert_keras.serving.served_models import ServedModel, numbered_folders, open_model

log = logging.getLogger("bert_keras")

# Requests with the answers that a model must give before it is served.
CANARY_FILE = "canary.jsonl"
_TOLERANCE = 0.01
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
        failed: the reason why a version cannot be served, by its number.

    Raises:
        ValueError, OSError: neither the model nor one of its versions can be opened.
    """

    def __init__(self, folder: str, open_version: Callable[[str], list[ServedModel]]):
        self.folder, self._open = folder, open_version
        self.failed: dict[int, str] = {}
        # Number of a version -> its files when it failed, and when that was.
        self._failures: dict[int, tuple[object, float]] = {}
        self._is_stopped = threading.Event()
        self._problem = ""
        self.number: int | None = None
        self.models: list[ServedModel] = []
        self._path = pathlib.Path(folder)
        self._open_newest()

    def _open_newest(self) -> None:
        """Opens the model of the folder, or its newest version that can be opened."""
        paths = numbered_folders(self.folder)
        if not paths:
            self.models = self._open(self.folder)
        for number in sorted(paths, reverse=True):
            try:
                self.models, self.number, self._path = self._open(str(paths[number])), number, paths[number]
                return
            except Exception as error:
                if number == min(paths):
                    raise
                self._report(number, paths[number], error)

    def start(self, start: Callable[[ServedModel], None]) -> None:
        """Warms up the models that are open. Changes to an older version if those of the newest fail.

        Raises:
            Exception: no version can be served; this is the reason for the newest.
        """
        try:
            _start(self.models, self._path, start)
        except Exception as error:
            if self.number is None:
                raise
            self._report(self.number, self._path, error)
            self.number = None
            self.update(start)
            if self.number is None:
                raise

    def _report(self, number: int, path: pathlib.Path, error: Exception) -> None:
        """Keeps and logs the reason why a version cannot be served."""
        self._failures[number], self.failed[number] = (_files_in(path), time.monotonic()), str(error)
        log.error("%s: version %d cannot be served: %s", self.folder, number, error)

    def update(self, start: Callable[[ServedModel], None]) -> None:
        """Changes to the newest version that works, also to an older one if the present one was deleted.

        The old models are freed when their requests have ended.

        Args:
            start: warms up a model.
        """
        paths = numbered_folders(self.folder)
        self.failed = {number: reason for number, reason in self.failed.items() if number in paths}
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
                self._report(number, paths[number], error)

    def _change(self, number: int, path: pathlib.Path, start: Callable[[ServedModel], None]) -> None:
        loaded = self._open(str(path))
        try:
            tasks, needed = ([model.task for model in models] for models in (loaded, self.models))
            if tasks != needed:
                raise Mistake(
                    "its tasks are {}, but those of version {} are {}; "
                    "give a model for other tasks its own name and start the server again",
                    ", ".join(tasks),
                    self.number,
                    ", ".join(needed),
                )
            _start(loaded, path, start)
        except BaseException:
            for model in loaded:
                model.stop()
            raise
        old, self.models, self.number, self._path = self.models, loaded, number, path
        self._failures.pop(number, None)
        self.failed.pop(number, None)
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


def _start(models: Sequence[ServedModel], path: pathlib.Path, start: Callable[[ServedModel], None]) -> None:
    """Warms up the models in a folder, and compares their answers with those of its canary.jsonl, if it has one."""
    for model in models:
        start(model)
    if (file := path / CANARY_FILE).is_file():
        lines = file.read_bytes().splitlines()
        if not lines:
            raise Mistake("{} is empty; write a request and its answer on each line, or delete it", file)
        for number, line in enumerate(lines, 1):
            try:
                _check_canary(models, line)
            except (RefusedError, ModelError, Mistake) as error:
                raise Mistake("{} line {}: {}", file, number, getattr(error, "detail", error)) from error


def _check_canary(models: Sequence[ServedModel], line: bytes) -> None:
    """Asks a model, and refuses an answer that differs from the expected one.

    Raises:
        RefusedError, Mistake: the line is not valid, or the answer differs.
        ModelError: the model fails.
    """
    tasks = [model.task for model in models]
    optional = {"task": {"enum": tasks}, "tolerance": {"type": "number", "minimum": 0}}
    form = Form({"request": {"type": "object"}, "answer": {"type": "object"}}, optional)
    _, given = read_form([form], read_json(line))
    if "task" not in given and len(tasks) > 1:
        raise Mistake('"task" is missing; the tasks of the model are: {}', ", ".join(tasks))
    model = models[tasks.index(given.get("task", tasks[0]))]
    check(given["request"], one_form(model, 1).schema, "request")
    fields = without_null(given["request"])
    options = {name: fields.pop(name) for name in model.options if name in fields}
    fields.pop("model", None)
    [answer] = model.answers([fields], options)
    if problem := _difference(
        json.loads(body_of(answer)), given["answer"], given.get("tolerance", _TOLERANCE), "answer"
    ):
        raise Mistake("{}", problem)


def _difference(found: Any, expected: Any, tolerance: float, place: str) -> str | None:
    """Returns in a sentence how a value differs from the expected one, which may have fewer fields; None: it fits."""
    kinds = type(found), type(expected)
    if kinds == (dict, dict):
        if missing := [name for name in expected if name not in found]:
            return f"the {place} has no {shown_json(missing[0])}; its fields are {', '.join(map(shown_json, found))}"
        parts = (_difference(found[name], expected[name], tolerance, f"{place}.{name}") for name in expected)
        return next(filter(None, parts), None)
    if kinds == (list, list) and len(found) == len(expected):
        pairs = enumerate(zip(found, expected, strict=True))
        parts = (_difference(*pair, tolerance, f"{place}[{number}]") for number, pair in pairs)
        return next(filter(None, parts), None)
    if {*kinds} <= {int, float}:
        is_same, within = abs(found - expected) <= tolerance, f" within {tolerance:g}"
    else:
        is_same, within = kinds[0] is kinds[1] and found == expected, ""
    return None if is_same else f"the {place} is {shown_json(found)}, but {shown_json(expected)} is expected{within}"


def _files_in(folder: pathlib.Path) -> list[tuple[str, int, int]]:
    """Returns the path, the size and the time of each file in a folder."""
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return [(str(path), path.stat().st_size, path.stat().st_mtime_ns) for path in files]


def open_folders(
    folders: dict[str, str], tasks: Sequence[str], limits: Limits, precision: str = "auto"
) -> list[ServedFolder]:
    """Opens the models of a server; those with versions are the last.

    Args:
        folders: run folders, exports or checkpoints of pre-training, or folders of versions, by name.
        tasks: see `served_models.open_model`.
        limits: Limits of the input.
        precision: as in `TextClassifier`.
    """
    local = [(name, local_model(path)) for name, path in folders.items()]
    opened = [
        ServedFolder(folder, functools.partial(open_model, name, tasks=tasks, limits=limits, precision=precision))
        for name, folder in sorted(local, key=lambda pair: bool(numbered_folders(pair[1])))
    ]
    found = {model.task for folder in opened for model in folder.models}
    if wrong := [task for task in tasks if task not in found]:
        raise Mistake("{task}={}, but the models are for {}; leave it out", wrong[0], sorted(found))
    return opened
