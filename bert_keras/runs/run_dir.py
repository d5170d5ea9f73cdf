"""The folder of a run: its settings and checkpoints, and the checks that keep two runs from mixing.

run_config.json       the settings of the run and facts about its input; `--run_config` reads it
bert_config.json      the architecture; vocab.txt is next to it if the run knows its vocabulary
state.json            what the run has decided, how far it is, and how it ended; see `runs.state`
checkpoint            names the newest checkpoint (as in the original BERT); see `runs.checkpoints`
model.ckpt-<step>.*   weights, Adam's slots and the step, under the names of the original BERT
metrics.csv, eval_results.txt, learning_curves.png, events.out.tfevents.*
vocab.txt, tokenizer_config.json, task.json   of fine-tuning: with the config, all that its checkpoints need to be used
report.html           after an evaluation of a fine-tuned model: the page to look at first
page_examples.json    after a run of run_classifier.py: texts that the page of the server shows as examples
tries.tsv             results of a run with several settings or seeds; each of them has a folder in tries/
model/                after fine-tuning: the complete model to use; model.sha256 is the digest of its weights
"""

import contextlib
import json
import os
import weakref
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.mistakes import Mistake, SystemFailure
from bert_keras.runs.checkpoints import Checkpoints
from bert_keras.runs.same_run import check_same_run
from bert_keras.runs.state import STATE_FILE, RunState
from bert_keras.storage import json_files, paths, text_files, writing
from bert_keras.storage.tokenizer.vocabulary import TOKENIZER_CONFIG, VOCAB_FILE

RUN_CONFIG = "run_config.json"
REPORT_FILE = "report.html"
CURVES_FILE = "learning_curves.png"
TRIES_FILE = "tries.tsv"
TRIES_DIR = "tries"
MODEL_DIR = "model"
ALL_STEPS, EARLY_STOPPING, CALLBACK = "all steps", "early stopping", "a callback"
# For each reason of an end, the settings that decide it: with other values of these, the run goes further.
_END_SETTINGS = {EARLY_STOPPING: ("early_stopping",)}
# Files that show that a folder is in use. Evaluation alone also writes eval_results.txt, so it is not among them.
_FILES_OF_A_RUN = ("checkpoint", "*.index", "metrics.csv", "graph.pbtxt", "bert_config.json", STATE_FILE, TRIES_FILE)
# Files that a start writes before it computes anything.
_FILES_OF_A_START = {".lock", RUN_CONFIG, STATE_FILE, "bert_config.json", TOKENIZER_CONFIG, VOCAB_FILE}


class RunDir(Checkpoints):
    """An output folder that holds one run.

    Args:
        path: the folder, local or remote. `claim` and `create` create it.
        program: the entry point that writes it. The folder may not hold a run of another program.
        is_writable: whether this object writes. Among several workers only the chief does. In the others the same calls
            change nothing, and `latest_step` returns the step that the chief saved at the same time.
    """

    def __init__(self, path: str, program: str, is_writable: bool = True) -> None:
        if set("[*?") & set(path):
            raise Mistake("{output_dir}={}: TensorFlow takes [ * ? in a path for a pattern; rename it", path)
        super().__init__(path, is_writable)
        self.program = program
        self.state = RunState(path, is_writable)
        self._is_locked = False
        self._unlock = lambda: None
        stored = self._stored_config()
        if stored and stored["program"] != program:
            raise Mistake("{output_dir}={} holds a run of {}; give {} another folder", path, stored["program"], program)

    def within(self, name: str) -> "RunDir":
        """Returns that of a subfolder, such as that of the model to use."""
        return RunDir(self.file(name), self.program, self.is_writable)

    def in_use(self) -> "RunDir | None":
        """Returns that of the weights that commands without training use; None without weights.

        It is that of the folder `model`, or this one before that folder exists.
        """
        return next((folder for folder in (self.within(MODEL_DIR), self) if folder.latest_step()), None)

    def create(self) -> None:
        if not self.is_writable:
            return
        try:
            paths.make_dirs(self.path)
        except FileExistsError:
            found = "a file, not a folder"
            if not paths.exists(self.path):
                found = f"a link to {paths.real(self.path)}, which does not exist"
            raise SystemFailure("{output_dir}={} is {}; give another folder", self.path, found) from None
        except OSError as error:
            raise SystemFailure(
                "{output_dir}={} cannot be created: {}; give another folder", self.path, error.strerror or error
            ) from error

    def claim(self, settings: Mapping[str, Any], facts: Mapping[str, Any], free: Collection[str]) -> None:
        """Reserves the folder for this run until `release` or the end of the process, and writes run_config.json.

        Args:
            settings: JSON values by flag name.
            facts: JSON values that describe the input, such as the contents of a file that a flag names.
            free: names of settings that may differ from those of the stored run. `num_train_steps` may grow.
        """
        if not self.is_writable:
            return
        self.create()
        stored = self._stored_config()
        if stored is None:
            found = sorted(name for pattern in _FILES_OF_A_RUN for name in self._names(pattern))
            if found:
                raise Mistake(
                    "{output_dir}={} contains other files ({}); give a folder that is new or empty",
                    self.path,
                    found[:3],
                )
        self._lock()
        earlier = stored if stored and self.has_results else None
        if earlier:
            # Compare what JSON would read back: it has no tuples.
            settings, facts = json.loads(json.dumps([settings, facts]))
            old = {**earlier["settings"], **earlier["facts"]}
            check_same_run(self.path, old, {**settings, **facts}, free, {*earlier["facts"], *facts})
            if self.is_ended(settings):
                facts = earlier["facts"]  # those of its training; a later evaluation may have other data
            else:
                self.state["end"] = None
        else:
            self.remove(STATE_FILE)  # of a command that was interrupted before it saved anything
        self._remove_left_over()
        config = {"program": self.program, "settings": settings, "facts": facts}
        self.write_text(RUN_CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")

    def is_ended(self, settings: Mapping[str, Any]) -> bool:
        """Returns whether the run has ended, and a command with these settings does not continue it."""
        end, stored = self.state["end"], self._stored_config()
        if end is None or stored is None:
            return False
        names = ("num_train_steps", *_END_SETTINGS.get(end["reason"], ()))
        return all(stored["settings"].get(name) == settings.get(name) for name in names)

    def finish(self, step: int, reason: str) -> None:
        """Stores that the run has ended, so that the same command does not train further."""
        self.state["end"] = {"step": step, "reason": reason}

    @property
    def has_results(self) -> bool:
        """Whether a run has saved something here, whichever of its files are left."""
        has_files = self._steps() or self.within(MODEL_DIR).latest_step() or paths.exists(self.file(TRIES_FILE))
        return bool(has_files or self.state["has_saved"] or self.state["end"])

    def discard_start(self, before: Collection[str]) -> None:
        """Removes what a start that was refused has written; `before` are the names that were there.

        If it has written anything else, such as features, which take long to make, everything stays.
        """
        written = set(self.names()) - set(before)
        # Without the lock, the files may be another process's.
        if not self._is_locked or not written <= _FILES_OF_A_START:
            return
        for name in written:
            paths.remove(self.file(name))
        if not before:
            with contextlib.suppress(OSError):  # another process has begun to use it
                os.rmdir(self.path)

    def release(self) -> None:
        """Ends the reservation of the folder, for another run in the same process."""
        self._unlock()
        self._is_locked = False

    def save_run(self, step: int, state: Mapping[str, Any], since_row: Mapping[str, Any] | None, num_kept: int) -> None:
        """Writes a checkpoint of the run, see `save`, and before it the sums of `RunState.note`."""
        self.state.note(step, since_row, self._steps())
        self.save(step, state, num_kept)
        self.state["has_saved"] = True

    def remove_dir(self, name: str) -> None:
        if self.is_writable:
            paths.remove_dir(self.file(name))

    def replace_dir(self, name: str, source: str) -> None:
        """Replaces a subfolder by a copy of the folder `source`, when the copy is complete.

        On an object store the old files are removed first. A run that is killed in between copies them again.
        """
        if not self.is_writable:
            return
        target = self.file(name)
        with writing.unfinished(target) as hidden:
            copy = target if paths.is_remote(target) else hidden
            paths.remove_dir(copy)
            paths.make_dirs(copy)
            for file in paths.list_dir(source):
                paths.copy(paths.join(source, file), paths.join(copy, file))
            if copy != target:
                paths.remove_dir(target)
                writing.publish(copy, target)

    def _lock(self) -> None:
        if self._is_locked:
            return
        try:
            lock = writing.lock(self.file(".lock"))
        except BlockingIOError:
            raise Mistake("{output_dir}={} is in use by another process; wait for it to end", self.path) from None
        if lock is not None:
            self._unlock = weakref.finalize(self, lock.close)
        self._is_locked = True

    def _remove_left_over(self) -> None:
        """Removes unfinished files of killed processes, also those of tries and models; the lock excludes others."""
        for name in ("", MODEL_DIR, TRIES_DIR, f"{TRIES_DIR}/*", f"{TRIES_DIR}/*/{MODEL_DIR}"):
            for folder in paths.glob(self.file(name)):
                writing.remove_left_over(folder, is_locked=True)

    def _stored_config(self) -> dict[str, Any] | None:
        try:
            return read_run_config(self.file(RUN_CONFIG))
        except (FileNotFoundError, NotADirectoryError):
            return None


def read_run_config(path: str) -> dict[str, Any]:
    """Reads a run_config.json: a dict with "program" (str), "settings" (dict by flag name) and "facts" (dict)."""
    needed = "give a run_config.json that a run has written"
    config = json_files.parse_json(text_files.read_text(path, needed), path, needed)
    if not isinstance(config, dict) or not isinstance(config.get("settings"), dict) or "program" not in config:
        raise Mistake("{} was not written by a run: it needs the keys program and settings", path)
    folder, before = paths.parent(path), f"{config['settings'].get('output_dir')}/"
    for name, value in config["settings"].items():
        if isinstance(value, str) and value.startswith(before) and not paths.exists(value):
            moved = paths.join(folder, value.removeprefix(before))  # data of a call, in a folder that was moved
            config["settings"][name] = moved if paths.exists(moved) else value
    return {"facts": {}, **config}  # --run_config takes a file without facts
