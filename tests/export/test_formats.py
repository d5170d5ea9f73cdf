"""ONNX and LiteRT files equal the network when they run, or the export fails with an error message."""

import logging
import os
import re
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import randomise

from bert_keras.export.checks.agreement import LIMITS, check_agreement, random_features
from bert_keras.export.formats import converters, ids_formats
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.export.formats.packages import check_packages
from bert_keras.export.formats.quantization import check_quantize, in_bfloat16
from bert_keras.modeling import BertConfig, BertModel, ClassifierModel, PretrainingModel, SquadModel
from bert_keras.modeling.tagger import FeatureBasedTagger
from bert_keras.prediction.loading.exported import open_litert, open_onnx

OPENERS = {"onnx": open_onnx, "litert": open_litert}


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
        # The exact gelu, which converters support as Erf but not as Erfc.
        "classification": IdsNetwork(randomise(ClassifierModel(config("gelu_erf"), 3)), "classification"),
        "question_answering": IdsNetwork(randomise(SquadModel(config())), "question_answering"),
        "fill_mask": IdsNetwork(randomise(PretrainingModel(config())), "fill_mask"),
        "vectors": IdsNetwork(randomise(BertModel(config("gelu_erf"))), "vectors"),
    }


@pytest.mark.parametrize("task", ["classification", "question_answering", "fill_mask", "vectors"])
@pytest.mark.parametrize("name", OPENERS)
def test_a_file_gives_what_the_network_gives(networks, tmp_path, converters_in_this_process, name, task):
    network = networks[task]
    assert write_ids(name, network, tmp_path / "file").distance < 1e-5
    run = OPENERS[name](tmp_path / "file")
    assert sorted(run.input_names) == sorted(network.input_names)
    for num_rows, num_tokens in ((1, 1), (5, 13), (1, 20)):
        features = random_features(network, num_rows, num_tokens, seed=3)
        expected, found = network(features), run(features)
        assert set(found) == set(expected)
        for output, value in expected.items():
            assert found[output].dtype == np.float32
            np.testing.assert_allclose(found[output], value, rtol=0, atol=1e-5 * np.abs(value).max())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.mark.parametrize("name", OPENERS)
def test_weights_of_8_bits_are_smaller_and_close(tmp_path, capfd, name):
    network = IdsNetwork(randomise(ClassifierModel(config(vocab_size=12000), 3)), "classification")
    state = logging.root.manager.disable, warnings.filters[:], dict(os.environ)
    agreement = write_ids(name, network, tmp_path / "file", "int8")
    # The converters print a lot, and change settings of their process.
    assert capfd.readouterr().out == ""
    assert (logging.root.manager.disable, warnings.filters[:], dict(os.environ)) == state
    num_bytes = sum(4 * int(np.prod(weight.shape)) for weight in network.weights.values())
    assert (tmp_path / "file").stat().st_size < 0.45 * num_bytes
    assert 0.001 < agreement.distance < LIMITS["int8"] / 3
    assert agreement.largest_difference > 1e-4


class Unknown(tf.Module):
    """A network with an operation that no format supports."""

    signature = {"input_ids": tf.TensorSpec([None, None], tf.int32, "input_ids")}

    def __call__(self, features):
        return {"logits": tf.math.erfc(tf.cast(features["input_ids"], tf.float32))}


@pytest.fixture
def saved_model(tmp_path):
    """Return a function that writes a network as a SavedModel for the converters and returns its path."""

    def save(network):
        function = tf.function(lambda features: network(features)).get_concrete_function(network.signature)
        tf.saved_model.save(network, str(tmp_path / "network"), signatures={"ids": function})
        return str(tmp_path / "network")

    return save


@pytest.mark.parametrize("name", OPENERS)
def test_a_converter_names_the_operations_that_a_format_lacks(saved_model, tmp_path, name):
    with pytest.raises(SystemExit, match="^no operation for Erfc$"):
        converters.convert(name, saved_model(Unknown()), "ids", str(tmp_path / "file"), "")


def test_litert_and_bfloat16_take_no_tagger_with_lstms(saved_model, tmp_path):
    tagger = randomise(FeatureBasedTagger(config(), 5, units=4))
    path = saved_model(IdsNetwork(tagger, "token_classification"))
    with pytest.raises(SystemExit, match="^no operation for TensorListReserve"):
        converters.convert("litert", path, "ids", str(tmp_path / "file"), "")
    with pytest.raises(ValueError, match=r"^a tagger with LSTMs \(--tagger=bilstm\) cannot be in bfloat16: Keras"):
        in_bfloat16(tagger, None)


@pytest.mark.parametrize(
    ("program", "message", "printed"),
    [
        (
            "import sys; print('a hint'); sys.exit('no operation for Erfc')",
            "ONNX has no operation for Erfc, which the network needs; take --format=saved_model",
            [],
        ),
        (
            "import sys; print('a hint'); sys.exit('it is broken')",
            "the conversion to ONNX failed: it is broken; check that memory and disk are sufficient, or take ",
            ["the converter to ONNX printed:\na hint\nit is broken"],
        ),
        (
            "import os; os.kill(os.getpid(), 9)",
            "the conversion to ONNX failed: signal 9 ended its process; check that",
            ["the converter to ONNX printed:\n"],
        ),
    ],
)
def test_a_converter_that_fails(networks, tmp_path, monkeypatch, messages, program, message, printed):
    (tmp_path / "converters.py").write_text(program)
    monkeypatch.setattr(converters, "__file__", str(tmp_path / "converters.py"))
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        write_ids("onnx", networks["vectors"], tmp_path / "file")
    assert messages == printed
    assert [path.name for path in tmp_path.iterdir()] == ["converters.py"]


@pytest.mark.slow  # tf2onnx needs six seconds for the loops
def test_onnx_takes_a_tagger_with_lstms(tmp_path):
    network = IdsNetwork(randomise(FeatureBasedTagger(config(), 5, units=4)), "token_classification")
    assert write_ids("onnx", network, tmp_path / "file").largest_difference < 1e-5


@pytest.mark.parametrize("name", OPENERS)
def test_a_file_that_gives_something_else_is_removed(networks, tmp_path, monkeypatch, name):
    network = networks["classification"]
    monkeypatch.setattr(ids_formats, "_run_converter", lambda called, arguments: None)
    wrong = {name: lambda file: lambda features: {"logits": network(features)["logits"].numpy() + 1}}
    monkeypatch.setattr(ids_formats, "_OPENERS", wrong)
    with pytest.raises(ValueError, match=r"^the \w+ file of model: logits\[0, 0\] is .*, but .* is expected"):
        write_ids(name, network, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formats", "missing", "message"),
    [
        (["onnx"], ["tf2onnx"], "--format=onnx needs tf2onnx, which is not installed: pip install 'bert-keras[onnx]'"),
        (["litert"], ["ai_edge_litert"], "--format=litert needs ai_edge_litert, which is not installed: pip install "),
        (
            ["saved_model", "onnx", "litert"],
            ["tensorflow_text", "onnx", "onnxruntime", "ai_edge_litert"],
            "--format=saved_model,onnx,litert needs tensorflow_text, onnx, onnxruntime, ai_edge_litert, which are not "
            "installed: pip install tensorflow-text 'bert-keras[onnx,litert]'",
        ),
    ],
)
def test_all_missing_packages_are_named_before_any_work(tmp_path, monkeypatch, formats, missing, message):
    check_packages(formats)
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_packages(formats)
    with pytest.raises(ValueError, match=f"^--format={formats[-1]} needs "):
        write_ids(formats[-1], None, tmp_path / "file")


def test_each_format_has_its_own_small_numbers(networks, tmp_path):
    check_quantize(None, ["saved_model", "onnx", "litert"])
    check_quantize("int8", ["onnx", "litert"])
    check_quantize("bfloat16", ["saved_model"])
    message = (
        "^--quantize=int8 works only with onnx or litert, but --format has saved_model; leave --quantize out for it"
    )
    with pytest.raises(ValueError, match=message):
        check_quantize("int8", ["saved_model", "onnx"])
    message = (
        "^--quantize=bfloat16 works only with saved_model, but --format has onnx, litert; leave --quantize out for t"
    )
    with pytest.raises(ValueError, match=message):
        check_quantize("bfloat16", ["onnx", "litert"])
    for name in OPENERS:
        with pytest.raises(ValueError, match="^--quantize=bfloat16 works only with saved_model, but"):
            write_ids(name, networks["vectors"], tmp_path / "file", "bfloat16")


def test_a_copy_in_bfloat16_stores_half_and_gives_nearly_the_same():
    model = randomise(ClassifierModel(config(), 3))
    half = in_bfloat16(model, lambda: ClassifierModel(config(), 3))
    assert keras.config.dtype_policy().name == "float32"
    network, half_network = IdsNetwork(model, "classification"), IdsNetwork(half, "classification")
    assert {weight.dtype for weight in half_network.weights.values()} == {tf.bfloat16}
    assert {weight.dtype for weight in network.weights.values()} == {tf.float32}
    scores = half_network(random_features(network, 20, 9))["logits"]
    assert scores.dtype == tf.float32
    run = lambda features: {"logits": half_network(features)["logits"].numpy()}  # noqa: E731
    agreement = check_agreement("the copy", run, network, "bfloat16")
    assert 0.001 < agreement.distance < LIMITS["bfloat16"] / 3
