"""Fixtures of the tests of training."""

import made_up_task
import pytest
from small_files import write  # noqa: F401


@pytest.fixture(scope="session")
def start(tmp_path_factory):
    """The folder of a pre-trained model of one layer, which tests only read."""
    return made_up_task.write_start(tmp_path_factory.mktemp("start") / "tiny")


@pytest.fixture(scope="session")
def deep_start(tmp_path_factory):
    """The same of two layers."""
    return made_up_task.write_start(tmp_path_factory.mktemp("deep_start") / "tiny", num_layers=2)
