"""Finds and opens checkpoints of any format, or explains why there is none. Entries have their original names."""

import fnmatch
import functools
import glob
import logging
import os
import re
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

from bert_keras.mistakes import Mistake, some_of
from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.modeling.checkpoints.hugging_face_config import (
    HUGGING_FACE_FILE,
    config_of_folder,
    labels_of,
    problem_type_of,
    read_config_files,
)
from bert_keras.modeling.checkpoints.names import find_heads
from bert_keras.modeling.checkpoints.safetensors_format import INDEX_ENDING, WEIGHTS_FILE, SafetensorsReader
from bert_keras.modeling.checkpoints.tensorflow_format import DATA_FILES, TensorFlowReader, others_of
from bert_keras.modeling.config import BertConfig
from bert_keras.modeling.released import ReleasedModel, find_on_hugging_face, find_released
from bert_keras.storage import paths
from bert_keras.storage.checks import part_of_model
from bert_keras.storage.tokenizer.vocabulary import vocabulary_in

log = logging.getLogger("bert_keras")

# Weights of LoRA, which are not a whole model: those of this project, and those of PEFT with their config.
ADAPTER_FILE = "adapter.safetensors"
_PEFT_FILE, _PEFT_CONFIG = "adapter_model.safetensors", "adapter_config.json"
RELEASED_PREFIX = "bert_model.ckpt"
_LAYOUT = (
    "a model is a folder with bert_config.json, vocab.txt and bert_model.ckpt.*, or with config.json, vocab.txt and "
    "model.safetensors; convert_checkpoint.py --list shows models to download"
)
PICKLE_ENDINGS = (".bin", ".pt", ".pth", ".pkl")

_FILE_SUFFIX = re.compile(r"\.(index|meta|data-\d+-of-\d+)$")
_STATE_LINE = re.compile(r'^model_checkpoint_path: "(.*)"$', re.MULTILINE)
_SHARD = re.compile(r"-\d+-of-\d+\.safetensors$")
# The head of a SetFit model, next to its encoder.
SETFIT_HEAD = "model_head.safetensors"
# Names of PyTorch models; other pickles in their folder hold training state.
_PICKLED_MODEL = re.compile(r"pytorch_model(-\d+-of-\d+)?\.bin$")


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
        return find_heads(self.names, (self.hugging_face_config.get("architectures") or [None])[0])

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
        """The path of the vocabulary in the same folder, or None; see `storage.tokenizer.vocabulary.vocabulary_in`."""
        return vocabulary_in(self._folder)

    @functools.cached_property
    def _config_files(self) -> dict[str, dict[str, Any]]:
        return read_config_files(self._folder)


class Tensors(Mapping[str, np.ndarray]):
    """The values of a checkpoint by name. Each access reads the value, to save memory."""

    def __init__(self, checkpoint: Checkpoint) -> None:
        self._checkpoint = checkpoint

    def __getitem__(self, name: str) -> np.ndarray:
        return self._checkpoint.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._checkpoint.names

    def __iter__(self) -> Iterator[str]:
        return iter(self._checkpoint.names)

    def __len__(self) -> int:
        return len(self._checkpoint.names)


def open_checkpoint(path: str | os.PathLike) -> Checkpoint:
    """Opens a checkpoint of any format, local or remote; a safetensors checkpoint must be local.

    Args:
        path: a TensorFlow checkpoint (its prefix or one of its files), a safetensors file or the index of its shards,
            a folder with one of these, or the name of a model on Hugging Face (`hf://owner/name`). If a folder holds
            several checkpoints, TensorFlow's file `checkpoint` in the folder must name one.

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
        if paths.name(path) == ADAPTER_FILE:
            raise Mistake("{} has only the matrices of LoRA; give its folder, {}", path, paths.parent(path))
        return Checkpoint(path, SafetensorsReader(path))
    prefix = _FILE_SUFFIX.sub("", path)
    folder = paths.parent(prefix)
    if not paths.is_file(f"{prefix}.index"):
        if path.endswith(PICKLE_ENDINGS) and paths.is_file(path):
            raise pickle_refusal(path)
        if paths.is_file(path) and path == prefix:
            raise Mistake("{} is a file, but not a checkpoint; unpack an archive, and give the folder of a model", path)
        raise not_found(prefix, f"{prefix} (no {prefix}.index)")
    data_files = fnmatch.filter(paths.list_dir(folder), f"{glob.escape(paths.name(prefix))}{DATA_FILES}")
    if not data_files:
        raise FileNotFoundError(
            f"{prefix}.index exists, but {prefix}.data-00000-of-00001 does not; copy both files{others_of(prefix)}"
        )
    for name in (f"{paths.name(prefix)}.index", *data_files):
        paths.check_readable(paths.join(folder, name))
    return Checkpoint(prefix, TensorFlowReader(prefix))


def find_in_folder(folder: str) -> str:
    """Finds the checkpoint named in a folder's `checkpoint` file, or the only checkpoint of the folder.

    Of several safetensors files, `model.safetensors` counts, and then the index of its shards, as in transformers.
    Returns the path of a safetensors file, of the index of its shards, or the prefix of a TensorFlow checkpoint.
    """
    if paths.is_file(paths.join(folder, _PEFT_CONFIG)):
        raise Mistake(
            "the folder {} has an {}, so its model needs the weights of a PEFT adapter, which are not read; merge them "
            "(merge_and_unload of peft) and give the merged model",
            folder,
            _PEFT_CONFIG,
        )
    prefixes = _prefixes(folder)
    newest = _named_by_state_file(folder)
    if newest in prefixes:
        return paths.join(folder, newest)
    stale = f"its file checkpoint names {newest}, which does not exist" if newest is not None else ""
    if len(prefixes) > 1:
        held = f"{', '.join(prefixes)}{', and ' if stale else ''}{stale}"
        raise Mistake("the folder {} holds several checkpoints: {}; name one", folder, held)
    if not prefixes:
        raise _nothing_to_open(folder, stale)
    if stale:
        log.warning("%s: %s; taking %s", folder, stale, prefixes[0])
    return paths.join(folder, prefixes[0])


def _named_by_state_file(folder: str) -> str | None:
    state_file = paths.join(folder, "checkpoint")
    if not paths.is_file(state_file):
        return None
    named = _STATE_LINE.search(paths.read_text(state_file, errors="replace"))
    # Only the name counts: the folder may have been moved since.
    return paths.name(named[1]) if named else None


def _nothing_to_open(folder: str, stale: str) -> FileNotFoundError | Mistake:
    names = paths.list_dir(folder)
    for name in names:
        if _SHARD.search(name):
            return FileNotFoundError(
                f"{paths.join(folder, name)} is part of a checkpoint, but model{INDEX_ENDING} does not exist; copy "
                "that too"
            )
    pickles = [name for name in names if name.endswith(PICKLE_ENDINGS)]
    if pickles:
        name = min(pickles, key=lambda name: not _PICKLED_MODEL.match(name))
        return pickle_refusal(paths.join(folder, name))
    reason = f"{stale}; " if stale else ""
    message = part_of_model(folder)
    return FileNotFoundError(message or f"the folder {folder} has no checkpoint; {reason}{contents_of(folder)}")


def _prefixes(folder: str) -> list[str]:
    """Returns the names of the checkpoints in a folder: prefixes, safetensors files and indexes of shards."""
    names = [name for name in paths.list_dir(folder) if name[0] != "."]
    prefixes = [name.removesuffix(".index") for name in names if name.endswith(".index")]
    files = [name for name in names if name.endswith((".safetensors", INDEX_ENDING)) and not _SHARD.search(name)]
    files = [name for name in files if name not in (ADAPTER_FILE, _PEFT_FILE, SETFIT_HEAD)]
    whole = next((name for name in (WEIGHTS_FILE, f"model{INDEX_ENDING}") if name in files), None)
    return sorted(prefixes + ([whole] if whole else files))


def pickle_refusal(path: str) -> Mistake:
    """Makes the error for a PyTorch file, with a command that converts it and its shards to safetensors."""
    name = paths.name(path)
    match = _PICKLED_MODEL.match(name)
    files = "glob.glob('pytorch_model-*-of-*.bin')" if match and match[1] else f"['{name}']"
    return Mistake(
        "{} is a pickle, which can run any program when it is opened, so it is not read; where PyTorch is "
        'installed, run in its folder: python -c "import glob, torch, safetensors.torch as s; '
        "w = {{k: v.clone() for f in {} "
        "for k, v in torch.load(f, map_location='cpu', weights_only=True).items()}}; "
        "s.save_file(w, 'model.safetensors')\"",
        path,
        files,
    )


def not_found(path: str, sought: str) -> FileNotFoundError:
    """Makes the error for a checkpoint that does not exist; for a released model, it says how to get the model.

    `sought` names the checkpoint and the files that would show it.
    """
    path = path.rstrip("/")
    for folder in (path, paths.parent(path)):
        name = paths.name(folder)
        model = find_released(name) or find_on_hugging_face(folder) or find_on_hugging_face(name)
        if model and not paths.is_dir(folder):
            return FileNotFoundError(_how_to_get(model, folder))
    return FileNotFoundError(f"the checkpoint {sought} does not exist; {contents_of(paths.parent(path))}")


def _how_to_get(model: ReleasedModel, folder: str) -> str:
    is_default = paths.is_remote(folder) or os.path.abspath(folder) == os.path.abspath(model.name)
    command = f"convert_checkpoint.py --download={model.name} --output={folder}".split(" ", 2)
    command = " ".join(command[: 2 if is_default else 3])
    unzip = "unzip" if model.has_folder else f"unzip -d {model.name}"
    return (
        f"the folder {folder} does not exist; to download this released model ({model.readable_size}), run: python "
        f"{command} (or download {model.address} and {unzip} it; or give "
        f"hf://{model.hugging_face}); the folder then holds bert_config.json, vocab.txt, {RELEASED_PREFIX}.index and "
        f"{RELEASED_PREFIX}.data-00000-of-00001"
    )


def contents_of(folder: str) -> str:
    """Returns the contents of a folder as the end of an error message."""
    if not paths.is_dir(folder):
        return f"the folder {folder} does not exist; {_LAYOUT}"
    if prefixes := _prefixes(folder):
        return f"the checkpoints in {folder} are {', '.join(prefixes)}"
    names = paths.list_dir(folder)
    return f"{folder} holds {some_of(names, 10)}; {_LAYOUT}" if names else f"{folder} is empty; {_LAYOUT}"
