"""Full disks and kills during writes of features, the model or sweep results do not lose anything."""

import errno
import os
import pathlib
import subprocess
import sys

import pytest
from eager import without_graphs
from made_up_task import MadeUp, run, write_start

from bert_keras.data_prep.records.feature_cache import cached_features

ROOT = pathlib.Path(__file__).resolve().parents[1]
FLAGS = {"num_train_epochs": 1, "num_seeds": 2, "eval_steps": 2, "save_checkpoints_steps": 2, "do_predict": True}
# The file whose write is interrupted, in the order of a run. The first one names a file or a folder.
PLACES = (
    "run_config.json",
    "train.tf_record",
    "train.tf_record.json",
    "model/vocab.txt",
    "model/model.ckpt-2.index",
    "model/checkpoint",
    "model/task.json",
    "metrics.csv",
    "model.ckpt-3.index",
    "state.json",
    "tries.tsv",
    "run/model",
    "evaluation.json",
    "predictions.json",
)


class WithFeatures(MadeUp):
    """A task that keeps its features in the run folder, as the tasks of the programs do."""

    def __init__(self):
        super().__init__(does_predict=True)

    def prepare(self, folder):
        built = self.train_features
        self.train_features = cached_features(os.path.join(folder, "train.tf_record"), {"data": 1}, lambda: built)


def train(folder, start):
    return run(WithFeatures(), folder, init_checkpoint=start, **FLAGS)


def interrupt(monkeypatch, place, action):
    """Makes an action run just before a file gets its final name."""
    replace = os.replace

    def acting(source, target):
        if str(target).endswith(f"/{place}"):
            action()
        replace(source, target)

    monkeypatch.setattr(os, "replace", acting)


def fill():
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def results_in(folder):
    """Returns all files except those that depend on the clock."""
    files = {str(path.relative_to(folder)): path for path in folder.rglob("*") if path.is_file()}
    clocked = ("metrics.csv", ".png", "run_config.json", ".lock")
    return {
        name: path.read_bytes() for name, path in files.items() if "events" not in name and not name.endswith(clocked)
    }


@pytest.fixture(scope="module")
def start(tmp_path_factory):
    return write_start(tmp_path_factory.mktemp("start") / "tiny")


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """The files of an uninterrupted sweep."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    with without_graphs():
        train(folder, start)
    return results_in(folder)


@pytest.mark.slow  # eight runs; the test below kills a run at each place
@pytest.mark.usefixtures("no_graphs")
def test_a_disk_that_is_full_is_told_and_costs_nothing_that_was_saved(start, whole, tmp_path, monkeypatch):
    for place in PLACES[1::2]:
        with monkeypatch.context() as patch:
            interrupt(patch, place, fill)
            with pytest.raises(OSError, match=r"run.* cannot be written.*\(No space left on device"):
                train(tmp_path / "run", start)
    train(tmp_path / "run", start)
    assert results_in(tmp_path / "run") == whole


# Forks, because a new process would spend most of its time on importing TensorFlow. The uninterrupted run is one of the
# forks, too: in a process that has run other tests, rounding may differ.
_KILLED = """
import os, signal, sys
sys.path[:0] = sys.argv[1:4]
from eager import without_graphs
from test_fine_tuning_faults import interrupt, train
class Patch:
    setattr = staticmethod(setattr)
for place in sys.argv[6:]:
    process = os.fork()
    if not process:
        interrupt(Patch, place, lambda: os.kill(os.getpid(), signal.SIGKILL))
        with without_graphs():
            train(f"{sys.argv[4]}/{'whole' if place == 'whole' else 'run'}", sys.argv[5])
        os._exit(0)
    print(place, os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), file=sys.stderr)
"""


@pytest.mark.slow  # a process for each
def test_killed_runs_end_with_the_very_files_of_one_that_was_not(start, tmp_path):
    places = ["whole", *PLACES, "nothing"]
    folders = [ROOT, ROOT / "tests", ROOT / "tests" / "support"]
    command = [sys.executable, "-c", _KILLED, *folders, tmp_path, start, *places]
    done = subprocess.run(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, check=False)
    ended = ["whole 0", *(f"{place} -9" for place in PLACES), "nothing 0"]
    assert [line for line in done.stderr.splitlines() if line in ended] == ended, done.stderr
    assert results_in(tmp_path / "run") == results_in(tmp_path / "whole")
