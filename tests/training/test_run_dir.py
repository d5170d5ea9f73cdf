"""The run folder: its files, rejected folders, and its state after a kill."""

import errno
import json
import os
import pathlib
import re
import uuid

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.mistakes import Mistake
from bert_keras.runs.run_dir import RunDir, read_run_config
from bert_keras.storage import paths

SETTINGS = {"learning_rate": 0.1, "num_train_steps": 10}


def make_state(value=1.0):
    return {"global_step": tf.Variable(3, dtype=tf.int64), "bert/kernel": tf.Variable([[value, 2.0]])}


def restored_value(run_dir):
    state = make_state(0.0)
    run_dir.restore(state)
    return state["bert/kernel"].numpy()[0, 0]


def claim(run_dir, settings=None, facts=None, free=()):
    run_dir.claim({**SETTINGS, **(settings or {})}, facts or {}, free)


@pytest.fixture
def run_dir(tmp_path):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    claim(run_dir)
    return run_dir


@pytest.mark.parametrize("before", [[], ["notes.txt"]])
def test_a_start_that_is_refused_leaves_only_what_was_there(tmp_path, before):
    run_dir = RunDir(str(tmp_path / "run"), "run_pretraining")
    for name in before:
        run_dir.create()
        (tmp_path / "run" / name).touch()
    claim(run_dir)
    other = RunDir(run_dir.path, "run_pretraining")
    with pytest.raises(ValueError, match="is in use by another process"):
        claim(other)
    other.discard_start(before)
    assert run_dir.names() == sorted([*before, ".lock", "run_config.json"])
    for name in ("train.tf_record", "eval_predictions.tsv", "of a callback"):
        run_dir.write_text(name, "what took long")
        run_dir.discard_start(before)
        assert "run_config.json" in run_dir.names()
        os.remove(run_dir.file(name))
    run_dir.discard_start(before)
    assert run_dir.names() == before
    assert paths.exists(run_dir.path) == bool(before)


def test_the_newest_five_checkpoints_are_kept(run_dir):
    for step in range(1, 9):
        run_dir.save(step, make_state(float(step)))
    kept = sorted(name for name in os.listdir(run_dir.path) if name.endswith(".index"))
    assert kept == [f"model.ckpt-{step}.index" for step in range(4, 9)]
    assert run_dir.latest_step() == 8
    # TensorFlow and the original BERT find it as well.
    assert tf.train.latest_checkpoint(run_dir.path).endswith("model.ckpt-8")
    assert tf.train.get_checkpoint_state(run_dir.path).all_model_checkpoint_paths[0].endswith("model.ckpt-4")


def test_other_numbers_of_checkpoints_may_be_kept(run_dir):
    for step in range(1, 8):
        run_dir.save(step, make_state(), num_kept=0)
    assert len([name for name in os.listdir(run_dir.path) if name.endswith(".index")]) == 7
    run_dir.save(8, make_state(), num_kept=2)
    kept = sorted(name for name in os.listdir(run_dir.path) if name.endswith(".index"))
    assert kept == ["model.ckpt-7.index", "model.ckpt-8.index"]


def test_a_state_is_restored_bit_for_bit_and_one_with_other_names_is_refused(run_dir):
    run_dir.save(3, make_state(1 / 3))
    assert restored_value(run_dir) == np.float32(1 / 3)
    with pytest.raises(ValueError, match="does not hold the state of this run: bert/bias is not the same in both"):
        run_dir.restore({**make_state(), "bert/bias": tf.Variable(0.0)})
    with pytest.raises(ValueError, match="does not hold the state of this run: bert/kernel is not the same in both"):
        run_dir.restore({**make_state(), "bert/kernel": tf.Variable([1.0])})


@pytest.mark.parametrize("fails_at", ["data-00000-of-00001", "index", "checkpoint"])
def test_an_interrupted_save_leaves_the_checkpoint_before_it(run_dir, monkeypatch, fails_at):
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
    assert restored_value(run_dir) == 1.0
    run_dir.save(4, make_state(5.0))
    assert restored_value(run_dir) == 5.0


def test_files_that_a_kill_left_are_removed(run_dir):
    left = [".model.ckpt-4{}/x", "model/.vocab.txt{}", "tries/seed=1/.x{}", "tries/seed=1/model/.task.json{}"]
    left = [name.format(".unfinished-another-host-1-0123abcd") for name in [*left, ".train.tf_record{}", ".model{}/x"]]
    for name in [*left, "tries/notes.txt"]:
        os.makedirs(os.path.dirname(run_dir.file(name)), exist_ok=True)
        open(run_dir.file(name), "w").close()
    claim(run_dir)
    assert not [name for name in left if os.path.exists(run_dir.file(name))]
    assert not [name for name in os.listdir(run_dir.path) if "unfinished" in name]
    assert os.path.exists(run_dir.file("tries/notes.txt"))
    # A user's file with the name of the model's folder is not searched.
    os.rename(run_dir.file("model"), run_dir.file("other"))
    open(run_dir.file("model"), "w").close()
    claim(run_dir)


def test_without_the_file_that_names_it_the_highest_checkpoint_is_the_newest(run_dir):
    for step in (3, 4):
        run_dir.save(step, make_state())
    os.remove(run_dir.file("checkpoint"))
    assert run_dir.latest_step() == 4
    run_dir.write_text("checkpoint", 'model_checkpoint_path: "model.ckpt-9"\n')
    assert run_dir.latest_step() == 4
    run_dir.save(2, make_state())  # removes no checkpoint of a later step
    assert os.path.exists(run_dir.file("model.ckpt-4.index"))
    assert run_dir.latest_step() == 2


FULL = "No space left on device"


@pytest.mark.parametrize(
    "error",
    [tf.errors.ResourceExhaustedError(None, None, f"x; {FULL} [Op:SaveV2]"), OSError(errno.ENOSPC, FULL)],
    ids=["tensorflow", "python"],
)
def test_a_full_disk_is_told(run_dir, monkeypatch, error):
    run_dir.save(3, make_state())

    def fail(*arguments):
        raise error

    monkeypatch.setattr("bert_keras.modeling.checkpoints.tensorflow_format._save", fail)
    with pytest.raises(OSError, match=rf"run/model.ckpt-4 cannot be written \(.*{FULL}\); make .*3$"):
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
    assert restored_value(again) == 4.0
    again.save(5, make_state(7.0))
    assert RunDir(run_dir.path, "run_pretraining").latest_step() == 5


def test_a_run_whose_checkpoints_are_all_damaged_does_not_start_again(run_dir):
    for step in (3, 4):
        run_dir.save(step, make_state())
        cut(run_dir.file(f"model.ckpt-{step}.index"))
    with pytest.raises(ValueError, match=r"no checkpoint in .*run can be read: .*4.index cannot be read .*; copy"):
        RunDir(run_dir.path, "run_pretraining").latest_step()


def test_an_object_that_may_not_write_changes_nothing(run_dir):
    def contents():
        return {path: path.read_bytes() for path in pathlib.Path(run_dir.path).rglob("*") if path.is_file()}

    run_dir.save(3, make_state())
    run_dir.within("model").create()
    run_dir.write_text("model/task.json", "{}")
    before = contents()
    reader = RunDir(run_dir.path, "run_pretraining", is_writable=False)
    claim(reader, {"learning_rate": 9})
    assert reader.latest_step() == 3
    reader.save(4, make_state())
    assert reader.latest_step() == 4  # saved by the chief
    reader.write_text("metrics.csv", "mine")
    reader.remove("checkpoint")
    reader.forget_checkpoints()
    reader.remove_dir("model")
    reader.replace_dir("model", "nowhere")
    model = reader.within("model")
    model.create()
    model.save(4, make_state())
    assert contents() == before


def test_a_run_resumes_that_lacks_newer_settings_if_they_are_off(run_dir):
    claim(run_dir)
    run_dir.save(3, make_state())
    with pytest.raises(ValueError, match=r"eval_share was not given and is 0\.2 now"):
        claim(run_dir, {"eval_share": 0.2})
    claim(run_dir, {"eval_share": 0.0, "doc_stride": None, "calibrate": False})


def test_the_same_settings_may_resume_and_take_more_steps(run_dir, messages):
    claim(run_dir, {"learning_rate": 0.2})  # nothing was saved, so other settings replace the old ones
    run_dir.save(3, make_state())
    claim(run_dir, {"learning_rate": 0.2, "num_train_steps": 20})
    assert messages == ["num_train_steps was 10 and is 20 now; the learning rate follows the longer schedule"]
    settings = read_run_config(run_dir.file("run_config.json"))["settings"]
    assert settings == {"learning_rate": 0.2, "num_train_steps": 20}
    claim(run_dir, {"num_train_steps": 20}, free=("learning_rate",))
    # A run that counts in epochs has no number of steps.
    run_dir.claim({"num_train_epochs": 3.0}, {}, ("learning_rate", "num_train_steps", "num_train_epochs"))
    with pytest.raises(ValueError, match="num_train_epochs was 3.0 and is 4.0 now"):
        run_dir.claim({"num_train_epochs": 4.0}, {}, ())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ({}, {"settings": {"num_train_steps": 9}}, "num_train_steps was 10 and is 9 now"),
        ({}, {"settings": {"seed": 1}}, "seed was not given and is 1 now"),
        (
            {"facts": {"config": {"a": 8, "b": 2}}},
            {"facts": {"config": {"a": 9, "b": 2}}},
            "config: a was 8 and is 9 now",
        ),
        ({"facts": {"labels": ["a", "b"]}}, {"facts": {"labels": ["a"]}}, "labels was ['a', 'b'] and is ['a'] now"),
        ({"facts": {"vocab_sha256": "a1"}}, {"facts": {"vocab_sha256": "b2"}}, "vocab content has changed"),
        # JSON makes lists of tuples.
        ({"settings": {"columns": (1, 2)}}, {"settings": {"columns": (1, 2)}}, None),
        ({"settings": {"columns": (1, 2)}}, {"settings": {"columns": (1,)}}, "columns was [1, 2] and is [1] now"),
    ],
    ids=["steps", "not given", "part", "fact", "digest", "tuple", "tuple differs"],
)
def test_other_settings_are_refused_and_named(run_dir, old, new, message):
    claim(run_dir, **old)
    run_dir.save(3, make_state())
    if message is None:
        claim(run_dir, **new)
        return
    with pytest.raises(ValueError, match=f"holds a run with other settings: {re.escape(message)}; give the old"):
        claim(run_dir, **new)


def test_folders_in_use_or_of_another_program_are_refused(run_dir):
    with pytest.raises(ValueError, match="holds a run of run_pretraining; give run_squad another folder"):
        RunDir(run_dir.path, "run_squad")
    pytest.importorskip("fcntl")
    with pytest.raises(ValueError, match="run is in use by another process; wait for it to end"):
        claim(RunDir(run_dir.path, "run_pretraining"))


def test_folders_that_cannot_be_created_or_read_are_refused(tmp_path):
    (tmp_path / "file").write_text("mine")
    with pytest.raises(OSError, match="output_dir=.*file/run cannot be created: Not a directory; give another"):
        claim(RunDir(str(tmp_path / "file" / "run"), "run_pretraining"))
    (tmp_path / "link").symlink_to(tmp_path / "gone")
    for name, found in (("file", "a file, not a folder"), ("link", "a link to .*gone, which does not exist")):
        with pytest.raises(OSError, match=f"output_dir=.*{name} is {found}; give another folder$"):
            claim(RunDir(str(tmp_path / name), "run_pretraining"))
    with pytest.raises(ValueError, match=r"TensorFlow takes \[ \* \? in a path for a pattern; rename it"):
        RunDir(str(tmp_path / "run [1]"), "run_pretraining")


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
    assert restored_value(again) == 7.0
    content = paths.read_bytes(f"{path}/model.ckpt-7.data-00000-of-00001")
    paths.remove(f"{path}/model.ckpt-7.data-00000-of-00001")  # the file system in memory cannot truncate files
    with paths.open_file(f"{path}/model.ckpt-7.data-00000-of-00001", "wb") as file:
        file.write(content[:-1])
    assert RunDir(path, "run_pretraining").latest_step() == 6


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{", "line 1: not valid JSON"),
        ("[]", "was not written by a run: it needs the keys program and settings"),
        ("{\xff}", "line 1: not UTF-8"),
    ],
    ids=["no JSON", "a list", "no UTF-8"],
)
def test_a_run_config_that_is_not_one_is_refused(tmp_path, text, message):
    (tmp_path / "run_config.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(Mistake, match=f"run_config.json {message}"):
        read_run_config(str(tmp_path / "run_config.json"))


def test_the_data_of_a_call_are_found_in_a_folder_that_was_moved(tmp_path):
    before, now = str(tmp_path / "before"), tmp_path / "now"
    files = {"train_file": f"{before}/data/a.csv", "eval_file": f"{before}/b.csv", "predict_file": "c.csv"}
    (now / "data").mkdir(parents=True)
    (now / "data" / "a.csv").touch()
    (now / "run_config.json").write_text(json.dumps({"program": "x", "settings": {**files, "output_dir": before}}))
    settings = read_run_config(str(now / "run_config.json"))["settings"]
    assert settings == {**files, "output_dir": before, "train_file": str(now / "data" / "a.csv")}
