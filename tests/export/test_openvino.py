"""Exports to OpenVINO: the outputs of the network, in float32 and in 8 bits with scales from texts."""

import ast
import importlib.util
import json
import pathlib
import shutil

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from rounding import flat
from tiny_exports import (
    NETWORKS,
    assert_alone_as_in_company,
    assert_gives_outputs,
    assert_threads_may_share,
    converters_in_this_process,
    run_card,
)

from bert_keras import export_model, open_model
from bert_keras.data_prep import sample
from bert_keras.export import api, export_folder
from bert_keras.export.checks.agreement import random_features
from bert_keras.export.formats.ids_formats import write_ids
from bert_keras.export.quantization_cost import num_bytes
from bert_keras.model_folder.exported import open_exported, open_openvino, rounded_rows
from bert_keras.prediction import TextClassifier
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.groups import values_of
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.finetuning.model_dir import note_model
from bert_keras.tasks.graph.networks import IdsNetwork

for package in ("openvino", "nncf", "tf2onnx"):
    pytest.importorskip(package, reason="needs the extra [openvino]")

pytestmark = pytest.mark.usefixtures("in_this_process")


@pytest.mark.parametrize(
    "task", ["vectors", *(pytest.param(task, marks=pytest.mark.slow) for task in ("fill_mask", "classification"))]
)
def test_a_file_gives_the_outputs_of_the_network(tmp_path, task):
    network, file = IdsNetwork(NETWORKS[task](), task), tmp_path / "model.xml"
    assert write_ids("openvino", network, file)["distance"] < 1e-5
    assert {path.name for path in tmp_path.iterdir()} == {"model.xml", "model.bin"}
    # OpenVINO has one operation for a normalisation: one of the embeddings, two of the layer, one of the head.
    compiled = importlib.import_module("openvino").Core().compile_model(file, "CPU")
    kinds = [each.get_rt_info()["layerType"].astype(str) for each in compiled.get_runtime_model().get_ops()]
    assert kinds.count("MVN") == (4 if task == "fill_mask" else 3)
    run = open_openvino(file)
    for shape in ((1, 1), (3, 5), (9, 2)):  # 9 rows are computed as 10
        assert_gives_outputs(run, network, *shape)


def test_batches_have_few_numbers_of_rows():
    found = [rounded_rows(number) for number in range(1, 65)]
    assert sorted({*found}) == [*range(1, 9), 10, 12, 14, 16, 20, 24, 28, 32, 40, 48, 56, 64]
    assert all(number <= rounded <= 1.25 * number for number, rounded in enumerate(found, 1))


def texts_of(network):
    """Returns inputs to find the scales of int8 on."""
    return [random_features(network, 1, length, seed=length) for length in range(4, 20)]


@pytest.mark.parametrize("quantize", [None, "int8"])
def test_a_text_alone_has_the_scores_that_it_has_in_company(tmp_path, quantize):
    network = IdsNetwork(random_classifier(3, num_hidden_layers=1), "classification")
    texts = texts_of(network) if quantize else ()
    write_ids("openvino", network, tmp_path / "model.xml", quantize, calibration=texts)
    size = sum(4 * int(np.prod(weight.shape)) for weight in network.weights.values())
    assert (tmp_path / "model.bin").stat().st_size < size or not quantize
    assert_alone_as_in_company(open_openvino(tmp_path / "model.xml"), 1e-5)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A tiny run of classification with training data, and its export."""
    folder = tmp_path_factory.mktemp("exports")
    model, settings = random_classifier(2, num_hidden_layers=1), OF_TEXTS | {"program": "run_classifier"}
    run = write_fine_tuned(folder / "run", model, "classification", labels=["no", "yes"], **settings)
    for name, texts in (("train", ["paris is the capital", "he ate so"]), ("eval", ["he was hungry"])):
        rows = [f"{text},{label}\n" for text in texts for label in ("yes", "no")]
        (folder / f"{name}.csv").write_text("".join(["text,label\n", *rows * 3]))
    files = {f"{name}_file": str(folder / f"{name}.csv") for name in ("train", "eval")}
    config = {"program": "run_classifier", "settings": values_of(ClassifierSettings(**files)), "facts": {}}
    (run / "run_config.json").write_text(json.dumps(config))
    note_model(RunDir(str(run), "run_classifier"))
    with converters_in_this_process():
        export_model(run, export_dir=folder / "float32", format=["openvino"])
    return folder


def test_the_scales_come_from_the_texts_of_the_training(folder, tmp_path, monkeypatch):
    def interrupt(source, *arguments):
        assert len(source.calibration["input_ids"]) == 4 * 3
        assert len(source.task.eval_features["input_ids"]) == 2 * 3
        raise KeyboardInterrupt

    monkeypatch.setattr(api, "write_export", interrupt)
    with pytest.raises(KeyboardInterrupt):
        export_model(folder / "run", export_dir=tmp_path / "out", format=["openvino"], quantize="int8")


def test_an_export_answers_as_its_run(folder):
    texts, expected = ["Paris is the capital of France.", "he"], open_model(folder / "run")
    assert 9 in expected.network.lengths
    for exported in (open_model(folder / "float32"), TextClassifier(folder / "float32" / "model.xml")):
        assert flat(exported(texts)) == flat(expected(texts))
        assert exported.network.lengths[:10] == [*range(1, 9), 10, 12]
    [printed] = run_card(folder / "float32")
    [probabilities] = [answer.probabilities for answer in expected(["Paris is the capital of France."])]
    assert flat(ast.literal_eval(printed)) == flat(probabilities)


def test_threads_may_share_a_network(folder):
    network = open_exported(folder / "float32")
    assert_threads_may_share(network, network)


@pytest.mark.parametrize("change", ["broken", "without weights"])
def test_a_damaged_export_is_refused(folder, tmp_path, change):
    export = shutil.copytree(folder / "float32", tmp_path / "export")
    if change == "broken":
        (export / "model.xml").write_bytes(b"broken")
    else:
        (export / "model.bin").unlink()
    with pytest.raises(ValueError, match=f"^OpenVINO cannot load {export / 'model.xml'}: .*; export the model again$"):
        open_exported(export)


@pytest.mark.slow  # converts a real model
def test_vectors_of_a_real_model_keep_their_direction_in_8_bits(minilm, tmp_path, monkeypatch):
    monkeypatch.setattr(export_folder, "cost_of", lambda *arguments: "")  # converts again
    written = export_model(minilm, export_dir=tmp_path / "export", format=["openvino"], quantize="int8")
    size = num_bytes(tmp_path / "export" / "model.xml")
    assert written["formats"]["openvino"]["bytes"] == size < 0.3 * (minilm / "model.safetensors").stat().st_size
    assert {"openvino", "nncf", "tf2onnx"} < set(written["versions"])
    lines = pathlib.Path(sample.__file__).with_name("held_out.txt").read_text().splitlines()
    texts = [line for line in lines if line][:40]
    exported = open_model(tmp_path / "export")
    expected, found = (
        vectors_of(answers) for answers in (open_model(minilm, precision="float32")(texts), exported(texts))
    )
    lengths = np.linalg.norm(expected, axis=1) * np.linalg.norm(found, axis=1)
    assert (np.sum(expected * found, axis=1) / lengths).min() > 0.99
    alone = vectors_of([exported(text) for text in texts])
    np.testing.assert_allclose(alone, found, rtol=0, atol=1e-5 * np.abs(found).max())


def vectors_of(answers):
    return np.array([answer.vector for answer in answers])
