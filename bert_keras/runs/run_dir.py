"""The folder of a run: its settings and checkpoints, and the checks that keep two runs from mixing.

run_config.json       the settings of the run and facts about its input; `--run_config` reads it
bert_config.json      the architecture; vocab.txt is next to it if the run knows its vocabulary
state.json            what the run has decided, how far it is, and how it ended; see `runs.state`
checkpoint            names the newest checkpoint (as in the original BERT)
model.ckpt-<step>.*   weights, Adam's slots and the step, under the names of the original BERT
metrics.csv, eval_results.txt, learning_curves.png, events.out.tfevents.*
vocab.txt, tokenizer_config.json, task.json   of fine-tuning: with the config, all that its checkpoints need to be used
report.html           after an evaluation of a fine-tuned model: the page to look at first
page_examples.json    after a run of run_classifier.py: texts that the page of the server shows as examples
tries.tsv             results of a run with several settings or seeds; each of them has a folder in tries/
model/                after fine-tuning: the complete model to use; model.sha256 is the digest of its weights
"""

import fnmatch
import functools
import json
import logging
import re
import weakref
from collections.abc import Collection, Mapping
from typing import Any

from bert_keras.mistakes import Mistake, SystemFailure
from bert_keras.runs.same_run import check_same_run
from bert_keras.runs.state import STATE_FILE, RunState
from bert_keras.storage import json_files, paths, writing

log = logging.getLogger("bert_keras")

RUN_CONFIG = "run_config.json"
REPORT_FILE = "report.html"
CURVES_FILE = "learning_curves.png"
TRIES_FILE = "tries.tsv"
TRIES_DIR = "tries"
MODEL_DIR = "model"
ALL_STEPS, EARLY_STOPPING, CALLBACK = "all steps", "early stopping", "a callback"
# For each reason of an end, the settings that decide it: with other values of these, the run goes further.
_OF_THE_END = {EARLY_STOPPING: ("early_stopping",)}
# Files that show that a folder is in use. Evaluation alone also writes eval_results.txt, so it is not among them.
_FILES_OF_A_RUN = ("checkpoint", "*.index", "metrics.csv", "graph.pbtxt", "bert_config.json", STATE_FILE, TRIES_FILE)


class RunDir:
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
        self.path = path
        self.program = program
        self.is_writable = is_writable
        self.state = RunState(path, is_writable)
        self._is_locked = False
        self._unlock = lambda: None
        self._step_of_chief = None
        self._saved_steps = set()
        self._told_damages = set()
        stored = self._stored_config()
        if stored and stored["program"] != program:
            raise Mistake("{output_dir}={} holds a run of {}; give {} another folder", path, stored["program"], program)

    def file(self, name: str) -> str:
        """Returns the path of a file of the run."""
        return paths.join(self.path, name)

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
                self.state.end = None
        else:
            self.remove(STATE_FILE)  # of a command that was interrupted before it saved anything
        self._remove_left_over()
        config = {"program": self.program, "settings": settings, "facts": facts}
        self.write_text(RUN_CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")

    def is_ended(self, settings: Mapping[str, Any]) -> bool:
        """Returns whether the run has ended, and a command with these settings does not continue it."""
        end, stored = self.state.end, self._stored_config()
        if end is None or stored is None:
            return False
        names = ("num_train_steps", *_OF_THE_END.get(end["reason"], ()))
        return all(stored["settings"].get(name) == settings.get(name) for name in names)

    def finish(self, step: int, reason: str) -> None:
        """Stores that the run has ended, so that the same command does not train further."""
        self.state.end = {"step": step, "reason": reason}

    @property
    def has_results(self) -> bool:
        """Whether a run has saved something here, whichever of its files are left."""
        has_files = self._steps() or self.within(MODEL_DIR).latest_step() or paths.exists(self.file(TRIES_FILE))
        return bool(has_files or self.state.has_saved or self.state.end)

    def release(self) -> None:
        """Ends the reservation of the folder, for another run in the same process."""
        self._unlock()
        self._is_locked = False

    def latest_checkpoint(self) -> str | None:
        """Returns the prefix of the newest undamaged checkpoint, or None."""
        step = self.latest_step()
        return self.file(f"model.ckpt-{step}") if step else None

    def latest_step(self) -> int:
        """Returns the step of the newest undamaged checkpoint; 0 without checkpoints.

        The file `checkpoint`, which is written last, names the newest one. Without that file it is the one with the
        highest step. Damaged checkpoints are skipped with a warning; if all are damaged, that is an error.
        """
        if self._step_of_chief is not None:
            return self._step_of_chief
        steps = self._steps()
        try:
            text = paths.read_text(self.file("checkpoint"), errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            text = ""
        match = re.search(r'^model_checkpoint_path: ".*model\.ckpt-(\d+)"', text, re.MULTILINE)
        named = int(match[1]) if match else None
        damages = []
        for step in sorted(steps, key=lambda step: (step == named, step), reverse=True):
            damage = self._damage(step)
            if damage is None:
                for told in set(damages) - self._told_damages:
                    log.warning("the checkpoint of step %d is used, because a newer one is damaged: %s", step, told)
                self._told_damages.update(damages)
                return step
            damages.append(damage)
        if damages:
            raise Mistake(
                "no checkpoint in {} can be read: {}; copy its files again, or remove {} to start again",
                self.path,
                damages[0],
                self.file("model.ckpt-*"),
            )
        return 0

    def save_run(self, step: int, state: Mapping[str, Any], since_row: Mapping[str, Any] | None, num_kept: int) -> None:
        """Writes a checkpoint of the run, see `save`, and before it the sums of `RunState.note`."""
        self.state.note(step, since_row, self._steps())
        self.save(step, state, num_kept)
        self.state.note_saved()

    def save(self, step: int, state: Mapping[str, Any], num_kept: int = 5) -> None:
        """Writes a checkpoint of a dict of `tf.Variable`, and removes all but the newest `num_kept`; 0: keeps all.

        If it is interrupted, the newest complete checkpoint stays usable.
        """
        if not self.is_writable:
            self._step_of_chief = step
            return
        from bert_keras.modeling import save_checkpoint  # loads Keras, which a look at the data does not need

        try:
            # This flushes the files, so that a power failure cannot leave their name in `checkpoint` without them.
            save_checkpoint(self.file(f"model.ckpt-{step}"), state)
        except OSError as error:
            raise OSError(
                f"{error}; make room there, and the same command continues from step {self.latest_step()}"
            ) from error
        self._saved_steps.add(step)
        earlier = [earlier for earlier in self._steps() if earlier < step]
        kept = [*earlier, step][-num_kept:]
        lines = [f'model_checkpoint_path: "model.ckpt-{step}"']
        lines += [f'all_model_checkpoint_paths: "model.ckpt-{kept_step}"' for kept_step in kept]
        self.write_text("checkpoint", "\n".join(lines) + "\n")
        for old in set(earlier) - set(kept):
            self.remove(*self._names(f"model.ckpt-{old}.*"))

    def forget_checkpoints(self) -> None:
        self.remove("checkpoint", *self._names("model.ckpt-*"))

    def has_step(self, step: int) -> bool:
        """Returns whether there is an undamaged checkpoint of this step."""
        return step in self._steps() and self._damage(step) is None

    def undamaged_steps(self) -> list[int]:
        """Returns the steps of the checkpoints that can be read, the oldest first."""
        return [step for step in self._steps() if self._damage(step) is None]

    def restore(self, state: Mapping[str, Any], step: int | None = None) -> None:
        """Reads a checkpoint, the newest if no step is given, into a dict of `tf.Variable`.

        The dict must have exactly the names and shapes of the checkpoint.
        """
        from bert_keras.modeling import open_checkpoint

        checkpoint = open_checkpoint(self.file(f"model.ckpt-{step or self.latest_step()}"))
        differing = sorted(set(checkpoint.names) ^ set(state))
        differing += [
            name for name in state if name not in differing and checkpoint.shape(name) != tuple(state[name].shape)
        ]
        if differing:
            raise Mistake(
                "{} does not hold the state of this run: {} {} not the same in both; give another {output_dir}",
                checkpoint.prefix,
                differing[:5],
                "is" if len(differing) == 1 else "are",
            )
        for name, variable in state.items():
            variable.assign(checkpoint.read(name))

    def write_text(self, name: str, text: str | bytes) -> None:
        """Writes a file atomically: at any moment it is the old one or the complete new one."""
        if self.is_writable:
            writing.write_bytes(self.file(name), text.encode("utf-8") if isinstance(text, str) else text)

    def remove(self, *names: str) -> None:
        """Removes files that exist, so that output of an earlier command is not mistaken for that of this one."""
        if self.is_writable:
            for name in names:
                paths.remove(self.file(name))

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

    def _names(self, pattern: str) -> list[str]:
        """Returns the names in the folder that match a pattern, without hidden ones."""
        try:
            names = paths.list_dir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []
        return [name for name in fnmatch.filter(names, pattern) if name[0] != "."]

    def _steps(self) -> list[int]:
        # The index is the last file of a checkpoint to appear.
        names = self._names("model.ckpt-*.index")
        return sorted(int(match[1]) for name in names if (match := re.fullmatch(r"model\.ckpt-(\d+)\.index", name)))

    def _damage(self, step: int) -> str | None:
        """Describes the damage of a checkpoint; None if it is undamaged, or if this object has saved it."""
        if step in self._saved_steps:
            return None
        files = map(self.file, self._names(f"model.ckpt-{step}.*"))
        states = tuple((file, paths.size(file), paths.modified(file)) for file in files)
        return _damage_of(self.file(f"model.ckpt-{step}"), states)

    def _stored_config(self) -> dict[str, Any] | None:
        try:
            return read_run_config(self.file(RUN_CONFIG))
        except (FileNotFoundError, NotADirectoryError):
            return None


@functools.lru_cache(maxsize=32)
def _damage_of(prefix: str, files: tuple[tuple[str, int, int], ...]) -> str | None:
    """Caches the result until a name, size or time in `files` changes."""
    from bert_keras.modeling.checkpoints.tensorflow_format import find_damage

    return find_damage(prefix)


def read_run_config(path: str) -> dict[str, Any]:
    """Reads a run_config.json: a dict with "program" (str), "settings" (dict by flag name) and "facts" (dict)."""
    config = json_files.parse_json(paths.read_text(path), path, "give a run_config.json that a run has written")
    if not isinstance(config, dict) or not isinstance(config.get("settings"), dict) or "program" not in config:
        raise Mistake("{} was not written by a run: it needs the keys program and settings", path)
    return {"facts": {}, **config}  # --run_config takes a file without facts
