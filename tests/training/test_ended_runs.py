"""A run has a start, an end and a reason, whichever of its files are left, and its own model is the one it uses."""

import json
import os
import shutil

import pytest
from made_up_task import MadeUp, run, task_of, write_start
from states import assert_bit_equal, weights_in
from training_runs import rows_of, stop_after

from bert_keras import open_model
from bert_keras.training.report import Callbacks


@pytest.fixture(scope="module")
def finished_once(start, tmp_path_factory):
    folder = tmp_path_factory.mktemp("finished") / "run"
    run(MadeUp(does_evaluate=False), folder, init_checkpoint=start)
    return folder


@pytest.fixture
def finished(finished_once, tmp_path):
    """A finished run without an evaluation, of six steps."""
    return shutil.copytree(finished_once, tmp_path / "run")


def end_of(folder):
    return json.loads((folder / "end.json").read_text())


def remove(folder, *patterns):
    for pattern in patterns:
        for path in folder.glob(pattern):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_a_run_that_a_callback_ended_is_finished(start, tmp_path, capsys):
    folder, seen = tmp_path / "run", []

    def train():
        task = MadeUp()
        callbacks = Callbacks(on_evaluation=lambda step, metrics: seen.append(step) or len(seen) == 2)
        return run(task, folder, callbacks, init_checkpoint=start, eval_steps=2), task.num_evaluations

    metrics, _ = train()
    assert (seen, end_of(folder)) == ([2, 4], {"step": 4, "reason": "a callback"})
    rows, weights = rows_of(folder), weights_in(folder / "model")
    again, num_evaluations = train()
    assert (again, seen, num_evaluations) == (metrics, [2, 4], 1)
    assert rows_of(folder) == rows
    assert_bit_equal(weights_in(folder / "model"), weights)
    assert "nothing to train: the run has ended at step 4 of 6 (a callback)" in capsys.readouterr().out


def test_more_patience_continues_a_run_that_ended_early(start, tmp_path):
    flags = {"init_checkpoint": start, "eval_steps": 1}
    run(MadeUp([0.5, 0.4]), tmp_path / "run", early_stopping=1, **flags)
    assert end_of(tmp_path / "run") == {"step": 2, "reason": "early stopping"}
    run(MadeUp([0.3, 0.6, 0.2, 0.2]), tmp_path / "run", early_stopping=4, **flags)
    assert end_of(tmp_path / "run") == {"step": 6, "reason": "all steps"}
    assert task_of(tmp_path / "run")["step"] == 4


def test_without_checkpoints_the_model_is_kept_from_other_data(finished, start, capsys):
    remove(finished, "model.ckpt-*", "checkpoint")
    before = weights_in(finished / "model")
    with pytest.raises(ValueError, match="holds a run with other settings: train_data was abc and is xyz now; give"):
        run(MadeUp(does_evaluate=False, name="xyz"), finished, init_checkpoint=start)
    run(MadeUp(does_evaluate=False), finished, init_checkpoint=start)
    assert (
        "nothing to train: the run has ended (all steps); its model is there without checkpoints"
        in capsys.readouterr().out
    )
    assert_bit_equal(weights_in(finished / "model"), before)
    # Without its end, as of an earlier version.
    remove(finished, "end.json")
    with pytest.raises(ValueError, match="holds a run with other settings: train_data was abc and is xyz now; give"):
        run(MadeUp(does_evaluate=False, name="xyz"), finished, init_checkpoint=start)


@pytest.mark.parametrize("does_evaluate", [False, True])
def test_a_model_that_is_missing_is_written_again(finished, start, does_evaluate):
    before = weights_in(finished / "model")
    remove(finished, "model")
    metrics = run(MadeUp(does_evaluate=does_evaluate), finished, init_checkpoint=start)
    assert_bit_equal(weights_in(finished / "model"), before)
    assert (metrics is not None) == does_evaluate
    remove(finished, "model")
    run(MadeUp(does_evaluate=does_evaluate), finished, init_checkpoint=start)
    assert_bit_equal(weights_in(finished / "model"), before)


def test_a_finished_run_can_be_evaluated_on_any_data(finished, start):
    before = weights_in(finished / "model")
    for data in ("first", "second"):
        task = MadeUp()
        task.facts = {**task.facts, "evaluation": data, "eval_file_sha256": data}
        assert run(task, finished, init_checkpoint=start)["accuracy"] >= 0
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


@pytest.mark.parametrize("given", ["START", "RUN/other", "nowhere"])
def test_another_checkpoint_than_the_runs_own_is_refused(finished, start, tmp_path, given):
    write_start(finished / "other")
    given = given.replace("START", str(start)).replace("RUN", str(finished))
    message = "does not exist" if given == "nowhere" else "holds a run with a model of its own, so --init_checkpoint="
    with pytest.raises((ValueError, FileNotFoundError), match=message):
        run(MadeUp(), finished, do_train=False, init_checkpoint=given)


def test_the_runs_own_checkpoint_may_be_given(finished):
    expected = run(MadeUp(), finished, do_train=False)
    for given in (finished, finished / "model", finished / "model" / "model.ckpt-6"):
        assert run(MadeUp(), finished, do_train=False, init_checkpoint=given) == expected


def test_several_checkpoints_are_scored_in_one_folder(finished, start, tmp_path):
    other = shutil.copytree(finished, tmp_path / "second")
    run(MadeUp(does_evaluate=False), tmp_path / "third", init_checkpoint=start, seed=7)
    margins = [
        run(MadeUp(), tmp_path / "scores", do_train=False, init_checkpoint=folder)["margin"]
        for folder in (finished, tmp_path / "third", other)
    ]
    assert margins[0] == margins[2] != margins[1]


def test_a_link_to_nothing_is_not_a_folder(start, tmp_path):
    os.symlink(tmp_path / "none", tmp_path / "link")
    with pytest.raises(OSError, match="link is a link to .*none, which does not exist; give another folder"):
        run(MadeUp(does_evaluate=False), tmp_path / "link", init_checkpoint=start)
