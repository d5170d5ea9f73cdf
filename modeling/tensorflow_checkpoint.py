"""Name-based TensorFlow 1 checkpoints, the form of the released models.

A checkpoint called PREFIX is two files, `PREFIX.index` and `PREFIX.data-00000-of-00001`. TensorFlow reads and writes
them; it is imported when that happens, so that the rest of the package runs without it.
"""

import contextlib
import os
import pathlib

import keras
import numpy as np


class TensorFlowReader:
    """Reads a name-based checkpoint, one entry at a time.

    Args:
        prefix: str; the path without the endings of its files, both of which are there.

    Attributes:
        names: names of its entries, sorted.

    Raises:
        ValueError: the index is damaged, or the path has a bracket.
    """

    def __init__(self, prefix):
        if "[" in prefix:
            raise ValueError(
                f"{prefix}: TensorFlow takes the bracket in this path for a pattern; rename the file or folder"
            )
        import tensorflow as tf

        self._prefix = prefix
        try:
            self._reader = tf.train.load_checkpoint(prefix)
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise ValueError(f"{prefix}.index cannot be read ({error}); the file is damaged, get it again") from None
        self._shapes = self._reader.get_variable_to_shape_map()
        self._dtypes = self._reader.get_variable_to_dtype_map()
        self.names = sorted(self._shapes)

    def shape(self, name):
        """Returns the shape of an entry, a tuple of ints."""
        return tuple(self._shapes[name])

    def dtype(self, name):
        """Returns the type that an entry is stored in, a str such as "float16"."""
        return self._dtypes[name].name

    def read(self, name):
        """Returns the value of an entry, a NumPy array: float32 where it is stored in a floating type, else as stored.

        Raises:
            ValueError: the data file is cut short or damaged.
        """
        import tensorflow as tf

        try:
            value = np.asarray(self._reader.get_tensor(name))
        except (tf.errors.OpError, RuntimeError, IndexError) as error:
            raise ValueError(
                f"{self._prefix}: {name} cannot be read ({error}); the data file is cut short or damaged, get it again"
            ) from None
        return value.astype(np.float32, copy=False) if self._dtypes[name].is_floating else value


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
