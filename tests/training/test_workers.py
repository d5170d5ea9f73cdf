"""Agreement between workers, and their folders. tests/test_several_workers.py runs real ones."""

import errno
import os
import re
import signal

import pytest
import tensorflow as tf

from bert_keras.training.distribution.workers import Workers, open_run_dir
from bert_keras.training.run_dir import RunDir


def make_worker(index, sums, count=2):
    worker = Workers(tf.distribute.get_strategy())
    worker.index, worker.count, worker.sums = index, count, sums
    return worker


def op_error(name, message):
    return getattr(tf.errors, f"{name}Error")(None, None, message)


def agree(numbers):
    """The sums where other workers have zeros, so that no value differs."""
    return [0] * len(numbers)


@pytest.fixture
def run_dir(tmp_path):
    """The folder of a run with a checkpoint."""
    run_dir = RunDir(str(tmp_path / "run"), "program")
    run_dir.create()
    run_dir.save(3, {"global_step": tf.Variable(3)})
    return run_dir


def test_one_process_is_the_chief_and_agrees_with_itself(tmp_path):
    workers = Workers(tf.distribute.get_strategy())
    assert (workers.count, workers.index, workers.is_chief) == (1, 0, True)
    assert workers.sums([3, 0, 1]) == [3, 0, 1]
    workers.check_same({"seed": object()})  # does not look at the value
    with open_run_dir(str(tmp_path / "run"), "program", workers, {}) as run_dir:
        assert run_dir.path == str(tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_workers_with_other_values_are_refused_in_all_of_them_by_name():
    messages = []

    def sums(numbers):
        messages.append(numbers)
        return numbers

    # On the chief, the sums show that another worker has a different second value of three.
    chief = make_worker(0, lambda numbers: sums(numbers) if not messages else [0, 1, 0])
    values = {"train_data": "abc", "learning_rate": 0.1, "seed": 1}
    with pytest.raises(
        ValueError, match=r"^the 2 workers do not have the same seed \(here 1\); give all of them the same command, the"
    ):
        chief.check_same(values)
    # On the worker, the first message has the chief's values, the second the counts of differences.
    of_chief, told = messages[0], []
    worker = make_worker(1, lambda numbers: told.append(numbers) or (of_chief if len(told) == 1 else numbers))
    with pytest.raises(ValueError, match=r"do not have the same seed \(here 2\)"):
        worker.check_same({**values, "seed": 2})
    assert told == [[0, 0, 0], [0, 1, 0]]
    told.clear()
    worker.check_same(values)
    assert told == [[0, 0, 0], [0, 0, 0]]


@pytest.mark.parametrize("index", [0, 1])
def test_only_the_chief_writes_and_all_wait_for_each_other(run_dir, index):
    asked = []
    worker = make_worker(index, lambda numbers: asked.append(len(numbers)) or agree(numbers))
    if index:
        worker.check_same = lambda values: None
    with open_run_dir(run_dir.path, "program", worker, {"seed": 1, "tfds": None}) as own:
        assert (own.path, own.is_writable) == (run_dir.path, index == 0)
        assert own.latest_step() == 3
        # The settings and the step: the chief's values, then the counts of differences.
        assert asked == ([] if index else [3, 3])
    assert asked[-1:] == [1]


@pytest.mark.parametrize("index", [0, 1])
def test_the_chief_goes_first(index):
    order = []
    worker = make_worker(index, lambda numbers: order.append("waited") or numbers)
    assert worker.chief_first(lambda: order.append("called") or 7) == 7
    assert order == (["called", "waited"] if index == 0 else ["waited", "called"])


@pytest.mark.parametrize(
    "error",
    [
        op_error("Internal", "NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail"),
        op_error("Internal", "Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        op_error("Internal", "libdevice not found at ./libdevice.10.bc"),
        op_error("Aborted", "XLA compilation was aborted"),
        op_error("Cancelled", "cuDNN launch failure : input shape ([8,128])"),
        op_error("Internal", "Blas xGEMM launch failed"),
    ],
)
def test_a_failure_of_a_device_is_not_told_as_a_lost_worker(run_dir, error):
    worker = make_worker(0, agree)
    with pytest.raises(type(error), match=re.escape(error.message)), open_run_dir(run_dir.path, "program", worker, {}):
        raise error


def test_a_lost_worker_is_told_with_the_step_to_continue_from(run_dir):
    chief = make_worker(0, agree)
    message = r"^another worker has ended before the run did \(Socket closed\); the same command in all workers "
    with (
        pytest.raises(ConnectionError, match=f"{message}continues from step 3, the last that is saved$"),
        open_run_dir(run_dir.path, "program", chief, {}),
    ):
        raise tf.errors.UnavailableError(None, None, "{{function_node step}} Socket closed:\nmore")
    # Each of several settings has its own folder.
    os.remove(run_dir.file("model.ckpt-3.index"))
    with (
        pytest.raises(ConnectionError, match="workers continues from what is saved$"),
        open_run_dir(run_dir.path, "program", chief, {}),
    ):
        raise tf.errors.AbortedError(None, None, "Socket closed")


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (OSError(errno.ENOSPC, "No space left on device"), "run cannot be written to (No space left on device); make"),
        (
            op_error("ResourceExhausted", "{{node x}} events; No space left on device\n\tmore [Op:Flush]"),
            "run cannot be written to (events; No space left on device); make room there, and the same command",
        ),
        (
            op_error("NotFound", "a.tfrecord; No such file or directory [Op:Next]"),
            "the data cannot be read any more (a.tfrecord; No such file or directory); when they can, the same command",
        ),
        (op_error("Unknown", "a.tfrecord; Input/output error"), "any more (a.tfrecord; Input/output"),
        # Errors that are not about files, or whose messages are complete.
        (op_error("NotFound", "no such kernel"), "no such kernel"),
        (op_error("ResourceExhausted", "OOM when allocating"), "OOM when allocating"),
        (FileNotFoundError("train.tsv does not exist"), "train.tsv does not exist"),
    ],
)
def test_errors_about_files_say_what_to_do(error, sentence, tmp_path):
    workers = Workers(tf.distribute.get_strategy())
    kind = type(error) if sentence in str(error) else OSError
    with pytest.raises(kind, match=re.escape(sentence)), open_run_dir(str(tmp_path / "run"), "program", workers, {}):
        raise error


def test_the_end_of_a_run_restores_the_handler_of_sigterm(tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    with open_run_dir(str(tmp_path / "run"), "program", Workers(tf.distribute.get_strategy()), {}):
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert signal.getsignal(signal.SIGTERM) == handler
