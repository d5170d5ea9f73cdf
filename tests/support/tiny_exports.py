"""Folders of tiny exports, as prediction opens them."""

import json
import shutil
from unittest import mock

from bert_keras.export.formats import converters, ids_formats
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.saved_model import make_text_model, write_saved_model
from bert_keras.export.graph.tokenization import GraphTokenizer

PLACES = {"saved_model": "1", "onnx": "model.onnx", "litert": "model.tflite"}
_FILES = ("bert_config.json", "vocab.txt", "tokenizer_config.json", "task.json")


def converters_in_this_process():
    """Returns a context in which converters run in the test process, which is faster than in a new process."""
    return mock.patch.object(ids_formats, "_run_converter", lambda called, arguments: converters.convert(*arguments))


def write_export(folder, model_folder, model, formats=("litert",), **settings):
    """Writes an export of a model whose other files are in a folder.

    Args:
        settings: replace those of the task.json there, if it exists.
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
    with converters_in_this_process():
        for name in set(formats) - {"saved_model"}:
            ids_formats.write_ids(name, network, folder / PLACES[name])
    places = {name: {"path": PLACES[name]} for name in formats}
    (folder / "export.json").write_text(json.dumps({"formats": places}))
    return folder
