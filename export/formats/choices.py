"""The choices of --format and --quantize, and the packages that they need."""

import importlib.metadata
import importlib.util
import platform

# Format -> its path in the export folder. TensorFlow Serving needs numbered versions.
PLACES = {"saved_model": "1", "onnx": "model.onnx", "litert": "model.tflite"}
FORMATS = tuple(PLACES)
QUANTIZE_CHOICES = ("int8", "bfloat16")

_QUANTIZATION = {"saved_model": "bfloat16", "onnx": "int8", "litert": "int8"}
# Format -> {module: package}, in addition to TensorFlow and Keras.
_PACKAGES = {
    "saved_model": {"tensorflow_text": "tensorflow-text"},
    "onnx": {"tf2onnx": "tf2onnx", "onnx": "onnx", "onnxruntime": "onnxruntime"},
    "litert": {"ai_edge_litert": "ai-edge-litert"},
}
_EXTRAS = ("onnx", "litert")


def check_formats(formats, quantize):
    """Raises ValueError for formats that are unknown, given twice, or do not support the quantization."""
    if unknown := [name for name in formats if name not in FORMATS]:
        raise ValueError(f'--format has "{unknown[0]}", but its formats are {", ".join(FORMATS)}, separated by commas')
    if not formats or len(set(formats)) < len(formats):
        raise ValueError(f"--format={','.join(formats)}: give one or more of {', '.join(FORMATS)}, each once")
    wrong = [name for name in formats if quantize not in (None, _QUANTIZATION[name])]
    if wrong:
        able = [name for name, supported in _QUANTIZATION.items() if supported == quantize]
        raise ValueError(
            f"--quantize={quantize} works only with {' or '.join(able)}, but --format has {', '.join(wrong)}; leave "
            f"--quantize out for {'these' if len(wrong) > 1 else 'it'}, or export twice"
        )


def check_packages(formats):
    """Raises ValueError if packages are not installed; the message names all, and the command that installs them."""
    missing = {name: [each for each in _PACKAGES[name] if importlib.util.find_spec(each) is None] for name in formats}
    missing = {name: modules for name, modules in missing.items() if modules}
    if not missing:
        return
    extras = [name for name in missing if name in _EXTRAS]
    to_install = [_PACKAGES[name][each] for name in missing if name not in _EXTRAS for each in missing[name]]
    to_install += [f"'bert-keras[{','.join(extras)}]'"] if extras else []
    modules = [each for names in missing.values() for each in names]
    raise ValueError(
        f"--format={','.join(missing)} needs {', '.join(modules)}, which {'is' if len(modules) == 1 else 'are'} not "
        f"installed: pip install {' '.join(to_install)}"
    )


def versions(formats):
    """Returns the installed versions of Python and of the packages of the formats, a dict by name."""
    packages = dict.fromkeys(["tensorflow", "keras", *(each for name in formats for each in _PACKAGES[name].values())])
    return {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
