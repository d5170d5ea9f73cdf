"""Name-based TensorFlow 1 checkpoints, the form of the released models: read, load into a model, write.

A checkpoint called PREFIX is two files, `PREFIX.index` and `PREFIX.data-00000-of-00001`. TensorFlow reads and writes
them; it is imported when that happens, so that the rest of the package runs without it.
"""

import contextlib
import dataclasses
import os
import pathlib
import re

import keras
import numpy as np

# What training adds to the weights: the optimizer's means and the step.
_TRAINING_STATE = re.compile(r"(^|/)(adam_m|adam_v)$|^global_step$")
_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_STATE_LINE = re.compile(r'^model_checkpoint_path: "(.*)"$', re.MULTILINE)
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"


class Checkpoint:
    """An open checkpoint. Made by `open_checkpoint`.

    Attributes:
        prefix: the path without the endings of its files.
        names: names of its entries, sorted.
    """

    def __init__(self, prefix):
        import tensorflow as tf

        self.prefix = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise ValueError(f"{prefix}.index cannot be read ({error}); the file is damaged, get it again") from None
        self._shapes = self._reader.get_variable_to_shape_map()
        self.names = sorted(self._shapes)

    def shape(self, name):
        """Returns the shape of an entry, a tuple of ints."""
        return tuple(self._shapes[name])

    def read(self, name):
        """Returns the value of an entry, a NumPy array.

        Raises:
            ValueError: there is no such entry, or the data file is cut short or damaged.
        """
        import tensorflow as tf

        if name not in self._shapes:
            raise ValueError(f"{self.prefix} has no entry {name}; its {len(self.names)} entries are in `names`")
        try:
            return self._reader.get_tensor(name)
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise ValueError(
                f"{self.prefix}: {name} cannot be read ({error}); the data file is cut short or damaged, get it again"
            ) from None


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """What loading a checkpoint did.

    Attributes:
        prefix: the checkpoint.
        loaded: names of the weights that were loaded.
        new: names of the weights that the checkpoint does not have, which keep their values.
        unused: names of the checkpoint's weights that the model does not have.
    """

    prefix: str
    loaded: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self):
        parts = [f"loaded {len(self.loaded)} of {len(self.loaded) + len(self.new)} weights from {self.prefix}"]
        if self.new:
            parts.append(f"new: {', '.join(self.new)}")
        if self.unused:
            parts.append(f"unused: {', '.join(self.unused)}")
        return "; ".join(parts)


def open_checkpoint(path):
    """Opens a checkpoint.

    Args:
        path: its prefix, one of its files, or a folder. A folder that holds several checkpoints needs a file
            `checkpoint` that names the one to take, as TensorFlow writes it.

    Returns:
        Checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint, or a part of it is missing.
        ValueError: a folder holds several checkpoints, the index is damaged, or the path has a bracket.
    """
    path = pathlib.Path(os.fspath(path))
    prefix = _newest_in(path) if path.is_dir() else _FILE_SUFFIX.sub("", str(path))
    folder = pathlib.Path(prefix).parent
    if not pathlib.Path(f"{prefix}.index").is_file():
        raise FileNotFoundError(f"there is no checkpoint {prefix} (no {prefix}.index); {_contents(folder)}")
    if "[" in prefix:
        raise ValueError(
            f"{prefix}: TensorFlow takes the bracket in this path for a pattern; rename the file or folder"
        )
    if not list(folder.glob(f"{pathlib.Path(prefix).name}.data-*-of-*")):
        raise FileNotFoundError(f"{prefix}.index is there, but {prefix}.data-00000-of-00001 is not; copy both files")
    return Checkpoint(prefix)


def weights_by_name(model):
    """Returns the weights of a model by their names in a checkpoint, a dict of str to keras.Variable."""
    weights = {weight.path: weight for weight in model.weights}
    if len(weights) != len(model.weights):
        raise ValueError(f"{model.name} has two weights of one name; give its parts different names")
    return weights


def load_weights(variables_by_name, checkpoint, allow_partial=False):
    """Assigns the values of a checkpoint to the weights of the same names.

    Differs from the release: a weight that is missing, or an encoder layer left over, is an error unless it is allowed,
    because the release starts from random numbers in silence where a name does not match.

    Args:
        variables_by_name: dict of str to keras.Variable, see `weights_by_name`.
        checkpoint: Checkpoint, or a path for `open_checkpoint`. What training added to it (`adam_m`, `adam_v`,
            `global_step`) is passed over.
        allow_partial: whether weights that the checkpoint does not have keep their values.

    Returns:
        LoadReport.

    Raises:
        ValueError: nothing matches, shapes differ, or the match is partial and that is not allowed. No weight has been
            changed then.
    """
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = open_checkpoint(checkpoint)
    held = [name for name in checkpoint.names if not _TRAINING_STATE.search(name)]
    report = LoadReport(
        prefix=checkpoint.prefix,
        loaded=[name for name in variables_by_name if name in held],
        new=[name for name in variables_by_name if name not in held],
        unused=[name for name in held if name not in variables_by_name],
    )
    _check_match(report, checkpoint, variables_by_name, allow_partial)
    for name in report.loaded:
        variables_by_name[name].assign(checkpoint.read(name))
    return report


def save_checkpoint(prefix, tensors_by_name):
    """Writes a checkpoint; its files get their names only when they are whole.

    Args:
        prefix: path without an ending, such as "out/bert_model.ckpt". A checkpoint of that name is replaced.
        tensors_by_name: dict of str to keras.Variable, tensor or array, written under these very names. What is an
            int64 number in the release (`global_step`) must be given as one.

    Returns:
        The prefix, a string.
    """
    import tensorflow as tf

    prefix = pathlib.Path(os.fspath(prefix))
    prefix.parent.mkdir(parents=True, exist_ok=True)
    unfinished = prefix.with_name(f".{prefix.name}.unfinished-{os.getpid()}")
    data, index = ".data-00000-of-00001", ".index"
    try:
        with tf.device("CPU"):
            tf.raw_ops.SaveV2(
                prefix=str(unfinished),
                tensor_names=list(tensors_by_name),
                shape_and_slices=[""] * len(tensors_by_name),
                tensors=[_to_tensor(value) for value in tensors_by_name.values()],
            )
        # Without its index a checkpoint is not there: an old index must not meet new data.
        pathlib.Path(f"{prefix}{index}").unlink(missing_ok=True)
        os.replace(f"{unfinished}{data}", f"{prefix}{data}")
        os.replace(f"{unfinished}{index}", f"{prefix}{index}")
    finally:
        for suffix in (data, index):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(f"{unfinished}{suffix}")
    return str(prefix)


def _to_tensor(value):
    import tensorflow as tf

    if isinstance(value, keras.Variable):
        # A TensorFlow variable is read without making a copy of it.
        value = value.value if keras.backend.backend() == "tensorflow" else np.asarray(value)
    return tf.convert_to_tensor(value)


def _check_match(report, checkpoint, variables_by_name, allow_partial):
    """Refuses what `load_weights` says it refuses."""
    if not report.loaded:
        reason = "it has none of the model's weights"
        if _OBJECT_GRAPH in checkpoint.names:
            reason = "it stores objects of TensorFlow 2, and a checkpoint of named weights is needed"
        raise ValueError(f"{checkpoint.prefix} cannot be loaded: {reason}")
    mismatches = [
        f"{name} is {list(checkpoint.shape(name))} in the checkpoint and {list(variables_by_name[name].shape)} "
        "in the model"
        for name in report.loaded
        if checkpoint.shape(name) != tuple(variables_by_name[name].shape)
    ]
    if mismatches:
        raise ValueError(
            f"{checkpoint.prefix} does not fit the config: {'; '.join(mismatches)}; "
            "take the bert_config.json that belongs to the checkpoint"
        )
    if allow_partial:
        return
    if report.new:
        raise ValueError(
            f"{checkpoint.prefix} lacks {len(report.new)} of the model's {len(variables_by_name)} weights: "
            f"{', '.join(report.new)}; allow a partial checkpoint to start these from random numbers"
        )
    layers_left = [name for name in report.unused if re.search(r"/layer_\d+/", name)]
    if layers_left:
        raise ValueError(
            f"{checkpoint.prefix} has encoder layers that the model lacks: {', '.join(layers_left)}; "
            "take the bert_config.json that belongs to the checkpoint, or allow a partial checkpoint"
        )


def _newest_in(folder):
    """Returns the prefix of the checkpoint that a folder's `checkpoint` file names, or of the only one there."""
    prefixes = _prefixes(folder)
    state_file = folder / "checkpoint"
    named = _STATE_LINE.search(state_file.read_text(encoding="utf-8")) if state_file.is_file() else None
    if named:
        # The path in the file may be that of a folder which has been moved since.
        newest = pathlib.Path(named[1]).name
        if newest in prefixes:
            return str(folder / newest)
    if not prefixes:
        raise FileNotFoundError(f"there is no checkpoint in the folder {folder}; {_contents(folder)}")
    if len(prefixes) > 1:
        raise ValueError(f"the folder {folder} holds several checkpoints: {', '.join(prefixes)}; name one")
    return str(folder / prefixes[0])


def _prefixes(folder):
    """Returns the names of the checkpoints of a folder."""
    return sorted(path.name.removesuffix(".index") for path in folder.glob("*.index") if path.name[0] != ".")


def _contents(folder):
    """Says what a folder holds, as the end of an error."""
    if not folder.is_dir():
        return f"there is no folder {folder}"
    if prefixes := _prefixes(folder):
        return f"the checkpoints in {folder} are {', '.join(prefixes)}"
    names = sorted(path.name for path in folder.iterdir())
    shown = ", ".join(names[:10]) + (f" and {len(names) - 10} more" if len(names) > 10 else "")
    return f"{folder} holds {shown}" if names else f"{folder} is empty"
