"""Conversion of checkpoints between formats: selects the entries, adds rows for new words, and writes the copy."""

import copy
import dataclasses
import logging
import os
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.mistakes import Message, Mistake, Setting, check_names
from bert_keras.modeling.checkpoints.families import BERT, check_pooled_token, family_of
from bert_keras.modeling.checkpoints.files import Checkpoint, Tensors
from bert_keras.modeling.checkpoints.loading import check_config, check_sizes
from bert_keras.modeling.checkpoints.names import (
    LINEAR_HEADS,
    TOP_LEVEL_HEADS,
    architecture_of,
    is_of_encoder,
    is_of_head,
    is_of_some_head,
    is_state_of_run,
    is_training_state,
    to_hugging_face,
    weight_of,
)
from bert_keras.modeling.checkpoints.safetensors_format import save_safetensors
from bert_keras.modeling.checkpoints.tensorflow_format import save_checkpoint
from bert_keras.modeling.config import LAYER_NORM_EPS, BertConfig
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# Entries with a row or a number for each token of the vocabulary, and those of a layer; also those of a network that
# only a loss has, such as ELECTRA's generator, and their slots.
_VOCABULARY_TABLES = re.compile(
    r"(.+/)?(embeddings/word_embeddings|cls/(predictions|span_boundary)/output_bias)(/\w+)?"
)
_LAYER = re.compile(r"(.+/encoder/layer_)(\d+)(?=/)")


@dataclasses.dataclass
class Contents:
    """A checkpoint with all that is needed to write it.

    Attributes:
        checkpoint: all its entries are written.
        heads: those it has, see `Checkpoint.heads`.
        config: of its network.
        labels: the class names of its head, or None.
        problem_type: how other libraries make probabilities of a classifier's logits, or None.
    """

    checkpoint: Checkpoint
    heads: tuple[str, ...]
    config: BertConfig
    labels: list[str] | None = None
    problem_type: str | None = None


def without_other_entries(
    checkpoint: Checkpoint, heads: Collection[str] | None = None, with_training_state: bool = False
) -> Checkpoint:
    """Returns a checkpoint without the entries of other heads (None: all heads stay) or of the training state.

    Unknown entries stay, so that `load_weights` rejects them instead of losing them.
    """
    selected = copy.copy(checkpoint)
    selected.names = [
        name
        for name in checkpoint.names
        if (heads is None or not is_of_some_head(name) or any(is_of_head(head, name) for head in heads))
        and (with_training_state or not is_training_state(name))
    ]
    return selected


def _entries_of_unknown_heads(checkpoint: Checkpoint) -> list[str]:
    """Returns the names of entries outside the encoder and its known heads, other than training state."""
    return [
        name
        for name in checkpoint.names
        if not is_of_encoder(weight_of(name)) and not is_of_some_head(name) and not is_state_of_run(name)
    ]


class _ExtendedCheckpoint(Checkpoint):
    """A checkpoint with new or changed rows in its vocabulary tables.

    `sources` maps the number of such a row to the numbers of the rows whose mean it starts as. Adam's slots start at 0.
    """

    def __init__(self, checkpoint: Checkpoint, num_rows: int, sources: Mapping[int, Sequence[int]]) -> None:
        super().__init__(checkpoint.prefix, reader=checkpoint)
        self._num_rows = num_rows
        self._sources = sources

    def shape(self, name: str) -> tuple[int, ...]:
        shape = super().shape(name)
        return (self._num_rows, *shape[1:]) if _VOCABULARY_TABLES.fullmatch(name) else shape

    def read(self, name: str) -> np.ndarray:
        value = super().read(name)
        if not _VOCABULARY_TABLES.fullmatch(name):
            return value
        table = np.zeros((self._num_rows, *value.shape[1:]), value.dtype)
        table[: len(value)] = value
        for row, averaged in self._sources.items():
            is_slot = name.endswith(("/adam_m", "/adam_v"))
            table[row] = 0 if is_slot else value[list(averaged)].mean(axis=0, dtype=np.float64)
        return table


class _CheckpointOfLayers(Checkpoint):
    """A checkpoint with some of the encoder layers of another, numbered from 0 again."""

    def __init__(self, checkpoint: Checkpoint, layers: Sequence[int]) -> None:
        super().__init__(checkpoint.prefix, reader=checkpoint)
        self._sources = {}
        for name in checkpoint.names:
            match = _LAYER.match(name)
            if match is None:
                self._sources[name] = name
            for number, layer in enumerate(layers):
                if match and int(match[2]) == layer - 1:
                    self._sources[f"{match[1]}{number}{name[match.end() :]}"] = name
        self.names = sorted(self._sources)

    def shape(self, name: str) -> tuple[int, ...]:
        return super().shape(self._sources[name])

    def dtype(self, name: str) -> str:
        return super().dtype(self._sources[name])

    def read(self, name: str) -> np.ndarray:
        return super().read(name) if name not in self._sources else self._reader.read(self._sources[name])


def check_labels(labels: Sequence[str] | None) -> None:
    """Rejects empty and repeated names of classes."""
    if labels is not None:
        check_names(labels or [""], Setting("labels"))


def select(
    checkpoint: Checkpoint,
    config: BertConfig | None,
    format_: str,
    head: str | None,
    keep_optimizer: bool,
    task: str | None = None,
    head_of_task: str | None = None,
) -> Contents:
    """Selects the parts of a checkpoint to write, as Contents.

    Args:
        checkpoint: the input.
        config: of its network, or None if there is none.
        format_: "tensorflow" or "safetensors".
        head: the one head to keep, "none" for the encoder alone, or None for all heads.
        keep_optimizer: whether to keep the training state.
        task, head_of_task: the task that the model was fine-tuned for and the head of that task, or None.
    """
    if config is None:
        raise Mistake("{} has no config next to it; give the {bert_config_file} that belongs to it", checkpoint.prefix)
    check_config(config, checkpoint)
    check_sizes(config, checkpoint)
    if head_of_task and head in TOP_LEVEL_HEADS and head != head_of_task:
        raise Mistake(
            "{head}={}: {} was trained for {} and has the head {}, as task.json says; leave the flag out",
            head,
            checkpoint.prefix,
            task,
            head_of_task,
        )
    if head is not None:
        heads = _chosen_heads(checkpoint, head)
    else:
        # The weight names in a TensorFlow checkpoint do not identify the type of its head, but the task does.
        heads = tuple(head_of_task if head_of_task and name in TOP_LEVEL_HEADS else name for name in checkpoint.heads)
    kept = heads if head else None
    selected = without_other_entries(checkpoint, kept, keep_optimizer)
    if unknown := _entries_of_unknown_heads(selected):
        if head is None:
            raise Mistake(
                "{} has heads that bert-keras does not know: {}; give {head}=none to leave out all heads, or "
                "{head} with one of {}",
                checkpoint.prefix,
                unknown,
                ["masked_lm", *LINEAR_HEADS],
            )
        log.info(Message("left out, by {head}={}: {}", head, ", ".join(unknown)))
        selected.names = [name for name in selected.names if name not in unknown]
    if format_ == "safetensors":
        family = family_of(config)
        architecture_of(heads, family)  # refuses combinations of heads that no class has
        check_pooled_token(config, heads, checkpoint.prefix)
        poolers = [name for name in selected.names if name.startswith("bert/pooler/")]
        if poolers and to_hugging_face(poolers[0], family=family, heads=heads) is None:
            log.info("left out the pooler: %s has none in the Hugging Face layout", architecture_of(heads, family))
            selected.names = [name for name in selected.names if name not in poolers]
    if keep_optimizer and selected.names == without_other_entries(checkpoint, kept).names:
        raise Mistake("{keep_optimizer}: {} holds only weights; leave the flag out", checkpoint.prefix)
    left_out = sorted(set(checkpoint.heads) - set(heads)) if head and head not in TOP_LEVEL_HEADS else []
    if left_out:
        log.info(Message("left out, by {head}={}: {}", head, ", ".join(left_out)))
    return Contents(selected, heads, config)


def _chosen_heads(checkpoint: Checkpoint, head: str) -> tuple[str, ...]:
    if head == "none":
        return ()
    if head == "multiple_choice" and "output_bias" in checkpoint.names and checkpoint.shape("output_bias") != (1,):
        raise Mistake(
            "{head}={}: the head of {} has {} classes, and a choice has one score; choose classifier or "
            "token_classifier",
            head,
            checkpoint.prefix,
            checkpoint.shape("output_bias")[0],
        )
    # Without a task, only the user knows the type of a top-level head in a TensorFlow checkpoint.
    is_top_level = head in TOP_LEVEL_HEADS and set(TOP_LEVEL_HEADS) & set(checkpoint.heads)
    if head in checkpoint.heads or is_top_level:
        return (head,)
    held = f"its heads are {', '.join(checkpoint.heads)}" if checkpoint.heads else "it has none"
    raise Mistake("{head}={}: {} has no such head, {}; choose what is there, or none", head, checkpoint.prefix, held)


def extend(contents: Contents, extended: Any) -> Contents:
    """Returns Contents with a row for each added word, the mean of the rows of its former pieces; logs the words.

    Args:
        contents: those of the checkpoint.
        extended: `ExtendedVocabulary` of data_prep.
    """
    if extended.present:
        log.info("in the vocabulary already (%d): %s", len(extended.present), ", ".join(extended.present))
    for word in extended.added:
        pieces = " ".join(extended.tokens[number] for number in word.piece_ids)
        place = word.slot or "a new row"
        log.info('added "%s": id %d, %s; starts as the mean of %s', word.word, word.id, place, pieces)
    # A padded table has rows without a token, which come first.
    num_rows, num_added = max(len(extended.tokens), contents.config.vocab_size), len(extended.added)
    num_slots = sum(word.slot is not None for word in extended.added)
    log.info(
        "%d words added: %d in [unused] places, %d as new rows; the vocabulary has %d entries",
        num_added,
        num_slots,
        num_added - num_slots,
        len(extended.tokens),
    )
    sources = {word.id: word.piece_ids for word in extended.added}
    return dataclasses.replace(
        contents,
        checkpoint=_ExtendedCheckpoint(contents.checkpoint, num_rows, sources),
        config=dataclasses.replace(contents.config, vocab_size=num_rows),
    )


def keep_layers(contents: Contents, layers: Sequence[str]) -> Contents:
    """Returns Contents with some encoder layers only: a list of their numbers from 1, as text, in their new order."""
    num_layers = contents.config.num_hidden_layers
    checkpoint = contents.checkpoint
    chosen = [int(layer) if layer.strip().isdecimal() else 0 for layer in layers]
    if not chosen or not all(0 < layer <= num_layers for layer in chosen):
        raise Mistake(
            "{layers}={} must be numbers from 1 to {}, the layers of {}, with commas between them",
            ",".join(layers),
            num_layers,
            checkpoint.prefix,
        )
    return dataclasses.replace(
        contents,
        # The layers of ALBERT share their weights, so only the depth changes.
        checkpoint=checkpoint if contents.config.has_shared_layers else _CheckpointOfLayers(checkpoint, chosen),
        config=dataclasses.replace(contents.config, num_hidden_layers=len(chosen)),
    )


def write_contents(contents: Contents, folder: str | os.PathLike, format_: str) -> None:
    """Writes weights and config: `bert_model.ckpt` and `bert_config.json`, or `model.safetensors` and `config.json`."""
    config, tensors = contents.config, Tensors(contents.checkpoint)
    if format_ == "safetensors":
        architecture = architecture_of(contents.heads, family_of(config))
        save_safetensors(folder, tensors, config, architecture, contents.labels, contents.problem_type)
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
    if config.is_decoder or not BERT.fits(config):
        log.warning("the config has values that the original BERT lacks, so it cannot run this model; bert-keras can")


def log_lost_facts(contents: Contents) -> None:
    """Logs the facts that a TensorFlow checkpoint without a task.json cannot store."""
    if contents.labels:
        log.warning("a TensorFlow checkpoint cannot store the names of classes: %s", ",".join(contents.labels))
    if contents.problem_type:
        log.warning("a TensorFlow checkpoint cannot store the problem_type: %s", contents.problem_type)
    for head in {"token_classifier", "multiple_choice"} & set(contents.heads):
        log.info(
            Message("a TensorFlow checkpoint does not store the type of its head: convert it back with {head}={}", head)
        )
