"""A network as a LiteRT (TensorFlow Lite) file, for telephones and small machines."""

import os
import pathlib
import re
import tempfile

import tensorflow as tf

from export.agreement import check_agreement
from export.networks import IdsNetwork
from export.quantization import check_quantize
from prediction.exported import import_extra, open_litert
from prediction.quiet import quietly


def write_litert(network: IdsNetwork, file, quantize: str | None = None) -> float:
    """Writes a network as a LiteRT file, runs it and compares what it gives.

    It is made of LiteRT's own operations alone, without those of TensorFlow (Flex). Its signature has the network's
    names; batch and length are dynamic.

    Args:
        network: IdsNetwork.
        file: path; it is there only when it is whole and agrees.
        quantize: None or "int8".

    Returns:
        float; the largest difference to the network.

    Raises:
        ValueError: LiteRT cannot take the network, the file gives something else than the network, or LiteRT is not
            installed.
    """
    check_quantize(quantize, ["litert"])
    import_extra("ai_edge_litert.interpreter", "litert")
    file = pathlib.Path(file)
    with tempfile.TemporaryDirectory(dir=file.parent, prefix=f".{file.name}.") as folder:
        written = pathlib.Path(folder, file.name)
        written.write_bytes(_convert(network, quantize))
        difference = check_agreement(f"the LiteRT file of {file.name}", open_litert(written), network, quantize)
        os.replace(written, file)
    return difference


def _convert(network, quantize):
    """Returns the network as the bytes of a LiteRT file."""
    try:
        with quietly():
            function = tf.function(lambda features: network(features), [network.signature])
            # The second argument must hold the variables: without them it writes a file that gives NaN.
            converter = tf.lite.TFLiteConverter.from_concrete_functions([function.get_concrete_function()], network)
            if quantize:
                converter.optimizations = [tf.lite.Optimize.DEFAULT]
            return converter.convert()
    except Exception as error:  # its class has no public name
        operations = sorted(set(re.findall(r"'tf\.(\w+)' op", str(error))))
        reason = f"it has no operation for {', '.join(operations)}" if operations else str(error).splitlines()[0]
        raise ValueError(
            f"LiteRT cannot take this network: {reason}; take --format=saved_model or --format=onnx"
        ) from error
