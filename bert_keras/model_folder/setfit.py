"""Reads the head that SetFit puts next to an encoder of sentence-transformers: a linear classifier of its vectors.

model_head.json, model_head.safetensors   its weights, as scikit-learn or PyTorch names them
model_head.pkl                            what SetFit writes: a pickle, which can run any program, so it is not read
config_setfit.json                        names of the classes, and whether the vectors get the length 1
"""

import dataclasses
import json
from typing import Any

import numpy as np

from bert_keras.mistakes import Mistake
from bert_keras.modeling import BertConfig
from bert_keras.modeling.checkpoints.files import SETFIT_HEAD, Checkpoint
from bert_keras.modeling.checkpoints.hugging_face_task import OpenQuestion
from bert_keras.modeling.checkpoints.safetensors_format import open_tensors
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_object, read_optional_object

CONFIG_FILE = "config_setfit.json"
JSON_HEAD, PICKLED_HEAD = "model_head.json", "model_head.pkl"
# Files of a head, in the order in which they count.
_HEADS = (JSON_HEAD, SETFIT_HEAD, PICKLED_HEAD)
_POOLER = "bert/pooler/dense/"
_CONVERSION = (
    "python -c \"import joblib, json; h = joblib.load('model_head.pkl'); "
    "json.dump({k: getattr(h, k).tolist() for k in ('coef_', 'intercept_', 'classes_')}, "
    "open('model_head.json', 'w'))\""
)


def has_head(folder: str) -> bool:
    """Returns whether a folder of sentence-transformers is one of SetFit."""
    return any(paths.is_file(paths.join(folder, name)) for name in (*_HEADS, CONFIG_FILE))


@dataclasses.dataclass(frozen=True, eq=False)
class SetFitHead:
    """A linear classifier of vectors: `weights` [C, H] and `bias` [C], with the names of its classes in `labels`.

    `is_of_unit_length` tells whether it reads vectors of the length 1.
    """

    weights: np.ndarray
    bias: np.ndarray
    labels: list[str]
    is_of_unit_length: bool

    def task(self, vector_settings: dict[str, Any]) -> dict[str, Any]:
        """Returns the settings of the classifier, as in a task.json, given those of the vectors that it reads."""
        if vector_settings["prefix"]:
            raise Mistake(
                "the model of SetFit puts the prompt {} before each text (default_prompt_name), which bert-keras does "
                "not support; take a model without it, or give {task}=vectors",
                json.dumps(vector_settings["prefix"]),
            )
        return {
            "task": "classification",
            "labels": self.labels,
            "max_seq_length": vector_settings["max_seq_length"],
            "is_pair": False,
            "doc_stride": None,
        }

    def config(self, config: BertConfig, vector_settings: dict[str, Any]) -> BertConfig:
        """Returns the config of a network whose pooled output is the vector that the head reads."""
        has_unit_length = self.is_of_unit_length or vector_settings["normalize"]
        return dataclasses.replace(
            config, pooling=vector_settings["pooling"], pooler_act="unit_length" if has_unit_length else "linear"
        )

    def with_encoder(self, checkpoint: Checkpoint) -> Checkpoint:
        """Returns the checkpoint of an encoder with this head; the pooler leaves the vectors as they are."""
        size = self.weights.shape[1]
        added = {f"{_POOLER}kernel": np.eye(size, dtype=np.float32), f"{_POOLER}bias": np.zeros(size, np.float32)}
        return _WithEntries(checkpoint, added | {"output_weights": self.weights, "output_bias": self.bias})


def read_head(folder: str) -> SetFitHead:
    """Returns the head in a folder of SetFit.

    Raises:
        OpenQuestion: the head is a pickle, or is missing, so only the task "vectors" is possible.
        ValueError: a file is not valid.
    """
    name = next((name for name in _HEADS if paths.is_file(paths.join(folder, name))), None)
    if name in (None, PICKLED_HEAD):
        found = f"{PICKLED_HEAD}, is a pickle, which can run any program when it is opened" if name else "is missing"
        raise OpenQuestion(
            "{} is a model of SetFit, whose head{} {}; where you trust it, and a text has one label, run in the "
            "folder: {}; or give {task}=vectors for the vectors without the head",
            folder,
            "," if name else "",
            found,
            _CONVERSION,
        ).among("vectors")
    file, config_file = paths.join(folder, str(name)), paths.join(folder, CONFIG_FILE)
    config = read_optional_object(config_file)
    if strategy := config.get("multi_target_strategy"):
        raise OpenQuestion(
            "{} has the multi_target_strategy {}, so a text has several labels, which bert-keras does not read from "
            "a model of SetFit; give {task}=vectors for the vectors without the head",
            config_file,
            strategy,
        ).among("vectors")
    weights, bias, classes = _read_json_head(file) if name == JSON_HEAD else _read_tensor_head(file)
    if weights.ndim != 2 or bias.shape != weights.shape[:1]:
        shapes = [*weights.shape], [*bias.shape]
        raise Mistake("{}: the head has weights {!s} and a bias {!s}, but [C, H] and [C] are needed", file, *shapes)
    if len(weights) == 1:  # the logit of the second of two classes
        weights, bias = np.concatenate([np.zeros_like(weights), weights]), np.concatenate([np.zeros_like(bias), bias])
    labels = _names(config.get("labels"), classes, len(weights))
    if len(labels) != len(weights) or len(set(labels)) < len(labels):
        raise Mistake(
            "{}: the head has {} classes, but their names are {}; correct {}", file, len(weights), labels, name
        )
    return SetFitHead(weights, bias, labels, bool(config.get("normalize_embeddings")))


class _WithEntries(Checkpoint):
    """A checkpoint with further entries."""

    def __init__(self, checkpoint: Checkpoint, added: dict[str, np.ndarray]) -> None:
        super().__init__(checkpoint.prefix, checkpoint)
        self._added = added
        self.names = sorted({*checkpoint.names, *added})

    def shape(self, name: str) -> tuple[int, ...]:
        return self._added[name].shape if name in self._added else super().shape(name)

    def dtype(self, name: str) -> str:
        return str(self._added[name].dtype) if name in self._added else super().dtype(name)

    def read(self, name: str) -> np.ndarray:
        return self._added[name] if name in self._added else super().read(name)


def _names(labels: Any, classes: list[Any] | None, count: int) -> list[str]:
    """Returns the names of the classes of a head: those of the config, for classes that are numbers."""
    classes = list(range(count)) if classes is None else classes
    if isinstance(labels, list) and all(type(value) is int and value in range(len(labels)) for value in classes):
        return [str(labels[value]) for value in classes]
    return [str(value) for value in classes]


def _read_json_head(file: str) -> tuple[np.ndarray, np.ndarray, list[Any] | None]:
    values = read_object(file)
    try:
        weights, bias = (np.array(values[name], np.float32) for name in ("coef_", "intercept_"))
        return weights, bias, list(values["classes_"])
    except (KeyError, TypeError, ValueError):
        raise Mistake(
            "{}: the lists coef_, intercept_ and classes_ of a logistic regression of scikit-learn are needed", file
        ) from None


def _read_tensor_head(file: str) -> tuple[np.ndarray, np.ndarray, None]:
    with open_tensors(file) as tensors:
        held = {name.removeprefix("linear."): name for name in tensors.keys()}  # noqa: SIM118 (not a dict)
        if set(held) != {"weight", "bias"}:
            raise Mistake("{}: the tensors weight and bias are needed, but it has {}", file, [*held.values()])
        weights, bias = (tensors.get_tensor(held[name]).astype(np.float32) for name in ("weight", "bias"))
    return weights, bias, None
