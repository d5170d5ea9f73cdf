"""Writes the network of a model, which takes ids, as an ONNX or LiteRT file."""

import logging
import os
import pathlib
import subprocess
import sys

import tensorflow as tf

from bert_keras.export.checks.agreement import judge, questions
from bert_keras.export.formats import converters
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.exported import OPENERS
from bert_keras.storage import writing
from bert_keras.tasks.graph.networks import IdsNetwork

log = logging.getLogger("bert_keras")

_TITLES = {"onnx": "ONNX", "litert": "LiteRT"}
_SIGNATURE = "ids"


def write_ids(
    name: str,
    network: IdsNetwork,
    file: str | os.PathLike,
    quantize: str | None = None,
    plain_file: str | os.PathLike | None = None,
) -> dict[str, float]:
    """Writes an IdsNetwork as "onnx" or "litert", runs the file and compares its outputs with the network.

    The file has the input and output names of the network, and appears only after the comparison. A LiteRT file has
    only LiteRT operations, without TensorFlow operations (Flex). quantize is "int8" or None. With
    quantize, plain_file is where to put the ONNX file without quantization, or None.

    Returns the result of `judge`.
    """
    file = pathlib.Path(file)
    with writing.scratch(file) as folder:
        saved_model, written = pathlib.Path(folder, "network"), pathlib.Path(folder, file.name)
        call = tf.function(lambda features: network(features), autograph=False)
        function = call.get_concrete_function(network.signature)
        tf.saved_model.save(network, str(saved_model), signatures={_SIGNATURE: function})
        _run_converter(name, str(saved_model), _SIGNATURE, str(written), quantize or "")
        run = OPENERS[name](written)
        answers = [run(features) for features in questions(network)]
        agreement = judge(f"the {_TITLES[name]} file of {file.name}", answers, network, quantize)
        if plain_file:
            pathlib.Path(f"{written}{converters.PLAIN}").replace(plain_file)
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
