"""Runs with files in an object store, simulated by TensorFlow's file system in memory, `ram://`."""

import json
import os
import signal
import uuid

import made_up_task
import pytest
import tensorflow as tf
from pretraining_runs import assert_bit_equal, make_files, run, weights_in

from bert_keras.modeling import PretrainingModel, save_checkpoint, weights_by_name
from bert_keras.storage import paths
from bert_keras.training.distribution import tpu
from bert_keras.training.loop import Pace
from bert_keras.training.metrics_log import read_metrics


@pytest.fixture
def store():
    return f"ram://{uuid.uuid4().hex}"


@pytest.fixture
def stand_in_tpu(monkeypatch):
    """The only device of the tests acts as a TPU of another machine."""
    monkeypatch.setattr(tf.distribute.cluster_resolver, "TPUClusterResolver", lambda tpu, zone, project: tpu)
    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", lambda resolver: None)
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", lambda resolver: None)
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda resolver: tf.distribute.get_strategy())
    monkeypatch.setattr(tpu, "is_tpu", lambda strategy: False)
    tpu._strategy.cache_clear()
    yield
    tpu._strategy.cache_clear()


def upload(folder, store):
    """Copies the files of a folder and its subfolders."""
    for path in folder.rglob("*"):
        if path.is_file():
            paths.copy(str(path), paths.join(store, *path.relative_to(folder).parts))


def without_speed(path):
    return [{**row, "examples_per_second": ""} for row in read_metrics(str(path))]


def stop_before(monkeypatch, step):
    steps_until_due = Pace.steps_until_due

    def stopping(self, at):
        if at == step:
            os.kill(os.getpid(), signal.SIGTERM)
        return steps_until_due(self, at)

    monkeypatch.setattr(Pace, "steps_until_due", stopping)


def test_the_recipe_of_the_original_for_a_tpu_trains_in_an_object_store(
    tmp_path, store, stand_in_tpu, tiny_config, write_records, monkeypatch
):
    files = make_files(tmp_path, tiny_config, write_records)
    (tmp_path / "vocab.txt").write_text("\n".join(f"word{number}" for number in range(40)) + "\n")
    more = {"do_train": True, "do_eval": True, "deterministic": True, "iterations_per_loop": 1, "log_steps": 1}
    save_checkpoint(tmp_path / "start" / "model.ckpt-1", weights_by_name(PretrainingModel(tiny_config)))
    upload(tmp_path, store)
    local = {"init_checkpoint": tmp_path / "start" / "model.ckpt-1", "vocab_file": tmp_path / "vocab.txt"}
    expected = run({**files, **local, **more})

    remote = {
        name: f"{store}/{path.relative_to(tmp_path)}"
        for name, path in {**files, **local}.items()
        if hasattr(path, "parent")
    }
    remote = {**files, **remote, **more, "use_tpu": True, "tpu_name": "mine"}
    with monkeypatch.context() as patch:
        stop_before(patch, 6)
        assert run(remote) is None
    assert f"{store}/model/model.ckpt-7.index" in paths.glob(f"{store}/model/*")
    assert run(remote) == expected
    assert_bit_equal(weights_in(tmp_path / "model"), weights_in(f"{store}/model"))
    assert without_speed(f"{store}/model/metrics.csv") == without_speed(tmp_path / "model" / "metrics.csv")
    for name in ("bert_config.json", "vocab.txt", "eval_results.txt"):
        assert paths.read_bytes(f"{store}/model/{name}") == (tmp_path / "model" / name).read_bytes(), name
    settings = json.loads(paths.read_text(f"{store}/model/run_config.json"))["settings"]
    assert settings["output_dir"] == f"{store}/model"
    # Evaluation only, by another command.
    assert run({**remote, "do_train": False}) == expected


@pytest.mark.slow  # five runs
def test_a_fine_tuned_model_is_kept_in_an_object_store(tmp_path, store, monkeypatch):
    start = made_up_task.write_start(tmp_path / "start")
    upload(tmp_path / "start", f"{store}/start")
    flags = {"do_predict": True, "eval_steps": 2, "num_seeds": 2, "num_train_epochs": 1}

    def train(output_dir, start):
        task = made_up_task.MadeUp(does_predict=True)
        return made_up_task.run(task, output_dir, init_checkpoint=start, **flags)

    expected = train(tmp_path / "run", start)
    with monkeypatch.context() as patch:
        stop_before(patch, 1)
        assert train(f"{store}/run", f"{store}/start") is None
    assert train(f"{store}/run", f"{store}/start") == expected
    for name in ("evaluation.json", "answers.json", "tries.tsv", "eval_results.txt", "model/task.json"):
        assert paths.read_bytes(f"{store}/run/{name}") == (tmp_path / "run" / name).read_bytes(), name
    assert_bit_equal(weights_in(tmp_path / "run" / "model"), weights_in(f"{store}/run/model"))
    # Only the model, for another command's data.
    task = made_up_task.MadeUp(does_predict=True)
    assert made_up_task.run(task, f"{store}/run", do_train=False) == expected
    assert made_up_task.run(task, tmp_path / "new", do_train=False, init_checkpoint=f"{store}/run") == expected
