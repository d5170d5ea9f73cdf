"""The packages that each format of an export needs."""

import importlib.metadata
import importlib.util
import platform

# Format -> {module: package}, in addition to TensorFlow and Keras.
_NEEDED = {
    "saved_model": {"tensorflow_text": "tensorflow-text"},
    "onnx": {"tf2onnx": "tf2onnx", "onnx": "onnx", "onnxruntime": "onnxruntime"},
    "litert": {"ai_edge_litert": "ai-edge-litert"},
}
_EXTRAS = ("onnx", "litert")


def check_packages(formats) -> None:
    """Checks that the packages of the formats are installed.

    Args:
        formats: list of str, keys of PLACES in `export.source`.

    Raises:
        ValueError: packages are missing; the message names all of them and the command that installs them.
    """
    missing = {name: [each for each in _NEEDED[name] if importlib.util.find_spec(each) is None] for name in formats}
    missing = {name: modules for name, modules in missing.items() if modules}
    if not missing:
        return
    extras = [name for name in missing if name in _EXTRAS]
    to_install = [_NEEDED[name][each] for name in missing if name not in _EXTRAS for each in missing[name]]
    to_install += [f"'bert-keras[{','.join(extras)}]'"] if extras else []
    modules = [each for names in missing.values() for each in names]
    raise ValueError(
        f"--format={','.join(missing)} needs {', '.join(modules)}, which {'is' if len(modules) == 1 else 'are'} not "
        f"installed: pip install {' '.join(to_install)}"
    )


def versions(formats) -> dict[str, str]:
    """Returns the installed versions of Python and of the packages of the formats, by name."""
    packages = dict.fromkeys(["tensorflow", "keras", *(each for name in formats for each in _NEEDED[name].values())])
    return {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
