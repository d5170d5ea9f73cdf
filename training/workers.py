"""The processes that carry out a run together, as one of them sees it: all compute, and the first of them writes.

They take the same decisions because they see the same numbers. What they might see differently (a signal, the clock,
the settings) is agreed upon here.
"""

import contextlib
import errno
import json
import logging
import os
import shutil
import signal
import threading
import zlib

import tensorflow as tf

from training.devices import workers_of_tf_config
from training.run_dir import RunDir, reason_of

log = logging.getLogger("bert_keras")

# What TensorFlow raises in the others, after about a second, when the process of one is gone.
_SIGNS_OF_A_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
_UNREADABLE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


class Workers:
    """The workers of a strategy; of any but `MultiWorkerMirroredStrategy` this process is the only one.

    Args:
        strategy: `tf.distribute.Strategy`.

    Attributes:
        count: int.
        index: int; which of them this process is. The first, 0, is the chief.
    """

    def __init__(self, strategy):
        self._strategy = strategy
        self.count, self.index = 1, 0
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            workers, task = workers_of_tf_config()
            self.count, self.index = len(workers), workers.index(task)

    @property
    def is_chief(self):
        """Whether this is the worker that writes and tells."""
        return self.index == 0

    def sums(self, numbers):
        """Adds numbers up over all workers, each of which must ask for it; so it also waits for all of them.

        Args:
            numbers: list of int.

        Returns:
            list of int, the same in all workers.
        """
        if self.count == 1:
            return list(numbers)
        num_devices = self._strategy.num_replicas_in_sync // self.count

        def of_device(context):
            is_first = context.replica_id_in_sync_group % num_devices == 0
            return tf.constant(numbers if is_first else [0] * len(numbers), tf.int64)

        values = self._strategy.experimental_distribute_values_from_function(of_device)
        return self._strategy.reduce("SUM", values, axis=None).numpy().tolist()

    def check_same(self, values):
        """Finds out whether all workers have the same values.

        Args:
            values: dict of JSON values by what they are called; the names must be the same in all workers.

        Raises:
            ValueError: in every worker, if one has other values than the chief; they are named.
        """
        if self.count == 1:
            return
        digests = [zlib.crc32(json.dumps(values[name], sort_keys=True).encode()) for name in sorted(values)]
        of_chief = self.sums(digests if self.is_chief else [0] * len(digests))
        num_others = self.sums([int(own != chief) for own, chief in zip(digests, of_chief, strict=True)])
        differing = [name for name, number in zip(sorted(values), num_others, strict=True) if number]
        if differing:
            raise ValueError(
                f"the {self.count} workers do not have the same {', '.join(differing)} "
                f"(here {json.dumps(values[differing[0]])}); give all of them the same command, the same data and one "
                "--output_dir that they share"
            )


@contextlib.contextmanager
def open_run_dir(path, program, workers, settings):
    """Opens the folder of a run for one of the workers that carry it out together; the chief alone writes there.

    Every worker does all that the chief does, but in a folder of its own, `.worker-<number>` within, which starts as
    links to what the run holds and is removed at the end. The workers end together.

    Args:
        path: str; the same folder in all workers.
        program: str; see `training.run_dir.RunDir`.
        workers: Workers.
        settings: dict of flag values by name, which must be the same in all workers.

    Yields:
        RunDir.

    Raises:
        ConnectionError: another worker has ended before the run did.
        OSError: the disk is full, or a file cannot be read any more.
        ValueError: see `RunDir` and `Workers.check_same`.
    """
    with _own_handler_of_sigterm(), _told_troubles_with_files(path):
        if workers.count == 1:
            yield RunDir(path, program)
        else:
            with _shared_run_dir(path, program, workers, settings) as run_dir:
                yield run_dir


@contextlib.contextmanager
def _shared_run_dir(path, program, workers, settings):
    run_dir = RunDir(path, program)
    own_folder = None if workers.is_chief else os.path.join(path, f".worker-{workers.index}")
    level = log.level
    try:
        if own_folder:
            log.info("worker %d of %d: from here on the chief tells how it goes", workers.index, workers.count)
            log.setLevel(logging.WARNING)
            _copy_with_links(path, own_folder)
            run_dir = RunDir(own_folder, program)
        workers.check_same({**settings, "checkpoint in --output_dir": run_dir.latest_step()})
        yield run_dir
        workers.sums([0])
    except _SIGNS_OF_A_LOST_WORKER as error:
        step = RunDir(path, program).latest_step()
        raise ConnectionError(
            f"another worker has ended before the run did ({reason_of(error)}); the same command in all workers "
            f"goes on from {f'step {step}, the last that is saved' if step else 'what is saved'}"
        ) from error
    finally:
        log.setLevel(level)
        if own_folder:
            shutil.rmtree(own_folder, ignore_errors=True)


@contextlib.contextmanager
def _own_handler_of_sigterm():
    """Gives back the handler of SIGTERM, without which training leaves the process once it was asked to stop."""
    handler = signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


@contextlib.contextmanager
def _told_troubles_with_files(path):
    """Turns what the system says of a full disk or of files that cannot be read into what the user can do about it."""
    try:
        yield
    except OSError as error:
        if error.errno not in _FULL:
            raise
        raise _disk_is_full(path, error.strerror) from error
    except tf.errors.OpError as error:
        reason = reason_of(error)
        if reason.endswith(tuple(map(os.strerror, _FULL))):
            raise _disk_is_full(path, reason) from error
        if not reason.endswith(tuple(map(os.strerror, _UNREADABLE))):
            raise
        raise OSError(
            f"the data cannot be read any more ({reason}); when they can, the same command goes on"
        ) from error


def _disk_is_full(path, reason):
    return OSError(
        f"{path} cannot be written to ({reason}); make room there, and the same command goes on from what is saved"
    )


def _copy_with_links(path, copy):
    """Makes a folder that has links to all files of another; what is replaced in the one is not in the other."""
    shutil.rmtree(copy, ignore_errors=True)
    if os.path.isdir(path):
        # Hidden are locks, what is not whole, and the other workers' folders.
        shutil.copytree(path, copy, copy_function=os.symlink, ignore=shutil.ignore_patterns(".*"))
    os.makedirs(copy, exist_ok=True)
