"""Converts a network to ONNX or LiteRT, as a separate program.

    python -c SOURCE FORMAT SAVED_MODEL SIGNATURE OUTPUT QUANTIZE

Converters print a lot and change settings of their process, so they do not run in the process of the caller.
`export.formats.ids_formats` passes the text of this file to a new Python process. It must not import the project.
"""

import os
import re
import sys

_OPSET = 17
# Start of the last line of the output if a format lacks operations.
UNKNOWN = "no operation for "
# Ending of the ONNX file before quantization.
PLAIN = ".plain"


def convert(name, saved_model, signature, output, quantize):
    """Converts a signature of a SavedModel to "onnx" or "litert". All arguments are str; quantize may be empty."""
    {"onnx": _to_onnx, "litert": _to_litert}[name](saved_model, signature, output, quantize)


def _to_onnx(saved_model, signature, output, quantize):
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
    plain = f"{output}{PLAIN}" if quantize else output
    with open(plain, "wb") as file:
        file.write(model.SerializeToString())
    if quantize:
        from onnxruntime.quantization import QuantType, quantize_dynamic

        # Each dense layer and each embedding has its own scale.
        quantize_dynamic(plain, output, op_types_to_quantize=["MatMul", "Gather"], weight_type=QuantType.QInt8)


def _to_litert(saved_model, signature, output, quantize):
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
