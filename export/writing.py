"""An export as a folder: the formats, each compared with the model, and the files beside them."""

import dataclasses
import importlib.metadata
import json
import logging
import platform
import time

from export.calls import example_texts
from export.check_texts import built_in_texts, read_check_texts
from export.costs import cost_of, num_bytes
from export.model_card import model_card
from export.quantization import FORMATS
from export.self_check import check_saved_model
from export.source import PLACES
from prediction.model_files import EXPORT_FILE

log = logging.getLogger("bert_keras")

_PACKAGES = {
    "saved_model": ("tensorflow", "keras", "tensorflow-text"),
    "onnx": ("tensorflow", "keras", "tf2onnx", "onnx", "onnxruntime"),
    "litert": ("tensorflow", "keras", "ai-edge-litert"),
}


def write_export(source, folder, formats, quantize=None, check_file=None):
    """Writes an export into a folder and compares it with the model.

    Args:
        source: Source.
        folder: `pathlib.Path`; empty.
        formats: list of str, of FORMATS.
        quantize: "int8", "bfloat16" or None.
        check_file: path of texts to check the SavedModel with; None: odd ones.

    Returns:
        dict; what export.json says.

    Raises:
        ValueError: a format cannot take the model, or gives something else than it does.
    """
    source.write_model_files(folder)
    entries, answer = {}, {}
    for name in [name for name in FORMATS if name in formats]:
        started = time.monotonic()
        if name == "saved_model":
            text_model = source.write_saved_model(folder, quantize)
            compared = _check(source, folder, text_model, quantize, check_file)
            example = {name: [value] for name, value in example_texts(source.settings).items()}
            answer = {name: value.numpy() for name, value in text_model.answer(example).items()}
        else:
            compared = {"largest_difference": source.write_ids(name, folder, quantize)}
            log.info("%s, run on random ids: the largest difference to the model is %.2g", name, *compared.values())
        size = num_bytes(folder / PLACES[name])
        log.info(
            "%s: %s, %.1f MB, written and checked in %.1f s",
            *(name, PLACES[name], size / 1e6, time.monotonic() - started),
        )
        entries[name] = {"path": PLACES[name], "quantize": quantize, "bytes": size, "compared": compared}
    written = {
        "name": source.name,
        "task": source.settings["task"],
        "formats": entries,
        "costs": [cost_of(name, source, folder, quantize) for name in entries] if quantize else [],
        "versions": _versions(entries),
    }
    (folder / "README.md").write_text(model_card(source, written, answer), encoding="utf-8")
    # Last, because it is what an export is known by.
    (folder / EXPORT_FILE).write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


def _check(source, folder, text_model, quantize, check_file):
    """Checks the SavedModel in a fresh process, says what came of it, and returns that as a dict."""
    signature, settings = text_model.text_signature, source.settings
    if check_file:
        texts = read_check_texts(check_file, signature)
    else:
        texts = built_in_texts(signature, settings["task"], settings["max_seq_length"])
    found = check_saved_model(folder / PLACES["saved_model"], text_model, source.predictor, texts, quantize)
    log.info(
        "saved_model, in a process of its own that has TensorFlow and tensorflow-text alone, loaded in %.1f s: the "
        "largest difference to the model is %.2g for %d texts, %.2g for ids, and to the answers of Python %.2g for %d "
        "of the texts, those that are neither empty nor too long",
        *(found.load_seconds, found.text, found.num_texts, found.ids, found.live, found.num_live),
    )
    if found.num_other:
        log.warning("%d of these %d answers are others than before --quantize", found.num_other, found.num_live)
    return dataclasses.asdict(found)


def _versions(entries):
    packages = dict.fromkeys(package for name in entries for package in _PACKAGES[name])
    return {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
