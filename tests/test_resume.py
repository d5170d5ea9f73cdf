"""Runs that are stopped, killed, finished or started again, also in an object store (TensorFlow's `ram://`)."""

import json
import pathlib
import shutil
import subprocess
import sys
import uuid

import made_up_task
import pytest
import tensorflow as tf
from eager import without_graphs
from pretraining_runs import argv_of, make_files, run
from states import assert_bit_equal, weights_in
from training_runs import rows_of, stop_after

from bert_keras.engine.distribution import tpu
from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name
from bert_keras.storage import paths

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_config, write_records):
    """The flags and metrics of a finished run. Tests must not change its folder."""
    folder = tmp_path_factory.mktemp("whole")
    flags = make_files(folder, tiny_config, write_records)
    (folder / "vocab.txt").write_text("".join(f"word{number}\n" for number in range(40)))
    save_checkpoint(folder / "start" / "model.ckpt-1", weights_by_name(PretrainingModel(tiny_config)))
    flags |= {"init_checkpoint": folder / "start" / "model.ckpt-1", "vocab_file": folder / "vocab.txt"}
    flags |= {"do_train": True, "do_eval": True, "deterministic": True, "iterations_per_loop": 1, "log_steps": 1}
    with without_graphs():
        return flags, run(flags)


@pytest.fixture
def files(tmp_path, tiny_config, write_records):
    return make_files(tmp_path, tiny_config, write_records)


@pytest.fixture
def store():
    return f"ram://{uuid.uuid4().hex}"


@pytest.fixture
def stand_in_tpu(monkeypatch):
    """The only device of the tests acts as a TPU of another machine."""
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", lambda tpu, zone, project: tpu)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: None)
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: None)
    one_device = {"__new__": lambda kind, resolver: tf.distribute.get_strategy()}
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type("TPUStrategy", (), one_device))
    monkeypatch.setattr(tpu, "is_tpu", lambda strategy: False)
    tpu._strategy.cache_clear()
    yield
    tpu._strategy.cache_clear()


def upload(folder, store):
    """Copies the files of a folder and its subfolders, except those of a run."""
    for path in folder.rglob("*"):
        if path.is_file() and "model" not in path.relative_to(folder).parts:
            paths.copy(str(path), paths.join(store, *path.relative_to(folder).parts))


@pytest.mark.slow  # several runs; tests/training/test_loop.py stops shorter ones
@pytest.mark.usefixtures("no_graphs")
def test_a_run_that_sigterm_stopped_continues_as_if_it_had_not(whole, store, stand_in_tpu, monkeypatch, capsys):
    """The recipe of the original BERT for a TPU, whose files are in an object store."""
    flags, metrics = whole
    local, folder = flags["output_dir"], flags["output_dir"].parent
    upload(folder, store)
    flags = {
        name: f"{store}/{value.relative_to(folder)}" if isinstance(value, pathlib.Path) else value
        for name, value in flags.items()
    }
    flags |= {"use_tpu": True, "tpu_name": "mine"}
    with monkeypatch.context() as patch:
        stop_after(patch, 6)
        assert run(flags) is None
    assert "stopped by SIGTERM after step 7, which is saved; the same command continues" in capsys.readouterr().out
    assert weights_in(f"{store}/model")["global_step"] == 7
    assert not paths.exists(f"{store}/model/eval_results.txt")
    assert run(flags) == metrics
    assert_bit_equal(weights_in(f"{store}/model"), weights_in(local))
    assert rows_of(f"{store}/model") == rows_of(local)
    for name in ("bert_config.json", "vocab.txt", "eval_results.txt"):
        assert paths.read_bytes(f"{store}/model/{name}") == (local / name).read_bytes(), name
    settings = json.loads(paths.read_text(f"{store}/model/run_config.json"))["settings"]
    assert settings["output_dir"] == f"{store}/model"
    # Evaluation only, by another command.
    del flags["init_checkpoint"]
    assert run(flags, do_train=False) == metrics


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_finished_run_may_be_made_longer_but_not_shorter_or_different(whole, tmp_path, capsys):
    flags = {**whole[0], "output_dir": shutil.copytree(whole[0]["output_dir"], tmp_path / "run"), "do_eval": False}
    config = json.loads(flags["bert_config_file"].read_text())
    (tmp_path / "other.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.0}))
    for changes, message in (
        ({"num_train_steps": 11}, "run with other settings: num_train_steps was 12 and is 11 now; give the"),
        ({"num_train_steps": 13, "learning_rate": 0.02}, "other settings: learning_rate was 0.01 and is 0.02 now"),
        ({"bert_config_file": tmp_path / "other.json"}, "bert_config: hidden_dropout_prob was 0.1 and is 0.0 now"),
    ):
        with pytest.raises(ValueError, match=message):
            run(flags, **changes)
    assert json.loads((flags["output_dir"] / "bert_config.json").read_text()) == config
    run(flags, num_train_steps=14, log_steps=1)
    assert weights_in(flags["output_dir"])["global_step"] == 14
    assert "is 14 now; the learning rate follows the longer schedule" in capsys.readouterr().out
    last = (flags["output_dir"] / "metrics.csv").read_text().splitlines()[-1].split(",")
    assert last[0] == "14"
    assert float(last[2]) == pytest.approx(0.01 * (1 - 13 / 14))


@pytest.mark.slow  # the run; tests/training/test_run_dir.py compares facts
def test_other_examples_under_the_same_names_are_refused(files, whole, write_records):
    shutil.copytree(whole[0]["output_dir"], files["output_dir"])
    config = json.loads((files["output_dir"] / "run_config.json").read_text())
    config["facts"]["num_examples"] = {"file 1 (train.tfrecord)": 40}
    (files["output_dir"] / "run_config.json").write_text(json.dumps(config))
    write_records(files["input_file"], 39)
    with pytest.raises(
        ValueError, match="num_examples: file 1 .train.tfrecord. was 40 and is 39 now; records content has"
    ):
        run(files, do_train=True)


# Runs the program in processes that kill themselves with SIGKILL, each at one of the given places. They are
# forks: a new process would spend most of its time on importing TensorFlow.
_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
from bert_keras.programs.command import PROGRAMS
import tensorflow as tf
from bert_keras.engine import loop
places, argv = sys.argv[2].split(","), sys.argv[3:]

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

replace = os.replace
def killing_replace(source, target):
    if place.startswith("replacing ") and str(target).endswith(place.removeprefix("replacing ")):
        kill()
    replace(source, target)
os.replace = killing_replace

steps = loop.steps_until_due
def killing_steps(settings, step):
    if place == f"after step {step}":
        kill()
    return steps(settings, step)
loop.steps_until_due = killing_steps

for place in places:
    process = os.fork()
    if not process:
        tf.config.run_functions_eagerly(True)
        PROGRAMS["run_pretraining"].main(["run_pretraining.py", *argv])
        sys.stdout.flush()
        os._exit(0)
    print(place, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@pytest.mark.slow  # five processes
@pytest.mark.usefixtures("no_graphs")
def test_killed_runs_end_with_the_very_weights_of_one_that_was_not(files, tmp_path, write_records):
    for number in range(3):
        write_records(tmp_path / f"part-{number}.tfrecord", 9 + number, seed=number)
    flags = {**files, "input_file": tmp_path / "part-*.tfrecord", "do_train": True, "deterministic": True}
    flags["iterations_per_loop"] = 1
    run({**flags, "output_dir": tmp_path / "whole"})
    places = [
        "replacing checkpoint",  # the checkpoint of step 4 is complete, but `checkpoint` does not name it
        "after step 6",  # between checkpoints
        "replacing model.ckpt-8.data-00000-of-00001",  # the data file has no final name
        "replacing model.ckpt-8.index",  # the data file has its name, its index does not
    ]
    argv = argv_of({**flags, "output_dir": tmp_path / "killed"})[1:]
    command = [sys.executable, "-c", _KILLED, str(ROOT), ",".join([*places, "nowhere"]), *argv]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    ended = [f"{place} -9" for place in places] + ["nowhere 0"]
    assert [line for line in done.stdout.splitlines() if line in ended] == ended, done.stderr
    last = done.stdout.partition(f"{ended[-2]}\n")[2]
    assert "resuming from" in last
    assert_bit_equal(weights_in(tmp_path / "whole"), weights_in(tmp_path / "killed"))
    assert not list((tmp_path / "killed").glob(".*unfinished*"))


@pytest.mark.slow  # five runs
@pytest.mark.usefixtures("no_graphs")
def test_a_fine_tuned_model_is_kept_in_an_object_store(tmp_path, store, monkeypatch):
    start = made_up_task.write_start(tmp_path / "start")
    upload(tmp_path / "start", f"{store}/start")
    flags = {"do_predict": True, "eval_steps": 2, "num_seeds": 2, "num_train_epochs": 1}

    def train(output_dir, start):
        task = made_up_task.MadeUp(does_predict=True)
        return made_up_task.run(task, output_dir, init_checkpoint=start, **flags)

    expected = train(tmp_path / "run", start)
    with monkeypatch.context() as patch:
        stop_after(patch, 1)
        assert train(f"{store}/run", f"{store}/start") is None
    assert train(f"{store}/run", f"{store}/start") == expected
    for name in ("evaluation.json", "answers.json", "tries.tsv", "eval_results.txt", "model/task.json"):
        assert paths.read_bytes(f"{store}/run/{name}") == (tmp_path / "run" / name).read_bytes(), name
    assert_bit_equal(weights_in(tmp_path / "run" / "model"), weights_in(f"{store}/run/model"))
    # Only the model, for another command's data.
    task = made_up_task.MadeUp(does_predict=True)
    assert made_up_task.run(task, f"{store}/run", do_train=False) == expected
    assert made_up_task.run(task, tmp_path / "new", do_train=False, init_checkpoint=f"{store}/run") == expected
