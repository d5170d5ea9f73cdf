"""Measures how quantization changes the size, the speed and the metric of a model."""

import itertools
import logging
import os
import pathlib
import tempfile
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from bert_keras.engine.input.feature_batches import prediction_batches
from bert_keras.export.calibration import sample_inputs
from bert_keras.export.checks.agreement import random_features
from bert_keras.export.choices import network_place
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.source import Source
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import OPENERS

log = logging.getLogger("bert_keras")

_TIMED_ROWS, _TIMED_TOKENS = 32, 128
_BATCH_SIZE = 8


def cost_of(name: str, source: Source, folder: pathlib.Path, quantize: str, max_loss: float) -> str:
    """Writes a format again without quantization, and compares it with the one in the folder of the export.

    Logs and returns the result, a sentence. Raises a Mistake if the metric, of which a higher one is better, loses a
    larger share than `max_loss`.
    """
    with tempfile.TemporaryDirectory() as scratch:
        plain, network_format = pathlib.Path(scratch), "onnx" if name == "web" else name
        source.write_model_files(plain)
        if name == "saved_model":
            source.write_saved_model(plain)
        else:
            (plain / network_place(name)).parent.mkdir(exist_ok=True)
            write_ids(network_format, source.network, plain / network_place(name))
        places = [plain / network_place(name), folder / network_place(name)]
        sizes = [num_bytes(place) / 1e6 for place in places]
        calls = [OPENERS[network_format](place) for place in places]
        metrics, speeds = zip(*(_measure(source, call) for call in calls), strict=True)
        changed = "" if source.task else _change(source, *calls)
    summary = (
        f"{name} in {quantize}: {sizes[0]:.1f} MB before, {sizes[1]:.1f} MB now; "
        f"{speeds[0]:.1f} sequences a second before, {speeds[1]:.1f} now; "
    )
    if source.task is None:
        summary += changed
    else:
        # With a stride, a row of the features is a window, of which an example may have several.
        has_windows = source.settings.get("doc_stride") is not None
        things = "windows of evaluation examples" if has_windows else "evaluation examples"
        num_rows = len(source.task.eval_features["input_ids"])
        summary += f"{source.task.metric} {metrics[0]:.4g} before, {metrics[1]:.4g} now, on {num_rows:,} {things}"
    log.info("%s", summary)
    if source.task and metrics[0] - metrics[1] > max_loss * abs(metrics[0]):
        raise Mistake(
            "{quantize}={} lowers {} from {:.4g} to {:.4g}, by more than {max_loss}={} of it; give more training data, "
            "another {format} or {quantize}=float32, or accept it with a higher {max_loss}",
            quantize,
            source.task.metric,
            *metrics,
            max_loss,
        )
    return summary


def num_bytes(path: pathlib.Path) -> int:
    """Returns the size of a file, with the weights of an OpenVINO file, or of all files in a folder, in bytes."""
    files = [file for file in path.rglob("*") if file.is_file()] if path.is_dir() else [path]
    if path.suffix == ".xml":
        files.append(path.with_suffix(".bin"))
    return sum(os.path.getsize(file) for file in files)


def outputs_of(
    call: Callable, features: Mapping[str, np.ndarray], is_per_token: bool, is_trimmed: bool
) -> tuple[dict[str, np.ndarray], float]:
    """Runs a network of any format, a function of arrays, on every row of features.

    The features are [N, T], or [N, K, T] if each row has K sequences with one score or vector each. is_trimmed cuts
    batches to their longest sequence; outputs for tokens that were cut off are 0.

    Returns the outputs [N, ...] in the order of the rows, and the rows per second. The first batch runs once without
    timing.
    """
    num_rows, num_tokens = len(features["input_ids"]), features["input_ids"].shape[-1]
    batches, order = prediction_batches(features, _BATCH_SIZE, is_trimmed)
    collected, seconds = {}, 0.0
    for start, batch in zip(range(0, num_rows, _BATCH_SIZE), batches, strict=True):
        rows = order[start : start + _BATCH_SIZE]
        shape = (len(rows), *batch["input_ids"].shape[1:])  # [B, T], or [B, K, T]
        sequences = {name: value.numpy()[: len(rows)].reshape(-1, value.shape[-1]) for name, value in batch.items()}
        if not start:
            _answer(call, sequences)  # may compile
        started = time.perf_counter()
        outputs = _answer(call, sequences)
        seconds += time.perf_counter() - started
        for name, values in outputs.items():
            if len(shape) == 3:
                values = values.reshape(shape[:2] if values.shape[1:] == (1,) else (*shape[:2], -1))
            if is_per_token:
                values = np.pad(values, [(0, 0), (0, num_tokens - shape[1]), *[(0, 0)] * (values.ndim - 2)])
            collected.setdefault(name, np.empty((num_rows, *values.shape[1:]), np.float32))[rows] = values
    return collected, num_rows / seconds


def _answer(call: Callable, sequences: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    return {name: np.asarray(value) for name, value in call(sequences).items()}


def _change(source: Source, before: Callable, now: Callable) -> str:
    """Returns by how much the outputs of two networks differ for sample texts, in words."""
    largest, lowest, highest = 0.0, np.inf, -np.inf
    texts = sample_inputs(source, is_built_in=True)
    for features in itertools.chain(*texts):
        expected, found = (
            source.predictor.outputs_to_evaluate(_answer(call, features), features) for call in (before, now)
        )
        for name, values in expected.items():
            values = np.asarray(values)
            largest = max(largest, float(np.abs(values - found[name]).max()))
            lowest, highest = min(lowest, float(values.min())), max(highest, float(values.max()))
    return (
        f"without evaluation data, the largest change of a number is {largest:.2g} for {len(texts)} sample texts, "
        f"whose numbers are from {lowest:.3g} to {highest:.3g}"
    )


def _measure(source: Source, call: Callable) -> tuple[float | None, float]:
    """Returns the metric of the task (None for a pre-trained model), and the rows per second."""
    task, network = source.task, source.network
    if task is None:
        num_tokens = min(_TIMED_TOKENS, source.settings["max_seq_length"])
        features = random_features(network, _TIMED_ROWS, num_tokens)
        return None, outputs_of(call, features, is_per_token=False, is_trimmed=False)[1]
    features = {name: task.eval_features[name] for name in network.input_names}
    is_per_token = getattr(source.predictor.model, "is_per_token", False)

    def answer(features: dict[str, np.ndarray]) -> dict[str, Any]:
        return source.predictor.outputs_to_evaluate(call(features), features)

    outputs, speed = outputs_of(answer, features, is_per_token, task.is_trimmed)
    return task.evaluate(outputs)[task.metric], speed
