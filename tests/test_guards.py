"""A rule about files fails if the files are gone: a moved folder must not turn it off."""

import importlib

import pytest
from guards import at_least

from tests import test_architecture

# Functions and names through which a rule finds files.
FINDERS = ("ROOT", "sources", "modules", "imports", "PROGRAMS", "things_of_the_reference")
# This one only runs Python in the folder.
WITHOUT_FILES = {"test_architecture.test_the_package_tokenization_and_storage_need_neither_tensorflow_nor_keras"}


def rules():
    """Return the modules of the tests without arguments that look at files, by name."""
    found = {}
    for name in ("test_architecture", "test_packaging", "test_site"):
        module = importlib.import_module(f"tests.{name}")
        for function, rule in vars(module).items():
            if (
                function.startswith("test_")
                and not rule.__code__.co_argcount
                and {*FINDERS} & {*rule.__code__.co_names}
            ):
                found[f"{name}.{function}"] = module
    return found


def clear_caches():
    for function in (test_architecture.sources, test_architecture.modules, test_architecture.imports):
        function.cache_clear()


@pytest.mark.parametrize("name", at_least(14, set(rules()) - WITHOUT_FILES))
def test_a_rule_fails_without_its_files(name, tmp_path, monkeypatch):
    for module in (test_architecture, rules()[name]):
        monkeypatch.setattr(module, "ROOT", tmp_path)
    clear_caches()
    try:
        with pytest.raises((AssertionError, OSError)):
            getattr(rules()[name], name.split(".")[1])()
    finally:
        clear_caches()


def test_fewer_things_than_expected_are_an_error():
    assert at_least(2, (name for name in "ba")) == ["a", "b"]
    with pytest.raises(AssertionError, match="has only 1 things to look at, but at least 2 are expected"):
        at_least(2, ["a"])
