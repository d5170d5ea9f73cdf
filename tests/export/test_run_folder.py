"""The evaluation data of a run, opened again to measure an export."""

import numpy as np
import pytest
from fine_tuned_models import CLASSIFIER, TAGS, write_foreign
from tiny_squad import paragraphs, write_squad

from bert_keras.export.quantization_cost import _measure
from bert_keras.export.run_folder import reopen_evaluation, run_with_defaults, training_features
from bert_keras.export.source import Source
from bert_keras.mistakes import Mistake
from bert_keras.model_folder.folder import ModelFolder
from bert_keras.prediction import open_model
from bert_keras.settings.groups import values_of
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.few_shot.settings import FewShotSettings
from bert_keras.tasks.question_answering.settings import SquadSettings
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tagging.settings import NerSettings

PROGRAMS = {"run_classifier": ClassifierSettings, "run_squad": SquadSettings, "run_ner": NerSettings}
PROGRAMS |= {"run_few_shot": FewShotSettings, "run_reranker": RerankerSettings}


def run_of(program, folder, **settings):
    """Returns the result of `read_run` for a run with default flags and some settings."""
    return {"program": program, "folder": str(folder), "settings": values_of(PROGRAMS[program]()) | settings}


def test_questions(tmp_path, open_task):
    both = open_task("question_answering")
    file = write_squad(tmp_path / "dev.json", paragraphs(2, 1, with_impossible=False))
    run = run_of("run_squad", tmp_path, predict_file=str(file))
    task = reopen_evaluation(run, dict(both.text_model.settings), both.live.files)
    # Two questions for each text. The length is that of the model, 24, and not the default.
    assert task.eval_features["input_ids"].shape == (4, 24)


def test_tags(tmp_path, open_task):
    both = open_task("token_classification")
    (tmp_path / "dev.txt").write_text("he O\nparis B-LOC\n\nshe O\n")
    run = run_of("run_ner", tmp_path, data_dir=str(tmp_path))
    task = reopen_evaluation(run, dict(both.text_model.settings), both.live.files)
    assert task.eval_features["input_ids"].shape == (2, 16)


def test_texts_of_the_training(tmp_path, open_task, messages):
    both = open_task("classification")
    messages.clear()  # those of a model that no test had opened yet
    labels = both.live.settings["labels"]
    rows = [f"he ate\tso\t{label}\n" for label in labels]
    file = tmp_path / "train.tsv"
    columns = {"text_columns": ("text_a", "text_b"), "label_column": "label"}
    run = run_of("run_classifier", tmp_path, train_file=str(file), **columns)
    assert training_features(run, dict(both.text_model.settings), both.live.files) is None
    file.write_text("".join(["text_a\ttext_b\tlabel\n", *rows]))
    features = training_features(run, dict(both.text_model.settings), both.live.files)
    assert len(features["input_ids"]) == len(labels)
    file.write_text("text_a\n")
    assert training_features(run, dict(both.text_model.settings), both.live.files) is None
    assert messages == []


@pytest.mark.parametrize("program", PROGRAMS)
def test_data_that_are_not_there(tmp_path, program):
    run = run_of(program, tmp_path)
    assert reopen_evaluation(run, {}, None) is None
    run["settings"]["eval_file"] = "gone"
    message = f"^gone, the evaluation data of the run in {tmp_path}, does not exist; give eval_file$"
    with pytest.raises(FileNotFoundError, match=message):
        reopen_evaluation(run, {}, None)


@pytest.mark.parametrize(
    ("program", "task", "name"),
    [
        ("run_classifier", "classification", "has_header"),
        ("run_squad", "question_answering", "answer_language"),
        ("run_ner", "token_classification", "tag_column"),
    ],
)
def test_a_missing_setting_is_named(tmp_path, open_task, program, task, name):
    both = open_task(task)
    (tmp_path / "file").touch()
    run = run_of(program, tmp_path, eval_file=str(tmp_path / "file"), label_column="label")
    del run["settings"][name]
    sentence = f"^{tmp_path}/run_config.json has no setting {name}; copy the file that the run wrote, or train again$"
    with pytest.raises(ValueError, match=sentence):
        reopen_evaluation(run, dict(both.text_model.settings), both.live.files)


_TEXTS = "text\tlabel\nhe ate so\t{}\nshe was hungry\t{}\n"
_PAIRS = "query\ttext\tlabel\nwho\tshe ate\t1\nwho\tso\t0\n"
# Task of a model without a run -> values of its config.json, and a file to evaluate it on.
WITHOUT_A_RUN = {
    "classification": ({"id2label": {0: "bad", 1: "fair", 2: "good"}}, "eval.tsv", _TEXTS.format("bad", "good")),
    "multi_label": (
        {"id2label": {0: "bad", 1: "fair", 2: "good"}, "problem_type": "multi_label_classification"},
        "eval.jsonl",
        '{"text": "he ate", "labels": ["bad", "good"]}\n{"text": "so", "labels": []}\n',
    ),
    "regression": (
        {"num_labels": 1, "id2label": {0: "LABEL_0"}, "problem_type": "regression"},
        "eval.tsv",
        _TEXTS.format(1.5, 3),
    ),
    "rerank": (
        {"id2label": {0: "LABEL_0"}, "sentence_transformers": {"activation_fn": None}},
        "eval.tsv",
        _PAIRS,
    ),
    "token_classification": ({"id2label": dict(enumerate(TAGS))}, "eval.txt", "he B-PER\nis O\n\nparis B-LOC\n"),
    "question_answering": ({}, "eval.json", None),
}


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(
    ("task", "is_pair"),
    [*((task, False) for task in WITHOUT_A_RUN), ("classification", True), ("regression", True)],
)
def test_a_model_without_a_run(tmp_path, task, is_pair):
    """The network itself serves as that of an export."""
    values, name, content = WITHOUT_A_RUN[task]
    if is_pair:
        head, *rows = content.splitlines()
        content = "".join(f"{line}\n" for line in [f"text_a\ttext_b\t{head[5:]}", *(f"so\t{row}" for row in rows)])
    file = tmp_path / name
    if content is None:
        write_squad(file, paragraphs(2, 1, with_impossible=False))
    else:
        file.write_text(content)
    architecture = CLASSIFIER if task in ("multi_label", "regression", "rerank") else None
    folder = write_foreign(tmp_path / "model", task, architecture=architecture, **values)
    model = ModelFolder(folder, is_pair=True if is_pair else None)
    opened = reopen_evaluation(run_with_defaults(model), model.settings, model, str(file))
    source = Source("model", open_model(model), model.settings, None, opened)
    metric, _ = _measure(source, source.network)
    assert np.isfinite(metric)


def test_the_choices_of_a_model_without_a_run_are_not_known(tmp_path):
    model = ModelFolder(write_foreign(tmp_path / "model", "multiple_choice"))
    with pytest.raises(Mistake, match="^eval_file needs the columns of the choices, which only a run has"):
        run_with_defaults(model)
