"""Cells: results that are computed once, in a folder named by their settings, so that interrupted studies continue."""

import datetime
import hashlib
import json
import logging
import pathlib
import time
from collections.abc import Callable
from typing import Any

from benchmarks.machine import processor_name
from bert_keras.mistakes import Mistake
from bert_keras.storage.writing import lock, write_text

log = logging.getLogger("bert_keras")

_RESULT, _SETTINGS = "result.json", "settings.json"


class Cells:
    """A folder of cells. Studies share it: cells with equal settings are computed once.

    Args:
        folder: is made when the first cell is.
    """

    def __init__(self, folder: pathlib.Path) -> None:
        self.folder = folder

    def path(self, kind: str, settings: dict[str, Any]) -> pathlib.Path:
        """Returns the folder of a cell, which its kind and its settings name."""
        digest = hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest()
        return self.folder / f"{kind}-{digest[:16]}"

    def find(self, kind: str, settings: dict[str, Any]) -> dict[str, Any] | None:
        """Returns the result of a cell; None if it is not complete."""
        file = self.path(kind, settings) / _RESULT
        return json.loads(file.read_text(encoding="utf-8")) if file.exists() else None

    def get(
        self, kind: str, settings: dict[str, Any], compute: Callable[[pathlib.Path], dict[str, Any]]
    ) -> dict[str, Any]:
        """Returns the result of a cell, and computes it if it is not complete.

        `compute` takes the folder of the cell, which may hold files of an interrupted call, and returns a dict for
        JSON. The result also has "minutes" of this call, "processor" and "date".

        Raises:
            ValueError: another process computes the cell.
        """
        found = self.find(kind, settings)
        if found is not None:
            return found
        folder = self.path(kind, settings)
        folder.mkdir(parents=True, exist_ok=True)
        try:
            held = lock(folder / "lock")
        except BlockingIOError:
            raise Mistake("another process computes {}; wait for it, or choose other --variants", folder) from None
        try:
            write_text(folder / _SETTINGS, json.dumps({"kind": kind, **settings}, indent=2, sort_keys=True) + "\n")
            start = time.monotonic()
            result = compute(folder)
            result["minutes"] = round((time.monotonic() - start) / 60, 2)
            result["processor"] = processor_name()
            result["date"] = datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d")
            write_text(folder / _RESULT, json.dumps(result, allow_nan=False) + "\n")
        finally:
            if held is not None:
                held.close()
        return result
