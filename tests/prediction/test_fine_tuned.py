"""Finding, checking and opening the folder of a fine-tuned model."""

import json
import shutil

import pytest
from fine_tuned_models import OF_ANSWERS, OF_TAGS, OF_TEXTS, TAGS, random_answerer, random_classifier, write_fine_tuned
from known_models import random_model, write_model

from bert_keras.modeling import IncompleteMatchError
from bert_keras.prediction import ChoicePicker, EntityTagger, QuestionAnswerer, TextClassifier, open_model

SETTINGS = OF_TEXTS | {"labels": ["no", "yes"]}


@pytest.fixture(scope="module")
def model():
    return random_classifier(2, seed=8)


@pytest.fixture
def run(tmp_path, model):
    return write_fine_tuned(tmp_path / "run", model, "classification", **SETTINGS)


def test_a_run_and_its_model_are_the_same(run, tmp_path):
    expected = open_model(run)("he was hungry")
    assert open_model(str(run / "model"))("he was hungry") == expected
    shutil.move(run / "model", tmp_path / "elsewhere")
    assert open_model(tmp_path / "elsewhere")("he was hungry") == expected


def test_the_task_says_the_class(tmp_path, model):
    answerer = write_fine_tuned(tmp_path / "a", random_answerer(), "question_answering", **OF_ANSWERS)
    choices = write_fine_tuned(tmp_path / "b", random_classifier(1), "multiple_choice", max_seq_length=16)
    tags = write_fine_tuned(tmp_path / "c", random_classifier(5), "token_classification", labels=TAGS, **OF_TAGS)
    number = write_fine_tuned(tmp_path / "d", random_classifier(1), "regression", **OF_TEXTS)
    labels = write_fine_tuned(tmp_path / "e", model, "multi_label", **SETTINGS)
    found = [type(open_model(folder)) for folder in (answerer, choices, tags, number, labels)]
    assert found == [QuestionAnswerer, ChoicePicker, EntityTagger, TextClassifier, TextClassifier]


def test_what_was_loaded_is_said(run, messages):
    open_model(run)
    assert f"lower-casing text (set in {run / 'model' / 'tokenizer_config.json'})" in messages
    assert f"loaded 41 of 41 weights from {run / 'model' / 'model.ckpt-7'}" in messages


def test_a_class_of_another_task_is_refused(run):
    with pytest.raises(
        ValueError, match="model is a model for classification, and EntityTagger is for token_classifica"
    ):
        EntityTagger(run)


def test_a_folder_without_a_task_is_no_fine_tuned_model(tmp_path):
    folder = write_model(tmp_path / "pretrained", random_model())
    message = rf"^there is no fine-tuned model in {folder}: neither task.json nor model/task.json is there; give the"
    with pytest.raises(FileNotFoundError, match=message):
        open_model(folder)
    with pytest.raises(FileNotFoundError, match="^there is no fine-tuned model in nowhere: "):
        open_model("nowhere")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ('{"task": ', "task.json line 1: not valid JSON"),
        ("[]", r"task.json line 1: a JSON list where an object \{...\} is needed"),
        ("{}", "task.json does not name its task"),
        (
            '{"task": "summary"}',
            'task.json: the task is "summary", but must be one of classification, regression, multi_',
        ),
        ('{"task": "regression"}', "task.json has no max_seq_length, which the task regression needs; take the file"),
    ],
)
def test_a_damaged_task_is_one_sentence(run, content, message):
    (run / "model" / "task.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        open_model(run)


@pytest.mark.parametrize(
    ("name", "value", "needed"),
    [
        ("max_seq_length", "16", "a whole number above 0"),
        ("max_seq_length", 0, "a whole number above 0"),
        ("max_seq_length", True, "a whole number above 0"),
        ("labels", [], "a list of names"),
        ("labels", ["a", 1], "a list of names"),
        ("is_pair", None, "true or false"),
        ("doc_stride", -1, "a whole number above 0, or null"),
    ],
)
def test_a_value_that_cannot_be_is_named(run, model, name, value, needed):
    write_fine_tuned(run, model, "classification", **(SETTINGS | {name: value}))
    message = rf"task.json: {name} is .*, but must be {needed}; take the file that the training wrote$"
    with pytest.raises(ValueError, match=message) as error:
        open_model(run)
    assert json.dumps(value) in str(error.value)


def test_values_of_answers_and_taggers_are_held_to_their_kind(tmp_path):
    settings = OF_ANSWERS | {"null_score_diff_threshold": "high"}
    folder = write_fine_tuned(tmp_path / "a", random_answerer(), "question_answering", **settings)
    with pytest.raises(ValueError, match='null_score_diff_threshold is "high", but must be a number; take'):
        open_model(folder)
    settings = OF_TAGS | {"labels": TAGS, "tagger": "crf"}
    folder = write_fine_tuned(tmp_path / "b", random_classifier(5), "token_classification", **settings)
    with pytest.raises(ValueError, match='tagger is "crf", but must be "linear" or "bilstm"; take'):
        open_model(folder)


def test_a_checkpoint_of_other_classes_is_refused(run, model):
    write_fine_tuned(run, model, "classification", **(SETTINGS | {"labels": ["a", "b", "c"]}))
    message = (
        r"model.ckpt-7 has a head of 2 classes, but .*task.json belongs to a model with 3; the files are from different"
    )
    with pytest.raises(ValueError, match=message):
        open_model(run)


def test_a_checkpoint_of_another_task_is_refused(run):
    write_fine_tuned(run, random_answerer(), "classification", **SETTINGS)
    with pytest.raises(
        IncompleteMatchError, match="lacks 2 of the model's 41 weights: output_weights, output_bias; take"
    ):
        open_model(run)


def test_a_length_that_the_model_does_not_have_is_refused(run, model):
    write_fine_tuned(run, model, "classification", **(SETTINGS | {"max_seq_length": 41}))
    with pytest.raises(ValueError, match="task.json: max_seq_length is 41, but the model has 40 positions; take"):
        open_model(run)


def test_a_part_that_is_missing_is_named(run):
    (run / "model" / "vocab.txt").unlink()
    with pytest.raises(FileNotFoundError, match=f"^there is no vocab.txt in {run / 'model'}; put it there"):
        open_model(run)
    for path in (run / "model").glob("model.ckpt*"):
        path.unlink()
    with pytest.raises(FileNotFoundError, match="^there is no checkpoint in the folder"):
        open_model(run)
