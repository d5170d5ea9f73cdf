"""ONNX and LiteRT files: run after they are written, equal to the network, or refused with a sentence."""

import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import randomise

from export import litert_format, onnx_format
from export.agreement import check_agreement, random_features
from export.litert_format import write_litert
from export.networks import IdsNetwork
from export.onnx_format import write_onnx
from export.quantization import check_quantize, in_bfloat16
from modeling import BertConfig, BertModel, ClassifierModel, PretrainingModel, SquadModel, weights_by_name
from modeling.tagger import FeatureBasedTagger
from prediction.exported import open_litert, open_onnx

FORMATS = {"onnx": (write_onnx, open_onnx), "litert": (write_litert, open_litert)}


def config(hidden_act="gelu", vocab_size=300, hidden_size=32):
    return BertConfig(
        vocab_size=vocab_size,
        hidden_size=hidden_size,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=2 * hidden_size,
        max_position_embeddings=20,
        hidden_act=hidden_act,
    )


@pytest.fixture(scope="module")
def networks():
    return {
        # The exact gelu, which converters know as Erf and not as Erfc.
        "classification": IdsNetwork(randomise(ClassifierModel(config("gelu_erf"), 3)), "classification"),
        "question_answering": IdsNetwork(randomise(SquadModel(config())), "question_answering"),
        "fill_mask": IdsNetwork(randomise(PretrainingModel(config())), "fill_mask"),
        "vectors": IdsNetwork(randomise(BertModel(config("gelu_erf"))), "vectors"),
    }


@pytest.mark.parametrize("task", ["classification", "question_answering", "fill_mask", "vectors"])
@pytest.mark.parametrize("name", FORMATS)
def test_a_file_gives_what_the_network_gives(networks, tmp_path, capfd, name, task):
    write, open_ = FORMATS[name]
    network = networks[task]
    assert write(network, tmp_path / "file") < 2e-5
    run = open_(tmp_path / "file")
    assert sorted(run.input_names) == sorted(network.input_names)
    for num_rows, num_tokens in ((1, 1), (5, 13), (1, 20)):
        features = random_features(network, num_rows, num_tokens, seed=3)
        expected, found = network(features), run(features)
        assert set(found) == set(expected)
        for output, value in expected.items():
            assert found[output].dtype == np.float32
            np.testing.assert_allclose(found[output], value, atol=2e-5)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize("name", FORMATS)
def test_weights_of_8_bits_are_smaller_and_close(tmp_path, name):
    write, open_ = FORMATS[name]
    network = IdsNetwork(randomise(ClassifierModel(config(vocab_size=4000), 3)), "classification")
    whole, rounded = tmp_path / "whole", tmp_path / "rounded"
    exact = write(network, whole)
    difference = write(network, rounded, "int8")
    assert rounded.stat().st_size < 0.45 * whole.stat().st_size
    features = random_features(network, 40, 12, seed=4)
    expected, found = network(features)["logits"].numpy(), open_(rounded)(features)["logits"]
    assert exact < 1e-4 < difference < 1
    assert 1e-4 < np.abs(found - expected).mean() < 0.15 * np.abs(expected).mean()


@pytest.mark.parametrize(("name", "called"), [("onnx", "ONNX"), ("litert", "LiteRT")])
def test_an_operation_that_a_format_lacks_is_named(tmp_path, name, called):
    class Network(tf.Module):
        signature = {"input_ids": tf.TensorSpec([None, None], tf.int32, "input_ids")}

        def __call__(self, features):
            return {"logits": tf.math.erfc(tf.cast(features["input_ids"], tf.float32))}

    message = f"^{called} .*operation for Erfc.*take --format=saved_model"
    with pytest.raises(ValueError, match=message):
        FORMATS[name][0](Network(), tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_a_tagger_with_lstms_is_none_for_litert_and_bfloat16(tmp_path):
    tagger = randomise(FeatureBasedTagger(config(), 5, units=4))
    message = "^LiteRT cannot take this network: it has no operation for TensorListReserve; take --format=saved_model"
    with pytest.raises(ValueError, match=message):
        write_litert(IdsNetwork(tagger, "token_classification"), tmp_path / "file")
    assert not list(tmp_path.iterdir())
    with pytest.raises(ValueError, match=r"^a tagger with LSTMs \(--tagger=bilstm\) cannot be in bfloat16: Keras"):
        in_bfloat16(tagger, None)


@pytest.mark.slow  # the loops take tf2onnx six seconds
def test_a_tagger_with_lstms_is_one_for_onnx(tmp_path):
    network = IdsNetwork(randomise(FeatureBasedTagger(config(), 5, units=4)), "token_classification")
    assert write_onnx(network, tmp_path / "file") < 1e-5


@pytest.mark.parametrize(
    ("name", "module", "called"), [("onnx", onnx_format, "ONNX"), ("litert", litert_format, "Lite")]
)
def test_a_file_that_gives_something_else_is_none(networks, tmp_path, monkeypatch, name, module, called):
    network = networks["classification"]
    monkeypatch.setattr(
        module, f"open_{name}", lambda file: lambda features: {"logits": network(features)["logits"] + 1}
    )
    monkeypatch.setattr(module, "_convert", lambda *_: b"converted")
    with pytest.raises(ValueError, match=rf"^the {called}.* file of model: logits\[0, 0\] is .*, but .* is expected"):
        FORMATS[name][0](network, tmp_path / "model")
    assert not list(tmp_path.iterdir())


def test_what_is_not_finite_never_agrees(networks):
    network = networks["classification"]
    with pytest.raises(ValueError, match=r"^the file: logits\[0, 0\] is nan, but"):
        check_agreement("the file", lambda features: {"logits": network(features)["logits"].numpy() * np.nan}, network)
    with pytest.raises(ValueError, match=r"^the file: logits\[0, 0\] is nan, but"):
        check_agreement(
            "the file", lambda features: {"logits": network(features)["logits"].numpy() * np.nan}, network, "int8"
        )
    broken = randomise(ClassifierModel(config(), 3))
    weights_by_name(broken)["output_bias"].assign([0.0, np.nan, 0.0])
    with pytest.raises(
        ValueError, match="^the scores of the model are not finite: its weights are broken; take another"
    ):
        check_agreement("the file", None, IdsNetwork(broken, "classification"))


@pytest.mark.parametrize(
    ("name", "package", "extra"),
    [
        ("onnx", "tf2onnx", "onnx"),
        ("onnx", "onnxruntime", "onnx"),
        ("litert", "ai_edge_litert.interpreter", "litert"),
    ],
)
def test_a_missing_package_is_said_before_any_work(networks, tmp_path, monkeypatch, name, package, extra):
    monkeypatch.setitem(sys.modules, package, None)
    message = rf"^{package.partition('.')[0]} is not installed; run pip install 'bert-keras\[{extra}\]'$"
    with pytest.raises(ValueError, match=message):
        FORMATS[name][0](networks["vectors"], tmp_path / "file")


def test_each_format_has_its_own_small_numbers(networks, tmp_path):
    check_quantize(None, ["saved_model", "onnx", "litert"])
    check_quantize("int8", ["onnx", "litert"])
    check_quantize("bfloat16", ["saved_model"])
    message = (
        "^--quantize=int8 is of the format onnx or litert, and --format has saved_model; leave --quantize out for it"
    )
    with pytest.raises(ValueError, match=message):
        check_quantize("int8", ["saved_model", "onnx"])
    message = (
        "^--quantize=bfloat16 is of the format saved_model, and --format has onnx, litert; leave --quantize out for t"
    )
    with pytest.raises(ValueError, match=message):
        check_quantize("bfloat16", ["onnx", "litert"])
    for write, _ in FORMATS.values():
        with pytest.raises(ValueError, match="^--quantize=bfloat16 is of the format saved_model, and"):
            write(networks["vectors"], tmp_path / "file", "bfloat16")


def test_a_copy_in_bfloat16_stores_half_and_gives_nearly_the_same():
    model = randomise(ClassifierModel(config(), 3))
    half = in_bfloat16(model, lambda: ClassifierModel(config(), 3))
    assert keras.config.dtype_policy().name == "float32"
    network, half_network = IdsNetwork(model, "classification"), IdsNetwork(half, "classification")
    assert {weight.dtype for weight in half_network.weights.values()} == {tf.bfloat16}
    assert {weight.dtype for weight in network.weights.values()} == {tf.float32}
    features = random_features(network, 20, 9)
    expected, found = network(features)["logits"].numpy(), half_network(features)["logits"]
    assert found.dtype == tf.float32
    assert 1e-4 < np.abs(found - expected).mean() < 0.03 * np.abs(expected).mean()
