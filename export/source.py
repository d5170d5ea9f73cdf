"""The model to export, and the methods that write each format."""

import dataclasses
import json
from typing import Any

from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.quantization import in_bfloat16
from bert_keras.modeling import BertModel, PretrainingModel, SquadModel
from bert_keras.prediction.loading.model_files import TASK_FILE, TOKENIZER_FILE, preparation_text
from bert_keras.storage import paths

# Format -> its path in the export folder. TensorFlow Serving needs numbered versions.
PLACES = {"saved_model": "1", "onnx": "model.onnx", "litert": "model.tflite"}


@dataclasses.dataclass(frozen=True)
class Source:
    """The model to export.

    Attributes:
        name: str; the name of the model.
        predictor: an object of `prediction` that has loaded the model.
        settings: dict; its task.json.
        run: dict, see `export.run_folder.read_run`; None if the run is unknown.
        work: a prepared `training.finetuning.task.Task` that measures the cost of quantization; None: the export
            has no metric.
    """

    name: str
    predictor: Any
    settings: dict
    run: dict | None = None
    work: Any = None

    def network(self, quantize=None):
        """Returns the IdsNetwork of the model; for quantize "bfloat16", that of a bfloat16 copy."""
        model, settings = self.predictor.model, self.settings
        if quantize == "bfloat16":
            model = in_bfloat16(model, self._make_model)
        if settings["task"] != "vectors":
            return IdsNetwork(model, settings["task"])
        has_pooler = "bert/pooler/dense/kernel" in self.predictor.files.checkpoint.names
        return IdsNetwork(model, "vectors", settings["layer"], has_pooler)

    def write_model_files(self, folder):
        """Writes the files that `prediction` needs to open a model, except its weights.

        Args:
            folder: `pathlib.Path`.
        """
        files = self.predictor.files
        files.config.to_json_file(folder / "bert_config.json")
        paths.copy(files.vocab_file, folder / "vocab.txt")
        (folder / TOKENIZER_FILE).write_text(preparation_text(files.preparation), encoding="utf-8")
        settings = json.dumps(self.settings, indent=2, ensure_ascii=False)
        (folder / TASK_FILE).write_text(settings + "\n", encoding="utf-8")

    def write_saved_model(self, folder, quantize=None):
        """Writes the SavedModel into a folder that has the files of `write_model_files`.

        Args:
            folder: `pathlib.Path`.
            quantize: "bfloat16" or None.

        Returns:
            the TextModel that was written.
        """
        # These imports need tensorflow-text, which some systems lack. The other formats do not need it.
        from bert_keras.export.formats.saved_model import make_text_model, write_saved_model
        from bert_keras.export.graph.tokenization import GraphTokenizer

        preparation = self.predictor.files.preparation
        tokenizer = GraphTokenizer(folder / "vocab.txt", preparation.do_lower_case, preparation.strip_accents)
        text_model = make_text_model(self.network(quantize), tokenizer, self.settings)
        write_saved_model(text_model, folder)
        return text_model

    def write_ids(self, name, folder, quantize=None):
        """Writes the network in a format that takes ids only.

        Args:
            name: "onnx" or "litert".
            folder: `pathlib.Path`.
            quantize: "int8" or None.

        Returns:
            `export.checks.agreement.Agreement` between the file and the network.
        """
        return write_ids(name, self.network(), folder / PLACES[name], quantize)

    def _make_model(self):
        """Returns a new model of the same class and size."""
        model = self.predictor.model
        has_classes = not isinstance(model, BertModel | PretrainingModel | SquadModel)
        return type(model)(self.predictor.config, *((self.predictor.num_classes,) if has_classes else ()))
