"""Runs a SavedModel in a process without this project, and compares its answers with expected answers."""

import logging
import pickle
import subprocess
import sys
import tempfile

import numpy as np

log = logging.getLogger("bert_keras")

_OF_THIS_PROJECT = ("bert_keras",)
# A minimal program that uses an export. It runs on the CPU: the parent process may hold the memory of the GPU.
SOURCE = """
import pickle
import sys
import time

import tensorflow as tf
import tensorflow_text

tf.config.set_visible_devices([], "GPU")
folder, calls, outputs_file, foreign = pickle.load(sys.stdin.buffer)
started = time.perf_counter()
signatures = tf.saved_model.load(folder).signatures
load_seconds = time.perf_counter() - started
outputs = []
for signature, inputs in calls:
    answer = signatures[signature](**{name: tf.constant(value) for name, value in inputs.items()})
    outputs.append({name: value.numpy() for name, value in answer.items()})
loaded = sorted(set(foreign) & {name.partition(".")[0] for name in sys.modules})
if loaded:
    sys.exit(f"it has loaded {', '.join(loaded)}")
with open(outputs_file, "wb") as file:
    pickle.dump((outputs, load_seconds), file)
"""


def run_in_fresh_process(folder, calls):
    """Loads a SavedModel in a new process that has only TensorFlow and tensorflow-text, and calls it.

    Args:
        folder: path of the SavedModel.
        calls: list of (signature name, dict of arrays by input name).

    Returns:
        list of dict of arrays, the result of each call; and float, the loading time in seconds.

    Raises:
        ValueError: the process cannot load or call the SavedModel.
    """
    with tempfile.NamedTemporaryFile() as file:
        process = subprocess.run(
            [sys.executable, "-I", "-c", SOURCE],
            input=pickle.dumps((str(folder), calls, file.name, _OF_THIS_PROJECT)),
            capture_output=True,
            check=False,
        )
        if process.returncode:
            last = (process.stderr.decode(errors="replace").strip() or "no message").splitlines()[-1]
            raise ValueError(f"the SavedModel does not run in a new process: {last}")
        return pickle.load(file)


def largest_difference(expected, found, tolerance, what):
    """Compares two answers: floats must agree within a tolerance, all other values exactly.

    Args:
        expected, found: dict of arrays by name.
        tolerance: float; absolute.
        what: str; the source of `found`, for error messages.

    Returns:
        float; the largest difference of two floats.

    Raises:
        ValueError: names, shapes or values differ; the message names the first place.
    """
    if set(expected) != set(found):
        raise ValueError(f"{what} gives {', '.join(sorted(found))}, but {', '.join(sorted(expected))} are expected")
    largest = 0.0
    for name in sorted(expected):
        first, second = np.asarray(expected[name]), np.asarray(found[name])
        if first.shape != second.shape:
            raise ValueError(f"{what}: {name} has the shape {second.shape}, but {first.shape} is expected")
        if np.issubdtype(first.dtype, np.floating):
            difference = np.abs(first.astype(np.float64) - second)
            # Written this way so that NaN counts as wrong.
            is_wrong = ~(difference <= tolerance)
            largest = max(largest, float(difference.max(initial=0.0)))
        else:
            is_wrong = first != second
        if np.any(is_wrong):
            place = tuple(int(index) for index in np.argwhere(is_wrong)[0])
            raise ValueError(
                f"{what}: {name}{list(place)} is {_shown(second[place])}, but {_shown(first[place])} is expected "
                f"(numbers to within {tolerance:g})"
            )
    return largest


def scale_of(outputs):
    """Returns the factor for a relative tolerance: the largest number of an answer, or 1 if all are smaller.

    Args:
        outputs: dict of arrays by name.
    """
    numbers = [value for value in map(np.asarray, outputs.values()) if np.issubdtype(value.dtype, np.floating)]
    return max([1.0, *(float(np.abs(value).max(initial=0.0)) for value in numbers)])


def _shown(value):
    if isinstance(value, bytes):
        return f'"{value.decode(errors="replace")[:40]}"'
    return f"{value:g}" if isinstance(value, np.floating) else str(value)
