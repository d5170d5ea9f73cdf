"""The folder of a run: its settings, its checkpoints, and the refusal to mix two runs.

run_config.json       the settings of the run and facts about its input; `--run_config` takes it back
bert_config.json      the architecture; vocab.txt beside it where the run was told which vocabulary it is
checkpoint            which checkpoint is the newest (the release's file)
model.ckpt-<step>.*   weights, Adam's slots and the step, under the release's names
metrics.csv, eval_results.txt, learning_curves.png, events.out.tfevents.*
tries.tsv             of a run with several settings or seeds: what came of each; each has a folder in tries/
model/                of fine-tuning: the model to use, complete in itself
"""

import glob
import importlib.util
import json
import logging
import os
import pathlib
import re
import weakref

import tensorflow as tf

from modeling import open_checkpoint, save_checkpoint

log = logging.getLogger("bert_keras")

_CHECKPOINTS_KEPT = 5
RUN_CONFIG = "run_config.json"
TRIES_FILE = "tries.tsv"
# What tells a folder that something else was written to; eval_results.txt is also written by evaluation alone.
_FILES_OF_A_RUN = ("checkpoint", "*.index", "metrics.csv", "graph.pbtxt", "bert_config.json")


class RunDir:
    """An output folder that holds one run.

    Args:
        path: str; the folder. It is created by `claim`, not before.
        program: str; the entry point that writes it.

    Raises:
        ValueError: the path is remote, or one that TensorFlow cannot read checkpoints from; or the folder holds a run
            of another program.
    """

    def __init__(self, path, program):
        if "://" in path:
            raise ValueError(f"--output_dir={path} is a remote path; a run is kept in a local folder, so give one")
        if set("[*?") & set(path):
            raise ValueError(f"--output_dir={path}: TensorFlow takes [ * ? in a path for a pattern; rename it")
        self.path = path
        self.program = program
        self._is_locked = False
        stored = self._stored_config()
        if stored and stored["program"] != program:
            raise ValueError(
                f"--output_dir={path} holds a run of {stored['program']}; give {program} a folder of its own"
            )

    def file(self, name):
        """Returns the path of a file of the run as a str."""
        return os.path.join(self.path, name)

    def claim(self, settings, facts, defaults, free):
        """Makes the folder this run's own, or finds out that it is already; no other process may until this one ends.

        Args:
            settings: dict of JSON values by flag name.
            facts: dict of JSON values: what the settings stand for, such as the contents of a file that one names.
            defaults: dict of flag values by name; what a run that was stored without a flag had.
            free: names of settings that may differ from those of a run found there. `num_train_steps` may grow.

        Raises:
            ValueError: the folder holds another run, or something else, or is in use; the differences are named.
            OSError: the folder cannot be created or written to.
        """
        self._create()
        stored = self._stored_config()
        if stored is None:
            found = sorted(os.path.basename(name) for pattern in _FILES_OF_A_RUN for name in self._glob(pattern))
            if found:
                raise ValueError(
                    f"--output_dir={self.path} holds files of something else ({', '.join(found[:3])}); "
                    "give a folder that is new or empty"
                )
        self._lock()
        if stored and (self._whole_steps() or os.path.exists(self.file(TRIES_FILE))):
            # As it would be read back: JSON has no tuples.
            settings, facts = json.loads(json.dumps([settings, facts]))
            old = {**defaults, **stored["settings"], **stored["facts"]}
            self._compare(old, {**settings, **facts}, free, {*stored["facts"], *facts})
        for leftover in self._glob(".model.ckpt-*.unfinished-*"):
            os.remove(leftover)
        config = {"program": self.program, "settings": settings, "facts": facts}
        self.write_text(RUN_CONFIG, json.dumps(config, indent=2, sort_keys=True) + "\n")

    def latest_checkpoint(self):
        """Returns the prefix of the newest whole checkpoint as a str, or None."""
        step = self.latest_step()
        return self.file(f"model.ckpt-{step}") if step else None

    def latest_step(self):
        """Returns the step of the newest whole checkpoint as an int; 0 where there is none.

        It is the one that the file `checkpoint` names, which is written last, or without it the highest.
        """
        steps = self._whole_steps()
        try:
            with open(self.file("checkpoint"), encoding="utf-8") as file:
                match = re.search(r'^model_checkpoint_path: ".*model\.ckpt-(\d+)"', file.read(), re.MULTILINE)
        except FileNotFoundError:
            match = None
        named = int(match[1]) if match else None
        return named if named in steps else max(steps, default=0)

    def save(self, step, state, num_kept=_CHECKPOINTS_KEPT):
        """Writes a checkpoint; whenever this is interrupted, the newest whole one stays the one to resume from.

        Args:
            step: int.
            state: dict of `tf.Variable` by name.
            num_kept: int; so many checkpoints are kept, this one included.

        Raises:
            OSError: it cannot be written, as on a full disk.
        """
        try:
            prefix = save_checkpoint(self.file(f"model.ckpt-{step}"), state)
        except tf.errors.OpError as error:
            raise OSError(
                f"the checkpoint of step {step} cannot be written to {self.path} ({reason_of(error)}); make room "
                f"there, and the same command goes on from step {self.latest_step()}"
            ) from error
        # On the disk before `checkpoint` says so: a power failure may not leave a name without its file.
        for path in glob.glob(f"{glob.escape(prefix)}.*"):
            _flush_to_disk(path)
        if os.name != "nt":  # which opens no folders
            _flush_to_disk(self.path)
        earlier = [earlier for earlier in self._whole_steps() if earlier < step]
        kept = [*earlier, step][-num_kept:]
        lines = [f'model_checkpoint_path: "model.ckpt-{step}"']
        lines += [f'all_model_checkpoint_paths: "model.ckpt-{kept_step}"' for kept_step in kept]
        self.write_text("checkpoint", "\n".join(lines) + "\n")
        for old in set(earlier) - set(kept):
            for name in self._glob(f"model.ckpt-{old}.*"):
                os.remove(name)

    def forget_checkpoints(self):
        """Removes all checkpoints of a run that has ended and will not be resumed."""
        for name in [*self._glob("checkpoint"), *self._glob("model.ckpt-*")]:
            os.remove(name)

    def restore(self, state):
        """Reads the newest checkpoint into the variables.

        Args:
            state: dict of `tf.Variable` by name; what the checkpoint holds must be exactly this.

        Raises:
            ValueError: a name or shape differs, or the files are damaged.
        """
        checkpoint = open_checkpoint(self.latest_checkpoint())
        differing = sorted(set(checkpoint.names) ^ set(state))
        differing += [
            name for name in state if name not in differing and checkpoint.shape(name) != tuple(state[name].shape)
        ]
        if differing:
            raise ValueError(
                f"{self.latest_checkpoint()} does not hold the state of this run: {', '.join(differing[:5])} "
                f"{'is' if len(differing) == 1 else 'are'} not the same in both; give another --output_dir"
            )
        for name, variable in state.items():
            variable.assign(checkpoint.read(name))

    def write_text(self, name, text):
        """Writes a file that is either the old one or the whole new one at any moment.

        Args:
            name: str; within the folder.
            text: str, or bytes.
        """
        temporary = self.file(f"{name}.tmp")
        with open(temporary, "wb") as file:
            file.write(text.encode("utf-8") if isinstance(text, str) else text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.file(name))

    def remove(self, *names):
        """Removes files that are there: what an earlier command left would pass for what this one has written."""
        for name in names:
            pathlib.Path(self.file(name)).unlink(missing_ok=True)

    def _create(self):
        try:
            os.makedirs(self.path, exist_ok=True)
        except OSError as error:
            raise OSError(
                f"--output_dir={self.path} cannot be created: {error.strerror}; give another folder"
            ) from error

    def _lock(self):
        """Holds the folder until this object, or the process, is gone. Windows has no such locks."""
        if self._is_locked or importlib.util.find_spec("fcntl") is None:
            return
        import fcntl

        descriptor = os.open(self.file(".lock"), os.O_RDWR | os.O_CREAT, 0o644)
        weakref.finalize(self, os.close, descriptor)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ValueError(f"--output_dir={self.path} is in use by another process; wait for it to end") from None
        self._is_locked = True

    def _glob(self, pattern):
        return glob.glob(os.path.join(glob.escape(self.path), pattern))

    def _whole_steps(self):
        """The steps of all checkpoints, ascending. An index is the last of a checkpoint to appear."""
        names = self._glob("model.ckpt-*.index")
        return sorted(int(match[1]) for name in names if (match := re.search(r"model\.ckpt-(\d+)\.index$", name)))

    def _stored_config(self):
        try:
            return read_run_config(self.file(RUN_CONFIG))
        except (FileNotFoundError, NotADirectoryError):
            return None

    def _compare(self, old, new, free, facts):
        # Of fine-tuning it is no setting: it follows from the epochs, which are compared.
        if new.get("num_train_steps", 0) > old.get("num_train_steps", 0):
            log.info(
                "num_train_steps was %d and is %d now; the learning rate follows the longer schedule from here on",
                *(old["num_train_steps"], new["num_train_steps"]),
            )
            free = {*free, "num_train_steps"}
        differences = []
        for name in sorted((set(old) | set(new)) - set(free)):
            if old.get(name) != new.get(name):
                shown_name = name if name in facts else f"--{name}"
                differences += _differences(shown_name, old.get(name), new.get(name))
        if differences:
            raise ValueError(
                f"--output_dir={self.path} holds a run with other settings: {'; '.join(differences)}; "
                "give the old settings to resume it, or another --output_dir"
            )


def read_run_config(path):
    """Reads a run_config.json.

    Args:
        path: str.

    Returns:
        dict with `program` (str), `settings` (dict by flag name) and `facts` (dict).

    Raises:
        FileNotFoundError: it does not exist.
        ValueError: it is not what a run writes.
    """
    with open(path, encoding="utf-8") as file:
        try:
            config = json.load(file)
        except ValueError as error:
            raise ValueError(f"{path} is no JSON: {error}") from error
    if not isinstance(config, dict) or not isinstance(config.get("settings"), dict) or "program" not in config:
        raise ValueError(f"{path} was not written by a run: it needs the keys program and settings")
    return {"facts": {}, **config}


def reason_of(error):
    """Returns what a `tf.errors.OpError` says, without what is TensorFlow's own; str."""
    message = re.sub(r"\{\{[^}]*\}\}\s*|\s*\[Op:\w+\]", "", error.message).strip()
    return message.splitlines()[0].rstrip(":") if message else type(error).__name__


def _differences(name, old, new):
    """Says what differs in one setting or fact; in a dict by its keys."""
    if isinstance(old, dict) and isinstance(new, dict):
        return [
            f"{name}: {key} was {_shown(old.get(key))} and is {_shown(new.get(key))} now"
            for key in sorted({*old, *new})
            if old.get(key) != new.get(key)
        ]
    return [f"{name} was {_shown(old)} and is {_shown(new)} now"]


def _shown(value):
    return "not given" if value is None else value


def _flush_to_disk(path):
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
