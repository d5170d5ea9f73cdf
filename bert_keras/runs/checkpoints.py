"""The checkpoints of a folder: saved so that one is always complete, found, checked for damage and restored."""

import fnmatch
import functools
import logging
import re
from collections.abc import Mapping
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")


class Checkpoints:
    """The files `checkpoint` and model.ckpt-<step>.* in a folder.

    Args:
        path: the folder, local or remote.
        is_writable: whether this object writes. Among several workers only the chief does. In the others the same calls
            change nothing, and `latest_step` returns the step that the chief saved at the same time.
    """

    def __init__(self, path: str, is_writable: bool = True) -> None:
        self.path = path
        self.is_writable = is_writable
        self._step_of_chief = None
        self._saved_steps = set()
        self._reported_damages = set()

    def file(self, name: str) -> str:
        """Returns the path of a file in the folder."""
        return paths.join(self.path, name)

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
                for reason in set(damages) - self._reported_damages:
                    log.warning("the checkpoint of step %d is used, because a newer one is damaged: %s", step, reason)
                self._reported_damages.update(damages)
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

    def names(self) -> list[str]:
        """Returns the names in the folder; none if it does not exist."""
        try:
            return paths.list_dir(self.path)
        except (FileNotFoundError, NotADirectoryError):
            return []

    def _names(self, pattern: str) -> list[str]:
        """Returns the names in the folder that match a pattern, without hidden ones."""
        return [name for name in fnmatch.filter(self.names(), pattern) if name[0] != "."]

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


@functools.lru_cache(maxsize=32)
def _damage_of(prefix: str, files: tuple[tuple[str, int, int], ...]) -> str | None:
    """Caches the result until a name, size or time in `files` changes."""
    from bert_keras.modeling.checkpoints.tensorflow_format import find_damage

    return find_damage(prefix)
