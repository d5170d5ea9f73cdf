"""setup.py names everything that an installation needs."""

import ast
import pathlib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def setup_arguments():
    """The arguments of the call of setup() that are written out."""
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (call,) = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and ast.unparse(node.func) == "setup"]
    wanted = ("packages", "py_modules", "package_data")
    return {keyword.arg: ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg in wanted}


def test_every_package_is_installed(setup_arguments):
    folders = [file.parent.relative_to(ROOT) for name in ("*", "*/*") for file in ROOT.glob(f"{name}/__init__.py")]
    packages = {".".join(folder.parts) for folder in folders if not folder.parts[0].startswith((".", "build"))}
    assert packages >= {"modeling", "data_prep", "training"}
    assert set(setup_arguments["packages"]) == packages


def test_every_program_is_installed(setup_arguments):
    programs = {file.stem for file in ROOT.glob("*.py")} - {"setup"}
    assert "run_pretraining" in programs
    assert set(setup_arguments["py_modules"]) == programs


def test_the_texts_of_every_package_are_installed(setup_arguments):
    texts, installed = set(), set()
    for package in setup_arguments["packages"]:
        folder = ROOT / package.replace(".", "/")
        texts.update(folder.rglob("*.txt"))
        for pattern in setup_arguments["package_data"].get(package, []):
            installed.update(folder.glob(pattern))
    assert ROOT / "data_prep" / "sample" / "vocab.txt" in texts
    assert texts <= installed


def test_the_gate_tests_the_beam_that_an_installation_brings():
    tree = ast.parse((ROOT / "setup.py").read_text(encoding="utf-8"))
    (extras,) = [node.value for node in tree.body if isinstance(node, ast.Assign) and node.targets[0].id == "EXTRAS"]
    beam = next(
        ast.literal_eval(value) for key, value in zip(extras.keys, extras.values, strict=True) if key.value == "beam"
    )
    gate = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert [requirement for requirement in beam if f"'{requirement}'" not in gate] == []
