"""--verify: the last steps of a run give the same numbers again, or the program names those that differ."""

import json
import os
import pathlib
import re
import shutil

import keras
import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from pretraining_runs import argv_of, make_files
from tiny_classes import run, write_start, write_texts
from training_programs import run_classifier, run_pretraining
from training_runs import stop_after

from bert_keras.mistakes import Mistake
from bert_keras.modeling import open_checkpoint, save_checkpoint

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def classifier(tmp_path_factory):
    """The folder of a finished run of a classifier with the checkpoints of the steps 2, 4 and 6."""
    folder = tmp_path_factory.mktemp("classifier")
    files = {"init_checkpoint": write_start(folder / "start"), "train_file": write_texts(folder / "train.csv", 40, 1)}
    files |= {"eval_file": write_texts(folder / "dev.csv", 8, 2), "max_seq_length": 12, "train_batch_size": 4}
    flags = {
        "max_steps": 6,
        "save_checkpoints_steps": 2,
        "eval_steps": 3,
        "ema_decay": 0.9,
        "metric": "f1_macro",
        "deterministic": True,
    }
    with without_graphs():  # as the tests
        run(files, "do_train", "do_eval", output_dir=folder / "run", **flags)
    return folder / "run"


@pytest.fixture
def out(classifier, tmp_path):
    return shutil.copytree(classifier, tmp_path / "out")


def verify(program, folder, *more):
    return program.main([f"{program.name}.py", "--verify", f"--output_dir={folder}", *more])


def state_of(folder):
    files = [os.path.join(path, name) for path, _, names in os.walk(folder) for name in names]
    return {file: pathlib.Path(file).read_bytes() for file in files}


def lines_of(capsys):
    return [line for line in capsys.readouterr().out.splitlines() if "repeating" in line or "verified" in line]


def test_the_last_steps_of_a_run_give_the_same_numbers(out, capsys):
    before = state_of(out.parent)
    assert verify(run_classifier, out) is None
    repeated, verified = lines_of(capsys)
    assert repeated == "repeating the steps 5 to 6 from the checkpoint of step 4"
    checkpoint = open_checkpoint(out / "model.ckpt-6")
    size = sum(int(np.prod(checkpoint.shape(name))) for name in checkpoint.names)
    names = len(checkpoint.names)
    assert verified == f"verified: all {size:,} numbers of {names} arrays are the same, bit by bit"
    assert state_of(out.parent) == before  # and no folder is left


def test_one_of_several_processes_is_refused(out, monkeypatch):
    message = "^verify repeats the steps in one process, but this is one of several; start it once, without coordinator"
    with pytest.raises(Mistake, match=message):
        verify(run_classifier, out, "--coordinator_address=127.0.0.1:4000", "--num_processes=2", "--process_id=0")
    cluster = {"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 0}}
    monkeypatch.setenv("TF_CONFIG", json.dumps(cluster))
    with pytest.raises(Mistake, match=message):
        verify(run_classifier, out)
    assert verify(run_classifier, out, "--strategy=one") is None


def test_a_run_with_one_checkpoint_is_repeated_from_the_start(out, capsys):
    for step in (2, 4):
        for path in out.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    verify(run_classifier, out)
    assert lines_of(capsys)[0] == "repeating the steps 1 to 6 from the start"


def change_a_number(out, name):
    prefix = str(out / "model.ckpt-6")
    checkpoint = open_checkpoint(prefix)
    state = {each: tf.Variable(checkpoint.read(each)) for each in checkpoint.names}
    assert name in state
    place = (0,) * len(state[name].shape)
    changed = state[name].numpy()
    changed[place] = np.nextafter(changed[place], np.float32(9))
    state[name].assign(changed)
    save_checkpoint(prefix, state)


def test_a_number_that_differs_is_named(out):
    name = "output_bias/adam_m"
    change_a_number(out, name)
    before = state_of(out.parent)
    with pytest.raises(Mistake, match=rf"^verify: 1 of \d+ arrays differ: {name} by up to \d") as error:
        verify(run_classifier, out)
    assert str(error.value).endswith("; other numbers of threads round differently")
    assert state_of(out.parent) == before


def test_other_versions_are_named_as_the_reason(out):
    change_a_number(out, "output_bias")
    state = json.loads((out / "state.json").read_text())
    assert state["processes"]["first"] == state["processes"]["last"]
    state["processes"]["last"]["keras"] = "3.14.0"
    (out / "state.json").write_text(json.dumps(state))
    with pytest.raises(Mistake, match=rf"; keras: 3\.14\.0, now {re.escape(keras.__version__)}$"):
        verify(run_classifier, out)


def test_changed_data_are_refused(out):
    data = out.parent / "train.csv"
    write_texts(data, 40, 3)
    with pytest.raises(Mistake, match="holds a run with other settings: data: their content has changed|their_sha256"):
        verify(run_classifier, out, f"--train_file={data}")


def test_an_interrupted_run_is_verified_up_to_its_step(tmp_path, tiny_config, write_records, capsys):
    flags = make_files(tmp_path, tiny_config, write_records) | {
        "deterministic": True,
        "iterations_per_loop": 1,
        "save_checkpoints_steps": 3,
    }
    with pytest.MonkeyPatch.context() as patch:
        stop_after(patch, 4)
        assert run_pretraining.main(argv_of(flags, do_train=True, do_eval=True)) is None
    verify(run_pretraining, flags["output_dir"])
    repeated, verified = lines_of(capsys)[-2:]
    assert repeated == "repeating the steps 4 to 5 from the checkpoint of step 3"
    assert "bit by bit" in verified


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        ([], "missing: output_dir"),
        (["--output_dir=gs://bucket/run"], "verify needs a local folder, but output_dir is gs://bucket/run; copy"),
        (["--output_dir=EMPTY"], "has no run with a checkpoint to compare; give the folder of one"),
        (["--output_dir=EMPTY", "--dry_run"], "dry_run and verify do different things; give one of them"),
    ],
)
def test_mistakes(tmp_path, flags, message):
    flags = [flag.replace("EMPTY", str(tmp_path)) for flag in flags]
    with pytest.raises(Mistake, match=message):
        run_classifier.main(["run_classifier.py", "--verify", *flags])


@pytest.mark.parametrize("given", ["learning_rate=1", "gradient_accumulation_steps=2", "max_steps=9"])
def test_another_setting_than_that_of_the_run_is_refused(out, given):
    name = given.partition("=")[0]
    message = rf"^verify repeats the run with its own settings, and {name}=\S+ is not its \S+; leave it out$"
    with pytest.raises(Mistake, match=message):
        verify(run_classifier, out, f"--{given}")


def test_the_folder_of_a_search_is_refused(out):
    (out / "tries.tsv").write_text("try\n")
    with pytest.raises(Mistake, match=r"has several runs; give the folder of one in .*out/tries$"):
        verify(run_classifier, out)
