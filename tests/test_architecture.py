"""The layers of the architecture: the permitted imports."""

import ast
import pathlib
import re
import subprocess
import sys

import pytest

import bert_keras

ROOT = pathlib.Path(__file__).resolve().parents[1]

# The levels of the folders; a file imports from lower levels and from its own folder.
FLOORS = {
    "storage": 0,
    "cli": 1,
    "evaluation": 1,
    "modeling": 1,
    "data_prep": 2,
    "prediction": 3,
    "training": 4,
    "export": 5,
}
# A new Python process runs its text as a program.
PROGRAMS_BELOW = ("export.formats.converters",)
PROGRAMS = [
    *(path for path in sorted(ROOT.glob("*.py")) if path.name != "setup.py"),
    *sorted((ROOT / "tools").glob("*.py")),
    *(
        ROOT / "data_prep" / f"{name}.py"
        for name in ("build_vocab", "create_pretraining_data", "create_pretraining_data_beam")
    ),
]
# These start without TensorFlow, Keras and NumPy.
LIGHT = (
    *("storage.paths", "storage.writing", "storage.checks", "cli.progress", "data_prep.text.characters"),
    *("data_prep.text.tokenization", "data_prep.text.vocabulary_files"),
)


def modules():
    """Return the paths by the module names below bert_keras."""
    paths = [path for folder in FLOORS for path in sorted((ROOT / folder).rglob("*.py")) if path not in PROGRAMS]
    return {".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__"): path for path in paths}


def imports_of(path):
    """Returns the names of the project's modules that a file imports, anywhere in the file."""
    names = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            names.add(node.module)
            names.update(f"{node.module}.{alias.name}" for alias in node.names)
    names = {name.removeprefix("bert_keras.") for name in names if name.startswith("bert_keras.")}
    return names & set(modules())


@pytest.mark.parametrize("module", modules())
def test_a_file_imports_from_lower_floors_or_from_its_own_folder(module):
    folder = module.split(".")[0]
    for imported in imports_of(modules()[module]):
        other = imported.split(".")[0]
        assert other == folder or FLOORS[other] < FLOORS[folder], f"{module} imports {imported}"
        assert {folder, other} != {"modeling", "data_prep"}, f"{module} imports {imported}"


def test_no_two_files_import_each_other():
    left = {name: imports_of(path) - {name} for name, path in modules().items() if path.name != "__init__.py"}
    left = {name: imported & set(left) for name, imported in left.items()}
    while free := {name for name, imported in left.items() if not imported}:
        left = {name: imported - free for name, imported in left.items() if name not in free}
    assert left == {}


def test_everything_is_imported_as_a_part_of_bert_keras():
    """Importing a folder by its bare name would load it a second time."""
    pattern = re.compile(rf"^\s*(from|import) ({'|'.join(FLOORS)})\b", re.MULTILINE)
    files = [path for name in (*FLOORS, "benchmarks", "tests", "tools") for path in (ROOT / name).rglob("*.py")]
    for path in [*files, *PROGRAMS, *(ROOT / "docs").glob("*.md"), ROOT / "README.md"]:
        assert not pattern.search(path.read_text(encoding="utf-8")), path


def test_only_programs_and_cli_read_the_command_line_and_the_environment():
    for module, path in modules().items():
        if module not in PROGRAMS_BELOW and not module.startswith("cli."):
            source = path.read_text(encoding="utf-8")
            assert not re.search(r"sys\.argv|os\.environ|os\.getenv|flags\.FLAGS|FLAGS\.", source), module


def test_the_public_names_are_there_and_cost_nothing_until_they_are_used():
    code = "import sys, bert_keras; assert not {'tensorflow', 'keras', 'numpy'} & set(sys.modules); "
    code += "print(*(getattr(bert_keras, name).__name__ == name for name in bert_keras.__all__))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert set(done.stdout.split()) == {"True"}
    assert len(bert_keras.__all__) <= 40


def test_no_private_names_of_keras_or_tensorflow():
    for module, path in modules().items():
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"keras\.src|tensorflow\.python|tf\.__internal__|(?:\btf|keras|ops)\._\w", source), module


def tensorflow_imports(tree):
    """Returns the statements in a file or function that import TensorFlow, or a package that needs it."""
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
    may_need_it = path.name in ("tensorflow_format.py", "dropout.py", "tasks.py")
    assert tensorflow_imports(tree) == (in_functions if may_need_it else set())
    assert bool(in_functions) == may_need_it


@pytest.mark.parametrize("module", LIGHT)
def test_the_ground_floor_of_data_preparation_needs_neither_tensorflow_nor_keras(module):
    code = f"import sys, bert_keras.{module}; assert not {{'tensorflow', 'keras', 'numpy'}} & set(sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=False).returncode == 0
