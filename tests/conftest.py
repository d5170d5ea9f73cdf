"""What every test may use."""

import os
import pathlib

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="session")
def shared_dir():
    """Gives the path of a folder of reference data beside the project, or skips where there is none."""

    def find(name):
        path = ROOT.parent / "shared" / name
        if not path.exists():
            pytest.skip(f"the reference data shared/{name} is not beside the project")
        return path

    return find


@pytest.fixture(scope="session")
def golden_dir():
    """The golden figures of the release that are part of the project."""
    return ROOT / "tests" / "golden"
