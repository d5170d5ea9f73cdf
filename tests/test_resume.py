"""Runs that are stopped, killed, finished or started again."""

import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys

import pytest
from pretraining_runs import argv_of, assert_bit_equal, make_files, run, weights_in

import run_pretraining
from bert_keras.cli.flags import run_main
from bert_keras.training.loop import Pace

ROOT = pathlib.Path(run_pretraining.__file__).parent


@pytest.fixture
def files(tmp_path, tiny_config, write_records):
    return make_files(tmp_path, tiny_config, write_records)


def test_a_run_that_stopped_goes_on_as_if_it_had_not(files, tmp_path):
    run(files, do_train=True)
    # The first four steps of the same schedule, like a run interrupted there.
    other = tmp_path / "stopped"
    shutil.copytree(files["output_dir"], other)
    for step in (8, 12):
        for path in other.glob(f"model.ckpt-{step}.*"):
            path.unlink()
    (other / "checkpoint").write_text('model_checkpoint_path: "model.ckpt-4"\n')
    run(files, do_train=True, output_dir=other)
    assert_bit_equal(weights_in(files["output_dir"]), weights_in(other))
    rows = (other / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "10", "12"]


def test_a_run_that_sigterm_stopped_goes_on_as_if_it_had_not(files, tmp_path, monkeypatch, capsys):
    flags = {**files, "do_train": True, "do_eval": True, "iterations_per_loop": 1, "log_steps": 4}
    whole = run(flags, output_dir=tmp_path / "whole")
    steps_until_due = Pace.steps_until_due

    def stopping(self, step):
        if step == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return steps_until_due(self, step)

    monkeypatch.setattr(Pace, "steps_until_due", stopping)
    assert run(flags) is None
    assert "stopped by SIGTERM after step 7, which is saved; the same command continues" in capsys.readouterr().out
    assert weights_in(files["output_dir"])["global_step"] == 7
    assert not (files["output_dir"] / "eval_results.txt").exists()
    monkeypatch.undo()
    assert run(flags) == whole
    assert_bit_equal(weights_in(files["output_dir"]), weights_in(tmp_path / "whole"))


def test_an_interrupt_saves_and_ends_with_status_130(files, monkeypatch):
    monkeypatch.setattr(Pace, "steps_until_due", lambda self, step: os.kill(os.getpid(), signal.SIGINT) or 1)
    argv = argv_of(files, do_train=True)
    assert run_main(run_pretraining.main, argv) == 130
    assert weights_in(files["output_dir"])["global_step"] == 1


def test_a_finished_run_is_said_to_be_finished_and_may_be_made_longer(files, capsys):
    run(files, do_train=True, num_train_steps=4)
    before = weights_in(files["output_dir"])
    run(files, do_train=True, num_train_steps=4)
    assert "step 4 of 4 is reached; give a higher --num_train_steps to continue" in capsys.readouterr().out
    assert_bit_equal(before, weights_in(files["output_dir"]))
    run(files, do_train=True, num_train_steps=6, log_steps=1)
    assert weights_in(files["output_dir"])["global_step"] == 6
    assert "is 6 now; the learning rate follows the longer schedule" in capsys.readouterr().out
    last = (files["output_dir"] / "metrics.csv").read_text().splitlines()[-1].split(",")
    assert last[0] == "6"
    assert float(last[2]) == pytest.approx(0.01 * (1 - 5 / 6))


def test_other_settings_in_the_same_folder_are_refused(files):
    run(files, do_train=True, num_train_steps=1)
    with pytest.raises(ValueError, match="run with other settings: --learning_rate was 0.01 and is 0.02 now; give the"):
        run(files, do_train=True, num_train_steps=2, learning_rate=0.02)
    run(files, do_train=True, num_train_steps=3)
    with pytest.raises(ValueError, match="--num_train_steps was 3 and is 2 now"):
        run(files, do_train=True, num_train_steps=2)


def test_another_architecture_under_the_same_name_is_refused(files):
    run(files, do_train=True, num_train_steps=1)
    config = json.loads(files["bert_config_file"].read_text())
    files["bert_config_file"].write_text(json.dumps({**config, "hidden_dropout_prob": 0.0}))
    with pytest.raises(
        ValueError, match="bert_config: hidden_dropout_prob was 0.1 and is 0.0 now; give the old settin"
    ):
        run(files, do_train=True, num_train_steps=2)
    assert json.loads((files["output_dir"] / "bert_config.json").read_text()) == config


def test_other_examples_under_the_same_names_are_refused(files, write_records):
    run(files, do_train=True, num_train_steps=1)
    write_records(files["input_file"], 39)
    with pytest.raises(ValueError, match="num_examples: .*train.tfrecord was 40 and is 39 now; give the old settings"):
        run(files, do_train=True, num_train_steps=2)


# Runs the program in processes that kill themselves with SIGKILL, each at one of the given places. They are
# forks: a new process would spend most of its time on importing TensorFlow.
_KILLED = """
import os, signal, sys
sys.path.insert(0, sys.argv[1])
import run_pretraining
from bert_keras.training import loop
places, argv = sys.argv[2].split(","), sys.argv[3:]

def kill():
    os.kill(os.getpid(), signal.SIGKILL)

replace = os.replace
def killing_replace(source, target):
    if place.startswith("replacing ") and str(target).endswith(place.removeprefix("replacing ")):
        kill()
    replace(source, target)
os.replace = killing_replace

steps = loop.Pace.steps_until_due
def killing_steps(self, step):
    if place == f"after step {step}":
        kill()
    return steps(self, step)
loop.Pace.steps_until_due = killing_steps

for place in places:
    process = os.fork()
    if not process:
        run_pretraining.main(["run_pretraining.py", *argv])
        sys.stdout.flush()
        os._exit(0)
    print(place, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), flush=True)
"""


@pytest.mark.slow  # five processes
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
