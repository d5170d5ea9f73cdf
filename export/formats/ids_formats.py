"""Writes the network of a model, which takes ids, as an ONNX or LiteRT file."""

import logging
import pathlib
import subprocess
import sys
import tempfile

import tensorflow as tf

from bert_keras.export.checks.agreement import Agreement, check_agreement
from bert_keras.export.formats import converters
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.packages import check_packages
from bert_keras.export.formats.quantization import check_quantize
from bert_keras.prediction.loading.exported import open_litert, open_onnx
from bert_keras.storage import writing

log = logging.getLogger("bert_keras")

_CALLED = {"onnx": "ONNX", "litert": "LiteRT"}
_OPENERS = {"onnx": open_onnx, "litert": open_litert}
_SIGNATURE = "ids"


def write_ids(name: str, network: IdsNetwork, file, quantize: str | None = None) -> Agreement:
    """Writes a network as an ONNX or LiteRT file, runs the file and compares its outputs with the network.

    Inputs and outputs have the network's names; batch and length are dynamic. A LiteRT file has only LiteRT operations,
    without TensorFlow operations (Flex). The converter runs in its own process.

    Args:
        name: "onnx" or "litert".
        network: IdsNetwork.
        file: path; the file appears only when it is complete and has passed the comparison.
        quantize: None or "int8".

    Returns:
        Agreement between the file and the network.

    Raises:
        ValueError: the format does not support the network or `quantize`, the outputs differ, or a package is not
            installed.
        OSError: the disk is full.
    """
    check_quantize(quantize, [name])
    check_packages([name])
    file = pathlib.Path(file)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        saved_model, written = pathlib.Path(folder, "network"), pathlib.Path(folder, file.name)
        call = tf.function(lambda features: network(features), autograph=False)
        function = call.get_concrete_function(network.signature)
        tf.saved_model.save(network, str(saved_model), signatures={_SIGNATURE: function})
        arguments = (name, str(saved_model), _SIGNATURE, str(written), "int8" if quantize else "")
        _run_converter(_CALLED[name], arguments)
        agreement = check_agreement(
            f"the {_CALLED[name]} file of {file.name}", _OPENERS[name](written), network, quantize
        )
        writing.publish(written, file)
    return agreement


def _run_converter(called, arguments):
    """Runs `export.formats.converters` in a new process, and logs its output only if it fails."""
    source = pathlib.Path(converters.__file__).read_text(encoding="utf-8")
    process = subprocess.run(
        [sys.executable, "-P", "-c", source, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        check=False,
    )
    if not process.returncode:
        return
    output = process.stdout.decode(errors="replace").strip()
    last = output.splitlines()[-1] if output else ""
    _, is_unknown, operations = last.partition(converters.UNKNOWN)
    if is_unknown:
        raise ValueError(
            f"{called} has no operation for {operations}, which the network needs; take --format=saved_model"
        )
    log.error("the converter to %s printed:\n%s", called, output)
    reason = f"signal {-process.returncode} ended its process" if process.returncode < 0 else last
    raise ValueError(
        f"the conversion to {called} failed: {reason}; check that memory and disk are sufficient, or take "
        "--format=saved_model"
    )
