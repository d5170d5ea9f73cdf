"""Converts a network to ONNX, OpenVINO or LiteRT, as a separate program.

    python -c SOURCE FORMAT SAVED_MODEL SIGNATURE OUTPUT CALIBRATION

Converters print a lot and change settings of their process, so they do not run in the process of the caller.
`export.formats.ids_formats` passes the text of this file to a new Python process. It must not import the project.
"""

import os
import re
import sys
from typing import Any

import numpy as np

_OPSET = 17
# Start of the last line of the output if a format lacks operations.
UNKNOWN = "no operation for "
# Ending of the ONNX file before quantization.
PLAIN = ".plain"


def convert(name: str, saved_model: str, signature: str, output: str, calibration: str) -> None:
    """Converts a signature of a SavedModel to "onnx", "openvino" or "litert".

    All arguments are str. calibration is a .npz file of inputs to quantize to 8 bits, or empty for float32.
    """
    converters = {"onnx": _to_onnx, "openvino": _to_openvino, "litert": _to_litert}
    converters[name](saved_model, signature, output, calibration)


def _to_onnx(saved_model: str, signature: str, output: str, calibration: str) -> None:
    import onnx

    model = _onnx_of(saved_model, signature)
    onnx.save(model, f"{output}{PLAIN}" if calibration else output)
    if calibration:
        model = _quantize(model, calibration)
        _subtract_biases(model.graph)
        onnx.save(model, output)


def _to_openvino(saved_model: str, signature: str, output: str, calibration: str) -> None:
    import openvino

    onnx = _onnx_of(saved_model, signature)
    model = openvino.Core().read_model(onnx.SerializeToString())
    for port, value in zip((*model.inputs, *model.outputs), (*onnx.graph.input, *onnx.graph.output), strict=True):
        port.set_names({value.name})
    if calibration:
        model = _quantize(model, calibration)
    openvino.save_model(model, output, compress_to_fp16=False)


def _onnx_of(saved_model: str, signature: str) -> Any:
    """Returns the ONNX model of a signature of a SavedModel, in float32."""
    import onnx
    import tensorflow as tf
    import tf2onnx

    loaded = tf.saved_model.load(saved_model)
    call = loaded.signatures[signature]
    features = dict(call.structured_input_signature[1])
    model, _ = tf2onnx.convert.from_function(tf.function(lambda inputs: call(**inputs)), [features], opset=_OPSET)
    # tf2onnx copies unknown operations into the file.
    unknown = sorted({node.op_type for node in model.graph.node if not onnx.defs.has(node.op_type, node.domain)})
    if unknown:
        sys.exit(UNKNOWN + ", ".join(unknown))
    _name_axes(model.graph)
    return model


def _name_axes(graph: Any) -> None:
    """Replaces the names that tf2onnx makes up for axes of unknown length, such as unk__350."""
    names = [value.name for value in graph.input]
    for value in (*graph.input, *graph.output):
        is_masks = value.name == "masked_lm_positions" or (value in graph.output and "masked_lm_positions" in names)
        axes = zip(value.type.tensor_type.shape.dim, ("batch", "predictions" if is_masks else "length"), strict=False)
        for axis, name in axes:
            if not axis.HasField("dim_value"):
                axis.dim_param = name
    del graph.value_info[:]  # has the old names, and nothing that a runtime cannot infer


def _quantize(model: Any, calibration: str) -> Any:
    """Returns an ONNX or OpenVINO model with products in 8 bits, and fixed scales from the inputs in a .npz file."""
    # Without this, the package reports its use to its makers; it is read when nncf is imported.
    os.environ["NNCF_CI"] = "1"
    import nncf

    rows: dict[str, dict[str, np.ndarray]] = {}
    with np.load(calibration) as file:
        for place in file.files:
            number, name = place.split("/")
            rows.setdefault(number, {})[name] = file[place]
    texts, kind = nncf.Dataset(list(rows.values())), nncf.ModelType.TRANSFORMER
    return nncf.quantize(model, texts, model_type=kind, subset_size=len(rows))


def _subtract_biases(graph: Any) -> None:
    """Replaces `product + bias` by `product - (-bias)`, which is the same number.

    ONNX Runtime would join the sum to a Gemm, which it computes in float32, and restore all weights for each call.
    """
    from onnx import numpy_helper

    constants = {each.name: each for each in graph.initializer}
    products = {node.output[0] for node in graph.node if node.op_type == "MatMul"}
    for node in graph.node:
        if node.op_type != "Add":
            continue
        product, bias = sorted(node.input, key=constants.__contains__)
        if product in products and bias in constants:
            negative = numpy_helper.from_array(-numpy_helper.to_array(constants[bias]), f"{node.output[0]}/bias")
            graph.initializer.append(negative)
            node.op_type, node.input[:] = "Sub", [product, negative.name]


def _to_litert(saved_model: str, signature: str, output: str, calibration: str) -> None:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model, signature_keys=[signature])
    if calibration:  # it has a scale for each text, so the texts are not needed
        converter.optimizations = [tf.lite.Optimize.DEFAULT]
    try:
        content = converter.convert()
    except Exception as error:  # its class has no public name
        if operations := sorted(set(re.findall(r"'tf\.(\w+)' op", str(error)))):
            sys.exit(UNKNOWN + ", ".join(operations))
        raise
    with open(output, "wb") as file:
        file.write(content)


if __name__ == "__main__":
    # By default tf2onnx copies the graph with all weights before each step, to continue after an error. Without the
    # copies, a model of 90 MB needs 4.4 GB instead of 7.2 GB, and a third of the time.
    os.environ.setdefault("TF2ONNX_CATCH_ERRORS", "FALSE")
    import tensorflow

    # The parent process may hold the memory of the GPU.
    tensorflow.config.set_visible_devices([], "GPU")
    convert(*sys.argv[1:])
