"""Writes the network of a model, which takes ids, as an ONNX, OpenVINO or LiteRT file."""

import logging
import os
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.export.checks.agreement import batches_of, judge, questions
from bert_keras.export.formats import converters
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import OPENERS
from bert_keras.storage import writing
from bert_keras.tasks.graph.networks import IdsNetwork

log = logging.getLogger("bert_keras")

_TITLES = {"onnx": "ONNX", "openvino": "OpenVINO", "litert": "LiteRT"}
_SIGNATURE = "ids"


def write_ids(
    name: str,
    network: IdsNetwork,
    file: str | os.PathLike,
    quantize: str | None = None,
    plain_file: str | os.PathLike | None = None,
    calibration: Sequence[Mapping[str, np.ndarray]] = (),
) -> dict[str, float]:
    """Writes an IdsNetwork as "onnx", "openvino" or "litert", runs the file and compares its outputs with the network.

    The file has the input and output names of the network, and appears only after the comparison. An OpenVINO file
    has its weights next to it, with the ending .bin. A LiteRT file has only LiteRT operations, without TensorFlow
    operations (Flex). quantize is "int8" or None. With quantize, plain_file is where to put the ONNX file without
    quantization, or None; and OpenVINO needs calibration, inputs of the network that show the ranges of its numbers.

    Returns the result of `judge`.
    """
    file = pathlib.Path(file)
    with writing.scratch(file) as folder:
        saved_model, written = pathlib.Path(folder, "network"), pathlib.Path(folder, file.name)
        call = tf.function(lambda features: network(features), autograph=False)
        function = call.get_concrete_function(network.signature)
        tf.saved_model.save(network, str(saved_model), signatures={_SIGNATURE: function})
        if calibration:
            rows = enumerate(calibration)
            arrays: dict[str, Any] = {f"{row}/{key}": value for row, inputs in rows for key, value in inputs.items()}
            np.savez(f"{written}{converters.CALIBRATION}", **arrays)
        _run_converter(name, str(saved_model), _SIGNATURE, str(written), quantize or "")
        run = OPENERS[name](written)
        # Fixed scales fit the data that they were found on; numbers of random ids may be far outside.
        batches = batches_of(calibration) if calibration else questions(network)
        answers = [run(features) for features in batches]
        agreement = judge(f"the {_TITLES[name]} file of {file.name}", answers, network, quantize, batches)
        if plain_file:
            pathlib.Path(f"{written}{converters.PLAIN}").replace(plain_file)
        if name == "openvino":
            written.with_suffix(".bin").replace(file.with_suffix(".bin"))
        written.replace(file)
    return agreement


def _run_converter(name: str, *arguments: str) -> None:
    """Runs `converters.convert` in a new process, and logs its output only if it fails."""
    source = pathlib.Path(converters.__file__).read_text(encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-P", "-c", source, name, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if not process.returncode:
        return
    title = _TITLES[name]
    output = process.stdout.decode(errors="replace").strip()
    last = output.splitlines()[-1] if output else ""
    _, is_unknown, operations = last.partition(converters.UNKNOWN)
    if is_unknown:
        raise Mistake(
            "{} has no operation for {}, which the network needs; take {format}=saved_model", title, operations
        )
    log.error("the converter to %s printed:\n%s", title, output)
    reason = f"signal {-process.returncode} ended its process" if process.returncode < 0 else last
    raise Mistake(
        "the conversion to {} failed: {}; check that memory and disk are sufficient, or take {format}=saved_model",
        title,
        reason,
    )
