"""Networks, and ONNX and LiteRT files that equal the network when they run, or fail with an error message."""

import collections
import importlib
import logging
import os
import re
import sys
import warnings

import keras
import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import random_classifier, randomise, small_config
from rounding import assert_close
from tiny_exports import NETWORKS, assert_alone_as_in_company, assert_gives_outputs

from bert_keras.export.checks.agreement import LIMITS, judge, questions, random_features
from bert_keras.export.choices import check_formats, check_packages, quantization_of
from bert_keras.export.formats import converters, ids_formats
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.model_folder.exported import OPENERS
from bert_keras.modeling import BertModel
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.tasks.graph.networks import IdsNetwork, copy_in


@pytest.fixture(scope="module")
def networks():
    return {task: IdsNetwork(make(), task) for task, make in NETWORKS.items()}


@pytest.mark.slow
def test_vectors_of_a_layer():
    bert = randomise(BertModel(small_config(), return_all_encoder_layers=True))
    features = random_features(IdsNetwork(bert, "vectors"), 3, 12)
    expected = bert(*features.values())
    layers = {-1: expected["sequence_output"], "embeddings": expected["embedding_output"]}
    for layer, values in layers.items():
        scores = IdsNetwork(bert, "vectors", layer)(features)
        assert_close(scores["sequence_output"], values)
        assert_close(scores["pooled_output"], expected["pooled_output"])
    network = IdsNetwork(bert, "vectors", 0, has_pooler=False)
    scores = network(features)
    assert_close(scores["sequence_output"], expected["all_encoder_layers"][0])
    assert set(scores) == set(network.output_names) == {"sequence_output"}


@pytest.mark.parametrize(
    ("name", "task"),
    [
        ("onnx", "vectors"),
        ("litert", "fill_mask"),
        pytest.param("onnx", "classification", marks=pytest.mark.slow),
        pytest.param("litert", "classification", marks=pytest.mark.slow),
    ],
)
def test_a_file_gives_the_outputs_of_the_network(networks, tmp_path, in_this_process, name, task):
    network = networks[task]
    assert write_ids(name, network, tmp_path / "file")["distance"] < 1e-5
    if name == "onnx":
        check_axes(tmp_path / "file", task)
        # One layer, whose two normalisations and gelu are an operation each.
        counts = operations_of_runtime(tmp_path / "file")
        assert counts["LayerNormalization"] >= 2
        assert counts["Gelu"] + counts["FastGelu"] == 1
    assert_gives_outputs(OPENERS[name](tmp_path / "file"), network, 1, 1)
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


def check_axes(file, task):
    session = importlib.import_module("onnxruntime").InferenceSession(file, providers=["CPUExecutionProvider"])
    shapes = {each.name: each.shape for each in (*session.get_inputs(), *session.get_outputs())}
    second = {"masked_lm_positions": "predictions", "logits": "predictions" if task == "fill_mask" else 3}
    for name, (axis, *others) in shapes.items():
        assert axis == "batch"
        assert others[0] == (second.get(name, others[0] if name == "pooled_output" else "length")), name
        assert all(isinstance(size, int) for size in others[1:]), name


def operations_of_runtime(file):
    """Returns how often ONNX Runtime has each operation when it runs a file; it writes them into another file."""
    runtime, onnx = map(importlib.import_module, ("onnxruntime", "onnx"))
    options = runtime.SessionOptions()
    options.optimized_model_filepath = f"{file}.optimized"
    runtime.InferenceSession(file, options, providers=["CPUExecutionProvider"])
    nodes = onnx.load(options.optimized_model_filepath).graph.node
    os.remove(options.optimized_model_filepath)
    return collections.Counter(node.op_type for node in nodes)


@pytest.mark.slow  # starts processes with TensorFlow
@pytest.mark.parametrize("name", ["onnx", "litert"])
def test_weights_of_8_bits_are_smaller_and_close_and_a_converter_changes_nothing_here(tmp_path, capfd, name):
    state = logging.root.manager.disable, warnings.filters[:], dict(os.environ)
    model = random_classifier(3, num_hidden_layers=1, vocab_size=12000)
    network = IdsNetwork(model, "classification")
    agreement = write_ids(name, network, tmp_path / "file", "int8")
    num_bytes = sum(4 * int(np.prod(weight.shape)) for weight in network.weights.values())
    assert (tmp_path / "file").stat().st_size < 0.45 * num_bytes
    assert 0.001 < agreement["distance"] < LIMITS["int8"] / 3
    assert agreement["largest_difference"] > 1e-4
    assert capfd.readouterr().out == ""
    assert (logging.root.manager.disable, warnings.filters[:], dict(os.environ)) == state


def network_in(name, precision, folder):
    """Returns a network of one format and precision as a function of arrays; its weights are always the same."""
    with dtype_policy(precision if name == "keras" else "float32"):
        model = random_classifier(3, num_hidden_layers=1)
    if name == "keras":
        return model
    network = IdsNetwork(copy_in("bfloat16", model) if precision == "bfloat16" else model, "classification")
    if name == "saved_model":
        function = tf.function(lambda features: network(features)).get_concrete_function(network.signature)
        tf.saved_model.save(network, str(folder / "file"), {"ids": function})
    else:
        write_ids(name, network, folder / "file", precision if precision == "int8" else None)
    return OPENERS[name](folder / "file")


@pytest.mark.parametrize(
    ("name", "precision", "rounding"),
    [
        ("keras", "float32", 1e-5),
        ("keras", "mixed_float16", 2e-3),
        ("keras", "mixed_bfloat16", 2e-2),
        pytest.param("saved_model", "bfloat16", 2e-2, marks=pytest.mark.slow),
        # The folder for browsers has the same file.
        pytest.param("onnx", "int8", 1e-5, marks=pytest.mark.slow),
        pytest.param("litert", "int8", 1e-5, marks=pytest.mark.slow),
    ],
)
def test_a_text_alone_has_the_scores_that_it_has_in_company(tmp_path, in_this_process, name, precision, rounding):
    assert_alone_as_in_company(network_in(name, precision, tmp_path), rounding)


class Unknown(tf.Module):
    """A network with an operation that no format supports."""

    signature = {"input_ids": tf.TensorSpec([None, None], tf.int32, "input_ids")}

    def __call__(self, features):
        return {"logits": tf.math.erfc(tf.cast(features["input_ids"], tf.float32))}


def convert(name, network, folder):
    function = tf.function(lambda features: network(features)).get_concrete_function(network.signature)
    tf.saved_model.save(network, str(folder / "network"), signatures={"ids": function})
    converters.convert(name, str(folder / "network"), "ids", str(folder / "file"), "")


@pytest.mark.parametrize("name", ["onnx", "litert"])
def test_a_converter_names_the_operations_that_a_format_lacks(tmp_path, name):
    with pytest.raises(SystemExit, match="^no operation for Erfc$"):
        convert(name, Unknown(), tmp_path)


@pytest.mark.parametrize(
    ("program", "message", "printed"),
    [
        (
            "import sys; print('a hint'); sys.exit('no operation for Erfc')",
            "ONNX has no operation for Erfc, which the network needs; take format=saved_model",
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


def test_a_file_that_gives_other_outputs_is_removed(networks, tmp_path, monkeypatch):
    network = networks["vectors"]
    monkeypatch.setattr(ids_formats, "_run_converter", lambda *arguments: None)
    wrong = lambda features: {name: value.numpy() + 1 for name, value in network(features).items()}  # noqa: E731
    monkeypatch.setitem(OPENERS, "onnx", lambda file: wrong)
    with pytest.raises(ValueError, match=r"^the ONNX file of model: sequence_output\[0, 0, 0\] is .*, but .* is expe"):
        write_ids("onnx", network, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("formats", "missing", "message"),
    [
        (["onnx"], ["tf2onnx"], "format=onnx needs tf2onnx, which is not installed: pip install 'bert-keras[onnx]'"),
        (["litert"], ["ai_edge_litert"], "format=litert needs ai_edge_litert, which is not installed: pip install "),
        (
            ["openvino"],
            ["openvino", "nncf"],
            "format=openvino needs openvino, nncf, which are not installed: pip install 'bert-keras[openvino]'",
        ),
        (
            ["saved_model", "onnx", "litert"],
            ["tensorflow_text", "onnx", "onnxruntime", "ai_edge_litert"],
            "format=saved_model,onnx,litert needs tensorflow_text, onnx, onnxruntime, ai_edge_litert, which are not "
            "installed: pip install tensorflow-text 'bert-keras[onnx,litert]'",
        ),
    ],
)
def test_all_missing_packages_are_named(monkeypatch, formats, missing, message):
    if "openvino" not in formats:  # only its own tests have the package
        check_packages(formats)
    for module in missing:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=f"^{re.escape(message)}"):
        check_packages(formats)


@pytest.mark.parametrize(
    ("formats", "quantize", "message"),
    [
        (
            "onnx,tflite",
            None,
            'format has "tflite", but its formats are saved_model, onnx, openvino, litert, web, separated',
        ),
        (
            "onnx,onnx",
            None,
            "format=onnx,onnx: give one or more of saved_model, onnx, openvino, litert, web, each once",
        ),
        (
            "saved_model,onnx",
            "int8",
            "quantize=int8 works only with onnx, openvino, litert or web, but format has saved_model; leave quantize",
        ),
        (
            "onnx,litert",
            "bfloat16",
            "quantize=bfloat16 works only with saved_model, but format has onnx, litert; leave quantize out",
        ),
    ],
)
def test_formats_that_do_not_go_together(formats, quantize, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        check_formats(formats.split(","), quantize)


def test_the_numbers_of_each_format():
    check_formats(["saved_model", "onnx", "litert", "web"], "float32")
    assert [quantization_of("web", given) for given in (None, "int8", "float32")] == ["int8", "int8", None]
    assert [quantization_of("onnx", given) for given in (None, "int8", "float32")] == [None, "int8", None]
    assert quantization_of("saved_model", "bfloat16") == "bfloat16"


def test_a_copy_in_bfloat16_stores_half_and_gives_nearly_the_same():
    model = random_classifier(3, num_hidden_layers=1)
    half = copy_in("bfloat16", model)
    assert keras.config.dtype_policy().name == "float32"
    network, half_network = IdsNetwork(model, "classification"), IdsNetwork(half, "classification")
    # The bias of the head may be as large as the labels of a regression.
    types = {weight.dtype for name, weight in half_network.weights.items() if not name.endswith("output_bias")}
    assert types == {tf.bfloat16}
    assert {weight.dtype for weight in network.weights.values()} == {tf.float32}
    answers = [{"logits": half_network(features)["logits"].numpy()} for features in questions(network)]
    assert answers[0]["logits"].dtype == np.float32
    assert 0.001 < judge("the copy", answers, network, "bfloat16")["distance"] < LIMITS["bfloat16"] / 3
