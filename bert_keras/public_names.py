"""Public names that are imported at their first use, because most of them need TensorFlow, which takes seconds."""

import ast
import importlib
import pathlib
from collections.abc import Callable
from typing import Any


def names_of_stub(package: str, file: str) -> tuple[list[str], Callable[[str], Any], Callable[[], list[str]]]:
    """Returns `__all__`, `__getattr__` and `__dir__` of a package whose stub `__init__.pyi` imports its public names.

    Args:
        package: name of the package.
        file: path of its `__init__.py`.
    """
    stub = ast.parse(pathlib.Path(file).with_suffix(".pyi").read_text(encoding="utf-8"))
    imports = [node for node in stub.body if isinstance(node, ast.ImportFrom)]
    module_of = {alias.name: str(node.module) for node in imports for alias in node.names}

    def get(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(importlib.import_module(module_of[name]), name)

    def list_names() -> list[str]:
        return sorted({*vars(importlib.import_module(package)), *module_of})

    return sorted(module_of), get, list_names
