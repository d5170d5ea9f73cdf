"""Writes an export folder: the model in each format, compared with the source model, and a model card."""

import dataclasses
import json
import logging
import time

from bert_keras.export.card.model_card import model_card
from bert_keras.export.card.usage_examples import example_texts
from bert_keras.export.checks.self_check import check_saved_model
from bert_keras.export.checks.texts import built_in_texts
from bert_keras.export.formats.packages import versions
from bert_keras.export.formats.quantization import FORMATS
from bert_keras.export.quantization_cost import cost_of, num_bytes
from bert_keras.export.source import PLACES
from bert_keras.prediction.loading.model_files import EXPORT_FILE

log = logging.getLogger("bert_keras")


def write_export(source, folder, formats, quantize=None, check_texts=None):
    """Writes an export into a folder and compares it with the model.

    Args:
        source: Source.
        folder: `pathlib.Path`; empty.
        formats: list of str, from FORMATS.
        quantize: "int8", "bfloat16" or None.
        check_texts: dict of arrays of bytes, the texts to check the SavedModel with; None: built-in texts.

    Returns:
        dict; the contents of export.json.

    Raises:
        ValueError: a format does not support the model, or its outputs differ from those of the model.
    """
    source.write_model_files(folder)
    entries, answer = {}, {}
    for name in [name for name in FORMATS if name in formats]:
        started = time.monotonic()
        if name == "saved_model":
            text_model = source.write_saved_model(folder, quantize)
            compared = _check(source, folder, text_model, quantize, check_texts)
            example = {name: [value] for name, value in example_texts(source.settings).items()}
            answer = {name: value.numpy() for name, value in text_model.answer(example).items()}
        else:
            compared = dataclasses.asdict(source.write_ids(name, folder, quantize))
            log.info(
                "%s, run on random ids: the largest difference from the model is %.2g, and the distance is %.2g of "
                "the variation of its scores",
                *(name, compared["largest_difference"], compared["distance"]),
            )
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
        "versions": versions(entries),
    }
    (folder / "README.md").write_text(model_card(source, written, answer), encoding="utf-8")
    # Written last: this file identifies a folder as an export.
    (folder / EXPORT_FILE).write_text(json.dumps(written, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    return written


def _check(source, folder, text_model, quantize, texts):
    """Checks the SavedModel in a new process, logs the result, and returns it as a dict."""
    signature, settings = text_model.text_signature, source.settings
    if texts is None:
        texts = built_in_texts(signature, settings["task"], settings["max_seq_length"])
    path = folder / PLACES["saved_model"]
    found = check_saved_model(path, text_model, source.network(), source.predictor, texts, quantize)
    log.info(
        "saved_model, in a new process with only TensorFlow and tensorflow-text, loaded in %.1f s: the largest "
        "difference from the model is %.2g for %d texts and %.2g for ids, and from the answers in Python %.2g for %d "
        "texts (without empty texts and texts that are too long)",
        *(found.load_seconds, found.text, found.num_texts, found.ids, found.live, found.num_live),
    )
    if found.num_other:
        log.warning("--quantize changed %d of these %d answers", found.num_other, found.num_live)
    return dataclasses.asdict(found)
