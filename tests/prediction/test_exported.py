"""Exports take the same calls as their models, and give the same answers."""

import json
import shutil
import sys

import numpy as np
import pytest
from fine_tuned_models import (
    OF_ANSWERS,
    OF_TAGS,
    OF_TEXTS,
    TAGS,
    random_answerer,
    random_classifier,
    randomise,
    small_config,
    write_fine_tuned,
)
from known_models import random_model, write_model
from tiny_exports import PLACES, write_export

import predict
from bert_keras.modeling import TokenClassifierModel
from bert_keras.prediction import (
    ChoicePicker,
    EntityTagger,
    FeatureExtractor,
    FillMask,
    NextSentence,
    QuestionAnswerer,
    SentenceScorer,
    TextClassifier,
    Vectorizer,
    open_model,
)
from bert_keras.prediction.loading.exported import open_exported
from bert_keras.prediction.loading.model_files import open_model_files

LABELS = {"labels": ["no", "yes", "maybe"]}
MODELS = {
    "classification": (lambda: random_classifier(3, seed=5), OF_TEXTS | LABELS | {"doc_stride": 6}),
    "multiple_choice": (lambda: random_classifier(1), {"max_seq_length": 16}),
    "question_answering": (random_answerer, OF_ANSWERS | {"version_2_with_negative": True}),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(), len(TAGS))),
        OF_TAGS | {"labels": TAGS},
    ),
}
LONG = "He was hungry , so she ate the capital of France . " * 4
QUESTIONS = {
    "classification": [LONG, "he was hungry", "Paris"],
    "multiple_choice": [("he was hungry", ["so he ate", "she was the capital", "a"]), ("Paris", ["is", "was"])],
    "question_answering": [("who ate ?", LONG), ("what is Paris", "Paris is the capital of France.")],
    "token_classification": [LONG, "Paris is the capital of France."],
}
CLASSES = {
    "classification": TextClassifier,
    "multiple_choice": ChoicePicker,
    "question_answering": QuestionAnswerer,
    "token_classification": EntityTagger,
}


def flat(answer):
    """Returns an answer as texts and numbers; the numbers compare to within rounding."""
    if isinstance(answer, dict):
        return [part for key, value in answer.items() for part in [key, *flat(value)]]
    if isinstance(answer, list | tuple):
        return [part for value in answer for part in flat(value)]
    if hasattr(answer, "__dataclass_fields__"):
        return flat(vars(answer))
    return [pytest.approx(answer, rel=1e-4, abs=1e-4) if isinstance(answer, float) else answer]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Runs and exports of all tasks, and exports of a pre-trained model; one export has every format."""
    folder = tmp_path_factory.mktemp("exports")
    for task, (make, settings) in MODELS.items():
        model = make()
        run = write_fine_tuned(folder / "runs" / task, model, task, **settings)
        formats = tuple(PLACES) if task == "classification" else ("litert",)
        write_export(folder / task, run / "model", model, formats)
    model = random_model(seed=3)
    pretrained = write_model(folder / "pretrained", model)
    write_export(folder / "fill_mask", pretrained, model, task="fill_mask", max_seq_length=20, top_k=3)
    vectors = {"max_seq_length": 20, "pooling": "mean", "layer": 0}
    write_export(folder / "vectors", pretrained, model.bert, task="vectors", **vectors)
    return folder


@pytest.mark.parametrize("task", MODELS)
def test_an_export_answers_like_its_run_through_windows_and_all(folder, task):
    exported = open_model(folder / task)
    assert type(exported) is CLASSES[task]
    expected = open_model(folder / "runs" / task)(QUESTIONS[task])
    assert flat(expected) == flat(exported(QUESTIONS[task]))
    assert flat(expected) != flat(exported(QUESTIONS[task][::-1]))


@pytest.mark.parametrize("name", PLACES)
def test_every_format_gives_the_same_answers(folder, tmp_path, name):
    export = shutil.copytree(folder / "classification", tmp_path / "export")
    (export / "export.json").write_text(json.dumps({"formats": {name: {"path": PLACES[name]}}}))
    for other in set(PLACES) - {name}:
        shutil.rmtree(export / PLACES[other]) if other == "saved_model" else (export / PLACES[other]).unlink()
    expected = open_model(folder / "runs" / "classification", batch_size=2)(QUESTIONS["classification"])
    assert flat(open_model(export, batch_size=2)(QUESTIONS["classification"])) == flat(expected)


def test_the_network_may_be_asked_as_it_is(folder):
    ids = np.array([[2, 9, 10, 3], [2, 3, 0, 0]], np.int32)
    features = {"input_ids": ids, "input_mask": (ids > 0).astype(np.int32), "segment_ids": np.zeros_like(ids)}
    model = open_model(folder / "runs" / "classification").model
    for name in (None, *PLACES):
        logits = open_exported(folder / "classification", name)(features)["logits"]
        np.testing.assert_allclose(logits, model(features)["logits"], atol=1e-5)


def test_the_saved_model_comes_first(folder, tmp_path):
    export = shutil.copytree(folder / "classification", tmp_path / "export")
    # Breaks the formats one by one; a broken format does not matter while a preferred one exists.
    for name in ("litert", "onnx", "saved_model"):
        open_exported(export)
        path = export / PLACES[name]
        shutil.rmtree(path) if name == "saved_model" else path.write_bytes(b"broken")
    with pytest.raises(
        FileNotFoundError, match=f"^{export / '1'} does not exist, but {export / 'export.json'} names it; "
    ):
        open_exported(export)


def test_what_cannot_be_loaded_is_one_sentence(folder, tmp_path):
    export = shutil.copytree(folder / "classification", tmp_path / "export")
    for name, called in (("litert", "LiteRT cannot load"), ("onnx", "ONNX Runtime cannot load")):
        (export / PLACES[name]).write_bytes(b"broken")
        with pytest.raises(ValueError, match=f"^{called} {export / PLACES[name]}: .*; export the model again$"):
            open_exported(export, name)
    (export / "1" / "saved_model.pb").write_bytes(b"broken")
    with pytest.raises(ValueError, match=f"^{export / '1'} is not a valid SavedModel of an export: .*; export the mo"):
        open_exported(export)
    with pytest.raises(FileNotFoundError, match=r"has the network as litert, and onnx is needed: .*--format=onnx$"):
        open_exported(folder / "vectors", "onnx")
    with pytest.raises(FileNotFoundError, match="^.*pretrained is not an export: it has no export.json; give a fol"):
        open_exported(folder / "pretrained")
    for path in ("/etc/passwd", "../secret", "a/../../b", "C:\\a", "a\\..\\b", ""):
        (export / "export.json").write_text(json.dumps({"formats": {"onnx": {"path": path}}}))
        with pytest.raises(
            ValueError, match=r'export.json: the path of onnx is ".*", but must be inside the export; ta'
        ):
            open_exported(export)
    (export / "export.json").write_text('{"formats": ["onnx"]}')
    with pytest.raises(ValueError, match='export.json does not give the "path" of each of its "formats"; take the fil'):
        open_exported(export)


def test_a_missing_package_is_said(folder, monkeypatch):
    for module in ("onnxruntime", "ai_edge_litert.interpreter", "tensorflow_text"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ValueError, match=r"^onnxruntime is not installed; run pip install 'bert-keras\[onnx\]'$"):
        open_exported(folder / "classification", "onnx")
    with pytest.raises(ValueError, match=r"^ai_edge_litert is not installed; run pip install 'bert-keras\[litert\]'$"):
        open_exported(folder / "classification", "litert")
    with pytest.raises(
        ValueError, match="holds a tokenizer, and tensorflow-text is not installed; run pip install tens"
    ):
        open_exported(folder / "classification")


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


def test_an_export_of_a_pretrained_model_gives_vectors(folder, messages):
    texts = ["Paris is the capital of France.", "he"]
    expected = FeatureExtractor(folder / "pretrained", layers=[0], pooling="mean", max_seq_length=20)(texts)
    answers = open_model(folder / "vectors")(texts)
    assert [answer.text for answer in answers] == texts
    for answer, features in zip(answers, expected, strict=True):
        np.testing.assert_allclose(answer.vector, features.values[0], atol=1e-5)
    found = FeatureExtractor(folder / "vectors", layers=[0], pooling="none", max_seq_length=20)("he was")
    whole = FeatureExtractor(folder / "pretrained", layers=[0], pooling="none", max_seq_length=20)("he was")
    assert found.tokens == whole.tokens == ["[CLS]", "he", "was", "[SEP]"]
    np.testing.assert_allclose(found.values, whole.values, atol=1e-5)
    del messages[:]
    assert len(Vectorizer(folder / "vectors")("walk " * 30).vector) == 16
    assert messages[-1].startswith("texts longer than 20 tokens lost their ends: 1 of 1")
    with pytest.raises(ValueError, match="^text 2 has no word in its text; give a text$"):
        open_model(folder / "vectors")(["a", " "])


def test_an_export_is_held_to_what_it_is_for(folder):
    vectors, masks = folder / "vectors", folder / "fill_mask"
    with pytest.raises(ValueError, match="^layers is -1, -2, but .* has only the layer 0; choose that one$"):
        FeatureExtractor(vectors, layers=[-1, -2], max_seq_length=20)
    with pytest.raises(
        ValueError, match="^max_seq_length is 21, but must be from 3 to the 20 tokens that the model take"
    ):
        FeatureExtractor(vectors, layers=[0], max_seq_length=21)
    with pytest.raises(ValueError, match="is an export, which runs on one device; leave out strategy$"):
        FeatureExtractor(vectors, layers=[0], max_seq_length=20, strategy="several")
    for class_, path in ((FillMask, vectors), (NextSentence, masks), (FeatureExtractor, masks)):
        options = {"layers": [0], "max_seq_length": 20} if class_ is FeatureExtractor else {}
        with pytest.raises(ValueError, match=f"^{path} is a model for .*, and {class_.__name__} is for .*; open"):
            class_(path, **options)
    with pytest.raises(ValueError, match="^.*fill_mask is a model for fill_mask, and Vectorizer is for vectors; open"):
        Vectorizer(masks)
    with pytest.raises(ValueError, match="is an export, which sets how to prepare text; leave out do_lower_case"):
        FillMask(masks, do_lower_case=False)


def test_an_export_is_nothing_to_train_on_from(folder):
    with pytest.raises(
        ValueError, match="^.*classification is an export, which has no checkpoint; give the run or the m"
    ):
        open_model_files(folder / "classification")


def test_parts_of_two_exports_are_refused(folder, tmp_path):
    export = shutil.copytree(folder / "classification", tmp_path / "export")
    settings = json.loads((export / "task.json").read_text())
    (export / "task.json").write_text(json.dumps(settings | {"labels": ["no", "yes"]}))
    with pytest.raises(
        ValueError, match=f"^{export} has a head of 3 classes, but .*task.json belongs to a model with 2; th"
    ):
        open_model(export)
    (export / "task.json").write_text(json.dumps(settings | {"max_seq_length": 41}))
    with pytest.raises(ValueError, match="task.json: max_seq_length is 41, but the model has 40 positions; take the"):
        open_model(export)
    (export / "vocab.txt").unlink()
    with pytest.raises(
        FileNotFoundError, match=f"^there is no vocab.txt in {export}; take the whole folder of the exp"
    ):
        open_model(export)


def test_tasks_of_pretrained_models_are_of_exports_alone(folder, tmp_path):
    for name, missing in (("fill_mask", "top_k"), ("vectors", "pooling")):
        path = shutil.copytree(folder / name, tmp_path / name)
        settings = json.loads((path / "task.json").read_text())
        settings.pop(missing)
        (path / "task.json").write_text(json.dumps(settings))
        with pytest.raises(ValueError, match=f"task.json has no {missing}, which the task {name} needs; take the file"):
            open_model(path)
        (path / "export.json").unlink()
        with pytest.raises(
            ValueError, match=f'task.json: the task is "{name}", but must be one of classification, reg'
        ):
            open_model(path)


def test_the_program_takes_exports(folder, capsys):
    def ask(name, *arguments):
        capsys.readouterr()
        predict.main(["predict.py", f"--model_dir={folder / name}", *arguments])
        return capsys.readouterr().out

    [answer] = ask("classification", "he was hungry", "--json").splitlines()
    expected = open_model(folder / "runs" / "classification")("he was hungry")
    assert json.loads(answer)["probabilities"] == pytest.approx(expected.probabilities, abs=1e-5)
    [answer] = ask("fill_mask", "he [MASK]", "--json").splitlines()
    assert len(json.loads(answer)["masks"][0]) == 3
    [answer] = ask("fill_mask", "he [MASK]", "--json", "--top_k=2", "--long=truncate").splitlines()
    assert len(json.loads(answer)["masks"][0]) == 2
    [vector] = FeatureExtractor(folder / "pretrained", [0], "mean", 20)("he was").values
    answer = json.loads(ask("vectors", "he was", "--json"))
    assert answer == {"text": "he was", "vector": pytest.approx(vector.tolist(), abs=1e-5)}
    shown = " ".join(f"{value:.4f}" for value in answer["vector"][:6])
    assert ask("vectors", "he was") == f"he was\n  {shown} and 10 others; --json has all\n"
    for name, arguments in (("vectors", ["--top_k=2"]), ("fill_mask", ["--vocab_file=a", "--top_k=2"])):
        with pytest.raises(
            ValueError, match=f"^{arguments[0].partition('=')[0]}: a fine-tuned model or an export sets"
        ):
            ask(name, "he", *arguments)
