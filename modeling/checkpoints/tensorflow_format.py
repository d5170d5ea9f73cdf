"""Name-based TensorFlow 1 checkpoints, the format of the original models.

A checkpoint PREFIX has two files, `PREFIX.index` and `PREFIX.data-00000-of-00001`. TensorFlow reads and writes them.
The functions import TensorFlow when they need it, so that the rest of the package runs without it.
"""

import fnmatch
import glob
import os
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, writing
from bert_keras.storage.remote_files import reason_of

# Endings of the data files; some original models have several.
DATA_FILES = ".data-*-of-*"
_DATA, _INDEX = ".data-00000-of-00001", ".index"


class DamagedCheckpointError(Mistake):
    """A file of a checkpoint is damaged or truncated. The message names the other checkpoints of its folder.

    Attributes:
        damage: a description of the damage.
    """

    def __init__(self, prefix: str, damage: str) -> None:
        super().__init__("{}, get it again{}", damage, others_of(prefix))
        self.damage = damage


def others_of(prefix: str) -> str:
    """Returns the end of an error message that names the other checkpoints of a folder, or "" without any."""
    folder = paths.parent(prefix)
    names = [name.removesuffix(_INDEX) for name in paths.list_dir(folder) if name.endswith(_INDEX)]
    others = [name for name in names if name[0] != "." and name != paths.name(prefix)]
    return f", or use another checkpoint in {folder}: {', '.join(others)}" if others else ""


class TensorFlowReader:
    """Reads the name-based checkpoint of a prefix, see `loading.Checkpoint`; the files must exist."""

    def __init__(self, prefix: str) -> None:
        if "[" in prefix:
            raise Mistake(
                "{}: TensorFlow takes the bracket in this path for a pattern; rename the file or folder", prefix
            )
        import tensorflow as tf

        self._prefix = prefix
        try:
            # tf.train.load_checkpoint checks whether the path is a folder. Some remote file systems wrongly say yes.
            self._reader = tf.compat.v1.train.NewCheckpointReader(prefix)
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise DamagedCheckpointError(
                prefix, f"{prefix}.index cannot be read ({error}); the file is damaged"
            ) from None
        self._shapes = self._reader.get_variable_to_shape_map()
        self._dtypes = self._reader.get_variable_to_dtype_map()
        self.names = sorted(self._shapes)

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._shapes[name])

    def dtype(self, name: str) -> str:
        return self._dtypes[name].name

    def read(self, name: str) -> np.ndarray:
        """Returns an entry: floating types as float32, other types as stored."""
        import tensorflow as tf

        try:
            value = np.asarray(self._reader.get_tensor(name))
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            damage = f"{self._prefix}: {name} cannot be read ({error}); the data file is cut short or damaged"
            raise DamagedCheckpointError(self._prefix, damage) from None
        return value.astype(np.float32, copy=False) if self._dtypes[name].is_floating else value

    def num_bytes(self) -> int:
        """Returns the total bytes of all values: the smallest possible size of the data files."""
        return sum(
            int(np.prod(self._shapes[name], dtype=np.int64)) * self._dtypes[name].size
            for name in self.names
            if self._dtypes[name].size
        )


def find_damage(prefix: str) -> str | None:
    """Checks the sizes and checksums of a checkpoint; returns a description of the damage, or None if it is intact.

    For a remote checkpoint it checks only the sizes, because object stores check the contents themselves.
    """
    try:
        reader = TensorFlowReader(prefix)
        folder, pattern = paths.parent(prefix), f"{glob.escape(paths.name(prefix))}{DATA_FILES}"
        size = sum(paths.size(paths.join(folder, name)) for name in fnmatch.filter(paths.list_dir(folder), pattern))
        if size < reader.num_bytes():
            return f"{prefix}.data-* has {size:,} bytes, and {reader.num_bytes():,} are needed"
        if not paths.is_remote(prefix):
            for name in reader.names:
                reader.read(name)  # compares checksums
    except DamagedCheckpointError as error:
        return error.damage
    return None


def save_checkpoint(prefix: str | os.PathLike, tensors_by_name: Mapping[str, Any]) -> str:
    """Writes a checkpoint atomically: a checkpoint without an index does not count, and the index is written last.

    Args:
        prefix: local or remote path without an ending, such as "out/bert_model.ckpt". An existing checkpoint is
            replaced.
        tensors_by_name: dict from names to keras.Variable, tensor or array. `global_step` must be int64, as in the
            original BERT.

    Returns:
        The prefix, a str.

    Raises:
        OSError: writing failed, for example because the disk is full.
    """
    import tensorflow as tf

    prefix = os.fspath(prefix)
    try:
        paths.make_dirs(paths.parent(prefix))
        if paths.is_remote(prefix):
            # A remote file appears only when complete, and TensorFlow writes the index last. A rename would copy.
            paths.remove(f"{prefix}{_INDEX}")
            _save(prefix, tensors_by_name)
        else:
            _save_and_rename(prefix, tensors_by_name)
    except (OSError, tf.errors.OpError) as error:
        reason = reason_of(error) if isinstance(error, tf.errors.OpError) else error.strerror or error
        raise OSError(f"the checkpoint {prefix} cannot be written ({reason})") from error
    return prefix


def _save_and_rename(prefix: str, tensors_by_name: Mapping[str, Any]) -> None:
    with writing.scratch(prefix) as folder:
        saved = paths.join(folder, paths.name(prefix))
        _save(saved, tensors_by_name)
        # An old index must not be used with new data.
        paths.remove(f"{prefix}{_INDEX}")
        for suffix in (_DATA, _INDEX):
            writing.publish(f"{saved}{suffix}", f"{prefix}{suffix}")


def _save(prefix: str, tensors_by_name: Mapping[str, Any]) -> None:
    import tensorflow as tf

    with tf.device("CPU"):
        tf.raw_ops.SaveV2(
            prefix=prefix,
            tensor_names=list(tensors_by_name),
            shape_and_slices=[""] * len(tensors_by_name),
            tensors=[_to_tensor(value) for value in tensors_by_name.values()],
        )


def _to_tensor(value: Any) -> Any:
    import tensorflow as tf

    if isinstance(value, keras.Variable):
        # Reading the value of a TensorFlow variable makes no copy.
        value = value.value if keras.backend.backend() == "tensorflow" else np.asarray(value)
    return tf.convert_to_tensor(value)
