"""setup.py lists everything that an installation needs."""

import ast
import inspect
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest
from guards import at_least

import bert_keras
from bert_keras.cli.program_names import MODULES
from tests.test_architecture import FLOORS, PROGRAMS, folder_of

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def setup_values():
    """Returns the list of packages that setup.py assigns, and the literal arguments of setup()."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    values = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and node.targets[0].id == "PACKAGES"
    }
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "setup"]
    names = ("package_data", "entry_points")
    return values | {word.arg: ast.literal_eval(word.value) for word in call.keywords if word.arg in names}


@pytest.fixture(scope="module")
def packages():
    """Returns the folder of each package by its name below bert_keras; the studies are not installed."""
    return {
        ".".join((name, *file.parent.relative_to(folder_of(name)).parts)): file.parent
        for name in FLOORS.keys() - {"studies"}
        for file in at_least(3, folder_of(name).rglob("*.py"))
    }


def test_every_package_is_installed(setup_values, packages):
    assert set(setup_values["PACKAGES"]) == set(packages)
    assert all((folder / "__init__.py").exists() for folder in packages.values())


LOCATE = """
import importlib.util
import bert_keras
from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.storage import paths
for name in ("modeling", "bert_keras.modeling"):
    print(importlib.util.find_spec(name).origin)
print(BasicTokenizer().tokenize("Is it?"))
"""


@pytest.mark.parametrize("has_links", [True, False])
def test_a_clone_works_with_and_without_links_and_leaves_a_users_module_of_the_same_name(tmp_path, has_links):
    clone, user = tmp_path / "clone", tmp_path / "user"
    for name in ("bert_keras", "modeling", "data_prep"):
        shutil.copytree(ROOT / name, clone / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__"))
    links = at_least(2, (path for path in (clone / "bert_keras").iterdir() if path.is_symlink()))
    if not has_links:  # Git for Windows writes a link as a file with its target
        for link in links:
            target = os.readlink(link)
            link.unlink()
            link.write_text(target)
    user.mkdir()
    (user / "modeling.py").write_text("")
    (user / "script.py").write_text(LOCATE)
    environment = os.environ | {"PYTHONPATH": str(clone)}
    command = [sys.executable, user / "script.py"]
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=user).stdout
    own, ours, tokens = printed.splitlines()
    assert own == str(user / "modeling.py")
    assert pathlib.Path(ours).resolve() == clone / "modeling" / "__init__.py"
    assert tokens == "['is', 'it', '?']"


def test_every_program_of_a_clone_is_a_subcommand_and_begins_with_the_line_that_runs_it(setup_values):
    # The first two need the clone; the last is a second way to the one in data_prep/.
    of_clone = {ROOT / name for name in ("tools/check_gpu.py", "studies/run_study.py", "create_pretraining_data.py")}
    programs = {*PROGRAMS} - of_clone
    assert {path.stem for path in programs} == {module.rpartition(".")[2] for module in MODULES.values()}
    for program in programs:
        assert program.read_text(encoding="utf-8").startswith("#!/usr/bin/env python3\n"), program
    assert setup_values["entry_points"] == {"console_scripts": ["bert-keras = bert_keras.__main__:main"]}


def test_the_texts_of_every_package_are_installed(setup_values, packages):
    texts, installed = set(), set()
    for package, folder in packages.items():
        texts.update(path for ending in ("txt", "csv", "json", "html") for path in folder.rglob(f"*.{ending}"))
        for pattern in setup_values["package_data"].get(f"bert_keras.{package}", []):
            installed.update(folder.glob(pattern))
    data = setup_values["package_data"]
    assert "py.typed" in data["bert_keras"]
    for stub in at_least(2, (ROOT / "bert_keras").rglob("*.pyi")):
        assert stub.name in data[".".join(stub.parent.relative_to(ROOT).parts)]
    codes = set(at_least(7, (ROOT / "bert_keras" / "tasks").rglob("*.js")))
    assert codes <= {path for pattern in data["bert_keras"] for path in (ROOT / "bert_keras").glob(pattern)}
    assert ROOT / "data_prep" / "sample" / "vocab.txt" in texts
    assert texts <= installed


def test_the_gate_tests_the_beam_that_an_installation_brings():
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (extras,) = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "EXTRAS"]
    beam = next(
        ast.literal_eval(value) for key, value in zip(extras.keys, extras.values, strict=True) if key.value == "beam"
    )
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [requirement for requirement in at_least(1, beam) if f"'{requirement}'" not in gate] == []


def test_the_workflow_runs_files_of_the_repository():
    yaml = pytest.importorskip("yaml", reason="needs PyYAML, which the extra [test] brings")
    workflow = yaml.safe_load((ROOT / ".github" / "workflows" / "ci.yml").read_text(encoding="utf-8"))
    jobs = workflow["jobs"]
    commands = "\n".join(step.get("run", "") for job in jobs.values() for step in job["steps"])
    files = at_least(2, re.findall(r"(?<!\S)\.?[\w/]*/\w+", commands))
    assert [name for name in files if not os.access(ROOT / name, os.X_OK)] == []
    versions = jobs["wheel"]["strategy"]["matrix"]["python"]
    text = (ROOT / "setup.py").read_text(encoding="utf-8")
    assert versions == re.findall(r"Python :: (\d\.\d+)", text)


def test_the_version_is_the_same_everywhere():
    setup = [sys.executable, "setup.py", "--version"]
    printed = subprocess.run(setup, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    assert printed.split()[-1:] == [bert_keras.__version__]
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.findall(r"^version: (.+)$", citation, re.MULTILINE) == [bert_keras.__version__]
    changes = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.findall(r"^## \[(\d.+)\]", changes, re.MULTILINE)[:1] == [bert_keras.__version__]


def _own_functions(public):
    """Yields the functions of a public name that we wrote: itself, or a class's methods and those that it inherits."""
    if not inspect.isclass(public):
        yield public
        return
    for owner in public.__mro__:
        if owner.__module__.startswith("bert_keras."):
            for name, member in vars(owner).items():
                if not name.startswith("_") or name in ("__init__", "__call__"):
                    member = member.fget if isinstance(member, property) else inspect.unwrap(member)
                    member = getattr(member, "__func__", member)  # of a class or static method
                    if inspect.isfunction(member):
                        yield member


def _has_all_types(function):
    signature = inspect.signature(function)
    given = [each.annotation for name, each in signature.parameters.items() if name not in ("self", "cls")]
    if function.__name__ != "__init__":
        given.append(signature.return_annotation)
    return inspect.Signature.empty not in given


def test_every_public_function_and_method_states_its_types():
    functions = [each for name in bert_keras.__all__ for each in _own_functions(getattr(bert_keras, name))]
    assert len(functions) > 100
    assert {each.__qualname__ for each in functions if not _has_all_types(each)} == set()
