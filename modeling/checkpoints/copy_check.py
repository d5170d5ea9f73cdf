"""The check of a converted checkpoint: the same bits, and the same outputs of the network.

Axes: B batch, T tokens, H hidden, P predictions.
"""

import logging
import os
from collections.abc import Mapping

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.conversion import Contents
from bert_keras.modeling.checkpoints.files import Checkpoint, open_checkpoint
from bert_keras.modeling.checkpoints.loading import load_weights, weights_by_name
from bert_keras.modeling.checkpoints.names import LINEAR_HEADS
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.heads import MaskedLmHead, ReplacedTokenHead, SpanBoundaryHead
from bert_keras.modeling.number_format import dtype_policy

log = logging.getLogger("bert_keras")

_PARTS = ("weights", "bias")
# Heads with a fixed number of classes.
_NUM_CLASSES = {"next_sentence": 2, "squad": 2, "multiple_choice": 1}
# Identical weights give identical outputs, except for the order in which threads add numbers.
_TOLERANCE = 1e-5


def check_copy(folder: str | os.PathLike, contents: Contents, computed: Mapping[str, np.ndarray]) -> float:
    """Compares the files that `write_contents` wrote with the input; returns the largest difference of the outputs.

    Raises:
        ValueError: an entry does not have the same bits, the config differs, or the outputs differ by more than 1e-5
            from `computed`, the result of `run_network` on the input.
    """
    checkpoint = open_checkpoint(folder)
    if differing := _differing_entries(contents.checkpoint, checkpoint):
        raise Mistake("the written entries differ from the input in {}; nothing is kept", ", ".join(differing[:5]))
    if checkpoint.config != contents.config:
        raise Mistake("the written config is {}, not {}; nothing is kept", checkpoint.config, contents.config)
    # The heads of the input: a TensorFlow checkpoint does not tell top-level heads apart.
    copy = Contents(checkpoint, contents.heads, contents.config)
    difference = largest_difference(computed, run_network(copy))
    log.info(
        "read back: all %d entries have the same bits; on a fixed input %s differ by at most %g",
        len(checkpoint.names),
        ", ".join(computed),
        difference,
    )
    if not difference <= _TOLERANCE:  # so that NaN fails, too
        raise Mistake("the outputs of the written network differ by {:g}; nothing is kept", difference)
    return difference


def _differing_entries(first: Checkpoint, second: Checkpoint) -> list[str]:
    """Returns the sorted names of entries that are not in both checkpoints or not bit-identical."""
    common = set(first.names) & set(second.names)
    differing = [name for name in common if not _is_same(first.read(name), second.read(name))]
    return sorted(differing + list(set(first.names) ^ set(second.names)))


def _is_same(first: np.ndarray, second: np.ndarray) -> bool:
    return first.dtype == second.dtype and first.shape == second.shape and first.tobytes() == second.tobytes()


def run_network(contents: Contents) -> dict[str, np.ndarray]:
    """Runs the network with all its heads on a fixed input, the same for all models of the same sizes.

    Returns a dict of "sequence_output" float32 [B, T, H], "pooled_output" [B, H] if the checkpoint has a pooler, and
    the logits of each head under its name. Raises ValueError if the weights do not match the config and the heads.
    """
    for head in contents.heads:
        _check_head(head, contents)
    with dtype_policy("float32"):
        return _outputs_of(contents)


def _outputs_of(contents: Contents) -> dict[str, np.ndarray]:
    bert = BertModel(contents.config)
    weights = weights_by_name(bert)
    has_pooler = any(name.startswith("bert/pooler/") for name in contents.checkpoint.names)
    if not has_pooler:
        # Models for masked words only are saved without the pooler.
        weights = {name: weight for name, weight in weights.items() if not name.startswith("bert/pooler/")}
    masked_lm = MaskedLmHead(contents.config) if "masked_lm" in contents.heads else None
    replaced_token = ReplacedTokenHead(contents.config) if "replaced_token" in contents.heads else None
    span_boundary = SpanBoundaryHead(contents.config) if "span_boundary" in contents.heads else None
    for head in (masked_lm, replaced_token, span_boundary):
        weights |= weights_by_name(head) if head is not None else {}
    linear = [LINEAR_HEADS[head][0] + part for head in contents.heads if head in LINEAR_HEADS for part in _PARTS]
    load_weights(weights, contents.checkpoint, ignored=linear)
    inputs, positions = _fixed_input(contents.config)
    encoded = bert(**inputs)
    outputs = {"sequence_output": np.asarray(encoded["sequence_output"])}
    if has_pooler:
        outputs["pooled_output"] = np.asarray(encoded["pooled_output"])
    if masked_lm is not None:
        logits = masked_lm(encoded["sequence_output"], positions, bert.embedding_table)
        outputs["masked_lm"] = np.asarray(logits)
    if span_boundary is not None:
        around = (positions, positions * 0, positions * 0 + 1)
        logits = span_boundary(encoded["sequence_output"], *around, embedding_table=bert.embedding_table)
        outputs["span_boundary"] = np.asarray(logits)
    if replaced_token is not None:
        outputs["replaced_token"] = np.asarray(replaced_token(encoded["sequence_output"]))
    for head in contents.heads:
        if head in LINEAR_HEADS:
            prefix, on = LINEAR_HEADS[head]
            kernel, bias = (contents.checkpoint.read(prefix + part) for part in _PARTS)
            outputs[head] = outputs[on] @ kernel.T + bias
    return outputs


def _check_head(head: str, contents: Contents) -> None:
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
        raise Mistake(
            "{} has no head {} that can be converted: {}, and they must be {}; get the checkpoint again",
            checkpoint.prefix,
            head,
            " and ".join(found),
            " and ".join(_in_words(shape) for shape in needed),
        )


def _in_words(shape: tuple[int | str, ...] | None) -> str:
    return "missing" if shape is None else f"[{', '.join(map(str, shape))}]"


def largest_difference(first: Mapping[str, np.ndarray], second: Mapping[str, np.ndarray]) -> float:
    """Returns the largest absolute difference of two results of `run_network`; two NaN count as equal."""
    differences = [
        np.max(np.where(np.isnan(first[name]) & np.isnan(second[name]), 0, np.abs(first[name] - second[name])))
        for name in first
    ]
    return float(np.max(differences))


def _fixed_input(config: BertConfig) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """Makes two random sequences of different lengths, int32 [B, T], and masked positions, int32 [B, P]."""
    random = np.random.default_rng(1)
    num_tokens = min(16, config.max_position_embeddings)
    input_mask = (np.arange(num_tokens) < [[num_tokens], [max(1, num_tokens // 2)]]).astype(np.int32)
    shape = input_mask.shape
    inputs = {
        "input_ids": random.integers(0, config.vocab_size, shape, dtype=np.int32) * input_mask,
        "input_mask": input_mask,
        "segment_ids": random.integers(0, max(1, config.type_vocab_size), shape, dtype=np.int32) * input_mask,
    }
    return inputs, random.integers(0, num_tokens, (len(input_mask), 3), dtype=np.int32)
