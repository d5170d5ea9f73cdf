"""Agreement between workers, and their folders. tests/test_several_workers.py runs real ones."""

import errno
import os
import re
import signal

import pytest
import tensorflow as tf

from bert_keras.engine.distribution.workers import Workers, open_run_dir
from bert_keras.runs.run_dir import RunDir


def make_worker(index, sums):
    worker = Workers(tf.distribute.get_strategy())
    worker.index, worker.count, worker.sums = index, 2, sums
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


FULL = "No space left on device"
MISSING = "a.tfrecord; No such file or directory"


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (
            op_error("Unavailable", "{{function_node step}} Socket closed:\nmore"),
            "another worker has ended before the run did (Socket closed); the same command in all workers continues "
            "from step 3, the last that is saved",
        ),
        (OSError(errno.ENOSPC, FULL), f"run cannot be written to ({FULL}); make room there, and the same command"),
        (
            op_error("ResourceExhausted", f"{{{{node x}}}} y; {FULL}\n\tmore [Op:Flush]"),
            f"written to (y; {FULL}); make",
        ),
        (op_error("NotFound", f"{MISSING} [Op:Next]"), f"cannot be read any more ({MISSING}); when they can, the same"),
        (op_error("Unknown", "a.tfrecord; Input/output error"), "any more (a.tfrecord; Input/output"),
        # Messages about devices, and others that are not about files or are complete, stay as they are.
        (op_error("Internal", "NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail"), "NCCL: unhandled"),
        (op_error("Internal", "Failed to load CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory"), "load CUBIN"),
        (op_error("Internal", "libdevice not found at ./libdevice.10.bc"), "libdevice not found"),
        (op_error("Aborted", "XLA compilation was aborted"), "compilation was aborted"),
        (op_error("Cancelled", "cuDNN launch failure : input shape ([8,128])"), "launch failure"),
        (op_error("Internal", "Blas xGEMM launch failed"), "launch failed"),
        (op_error("NotFound", "no such kernel"), "no such kernel"),
        (op_error("ResourceExhausted", "OOM when allocating"), "OOM when allocating"),
        (FileNotFoundError("train.tsv does not exist"), "train.tsv does not exist"),
    ],
)
def test_errors_say_what_to_do(run_dir, error, message):
    kind = type(error) if message in str(error) else OSError
    with pytest.raises(kind, match=re.escape(message)) as raised:
        end_with(error, run_dir)
    assert isinstance(raised.value, ConnectionError) == message.startswith("another worker")


def test_after_a_lost_worker_the_run_may_have_no_checkpoint(run_dir):
    """Each of several settings has its own folder."""
    os.remove(run_dir.file("model.ckpt-3.index"))
    with pytest.raises(ConnectionError, match="workers continues from what is saved$"):
        end_with(op_error("Aborted", "Socket closed"), run_dir)


def end_with(error, run_dir):
    with open_run_dir(run_dir.path, "program", make_worker(0, agree), {}):
        raise error


def test_the_end_of_a_run_restores_the_handler_of_sigterm(tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    with open_run_dir(str(tmp_path / "run"), "program", Workers(tf.distribute.get_strategy()), {}):
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert signal.getsignal(signal.SIGTERM) == handler


def test_a_handler_of_the_caller_gets_the_sigterm_that_ended_training(tmp_path):
    asked = []
    previous = signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    try:
        with open_run_dir(str(tmp_path / "run"), "program", Workers(tf.distribute.get_strategy()), {}):
            pass
        assert asked == []
        with open_run_dir(str(tmp_path / "run"), "program", Workers(tf.distribute.get_strategy()), {}):
            signal.signal(signal.SIGTERM, lambda number, frame: None)  # as training does after the signal
        assert asked == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, previous)
