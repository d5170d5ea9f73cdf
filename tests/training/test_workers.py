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


@pytest.fixture
def run_dir(tmp_path):
    """The folder of a run with a checkpoint and a subfolder."""
    run_dir = RunDir(str(tmp_path / "run"), "program")
    os.makedirs(run_dir.file("model"))
    run_dir.save(3, {"global_step": tf.Variable(3)})
    run_dir.write_text("metrics.csv", "step\n3\n")
    run_dir.write_text("model/task.json", "{}\n")
    return run_dir


def files_in(folder):
    return {os.path.relpath(os.path.join(path, name), folder) for path, _, names in os.walk(folder) for name in names}


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


def test_only_the_chief_writes_and_the_others_read_the_same_folder(run_dir, monkeypatch):
    before = files_in(run_dir.path)
    worker = make_worker(1, list)
    monkeypatch.setattr(worker, "check_same", lambda values: None)
    with open_run_dir(run_dir.path, "program", worker, {}) as own:
        assert own.path == run_dir.path
        assert own.latest_step() == 3
        own.save(4, {"global_step": tf.Variable(4)})
        own.within("model").save(4, {"global_step": tf.Variable(4)})
        own.write_text("metrics.csv", "step\n4\n")
        own.remove_dir("model")
        own.replace_dir("model", "nowhere")
        assert own.latest_step() == 4  # saved by the chief
    assert files_in(run_dir.path) == before
    assert run_dir.latest_step() == 3
    with open(run_dir.file("metrics.csv")) as file:
        assert file.read() == "step\n3\n"


@pytest.mark.parametrize("index", [0, 1])
def test_the_chief_goes_first(index):
    order = []
    worker = make_worker(index, lambda numbers: order.append("waited") or numbers)
    assert worker.chief_first(lambda: order.append("called") or 7) == 7
    assert order == (["called", "waited"] if index == 0 else ["waited", "called"])


@pytest.mark.parametrize(
    "error",
    [
        tf.errors.InternalError(None, None, "NCCL: unhandled cuda error. Set NCCL_DEBUG=WARN for detail"),
        tf.errors.InternalError(None, None, "Failed to load in-memory CUBIN: CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
        tf.errors.InternalError(None, None, "libdevice not found at ./libdevice.10.bc"),
        tf.errors.AbortedError(None, None, "XLA compilation was aborted"),
        tf.errors.CancelledError(None, None, "cuDNN launch failure : input shape ([8,128])"),
        tf.errors.InternalError(None, None, "Blas xGEMM launch failed"),
    ],
)
def test_a_failure_of_a_device_is_not_told_as_a_lost_worker(run_dir, error):
    chief = make_worker(0, lambda numbers: [0] * len(numbers))
    with (
        pytest.raises(type(error), match=re.escape(error.message)),
        open_run_dir(run_dir.path, "program", chief, {}),
    ):
        raise error


def test_the_chief_works_in_the_folder_itself_and_waits_for_the_others(run_dir):
    asked = []
    chief = make_worker(0, lambda numbers: asked.append(len(numbers)) or [0] * len(numbers))
    with open_run_dir(run_dir.path, "program", chief, {"seed": 1, "tfds": None}) as own:
        assert own.path == run_dir.path
        assert asked == [3, 3]  # the settings and the step: the chief's values, then the counts of differences
    assert asked == [3, 3, 1]


def test_a_lost_worker_is_told_with_the_step_to_go_on_from(run_dir):
    chief = make_worker(0, lambda numbers: [0] * len(numbers))
    with (
        pytest.raises(
            ConnectionError,
            match=r"^another worker has ended before the run did \(Socket closed\); the same command in all "
            "workers continues from step 3, the last that is saved$",
        ),
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
        (
            OSError(errno.ENOSPC, "No space left on device"),
            "run cannot be written to (No space left on device); make room",
        ),
        (
            tf.errors.ResourceExhaustedError(
                None, None, "{{node x}} events; No space left on device\n\tmore [Op:Flush]"
            ),
            "run cannot be written to (events; No space left on device); make room there, and the same command",
        ),
        (
            tf.errors.NotFoundError(None, None, "a.tfrecord; No such file or directory [Op:Next]"),
            "the data cannot be read any more (a.tfrecord; No such file or directory); when they can, the same command",
        ),
        (tf.errors.UnknownError(None, None, "a.tfrecord; Input/output error"), "any more (a.tfrecord; Input/output"),
        # Errors that are not about files, or whose messages are complete.
        (tf.errors.NotFoundError(None, None, "no such kernel"), "no such kernel"),
        (tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"), "OOM when allocating"),
        (FileNotFoundError("train.tsv does not exist"), "train.tsv does not exist"),
    ],
)
def test_what_the_system_says_of_files_becomes_a_sentence(error, sentence, tmp_path):
    workers = Workers(tf.distribute.get_strategy())
    kind = type(error) if sentence in str(error) else OSError
    with (
        pytest.raises(kind, match=re.escape(sentence)),
        open_run_dir(str(tmp_path / "run"), "program", workers, {}),
    ):
        raise error


def test_the_end_of_a_run_gives_sigterm_its_meaning_back(tmp_path):
    handler = signal.getsignal(signal.SIGTERM)
    with open_run_dir(str(tmp_path / "run"), "program", Workers(tf.distribute.get_strategy()), {}):
        signal.signal(signal.SIGTERM, lambda number, frame: None)
    assert signal.getsignal(signal.SIGTERM) == handler
