"""Loads the network of an export, in any format, as a function that replaces a Keras model."""

import dataclasses
import importlib
import os
import pathlib
import threading
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import Any

import numpy as np
import tensorflow as tf

from bert_keras.mistakes import MissingFile, Mistake
from bert_keras.model_folder.folder import EXPORT_FILE
from bert_keras.storage import paths
from bert_keras.storage.json_files import read_object

# Name of the network in a folder for web browsers.
WEB_MODEL = "model.onnx"
_TWO_TOKENS = np.zeros((1, 2), np.int32)

# A function of int32 [B, T] tensors or arrays, by name, that returns float32 tensors.
ExportedNetwork = Callable[[Mapping[str, tf.Tensor | np.ndarray]], dict[str, tf.Tensor]]


@dataclasses.dataclass(frozen=True, eq=False)
class ArrayNetwork:
    """A network that another library runs: a function of int32 arrays [B, T], by name, that returns float32 arrays.

    Attributes:
        input_names: the names that it reads; it ignores others.
        run: the function, which needs all of these and no others.
        kept: what `run` needs and does not keep alive.
    """

    input_names: list[str]
    run: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]]
    kept: object = None

    def __call__(self, features: Mapping[str, Any]) -> dict[str, np.ndarray]:
        return self.run({name: np.asarray(features[name], np.int32) for name in self.input_names})


def open_exported(folder: str | os.PathLike, format: str | None = None, device: str | None = None) -> ExportedNetwork:
    """Loads the network of an export.

    Args:
        folder: path of the export.
        format: "saved_model", "onnx", "openvino", "litert" or "web"; None: the first of these that the export has.
        device: name of the device that it shall run on, as TensorFlow gives it; only a SavedModel runs on a GPU.

    Returns:
        Function of a dict of int32 [B, T] tensors or arrays that returns a dict of float32 tensors; see
        `tasks.graph.networks.IdsNetwork`. It ignores other keys. Graphs and several threads may call it.
    """
    folder = pathlib.Path(folder)
    if not (folder / EXPORT_FILE).is_file():
        raise FileNotFoundError(
            f"{folder} is not an export: it has no {EXPORT_FILE}; give a folder that export_model.py wrote"
        )
    files = _files_of_formats(folder)
    found = _first_of(files, format)
    if found is None:
        needed = format or f"one of {', '.join(OPENERS)}"
        raise MissingFile(
            "{} has the network as {}, and {} is needed; choose one that it has, or export the model with {format}={}",
            folder,
            ", ".join(files) or "nothing",
            needed,
            format or "saved_model",
        )
    if found != "saved_model" and device and "GPU" in device:
        raise Mistake(
            "{} runs on the CPU as {}, but {device} is a GPU; leave out the device, or take an export with "
            "{format}=saved_model",
            folder,
            found,
        )
    path = files[found]
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist, but {folder / EXPORT_FILE} names it; take the whole export")
    paths.check_readable(path)
    opened = OPENERS[found](path)
    return _as_operation(opened) if isinstance(opened, ArrayNetwork) else opened


def precision_of_export(folder: str | os.PathLike, format: str | None = None) -> str:
    """Returns the number format of the network that `open_exported` loads: "float32", "bfloat16" or "int8"."""
    found = format_of_export(folder, format)
    formats: Any = read_object(pathlib.Path(folder, EXPORT_FILE))["formats"]
    return (formats[found].get("quantize") if found else None) or "float32"


def format_of_export(folder: str | os.PathLike, format: str | None = None) -> str | None:
    """Returns the format of the network that `open_exported` loads; None: the export has no such format."""
    return _first_of(_files_of_formats(pathlib.Path(folder)), format)


def open_saved_model(folder: str | os.PathLike) -> ExportedNetwork:
    """Loads the signature `ids` of a SavedModel. The result works like that of `open_exported`.

    A SavedModel is a program that may read and write files when it runs. Open only those that you trust.
    """
    try:
        import tensorflow_text  # noqa: F401 registers its operations with TensorFlow
    except ImportError:
        raise Mistake(
            "{} holds a tokenizer, and tensorflow-text is not installed; run pip install tensorflow-text, or "
            "take an export with {format}=onnx or litert",
            folder,
        ) from None
    try:
        loaded = tf.saved_model.load(os.fspath(folder))
        signature = loaded.signatures["ids"]
    except (KeyError, OSError, tf.errors.OpError) as error:
        reason = str(error).splitlines()[0]
        raise Mistake(
            "{} is not a valid SavedModel of an export: {}; export the model again", folder, reason
        ) from error
    names = signature.structured_input_signature[1]

    def run(features: Mapping[str, tf.Tensor | np.ndarray]) -> dict[str, tf.Tensor]:
        return signature(**{name: tf.convert_to_tensor(features[name], tf.int32) for name in names})

    # The signature does not keep the variables alive.
    run.loaded = loaded
    return run


def open_onnx(file: str | os.PathLike) -> ArrayNetwork:
    """Loads an ONNX file with ONNX Runtime, to run on the CPU."""
    onnxruntime = _import_extra("onnxruntime", "onnx")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # errors
    try:
        session = onnxruntime.InferenceSession(os.fspath(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # its exception classes are not public
        reason = str(error).splitlines()[0]
        raise Mistake("ONNX Runtime cannot load {}: {}; export the model again", file, reason) from error
    output_names = [output.name for output in session.get_outputs()]

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        return dict(zip(output_names, session.run(output_names, inputs), strict=True))

    return ArrayNetwork([node.name for node in session.get_inputs()], run)


def open_openvino(file: str | os.PathLike) -> ArrayNetwork:
    """Loads an OpenVINO file, with its weights next to it, to run on the CPU in float32 or int8, as it is stored.

    OpenVINO prepares for each new shape, which takes longer than a batch, so a batch gets copies of its last row up to
    one of few numbers of rows.
    """
    openvino = _import_extra("openvino", "openvino")
    core = openvino.Core()
    try:
        model = core.read_model(os.fspath(file))
        # By default, a processor with bfloat16 would round float32 to it.
        compiled = core.compile_model(model, "CPU", {"INFERENCE_PRECISION_HINT": "f32"})
    except Exception as error:  # it raises RuntimeError of many kinds
        reason = str(error).strip().splitlines()[-1]
        raise Mistake("OpenVINO cannot load {}: {}; export the model again", file, reason) from error
    inputs, outputs = ([port.get_any_name() for port in ports] for ports in (model.inputs, model.outputs))

    def run(features: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        num_rows = len(features[inputs[0]])
        more = [(0, rounded_rows(num_rows) - num_rows), (0, 0)]
        # By number, because compiling may give an input further names. Each call has a separate request, for threads.
        arrays = [np.pad(features[name], more, mode="edge") for name in inputs]
        answers = compiled.create_infer_request().infer(arrays, share_outputs=False)
        return {name: answers[number][:num_rows] for number, name in enumerate(outputs)}

    return ArrayNetwork(inputs, run)


def rounded_rows(num_rows: int) -> int:
    """Returns the next of the numbers 1 to 8, 10, 12, 14, 16, 20, 24 and so on, four from each power of two."""
    step = 1 << max(0, (num_rows - 1).bit_length() - 3)
    return -(-num_rows // step) * step


def open_litert(file: str | os.PathLike) -> ArrayNetwork:
    """Loads a LiteRT file to run on all cores of the CPU.

    Calls from several threads run one after the other, because an interpreter has one set of buffers.
    """
    module = _import_extra("ai_edge_litert.interpreter", "litert")
    try:
        interpreter = module.Interpreter(model_path=os.fspath(file), num_threads=os.cpu_count())
        runner = interpreter.get_signature_runner()
        runner(**dict.fromkeys(runner.get_input_details(), _TWO_TOKENS))
    except (ValueError, RuntimeError) as error:
        reason = str(error).splitlines()[0]
        raise Mistake("LiteRT cannot load {}: {}; export the model again", file, reason) from error

    lock = threading.Lock()

    def run(inputs: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        with lock:
            return runner(**inputs)

    return ArrayNetwork(list(runner.get_input_details()), run, interpreter)


def _import_extra(module: str, extra: str) -> ModuleType:
    """Imports and returns a module of the package that an extra of bert-keras installs."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Mistake(
            "{} is not installed; run pip install 'bert-keras[{}]'", module.partition(".")[0], extra
        ) from error


OPENERS = {
    "saved_model": open_saved_model,
    "onnx": open_onnx,
    "openvino": open_openvino,
    "litert": open_litert,
    "web": lambda folder: open_onnx(pathlib.Path(folder, WEB_MODEL)),
}


def _files_of_formats(folder: pathlib.Path) -> dict[str, pathlib.Path]:
    """Returns the path of each format in the export.json of a folder, and checks that it is inside the folder."""
    file = folder / EXPORT_FILE
    formats: Any = read_object(file).get("formats")
    try:
        found = {name: os.fspath(values["path"]) for name, values in formats.items()}
    except (AttributeError, KeyError, TypeError):
        raise Mistake(
            '{} does not give the "path" of each of its "formats"; take the file that export_model.py wrote', file
        ) from None
    return {name: pathlib.Path(paths.inside(folder, path, str(file))) for name, path in found.items()}


def _first_of(files: Mapping[str, pathlib.Path], format: str | None) -> str | None:
    return next((name for name in OPENERS if name in files and format in (None, name)), None)


def _as_operation(network: ArrayNetwork) -> ExportedNetwork:
    """Wraps a function of arrays so that a graph can call it."""
    names = network.input_names
    # One call with two tokens gives the names and ranks of the outputs.
    sample = network(dict.fromkeys(names, _TWO_TOKENS))

    def run(*values: np.ndarray) -> list[np.ndarray]:
        found = network(dict(zip(names, values, strict=True)))
        return [found[name] for name in sample]

    def call(features: Mapping[str, tf.Tensor | np.ndarray]) -> dict[str, tf.Tensor]:
        arrays = [tf.convert_to_tensor(features[name], tf.int32) for name in names]
        outputs = tf.numpy_function(run, arrays, [tf.float32] * len(sample))
        outputs = tf.nest.flatten(outputs)  # outside a graph a single output is not a list
        # An operation, because TensorFlow's optimizer warns of shapes that only Python knows.
        shapes = [[None] * value.ndim for value in sample.values()]
        return dict(zip(sample, map(tf.ensure_shape, outputs, shapes), strict=True))

    return call
