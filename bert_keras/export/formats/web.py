"""Writes a model as a folder for a static web host: a page, the model as ONNX, and the tokenizer in JavaScript."""

import dataclasses
import inspect
import json
import logging
import pathlib
import shutil
from typing import Any

from bert_keras import serving
from bert_keras.export.checks.web_check import compare_in_node
from bert_keras.export.choices import PLACES
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.web_runtime import write_runtime
from bert_keras.export.formats.web_tokenizer import unicode_tables
from bert_keras.export.source import Source
from bert_keras.model_folder.exported import WEB_MODEL
from bert_keras.model_folder.folder import EXPORT_FILE
from bert_keras.prediction.arguments import Limits
from bert_keras.storage import writing
from bert_keras.tasks import ability_of, predictor_of
from bert_keras.tasks.graph.text_model import text_names

log = logging.getLogger("bert_keras")

_PAGE = pathlib.Path(serving.__file__).parent / "page"
_BACKENDS = ("server_backend.js", "browser_backend.js")


def write_web(source: Source, folder: pathlib.Path, quantize: str | None, package: pathlib.Path) -> dict[str, Any]:
    """Writes the web folder of a Source into a folder, after its JavaScript gave the answers of Python.

    quantize is "int8" or None, and package the path of the package of ONNX Runtime Web. JavaScript is compared in
    float32, where only rounding differs. Without Node, only the network is compared.

    Returns the result of `judge` for the network, with that of `compare_in_node`.
    """
    with writing.scratch(folder / PLACES["web"]) as scratch:
        # An export of this format alone, which Python can open for the comparison.
        export = pathlib.Path(scratch)
        web = export / PLACES["web"]
        web.mkdir()
        source.write_model_files(export)
        (export / EXPORT_FILE).write_text(json.dumps({"formats": {"web": {"path": PLACES["web"]}}}))
        _write_page(source, web)
        write_runtime(package, web)
        quantized = export / "quantized.onnx"
        if quantize:
            agreement = write_ids("onnx", source.network, quantized, quantize, plain_file=web / WEB_MODEL)
        else:
            agreement = write_ids("onnx", source.network, web / WEB_MODEL)
        agreement |= compare_in_node(export, source.settings, quantized if quantize else None)
        if quantize:
            quantized.replace(web / WEB_MODEL)
        web.replace(folder / PLACES["web"])
    return agreement


def code_of_task(task: str) -> pathlib.Path:
    """Returns the path of the JavaScript of a task: web.js next to its Python, which may not exist."""
    return pathlib.Path(inspect.getfile(predictor_of(task))).with_name("web.js")


def _write_page(source: Source, web: pathlib.Path) -> None:
    """Writes the page, its backend, and what they need to know about the model."""
    for file in sorted(_PAGE.iterdir()):
        if file.is_file() and file.name not in _BACKENDS:
            shutil.copyfile(file, web / file.name)
    shutil.copyfile(_PAGE / "browser_backend.js", web / "backend.js")
    shutil.copyfile(code_of_task(source.settings["task"]), web / "task.js")
    settings, tokenizer = source.settings, source.predictor.tokenizer
    task = ability_of(settings["task"])
    described = {
        "name": source.name,
        "route": f"/v1/{task.route}",
        "fields": text_names(settings),
        "page": task.page,
        "settings": settings,
        "limits": dataclasses.asdict(Limits()),
    }
    (web / "model.json").write_text(json.dumps(described, ensure_ascii=False) + "\n", encoding="utf-8")
    (web / "vocab.txt").write_text("".join(f"{token}\n" for token in tokenizer.tokens), encoding="utf-8")
    tables = unicode_tables(tokenizer)
    (web / "unicode.json").write_text(json.dumps(tables, separators=(",", ":")) + "\n")
