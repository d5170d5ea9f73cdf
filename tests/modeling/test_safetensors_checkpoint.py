"""Checkpoints of the Hugging Face layout: all variants, and the written files."""

import json
import os
import re
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
from states import assert_bit_equal, weights_in, weights_of
from tiny_bert import make_config, make_model

from bert_keras.modeling import (
    BertModel,
    load_weights,
    open_checkpoint,
    save_checkpoint,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling.checkpoints.names import to_hugging_face

CONFIG = make_config(num_hidden_layers=1)
WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def model():
    return make_model(CONFIG, seed=3)


@pytest.fixture(scope="module")
def stored(model):
    """The weights of the model as PyTorch stores them: other names, transposed kernels."""
    return {
        to_hugging_face(name): np.ascontiguousarray(value.T if name.endswith("/kernel") else value)
        for name, value in weights_of(model).items()
    }


@pytest.fixture
def read(tmp_path):
    """Return a function that writes arrays to a safetensors file and opens it."""

    def write(arrays):
        save_file(arrays, tmp_path / "model.safetensors")
        return open_checkpoint(tmp_path)

    return write


def assert_is_model(checkpoint, model):
    weights = weights_of(model)
    assert_bit_equal(weights_in(checkpoint.prefix), weights)
    assert checkpoint.names == sorted(weights)
    assert {name: checkpoint.shape(name) for name in weights} == {name: x.shape for name, x in weights.items()}


def renamed(stored, replacements):
    def rename(name):
        for old, new in replacements.items():
            name = re.sub(old, new, name)
        return name

    return {rename(name): value for name, value in stored.items()}


class TestForms:
    @pytest.mark.parametrize(
        "replacements",
        [
            {},
            {"^bert[.]": ""},
            {"LayerNorm.weight": "LayerNorm.gamma", "LayerNorm.bias": "LayerNorm.beta"},
            {"^cls.predictions.bias": "cls.predictions.decoder.bias"},
        ],
        ids=["new names", "without bert.", "gamma and beta", "bias of the decoder"],
    )
    def test_names_of_all_times_are_understood(self, read, stored, model, replacements):
        assert_is_model(read(renamed(stored, replacements)), model)

    def test_constant_buffers_and_tied_tensors_are_skipped(self, read, stored, model):
        more = {f"bert.embeddings.{name}": np.arange(16)[None] for name in ("position_ids", "token_type_ids")}
        more["cls.predictions.decoder.weight"] = stored[WORDS].copy()
        more["cls.predictions.decoder.bias"] = stored["cls.predictions.bias"].copy()
        assert_is_model(read(stored | more), model)

    def test_tied_tensors_are_equal_if_their_bits_are(self, read):
        table = np.array([[np.nan, 0]], np.float32)
        for zero, is_equal in ((0.0, True), (-0.0, False)):
            other = np.array([[np.nan, zero]], np.float32)
            checkpoint = read({WORDS: table, "cls.predictions.decoder.weight": other})
            assert ("cls.predictions.decoder.weight" not in checkpoint.names) == is_equal
        for number, is_equal in ((1.0, True), (2.0, False)):
            names = read({"pooler.dense.bias": np.array(1.0), "bert.pooler.dense.bias": np.array(number)}).names
            assert names == ["bert/pooler/dense/bias", *([] if is_equal else ["pooler.dense.bias"])]

    @pytest.mark.parametrize(
        ("name", "twin"),
        [
            ("cls.predictions.decoder.weight", WORDS),
            ("cls.predictions.decoder.bias", "cls.predictions.bias"),
            ("pooler.dense.bias", "bert.pooler.dense.bias"),
        ],
    )
    def test_a_second_tensor_that_differs_is_refused(self, read, stored, model, name, twin):
        second = stored[twin].copy()
        second[-1] += 1
        checkpoint = read(stored | {name: second})
        with pytest.raises(ValueError, match=re.escape(f"has 1 weights that the model lacks: {max(name, twin)};")):
            load_weights(weights_by_name(make_model(CONFIG)), checkpoint)

    def test_shards_are_read_as_one(self, tmp_path, stored, model):
        names = sorted(stored)
        shards = {"model-00001-of-00002.safetensors": names[:20], "model-00002-of-00002.safetensors": names[20:]}
        for shard, held in shards.items():
            save_file({name: stored[name] for name in held}, tmp_path / shard)
        index = {"metadata": {}, "weight_map": {name: shard for shard, held in shards.items() for name in held}}
        index_file = tmp_path / "model.safetensors.index.json"
        index_file.write_text(json.dumps(index))
        for path in (tmp_path, index_file):
            checkpoint = open_checkpoint(path)
            assert checkpoint.prefix == str(index_file)
            assert_is_model(checkpoint, model)

    @pytest.mark.parametrize("dtype", ["float64", "float16", "bfloat16"])
    def test_other_precisions_become_float32(self, tmp_path, stored, dtype):
        import ml_dtypes  # noqa: F401, adds bfloat16 to NumPy

        save_file({WORDS: stored[WORDS].astype(dtype)}, tmp_path / "model.safetensors")
        value = open_checkpoint(tmp_path).read("bert/embeddings/word_embeddings")
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, stored[WORDS].astype(dtype).astype(np.float32))

    def test_integers_are_no_weights(self, read):
        checkpoint = read({WORDS: np.ones((2, 2), np.int8), "adapter.weight": np.ones(3, np.float32)})
        assert checkpoint.names == ["adapter.weight", "bert/embeddings/word_embeddings"]
        assert checkpoint.dtype("bert/embeddings/word_embeddings") == "int8"
        with pytest.raises(ValueError, match=re.escape(f"{WORDS} is of type I8; only F64, F32, F16, BF16 can be")):
            checkpoint.read("bert/embeddings/word_embeddings")


class TestPrefixes:
    @pytest.mark.parametrize("prefix", ["module.", "model.", "_orig_mod.module.", "0.auto_model.", "base_model.model."])
    def test_prefixes_of_other_trainers_do_not_count(self, read, model, stored, prefix, caplog):
        caplog.set_level("INFO")
        assert_is_model(read({prefix + name: array for name, array in stored.items()}), model)
        assert f'begin with "{prefix}"' in caplog.text

    def test_a_head_outside_the_prefix_keeps_its_name(self, read, stored):
        head = {"classifier.weight": np.ones((2, 8), np.float32), "crf.transitions": np.ones((2, 2), np.float32)}
        names = read({f"model.{name}": array for name, array in stored.items()} | head).names
        assert {"output_weights", "crf.transitions", "bert/embeddings/word_embeddings"} <= set(names)

    def test_two_encoders_are_refused(self, read, stored):
        copies = {f"{prefix}.{name}": array for prefix in ("encoder", "model") for name, array in stored.items()}
        with pytest.raises(ValueError, match="has 2 encoders, whose names begin with encoder., model.; write each"):
            read(copies)

    def test_the_names_of_another_network_are_not_a_prefix(self, read, stored):
        checkpoint = read({f"roberta.{name.removeprefix('bert.')}": array for name, array in stored.items()})
        assert not any(name.startswith("bert/") for name in checkpoint.names)


class TestWriting:
    def test_names_orientation_and_metadata_are_those_of_pytorch(self, tmp_path, model, stored):
        path = save_safetensors(tmp_path, weights_by_name(model), model.config)
        assert path == str(tmp_path / "model.safetensors")
        assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]
        assert_bit_equal(load_file(path), stored)
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        assert header["__metadata__"] == {"format": "pt"}

    def test_an_encoder_alone_is_a_bert_model_without_prefix(self, tmp_path, model, stored):
        path = save_safetensors(tmp_path, weights_by_name(model.bert), model.config)
        expected = {name.removeprefix("bert.") for name in stored if name.startswith("bert.")}
        assert set(load_file(path)) == expected
        assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertModel"]
        assert_is_model(open_checkpoint(path), model.bert)

    def test_the_class_says_what_top_level_weights_are_for(self, tmp_path):
        head = {"output_weights": np.ones((2, 8), np.float32), "output_bias": np.zeros(2, np.float32)}
        weights = weights_by_name(BertModel(CONFIG)) | head
        save_safetensors(tmp_path, weights, CONFIG, "BertForTokenClassification", labels=["no", "yes"])
        values = json.loads((tmp_path / "config.json").read_text())
        assert values["architectures"] == ["BertForTokenClassification"]
        assert (values["id2label"], values["label2id"]) == ({"0": "no", "1": "yes"}, {"no": 0, "yes": 1})
        checkpoint = open_checkpoint(tmp_path)
        assert (checkpoint.heads, checkpoint.labels) == (("token_classifier",), ["no", "yes"])
        assert set(load_file(tmp_path / "model.safetensors")) > {"classifier.weight", "classifier.bias"}

    def test_the_heads_decide_on_the_class(self, tmp_path, model):
        weights = {name: w for name, w in weights_by_name(model).items() if not name.startswith("cls/seq_relation")}
        save_safetensors(tmp_path, weights, model.config)
        assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertForMaskedLM"]

    @pytest.mark.parametrize(
        ("extra", "arguments", "sentence"),
        [
            ({"resnet/kernel": np.ones(2)}, {}, "the Hugging Face layout has no place for resnet/kernel; leave that"),
            ({"output_weights": np.ones((3, 8)), "output_bias": np.ones(3)}, {},
             "no class of the Hugging Face layout has the heads masked_lm, next_sentence, classifier together; keep"),
            ({"output_weights": np.ones((3, 8))},
             {"architecture": "BertForSequenceClassification", "labels": ["a", "b"]},
             "2 labels were given, but the head has 3 rows; give one for each"),
            ({}, {"architecture": "BertForQuestionAnswering"},
             "BertForQuestionAnswering has the head squad, but its weights were not given"),
            ({}, {"architecture": "BertLMHeadModel"}, 'the class "BertLMHeadModel" is not one of BertModel, BertFor'),
        ],
    )  # fmt: skip
    def test_what_cannot_be_written_is_refused(self, tmp_path, model, extra, arguments, sentence):
        with pytest.raises(ValueError, match=re.escape(sentence)):
            save_safetensors(tmp_path / "new", weights_by_name(model) | extra, model.config, **arguments)
        assert not (tmp_path / "new").exists()

    @pytest.mark.parametrize("failing", [1, 2])
    def test_a_failure_leaves_no_checkpoint_under_the_final_name(self, tmp_path, model, monkeypatch, failing):
        save_safetensors(tmp_path, {"output_weights": np.ones((2, 8))}, model.config)  # an older checkpoint
        calls = []

        def replace(source, target):
            calls.append(target)
            if len(calls) == failing:
                raise OSError("killed")
            os.rename(source, target)

        monkeypatch.setattr(os, "replace", replace)
        with pytest.raises(OSError, match="killed"):
            save_safetensors(tmp_path, weights_by_name(model), model.config)
        assert os.listdir(tmp_path) == ["config.json"]


def test_a_folder_of_both_kinds_is_refused_unless_it_is_a_run(tmp_path, model):
    save_checkpoint(tmp_path / "model.ckpt-7", weights_by_name(model.bert))
    path = save_safetensors(tmp_path, weights_by_name(model), model.config)
    sentence = f"the folder {tmp_path} holds several checkpoints: model.ckpt-7, model.safetensors; name one"
    with pytest.raises(ValueError, match=re.escape(sentence)):
        open_checkpoint(tmp_path)
    assert_is_model(open_checkpoint(path), model)
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-7"\n')
    assert_is_model(open_checkpoint(tmp_path), model.bert)
