"""A run has a start, an end and a reason, whichever of its files are left, and its own model is the one it uses."""

import json
import shutil

import numpy as np
import pytest
from eager import without_graphs
from made_up_task import MadeUp, run, task_of
from states import assert_bit_equal, weights_in
from training_runs import act_before, rows_of, stop_after

from bert_keras import open_model
from bert_keras.engine.report import Callbacks

pytestmark = pytest.mark.usefixtures("no_graphs")

FLAGS = {"eval_steps": 1, "save_checkpoints_steps": 1, "num_train_epochs": 1}  # three steps


class WithData(MadeUp):
    """A task whose evaluation data has a name."""

    def __init__(self, evaluation, **options):
        super().__init__(**options)
        self.facts["eval_file_sha256"] = evaluation


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("whole") / "run"
    with without_graphs():
        run(MadeUp(scores=[0.5, 0.9, 0.7]), folder, init_checkpoint=start, **FLAGS)
    return folder


@pytest.fixture
def folder(whole, tmp_path):
    shutil.copytree(whole, tmp_path / "run")
    return tmp_path / "run"


def end_of(folder):
    return json.loads((folder / "state.json").read_text())["end"]


def remove(folder, *patterns):
    for pattern in patterns:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def files_in(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.name != ".lock"}


CHECKPOINTS = ("checkpoint", "model.ckpt-*")


@pytest.mark.parametrize("removed", [(), ("model.ckpt-*",), ("tries.tsv", "metrics.csv", *CHECKPOINTS)])
def test_a_run_is_known_without_its_checkpoints_and_others_are_refused(folder, start, removed):
    remove(folder, *removed)
    before = files_in(folder)
    for name, seed, message in (("other", 12345, "train_data was abc"), ("abc", 1, "seed was 12345")):
        with pytest.raises(ValueError, match=f"holds a run with other settings: .*{message}"):
            run(MadeUp(name=name), folder, init_checkpoint=start, **FLAGS, seed=seed)
    assert files_in(folder) == before


def test_an_interrupted_run_is_known_without_its_checkpoints(start, tmp_path, monkeypatch, capsys):
    def fail():
        raise LookupError("mine")

    act_before(monkeypatch, 2, fail)
    with pytest.raises(LookupError):
        run(MadeUp(does_evaluate=False), tmp_path, init_checkpoint=start, **{**FLAGS, "eval_steps": 0})
    monkeypatch.undo()
    remove(tmp_path, *CHECKPOINTS)
    flags = {**FLAGS, "eval_steps": 0}
    with pytest.raises(ValueError, match="holds a run with other settings: train_data was abc and is b now"):
        run(MadeUp(does_evaluate=False, name="b"), tmp_path, init_checkpoint=start, **flags)
    run(MadeUp(does_evaluate=False), tmp_path, init_checkpoint=start, **flags)
    assert f"{tmp_path} has no checkpoint any more: the run begins again at step 1" in capsys.readouterr().out
    assert end_of(tmp_path) == {"step": 3, "reason": "all steps"}


def test_a_finished_run_stays_finished_and_its_model_is_used(folder, start, capsys):
    remove(folder, *CHECKPOINTS)  # test_fine_tuning.py runs the same command with them
    task = MadeUp()
    metrics = run(task, folder, init_checkpoint=start, **FLAGS)
    assert task.num_evaluations == 1
    assert "nothing to train: step 3 of 3 is reached" in capsys.readouterr().out
    assert metrics["margin"] == pytest.approx(task_of(folder)["metrics"]["margin"], rel=1e-6)
    assert len(rows_of(folder)) == 6


def test_a_model_that_was_removed_is_written_again_from_the_best_checkpoint(folder, start, capsys):
    before = weights_in(folder / "model"), task_of(folder)
    assert before[1]["step"] == 2
    remove(folder, "model")
    run(MadeUp(), folder, init_checkpoint=start, **FLAGS)
    assert f"{folder}/model is missing; it is written again from the checkpoint of step 2" in capsys.readouterr().out
    for name, value in before[0].items():
        np.testing.assert_array_equal(weights_in(folder / "model")[name], value, err_msg=name)
    assert task_of(folder)["metrics"]["margin"] == before[1]["metrics"]["margin"]


def test_a_model_that_was_removed_with_its_best_checkpoint_cannot_be_written_again(folder, start):
    remove(folder, "model", "model.ckpt-2.*")
    with pytest.raises(
        ValueError, match="model is missing, and so is the checkpoint of step 2, which had the best acc"
    ):
        run(MadeUp(), folder, init_checkpoint=start, **FLAGS)


def test_a_run_that_a_callback_ended_is_finished(start, tmp_path, capsys):
    steps = []
    callbacks = Callbacks(on_evaluation=lambda step, metrics: steps.append(step) or step == 2)
    flags = {**FLAGS, "init_checkpoint": start}
    metrics = run(MadeUp(), tmp_path, callbacks, **flags)
    assert end_of(tmp_path) == {"step": 2, "reason": "a callback"}
    for removed in (("model",), CHECKPOINTS):
        remove(tmp_path, *removed)
        assert run(MadeUp(), tmp_path, callbacks, **flags) == metrics
        assert "nothing to train: the run has ended at step 2 of 3 (a callback)" in capsys.readouterr().out
    assert steps == [1, 2]


def test_a_finished_run_can_be_evaluated_later_and_on_other_data(start, tmp_path):
    flags = {**FLAGS, "init_checkpoint": start, "eval_steps": 0}
    run(WithData("a"), tmp_path, **flags)
    facts = json.loads((tmp_path / "run_config.json").read_text())["facts"]
    weights = weights_in(tmp_path)
    assert run(WithData("b"), tmp_path, **{**flags, "eval_steps": 1})["margin"]
    assert json.loads((tmp_path / "evaluation.json").read_text())["step"] == 3
    assert json.loads((tmp_path / "run_config.json").read_text())["facts"] == facts
    for name, value in weights_in(tmp_path).items():
        np.testing.assert_array_equal(weights[name], value, err_msg=name)


def test_evaluations_that_choose_the_weights_stay_on_the_same_data(start, tmp_path, monkeypatch):
    flags = {**FLAGS, "init_checkpoint": start}

    def fail():
        raise LookupError("mine")

    act_before(monkeypatch, 2, fail)
    with pytest.raises(LookupError):
        run(WithData("a"), tmp_path, **flags)
    monkeypatch.undo()
    with pytest.raises(ValueError, match="eval_file content has changed; leave out do_train to evaluate its model on"):
        run(WithData("b"), tmp_path, **flags)
    assert run(WithData("a"), tmp_path, **flags)


@pytest.fixture(scope="module")
def finished_once(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    with without_graphs():
        run(MadeUp(does_evaluate=False), folder, init_checkpoint=start, num_train_epochs=1)
    return folder


@pytest.fixture
def finished(finished_once, tmp_path):
    """A finished run without an evaluation, of three steps."""
    return shutil.copytree(finished_once, tmp_path / "run")


def test_a_model_without_an_evaluation_is_written_again(finished, start):
    before = weights_in(finished / "model")
    remove(finished, "model")
    assert run(MadeUp(does_evaluate=False), finished, init_checkpoint=start, num_train_epochs=1) is None
    assert_bit_equal(weights_in(finished / "model"), before)


def test_a_run_that_was_interrupted_is_a_model(start, tmp_path, monkeypatch):
    folder, flags = tmp_path / "run", {"init_checkpoint": start}
    with monkeypatch.context() as patch:
        stop_after(patch, 3)
        assert run(MadeUp(), folder, **flags) is None
    assert not (folder / "model").exists()
    classify = open_model(folder)
    assert classify.labels == ["low", "high"]
    assert classify("paris").label in ("low", "high")
    assert run(MadeUp(), folder, do_train=False)["accuracy"] >= 0
    # Another run starts from it.
    run(MadeUp(does_evaluate=False), tmp_path / "next", init_checkpoint=folder, num_train_epochs=1)
    run(MadeUp(), folder, **flags)
    assert end_of(folder)["reason"] == "all steps"


def test_the_runs_own_checkpoint_may_be_given(finished):
    expected = run(MadeUp(), finished, do_train=False)
    for given in (finished, finished / "model", finished / "model.ckpt-3"):
        assert run(MadeUp(), finished, do_train=False, init_checkpoint=given) == expected


def test_several_checkpoints_are_scored_in_one_folder(finished, start, tmp_path):
    other = shutil.copytree(finished, tmp_path / "second")
    run(MadeUp(does_evaluate=False), tmp_path / "third", init_checkpoint=start, seed=7, num_train_epochs=1)
    margins = [
        run(MadeUp(), tmp_path / "scores", do_train=False, init_checkpoint=folder)["margin"]
        for folder in (finished, tmp_path / "third", other)
    ]
    assert margins[0] == margins[2] != margins[1]
