"""Conversion of checkpoints between formats: selects the entries, writes them, and compares the copy with the input.

Axes: B batch, T tokens, H hidden, P predictions, V vocabulary.
"""

import collections.abc
import dataclasses
import fnmatch
import logging
import re

import numpy as np

from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.loading import Checkpoint, load_weights, open_checkpoint, weights_by_name
from bert_keras.modeling.checkpoints.names import (
    HEAD_PATTERNS,
    architecture_of,
    is_tied,
    is_training_state,
    weight_of,
)
from bert_keras.modeling.checkpoints.safetensors_format import save_safetensors
from bert_keras.modeling.checkpoints.tensorflow_format import save_checkpoint
from bert_keras.modeling.config import LAYER_NORM_EPS, BertConfig
from bert_keras.modeling.heads import MaskedLmHead
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# Heads that are one linear layer: the prefix of their weights and the network output that they use.
LINEAR_HEADS = {
    "next_sentence": ("cls/seq_relationship/output_", "pooled_output"),
    "squad": ("cls/squad/output_", "sequence_output"),
    "classifier": ("output_", "pooled_output"),
    "multiple_choice": ("output_", "pooled_output"),
    "token_classifier": ("output_", "sequence_output"),
}
_PARTS = ("weights", "bias")
# Heads with a fixed number of classes.
_NUM_CLASSES = {"next_sentence": 2, "squad": 2, "multiple_choice": 1}
# The weights of these heads have the same names in a TensorFlow checkpoint.
TOP_LEVEL_HEADS = ("classifier", "multiple_choice", "token_classifier")
# Entries with a row or a number for each token of the vocabulary.
_TABLES_OF_PIECES = re.compile(r"(bert/embeddings/word_embeddings|cls/predictions/output_bias)(/adam_[mv])?")


@dataclasses.dataclass
class Contents:
    """A checkpoint with all that is needed to write it.

    Attributes:
        checkpoint: Checkpoint; all its entries are written.
        heads: tuple of the heads it has, see `Checkpoint.heads`.
        config: BertConfig.
        labels: list of str, the class names of its head, or None.
    """

    checkpoint: Checkpoint
    heads: tuple
    config: BertConfig
    labels: list | None = None


class SelectedEntries:
    """A view of a checkpoint without the entries of other heads or of the training state.

    Unknown entries stay, so that `load_weights` rejects them instead of losing them.

    Args:
        checkpoint: Checkpoint.
        heads: tuple of the heads to keep; None: all heads.
        with_training_state: bool; True: keep Adam's slots, the step and the loss scale.
    """

    def __init__(self, checkpoint, heads=None, with_training_state=False):
        self.names = [
            name
            for name in checkpoint.names
            if (heads is None or not _is_of_some_head(name) or any(_is_of(head, name) for head in heads))
            and (with_training_state or not is_training_state(name))
        ]
        self.shape = checkpoint.shape
        self.dtype = checkpoint.dtype
        self.read = checkpoint.read


class ExtendedEntries:
    """A view of a checkpoint with new or changed rows in its vocabulary tables, each the mean of other rows.

    Args:
        checkpoint: Checkpoint.
        num_rows: rows of the tables, at least as many as in the checkpoint.
        sources: dict from the number of a row to the numbers of the rows to average; it must contain every new row.
            Adam's slots of these rows become 0.
    """

    def __init__(self, checkpoint, num_rows, sources):
        self.names = checkpoint.names
        self.dtype = checkpoint.dtype
        self._checkpoint = checkpoint
        self._num_rows = num_rows
        self._sources = sources

    def shape(self, name):
        """Returns the shape of an entry, a tuple of ints."""
        shape = self._checkpoint.shape(name)
        return (self._num_rows, *shape[1:]) if _TABLES_OF_PIECES.fullmatch(name) else shape

    def read(self, name):
        """Returns the value of an entry, a NumPy array."""
        value = self._checkpoint.read(name)
        if not _TABLES_OF_PIECES.fullmatch(name):
            return value
        table = np.zeros((self._num_rows, *value.shape[1:]), value.dtype)
        table[: len(value)] = value
        for row, pieces in self._sources.items():
            table[row] = 0 if is_training_state(name) else value[list(pieces)].mean(axis=0, dtype=np.float64)
        return table


class _Tensors(collections.abc.Mapping):
    """The values of a checkpoint by name. Each access reads the value, to save memory."""

    def __init__(self, checkpoint):
        self._checkpoint = checkpoint

    def __getitem__(self, name):
        return self._checkpoint.read(name)

    def __contains__(self, name):
        return name in self._checkpoint.names

    def __iter__(self):
        return iter(self._checkpoint.names)

    def __len__(self):
        return len(self._checkpoint.names)


def write_contents(contents, folder, format_):
    """Writes weights and config: `bert_model.ckpt` and `bert_config.json`, or `model.safetensors` and `config.json`.

    Args:
        contents: Contents.
        folder: path of a folder.
        format_: "tensorflow" or "safetensors".
    """
    config, tensors = contents.config, _Tensors(contents.checkpoint)
    if format_ == "safetensors":
        save_safetensors(folder, tensors, config, architecture_of(contents.heads), labels=contents.labels)
        return
    save_checkpoint(paths.join(folder, "bert_model.ckpt"), tensors)
    config.to_json_file(paths.join(folder, "bert_config.json"))
    if config.hidden_act == "gelu_erf" or config.layer_norm_eps != LAYER_NORM_EPS:
        log.warning(
            "hidden_act is %s and layer_norm_eps %g: the original BERT has only the tanh form of gelu and 1e-12, so it "
            "cannot run this model; bert-keras can",
            config.hidden_act,
            config.layer_norm_eps,
        )


def open_contents(folder, heads):
    """Opens the output of `write_contents` for a comparison.

    Args:
        folder: path of the folder.
        heads: the written heads; a TensorFlow checkpoint does not tell the top-level heads apart.

    Returns:
        Contents.
    """
    checkpoint = open_checkpoint(folder)
    return Contents(checkpoint, heads, checkpoint.config, checkpoint.labels)


def differing_entries(first, second):
    """Returns a sorted list of the names of entries that are not in both checkpoints or not bit-identical."""
    common = set(first.names) & set(second.names)
    differing = [name for name in common if not _is_same(first.read(name), second.read(name))]
    return sorted(differing + list(set(first.names) ^ set(second.names)))


def run_network(contents):
    """Runs the network with all its heads on a fixed input, the same for all models of the same sizes.

    Args:
        contents: Contents.

    Returns:
        dict of "sequence_output" float32 [B, T, H], "pooled_output" [B, H] if the checkpoint has a pooler, and the
        logits of each head under its name.

    Raises:
        ValueError: the names or shapes of the weights do not match the config and the heads.
    """
    for head in contents.heads:
        _check_head(head, contents)
    bert = BertModel(contents.config)
    weights = weights_by_name(bert)
    has_pooler = any(name.startswith("bert/pooler/") for name in contents.checkpoint.names)
    if not has_pooler:
        # Models for masked words only are saved without the pooler.
        weights = {name: weight for name, weight in weights.items() if not name.startswith("bert/pooler/")}
    masked_lm = MaskedLmHead(contents.config) if "masked_lm" in contents.heads else None
    if masked_lm is not None:
        weights |= weights_by_name(masked_lm)
    linear = [LINEAR_HEADS[head][0] + part for head in contents.heads if head in LINEAR_HEADS for part in _PARTS]
    load_weights(weights, contents.checkpoint, ignored=linear)
    features = _fixed_input(contents.config)
    encoded = bert(features["input_ids"], features["input_mask"], features["segment_ids"])
    outputs = {"sequence_output": np.asarray(encoded["sequence_output"])}
    if has_pooler:
        outputs["pooled_output"] = np.asarray(encoded["pooled_output"])
    if masked_lm is not None:
        logits = masked_lm(encoded["sequence_output"], features["masked_lm_positions"], bert.embedding_table)
        outputs["masked_lm"] = np.asarray(logits)
    for head in contents.heads:
        if head in LINEAR_HEADS:
            beginning, on = LINEAR_HEADS[head]
            kernel, bias = (contents.checkpoint.read(beginning + part) for part in _PARTS)
            outputs[head] = outputs[on] @ kernel.T + bias
    return outputs


def _check_head(head, contents):
    """Rejects a linear head unless its weights are [C, H] and [C], with the C that the head needs."""
    if head not in LINEAR_HEADS:
        return
    checkpoint = contents.checkpoint
    names = [LINEAR_HEADS[head][0] + part for part in _PARTS]
    shapes = [checkpoint.shape(name) if name in checkpoint.names else None for name in names]
    num_classes = _NUM_CLASSES.get(head) or (shapes[0][0] if shapes[0] else "C")
    needed = [(num_classes, contents.config.hidden_size), (num_classes,)]
    if shapes != needed:
        found = [f"{name} is {_in_words(shape)}" for name, shape in zip(names, shapes, strict=True)]
        raise ValueError(
            f"{checkpoint.prefix} has no head {head} that can be converted: {' and '.join(found)}, and they must be "
            f"{' and '.join(_in_words(shape) for shape in needed)}; get the checkpoint again"
        )


def _in_words(shape):
    return "missing" if shape is None else f"[{', '.join(map(str, shape))}]"


def largest_difference(first, second):
    """Returns the largest absolute difference of two results of `run_network`, a float.

    Two NaN have the difference 0; a NaN and a number have the difference NaN.
    """
    differences = [
        np.max(np.where(np.isnan(first[name]) & np.isnan(second[name]), 0, np.abs(first[name] - second[name])))
        for name in first
    ]
    return float(np.max(differences))


def _fixed_input(config):
    """Makes two random sequences of different lengths, int32 [B, T], and masked positions, int32 [B, P]."""
    random = np.random.default_rng(1)
    num_tokens = min(16, config.max_position_embeddings)
    input_mask = (np.arange(num_tokens) < [[num_tokens], [max(1, num_tokens // 2)]]).astype(np.int32)
    shape = input_mask.shape
    return {
        "input_ids": random.integers(0, config.vocab_size, shape, dtype=np.int32) * input_mask,
        "input_mask": input_mask,
        "segment_ids": random.integers(0, config.type_vocab_size, shape, dtype=np.int32) * input_mask,
        "masked_lm_positions": random.integers(0, num_tokens, (len(input_mask), 3), dtype=np.int32),
    }


def _is_of_some_head(name):
    return is_tied(name) or any(fnmatch.fnmatchcase(weight_of(name), pattern) for pattern in HEAD_PATTERNS)


def _is_of(head, name):
    """Returns whether an entry belongs to the head; untied projections belong to the masked-LM head."""
    if head == "masked_lm":
        return is_tied(name) or name.startswith("cls/predictions/")
    return name.startswith(LINEAR_HEADS[head][0])


def _is_same(first, second):
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()
