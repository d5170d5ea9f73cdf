"""Several workers on this machine, over real connections, give the numbers of one device; also lost workers."""

import dataclasses
import json
import os
import shutil
import signal
import sys

import made_up_task
import numpy as np
import pytest
from pretraining_runs import argv_of, make_files, run
from states import assert_bit_equal, weights_in
from training_runs import rows_of
from workers import KILL, NOTHING, PRETRAIN, STOP, run_workers

# TensorFlow needs four seconds to start in each process, and there are many.
pytestmark = pytest.mark.slow

# A second signal, after training but before the end of the run: it arrives late at one of several workers.
STOP_LATE = f"""
draw_learning_curves = pretraining.draw_learning_curves
def stopped(run_dir):
    {STOP}
    draw_learning_curves(run_dir)
pretraining.draw_learning_curves = stopped
"""
# A checkpoint has 24 kB, so this stops in the middle.
FILL_DISK = "resource.setrlimit(resource.RLIMIT_FSIZE, (12_000, resource.getrlimit(resource.RLIMIT_FSIZE)[1]))"


@pytest.fixture(scope="module")
def files(tmp_path_factory, tiny_config, write_records):
    config = dataclasses.replace(tiny_config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    files = make_files(tmp_path_factory.mktemp("workers"), config, write_records)
    files |= {"do_train": True, "do_eval": True, "eval_file": files["input_file"].with_name("held_out.tfrecord")}
    return {**files, "log_steps": 1, "iterations_per_loop": 1, "learning_rate": 1e-4, "deterministic": True}


@pytest.fixture(scope="module")
def two_workers(files):
    """The folder of a run of two workers, and their exit statuses and output."""
    folder = files["output_dir"].with_name("two")
    return folder, run_workers(2, PRETRAIN, *NOTHING, *argv_of(files, output_dir=folder)[1:])


def assert_close(first, second):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], rtol=0, atol=1e-6, err_msg=name)


def figures_of(folder):
    """Returns the rows of metrics.csv without the speed."""
    rows = [row.split(",")[:-1] for row in (folder / "metrics.csv").read_text().splitlines()]
    return rows[0], [row[1] for row in rows], np.array([[float(cell or 0) for cell in row[2:]] for row in rows[1:]])


def test_two_workers_train_and_evaluate_as_one_device(files, two_workers):
    folder, ended = two_workers
    assert [status for status, _, _ in ended] == [0, 0], ended
    one = run(files)
    (columns, splits, figures), (other_columns, other_splits, others) = map(figures_of, (files["output_dir"], folder))
    assert (columns, splits) == (other_columns, other_splits)
    assert splits == ["split", *["train"] * 12, "eval"]
    np.testing.assert_allclose(others, figures, rtol=0, atol=2e-6)
    assert_close(weights_in(files["output_dir"]), weights_in(folder))
    assert one["loss"] == pytest.approx(figures[-1][1], abs=1e-6)


def test_the_chief_alone_tells_and_writes(files, two_workers):
    folder, ((_, told, _), (_, other_told, _)) = two_workers
    assert "training: steps 1 to 12 of 8 examples each, 4 at a time" in told
    assert "batch: 8 examples = 2 devices x 1 part x 4 examples" in told
    assert other_told.splitlines() == [
        "this is worker 1; waiting for all 2 workers to start",
        "devices: 2 of 2 workers, 1 of each",
        "worker 1 of 2: only the chief writes the log",
    ]
    names = {name for name in os.listdir(folder) if not name.startswith("events")}
    assert names <= {".lock", "bert_config.json", "checkpoint", "eval", "eval_results.txt", "learning_curves.png"} | {
        *("metrics.csv", "run_config.json", "state.json"),
        *(f"model.ckpt-{step}.{end}" for step in (4, 8, 12) for end in ("index", "data-00000-of-00001")),
    }


def test_killed_workers_end_the_others_and_go_on_to_the_very_same_weights(files, two_workers, tmp_path):
    argv = argv_of(files, output_dir=tmp_path / "run")[1:]
    for lost, step, saved in ((1, 6, 4), (0, 10, 8)):
        ended = run_workers(2, PRETRAIN, lost, step, KILL, *argv)
        assert ended[lost][0] == -signal.SIGKILL
        status, _, error = ended[1 - lost]
        assert status not in (0, None)
        assert weights_in(tmp_path / "run")["global_step"] == saved
        assert f"in all workers continues from step {saved}, the last that is saved" in error
        assert "Traceback" not in error
    ended = run_workers(2, PRETRAIN, *NOTHING, *argv)
    assert [status for status, _, _ in ended] == [0, 0], ended
    assert "training: steps 9 to 12" in ended[0][1]
    assert_bit_equal(weights_in(two_workers[0]), weights_in(tmp_path / "run"))
    assert figures_of(tmp_path / "run")[1] == figures_of(two_workers[0])[1]
    assert not list((tmp_path / "run").glob(".[!l]*"))


@pytest.mark.skipif(sys.platform != "linux", reason="a link that leads each worker to another file needs Linux")
@pytest.mark.rare
def test_what_happens_to_a_worker_costs_only_what_was_not_saved(files, two_workers, tmp_path):
    folders = [tmp_path / "first", tmp_path / "second"]
    for folder in folders:
        folder.mkdir()
        shutil.copy(files["input_file"], folder / "train.tfrecord")
    # Each worker has its own copy, as on several machines.
    (tmp_path / "train.tfrecord").symlink_to("/proc/self/cwd/train.tfrecord")
    argv = argv_of(files, output_dir=tmp_path / "run", input_file=tmp_path / "train.tfrecord")[1:]

    def end(worker, step, action):
        ended = run_workers(2, PRETRAIN, worker, step, action, *argv, folders=folders)
        assert not [error for _, _, error in ended if "Traceback" in error], ended
        return ended, int(weights_in(tmp_path / "run")["global_step"])

    # The run reopens the file after five steps, or after ten if it had just reopened it.
    ended, saved = end(1, 1, "os.rename('train.tfrecord', 'away')")
    assert [status for status, _, _ in ended] == [1, 1], ended
    assert saved in (4, 8)
    gone = "train.tfrecord; No such file or directory); when they can, the same command continues from step"
    assert f"{gone} {saved}\n" in ended[1][2]
    assert f"continues from step {saved}, the last that is saved" in ended[0][2]
    (folders[1] / "away").rename(folders[1] / "train.tfrecord")

    ended, saved_then = end(0, saved + 3, FILL_DISK)
    assert [status for status, _, _ in ended] == [1, 1], ended
    assert saved_then == saved
    assert f"the checkpoint {tmp_path / 'run'}/model.ckpt-{saved + 4} cannot be written (" in ended[0][2]
    assert f"make room there, and the same command continues from step {saved}" in ended[0][2]
    assert f"continues from step {saved}, the last that is saved" in ended[1][2]

    ended, saved_then = end("all", saved + 1, STOP_LATE + STOP)
    assert [status for status, _, _ in ended] == [143, 143], ended
    assert saved_then == saved + 2
    assert f"stopped by SIGTERM after step {saved + 2}, which is saved; the same command continues" in ended[0][1]

    ended, saved = end(*NOTHING)
    assert [status for status, _, _ in ended] == [0, 0], ended
    assert saved == 12
    assert_bit_equal(weights_in(two_workers[0]), weights_in(tmp_path / "run"))
    assert figures_of(tmp_path / "run")[1] == figures_of(two_workers[0])[1]
    assert not list((tmp_path / "run").glob(".[!l]*"))


def test_a_worker_that_is_asked_to_stop_stops_all_of_three_after_one_step(files, tmp_path):
    argv = argv_of(files, output_dir=tmp_path / "run")[1:]
    stop = f"{STOP_LATE}\nif index == '2': {STOP}"
    ended = run_workers(3, PRETRAIN, "all", 5, stop, *argv, "--train_batch_size=12")
    assert [status for status, _, _ in ended] == [143, 143, 143], ended
    assert "stopped by SIGTERM after step 6, which is saved; the same command continues" in ended[0][1]
    assert weights_in(tmp_path / "run")["global_step"] == 6
    assert not (tmp_path / "run" / "eval_results.txt").exists()
    # One device continues the run of three workers.
    run(files, output_dir=tmp_path / "run", train_batch_size=12)
    run(files, output_dir=tmp_path / "one", train_batch_size=12)
    assert_close(weights_in(tmp_path / "one"), weights_in(tmp_path / "run"))


# Fine-tunes, keeps the best of several evaluations, and predicts.
FINE_TUNE = """
import sys
sys.argv[1:] = sys.argv[2:]
from made_up_task import MadeUp, run
run(MadeUp(does_predict=True), sys.argv[2], init_checkpoint=sys.argv[1], do_predict=True, eval_steps=2)
"""


def test_fine_tuned_by_two_workers_a_model_gives_one_device_the_same_answers(tmp_path):
    start, folder = made_up_task.write_start(tmp_path / "start"), tmp_path / "run"
    ended = run_workers(2, FINE_TUNE, start, folder)
    assert [status for status, _, _ in ended] == [0, 0], ended
    assert len([row for row in rows_of(folder) if row["split"] == "eval"]) == 3
    names = ("answers.json", "predictions.json", "evaluation.json")
    of_two = {name: json.loads((folder / name).read_text()) for name in names}
    assert [len(of_two[name]) for name in names[:2]] == [10, 5]  # each row once; no batch of 8 is full
    made_up_task.run(made_up_task.MadeUp(does_predict=True), folder, do_train=False, do_predict=True)
    for name in names[:2]:
        np.testing.assert_allclose(json.loads((folder / name).read_text()), of_two[name], rtol=0, atol=1e-6)
    of_one = json.loads((folder / "evaluation.json").read_text())
    assert of_one["step"] == of_two["evaluation.json"]["step"]
    assert of_one["metrics"] == pytest.approx(of_two["evaluation.json"]["metrics"], abs=1e-5)
