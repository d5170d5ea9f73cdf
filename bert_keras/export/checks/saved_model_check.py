"""Checks that a SavedModel answers in a new process as the model does in this one."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.export.checks.agreement import judge, largest_difference, questions
from bert_keras.mistakes import Mistake
from bert_keras.prediction.predictor import Predictor
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import TextModel

# Tolerances for the answers to texts, relative to the largest number if that is above 1. In bfloat16 a sum depends on
# the order of its terms. `judge` checks the scores of the network.
_TOLERANCES = {None: 1e-4, "bfloat16": 0.05}
# A minimal program that uses an export. It runs on the CPU: the parent process may hold the memory of the GPU.
_PROGRAM = """
import pickle
import sys
import time

import tensorflow as tf
import tensorflow_text

tf.config.set_visible_devices([], "GPU")
folder, calls, outputs_file = pickle.load(sys.stdin.buffer)
started = time.perf_counter()
signatures = tf.saved_model.load(folder).signatures
load_seconds = time.perf_counter() - started
outputs = []
for signature, inputs in calls:
    answer = signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
    outputs.append({name: value.numpy() for name, value in answer.items()})
if "bert_keras" in sys.modules:
    sys.exit("it has loaded bert_keras")
with open(outputs_file, "wb") as file:
    pickle.dump((outputs, load_seconds), file)
"""


def check_saved_model(
    folder: str | os.PathLike,
    text_model: TextModel,
    network: IdsNetwork,
    predictor: Predictor,
    texts: dict[str, np.ndarray],
    quantize: str | None = None,
) -> dict[str, Any]:
    """Compares a SavedModel with its text model, with the network in float32 and with the answers of Python.

    Returns the entries of export.json. The texts that Python answers differently ("num_other") are an error without
    quantization.
    """
    tolerance = _TOLERANCES[quantize]
    of_text = [texts, {name: values[:1] for name, values in texts.items()}]
    calls = [("serving_default", inputs) for inputs in of_text]
    calls += [("ids", features) for features in questions(network)]
    found, load_seconds = run_in_new_process(folder, calls)
    differences = []
    for inputs, outputs in zip(of_text, found, strict=False):
        expected = {name: value.numpy() for name, value in text_model.answer(inputs).items()}
        allowed = tolerance * _scale_of(expected)
        differences.append(largest_difference(expected, outputs, allowed, "serving_default in a new process"))
    ids = judge("ids in a new process", found[len(of_text) :], network, quantize)
    live, num_live, num_other = compare_with_python(text_model, predictor, texts, found[0], tolerance, bool(quantize))
    return {
        "text": max(differences),
        "ids": ids["largest_difference"],
        "distance": ids["distance"],
        "live": live,
        "num_texts": len(found[0]["is_cut"]),
        "num_live": num_live,
        "num_other": num_other,
        "tolerance": tolerance,
        "load_seconds": load_seconds,
    }


def run_in_new_process(
    folder: str | os.PathLike, calls: Sequence[tuple[str, dict[str, np.ndarray]]]
) -> tuple[list[dict[str, np.ndarray]], float]:
    """Calls a SavedModel in a process that has only TensorFlow and tensorflow-text.

    Each call is a signature name and a dict of arrays. Returns their outputs, and the seconds that loading took.
    """
    with tempfile.NamedTemporaryFile() as file:
        process = subprocess.run(
            [sys.executable, "-I", "-c", _PROGRAM],
            input=pickle.dumps((str(folder), calls, file.name)),
            capture_output=True,
            check=False,
        )
        if process.returncode:
            last = (process.stderr.decode(errors="replace").strip() or "no message").splitlines()[-1]
            raise Mistake("the SavedModel does not run in a new process: {}", last)
        return pickle.load(file)


def compare_with_python(
    text_model: TextModel,
    predictor: Predictor,
    texts: Mapping[str, np.ndarray],
    outputs: Mapping[str, np.ndarray],
    tolerance: float,
    is_quantized: bool = False,
) -> tuple[float, int, int]:
    """Compares the outputs for texts with the answers of `prediction`, except to texts that one of them cannot answer.

    These are texts that are empty or have no words or masks, and cut texts, which Python reads through windows. If the
    model is quantized, answers may differ, and numbers may by any amount.

    Returns the largest difference of two numbers, the number of texts that both answer, and how many answers differ.
    """
    rows = [row for row in range(len(outputs["is_cut"])) if _is_comparable(row, texts, outputs)]
    asked = [_in_python(values[row] for values in texts.values()) for row in rows]
    if text_model.python_settings:
        predictor = copy.copy(predictor)
        predictor.settings = predictor.settings | text_model.python_settings
    largest, num_other = 0.0, 0
    for row, answer in zip(rows, predictor(asked) if asked else [], strict=True):
        expected = {name: _as_output(value) for name, value in text_model.expected(answer).items()}
        # Remove the padding of the batch.
        found = {
            name: outputs[name][(slice(row, row + 1), *map(slice, value.shape[1:]))] for name, value in expected.items()
        }
        allowed = np.inf if is_quantized else tolerance * _scale_of(expected)
        try:
            difference = largest_difference(
                expected, found, allowed, f"serving_default, against Python, text {row + 1}"
            )
            largest = max(largest, difference)
        except Mistake:
            if not is_quantized:
                raise
            num_other += 1
    return largest, len(rows), num_other


def _scale_of(outputs: Mapping[str, np.ndarray]) -> float:
    """Returns the factor for a relative tolerance: the largest number, or 1 if all are smaller."""
    floats = [value for value in outputs.values() if np.issubdtype(value.dtype, np.floating)]
    return max([1.0, *(float(np.abs(value).max(initial=0.0)) for value in floats)])


def _is_comparable(row: int, texts: Mapping[str, np.ndarray], outputs: Mapping[str, np.ndarray]) -> bool:
    parts = [part for values in texts.values() for part in np.ravel(values[row])]
    has_parts = all(outputs[name][row] for name in ("num_words", "num_masks", "num_tokens") if name in outputs)
    return has_parts and not outputs["is_cut"][row] and not any(is_blank(_decode(part)) for part in parts)


def _in_python(values: Iterable[Any]) -> Any:
    parts = [[_decode(part) for part in value] if isinstance(value, np.ndarray) else _decode(value) for value in values]
    return parts[0] if len(parts) == 1 else tuple(parts)


def _decode(text: bytes) -> str:
    return text.decode("utf-8", errors="ignore")


def _as_output(value: Any) -> np.ndarray:
    """Returns a part of a Python answer as a batch of one; strings become bytes."""
    array = np.array(value, object)
    if isinstance(array.flat[0], str):
        return np.vectorize(str.encode, [object])(array)[np.newaxis]
    return np.array([value])
