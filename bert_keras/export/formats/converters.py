"""Converts a network to ONNX, OpenVINO or LiteRT, as a separate program.

    python -c SOURCE FORMAT SAVED_MODEL SIGNATURE OUTPUT QUANTIZE

Converters print a lot and change settings of their process, so they do not run in the process of the caller.
`export.formats.ids_formats` passes the text of this file to a new Python process. It must not import the project.
"""

import os
import re
import sys
from typing import Any

import numpy as np

_OPSET = 17
_TINY = np.float32(1e-30)  # the least scale of a row or column of zeros, times its largest number
# Weights have 7 bits: without VNNI, a processor adds two products of 8 bits in 16 bits, and they would overflow.
_LARGEST_WEIGHT = np.float32(64)
# Activations from -127 to 127 become 1 to 255.
_NUMBERS_OF_8_BITS = {"tiny": _TINY, "largest": np.float32(127), "one": np.float32(1), "zero": np.uint8(128)}
# Start of the last line of the output if a format lacks operations.
UNKNOWN = "no operation for "
# Ending of the ONNX file before quantization.
PLAIN = ".plain"
# Ending of the file with inputs of the network, on which OpenVINO finds the scales of its numbers.
CALIBRATION = ".npz"


def convert(name: str, saved_model: str, signature: str, output: str, quantize: str) -> None:
    """Converts a signature of a SavedModel to a format. All arguments are str; quantize may be empty."""
    converters = {"onnx": _to_onnx, "openvino": _to_openvino, "litert": _to_litert}
    converters[name](saved_model, signature, output, quantize)


def _to_onnx(saved_model: str, signature: str, output: str, quantize: str) -> None:
    model = _onnx_model(saved_model, signature)
    plain = f"{output}{PLAIN}" if quantize else output
    with open(plain, "wb") as file:
        file.write(model.SerializeToString())
    if quantize:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        _quantize_products(model.graph)
        # Each embedding table has one scale.
        quantize_dynamic(model, output, op_types_to_quantize=["Gather"], weight_type=QuantType.QInt8)


def _onnx_model(saved_model: str, signature: str) -> Any:
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
    _divide_in_gelu(model.graph)
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


def _divide_in_gelu(graph: Any) -> None:
    """Writes x / sqrt(2) in the exact gelu, which ONNX Runtime recognises; TensorFlow multiplies instead."""
    from onnx import numpy_helper

    numbers = [tensor for tensor in graph.initializer if np.prod(tensor.dims) == 1]
    factors = {tensor.name for tensor in numbers if np.allclose(numpy_helper.to_array(tensor), np.sqrt(0.5))}
    erf_inputs = {node.input[0] for node in graph.node if node.op_type == "Erf"}
    products = [node for node in graph.node if node.op_type == "Mul" and node.input[1] in factors]
    products = [node for node in products if node.output[0] in erf_inputs]
    for node in products:
        node.op_type, node.input[1] = "Div", "sqrt_2"
    if products:
        graph.initializer.append(numpy_helper.from_array(np.sqrt(np.float32(2)), "sqrt_2"))


def _quantize_products(graph: Any) -> None:
    """Replaces each product with a constant matrix by one of 8 bits; each row and each column has its own scale.

    `quantize_dynamic` has one scale for all rows, so the answer for a text would depend on the others of its batch.
    """
    import onnx
    from onnx import helper, numpy_helper

    constants = {tensor.name: tensor for tensor in graph.initializer if len(tensor.dims) == 2}
    nodes, rounded, used = [], set(), set()
    for node in graph.node:
        if node.op_type != "MatMul" or node.input[1] not in constants:
            nodes.append(node)
            used.update(node.input)
            continue
        (x, weight), [y] = node.input, node.output
        steps = [] if x in rounded else _round_rows(x)
        steps += [
            ("MatMulInteger", [f"{x}/8_bits", f"{weight}/8_bits", "8_bits/zero"], f"{y}/32_bits", {}),
            ("Cast", [f"{y}/32_bits"], f"{y}/float", {"to": onnx.TensorProto.FLOAT}),
            # Not a product of both scales, which ONNX Runtime replaces by an operation for a single one.
            ("Mul", [f"{y}/float", f"{weight}/scale"], f"{y}/columns", {}),
            ("Mul", [f"{y}/columns", f"{x}/scale"], y, {}),
        ]
        nodes += [helper.make_node(name, inputs, [out], name=out, **options) for name, inputs, out, options in steps]
        rounded |= {x, weight}
    numbers = {f"8_bits/{name}": value for name, value in _NUMBERS_OF_8_BITS.items()}
    for weight in rounded & set(constants):
        values = numpy_helper.to_array(constants[weight])
        scale = np.maximum(np.abs(values).max(axis=0), _TINY) / _LARGEST_WEIGHT
        numbers |= {f"{weight}/8_bits": np.rint(values / scale).astype(np.int8), f"{weight}/scale": scale}
    kept = [tensor for tensor in graph.initializer if tensor.name not in rounded - used]
    for field, values in (("node", nodes), ("initializer", kept)):
        graph.ClearField(field)
        getattr(graph, field).extend(values)
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items())


def _round_rows(x: str) -> list[tuple[str, list[str], str, dict[str, Any]]]:
    """Returns the operations that round the rows of a tensor to 8 bits, with a scale for each row."""
    return [
        ("Abs", [x], f"{x}/absolute", {}),
        ("ReduceMax", [f"{x}/absolute"], f"{x}/largest", {"axes": [-1]}),
        ("Max", [f"{x}/largest", "8_bits/tiny"], f"{x}/range", {}),
        ("Div", [f"{x}/range", "8_bits/largest"], f"{x}/scale", {}),
        ("Div", [x, f"{x}/scale"], f"{x}/scaled", {}),
        ("QuantizeLinear", [f"{x}/scaled", "8_bits/one", "8_bits/zero"], f"{x}/8_bits", {}),
    ]


def _to_openvino(saved_model: str, signature: str, output: str, quantize: str) -> None:
    import openvino  # pyright: ignore[reportMissingImports]

    onnx = _onnx_model(saved_model, signature)
    model = openvino.Core().read_model(onnx.SerializeToString())
    for port, value in zip((*model.inputs, *model.outputs), (*onnx.graph.input, *onnx.graph.output), strict=True):
        port.set_names({value.name})
    if quantize:
        model = _with_fixed_scales(model, output + CALIBRATION)
    openvino.save_model(model, output, compress_to_fp16=False)


def _with_fixed_scales(model: Any, calibration: str) -> Any:
    """Returns an OpenVINO model with products in 8 bits, and the scales that suit the inputs in a file."""
    # Without this, the package reports its use to its makers; it is read when nncf is imported.
    os.environ["NNCF_CI"] = "1"
    import nncf  # pyright: ignore[reportMissingImports]

    rows: dict[str, dict[str, np.ndarray]] = {}
    with np.load(calibration) as file:
        for place in file.files:
            number, name = place.split("/")
            rows.setdefault(number, {})[name] = file[place]
    texts, kind = nncf.Dataset(list(rows.values())), nncf.ModelType.TRANSFORMER
    return nncf.quantize(model, texts, model_type=kind, subset_size=len(rows))


def _to_litert(saved_model: str, signature: str, output: str, quantize: str) -> None:
    import tensorflow as tf

    converter = tf.lite.TFLiteConverter.from_saved_model(saved_model, signature_keys=[signature])
    if quantize:
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
