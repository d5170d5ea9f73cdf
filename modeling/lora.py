"""LoRA: trains two small matrices for a kernel instead of the kernel (Hu et al. 2021, "LoRA").

The dense layers of Keras compute with the kernel W + alpha / rank * A B, where W [in, out] is frozen, and A [in, rank]
and B [rank, out] are trained. B starts at 0, so the network first computes the same as before. This module chooses the
layers, freezes the rest of the encoder, and reads and writes adapters: files with only the trained weights. The network
does not know of it.

In a checkpoint, A and B have the names of their kernel with the endings `lora_kernel_a` and `lora_kernel_b`.
"""

import contextlib
import gc
import hashlib
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import keras
import numpy as np
from keras import ops
from safetensors.numpy import save

from bert_keras.mistakes import Mistake, Setting
from bert_keras.modeling.bert import BertModel
from bert_keras.modeling.checkpoints.loading import weights_by_name
from bert_keras.modeling.checkpoints.safetensors_format import open_tensors
from bert_keras.modeling.layers import next_seed
from bert_keras.settings.choices import DEFAULT_LORA_TARGETS, LORA_TARGETS
from bert_keras.storage import writing

# The dense layer of each target in an encoder layer.
_DENSE = {
    "query": lambda layer: layer.self_attention.query,
    "key": lambda layer: layer.self_attention.key,
    "value": lambda layer: layer.self_attention.value,
    "attention_output": lambda layer: layer.attention_output.dense,
    "intermediate": lambda layer: layer.intermediate,
    "output": lambda layer: layer.feed_forward_output.dense,
}
_METADATA = "lora"


def enable_lora(
    model: keras.Model,
    rank: int,
    alpha: float | None = None,
    targets: Sequence[str] = DEFAULT_LORA_TARGETS,
    also_trained: Iterable[str] = ("pooler/",),
) -> None:
    """Adds A and B to dense layers of the encoder, and freezes its other weights. Compile the model after it.

    Weights outside the encoder, such as those of a task's head, stay trainable.

    Args:
        model: BertModel, or a Keras model with one or several among its layers. Load its checkpoint first.
        rank: int, the number of columns of A; the paper gets good results with 1 to 8.
        alpha: float, the strength of the product; None: `rank`. With another rank and the same alpha, the same learning
            rate often works.
        targets: names of `LORA_TARGETS`: the dense layers to adapt in each encoder layer.
        also_trained: regular expressions; a weight of the encoder stays trainable if one of them is found in its name,
            such as "bias" or "LayerNorm". The pooler counts as a part of the head.

    Raises:
        ValueError: the model has no BertModel or has LoRA already, or an argument is not possible.
    """
    alpha = rank if alpha is None else alpha
    targets = (targets,) if isinstance(targets, str) else targets
    _check(model, rank, alpha, targets)
    for encoder in _encoders_of(model):
        for name, weight in weights_by_name(encoder).items():
            weight.trainable = any(re.search(pattern, name) for pattern in also_trained)
    for dense in _layers(model, targets):
        # The product of A with a normalised vector has elements of about the same size as the vector.
        start = keras.initializers.VarianceScaling(1.0, "fan_in", "untruncated_normal", next_seed())
        dense.enable_lora(rank, alpha, a_initializer=start)


def has_lora(model: keras.Model) -> bool:
    """Returns whether a model has the weights of LoRA."""
    return bool(_adapted_layers(model))


def merge_lora(model: keras.Model) -> None:
    """Adds A B to the kernels, removes A and B, and makes all weights trainable. The outputs stay the same.

    Compile the model after it. A model without LoRA does not change.
    """
    adapted = _adapted_layers(model)
    if not adapted:
        return
    for dense in adapted:
        _kernel(dense).assign(_merged_kernel(dense))
    with _frozen_objects():
        for dense in adapted:
            del dense.lora_kernel_a, dense.lora_kernel_b
            dense.lora_enabled, dense.lora_rank, dense.lora_alpha = False, None, None
    for encoder in _encoders_of(model):
        for weight in encoder.weights:
            weight.trainable = True


def merged_weights(model: keras.Model) -> dict[str, Any]:
    """Returns the weights that a model without LoRA needs for the same outputs: `weights_by_name` with merged kernels.

    The model does not change. The values are tensors and variables of the backend.
    """
    adapted = {id(_kernel(dense)): dense for dense in _adapted_layers(model)}
    return {
        name: _merged_kernel(adapted[id(weight)]) if id(weight) in adapted else weight.value
        for name, weight in weights_by_name(model).items()
        if not name.endswith(("/lora_kernel_a", "/lora_kernel_b"))
    }


def save_lora(model: keras.Model, file: str | os.PathLike, base: str | None = None) -> None:
    """Writes an adapter: the trained weights of a model with LoRA, as a safetensors file.

    Args:
        model: a model with LoRA.
        file: path, such as "adapter.safetensors"; an existing file is replaced.
        base: str for the readers of the file: the model that the adapter belongs to, such as "hf://owner/name".

    Raises:
        ValueError: the model has no LoRA.
        OSError: the file cannot be written.
    """
    writing.write_bytes(file, adapter_bytes(model, base))


def adapter_bytes(model: keras.Model, base: str | None = None) -> bytes:
    """Returns the content of the file that `save_lora` writes."""
    adapted = _adapted_layers(model)
    if not adapted:
        raise ValueError(f"{model.name} has no LoRA to save; call enable_lora and train it first")
    weights = weights_by_name(model)
    facts = {
        "rank": adapted[0].lora_rank,
        "alpha": adapted[0].lora_alpha,
        "targets": [target for target in LORA_TARGETS if _layers(model, [target])[0].lora_enabled],
        "base": base,
        "base_sha256": _digest(weights, [_kernel(dense) for dense in adapted]),
    }
    arrays = {name: _array(weight) for name, weight in weights.items() if weight.trainable}
    # A single entry, because the order of several is random.
    return save(arrays, {_METADATA: json.dumps(facts)})


def load_lora(model: keras.Model, file: str | os.PathLike) -> dict[str, Any]:
    """Enables LoRA in a model and loads an adapter of `save_lora`; you can then use, train or merge the model.

    Args:
        model: a model without LoRA, with the weights of the model that the adapter was trained on.
        file: path of the adapter, on a local disk.

    Returns:
        dict of "rank", "alpha", "targets" and "base".

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not an adapter, does not fit the model, or was trained on another model. The model does
            not change.
    """
    with open_tensors(file) as tensors:
        metadata = tensors.metadata() or {}
        if _METADATA not in metadata:
            raise Mistake("{} is not an adapter: it has no metadata {!r}; give a file of save_lora", file, _METADATA)
        facts = json.loads(metadata[_METADATA])
        held = {name: tensors.get_tensor(name) for name in tensors.keys()}  # noqa: SIM118 (not a dict)
    weights = weights_by_name(model)
    _check(model, facts["rank"], facts["alpha"], facts["targets"])
    _check_fit(model, weights, facts, held, file)
    enable_lora(model, facts["rank"], facts["alpha"], facts["targets"], also_trained=())
    for name, weight in weights_by_name(model).items():
        if name in held:
            weight.trainable = True
            weight.assign(held[name])
    return {name: facts[name] for name in ("rank", "alpha", "targets", "base")}


def _encoders_of(model: keras.layers.Layer) -> list[BertModel]:
    if isinstance(model, BertModel):
        return [model]
    return [encoder for layer in getattr(model, "layers", ()) for encoder in _encoders_of(layer)]


def _layers(model: keras.Model, targets: Sequence[str] = LORA_TARGETS) -> list[keras.layers.Dense]:
    """Returns the dense layers with these names in the encoders of a model."""
    layers = dict.fromkeys(layer for encoder in _encoders_of(model) for layer in encoder.encoder_layers)
    return [_DENSE[target](layer) for layer in layers for target in targets]


def _adapted_layers(model: keras.Model) -> list[keras.layers.Dense]:
    return [dense for dense in _layers(model) if dense.lora_enabled]


def _check(model: keras.Model, rank: int, alpha: float, targets: Sequence[str]) -> None:
    encoders = _encoders_of(model)
    if not encoders:
        raise ValueError(f"{model.name} has no BertModel among its layers; give the BertModel itself")
    if has_lora(model):
        raise ValueError(f"{model.name} has LoRA already; call merge_lora first")
    check_lora(rank, alpha, targets, min(encoder.config.hidden_size for encoder in encoders))


def check_lora(rank: int, alpha: float, targets: Sequence[str], hidden_size: int, prefix: str = "") -> None:
    """Raises a Mistake if a rank, an alpha or the targets are not possible for a model of this size.

    `prefix` is that of their names as settings.
    """
    unknown, name = [target for target in targets if target not in LORA_TARGETS], f"{prefix}{{}}".format
    if unknown or not targets:
        text = "{} are {}; give one or more of {}"
        raise Mistake(text, Setting(name("targets")), unknown or "empty", [*LORA_TARGETS])
    if not (isinstance(rank, int) and 1 <= rank <= hidden_size):
        text = "{} is {}, but must be a whole number from 1 to the hidden size {}"
        raise Mistake(text, Setting(name("rank")), rank, hidden_size)
    if not 0 < alpha < math.inf:
        raise Mistake("{} is {}, but must be above 0", Setting(name("alpha")), alpha)


def _check_fit(
    model: keras.Model,
    weights: Mapping[str, keras.Variable],
    facts: dict[str, Any],
    held: Mapping[str, np.ndarray],
    file: str | os.PathLike,
) -> None:
    """Checks that an adapter has exactly the weights to train, and belongs to the frozen ones."""
    kernels = [_kernel(dense) for dense in _layers(model, facts["targets"])]
    shapes = {name: list(weight.shape) for name, weight in weights.items()}
    encoder_weight_ids = {id(weight) for encoder in _encoders_of(model) for weight in encoder.weights}
    needed = {name for name, weight in weights.items() if weight.trainable and id(weight) not in encoder_weight_ids}
    for name in _names_of(kernels, weights):
        added = [f"{name.removesuffix('kernel')}lora_kernel_{letter}" for letter in "ab"]
        shapes |= zip(added, ([shapes[name][0], facts["rank"]], [facts["rank"], shapes[name][1]]), strict=True)
        needed.update(added)
    for name in sorted(needed | set(held)):
        theirs, ours = (list(held[name].shape) if name in held else None), shapes.get(name)
        if theirs != ours:
            raise Mistake(
                "{} does not fit {}: {} {} in the file, and {} in the model; make the model as in training",
                file,
                model.name,
                name,
                "is " + str(theirs) if theirs else "is missing",
                "is " + str(ours) if ours else "is missing",
            )
    if _digest(weights, kernels) != facts["base_sha256"]:
        base = f" ({facts['base']})" if facts["base"] else ""
        raise Mistake(
            "{} was trained on other weights than {} has now; load the checkpoint of its base{} first",
            file,
            model.name,
            base,
        )


def _kernel(dense: keras.layers.Dense) -> keras.Variable:
    return next(weight for weight in dense.weights if weight.name == "kernel")


def _merged_kernel(dense: keras.layers.Dense) -> Any:
    """Returns W + alpha / rank * A B in the type of W; the kernel of the layer has compute_dtype."""
    kernel = _kernel(dense)
    product = ops.matmul(dense.lora_kernel_a, dense.lora_kernel_b)
    return ops.cast(kernel + (dense.lora_alpha / dense.lora_rank) * product, kernel.dtype)


@contextlib.contextmanager
def _frozen_objects() -> Iterator[None]:
    """Keeps the garbage collector from the objects that exist now: Keras collects after each deleted weight."""
    were_frozen = gc.get_freeze_count() > 0
    gc.freeze()
    try:
        yield
    finally:
        if not were_frozen:
            gc.unfreeze()


def _names_of(kernels: Iterable[keras.Variable], weights: Mapping[str, keras.Variable]) -> list[str]:
    chosen = {id(kernel) for kernel in kernels}
    return [name for name, weight in weights.items() if id(weight) in chosen]


def _digest(weights: Mapping[str, keras.Variable], kernels: Iterable[keras.Variable]) -> str:
    digest = hashlib.sha256()
    for name in sorted(_names_of(kernels, weights)):
        digest.update(_array(weights[name]).tobytes())
    return digest.hexdigest()


def _array(weight: keras.Variable) -> np.ndarray:
    return np.ascontiguousarray(weight.numpy(), np.float32)
