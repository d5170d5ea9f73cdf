"""Checkpoints of the Hugging Face layout: `model.safetensors`, in one file or in shards with an index.

Entries have their original names and orientation here; `checkpoints.names` translates.
"""

import contextlib
import json
import logging
import os
import pathlib
import re
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from bert_keras.mistakes import Mistake
from bert_keras.modeling.checkpoints.families import FAMILIES, check_pooled_token, family_of
from bert_keras.modeling.checkpoints.hugging_face_config import HUGGING_FACE_FILE, to_hugging_face_config
from bert_keras.modeling.checkpoints.names import (
    architecture_of,
    find_heads,
    from_hugging_face,
    heads_of,
    is_tied,
    is_training_state,
    is_transposed,
    to_hugging_face,
)
from bert_keras.modeling.config import BertConfig
from bert_keras.storage import paths, writing
from bert_keras.storage.json_files import read_object

log = logging.getLogger("bert_keras")

WEIGHTS_FILE = "model.safetensors"
INDEX_ENDING = ".safetensors.index.json"

# Constant buffers in old files; not weights.
_COMPUTED = ("embeddings.position_ids", "embeddings.token_type_ids")
_FLOATS = {"F64": "float64", "F32": "float32", "F16": "float16", "BF16": "bfloat16"}
# What data parallelism, Lightning, torch.compile, PEFT, sentence-transformers and wrappers put before names. Other
# prefixes count, because networks such as RoBERTa differ from BERT's names only by theirs.
_WRAPPERS = "module|model|_orig_mod|_forward_module|base_model|0|auto_model|bert_model|encoder|backbone|net|network"
_WORD_EMBEDDINGS = re.compile(
    rf"((?:(?:{_WRAPPERS})\.)*)(decoder\.)?(({'|'.join(FAMILIES)})\.)?embeddings\.word_embeddings\.weight"
)
_LFS_POINTER = b"version https://git-lfs"
# Rows of a table to compare at a time.
_ROWS_COMPARED = 4096


class SafetensorsReader:
    """Reads a safetensors checkpoint, a file or the index of its shards; see `loading.Checkpoint`.

    The tied projection of the masked-LM head is a second tensor for one weight. The reader skips it if it equals the
    first tensor. If not, the tensor keeps its name in the file, as do entries that the original BERT does not have.
    Other trainers put a prefix before the names, such as "module."; it does not count.
    """

    def __init__(self, path: str) -> None:
        _check_local(path)
        self._entries: dict[str, tuple[str, str]] = {}  # original name -> (file, name in the file)
        self._headers: dict[str, tuple[str, tuple[int, ...]]] = {}  # original name -> (type, shape in the file)
        tensors = _stored_tensors(path)
        prefix = _prefix([stored for _, stored in tensors], path)
        # Tied names come last.
        for (file, stored), header in sorted(
            tensors.items(), key=lambda item: is_tied(item[0][1].removeprefix(prefix))
        ):
            name = from_hugging_face(stored.removeprefix(prefix))
            if name in self._entries:
                if _are_equal(self._entries[name], (file, stored)):
                    continue
                name = stored.removeprefix(prefix)
            self._entries[name] = (file, stored)
            self._headers[name] = header
        self.names = sorted(self._entries)

    def shape(self, name: str) -> tuple[int, ...]:
        shape = self._headers[name][1]
        return shape[::-1] if is_transposed(name) else shape

    def dtype(self, name: str) -> str:
        stored = self._headers[name][0]
        kinds = {"I": "int", "U": "uint"}
        return kinds[stored[0]] + stored[1:] if stored[0] in kinds else _FLOATS.get(stored, stored.lower())

    def read(self, name: str) -> np.ndarray:
        """Returns an entry: floating types as float32, integer training state as stored."""
        file, stored = self._entries[name]
        dtype, _ = self._headers[name]
        if dtype not in _FLOATS and not is_training_state(name):
            raise Mistake("{}: {} is of type {}; only {} can be read", file, stored, dtype, ", ".join(_FLOATS))
        with open_tensors(file) as tensors:
            value = tensors.get_tensor(stored)
        if dtype in _FLOATS:
            value = value.astype(np.float32, copy=False)
        return np.ascontiguousarray(value.T) if is_transposed(name) else value


def save_safetensors(
    folder: str | os.PathLike,
    tensors_by_name: Mapping[str, Any],
    config: BertConfig,
    architecture: str | None = None,
    labels: Sequence[str] | None = None,
    problem_type: str | None = None,
) -> str:
    """Writes `model.safetensors` and `config.json` for the Hugging Face libraries, atomically; replaces existing files.

    Args:
        folder: path of the output folder; made if it does not exist.
        tensors_by_name: dict from original names to keras.Variable, tensor or array.
        config: BertConfig.
        architecture: Hugging Face class, such as "BertForMaskedLM". None: the class with the heads in the names. Models
            of DistilBERT and ELECTRA have a pooler only in classes that use it; others are written without it.
        labels: class names of a classification head. None: LABEL_0, LABEL_1, ...
        problem_type: of a classifier, one of `PROBLEM_TYPES`, by which other libraries make probabilities. None: they
            take the first for several classes.

    Returns:
        The path of `model.safetensors`, a str.

    Raises:
        OSError: the disk is full, or the folder is not writable.
        ValueError: the folder is remote, or a name has no Hugging Face name. Or no class has these heads, weights of
            the class's head are missing, or the number of labels is wrong.
    """
    _check_local(folder)
    heads, family = find_heads(tensors_by_name, architecture), family_of(config)
    check_pooled_token(config, heads, os.fspath(folder))
    architecture = architecture or architecture_of(heads, family)
    missing = [head for head in heads_of(architecture, family) if head not in heads]
    if missing:
        raise Mistake("{} has the head {}, but its weights were not given", architecture, " and ".join(missing))
    unknown = [name for name in tensors_by_name if to_hugging_face(name) is None]
    if unknown:
        advice = ", or call merge_lora on the model first" if "lora_kernel" in unknown[0] else ""
        raise Mistake("the Hugging Face layout has no place for {}; leave that out{}", ", ".join(unknown), advice)
    if "output_weights" in tensors_by_name:
        labels = _checked_labels(labels, tensors_by_name["output_weights"].shape[0])
    arrays = {
        new_name: _to_array(value, is_transposed(name))
        for name, value in tensors_by_name.items()
        if (new_name := to_hugging_face(name, not heads, family, heads)) is not None
    }
    values = to_hugging_face_config(config, architecture, labels, problem_type)
    warn_about_pooler(config, tensors_by_name)

    os.makedirs(folder, exist_ok=True)
    weights_file = paths.join(folder, WEIGHTS_FILE)
    with writing.unfinished(weights_file) as weights:
        with writing.whole(paths.join(folder, HUGGING_FACE_FILE)) as config_file:
            pathlib.Path(config_file).write_bytes(f"{json.dumps(values, indent=2, sort_keys=True)}\n".encode())
            with writing.named(weights_file, weights):
                save_file(arrays, weights, metadata={"format": "pt"})
            # The library gives only the owner a permission. The config has those of all other files.
            shutil.copymode(weights_file if os.path.exists(weights_file) else config_file, weights)
            # If the next step fails, old weights must not be left with the new config.
            paths.remove(weights_file)
        writing.publish(weights, weights_file)
    return weights_file


def warn_about_pooler(config: BertConfig, names: Iterable[str]) -> None:
    """Warns if the pooler of a model, with these original names of weights, reads another token in other libraries."""
    if config.is_decoder and any(name.startswith("bert/pooler/") for name in names):
        log.warning("is_decoder: transformers pools the first token and bert-keras the last; do not use pooler_output")


def _check_local(path: str | os.PathLike) -> None:
    if paths.is_remote(path):
        raise Mistake(
            "{} is remote, and a safetensors checkpoint is read and written on a local disk only; copy the folder "
            "to this machine",
            path,
        )


def _checked_labels(labels: Sequence[str] | None, num_labels: int) -> list[str]:
    if labels is None:
        return [f"LABEL_{i}" for i in range(num_labels)]
    if len(labels) != num_labels:
        raise Mistake("{} labels were given, but the head has {} rows; give one for each", len(labels), num_labels)
    return list(labels)


def _to_array(value: Any, transposed: bool) -> np.ndarray:
    value = np.asarray(value)
    dtype = value.dtype if np.issubdtype(value.dtype, np.signedinteger) else np.float32
    return np.asarray(value.T if transposed else value, dtype=dtype, order="C")


@contextlib.contextmanager
def open_tensors(file: str | os.PathLike) -> Iterator[safe_open]:
    """Opens a file for one access, so that only the values read stay in memory."""
    paths.check_readable(file)
    try:
        with safe_open(file, framework="numpy") as tensors:
            yield tensors
    except SafetensorError as error:
        reason = f"cannot be read ({error}); the file is damaged or cut short, get it again"
        with open(file, "rb") as content:
            if content.read(len(_LFS_POINTER)) == _LFS_POINTER:
                reason = "is only a pointer of Git LFS; run `git lfs pull` to get the file itself"
        raise Mistake("{} {}", file, reason) from None


def _stored_tensors(path: str) -> dict[tuple[str, str], tuple[str, tuple[int, ...]]]:
    """Returns a dict from (file, name in the file) to (type, shape)."""
    shards = _read_index(path) if path.endswith(INDEX_ENDING) else {path: None}
    headers = {}
    for file, names in shards.items():
        with open_tensors(file) as tensors:
            held = list(tensors.keys())
            listed = held if names is None else names
            if lacking := sorted(set(listed) - set(held)):
                raise Mistake(
                    "{} lists {} in {}, which lacks it; get both again", path, ", ".join(lacking), paths.name(file)
                )
            if unlisted := sorted(name for name in set(held) - set(listed) if not name.endswith(_COMPUTED)):
                raise Mistake("{} does not list {} of {}; get both again", path, ", ".join(unlisted), paths.name(file))
            for name in listed:
                if not name.endswith(_COMPUTED):
                    header = tensors.get_slice(name)
                    headers[file, name] = (header.get_dtype(), tuple(header.get_shape()))
    return headers


def _prefix(names: Iterable[str], path: str) -> str:
    """Returns what another trainer put before the names of the encoder's weights, such as "module."; "" for nothing."""
    found = sorted({match[1] for name in names if (match := _WORD_EMBEDDINGS.fullmatch(name))})
    if "" in found or not found:
        return ""
    if len(found) > 1:
        raise Mistake(
            "{} has {} encoders, whose names begin with {}; write each to its own file",
            path,
            len(found),
            ", ".join(found),
        )
    log.info('the names of the weights in %s begin with "%s", which other trainers add', path, found[0])
    return found[0]


def _read_index(path: str) -> dict[str, list[str]]:
    """Returns a dict from the path of each shard to the names of its tensors."""
    weight_map = read_object(path).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise Mistake('{} has no "weight_map" of names to files; get it again', path)
    shards = {}
    for name, shard in weight_map.items():
        shards.setdefault(paths.inside(paths.parent(path), shard, path), []).append(name)
    missing = sorted(paths.name(shard) for shard in shards if not paths.is_file(shard))
    if missing:
        raise FileNotFoundError(f"{path} names missing files: {', '.join(missing)}; copy all files of the checkpoint")
    return shards


def _are_equal(first: tuple[str, str], second: tuple[str, str]) -> bool:
    """Returns whether two tensors, each (file, name), have the same bits; reads a few rows at a time."""
    with open_tensors(first[0]) as first_file, open_tensors(second[0]) as second_file:
        a, b = first_file.get_slice(first[1]), second_file.get_slice(second[1])
        if a.get_shape() != b.get_shape() or a.get_dtype() != b.get_dtype():
            return False
        if not a.get_shape():
            return first_file.get_tensor(first[1]).tobytes() == second_file.get_tensor(second[1]).tobytes()
        num_rows = a.get_shape()[0]
        spans = [slice(start, min(start + _ROWS_COMPARED, num_rows)) for start in range(0, num_rows, _ROWS_COMPARED)]
        return all(a[span].tobytes() == b[span].tobytes() for span in spans)
