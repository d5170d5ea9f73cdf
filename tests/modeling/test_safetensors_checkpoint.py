"""Checkpoints of the Hugging Face layout: all variants, and the written files."""

import json
import os
import re
import struct

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file
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

WORDS = "bert.embeddings.word_embeddings.weight"


@pytest.fixture(scope="module")
def model():
    return make_model(make_config(), seed=3)


@pytest.fixture(scope="module")
def stored(model):
    """The weights of the model as PyTorch stores them: other names, transposed kernels."""
    arrays = {}
    for name, weight in weights_by_name(model).items():
        value = np.asarray(weight)
        arrays[to_hugging_face(name)] = np.ascontiguousarray(value.T if name.endswith("/kernel") else value)
    return arrays


@pytest.fixture
def read(tmp_path):
    """Return a function that writes arrays to a safetensors file and opens it."""

    def write(arrays):
        save_file(arrays, tmp_path / "model.safetensors")
        return open_checkpoint(tmp_path)

    return write


def assert_is_model(checkpoint, model):
    weights = weights_by_name(model)
    assert checkpoint.names == sorted(weights)
    for name, weight in weights.items():
        value = checkpoint.read(name)
        assert (value.dtype, value.shape) == (np.float32, checkpoint.shape(name))
        np.testing.assert_array_equal(value, np.asarray(weight), err_msg=name)


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

    def test_what_embeddings_compute_is_passed_over(self, read, stored, model):
        computed = {name: np.arange(16)[None] for name in ("position_ids", "token_type_ids")}
        arrays = stored | {f"bert.embeddings.{name}": value for name, value in computed.items()}
        assert_is_model(read(arrays), model)

    def test_tied_tensors_that_are_equal_are_passed_over(self, read, stored, model):
        tied = {
            "cls.predictions.decoder.weight": stored[WORDS].copy(),
            "cls.predictions.decoder.bias": stored["cls.predictions.bias"].copy(),
        }
        assert_is_model(read(stored | tied), model)

    def test_tied_tensors_are_equal_where_their_bits_are(self, read, stored):
        table = stored[WORDS].copy()
        table[0, 0], table[0, 1] = np.nan, 0
        other = table.copy()
        checkpoint = read(stored | {WORDS: table, "cls.predictions.decoder.weight": other})
        assert "cls.predictions.decoder.weight" not in checkpoint.names
        other[0, 1] = -0.0
        checkpoint = read(stored | {WORDS: table, "cls.predictions.decoder.weight": other})
        assert "cls.predictions.decoder.weight" in checkpoint.names

    def test_twins_may_be_numbers_without_rows(self, read):
        one, same, two = np.array(1.0), np.array(1.0), np.array(2.0)
        assert read({"pooler.dense.bias": one, "bert.pooler.dense.bias": same}).names == ["bert/pooler/dense/bias"]
        names = read({"pooler.dense.bias": one, "bert.pooler.dense.bias": two}).names
        assert names == ["bert/pooler/dense/bias", "pooler.dense.bias"]

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
            load_weights(weights_by_name(make_model(make_config())), checkpoint)

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

        arrays = {name: value.astype(dtype) for name, value in stored.items()}
        save_file(arrays, tmp_path / "model.safetensors")
        value = open_checkpoint(tmp_path).read("bert/embeddings/word_embeddings")
        assert value.dtype == np.float32
        np.testing.assert_array_equal(value, stored[WORDS].astype(dtype).astype(np.float32))

    def test_integers_are_no_weights(self, read, stored):
        checkpoint = read(stored | {WORDS: stored[WORDS].astype(np.int8)})
        name = "bert/embeddings/word_embeddings"
        with pytest.raises(ValueError, match=re.escape(f"{WORDS} is of type I8; only F64, F32, F16, BF16 can be")):
            checkpoint.read(name)
        with pytest.raises(ValueError, match=re.escape(f"{name} is int8, and a weight must be one of float64, float")):
            load_weights(weights_by_name(make_model(make_config())), checkpoint)

    def test_what_is_no_part_of_a_bert_keeps_its_name_and_is_refused(self, read, stored):
        checkpoint = read(stored | {"adapter.weight": np.ones(3, np.float32)})
        assert "adapter.weight" in checkpoint.names
        with pytest.raises(ValueError, match="has 1 weights that the model lacks: adapter.weight; take the config"):
            load_weights(weights_by_name(make_model(make_config())), checkpoint)

    def test_a_checkpoint_of_something_else_is_refused(self, read):
        checkpoint = read({"transformer.h.0.attn.c_attn.weight": np.ones((2, 2), np.float32)})
        with pytest.raises(ValueError, match="cannot be loaded: it has none of the model's weights"):
            load_weights(weights_by_name(BertModel(make_config())), checkpoint)

    def test_every_weight_of_another_shape_is_named_as_the_model_has_it(self, read, stored):
        checkpoint = read(stored)
        bert = BertModel(make_config(intermediate_size=24))
        sentence = (
            "bert/encoder/layer_0/intermediate/dense/kernel is [8, 16] in the checkpoint and [8, 24] in the model"
        )
        with pytest.raises(ValueError, match=re.escape(sentence)):
            load_weights(weights_by_name(bert), checkpoint)


class TestWriting:
    def test_names_orientation_and_metadata_are_those_of_pytorch(self, tmp_path, model, stored):
        path = save_safetensors(tmp_path, weights_by_name(model), model.config)
        assert path == str(tmp_path / "model.safetensors")
        assert sorted(os.listdir(tmp_path)) == ["config.json", "model.safetensors"]
        written = load_file(path)
        assert sorted(written) == sorted(stored)
        for name, value in stored.items():
            np.testing.assert_array_equal(written[name], value, err_msg=name)
        with open(path, "rb") as file:
            header = json.loads(file.read(struct.unpack("<Q", file.read(8))[0]))
        assert header["__metadata__"] == {"format": "pt"}

    def test_an_encoder_alone_is_a_bert_model_without_prefix(self, tmp_path, model, stored):
        path = save_safetensors(tmp_path, weights_by_name(model.bert), model.config)
        expected = {name.removeprefix("bert.") for name in stored if name.startswith("bert.")}
        assert set(load_file(path)) == expected
        assert json.loads((tmp_path / "config.json").read_text())["architectures"] == ["BertModel"]
        assert_is_model(open_checkpoint(path), model.bert)

    @pytest.mark.parametrize(
        ("architecture", "heads"),
        [
            ("BertForSequenceClassification", ("classifier",)),
            ("BertForTokenClassification", ("token_classifier",)),
            ("BertForMultipleChoice", ("multiple_choice",)),
        ],
    )
    def test_the_class_says_what_top_level_weights_are_for(self, tmp_path, architecture, heads):
        head = {"output_weights": np.ones((2, 8), np.float32), "output_bias": np.zeros(2, np.float32)}
        weights = weights_by_name(BertModel(make_config())) | head
        save_safetensors(tmp_path, weights, make_config(), architecture, labels=["no", "yes"])
        values = json.loads((tmp_path / "config.json").read_text())
        assert values["architectures"] == [architecture]
        assert (values["id2label"], values["label2id"]) == ({"0": "no", "1": "yes"}, {"no": 0, "yes": 1})
        checkpoint = open_checkpoint(tmp_path)
        assert (checkpoint.heads, checkpoint.labels) == (heads, ["no", "yes"])
        assert set(load_file(tmp_path / "model.safetensors")) > {"classifier.weight", "classifier.bias"}

    @pytest.mark.parametrize(
        ("left_out", "architecture"),
        [
            ("nothing", "BertForPreTraining"),
            ("cls/seq_relationship", "BertForMaskedLM"),
            ("cls/predictions", "BertForNextSentencePrediction"),
        ],
    )
    def test_the_heads_decide_on_the_class(self, tmp_path, model, left_out, architecture):
        weights = {name: w for name, w in weights_by_name(model).items() if not name.startswith(left_out)}
        save_safetensors(tmp_path, weights, model.config)
        assert json.loads((tmp_path / "config.json").read_text())["architectures"] == [architecture]
        assert_is_model(open_checkpoint(tmp_path), model) if left_out == "nothing" else None

    @pytest.mark.parametrize(
        ("extra", "arguments", "sentence"),
        [
            ({"resnet/kernel": np.ones(2)}, {}, "the Hugging Face layout has no place for resnet/kernel; leave that"),
            ({"output_weights": np.ones((3, 8)), "output_bias": np.ones(3)}, {},
             "no class of the Hugging Face layout has the heads masked_lm, next_sentence, classifier together; leave"),
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
