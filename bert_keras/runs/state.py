"""state.json: what a run has decided, how far it is, and how it ended. A resumed run reads it.

processes   "first" and "last": the versions and the devices of the processes that trained, which decide the rounding
decisions   the value of each setting that the run chose itself, such as pack
at          for each kept checkpoint, "since_row": the sums over its last steps, which have no row in metrics.csv yet
has_saved   whether a checkpoint was ever complete
evaluations for each evaluated step the metrics, after their row in metrics.csv
result      of one of several tries: "value" and "status"
end         null, or the last "step" and the "reason", such as "early stopping"

A checkpoint may be damaged, so the entries of the older ones stay, too. The entry of a step is written before its
checkpoint: one without a checkpoint is not read, but a checkpoint without an entry would lose its sums.
"""

import json
from collections.abc import Callable, Collection, Mapping
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import json_files, paths, writing

STATE_FILE = "state.json"


def rounded(value: float) -> float:
    """Returns a metric with the digits of metrics.csv."""
    return float(f"{value:.8g}")


class RunState:
    """The entries of the state in a run folder, by name. Without `is_writable`, nothing is written."""

    def __init__(self, folder: str, is_writable: bool) -> None:
        self._file = paths.join(folder, STATE_FILE)
        self._is_writable = is_writable

    def __getitem__(self, name: str) -> Any:
        return self._read()[name]

    def __setitem__(self, name: str, value: Any) -> None:
        state = self._read()
        if value != state[name]:
            self._write(state | {name: value})

    def decided(self, name: str, decide: Callable[[], Any]) -> Any:
        """Returns the value that the run has chosen for a setting; at first, `decide` chooses it."""
        decisions = self["decisions"]
        if name not in decisions:
            self["decisions"] = decisions = {**decisions, name: decide()}
        return decisions[name]

    def note_process(self, process: dict[str, str]) -> None:
        """Stores the versions and the devices of a process that trains, by name."""
        self["processes"] = {"first": process, **self["processes"], "last": process}

    def note(self, step: int, since_row: Mapping[str, Any] | None, kept: Collection[int]) -> None:
        """Stores the sums of a step whose checkpoint follows; of earlier steps only those in `kept` stay."""
        earlier = {name: entry for name, entry in self["at"].items() if int(name) in kept}
        self["at"] = earlier | {str(step): {"since_row": since_row}}

    def since_row(self, step: int) -> dict[str, Any] | None:
        """Returns the sums of a step, see `note`."""
        return self["at"].get(str(step), {}).get("since_row")

    def note_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Stores the metrics of a step, with the digits of metrics.csv; those of later steps, which run again, go."""
        kept = {name: values for name, values in self["evaluations"].items() if int(name) < step}
        self["evaluations"] = kept | {str(step): {name: rounded(value) for name, value in metrics.items()}}

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Returns the metrics by step, see `note_evaluation`."""
        return {int(step): metrics for step, metrics in self["evaluations"].items()}

    def copy_to(self, folder: str) -> None:
        """Writes the state into another folder, for a run that continues there without the evaluations of this one."""
        RunState(folder, is_writable=True)._write(self._read() | {"evaluations": {}, "end": None})

    def _read(self) -> dict[str, Any]:
        try:
            stored = json_files.parse_json(paths.read_text(self._file), self._file, "remove it")
        except (FileNotFoundError, NotADirectoryError):
            stored = {}
        objects: dict[str, Any] = {"processes": {}, "decisions": {}, "at": {}, "evaluations": {}}
        is_state = isinstance(stored, dict) and all(isinstance(stored.get(name, {}), dict) for name in objects)
        steps = [item for name in ("at", "evaluations") for item in stored.get(name, {}).items()] if is_state else []
        if not is_state or not all(step.isdecimal() and isinstance(entry, dict) for step, entry in steps):
            raise Mistake("{} is not the state of a run; remove it", self._file)
        return {**objects, "has_saved": False, "result": None, "end": None, **stored}

    def _write(self, state: Mapping[str, Any]) -> None:
        if self._is_writable:
            writing.write_text(self._file, json.dumps(state, indent=2) + "\n")


def process_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Returns the differences of two processes, see `RunState.note_process`, as a text; empty if there are none."""
    names = [name for name in before if now.get(name, before[name]) != before[name]]
    return "; ".join(f"{name}: {before[name]}, now {now[name]}" for name in names)
