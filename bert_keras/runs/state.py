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

from bert_keras.storage import json_files, paths, writing

STATE_FILE = "state.json"


class RunState:
    """The state in a run folder. Without `is_writable`, nothing is written."""

    def __init__(self, folder: str, is_writable: bool) -> None:
        self._file = paths.join(folder, STATE_FILE)
        self._is_writable = is_writable

    def decided(self, name: str, decide: Callable[[], Any]) -> Any:
        """Returns the value that the run has chosen for a setting; at first, `decide` chooses it."""
        state = self._read()
        if name not in state["decisions"]:
            state["decisions"][name] = decide()
            self._write(state)
        return state["decisions"][name]

    @property
    def processes(self) -> dict[str, dict[str, str]]:
        """What the first and the last process that trained ran on, see `note_process`."""
        return self._read()["processes"]

    def note_process(self, process: dict[str, str]) -> None:
        """Stores the versions and the devices of a process that trains, by name."""
        state = self._read()
        self._write(state | {"processes": {"first": process, **state["processes"], "last": process}})

    def note(self, step: int, since_row: Mapping[str, Any] | None, kept: Collection[int]) -> None:
        """Stores the sums of a step whose checkpoint follows; of earlier steps only those in `kept` stay."""
        state = self._read()
        state["at"] = {name: entry for name, entry in state["at"].items() if int(name) in kept}
        state["at"][str(step)] = {"since_row": since_row}
        self._write(state)

    @property
    def has_saved(self) -> bool:
        """Whether the run has ever written a whole checkpoint, which may be gone by now."""
        return self._read()["has_saved"]

    def note_saved(self) -> None:
        state = self._read()
        if not state["has_saved"]:
            self._write(state | {"has_saved": True})

    def since_row(self, step: int) -> dict[str, Any] | None:
        """Returns the sums of a step, see `note`."""
        return self._read()["at"].get(str(step), {}).get("since_row")

    def note_evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        """Stores the metrics of a step, with the digits of metrics.csv; those of later steps, which run again, go."""
        state = self._read()
        kept = {name: values for name, values in state["evaluations"].items() if int(name) < step}
        rounded = {name: float(f"{value:.8g}") for name, value in metrics.items()}
        self._write(state | {"evaluations": kept | {str(step): rounded}})

    def evaluations(self) -> dict[int, dict[str, float]]:
        """Returns the metrics by step, see `note_evaluation`."""
        return {int(step): metrics for step, metrics in self._read()["evaluations"].items()}

    @property
    def result(self) -> dict[str, Any] | None:
        """The result of a try: its "value", which may be None, and its "status"; None before it."""
        return self._read()["result"]

    @result.setter
    def result(self, result: dict[str, Any]) -> None:
        self._write(self._read() | {"result": result})

    @property
    def end(self) -> dict[str, Any] | None:
        """The end of the run: its last "step" and the "reason"; None before it."""
        return self._read()["end"]

    @end.setter
    def end(self, end: dict[str, Any] | None) -> None:
        state = self._read()
        if end != state["end"]:
            self._write(state | {"end": end})

    def copy_to(self, folder: str) -> None:
        """Writes the state into another folder, for a run that goes on there without the evaluations of this one."""
        RunState(folder, is_writable=True)._write(self._read() | {"evaluations": {}, "end": None})

    def _read(self) -> dict[str, Any]:
        try:
            stored = json_files.parse_json(paths.read_text(self._file), self._file, "remove it")
        except (FileNotFoundError, NotADirectoryError):
            stored = {}
        return {
            "processes": {},
            "decisions": {},
            "at": {},
            "has_saved": False,
            "evaluations": {},
            "result": None,
            "end": None,
        } | stored

    def _write(self, state: Mapping[str, Any]) -> None:
        if self._is_writable:
            text = json.dumps(state, indent=2) + "\n"
            writing.write_bytes(self._file, text.encode("utf-8"))


def process_changes(before: Mapping[str, str], now: Mapping[str, str]) -> str:
    """Returns the differences of two processes, see `RunState.note_process`, as a text; empty if there are none."""
    names = [name for name in before if now.get(name, before[name]) != before[name]]
    return "; ".join(f"{name}: {before[name]}, now {now[name]}" for name in names)
