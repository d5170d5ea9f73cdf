"""The evaluation data of a run, opened again to measure an export."""

import pytest
from tiny_squad import paragraphs, write_squad

from bert_keras.export.run_folder import reopen_evaluation
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


@pytest.mark.parametrize("program", PROGRAMS)
def test_data_that_are_not_there(tmp_path, program):
    run = run_of(program, tmp_path)
    with pytest.raises(ValueError, match=f"^the run in {tmp_path} has no evaluation data that can be read; give ev"):
        reopen_evaluation(run, {}, None)
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
