"""Folders that are not exports, or name files that an export must not have; and how often a network runs."""

import json
import sys

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.model_folder import exported
from bert_keras.model_folder.exported import open_exported


def test_folders_without_the_network_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=f"^{tmp_path} is not an export: it has no export.json; give a folder"):
        open_exported(tmp_path)
    (tmp_path / "export.json").write_text('{"formats": {"litert": {"path": "a"}}}')
    with pytest.raises(FileNotFoundError, match=r"has the network as litert, and onnx is needed; .*format=onnx$"):
        open_exported(tmp_path, "onnx")
    (tmp_path / "export.json").write_text('{"formats": ["onnx"]}')
    with pytest.raises(ValueError, match='export.json does not give the "path" of each of its "formats"; take the fil'):
        open_exported(tmp_path)


@pytest.mark.parametrize("path", ["/etc/passwd", "../secret", "a/../../b", "C:\\a", "a\\..\\b"])
def test_an_export_cannot_name_files_outside(tmp_path, path):
    (tmp_path / "export.json").write_text(json.dumps({"formats": {"onnx": {"path": path}}}))
    with pytest.raises(ValueError, match=r'export.json names ".*", but a model names only files in its own folder;'):
        open_exported(tmp_path)


def test_a_missing_runtime_is_named(tmp_path, monkeypatch):
    (tmp_path / "model.xml").touch()
    (tmp_path / "export.json").write_text('{"formats": {"openvino": {"path": "model.xml"}}}')
    monkeypatch.setitem(sys.modules, "openvino", None)
    with pytest.raises(ValueError, match=r"^openvino is not installed; run pip install 'bert-keras\[openvino\]'$"):
        open_exported(tmp_path)


def test_an_export_with_several_outputs_runs_once_for_a_batch(tmp_path, monkeypatch):
    calls = []

    def run(inputs):
        calls.append(inputs["input_ids"].shape)
        return {"sequence_output": np.zeros((2, 5, 4), np.float32), "pooled_output": np.ones((2, 4), np.float32)}

    (tmp_path / "export.json").write_text(json.dumps({"formats": {"onnx": {"path": "model.onnx"}}}))
    (tmp_path / "model.onnx").touch()
    monkeypatch.setitem(exported.OPENERS, "onnx", lambda file: exported.ArrayNetwork(["input_ids"], run))
    network = open_exported(tmp_path)
    calls.clear()
    traced = tf.function(network, autograph=False)
    for call in (network, traced):
        outputs = call({"input_ids": tf.zeros((2, 5), tf.int32)})
        assert {name: value.shape for name, value in outputs.items()} == {
            "sequence_output": (2, 5, 4),
            "pooled_output": (2, 4),
        }
        assert outputs["pooled_output"].numpy().all()
    assert calls == [(2, 5), (2, 5)]
