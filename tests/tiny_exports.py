"""Folders of tiny exports, as prediction opens them."""

import json
import shutil

from data_prep.graph_tokenization import GraphTokenizer
from export.ids_formats import write_ids
from export.networks import IdsNetwork
from export.saved_model import make_text_model, write_saved_model

PLACES = {"saved_model": "1", "onnx": "model.onnx", "litert": "model.tflite"}
_FILES = ("bert_config.json", "vocab.txt", "tokenizer_config.json", "task.json")


def write_export(folder, model_folder, model, formats=("litert",), **settings):
    """Writes an export of a model whose other files are in a folder.

    Args:
        settings: instead of those of the task.json there, if there are any.
    """
    folder.mkdir(parents=True)
    for name in _FILES:
        if (model_folder / name).exists():
            shutil.copyfile(model_folder / name, folder / name)
    if settings:
        (folder / "task.json").write_text(json.dumps(settings))
    settings = json.loads((folder / "task.json").read_text())
    network = IdsNetwork(model, settings["task"], settings.get("layer", -1))
    if "saved_model" in formats:
        write_saved_model(make_text_model(network, GraphTokenizer(folder / "vocab.txt"), settings), folder)
    for name in ("onnx", "litert"):
        if name in formats:
            write_ids(name, network, folder / PLACES[name])
    places = {name: {"path": PLACES[name]} for name in formats}
    (folder / "export.json").write_text(json.dumps({"formats": places}))
    return folder
