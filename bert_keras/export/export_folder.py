"""Writes an export folder: the model in each format, compared with the source model, and a model card."""

import logging
import pathlib
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.export.calibration import calibration_of
from bert_keras.export.card.model_card import model_card
from bert_keras.export.card.usage_examples import example_texts
from bert_keras.export.checks.saved_model_check import check_saved_model
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.choices import FORMATS, PLACES, is_calibrated, quantization_of, versions
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.web import write_web
from bert_keras.export.quantization_cost import cost_of, num_bytes
from bert_keras.export.source import Source
from bert_keras.mistakes import Message
from bert_keras.model_folder.folder import EXPORT_FILE
from bert_keras.storage.json_files import readable_json
from bert_keras.tasks.graph.text_model import TextModel

log = logging.getLogger("bert_keras")


def write_export(
    source: Source,
    folder: pathlib.Path,
    formats: Sequence[str],
    quantize: str | None,
    max_loss: float,
    check_texts: dict[str, np.ndarray] | None = None,
    web_package: pathlib.Path | None = None,
) -> dict[str, Any]:
    """Writes an export of a Source into an empty folder, and compares it with the model.

    max_loss is the share of its metric that `quantize` may cost. check_texts are the texts to check the SavedModel with
    (see `read_check_texts`); None for built-in texts. web_package is the result of `find_package`, for the format
    "web". Returns the contents of export.json. Raises ValueError if a format does not support the model, if its outputs
    differ, or if its metric loses more.
    """
    source.write_model_files(folder)
    entries, answer = {}, {}
    for name in [name for name in FORMATS if name in formats]:
        started, path, stored = time.monotonic(), folder / PLACES[name], quantization_of(name, quantize)
        if name == "saved_model":
            text_model = source.write_saved_model(folder, stored)
            compared = _check(source, path, text_model, stored, check_texts or built_in_texts(source.settings))
            example = {name: [value] for name, value in example_texts(source.settings).items()}
            answer = {name: value.numpy() for name, value in text_model.answer(example).items()}
        else:
            if name == "web":
                assert web_package  # api.run has found it
                compared = write_web(source, folder, stored, web_package)
            else:
                inputs = calibration_of(source) if is_calibrated(name, quantize) else ()
                compared = write_ids(name, source.network, path, stored, calibration=inputs)
            log.info(
                "%s, run on %s ids: the largest difference from the model is %.2g, and the distance is %.2g of "
                "the variation of its scores",
                name,
                "calibration" if is_calibrated(name, quantize) else "random",
                compared["largest_difference"],
                compared["distance"],
            )
        size, seconds = num_bytes(path), time.monotonic() - started
        log.info("%s: %s, %.1f MB, written and checked in %.1f s", name, PLACES[name], size / 1e6, seconds)
        entries[name] = {"path": PLACES[name], "quantize": stored, "bytes": size, "compared": compared}
    written = {
        "name": source.name,
        "task": source.settings["task"],
        "formats": entries,
        "costs": [
            cost_of(name, source, folder, entry["quantize"], max_loss)
            for name, entry in entries.items()
            if entry["quantize"]
        ],
        "versions": versions(entries),
    }
    (folder / "README.md").write_text(model_card(source, written, answer), encoding="utf-8")
    # Written last: this file identifies a folder as an export.
    (folder / EXPORT_FILE).write_text(readable_json(written), encoding="utf-8")
    return written


def _check(
    source: Source, path: pathlib.Path, text_model: TextModel, quantize: str | None, texts: dict[str, np.ndarray]
) -> dict[str, Any]:
    """Checks the SavedModel, logs the result and returns it."""
    found = check_saved_model(path, text_model, source.network, source.predictor, texts, quantize)
    log.info(
        "saved_model, in a new process with only TensorFlow and tensorflow-text, loaded in %(load_seconds).1f s: the "
        "largest difference from the model is %(text).2g for %(num_texts)d texts and %(ids).2g for ids, and from the "
        "answers in Python %(live).2g for %(num_live)d texts (without empty texts and texts that are too long)",
        found,
    )
    if found["num_other"]:
        log.warning(Message("{quantize} changed {} of these {} answers", found["num_other"], found["num_live"]))
    return found
