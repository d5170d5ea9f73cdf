"""Unreadable files of the Hugging Face layout (damaged, incomplete, or pickles) give one clear error message each."""

import json
import os
import re
import struct
import sys
import types

import numpy as np
import pytest
from safetensors.numpy import save_file
from tiny_bert import make_config, make_model

from bert_keras.modeling import open_checkpoint, save_safetensors, weights_by_name


@pytest.fixture(scope="module")
def model():
    return make_model(make_config(num_hidden_layers=1))


class TestDamage:
    @pytest.fixture
    def path(self, tmp_path, model):
        return save_safetensors(tmp_path, weights_by_name(model), model.config)

    def test_a_file_cut_short_is_refused(self, path):
        for share in (0.99, 0.5, 0.01, 0.0):
            os.truncate(path, int(share * os.path.getsize(path)))
            with pytest.raises(ValueError, match=r"model\.safetensors cannot be read \(.*\); the file is damaged or"):
                open_checkpoint(path)

    @pytest.mark.parametrize(
        "header",
        [
            {"x": {"dtype": "F32", "shape": [8], "data_offsets": [0, 16]}},
            {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 400]}},
            {"x": {"dtype": "F32", "shape": [2], "data_offsets": [0, 8]}},
            {"x": {"dtype": "F32", "shape": [4], "data_offsets": [0, 16]},
             "y": {"dtype": "F32", "shape": [2], "data_offsets": [8, 16]}},
            {"x": {"dtype": "F99", "shape": [4], "data_offsets": [0, 16]}},
        ],
        ids=["shape", "beyond the end", "not all of the file", "overlap", "type"],
    )  # fmt: skip
    def test_a_header_that_lies_is_refused(self, tmp_path, header):
        text = json.dumps(header).encode()
        path = tmp_path / "model.safetensors"
        path.write_bytes(struct.pack("<Q", len(text)) + text + bytes(16))
        with pytest.raises(ValueError, match=r"model\.safetensors cannot be read \(.*\); the file is damaged or cut"):
            open_checkpoint(path)

    def test_a_pointer_of_git_lfs_is_recognised(self, tmp_path):
        path = tmp_path / "model.safetensors"
        path.write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 133466304\n")
        with pytest.raises(ValueError, match=re.escape(f"{path} is only a pointer of Git LFS; run `git lfs pull` to")):
            open_checkpoint(tmp_path)

    def test_a_file_that_may_not_be_read_is_not_called_missing(self, path, monkeypatch):
        monkeypatch.setattr(os, "access", lambda path, mode: False)
        with pytest.raises(PermissionError, match=r"model\.safetensors exists, but you may not read it; ask its owner"):
            open_checkpoint(path)

    def test_both_files_have_the_permissions_of_other_files(self, path, tmp_path):
        (tmp_path / "other").write_text("")
        modes = {name: os.stat(tmp_path / name).st_mode for name in ("other", "config.json", "model.safetensors")}
        assert len(set(modes.values())) == 1, modes
        (tmp_path / "model.safetensors").chmod(0o600)
        save_safetensors(tmp_path, {"bert/pooler/dense/bias": np.zeros(8)}, make_config())
        assert os.stat(tmp_path / "model.safetensors").st_mode & 0o777 == 0o600

    def test_a_missing_file_is_refused_with_what_is_there(self, path, tmp_path):
        sentence = (
            f"the checkpoint {tmp_path}/other.safetensors does not exist; the checkpoints in {tmp_path} are model.safe"
        )
        with pytest.raises(FileNotFoundError, match=re.escape(sentence)):
            open_checkpoint(tmp_path / "other.safetensors")


class TestShards:
    @pytest.fixture
    def index_file(self, tmp_path):
        # No index needs to list the position ids.
        names = ("bert.pooler.dense.bias", "classifier.bias", "x", "bert.embeddings.position_ids")
        save_file({name: np.ones(8, np.float32) for name in names}, tmp_path / "model-00001-of-00002.safetensors")
        return tmp_path / "model.safetensors.index.json"

    def test_a_missing_index_is_named(self, index_file, tmp_path):
        (tmp_path / "a.pt").touch()
        sentence = "model-00001-of-00002.safetensors is part of a checkpoint, but model.safetensors.index.json does not"
        with pytest.raises(FileNotFoundError, match=re.escape(sentence)):
            open_checkpoint(tmp_path)

    @pytest.mark.parametrize(
        ("text", "sentence"),
        [
            ("{", "line 1: not valid JSON"),
            ("{}", 'has no "weight_map" of names to files; get it again'),
            ('{"weight_map": ["x"]}', 'has no "weight_map" of names to files; get it again'),
            ('{"weight_map": {"x": "model-00002-of-00002.safetensors"}}',
             "names missing files: model-00002-of-00002.safetensors; copy all files of the checkpoint"),
            ('{"weight_map": {"x": "../model.safetensors"}}',
             'names "../model.safetensors", but a model names only files in its own folder; take the model from'),
            ('{"weight_map": {"y": "model-00001-of-00002.safetensors"}}',
             "lists y in model-00001-of-00002.safetensors, which lacks it; get both again"),
            ('{"weight_map": {"bert.pooler.dense.bias": "model-00001-of-00002.safetensors"}}',
             "does not list classifier.bias, x of model-00001-of-00002.safetensors; get both again"),
        ],
    )  # fmt: skip
    def test_a_bad_index_is_refused(self, index_file, text, sentence):
        index_file.write_text(text)
        with pytest.raises((ValueError, FileNotFoundError), match=re.escape(f"{index_file} {sentence}")):
            open_checkpoint(index_file.parent)


class TestPickles:
    REMEDY = (
        "python -c \"import glob, torch, safetensors.torch as s; w = {k: v.clone() for f in ['pytorch_model.bin'] for "
        "k, v in torch.load(f, map_location='cpu', "
    )

    @pytest.mark.parametrize("path", ["", "pytorch_model.bin"])
    def test_a_pickle_is_never_opened(self, tmp_path, path):
        # Unpickling this would create a file.
        (tmp_path / "pytorch_model.bin").write_bytes(b"cos\nsystem\n(S'touch " + bytes(tmp_path) + b"/ran'\ntR.")
        with pytest.raises(ValueError, match=re.escape(self.REMEDY) + "weights_only=True") as refusal:
            open_checkpoint(tmp_path / path)
        assert "is a pickle, which can run any program when it is opened, so it is not read" in str(refusal.value)
        assert "\n" not in str(refusal.value)
        assert os.listdir(tmp_path) == ["pytorch_model.bin"]

    @pytest.mark.parametrize(
        ("others", "name"),
        [
            (["optimizer.pt", "a.bin", "training_args.bin"], "pytorch_model.bin"),
            (["optimizer.pt", "pytorch_model-00002-of-00002.bin"], "pytorch_model-00001-of-00002.bin"),
            (["scheduler.pt"], "optimizer.pt"),
        ],
    )
    def test_the_model_goes_before_the_state_of_training(self, tmp_path, others, name):
        for other in [*others, name]:
            (tmp_path / other).touch()
        with pytest.raises(ValueError, match=re.escape(f"{tmp_path / name} is a pickle, which can run any")):
            open_checkpoint(tmp_path)

    @pytest.mark.parametrize(
        ("name", "shards"),
        [("pytorch_model.bin", 1), ("pytorch_model-00001-of-00002.bin", 2), ("pytorch_model-00002-of-00002.bin", 2)],
    )
    def test_the_remedy_takes_up_all_shards(self, tmp_path, monkeypatch, name, shards):
        every = ["pytorch_model.bin", "pytorch_model-00001-of-00002.bin", "pytorch_model-00002-of-00002.bin"]
        for other in [*every, "optimizer.pt"]:
            (tmp_path / other).touch()
        with pytest.raises(ValueError, match="is a pickle") as refusal:
            open_checkpoint(tmp_path / name)
        code = re.search('python -c "(.*)"$', str(refusal.value))[1]
        # Replaces PyTorch: each file holds a tensor of its name.
        torch, safetensors = types.ModuleType("torch"), types.ModuleType("safetensors.torch")
        clone = types.SimpleNamespace(clone=lambda: np.ones(2, np.float32))
        torch.load = lambda file, map_location, weights_only: {file: clone} if weights_only else 1 / 0
        safetensors.save_file = save_file
        monkeypatch.setitem(sys.modules, "torch", torch)
        monkeypatch.setitem(sys.modules, "safetensors.torch", safetensors)
        monkeypatch.setattr(sys.modules["safetensors"], "torch", safetensors, raising=False)
        monkeypatch.chdir(tmp_path)
        exec(code, {})
        expected = [name] if shards == 1 else every[1:]
        assert open_checkpoint(tmp_path).names == sorted(expected)

    def test_beside_safetensors_it_is_passed_over(self, tmp_path, model):
        (tmp_path / "pytorch_model.bin").touch()
        save_safetensors(tmp_path, weights_by_name(model), model.config)
        assert open_checkpoint(tmp_path).names == sorted(weights_by_name(model))
