"""A tiny model in the format of a released one."""

import pytest
from known_models import random_model, write_model


@pytest.fixture(scope="module")
def model():
    return random_model(seed=7, num_hidden_layers=1)


@pytest.fixture
def folder(tmp_path, model):
    return write_model(tmp_path / "model", model)
