"""A network as an ONNX file, for ONNX Runtime and what else reads them."""

import os
import pathlib
import tempfile

import tensorflow as tf

from export.agreement import check_agreement
from export.networks import IdsNetwork
from export.quantization import check_quantize
from prediction.exported import import_extra, open_onnx
from prediction.quiet import quietly

OPSET = 17


def write_onnx(network: IdsNetwork, file, quantize: str | None = None) -> float:
    """Writes a network as an ONNX file, runs it and compares what it gives.

    Its inputs and outputs have the network's names; batch and length are dynamic.

    Args:
        network: IdsNetwork.
        file: path; it is there only when it is whole and agrees.
        quantize: None or "int8".

    Returns:
        float; the largest difference to the network.

    Raises:
        ValueError: ONNX cannot take the network, the file gives something else than the network, or a package is not
            installed.
    """
    check_quantize(quantize, ["onnx"])
    for module in ("tf2onnx", "onnx", "onnxruntime"):
        import_extra(module, "onnx")
    file = pathlib.Path(file)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        plain, quantised = pathlib.Path(folder, "plain.onnx"), pathlib.Path(folder, "int8.onnx")
        plain.write_bytes(_convert(network))
        if quantize:
            _to_int8(plain, quantised)
        written = quantised if quantize else plain
        difference = check_agreement(f"the ONNX file of {file.name}", open_onnx(written), network, quantize)
        os.replace(written, file)
    return difference


def _convert(network):
    """Returns the network as the bytes of an ONNX file."""
    with quietly():
        import onnx
        import tf2onnx

        function = tf.function(lambda features: network(features))
        model, _ = tf2onnx.convert.from_function(function, [network.signature], opset=OPSET)
    # An operation that it does not know it writes down all the same.
    unknown = sorted({node.op_type for node in model.graph.node if not onnx.defs.has(node.op_type, node.domain)})
    if unknown:
        raise ValueError(
            f"ONNX has no operation for {', '.join(unknown)}, which the network needs; take --format=saved_model"
        )
    return model.SerializeToString()


def _to_int8(plain, quantised):
    """Rewrites a file with weights of 8 bits: of dense layers and embeddings, each with a scale of its own."""
    with quietly():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        quantize_dynamic(plain, quantised, op_types_to_quantize=["MatMul", "Gather"], weight_type=QuantType.QInt8)
