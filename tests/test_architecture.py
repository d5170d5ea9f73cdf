"""The floors of the house: what may import what."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]

FLOORS = {
    "modeling.config": 0,
    "data_prep.tokenization": 0,
    "data_prep.vocabulary_files": 0,
    "data_prep.characters": 0,
    "data_prep.piece_memo": 0,
    "data_prep.progress": 0,
    "data_prep.masking": 1,
    "data_prep.records": 1,
    "data_prep.tfrecords": 1,
    "data_prep.text_lines": 1,
    "data_prep.text_sources": 1,
    "data_prep.workers": 1,
    "data_prep.documents": 1,
    "data_prep.instances": 1,
    "data_prep.spill": 1,
    "modeling.dropout": 1,
    "modeling.layers": 1,
    "modeling.optimization": 1,
    "modeling.bert": 2,
    "modeling.heads": 2,
    "modeling.checkpoint": 2,
    "modeling.models": 2,
    "modeling.tasks": 3,
    # Where a model's files are found and checked: training starts from them, prediction asks them.
    "prediction.model_files": 3,
    # How an export is run: prediction asks it, and whoever writes one looks whether it answers.
    "prediction.exported": 3,
    # What a word is to a tagger: prediction splits in Python, an exported model in its graph.
    "prediction.words": 3,
    "data_prep.create_pretraining_data": 5,
    "data_prep.create_pretraining_data_beam": 5,
    "data_prep.build_vocab": 5,
}
FOLDERS = {"storage": -1, "modeling": 2, "data_prep": 2, "evaluation": 3, "prediction": 4, "training": 4, "export": 4}


def modules():
    paths = [path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.py"))]
    paths += [path for path in sorted(ROOT.glob("*.py")) if path.name != "setup.py"]
    return {
        ".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in paths if path.name != "__init__.py"
    }


def floor_of(module):
    return FLOORS.get(module, FOLDERS.get(module.split(".")[0], 5))


def imports_of(path):
    """The project's own modules that a file imports, wherever in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    return {name for name in names if name in modules() or name in FOLDERS}


@pytest.mark.parametrize("module", modules())
def test_a_file_imports_from_lower_floors_or_from_its_own_folder(module):
    folder = module.split(".")[0]
    for imported in imports_of(modules()[module]):
        other = imported.split(".")[0]
        if other == folder:
            assert floor_of(imported) <= floor_of(module), f"{module} imports {imported} from above"
        elif imported in FOLDERS:
            assert FOLDERS[imported] < floor_of(module), f"{module} imports {imported} from its own floor or above"
        else:
            assert floor_of(imported) < floor_of(module), f"{module} imports {imported} from its own floor or above"
        assert {folder, other} != {"modeling", "data_prep"}, f"{module} imports {imported}"


def test_only_entry_points_read_the_command_line_and_the_environment():
    for module, path in modules().items():
        # The first sets TensorFlow's environment for every program; the second runs as a program in its own process.
        if floor_of(module) < 5 and module not in ("training.start", "export.converters"):
            source = path.read_text(encoding="utf-8")
            assert not re.search(r"sys\.argv|os\.environ|os\.getenv|flags\.FLAGS|FLAGS\.", source), module


def test_no_private_names_of_keras_or_tensorflow():
    for module, path in modules().items():
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"keras\.src|tensorflow\.python|tf\.__internal__|(?:\btf|keras|ops)\._\w", source), module


def tensorflow_imports(tree):
    """The statements that import TensorFlow, or a package that needs it, somewhere in a file or function."""
    found = set()
    for node in ast.walk(tree):
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        if isinstance(node, ast.ImportFrom):
            names = [node.module]
        if any(name.startswith("tensorflow") for name in names):
            found.add(node)
    return found


@pytest.mark.parametrize("path", sorted((ROOT / "modeling").rglob("*.py")), ids=lambda path: path.name)
def test_the_network_needs_tensorflow_only_in_functions_for_its_files_random_bits_and_argmax(path):
    tree = ast.parse(path.read_text(encoding="utf-8"))
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    in_functions = set().union(*map(tensorflow_imports, functions))
    may_need_it = path.name in ("tensorflow_checkpoint.py", "dropout.py", "tasks.py")
    assert tensorflow_imports(tree) == (in_functions if may_need_it else set())
    assert bool(in_functions) == may_need_it


@pytest.mark.parametrize(
    "module",
    [
        *("storage.paths", "storage.writing", "storage.checks"),
        *(name for name, floor in FLOORS.items() if floor == 0 and "data_prep" in name),
    ],
)
def test_the_ground_floor_of_data_preparation_needs_neither_tensorflow_nor_keras(module):
    code = f"import sys, {module}; assert not {{'tensorflow', 'keras', 'numpy'}} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
