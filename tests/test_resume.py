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
from bert_keras.training.loop import Pace

ROOT = pathlib.Path(run_pretraining.__file__).parent


@pytest.fixture(scope="module")
def whole(tmp_path_factory, tiny_config, write_records):
    """The flags and metrics of a finished run. Tests must not change its folder."""
    flags = make_files(tmp_path_factory.mktemp("whole"), tiny_config, write_records)
    flags |= {"do_train": True, "do_eval": True, "iterations_per_loop": 1, "log_steps": 4}
    return flags, run(flags)


@pytest.fixture
def files(tmp_path, tiny_config, write_records):
    return make_files(tmp_path, tiny_config, write_records)


def test_a_run_that_sigterm_stopped_continues_as_if_it_had_not(whole, tmp_path, monkeypatch, capsys):
    flags, metrics = {**whole[0], "output_dir": tmp_path / "stopped"}, whole[1]
    steps_until_due = Pace.steps_until_due

    def stopping(self, step):
        if step == 6:
            os.kill(os.getpid(), signal.SIGTERM)
        return steps_until_due(self, step)

    monkeypatch.setattr(Pace, "steps_until_due", stopping)
    assert run(flags) is None
    assert "stopped by SIGTERM after step 7, which is saved; the same command continues" in capsys.readouterr().out
    assert weights_in(flags["output_dir"])["global_step"] == 7
    assert not (flags["output_dir"] / "eval_results.txt").exists()
    monkeypatch.undo()
    assert run(flags) == metrics
    assert_bit_equal(weights_in(flags["output_dir"]), weights_in(whole[0]["output_dir"]))
    rows = (flags["output_dir"] / "metrics.csv").read_text().splitlines()
    assert [row.split(",")[0] for row in rows] == ["step", "1", "4", "8", "12", "12"]


def test_a_finished_run_may_be_made_longer_but_not_shorter_or_different(whole, tmp_path, write_records, capsys):
    flags = {**whole[0], "output_dir": shutil.copytree(whole[0]["output_dir"], tmp_path / "run"), "do_eval": False}
    config = json.loads(flags["bert_config_file"].read_text())
    (tmp_path / "other.json").write_text(json.dumps({**config, "hidden_dropout_prob": 0.0}))
    for changes, message in (
        ({"num_train_steps": 11}, "run with other settings: --num_train_steps was 12 and is 11 now; give the"),
        ({"num_train_steps": 13, "learning_rate": 0.02}, "other settings: --learning_rate was 0.01 and is 0.02 now"),
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


def test_other_examples_under_the_same_names_are_refused(files, whole, write_records):
    shutil.copytree(whole[0]["output_dir"], files["output_dir"])
    config = json.loads((files["output_dir"] / "run_config.json").read_text())
    config["facts"]["num_examples"] = {str(files["input_file"]): 40}
    (files["output_dir"] / "run_config.json").write_text(json.dumps(config))
    write_records(files["input_file"], 39)
    with pytest.raises(ValueError, match="num_examples: .*train.tfrecord was 40 and is 39 now; give the old settings"):
        run(files, do_train=True)


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
