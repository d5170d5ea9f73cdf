"""Fixtures shared by the tests of storage."""

import uuid

import pytest

from bert_keras.storage import paths


@pytest.fixture(params=["local", "remote"])
def folder(request, tmp_path):
    """A local folder, and one in TensorFlow's file system in memory, which simulates an object store."""
    folder = str(tmp_path) if request.param == "local" else f"ram://{uuid.uuid4().hex}"
    paths.make_dirs(folder)
    return folder
