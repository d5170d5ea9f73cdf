"""Exports take the same calls as their models, and give the same answers."""

import json
import pathlib
import shutil
import sys

import pytest
import tensorflow as tf
from fine_tuned_models import write_fine_tuned
from known_models import answers_in, random_model, write_model
from rounding import assert_close, flat
from tiny_exports import (
    FINE_TUNED,
    FORMATS,
    assert_threads_may_share,
    open_pretrained,
    write_export,
    write_network,
)

from bert_keras.commands import predict
from bert_keras.export.choices import PLACES
from bert_keras.model_folder.exported import open_exported
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.prediction import (
    FeatureExtractor,
    FillMask,
    NextSentence,
    SentenceScorer,
    TextClassifier,
    Vectorizer,
    loaded_model,
    open_model,
)
from bert_keras.tasks.graph.networks import IdsNetwork

STRATEGY = tf.distribute.OneDeviceStrategy("/cpu:0")

pytestmark = pytest.mark.usefixtures("no_graphs")

LONG = "He was hungry , so she ate the capital of France . " * 4
QUESTIONS = {
    "classification": [(LONG, "so"), ("he was hungry", ""), ("Paris", LONG)],
    "multiple_choice": [("he was hungry", ["so he ate", "she was the capital", "a"]), ("Paris", ["is", "was"])],
    "rerank": [("he was hungry", ["so he ate", "she was the capital"]), ("Paris", ["is"])],
    "question_answering": [("who ate ?", LONG), ("what is Paris", "Paris is the capital of France.")],
    "token_classification": [LONG, "Paris is the capital of France."],
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs and exports of all tasks. Only "classification" has files of a network, in every format.

    For the others, the network is the one that would be converted, which saves the conversion.
    """
    folder, networks = tmp_path_factory.mktemp("exports"), {}
    for task in QUESTIONS:
        make, settings = FINE_TUNED[task]
        model = make()
        run = write_fine_tuned(folder / "runs" / task, model, task, **settings)
        networks[write_export(folder / task, run / "model")] = IdsNetwork(model, task)
    write_network(networks.pop(folder / "classification"), folder / "classification")
    model = random_model(seed=3, num_hidden_layers=1)
    pretrained = write_model(folder / "pretrained", model)
    masks = write_export(folder / "fill_mask", pretrained, task="fill_mask", max_seq_length=20, top_k=3)
    networks[masks] = IdsNetwork(model, "fill_mask")
    vectors = {"task": "vectors", "max_seq_length": 20, "pooling": "mean", "layer": 0}
    model.bert.return_all_encoder_layers = True
    networks[write_export(folder / "vectors", pretrained, **vectors)] = IdsNetwork(model.bert, "vectors", 0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            loaded_model,
            "open_exported",
            lambda path, *choices: networks.get(pathlib.Path(path)) or open_exported(path, *choices),
        )
        yield folder


@pytest.fixture
def export(folder, tmp_path):
    """A copy of the export with all formats."""
    return shutil.copytree(folder / "classification", tmp_path / "export")


@pytest.mark.parametrize(("format", "other"), [("onnx", "litert"), ("litert", "onnx")])
def test_a_file_of_an_export_opens_its_format(export, format, other):
    (export / PLACES[other]).unlink()
    file, texts = export / PLACES[format], QUESTIONS["classification"]
    for model in (open_model(file), open_model(str(file), format=format), TextClassifier(file)):
        assert model.folder == str(export)
        assert flat(model(texts)) == flat(open_model(export, format=format)(texts))
    with pytest.raises(ValueError, match=rf"{PLACES[format]} is the format {format}; leave out format$"):
        open_model(file, format="saved_model")


@pytest.mark.parametrize("task", QUESTIONS)
def test_an_export_answers_like_its_run(folder, task):
    exported, live = open_model(folder / task), open_model(folder / "runs" / task)
    assert type(exported) is type(live)
    expected = live(QUESTIONS[task])
    assert flat(expected) == flat(exported(QUESTIONS[task]))
    assert flat(expected) != flat(exported(QUESTIONS[task][::-1]))


@pytest.mark.parametrize("name", ["onnx", "litert", "web"])
def test_every_format_gives_the_same_answers(folder, export, name):
    (export / "export.json").write_text(json.dumps({"formats": {name: {"path": PLACES[name]}}}))
    questions = QUESTIONS["classification"]
    expected = open_model(folder / "classification")(questions)
    exported = open_model(export, batch_size=2)
    assert flat(exported(questions)) == flat(expected)
    live = open_model(folder / "runs" / "classification")
    assert flat(exported(questions[1], why=True)) == flat(live(questions[1], why=True))
    with pytest.raises(ValueError, match='^why is "gradients", which an export does not have; give true, or take the'):
        exported.pipe([], why="gradients")


def test_the_format_of_an_export_can_be_chosen(folder, export):
    expected = open_model(folder / "classification")(QUESTIONS["classification"])
    (export / "1" / "saved_model.pb").write_bytes(b"broken")
    assert flat(open_model(export, format="onnx", device="cpu")(QUESTIONS["classification"])) == flat(expected)
    with pytest.raises(
        ValueError, match='^format is "tf", but must be one of saved_model, onnx, openvino, litert, web$'
    ):
        open_model(export, format="tf")
    with pytest.raises(ValueError, match="^.*runs is not an export, so it has no formats; leave out format$"):
        FillMask(folder / "runs", format="onnx")
    with pytest.raises(
        ValueError, match=f"^{export} runs on the CPU as litert, but device is a GPU; leave out the dev"
    ):
        open_exported(export, "litert", "/GPU:0")
    (export / "export.json").write_text(
        json.dumps({"formats": {name: {"path": PLACES[name]} for name in FORMATS if name != "onnx"}})
    )
    message = (
        f"^{export} has the network as saved_model, litert, web, and onnx is needed; choose one that it has, or export"
    )
    with pytest.raises(FileNotFoundError, match=message):
        open_model(export, format="onnx")


@pytest.mark.parametrize("name", FORMATS)
def test_threads_may_share_a_network(folder, name):
    model = open_model(folder / "runs" / "classification").model
    assert_threads_may_share(open_exported(folder / "classification", name), model)


def test_the_saved_model_comes_first(export):
    # Breaks the formats one by one; a broken format does not matter while a preferred one exists.
    for name, called in (("litert", "LiteRT"), ("onnx", "ONNX Runtime")):
        path = export / PLACES[name]
        path.write_bytes(b"broken")
        open_exported(export)
        with pytest.raises(ValueError, match=f"^{called} cannot load {path}: .*; export the model again$"):
            open_exported(export, name)
    (export / "1" / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(ValueError, match=f"^{export / '1'} is not a valid SavedModel of an export: .*; export the mo"):
        open_exported(export)
    shutil.rmtree(export / "1")
    message = f"^{export / '1'} does not exist, but {export / 'export.json'} names it; take the whole export$"
    with pytest.raises(FileNotFoundError, match=message):
        open_exported(export)


@pytest.mark.parametrize(
    ("name", "module", "message"),
    [
        ("onnx", "onnxruntime", r"^onnxruntime is not installed; run pip install 'bert-keras\[onnx\]'$"),
        (
            "litert",
            "ai_edge_litert.interpreter",
            r"^ai_edge_litert is not installed; run pip install 'bert-keras\[litert\]'$",
        ),
        ("saved_model", "tensorflow_text", "holds a tokenizer, and tensorflow-text is not installed; run pip install"),
    ],
)
def test_a_missing_package_is_named(folder, monkeypatch, name, module, message):
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=message):
        open_exported(folder / "classification", name)


def test_an_export_of_a_pretrained_model_fills_masks_and_scores(folder):
    texts = ["Paris is the [MASK] of [MASK].", "he [MASK]"]
    expected = FillMask(folder / "pretrained", top_k=3)(texts)
    exported = open_model(folder / "fill_mask")
    assert type(exported) is FillMask
    assert flat(exported(texts)) == flat(expected)
    # The whole network is available: more guesses, and windows of 20 tokens for long texts.
    other = open_model(folder / "fill_mask", top_k=7, long="window")
    assert [len(guesses) for guesses in other(texts)[0].masks] == [7, 7]
    assert len(other("the [MASK] " * 15).masks) == 15
    with pytest.raises(ValueError, match="^text 1 has 30 tokens, 12 more than the 18 that the model takes"):
        exported("the [MASK] " * 15)
    scores = [SentenceScorer(folder / name)("Paris is the capital") for name in ("pretrained", "fill_mask")]
    assert flat(scores[0]) == flat(scores[1])


@pytest.mark.parametrize("task", ["next_sentence", "replaced_tokens"])
def test_an_export_of_a_head_of_pre_training_answers_like_its_checkpoint(tmp_path, monkeypatch, task):
    live, settings = open_pretrained(tmp_path / "run", task)
    network = IdsNetwork(live.model, task)
    monkeypatch.setattr(loaded_model, "open_exported", lambda *_: network)
    exported = open_model(write_export(tmp_path / "export", live.folder, **settings))
    assert type(exported) is type(live)
    texts = ["he was hungry", "the [MASK] of France", "so"]
    questions = list(zip(texts, texts[::-1], strict=True)) if task == "next_sentence" else texts
    assert flat(exported(questions)) == flat(live(questions))


def test_an_export_of_a_pretrained_model_gives_vectors(folder, messages):
    texts = ["Paris is the capital of France.", "he"]
    expected = FeatureExtractor(folder / "pretrained", layers=[0], pooling="mean", max_seq_length=20)(texts)
    vectorize = open_model(folder / "vectors")
    assert type(vectorize) is Vectorizer
    answers = vectorize(texts)
    assert [answer.text for answer in answers] == texts
    for answer, features in zip(answers, expected, strict=True):
        assert_close(answer.vector, features.values[0])
    found = FeatureExtractor(folder / "vectors", max_seq_length=20)("he was")
    whole = FeatureExtractor(folder / "pretrained", layers=[0], max_seq_length=20)("he was")
    assert found.tokens == whole.tokens == ["[CLS]", "he", "was", "[SEP]"]
    assert_close(found.values, whole.values)
    assert len(vectorize("walk " * 30).vector) == 16
    assert messages[-1] == "texts longer than 20 tokens lost their ends: 1 of 1"
    with pytest.raises(ValueError, match="^row 1 has no word in its text; give a text$"):
        vectorize(["a", " "])


@pytest.mark.parametrize(
    ("class_", "name", "options", "message"),
    [
        (
            FeatureExtractor,
            "vectors",
            {"layers": [-1, 0]},
            "^layers is -1, 0, but .* has only the layer 0; choose that",
        ),
        (
            FeatureExtractor,
            "vectors",
            {"max_seq_length": 21},
            "^max_seq_length is 21, but must be from 3 to the 20 tok",
        ),
        (FeatureExtractor, "vectors", {"strategy": STRATEGY}, "is an export, which runs on one device; leave out str"),
        (FillMask, "fill_mask", {"do_lower_case": False}, "which sets how to prepare text; leave out do_lower_case$"),
        (
            FillMask,
            "vectors",
            {},
            "is a model for vectors, and FillMask is for fill_mask; open it with open_model, or predict.py",
        ),
        (
            NextSentence,
            "fill_mask",
            {},
            "is a model for fill_mask, and NextSentence is for next_sentence; open it",
        ),
        (FeatureExtractor, "fill_mask", {}, "is a model for fill_mask, and FeatureExtractor is for vectors; open it"),
        (Vectorizer, "fill_mask", {}, "is a model for fill_mask, and Vectorizer is for vectors; open it with"),
    ],
)
def test_an_export_only_does_its_own_task(folder, class_, name, options, message):
    if class_ is FeatureExtractor:
        options = {"max_seq_length": 20} | options
    with pytest.raises(ValueError, match=message):
        class_(folder / name, **options)


def test_parts_of_an_export_are_refused(export):
    with pytest.raises(ValueError, match=f"^{export} is an export, which has no checkpoint; give the run or the model"):
        ModelFolder(export).check()
    settings = json.loads((export / "task.json").read_text())
    (export / "task.json").write_text(json.dumps(settings | {"labels": ["no", "yes"]}))
    message = f"^{export} has a head of 3 classes, but .*task.json belongs to a model with 2; th"
    with pytest.raises(ValueError, match=message):
        open_model(export)
    (export / "vocab.txt").unlink()
    message = f"^{export} has no vocab.txt; take the whole folder of the exp"
    with pytest.raises(FileNotFoundError, match=message):
        open_model(export)


@pytest.mark.parametrize(("name", "missing"), [("fill_mask", "top_k"), ("vectors", "pooling")])
def test_tasks_of_pretrained_models_need_their_settings(folder, tmp_path, name, missing):
    path = shutil.copytree(folder / name, tmp_path / name)
    settings = json.loads((path / "task.json").read_text())
    settings.pop(missing)
    (path / "task.json").write_text(json.dumps(settings))
    with pytest.raises(ValueError, match=f"task.json has no {missing}, which the task {name} needs; take the file"):
        open_model(path)


def test_predict_takes_exports(folder, capsys):
    argv = ["predict.py", f"--model_dir={folder / 'fill_mask'}", "he [MASK]", "--top_k=2"]
    predict.main([*argv, "--json", "--long=truncate"])
    [answer] = answers_in(capsys.readouterr().out)
    assert len(answer["masks"][0]) == 2
    with pytest.raises(ValueError, match="^--vocab_file: a fine-tuned model or an export sets this; leave it out$"):
        predict.main([*argv, "--vocab_file=a"])
