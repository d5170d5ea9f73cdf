"""The run folder: its files, rejected folders, and its state after a kill."""

import errno
import os
import pathlib
import re
import uuid

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.storage import paths
from bert_keras.training.run_dir import RunDir, read_run_config


def make_state(value=1.0):
    return {"global_step": tf.Variable(3, dtype=tf.int64), "bert/kernel": tf.Variable([[value, 2.0]])}


SETTINGS = {"learning_rate": 0.1, "num_train_steps": 10}


def claim(run_dir, settings=None, facts=None, defaults=None, free=()):
    settings = {name: value for name, value in {**SETTINGS, **(settings or {})}.items() if value is not None}
    run_dir.claim(settings, facts or {}, defaults or {}, free)


@pytest.fixture
def run_dir(tmp_path):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    claim(run_dir)
    return run_dir


def test_the_newest_five_checkpoints_are_kept(run_dir):
    for step in range(1, 9):
        run_dir.save(step, make_state(float(step)))
    kept = sorted(name for name in os.listdir(run_dir.path) if name.endswith(".index"))
    assert kept == [f"model.ckpt-{step}.index" for step in range(4, 9)]
    assert run_dir.latest_step() == 8
    # TensorFlow and the original BERT find it as well.
    assert tf.train.latest_checkpoint(run_dir.path).endswith("model.ckpt-8")
    assert tf.train.get_checkpoint_state(run_dir.path).all_model_checkpoint_paths[0].endswith("model.ckpt-4")


def test_a_state_comes_back_bit_for_bit_and_one_with_other_names_is_refused(run_dir):
    run_dir.save(3, make_state(1 / 3))
    state = make_state(0.0)
    run_dir.restore(state)
    np.testing.assert_array_equal(state["bert/kernel"].numpy(), np.float32([[1 / 3, 2.0]]))
    assert int(state["global_step"]) == 3
    with pytest.raises(ValueError, match="does not hold the state of this run: bert/bias is not the same in both"):
        run_dir.restore({**make_state(), "bert/bias": tf.Variable(0.0)})
    with pytest.raises(ValueError, match="does not hold the state of this run: bert/kernel is not the same in both"):
        run_dir.restore({**make_state(), "bert/kernel": tf.Variable([1.0])})


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


def test_files_that_a_kill_left_are_removed(run_dir):
    left = [".model.ckpt-4.unfinished-123.index", "model/.vocab.txt.unfinished-1", "tries/seed=1/.x.unfinished-1"]
    left += ["tries/seed=1/model/.task.json.unfinished-1", ".train.tf_record.0a.partial", ".model.unfinished-1/x"]
    for name in [*left, "tries/notes.txt"]:
        os.makedirs(os.path.dirname(run_dir.file(name)), exist_ok=True)
        open(run_dir.file(name), "w").close()
    claim(run_dir)
    assert not [name for name in left if os.path.exists(run_dir.file(name))]
    assert not os.path.exists(run_dir.file(".model.unfinished-1"))
    assert os.path.exists(run_dir.file("tries/notes.txt"))
    # A user's file with the name of the model's folder is not searched.
    os.rename(run_dir.file("model"), run_dir.file("other"))
    open(run_dir.file("model"), "w").close()
    claim(run_dir)


def test_without_the_file_that_names_it_the_highest_checkpoint_is_the_newest(run_dir):
    for step in (3, 4):
        run_dir.save(step, make_state(float(step)))
    os.remove(run_dir.file("checkpoint"))
    assert run_dir.latest_step() == 4
    with pytest.raises(ValueError, match="run with other settings"):
        claim(run_dir, {"learning_rate": 0.2})
    (pathlib.Path(run_dir.path) / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-9"\n')
    assert run_dir.latest_step() == 4
    run_dir.save(2, make_state())  # removes no checkpoint of a later step
    assert os.path.exists(run_dir.file("model.ckpt-4.index"))
    assert run_dir.latest_step() == 2


@pytest.mark.parametrize(
    "failure",
    [
        tf.errors.ResourceExhaustedError(None, None, "x; No space left on device [Op:SaveV2]"),
        OSError(errno.ENOSPC, "No space left on device"),
    ],
)
def test_a_full_disk_is_told(run_dir, monkeypatch, failure):
    run_dir.save(3, make_state())

    def fail(*arguments):
        raise failure

    monkeypatch.setattr("bert_keras.modeling.checkpoints.tensorflow_format._save", fail)
    with pytest.raises(OSError, match=r"run/model.ckpt-4 cannot be written \(.*No space left on device\); make .*3$"):
        run_dir.save(4, make_state())


def cut(path):
    os.truncate(path, os.path.getsize(path) - 1)


def change(path):
    content = bytearray(pathlib.Path(path).read_bytes())
    content[5] ^= 1
    pathlib.Path(path).write_bytes(content)


@pytest.mark.parametrize("damage", [cut, change, os.remove])
def test_the_newest_whole_checkpoint_is_used_and_the_damaged_one_named(run_dir, messages, damage):
    for step in (3, 4, 5):
        run_dir.save(step, make_state(float(step)))
    damage(run_dir.file("model.ckpt-5.data-00000-of-00001"))
    again = RunDir(run_dir.path, "run_pretraining")
    assert again.latest_step() == again.latest_step() == 4
    [told] = [message for message in messages if "damaged" in message]
    assert told.startswith("the checkpoint of step 4 is used, because a newer one is damaged: ")
    assert "model.ckpt-5" in told
    state = make_state(0.0)
    again.restore(state)
    assert state["bert/kernel"].numpy()[0, 0] == 4.0
    again.save(5, make_state(7.0))
    assert RunDir(run_dir.path, "run_pretraining").latest_step() == 5


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_from_nothing(run_dir):
    for step in (3, 4):
        run_dir.save(step, make_state())
        cut(run_dir.file(f"model.ckpt-{step}.index"))
    with pytest.raises(ValueError, match=r"no checkpoint in .*run can be read: .*4.index cannot be read .*; copy"):
        RunDir(run_dir.path, "run_pretraining").latest_step()


def test_an_object_that_may_not_write_changes_nothing(run_dir):
    run_dir.save(3, make_state(1.0))
    run_dir.within("model").create()
    run_dir.write_text("model/task.json", "{}")
    before = {path: path.read_bytes() for path in pathlib.Path(run_dir.path).rglob("*") if path.is_file()}
    reader = RunDir(run_dir.path, "run_pretraining", is_writable=False)
    claim(reader, {"learning_rate": 9})
    assert reader.latest_step() == 3
    reader.save(4, make_state(2.0))
    assert reader.latest_step() == 4  # saved by the chief
    reader.write_text("metrics.csv", "mine")
    reader.remove("checkpoint")
    reader.forget_checkpoints()
    reader.remove_dir("model")
    reader.replace_dir("model", "nowhere")
    model = reader.within("model")
    model.create()
    model.save(4, make_state())
    assert {path: path.read_bytes() for path in pathlib.Path(run_dir.path).rglob("*") if path.is_file()} == before


def test_the_same_settings_may_resume_and_take_more_steps(run_dir, messages):
    claim(run_dir, {"learning_rate": 0.2})  # nothing was saved, so other settings replace the old ones
    run_dir.save(3, make_state())
    claim(run_dir, {"learning_rate": 0.2, "num_train_steps": 20})
    told = "num_train_steps was 10 and is 20 now; the learning rate follows the longer schedule"
    assert told in "\n".join(messages)
    settings = read_run_config(run_dir.file("run_config.json"))["settings"]
    assert settings == {"learning_rate": 0.2, "num_train_steps": 20}
    claim(run_dir, {"num_train_steps": 20}, free=("learning_rate",))


SIZES = {"hidden_size": 8, "num_hidden_layers": 2}


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({}, {"settings": {"num_train_steps": 9}}, "--num_train_steps was 10 and is 9 now"),
        ({}, {"settings": {"seed": 1}, "defaults": {"seed": 0}}, "--seed was 0 and is 1 now"),
        ({}, {"settings": {"seed": 1}}, "--seed was not given and is 1 now"),
        ({}, {"settings": {"seed": 0}, "defaults": {"seed": 0}}, None),
        (
            {"facts": {"bert_config": SIZES}},
            {"facts": {"bert_config": SIZES | {"hidden_size": 16}}},
            "bert_config: hidden_size was 8 and is 16 now",
        ),
        (
            {"facts": {"labels": ["no", "yes"]}},
            {"facts": {"labels": ["no"]}},
            "labels was ['no', 'yes'] and is ['no'] now",
        ),
        # JSON makes lists of tuples.
        ({"settings": {"columns": ("a", "b")}}, {"settings": {"columns": ("a", "b")}}, None),
        (
            {"settings": {"columns": ("a", "b")}},
            {"settings": {"columns": ("a",)}},
            "--columns was ['a', 'b'] and is ['a'] now",
        ),
        # A run that counts in epochs has no number of steps.
        (
            {"settings": {"num_train_epochs": 3.0, "num_train_steps": None}},
            {"settings": {"num_train_epochs": 4.0, "num_train_steps": None}},
            "--num_train_epochs was 3.0 and is 4.0 now",
        ),
    ],
    ids=["steps", "default", "not given", "same", "part", "fact", "tuple", "tuple differs", "epochs"],
)
def test_other_settings_are_refused_and_named(run_dir, old, new, message):
    claim(run_dir, **old)
    run_dir.save(3, make_state())
    if message is None:
        claim(run_dir, **new)
        return
    with pytest.raises(ValueError, match=f"holds a run with other settings: {re.escape(message)}; give the old"):
        claim(run_dir, **new)


def test_a_run_of_another_program_is_refused(run_dir):
    with pytest.raises(ValueError, match="holds a run of run_pretraining; give run_squad another folder"):
        RunDir(run_dir.path, "run_squad")


def test_a_folder_in_use_is_refused(run_dir):
    pytest.importorskip("fcntl")
    with pytest.raises(ValueError, match="run is in use by another process; wait for it to end"):
        claim(RunDir(run_dir.path, "run_pretraining"))


def test_a_folder_that_cannot_be_created_is_told(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="--output_dir=.*file/run cannot be created: Not a directory; give another"):
        claim(RunDir(str(tmp_path / "file" / "run"), "run_pretraining"))


def test_a_folder_with_files_of_another_program_is_refused_but_not_one_with_unrelated_files(tmp_path):
    (tmp_path / "train.tfrecord").write_text("mine")
    claim(RunDir(str(tmp_path), "run_pretraining"))
    os.remove(tmp_path / "run_config.json")
    for name in ("model.ckpt-7.index", "checkpoint", "metrics.csv", "bert_config.json"):
        (tmp_path / name).write_text("mine")
        with pytest.raises(ValueError, match=f"contains other files \\({name}\\); give a folder that is new or em"):
            claim(RunDir(str(tmp_path), "run_pretraining"))
        assert sorted(os.listdir(tmp_path)) == sorted([".lock", name, "train.tfrecord"])
        os.remove(tmp_path / name)


def test_a_folder_that_tensorflow_could_not_read_from_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"TensorFlow takes \[ \* \? in a path for a pattern; rename it"):
        RunDir(str(tmp_path / "run [1]"), "run_pretraining")
    assert not list(tmp_path.iterdir())


def test_a_remote_folder_holds_a_run_like_a_local_one():
    path = f"ram://{uuid.uuid4().hex}/run"
    run_dir = RunDir(path, "run_pretraining")
    assert run_dir.latest_step() == 0
    claim(run_dir)
    for step in range(1, 8):
        run_dir.save(step, make_state(float(step)))
    names = [f"model.ckpt-{step}.{end}" for step in range(3, 8) for end in ("data-00000-of-00001", "index")]
    assert paths.list_dir(path) == ["checkpoint", *names, "run_config.json"]
    again = RunDir(path, "run_pretraining")
    claim(again)
    assert again.latest_checkpoint() == f"{path}/model.ckpt-7"
    state = make_state(0.0)
    again.restore(state)
    assert state["bert/kernel"].numpy()[0, 0] == 7.0
    content = paths.read_bytes(f"{path}/model.ckpt-7.data-00000-of-00001")
    paths.remove(f"{path}/model.ckpt-7.data-00000-of-00001")  # the file system in memory cannot truncate files
    with paths.open_file(f"{path}/model.ckpt-7.data-00000-of-00001", "wb") as file:
        file.write(content[:-1])
    assert RunDir(path, "run_pretraining").latest_step() == 6


@pytest.mark.parametrize("code", [errno.ENOLCK, errno.ENOTSUP, errno.EINVAL])
def test_file_systems_without_locks_and_flushing_hold_runs(tmp_path, monkeypatch, code, messages):
    def refuse(*arguments):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr("fcntl.flock", refuse)
    monkeypatch.setattr(os, "fsync", refuse)
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    claim(run_dir)
    run_dir.save(3, make_state())
    assert run_dir.latest_step() == 3
    assert any("run has no locks" in message for message in messages)


def test_a_run_config_that_is_none_is_refused(tmp_path):
    path = tmp_path / "run_config.json"
    path.write_text("{")
    with pytest.raises(ValueError, match="run_config.json line 1: not valid JSON"):
        read_run_config(str(path))
    path.write_text("[]")
    with pytest.raises(ValueError, match="was not written by a run: it needs the keys program and settings"):
        read_run_config(str(path))
