"""Checks that a SavedModel answers in a new process as the model does in this one."""

import copy
import os
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.export.checks.agreement import judge, questions
from bert_keras.export.checks.comparison import TOLERANCES, as_array, ask_python, compare_answers
from bert_keras.export.checks.texts import items_of
from bert_keras.mistakes import Mistake
from bert_keras.prediction.predictor import Predictor
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks.graph.networks import IdsNetwork
from bert_keras.tasks.graph.text_model import TextModel

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
    tolerance = TOLERANCES[quantize]
    text_inputs = [texts, {name: values[:1] for name, values in texts.items()}]
    calls = [("serving_default", inputs) for inputs in text_inputs]
    calls += [("ids", features) for features in questions(network)]
    found, load_seconds = run_in_new_process(folder, calls)
    differences = []
    for inputs, outputs in zip(text_inputs, found, strict=False):
        expected = {name: value.numpy() for name, value in text_model.answer(inputs).items()}
        called = "serving_default in a new process, text {}"
        differences.append(compare_answers(called, _rows_of(expected), _rows_of(outputs), tolerance)[0])
    ids = judge("ids in a new process", found[len(text_inputs) :], network, quantize)
    allowed = np.inf if quantize else tolerance
    live, num_live, num_other = compare_with_python(text_model, predictor, texts, found[0], allowed)
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
) -> tuple[float, int, int]:
    """Compares the outputs for texts with the answers of `prediction`, except to texts that one of them cannot answer.

    These are texts that are empty or have no words or masks, and cut texts, which Python reads through windows. The
    tolerance is as in `compare_answers`.

    Returns the largest difference of two numbers, the number of texts that both answer, and how many answers differ.
    """
    if text_model.python_settings:
        predictor = copy.copy(predictor)
        predictor.settings = predictor.settings | text_model.python_settings
    items, found = items_of(texts), _rows_of(outputs)
    rows = [row for row, (item, output) in enumerate(zip(items, found, strict=True)) if _is_comparable(item, output)]
    expected: list[Any] = [None] * len(items)
    for row, answer in zip(rows, ask_python(predictor, [items[row] for row in rows]), strict=True):
        if isinstance(answer, str):
            expected[row] = answer
            continue
        expected[row] = {name: as_array(value) for name, value in text_model.expected(answer[0]).items()}
        # Remove the padding of the batch.
        found[row] = {name: found[row][name][(*map(slice, value.shape),)] for name, value in expected[row].items()}
    called = "serving_default, against Python, text {}"
    largest, num_other = compare_answers(called, expected, found, tolerance)
    return largest, len(rows), num_other


def _rows_of(outputs: Mapping[str, np.ndarray]) -> list[dict[str, np.ndarray]]:
    """Returns the outputs for a batch as those for each text, with str for bytes."""
    decoded = {
        name: np.vectorize(_decode, [object])(values) if values.dtype == object else values
        for name, values in outputs.items()
    }
    return [dict(zip(decoded, map(as_array, row), strict=True)) for row in zip(*decoded.values(), strict=True)]


def _decode(text: bytes) -> str:
    # Different bytes stay different.
    return text.decode(errors="backslashreplace")


def _is_comparable(item: Mapping[str, Any], outputs: Mapping[str, np.ndarray]) -> bool:
    parts = [part for value in item.values() for part in ([value] if isinstance(value, str) else value)]
    has_parts = all(value for name, value in outputs.items() if name.startswith("num_"))
    return has_parts and not outputs["is_cut"] and not any(map(is_blank, parts))
