"""The model of an export: its network, its files, and the run that made it."""

import dataclasses
import functools
import pathlib
from collections.abc import Mapping
from typing import Any

import keras
import numpy as np

from bert_keras.model_folder.folder import TASK_FILE
from bert_keras.prediction.predictor import Predictor
from bert_keras.storage.json_files import readable_json
from bert_keras.tasks.finetuning.task import Task
from bert_keras.tasks.graph.networks import IdsNetwork, copy_in
from bert_keras.tasks.graph.text_model import TextModel


@dataclasses.dataclass(frozen=True)
class Source:
    """The model to export."""

    name: str
    predictor: Predictor
    settings: dict[str, Any]  # its task.json
    run: dict[str, Any] | None = None  # the result of `read_run`
    task: Task | None = None  # a prepared task that measures the cost of quantization, if it has a metric
    calibration: Mapping[str, np.ndarray] | None = None  # features of data like those that it will see, for int8

    @functools.cached_property
    def network(self) -> IdsNetwork:
        """The IdsNetwork of the model."""
        return self._network_of(self.predictor.model)

    def _network_of(self, model: keras.Model) -> IdsNetwork:
        has_pooler = "bert/pooler/dense/kernel" in self.predictor.files.need_checkpoint().names
        return IdsNetwork(model, self.settings["task"], self.settings.get("layer", -1), has_pooler)

    def write_model_files(self, folder: pathlib.Path) -> None:
        """Writes the files that `prediction` needs to open a model, except its weights."""
        for name, content in self.predictor.files.text_files().items():
            (folder / name).write_bytes(content)
        (folder / TASK_FILE).write_text(readable_json(self.settings), encoding="utf-8")

    def write_saved_model(self, folder: pathlib.Path, quantize: str | None = None) -> TextModel:
        """Writes the SavedModel into a folder that has the model files. Returns the TextModel."""
        # These imports need tensorflow-text, which some systems lack. The other formats do not need it.
        from bert_keras.data_prep.text.graph.tokenization import GraphTokenizer
        from bert_keras.export.formats.saved_model import make_text_model, write_saved_model

        tokenizer = GraphTokenizer(self.predictor.tokenizer, folder / "vocab.txt")
        network = self._network_of(copy_in("bfloat16", self.predictor.model)) if quantize else self.network
        text_model = make_text_model(network, tokenizer, self.settings)
        write_saved_model(text_model, folder)
        return text_model
