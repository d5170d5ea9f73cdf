"""The folder of a run: its settings, its checkpoints, and the refusal to mix two runs.

run_config.json       the settings of the run; `--run_config` takes it back
bert_config.json      the architecture; vocab.txt beside it where the run was told which vocabulary it is
checkpoint            which checkpoint is the newest (the release's file)
model.ckpt-<step>.*   weights, Adam's slots and the step, under the release's names
metrics.csv, eval_results.txt, learning_curves.png, events.out.tfevents.*
"""

import glob
import json
import logging
import os
import re

from modeling import open_checkpoint, save_checkpoint

log = logging.getLogger("bert_keras")

_CHECKPOINTS_KEPT = 5
_RUN_CONFIG = "run_config.json"
_FILES_OF_A_RUN = ("checkpoint", "*.index", "eval_results.txt", "metrics.csv", "graph.pbtxt", "bert_config.json")


class RunDir:
    """An output folder that holds one run.

    Args:
        path: str; the folder. It is created by `claim`, not before.
        program: str; the entry point that writes it.
    """

    def __init__(self, path, program):
        self.path = path
        self.program = program

    def file(self, name):
        """Returns the path of a file of the run as a str."""
        return os.path.join(self.path, name)

    def claim(self, settings, free):
        """Makes the folder this run's own, or finds out that it is already.

        Args:
            settings: dict, JSON values by flag name.
            free: names of settings that may differ from those of a run found there, as they do not change what is
                learnt.

        Raises:
            ValueError: the folder holds another run, or something else; the differences are named.
            OSError: the folder cannot be created or written to.
        """
        if "://" in self.path:
            raise ValueError(f"--output_dir={self.path} is a remote path; a run is kept in a local folder, so give one")
        if set("[*?") & set(self.path):
            raise ValueError(f"--output_dir={self.path}: TensorFlow takes [ * ? in a path for a pattern; rename it")
        os.makedirs(self.path, exist_ok=True)
        stored = self._stored_config()
        if stored is None:
            found = sorted(os.path.basename(name) for pattern in _FILES_OF_A_RUN for name in self._glob(pattern))
            if found:
                raise ValueError(
                    f"--output_dir={self.path} holds files of something else ({', '.join(found[:3])}); "
                    "give a folder that is new or empty"
                )
        elif self.latest_checkpoint():
            self._compare(stored, settings, free)
        for leftover in self._glob(".model.ckpt-*.unfinished-*"):
            os.remove(leftover)
        self.write_text(
            _RUN_CONFIG, json.dumps({"program": self.program, "settings": settings}, indent=2, sort_keys=True) + "\n"
        )

    def latest_checkpoint(self):
        """Returns the prefix of the newest checkpoint as a str, or None."""
        try:
            with open(self.file("checkpoint"), encoding="utf-8") as file:
                match = re.search(r'^model_checkpoint_path: "(.*)"', file.read(), re.MULTILINE)
        except FileNotFoundError:
            return None
        return self.file(os.path.basename(match[1])) if match else None

    def latest_step(self):
        """Returns the step of the newest checkpoint as an int; 0 where there is none."""
        prefix = self.latest_checkpoint()
        return int(prefix.rsplit("-", 1)[1]) if prefix else 0

    def save(self, step, state):
        """Writes a checkpoint; whenever this is interrupted, the newest whole one stays the one to resume from.

        Args:
            step: int.
            state: dict of `tf.Variable` by name.
        """
        save_checkpoint(self.file(f"model.ckpt-{step}"), state)
        steps = sorted({*self._steps(), step} - {s for s in self._steps() if s > step})
        kept = steps[-_CHECKPOINTS_KEPT:]
        lines = [f'model_checkpoint_path: "model.ckpt-{step}"']
        lines += [f'all_model_checkpoint_paths: "model.ckpt-{s}"' for s in kept]
        self.write_text("checkpoint", "\n".join(lines) + "\n")
        for old in set(self._steps()) - set(kept):
            for name in self._glob(f"model.ckpt-{old}.*"):
                os.remove(name)

    def restore(self, state):
        """Reads the newest checkpoint into the variables.

        Args:
            state: dict of `tf.Variable` by name; what the checkpoint holds must be exactly this.

        Raises:
            ValueError: a name or shape differs, or the files are damaged.
        """
        prefix = self.latest_checkpoint()
        checkpoint = open_checkpoint(prefix)
        differing = sorted(set(checkpoint.names) ^ set(state))
        if differing:
            raise ValueError(
                f"{prefix} does not hold the state of this run: {', '.join(differing[:5])} "
                f"{'is' if len(differing) == 1 else 'are'} in only one of the two; give another --output_dir"
            )
        for name, variable in state.items():
            variable.assign(checkpoint.read(name))

    def write_text(self, name, text):
        """Writes a file that is either the old one or the whole new one at any moment.

        Args:
            name: str; within the folder.
            text: str.
        """
        temporary = self.file(f"{name}.tmp")
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.file(name))

    def _glob(self, pattern):
        return glob.glob(os.path.join(glob.escape(self.path), pattern))

    def _steps(self):
        names = self._glob("model.ckpt-*.index")
        return sorted(int(match[1]) for name in names if (match := re.search(r"model\.ckpt-(\d+)\.index$", name)))

    def _stored_config(self):
        try:
            return read_run_config(self.file(_RUN_CONFIG))
        except FileNotFoundError:
            return None

    def _compare(self, stored, settings, free):
        if stored["program"] != self.program:
            raise ValueError(
                f"--output_dir={self.path} holds a run of {stored['program']}; give {self.program} a folder of its own"
            )
        old = stored["settings"]
        names = sorted((set(old) | set(settings)) - set(free))
        differences = [
            f"--{name} was {_shown(old.get(name))} and is {_shown(settings.get(name))} now"
            for name in names
            if old.get(name) != settings.get(name)
        ]
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
        dict with `program` (str) and `settings` (dict by flag name).

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
    return config


def _shown(value):
    return "not given" if value is None else value
