"""Finding, checking and opening the folder of a fine-tuned model."""

import json
import shutil

import pytest
from fine_tuned_models import OF_ANSWERS, OF_TAGS, OF_TEXTS, TAGS, random_answerer, random_classifier, write_fine_tuned
from tiny_exports import FINE_TUNED

from bert_keras.model_folder.folder import ModelFolder
from bert_keras.modeling import IncompleteMatchError, open_checkpoint
from bert_keras.prediction import (
    ChoicePicker,
    EntityTagger,
    FillMask,
    QuestionAnswerer,
    Reranker,
    TextClassifier,
    open_model,
)
from bert_keras.tasks import settings_of

pytestmark = pytest.mark.usefixtures("no_graphs")

SETTINGS = OF_TEXTS | {"labels": ["no", "yes"]}


@pytest.fixture(scope="module")
def model():
    return random_classifier(2, seed=8, num_hidden_layers=1)


@pytest.fixture
def run(tmp_path, model):
    return write_fine_tuned(tmp_path / "run", model, "classification", **SETTINGS)


def write_task(folder, task, **settings):
    (folder / "task.json").write_text(json.dumps({"task": task, **settings}))
    return folder


def test_a_run_and_its_model_are_the_same(run, tmp_path, messages):
    expected = open_model(run)("he was hungry")
    assert f"lower-casing text (set in {run / 'model' / 'tokenizer_config.json'})" in messages
    assert f"loaded 25 of 25 weights from {run / 'model' / 'model.ckpt-7'}" in messages
    shutil.move(run / "model", tmp_path / "elsewhere")
    assert open_model(str(tmp_path / "elsewhere"))("he was hungry") == expected


def test_the_task_decides_the_class(tmp_path):
    found = {}
    for task, (make, settings) in FINE_TUNED.items():
        found[task] = type(open_model(write_fine_tuned(tmp_path / task, make(), task, **settings)))
    assert found == {
        **dict.fromkeys(("classification", "regression", "multi_label"), TextClassifier),
        "multiple_choice": ChoicePicker,
        "rerank": Reranker,
        "question_answering": QuestionAnswerer,
        "token_classification": EntityTagger,
    }
    message = "regression/model is a model for regression, and EntityTagger is for token_classification; open it with"
    with pytest.raises(ValueError, match=message):
        EntityTagger(tmp_path / "regression")


def test_a_folder_without_a_task_is_not_a_fine_tuned_model(tmp_path):
    message = rf"^{tmp_path} has no fine-tuned model: neither task.json nor model/task.json is there; give the"
    with pytest.raises(FileNotFoundError, match=message):
        open_model(tmp_path)
    (tmp_path / "saved_model.pb").touch()
    with pytest.raises(FileNotFoundError, match="is only a SavedModel; give the folder of an export"):
        open_model(tmp_path)


@pytest.mark.parametrize(
    ("folder", "of_model"),
    [("export/web", "export.json"), ("export/1", "export.json"), ("run/eval", "run_config.json")]
    + [("run/tries/seed=1", "run_config.json"), ("st/1_Pooling", "modules.json"), ("page/web", None)],
)
def test_a_part_of_a_model_leads_to_the_model(tmp_path, folder, of_model):
    part, model = tmp_path / folder, tmp_path / folder.split("/")[0]
    part.mkdir(parents=True)
    if of_model:
        (model / of_model).write_text("{}")
    message = f"^{part} is only a part of {model}; give that folder$"
    if folder.endswith("web"):
        for name in ("index.html", "model.json", "model.onnx"):
            (part / name).touch()
        advice = f", {model}" if of_model else " that it was copied from"
        message = f"^{part} is a page for a web browser; give the folder of the export{advice}$"
        with pytest.raises(ValueError, match=message):
            open_model(part / "model.onnx")
    if of_model == "export.json":
        with pytest.raises(FileNotFoundError, match=f"^{model} is an export, which has no checkpoint; give the run or"):
            open_checkpoint(model)
    for open_part in (open_model, FillMask):
        with pytest.raises(FileNotFoundError, match=message):
            open_part(part)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"task": ', "task.json line 1: not valid JSON"),
        ("[]", r"task.json line 1: a JSON list where an object \{...\} is needed"),
        ("{}", "task.json does not name its task"),
        (
            '{"task": "summary"}',
            'task.json: the task is "summary", but must be one of classification, regression, multi_label, '
            "multiple_choice, rerank, question_answering, token_classification, vectors; give",
        ),
        (
            '{"task": "fill_mask"}',
            'task.json: the task is "fill_mask", but must be one of classification, regression, ',
        ),
        ('{"task": "regression"}', "task.json has no max_seq_length, which the task regression needs; take the file"),
    ],
)
def test_a_damaged_task_is_refused(tmp_path, content, message):
    (tmp_path / "task.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        settings_of(ModelFolder(tmp_path))


@pytest.mark.parametrize(
    ("task", "settings", "name", "value", "needed"),
    [
        ("classification", SETTINGS, "max_seq_length", "16", "a whole number above 0"),
        ("classification", SETTINGS, "max_seq_length", 0, "a whole number above 0"),
        ("classification", SETTINGS, "max_seq_length", True, "a whole number above 0"),
        ("multi_label", SETTINGS, "labels", [], "a list of names, each of them once"),
        ("classification", SETTINGS, "labels", ["a", 1], "a list of names, each of them once"),
        ("classification", SETTINGS, "labels", ["a", "b", "a"], "a list of names, each of them once"),
        ("multi_label", SETTINGS, "labels", ["a", " "], "a list of names, each of them once"),
        (
            "token_classification",
            OF_TAGS | {"labels": TAGS},
            "labels",
            ["O", "O"],
            "a list of names, each of them once",
        ),
        ("regression", OF_TEXTS, "is_pair", "no", "true, false or null"),
        ("classification", SETTINGS, "doc_stride", -1, "a whole number above 0, or null"),
        ("question_answering", OF_ANSWERS, "null_score_diff_threshold", "high", "a number"),
        ("question_answering", OF_ANSWERS, "answer_text", "all", '"release" or "offsets"'),
    ],
)
def test_a_setting_has_a_valid_value(tmp_path, task, settings, name, value, needed):
    write_task(tmp_path, task, **settings)
    assert settings_of(ModelFolder(tmp_path)) == {"task": task, **settings}
    write_task(tmp_path, task, **(settings | {name: value}))
    message = rf"task.json: {name} is .*, but must be {needed}; take the file that the training wrote$"
    with pytest.raises(ValueError, match=message) as error:
        settings_of(ModelFolder(tmp_path))
    assert json.dumps(value) in str(error.value)


def test_a_task_that_does_not_fit_the_checkpoint_is_refused(run):
    write_task(run / "model", "classification", **(SETTINGS | {"labels": ["a", "b", "c"]}))
    message = (
        r"model.ckpt-7 has a head of 2 classes, but .*task.json belongs to a model with 3; the files are from different"
    )
    with pytest.raises(ValueError, match=message):
        open_model(run)
    write_task(run / "model", "classification", **(SETTINGS | {"max_seq_length": 41}))
    with pytest.raises(ValueError, match="task.json: max_seq_length is 41, but the model has 40 positions; take"):
        open_model(run)
    answerer = random_answerer(num_hidden_layers=1)
    write_fine_tuned(run, answerer, "classification", **SETTINGS)
    message = "lacks 2 of the model's 25 weights: output_weights, output_bias; take"
    with pytest.raises(IncompleteMatchError, match=message):
        open_model(run)
