"""Loads checkpoints into models, and checks that they fit."""

import dataclasses
import fnmatch
import functools
import glob
import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence

import keras
import numpy as np

from bert_keras.mistakes import Mistake, several, some_of
from bert_keras.modeling.checkpoints.files import Checkpoint, open_checkpoint
from bert_keras.modeling.checkpoints.names import POOLER_PATTERNS, is_of_encoder, is_tied, is_training_state
from bert_keras.modeling.config import BertConfig

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


class OneTokenType(Checkpoint):
    """A checkpoint for which the tokens of a second text have the type 0, as those of the first.

    It reads the first row of the table of types for each type. So these weights answer so in every program.
    """

    _TABLE = "bert/embeddings/token_type_embeddings"

    def __init__(self, checkpoint: Checkpoint) -> None:
        super().__init__(checkpoint.prefix, checkpoint)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = super().shape(name)
        return (max(2, shape[0]), *shape[1:]) if name == self._TABLE else shape

    def read(self, name: str) -> np.ndarray:
        value = super().read(name)
        return np.repeat(value[:1], self.shape(name)[0], axis=0) if name == self._TABLE else value

    @functools.cached_property
    def config(self) -> BertConfig | None:
        config = super().config
        if config is None or self._TABLE not in self.names:
            return config
        return dataclasses.replace(config, type_vocab_size=max(2, config.type_vocab_size))


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
    """Returns patterns for `load_weights(ignored=...)` of the entries of heads that a model with these weights lacks.

    Heads that this project does not know count, too: an entry outside the encoder cannot change the encoder's outputs.
    A projection that is not tied to the word embeddings belongs to the masked-LM head.
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
    if layers and len(layers) != config.num_layers_of_weights:
        raise Mistake(
            "{} has {}, but num_hidden_layers in the config is {}; take the config file that belongs to the checkpoint",
            *(checkpoint.prefix, several(len(layers), "encoder layers"), config.num_hidden_layers),
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


def load_all_weights(
    model: keras.Model, checkpoint: Checkpoint, new_allowed: Sequence[str] = (), has_other_heads: bool = True
) -> LoadReport:
    """Loads all weights of a model, see `load_weights`, from a checkpoint that may have other heads.

    A model for tokens needs no pooler: DistilBERT and ELECTRA have none in classes that do not use it.
    """
    weights = weights_by_name(model)
    ignored = entries_of_other_heads(checkpoint, weights) if has_other_heads else ()
    unused = POOLER_PATTERNS if getattr(model, "is_per_token", False) else ()
    return load_weights(weights, checkpoint, new_allowed=(*new_allowed, *unused), ignored=ignored)


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
            some_of(mismatches, _NUM_SHOWN, "; "),
        )


def _check_types(report: LoadReport, checkpoint: Checkpoint) -> None:
    """Rejects weights that are not of a floating type, such as those of a quantised model."""
    wrong = [f"{name} is {dtype}" for name in report.loaded if (dtype := checkpoint.dtype(name)) not in _FLOATING_TYPES]
    if wrong:
        raise Mistake(
            "{} cannot be loaded: {}, and a weight must be one of {}; get the checkpoint in one of these types",
            checkpoint.prefix,
            some_of(wrong, _NUM_SHOWN),
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
            some_of(missing, _NUM_SHOWN),
        )
    if left := _unmatched(report.unused, ignored):
        raise IncompleteMatchError(
            "{} has {} weights that the model lacks: {}; {}",
            report.prefix,
            len(left),
            some_of(left, _NUM_SHOWN),
            _advice_on(left),
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


def _unmatched(names: Iterable[str], patterns: Sequence[str]) -> list[str]:
    return [name for name in names if not any(fnmatch.fnmatchcase(name, pattern) for pattern in patterns)]
