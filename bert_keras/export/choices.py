"""The choices of --format and --quantize, and the packages that they need."""

import importlib.metadata
import importlib.util
import platform
from collections.abc import Iterable, Sequence

from bert_keras.export.formats import web_runtime
from bert_keras.mistakes import Mistake

# Format -> its path in the export folder. TensorFlow Serving needs numbered versions.
PLACES = {
    "saved_model": "1",
    "onnx": "model.onnx",
    "openvino": "model.xml",
    "litert": "model.tflite",
    "web": "web",
}
FORMATS = tuple(PLACES)
QUANTIZE_CHOICES = ("int8", "bfloat16", "float32")

_QUANTIZATION = {"saved_model": "bfloat16", "onnx": "int8", "openvino": "int8", "litert": "int8", "web": "int8"}
# A page downloads the model, so a fourth of the bytes matters.
_QUANTIZED_BY_DEFAULT = ("web",)
_ONNX_PACKAGES = {"tf2onnx": "tf2onnx", "onnx": "onnx", "onnxruntime": "onnxruntime"}
# Format -> {module: package}, in addition to TensorFlow and Keras.
_PACKAGES = {
    "saved_model": {"tensorflow_text": "tensorflow-text"},
    "onnx": _ONNX_PACKAGES,
    # nncf finds the scales of int8.
    "openvino": {**_ONNX_PACKAGES, "openvino": "openvino", "nncf": "nncf"},
    "litert": {"ai_edge_litert": "ai-edge-litert"},
    "web": _ONNX_PACKAGES,
}
# Format -> the extra of bert-keras that installs its packages.
_EXTRAS = {"onnx": "onnx", "openvino": "openvino", "litert": "litert", "web": "onnx"}


def network_place(name: str) -> str:
    """Returns the path of the network of a format in the export folder."""
    from bert_keras.model_folder.exported import WEB_MODEL  # loads TensorFlow

    return f"{PLACES[name]}/{WEB_MODEL}" if name == "web" else PLACES[name]


def quantization_of(name: str, quantize: str | None) -> str | None:
    """Returns the numbers that a format stores, given --quantize: "int8", "bfloat16", or None for float32."""
    if quantize is None and name in _QUANTIZED_BY_DEFAULT:
        return _QUANTIZATION[name]
    return None if quantize == "float32" else quantize


def is_calibrated(name: str, quantize: str | None) -> bool:
    """Returns whether a format finds the scales of its numbers on texts, given --quantize."""
    return name == "openvino" and quantization_of(name, quantize) == "int8"


def check_formats(formats: Sequence[str], quantize: str | None) -> None:
    """Raises ValueError for formats that are unknown, given twice, or do not support the quantization."""
    if unknown := [name for name in formats if name not in FORMATS]:
        raise Mistake('{format} has "{}", but its formats are {}, separated by commas', unknown[0], FORMATS)
    if not formats or len(set(formats)) < len(formats):
        raise Mistake("{format}={}: give one or more of {}, each once", ",".join(formats), FORMATS)
    wrong = [name for name in formats if quantize not in (None, "float32", _QUANTIZATION[name])]
    if wrong:
        *others, last = [name for name, supported in _QUANTIZATION.items() if supported == quantize]
        able = f"{', '.join(others)} or {last}" if others else last
        raise Mistake(
            "{quantize}={} works only with {}, but {format} has {}; leave {quantize} out for {}, or export twice",
            quantize,
            able,
            wrong,
            "these" if len(wrong) > 1 else "it",
        )


def check_packages(formats: Iterable[str]) -> None:
    """Raises ValueError if packages are not installed; the message names all, and the command that installs them."""
    missing = {
        name: [module for module in _PACKAGES[name] if importlib.util.find_spec(module) is None] for name in formats
    }
    missing = {name: modules for name, modules in missing.items() if modules}
    if not missing:
        return
    extras = list(dict.fromkeys(_EXTRAS[name] for name in missing if name in _EXTRAS))
    to_install = [_PACKAGES[name][module] for name in missing if name not in _EXTRAS for module in missing[name]]
    to_install += [f"'bert-keras[{','.join(extras)}]'"] if extras else []
    modules = list(dict.fromkeys(module for names in missing.values() for module in names))
    raise Mistake(
        "{format}={} needs {}, which {} not installed: pip install {}",
        ",".join(missing),
        [*modules],
        "is" if len(modules) == 1 else "are",
        " ".join(to_install),
    )


def versions(formats: Iterable[str]) -> dict[str, str]:
    """Returns the versions of Python and of the packages of the formats, a dict by name."""
    packages = dict.fromkeys(
        ["tensorflow", "keras", *(package for name in formats for package in _PACKAGES[name].values())]
    )
    installed = {name: importlib.metadata.version(name) for name in packages}
    web_version = {"onnxruntime-web": web_runtime.VERSION} if "web" in formats else {}
    return {"Python": platform.python_version()} | installed | web_version
