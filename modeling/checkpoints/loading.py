"""Opens checkpoints of any format and loads them into models. Entries have their original names in every format."""

import dataclasses
import fnmatch
import functools
import glob
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import keras
import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.files import PICKLE_ENDINGS, find_in_folder, not_found, pickle_refusal
from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.modeling.checkpoints.hugging_face_config import (
    HUGGING_FACE_FILE,
    config_of_folder,
    labels_of,
    problem_type_of,
    read_config_files,
)
from bert_keras.modeling.checkpoints.names import find_heads, is_of_encoder, is_tied, is_training_state
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING, SafetensorsReader
from bert_keras.modeling.checkpoints.tensorflow_format import DATA_FILES, TensorFlowReader, others_of
from bert_keras.modeling.config import BertConfig
from bert_keras.storage import paths
from bert_keras.storage.vocabulary import vocabulary_in

_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_LAYER = re.compile(r"bert/encoder/layer_(\d+)/")
_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
# Items of a list in an error message.
_NUM_SHOWN = 8
_FLOATING_TYPES = ("float64", "float32", "float16", "bfloat16")
# Config fields that change the network, but not the shapes of its weights.
_FIELDS_WITHOUT_SHAPE = (
    "hidden_act",
    "layer_norm_eps",
    "num_attention_heads",
    "is_decoder",
    "pooler_act",
    "pooling",
    "has_shared_layers",
)


class IncompleteMatchError(Mistake):
    """The checkpoint lacks weights of the model or has additional weights, and the caller did not allow that."""


class Checkpoint:
    """An open checkpoint, made by `open_checkpoint`. It reads one entry at a time and keeps none in memory.

    Attributes:
        prefix: str, the path of a safetensors file or index, or of a TensorFlow checkpoint without the file endings.
        names: original names of the entries, a sorted list of str.
    """

    def __init__(self, prefix: str, reader: "SafetensorsReader | TensorFlowReader | Checkpoint") -> None:
        self.prefix = str(prefix)
        self.names = reader.names
        self._reader = reader
        self._folder = paths.parent(self.prefix)
        self._hugging_face_file = paths.join(self._folder, HUGGING_FACE_FILE)

    def shape(self, name: str) -> tuple[int, ...]:
        """Returns the shape of an entry, a tuple of ints; kernels are [in, out]."""
        return self._reader.shape(name)

    def dtype(self, name: str) -> str:
        """Returns the stored type of an entry, a str such as "float16"; `read` converts floating types to float32."""
        return self._reader.dtype(name)

    def read(self, name: str) -> np.ndarray:
        """Returns the value of an entry, a NumPy array; kernels are [in, out].

        Raises:
            ValueError: the entry does not exist or is damaged.
        """
        if name not in self.names:
            raise Mistake("{} has no entry {}; its {} entries are in `names`", self.prefix, name, len(self.names))
        return self._reader.read(name)

    @functools.cached_property
    def config(self) -> BertConfig | None:
        """The BertConfig of the config file in the same folder, see `read_config`; None without a file."""
        return config_of_folder(self._config_files) if self._config_files else None

    @property
    def labels(self) -> list[str] | None:
        """The class names from the `config.json` in the same folder, a list of str, or None."""
        return labels_of(self.hugging_face_config, self._hugging_face_file)

    @property
    def problem_type(self) -> str | None:
        """The problem type of a classifier from the `config.json` in the same folder, a str, or None."""
        return problem_type_of(self.hugging_face_config, self._hugging_face_file)

    @property
    def heads(self) -> tuple[str, ...]:
        """The heads in the checkpoint, a tuple of str; see `find_heads`."""
        architectures = self.hugging_face_config.get("architectures")
        return find_heads(self.names, architectures[0] if isinstance(architectures, list) and architectures else None)

    @property
    def hugging_face_config(self) -> dict[str, Any]:
        """The content of the `config.json` in the same folder; {} without one."""
        return self._config_files.get(self._hugging_face_file, {})

    @property
    def format(self) -> str:
        """The format of the weights, "tensorflow" or "safetensors"."""
        return "safetensors" if self.prefix.endswith((".safetensors", INDEX_ENDING)) else "tensorflow"

    @property
    def weights_file(self) -> str:
        """The path of the file of the weights; of several, the index or the first."""
        return self.prefix if self.format == "safetensors" else f"{self.prefix}.data-00000-of-00001"

    @property
    def vocab_file(self) -> str | None:
        """The path of the vocabulary in the same folder, a str, or None; see `storage.vocabulary.vocabulary_in`."""
        return vocabulary_in(self._folder)

    @functools.cached_property
    def _config_files(self) -> dict[str, dict[str, Any]]:
        return read_config_files(self._folder)


@dataclasses.dataclass(frozen=True)
class LoadReport:
    """The result of loading a checkpoint.

    Attributes:
        prefix: the path of the checkpoint.
        loaded: names of the loaded weights.
        new: names of the model's weights that the checkpoint does not have; they keep their values.
        unused: names of the checkpoint's weights that the model does not have.
    """

    prefix: str
    loaded: list[str]
    new: list[str]
    unused: list[str]

    def __str__(self) -> str:
        parts = [f"loaded {len(self.loaded)} of {len(self.loaded) + len(self.new)} weights from {self.prefix}"]
        if self.new:
            parts.append(f"new: {', '.join(self.new)}")
        if self.unused:
            parts.append(f"unused: {', '.join(self.unused)}")
        return "; ".join(parts)


def open_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """Opens a checkpoint of any format, local or remote; a safetensors checkpoint must be local.

    Args:
        path: a TensorFlow checkpoint (its prefix or one of its files), a safetensors file or the index of its shards,
            a folder with one of these, or the name of a model on Hugging Face (`hf://owner/name`). If a folder holds
            several checkpoints, TensorFlow's file `checkpoint` in the folder must name one.

    Returns:
        Checkpoint.

    Raises:
        FileNotFoundError: the checkpoint or a part of it does not exist.
        ValueError: a folder holds several checkpoints, or a file is damaged or a pickle.
    """
    path = local_model(path)
    # TensorFlow's in-memory file system reports a prefix of a file name as a folder.
    if not paths.is_file(f"{path}.index") and paths.is_dir(path):
        path = find_in_folder(path)
    if path.endswith((".safetensors", INDEX_ENDING)):
        if not paths.is_file(path):
            raise not_found(path, path)
        return Checkpoint(path, SafetensorsReader(path))
    prefix = _FILE_SUFFIX.sub("", path)
    folder = paths.parent(prefix)
    if not paths.is_file(f"{prefix}.index"):
        if path.endswith(PICKLE_ENDINGS) and paths.is_file(path):
            raise pickle_refusal(path)
        raise not_found(prefix, f"{prefix} (no {prefix}.index)")
    data_files = fnmatch.filter(paths.list_dir(folder), f"{glob.escape(paths.name(prefix))}{DATA_FILES}")
    if not data_files:
        raise FileNotFoundError(
            f"{prefix}.index exists, but {prefix}.data-00000-of-00001 does not; copy both files{others_of(prefix)}"
        )
    for name in (f"{paths.name(prefix)}.index", *data_files):
        paths.check_readable(paths.join(folder, name))
    return Checkpoint(prefix, TensorFlowReader(prefix))


def weights_by_name(model: keras.Model) -> dict[str, keras.Variable]:
    """Returns the weights of a model by their names in a checkpoint, a dict of str to keras.Variable.

    The names in a BertModel or a model of a task do not depend on its name, or on the model that it is part of. In any
    other model, the names are the paths of Keras.

    Raises:
        ValueError: two weights have the same name.
    """
    name_of = getattr(model, "name_in_checkpoint", lambda path: path)
    weights = {name_of(weight.path): weight for weight in model.weights}
    if len(weights) != len(model.weights):
        raise ValueError(f"{model.name} has two weights with the same name; give its parts different names")
    return weights


def check_config(config: BertConfig, checkpoint: Checkpoint) -> None:
    """Compares a config with the config file in the folder of a checkpoint, if the folder has one.

    It compares the activation, the epsilon, the number of heads and the direction of reading. `load_weights` checks the
    shapes.

    Args:
        config: BertConfig to use with the weights.
        checkpoint: Checkpoint.

    Raises:
        ValueError: the two differ, or the config file of the checkpoint cannot be read, see `read_config`.
    """
    beside = checkpoint.config
    if beside is None or beside is config:
        return
    differing = [
        f"{name} is {getattr(config, name)!r}, not {getattr(beside, name)!r}"
        # Shared layers have the same weights for every depth.
        for name in (*_FIELDS_WITHOUT_SHAPE, *(["num_hidden_layers"] if beside.has_shared_layers else []))
        if getattr(config, name) != getattr(beside, name)
    ]
    if differing:
        raise Mistake(
            "the given config does not match that of {}: {}; "
            "give the config in its folder, or remove it if it is wrong",
            checkpoint.prefix,
            "; ".join(differing),
        )


def entries_of_other_heads(checkpoint: Checkpoint, names: Collection[str]) -> list[str]:
    """Returns patterns for `load_weights(ignored=...)` of the entries of heads that a model does not have.

    Heads that this project does not know count, too: an entry outside the encoder cannot change the encoder's outputs.
    A projection that is not tied to the word embeddings belongs to the masked-LM head.

    Args:
        checkpoint: Checkpoint.
        names: names of the model's weights.
    """
    has_masked_lm = any(name.startswith("cls/predictions/") for name in names)
    return [
        glob.escape(name)
        for name in checkpoint.names
        if name not in names and not is_of_encoder(name) and not (has_masked_lm and is_tied(name))
    ]


def check_sizes(config: BertConfig, checkpoint: Checkpoint) -> None:
    """Compares the sizes in a config with the shapes in a checkpoint, before a network of any size is made.

    Raises:
        ValueError: a size differs.
    """
    layers = {int(match[1]) for name in checkpoint.names if (match := _LAYER.match(name))}
    if layers and len(layers) < config.num_layers_of_weights:
        raise Mistake(
            "{} has {} encoder layers, but num_hidden_layers in the config is "
            "{}; take the config file that belongs to the checkpoint",
            checkpoint.prefix,
            len(layers),
            config.num_hidden_layers,
        )
    width, layer = config.embedding_width, "bert/encoder/layer_0"
    shapes = {
        "bert/embeddings/word_embeddings": (config.vocab_size, width),
        "bert/embeddings/position_embeddings": (config.max_position_embeddings, width),
        "bert/embeddings/token_type_embeddings": (config.type_vocab_size, width),
        f"{layer}/attention/self/query/kernel": (config.hidden_size, config.hidden_size),
        f"{layer}/intermediate/dense/kernel": (config.hidden_size, config.intermediate_size),
    }
    _refuse_other_shapes(checkpoint, {name: shape for name, shape in shapes.items() if name in checkpoint.names})


def load_weights(
    variables_by_name: Mapping[str, keras.Variable],
    checkpoint: Checkpoint | str | os.PathLike,
    allow_partial: bool = False,
    new_allowed: Sequence[str] = (),
    ignored: Sequence[str] = (),
) -> LoadReport:
    """Assigns the values of a checkpoint to the weights with the same names.

    Differs from the original BERT: a missing or unused weight is an error unless you allow it. The original BERT keeps
    the random values of a weight without a matching name, and reports nothing.

    Args:
        variables_by_name: dict of str to keras.Variable, see `weights_by_name`.
        checkpoint: Checkpoint, or a path for `open_checkpoint`. Training state (such as `adam_m`, `adam_v` and
            `global_step`) is ignored, except weights of a loss among the variables.
        allow_partial: bool; True: any weight may be missing or unused.
        new_allowed: fnmatch patterns, such as `POOLER_PATTERNS`, of weights that may be missing in the checkpoint; they
            keep their values.
        ignored: fnmatch patterns, such as `HEAD_PATTERNS`, of entries of the checkpoint that the model may lack.

    Returns:
        LoadReport.

    Raises:
        IncompleteMatchError: a weight is missing or unused, and that is not allowed. No weight is changed.
        ValueError: no name matches, or a weight has another shape or no floating type. No weight is changed. Or an
            entry is damaged; the weights before it are then changed.
    """
    if not isinstance(variables_by_name, Mapping):
        raise TypeError(f"the weights are of type {type(variables_by_name).__name__}; give weights_by_name(model)")
    if not isinstance(checkpoint, Checkpoint):
        checkpoint = open_checkpoint(checkpoint)
    held = [name for name in checkpoint.names if name in variables_by_name or not is_training_state(name)]
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


def _check_shapes(report: LoadReport, checkpoint: Checkpoint, variables_by_name: Mapping[str, keras.Variable]) -> None:
    if not report.loaded:
        reason = "it has none of the model's weights"
        if _OBJECT_GRAPH in checkpoint.names:
            reason = "it is an object-based checkpoint of TensorFlow 2, but a name-based one is needed"
        raise Mistake("{} cannot be loaded: {}", checkpoint.prefix, reason)
    _refuse_other_shapes(checkpoint, {name: tuple(variables_by_name[name].shape) for name in report.loaded})


def _refuse_other_shapes(checkpoint: Checkpoint, shapes: Mapping[str, tuple[int, ...]]) -> None:
    mismatches = [
        f"{name} is {list(checkpoint.shape(name))} in the checkpoint and {list(shape)} in the model"
        for name, shape in shapes.items()
        if checkpoint.shape(name) != shape
    ]
    if mismatches:
        raise Mistake(
            "{} does not fit the config: {}; take the config file that belongs to the checkpoint",
            checkpoint.prefix,
            _some(mismatches, "; "),
        )


def _check_types(report: LoadReport, checkpoint: Checkpoint) -> None:
    """Rejects weights that are not of a floating type, such as those of a quantised model."""
    wrong = [f"{name} is {dtype}" for name in report.loaded if (dtype := checkpoint.dtype(name)) not in _FLOATING_TYPES]
    if wrong:
        raise Mistake(
            "{} cannot be loaded: {}, and a weight must be one of {}; get the checkpoint in one of these types",
            checkpoint.prefix,
            _some(wrong),
            ", ".join(_FLOATING_TYPES),
        )


def _check_complete(report: LoadReport, num_weights: int, new_allowed: Sequence[str], ignored: Sequence[str]) -> None:
    if missing := _unmatched(report.new, new_allowed):
        raise IncompleteMatchError(
            "{} lacks {} of the model's {} weights: {}; take a checkpoint that has them, or the config file that "
            "belongs to this one",
            report.prefix,
            len(missing),
            num_weights,
            _some(missing),
        )
    if left := _unmatched(report.unused, ignored):
        raise IncompleteMatchError(
            "{} has {} weights that the model lacks: {}; {}", report.prefix, len(left), _some(left), _advice_on(left)
        )


def _advice_on(left: Sequence[str]) -> str:
    """Returns the reason why a model lacks weights, or what to do."""
    if any(name.endswith(("/lora_kernel_a", "/lora_kernel_b")) for name in left):
        return "they belong to LoRA; finish the run, whose folder model then holds the merged weights"
    if all(map(is_tied, left)):
        return (
            "BERT's masked-LM head uses the word embeddings instead, so this head cannot be used; use the encoder alone"
        )
    if not any(map(is_of_encoder, left)):
        return "they belong to other heads, which convert_checkpoint.py --head leaves out"
    return "take the config file that belongs to the checkpoint"


def _some(items: list[str], separator: str = ", ") -> str:
    more = [f"and {len(items) - _NUM_SHOWN} more"] if len(items) > _NUM_SHOWN else []
    return separator.join(items[:_NUM_SHOWN] + more)


def _unmatched(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
