"""Checkpoints of any kind: open one, load it into a model.

The names of entries are the release's, whatever the kind: modeling/checkpoints/tensorflow_format.py reads and writes
its own format, modeling/checkpoints/safetensors_format.py that of the Hugging Face layout.
"""

import dataclasses
import fnmatch
import glob
import os
import re

from bert_keras.modeling.checkpoints.files import PICKLE_ENDINGS, contents_of, find_in_folder, pickle_refusal
from bert_keras.modeling.checkpoints.hugging_face_config import (
    HUGGING_FACE_FILE,
    RELEASED_FILE,
    read_architecture,
    read_config,
    read_labels,
)
from bert_keras.modeling.checkpoints.names import find_heads, is_training_state
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING, SafetensorsReader
from bert_keras.modeling.checkpoints.tensorflow_format import DATA_FILES, TensorFlowReader, others_of
from bert_keras.storage import paths

VOCABULARY_FILE = "vocab.txt"

_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Items of a list in an error.
_NUM_SHOWN = 8
_FLOATING_TYPES = ("float64", "float32", "float16", "bfloat16")
# What a config says about the weights without its showing in their shapes.
_FIELDS_WITHOUT_SHAPE = ("hidden_act", "layer_norm_eps", "num_attention_heads")


class IncompleteMatchError(ValueError):
    """Weights of a checkpoint that the model lacks, or the other way round, where the caller did not allow that."""


class Checkpoint:
    """An open checkpoint. Made by `open_checkpoint`. Reads one entry at a time and keeps none.

    Args:
        prefix: see the attribute.
        reader: TensorFlowReader or SafetensorsReader.

    Attributes:
        prefix: str; the path of a safetensors file, or of a TensorFlow checkpoint without the endings of its files.
        names: the release's names of its entries, sorted.
    """

    def __init__(self, prefix, reader):
        self.prefix = str(prefix)
        self.names = reader.names
        self._reader = reader
        self._folder = paths.parent(self.prefix)

    def shape(self, name):
        """Returns the shape of an entry, a tuple of ints; kernels are [in, out]."""
        return self._reader.shape(name)

    def dtype(self, name):
        """Returns the type that an entry is stored in, a str such as "float16"; `read` makes float32 of it."""
        return self._reader.dtype(name)

    def read(self, name):
        """Returns the value of an entry, a NumPy array; kernels are [in, out].

        Raises:
            ValueError: there is no such entry, or the data file is cut short or damaged.
        """
        if name not in self.names:
            raise ValueError(f"{self.prefix} has no entry {name}; its {len(self.names)} entries are in `names`")
        return self._reader.read(name)

    @property
    def config(self):
        """The BertConfig of the file beside it, see `read_config`; None where there is none."""
        has_config = self._beside(RELEASED_FILE) or self._beside(HUGGING_FACE_FILE)
        return read_config(self._folder) if has_config else None

    @property
    def labels(self):
        """The names of the classes, a list of str, from the `config.json` beside it; None where that does not say."""
        config_file = self._beside(HUGGING_FACE_FILE)
        return read_labels(config_file) if config_file else None

    @property
    def heads(self):
        """The heads it has weights of, a tuple; see `find_heads`."""
        config_file = self._beside(HUGGING_FACE_FILE)
        return find_heads(self.names, read_architecture(config_file) if config_file else None)

    @property
    def vocab_file(self):
        """The path of the `vocab.txt` beside it, a str; None where there is none."""
        return self._beside(VOCABULARY_FILE)

    def _beside(self, name):
        path = paths.join(self._folder, name)
        return path if paths.is_file(path) else None


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
    """Opens a checkpoint of any kind, local or remote; one of safetensors must be local.

    Args:
        path: a TensorFlow checkpoint (its prefix or one of its files), a safetensors file or the index of its shards,
            or a folder with one of these. A folder that holds several checkpoints needs a file `checkpoint` that names
            the one to take, as TensorFlow writes it.

    Returns:
        Checkpoint.

    Raises:
        FileNotFoundError: there is no checkpoint, or a part of it is missing.
        ValueError: a folder holds several checkpoints, a file is damaged, or it is a pickle.
    """
    path = os.fspath(path)
    # The file system in memory takes the beginning of a file's name for a folder.
    if not paths.is_file(f"{path}.index") and paths.is_dir(path):
        path = find_in_folder(path)
    if path.endswith((".safetensors", INDEX_ENDING)):
        if not paths.is_file(path):
            raise FileNotFoundError(f"there is no checkpoint {path}; {contents_of(paths.parent(path))}")
        return Checkpoint(path, SafetensorsReader(path))
    prefix = _FILE_SUFFIX.sub("", path)
    folder = paths.parent(prefix)
    if not paths.is_file(f"{prefix}.index"):
        if path.endswith(PICKLE_ENDINGS) and paths.is_file(path):
            raise pickle_refusal(path)
        raise FileNotFoundError(f"there is no checkpoint {prefix} (no {prefix}.index); {contents_of(folder)}")
    if not fnmatch.filter(paths.list_dir(folder), f"{glob.escape(paths.name(prefix))}{DATA_FILES}"):
        raise FileNotFoundError(
            f"{prefix}.index is there, but {prefix}.data-00000-of-00001 is not; copy both files{others_of(prefix)}"
        )
    return Checkpoint(prefix, TensorFlowReader(prefix))


def weights_by_name(model):
    """Returns the weights of a model by their names in a checkpoint, a dict of str to keras.Variable."""
    weights = {weight.path: weight for weight in model.weights}
    if len(weights) != len(model.weights):
        raise ValueError(f"{model.name} has two weights of one name; give its parts different names")
    return weights


def check_config(config, checkpoint):
    """Refuses a config that gives the weights of a checkpoint another meaning than the config beside it.

    The sizes show in the shapes of the weights, see `load_weights`; these fields do not.

    Args:
        config: BertConfig that the weights are to be used with.
        checkpoint: Checkpoint.

    Raises:
        ValueError: the two differ in the activation, the epsilon or the number of heads; or the file beside the
            checkpoint cannot be read, see `read_config`.
    """
    beside = checkpoint.config
    if beside is None or beside is config:
        return
    differing = [
        f"{name} is {getattr(config, name)!r} and not {getattr(beside, name)!r}"
        for name in _FIELDS_WITHOUT_SHAPE
        if getattr(config, name) != getattr(beside, name)
    ]
    if differing:
        raise ValueError(
            f"the given config is not that of {checkpoint.prefix}: {'; '.join(differing)} as in the config beside it; "
            "give that one, or take it out where it is wrong"
        )


def load_weights(variables_by_name, checkpoint, allow_partial=False, new_allowed=(), ignored=()):
    """Assigns the values of a checkpoint to the weights of the same names.

    Differs from the release: a weight that is missing or left over is an error unless it is allowed, because the
    release starts from random numbers in silence where a name does not match.

    Args:
        variables_by_name: dict of str to keras.Variable, see `weights_by_name`.
        checkpoint: Checkpoint, or a path for `open_checkpoint`. What training added to it (`adam_m`, `adam_v`,
            `global_step`) is passed over.
        allow_partial: whether any weight may be missing or left over.
        new_allowed: patterns (of fnmatch, such as `POOLER_PATTERNS`) of weights that the checkpoint need not have; they
            keep their values then.
        ignored: patterns of entries of the checkpoint that the model need not have, such as `HEAD_PATTERNS`.

    Returns:
        LoadReport.

    Raises:
        IncompleteMatchError: a weight is missing or left over, and that is not allowed. No weight has been changed.
        ValueError: nothing matches, or a weight has another shape or no floating type; no weight has been changed. Or
            an entry cannot be read, because its file is damaged; the weights before it have been changed then.
    """
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = open_checkpoint(checkpoint)
    held = [name for name in checkpoint.names if not is_training_state(name)]
    report = LoadReport(
        prefix=checkpoint.prefix,
        loaded=[name for name in variables_by_name if name in held],
        new=[name for name in variables_by_name if name not in held],
        unused=[name for name in held if name not in variables_by_name],
    )
    _check_shapes(report, checkpoint, variables_by_name)
    _check_types(report, checkpoint)
    if not allow_partial:
        _check_complete(report, len(variables_by_name), new_allowed, ignored)
    for name in report.loaded:
        variables_by_name[name].assign(checkpoint.read(name))
    return report


def _check_shapes(report, checkpoint, variables_by_name):
    """Refuses a checkpoint without any weight of the model, or with one of another shape."""
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
            f"{checkpoint.prefix} does not fit the config: {_some(mismatches, '; ')}; "
            "take the config file that belongs to the checkpoint"
        )


def _check_types(report, checkpoint):
    """Refuses a checkpoint whose weights are no floating numbers, such as those of a quantised model."""
    wrong = [f"{name} is {dtype}" for name in report.loaded if (dtype := checkpoint.dtype(name)) not in _FLOATING_TYPES]
    if wrong:
        raise ValueError(
            f"{checkpoint.prefix} cannot be loaded: {_some(wrong)}, and a weight "
            f"must be one of {', '.join(_FLOATING_TYPES)}; get the checkpoint in one of these types"
        )


def _check_complete(report, num_weights, new_allowed, ignored):
    """Refuses a partial match that the caller did not allow."""
    if missing := _unmatched(report.new, new_allowed):
        raise IncompleteMatchError(
            f"{report.prefix} lacks {len(missing)} of the model's {num_weights} weights: {_some(missing)}; "
            "take a checkpoint that has them, or the config file that belongs to this one"
        )
    if left := _unmatched(report.unused, ignored):
        raise IncompleteMatchError(
            f"{report.prefix} has {len(left)} weights that the model lacks: {_some(left)}; "
            "take the config file that belongs to the checkpoint"
        )


def _some(items, separator=", "):
    """Returns the first of a list of str, and how many more there are."""
    more = [f"and {len(items) - _NUM_SHOWN} more"] if len(items) > _NUM_SHOWN else []
    return separator.join(items[:_NUM_SHOWN] + more)


def _unmatched(names, patterns):
    """Returns the names that no pattern matches."""
    return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
