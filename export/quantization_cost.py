"""Measures how quantization changes the size, the speed and the metric of a model."""

import logging
import os
import pathlib
import tempfile

from bert_keras.export.checks.agreement import random_features
from bert_keras.export.judging import outputs_of
from bert_keras.export.source import PLACES
from bert_keras.prediction.loading.exported import open_litert, open_onnx, open_saved_model

log = logging.getLogger("bert_keras")

_OPENERS = {"saved_model": open_saved_model, "onnx": open_onnx, "litert": open_litert}
_TIMED_ROWS, _TIMED_TOKENS = 32, 128


def cost_of(name, source, folder, quantize):
    """Writes a format again without quantization, compares the two and logs the result.

    Args:
        name: str; the format.
        source: Source.
        folder: `pathlib.Path` of the export.
        quantize: "int8" or "bfloat16".

    Returns:
        str; the logged sentence.
    """
    with tempfile.TemporaryDirectory() as scratch:
        plain = pathlib.Path(scratch)
        source.write_model_files(plain)
        if name == "saved_model":
            source.write_saved_model(plain)
        else:
            source.write_ids(name, plain)
        places = [plain / PLACES[name], folder / PLACES[name]]
        sizes = [num_bytes(place) / 1e6 for place in places]
        figures, speeds = zip(*(_judge(source, _OPENERS[name](place)) for place in places), strict=True)
    told = (
        f"{name} in {quantize}: {sizes[0]:.1f} MB before, {sizes[1]:.1f} MB now; "
        f"{speeds[0]:.1f} sequences a second before, {speeds[1]:.1f} now; "
    )
    if source.work is None:
        told += "a pre-trained model has no metric for the loss of quality"
    else:
        num_rows = len(source.work.eval_features["input_ids"])
        told += (
            f"{source.work.metric} {figures[0]:.4g} before, {figures[1]:.4g} now, on {num_rows:,} evaluation examples"
        )
    log.info("%s", told)
    return told


def num_bytes(path):
    """Returns the size of a file, or of all files in a folder, in bytes."""
    files = [each for each in path.rglob("*") if each.is_file()] if path.is_dir() else [path]
    return sum(os.path.getsize(each) for each in files)


def _judge(source, call):
    """Returns the metric of the task (None for a pre-trained model), and the rows per second."""
    work, network = source.work, source.network()
    if work is None:
        num_tokens = min(_TIMED_TOKENS, source.settings["max_seq_length"])
        features = random_features(network, _TIMED_ROWS, num_tokens)
        return None, outputs_of(call, features, is_per_token=False, is_trimmed=False)[1]
    features = {name: work.eval_features[name] for name in network.input_names}
    outputs, speed = outputs_of(call, features, source.predictor.model.is_per_token, work.is_trimmed)
    return work.evaluate(outputs)[work.metric], speed
