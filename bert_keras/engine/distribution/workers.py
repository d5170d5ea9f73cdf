"""The worker processes that train together: all compute, and only the chief writes.

Workers make the same decisions because they compute the same numbers. They agree here on values that may differ: a
signal, the clock and the settings.
"""

import contextlib
import errno
import json
import logging
import os
import re
import signal
import threading
import traceback
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import keras
import tensorflow as tf

from bert_keras.engine.distribution.devices import workers_of_tf_config
from bert_keras.engine.distribution.jax_processes import note_end
from bert_keras.mistakes import Mistake, NotFinite, SystemFailure
from bert_keras.runs.run_dir import RunDir
from bert_keras.storage.remote_files import reason_of
from bert_keras.storage.writing import FULL

log = logging.getLogger("bert_keras")

T = TypeVar("T")

# Errors that TensorFlow raises in the other workers, about a second after one process has ended.
_SIGNS_OF_A_LOST_WORKER = (
    tf.errors.UnavailableError,
    tf.errors.AbortedError,
    tf.errors.CancelledError,
    tf.errors.DeadlineExceededError,
    tf.errors.InternalError,
)
# A failure of this worker's own device or compiler: the user must see its message unchanged.
_DEVICE_FAILURE = re.compile(
    r"CUDA|cuDNN|cuBLAS|cuSOLVER|NCCL|XLA|ptxas|libdevice|ROCm|hipError|MIOpen|out of memory|RET_CHECK|\bHLO\b", re.I
)
_CONNECTION = re.compile(r"connect|socket|grpc|peer|remote|heartbeat|unavailable|collective", re.I)
_UNREADABLE = (errno.ENOENT, errno.EACCES, errno.EPERM, errno.EIO, errno.ESTALE)


class Workers:
    """The workers of a strategy, `index` being this one: those of TF_CONFIG, or the processes of JAX."""

    def __init__(self, strategy: Any) -> None:
        self._strategy = strategy
        self.count, self.index = 1, 0
        if isinstance(strategy, tf.distribute.MultiWorkerMirroredStrategy):
            workers, task = workers_of_tf_config()
            self.count, self.index = len(workers), workers.index(task)
        self._is_on_jax = keras.backend.backend() == "jax"
        if self._is_on_jax:
            self.count, self.index = strategy.num_processes, strategy.process_id

    @property
    def is_chief(self) -> bool:
        """Whether this worker, the first, writes and reports."""
        return self.index == 0

    def sums(self, numbers: Sequence[int]) -> list[int]:
        """Adds each number up over all workers. Every worker must call it, so it also waits for all."""
        if self.count == 1:
            return list(numbers)
        if self._is_on_jax:
            return self._strategy.sums(numbers)
        num_devices = self._strategy.num_replicas_in_sync // self.count

        def device_numbers(context: tf.distribute.experimental.ValueContext) -> tf.Tensor:
            is_first = context.replica_id_in_sync_group % num_devices == 0
            return tf.constant(numbers if is_first else [0] * len(numbers), tf.int64)

        values = self._strategy.experimental_distribute_values_from_function(device_numbers)
        return self._strategy.reduce("SUM", values, axis=None).numpy().tolist()

    def wait(self) -> None:
        """Waits until all workers have called it."""
        self.sums([0])

    def end(self) -> None:
        """Waits until all workers have ended the run."""
        self.wait()
        note_end()

    def chief_first(self, function: Callable[[], T]) -> T:
        """Calls a function first in the chief, then in the other workers; returns its result."""
        if not self.is_chief:
            self.wait()
            return function()
        result = function()
        self.wait()
        return result

    def check_same(self, values: Mapping[str, Any]) -> None:
        """Checks that all workers have the same JSON values; if not, it fails in every worker and names them.

        The keys, which describe the values, must be the same in all workers.
        """
        if self.count == 1:
            return
        digests = [zlib.crc32(json.dumps(values[name], sort_keys=True).encode()) for name in sorted(values)]
        chief_digests = self.sums(digests if self.is_chief else [0] * len(digests))
        num_others = self.sums([int(own != chief) for own, chief in zip(digests, chief_digests, strict=True)])
        differing = [name for name, number in zip(sorted(values), num_others, strict=True) if number]
        if differing:
            raise Mistake(
                "the {} workers do not have the same {} (here {}); give all of them the same command, the "
                "same data and one {output_dir} that they share",
                self.count,
                differing,
                json.dumps(values[differing[0]]),
            )


@contextlib.contextmanager
def open_run_dir(path: str, program: str, workers: Workers, settings: Mapping[str, Any]) -> Iterator[RunDir]:
    """Opens the `RunDir` of the workers that train together; they also end together.

    Every worker makes the same calls, but only the chief writes; the others read its files. Path and settings must be
    the same in all workers. Errors about lost workers, a full disk and unreadable files say what to do.
    """
    run_dir = RunDir(path, program, is_writable=workers.is_chief)
    level, handler = log.level, signal.getsignal(signal.SIGTERM) or signal.SIG_DFL
    try:
        if not workers.is_chief:
            log.info("worker %d of %d: only the chief writes the log", workers.index, workers.count)
            log.setLevel(logging.WARNING)
        if workers.count > 1:
            shared = {name: value for name, value in settings.items() if name != "process_id"}
            workers.check_same({**shared, "checkpoint in the run folder": run_dir.latest_step()})
        before = run_dir.names()
        try:
            yield run_dir
        except Mistake as error:
            if not isinstance(error, NotFinite | SystemFailure):
                run_dir.discard_start(before)
            raise
        workers.end()
    except tf.errors.OpError as error:
        if workers.count > 1 and _is_of_a_lost_worker(error):
            raise _lost_worker(error, RunDir(path, program).latest_step()) from error
        reason = reason_of(error)
        if reason.endswith(tuple(map(os.strerror, FULL))):
            raise _disk_is_full(path, reason) from error
        if not reason.endswith(tuple(map(os.strerror, _UNREADABLE))):
            raise
        raise OSError(
            f"the data cannot be read any more ({reason}); when they can, the same command continues"
        ) from error
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise _disk_is_full(path, error.strerror) from error
    finally:
        run_dir.release()
        log.setLevel(level)
        # Training replaces the handler after a SIGTERM, so that further ones are ignored.
        is_main = threading.current_thread() is threading.main_thread()
        is_terminated = is_main and signal.getsignal(signal.SIGTERM) is not handler
        if is_main:
            signal.signal(signal.SIGTERM, handler)
    if is_terminated and callable(handler):  # the caller's own handler
        signal.raise_signal(signal.SIGTERM)


def _is_of_a_lost_worker(error: tf.errors.OpError) -> bool:
    """Returns whether an error shows that another worker has ended, and not that a device failed."""
    if not isinstance(error, _SIGNS_OF_A_LOST_WORKER) or _DEVICE_FAILURE.search(error.message):
        return False
    return not isinstance(error, tf.errors.InternalError) or bool(_CONNECTION.search(error.message))


def _lost_worker(error: tf.errors.OpError, step: int) -> ConnectionError:
    # Frees a thread pool that TensorFlow left open, which would report an error when Python exits.
    traceback.clear_frames(error.__traceback__)
    return ConnectionError(
        f"another worker has ended before the run did ({reason_of(error)}); the same command in all workers "
        f"continues from {f'step {step}, the last that is saved' if step else 'what is saved'}"
    )


def _disk_is_full(path: str, reason: str | None) -> OSError:
    return OSError(
        f"{path} cannot be written to ({reason}); make room there, and the same command continues from what is saved"
    )
