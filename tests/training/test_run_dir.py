"""The folder of a run: what it keeps, what it refuses, and what a kill leaves of it."""

import os

import numpy as np
import pytest
import tensorflow as tf

from training.run_dir import RunDir, read_run_config


def make_state(value=1.0):
    return {"global_step": tf.Variable(3, dtype=tf.int64), "bert/kernel": tf.Variable([[value, 2.0]])}


@pytest.fixture
def run_dir(tmp_path):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    run_dir.claim({"learning_rate": 0.1, "num_train_steps": 10}, free=("num_train_steps",))
    return run_dir


def test_the_newest_five_checkpoints_are_kept(run_dir):
    for step in range(1, 9):
        run_dir.save(step, make_state(float(step)))
    kept = sorted(name for name in os.listdir(run_dir.path) if name.endswith(".index"))
    assert kept == [f"model.ckpt-{step}.index" for step in range(4, 9)]
    assert run_dir.latest_step() == 8
    # TensorFlow and the release find it as well.
    assert tf.train.latest_checkpoint(run_dir.path).endswith("model.ckpt-8")
    assert tf.train.get_checkpoint_state(run_dir.path).all_model_checkpoint_paths[0].endswith("model.ckpt-4")


def test_a_state_comes_back_bit_for_bit(run_dir):
    run_dir.save(3, make_state(1 / 3))
    state = make_state(0.0)
    run_dir.restore(state)
    np.testing.assert_array_equal(state["bert/kernel"].numpy(), np.float32([[1 / 3, 2.0]]))
    assert int(state["global_step"]) == 3


def test_a_state_with_other_names_is_refused(run_dir):
    run_dir.save(3, make_state())
    with pytest.raises(ValueError, match="does not hold the state of this run: bert/bias is in only one of the two"):
        run_dir.restore({**make_state(), "bert/bias": tf.Variable(0.0)})


@pytest.mark.parametrize("fails_at", ["data-00000-of-00001", "index", "checkpoint"])
def test_what_interrupts_a_save_leaves_the_checkpoint_before_it(run_dir, monkeypatch, fails_at):
    run_dir.save(3, make_state(1.0))
    replace = os.replace

    def interrupted(source, target):
        if str(target).endswith(fails_at):
            raise KeyboardInterrupt
        replace(source, target)

    monkeypatch.setattr(os, "replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_dir.save(4, make_state(9.0))
    monkeypatch.undo()
    assert run_dir.latest_step() == 3
    state = make_state(0.0)
    run_dir.restore(state)
    assert state["bert/kernel"].numpy()[0, 0] == 1.0
    run_dir.save(4, make_state(5.0))
    run_dir.restore(state)
    assert state["bert/kernel"].numpy()[0, 0] == 5.0


def test_what_a_kill_left_of_a_save_is_removed(run_dir):
    leftover = run_dir.file(".model.ckpt-4.unfinished-123.index")
    open(leftover, "w").close()
    run_dir.claim({"learning_rate": 0.1}, free=())
    assert not os.path.exists(leftover)


def test_the_same_settings_may_resume(run_dir):
    run_dir.save(3, make_state())
    run_dir.claim({"learning_rate": 0.1, "num_train_steps": 20}, free=("num_train_steps",))
    assert read_run_config(run_dir.file("run_config.json"))["settings"]["num_train_steps"] == 20


def test_other_settings_are_refused_and_named(run_dir):
    run_dir.save(3, make_state())
    with pytest.raises(ValueError, match=r"run with other settings: --learning_rate was 0.1 and is 0.2 now; give the"):
        run_dir.claim({"learning_rate": 0.2}, free=("num_train_steps",))
    with pytest.raises(ValueError, match=r"--seed was not given and is 1 now"):
        run_dir.claim({"learning_rate": 0.1, "seed": 1}, free=("num_train_steps",))


def test_other_settings_are_taken_as_long_as_nothing_was_saved(run_dir):
    run_dir.claim({"learning_rate": 0.2}, free=())
    assert read_run_config(run_dir.file("run_config.json"))["settings"] == {"learning_rate": 0.2}


def test_a_run_of_another_program_is_refused(run_dir):
    run_dir.save(3, make_state())
    with pytest.raises(ValueError, match="holds a run of run_pretraining; give run_squad a folder of its own"):
        RunDir(run_dir.path, "run_squad").claim({}, free=())


@pytest.mark.parametrize("name", ["model.ckpt-7.index", "checkpoint", "eval_results.txt", "bert_config.json"])
def test_a_folder_with_files_of_something_else_is_refused(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(
        ValueError, match=f"holds files of something else \\({name}\\); give a folder that is new or em"
    ):
        RunDir(str(tmp_path), "run_pretraining").claim({}, free=())
    assert (tmp_path / name).read_text() == "mine"
    assert os.listdir(tmp_path) == [name]


def test_a_folder_with_unrelated_files_is_taken(tmp_path):
    (tmp_path / "train.tfrecord").write_text("mine")
    RunDir(str(tmp_path), "run_pretraining").claim({}, free=())
    assert (tmp_path / "train.tfrecord").read_text() == "mine"


def test_a_folder_that_tensorflow_could_not_read_from_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"TensorFlow takes \[ \* \? in a path for a pattern; rename it"):
        RunDir(str(tmp_path / "run [1]"), "run_pretraining").claim({}, free=())
    assert not list(tmp_path.iterdir())


def test_a_remote_folder_is_refused():
    with pytest.raises(ValueError, match="--output_dir=gs://bucket/run is a remote path; a run is kept in a local"):
        RunDir("gs://bucket/run", "run_pretraining").claim({}, free=())


def test_a_run_config_that_is_none_is_refused(tmp_path):
    path = tmp_path / "run_config.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="run_config.json is no JSON"):
        read_run_config(str(path))
    path.write_text("[]")
    with pytest.raises(ValueError, match="was not written by a run: it needs the keys program and settings"):
        read_run_config(str(path))
