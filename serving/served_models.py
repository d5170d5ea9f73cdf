"""The models of a server: opening, warming up, and answers to the items of a request."""

import dataclasses
import itertools
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from bert_keras import prediction
from bert_keras.modeling.checkpoints.hub import local_model
from bert_keras.prediction.arguments import Limits, shown
from bert_keras.prediction.loading.model_files import TASK_FILE, is_export, read_settings
from bert_keras.prediction.loading.sentence_transformers import has_modules
from bert_keras.prediction.tasks.features import Features
from bert_keras.prediction.tasks.registry import PRETRAINED_TASKS, TASKS
from bert_keras.serving.batching import BatchingNetwork
from bert_keras.serving.metrics import Metrics
from bert_keras.serving.versions import VersionedModel, has_versions

# Tasks of a checkpoint of pre-training. Vectors are means over the tokens of the second to last layer.
SERVED_PRETRAINED = (*PRETRAINED_TASKS, "vectors")
# Padded lengths that differ by this many tokens get another one between them.
_GAP = 16
_VECTORS = {"layers": (-2,), "pooling": "mean", "max_seq_length": None}


class ServedModel:
    """A loaded model under its name.

    Attributes:
        name: as in requests.
        task: name in the registry of tasks.
        predictor: the object that answers.
        fields: names of the texts in an item, such as "question" and "context".
    """

    def __init__(self, name: str, task: str, predictor: Any):
        self.name, self.task, self.predictor = name, task, predictor
        has_pairs = bool((predictor.settings or {}).get("is_pair"))
        self.fields = TASKS[task].texts + (("text_pair",) if has_pairs else ())

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options of a request."""
        return tuple(self.predictor.options)

    def start(self, max_batch_tokens: int, batch_timeout: float, metrics: Metrics) -> None:
        """Warms up every padded length, then lets requests share batches."""
        network = self.predictor.network
        network.lengths = finer(network.lengths)
        self.predictor.warmup()
        labels = {"model": self.name, "task": self.task}
        self.predictor.network = BatchingNetwork(network, max_batch_tokens, batch_timeout, metrics, labels)

    def stop(self) -> None:
        """Answers what waits, and ends the thread of the batches."""
        if isinstance(self.predictor.network, BatchingNetwork):
            self.predictor.network.close()

    def text_of(self, item: Any, source: str) -> Any:
        """Returns an item of a request in the form that the predictor takes.

        Raises:
            ValueError: the item does not have exactly the fields of the task.
        """
        if isinstance(item, str) and len(self.fields) == 1:
            return item
        needed = " and ".join(f'"{field}"' for field in self.fields)
        if not isinstance(item, dict):
            raise ValueError(f"{source} is {shown(item)}, but an object with {needed} is needed")
        if set(item) != set(self.fields):
            has = ", ".join(f'"{field}"' for field in item) or "nothing"
            raise ValueError(f"{source} has {has}, but the model {self.name} needs {needed}")
        values = [item[field] for field in self.fields]
        return values[0] if len(values) == 1 else tuple(values)

    def answers(self, items: Sequence[Any], options: dict[str, Any]) -> list[dict[str, Any]]:
        """Returns the answer to each item as a dict for JSON.

        Raises:
            ValueError: an item or an option is not valid.
        """
        texts = [self.text_of(item, f"text {number}") for number, item in enumerate(items, 1)]
        if unknown := [name for name in options if name not in self.options]:
            raise ValueError(f'"{unknown[0]}" is not a field of this request; its options are: {self._listed()}')
        answers = self.predictor.pipe(texts, **options)
        if isinstance(self.predictor, prediction.FeatureExtractor):
            return [_vector(text, features) for text, features in zip(texts, answers, strict=True)]
        return [dataclasses.asdict(answer) for answer in answers]

    def _listed(self):
        return ", ".join(self.options) or "none"


def finer(lengths: Sequence[int]) -> list[int]:
    """Returns padded lengths with one more between each two that are far apart: 16, 24, 32, 48, 64.

    The batches of a busy server are large, so their time is that of their tokens, padding included.
    """
    gaps = [(lower, upper) for lower, upper in itertools.pairwise(lengths) if upper - lower >= _GAP]
    return sorted({*lengths, *((lower + upper) // 2 for lower, upper in gaps)})


def _vector(text: str, features: Features) -> dict[str, Any]:
    return {"text": text, "vector": features.values[0].tolist()}


def open_models(folders: dict[str, str], tasks: Sequence[str], limits: Limits) -> list[ServedModel]:
    """Opens models.

    Args:
        folders: run folders, exports or checkpoints of pre-training, by name.
        tasks: the tasks of the checkpoints of pre-training. They share the weights of the encoder.
        limits: Limits of the input.
    """
    models = []
    for name, path in folders.items():
        folder = local_model(path)
        if has_versions(folder) and not is_export(folder):
            continue  # `open_versions` opens it
        if _has_task(folder) or not tasks and has_modules(folder) or not pathlib.Path(folder).exists() and not tasks:
            _, settings = read_settings(folder)
            models.append(ServedModel(name, settings["task"], prediction.open_model(folder, limits=limits)))
            continue
        if not tasks:
            raise ValueError(
                f"{path} has no {TASK_FILE}, so it is a checkpoint of pre-training; choose its --tasks: "
                f"{', '.join(SERVED_PRETRAINED)}"
            )
        shared: Any = None
        for task in sorted(
            dict.fromkeys(tasks), key="vectors".__eq__
        ):  # last, because its network has no heads to share
            class_ = prediction.FeatureExtractor if task == "vectors" else getattr(prediction, TASKS[task].predictor)
            predictor = class_(folder, limits=limits, model=shared, **(_VECTORS if task == "vectors" else {}))
            shared = predictor.model
            models.append(ServedModel(name, task, predictor))
    return models


def open_versions(folders: dict[str, str], labels: dict[str, dict[str, int]]) -> list[VersionedModel]:
    """Opens the SavedModels among the folders, also those of exports; `labels` is for `VersionedModel`, by name."""
    local = {name: local_model(path) for name, path in folders.items()}
    versioned = [VersionedModel(name, path, labels.get(name, {})) for name, path in local.items() if has_versions(path)]
    if unknown := set(labels) - {model.name for model in versioned}:
        raise ValueError(f"there is a label for {min(unknown)}, but no model of this name has numbered SavedModels")
    return versioned


def _has_task(folder):
    path = pathlib.Path(folder)
    return is_export(folder) or any((path / part / TASK_FILE).is_file() for part in ("", "model"))


def body_of(value: Any) -> bytes:
    """Returns a value as JSON."""
    return json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
