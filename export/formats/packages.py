"""The packages that each format of an export needs."""

import importlib.metadata
import importlib.util
import platform

# Format -> module and package of each, beside TensorFlow and Keras.
_NEEDED = {
    "saved_model": {"tensorflow_text": "tensorflow-text"},
    "onnx": {"tf2onnx": "tf2onnx", "onnx": "onnx", "onnxruntime": "onnxruntime"},
    "litert": {"ai_edge_litert": "ai-edge-litert"},
}
_EXTRAS = ("onnx", "litert")


def check_packages(formats) -> None:
    """Refuses formats whose packages are not installed; all of them are named at once.

    Args:
        formats: list of str, keys of PLACES in `export.source`.

    Raises:
        ValueError: a package is missing; the message has the line that installs all of them.
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
    """Returns the versions of Python and of the packages that formats were made with."""
    packages = dict.fromkeys(["tensorflow", "keras", *(each for name in formats for each in _NEEDED[name].values())])
    return {"Python": platform.python_version()} | {name: importlib.metadata.version(name) for name in packages}
