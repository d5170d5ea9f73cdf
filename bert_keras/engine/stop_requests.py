"""Signals that ask a run to stop, and how all workers stop after the same step."""

import contextlib
import signal
import threading
from collections.abc import Collection, Iterator

from bert_keras.engine.distribution.workers import Workers


@contextlib.contextmanager
def collect_stop_requests() -> Iterator[list[str]]:
    """Collects the names of signals that request a stop, so that the step in progress is finished and saved first.

    A second Ctrl-C stops at once. A second SIGTERM is ignored until `engine.distribution.workers.open_run_dir` exits,
    because all workers end together.
    """
    requests: list[str] = []
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return

    def ask(number: int, frame: object) -> None:
        if requests and number == signal.SIGINT:
            raise KeyboardInterrupt
        requests.append(signal.Signals(number).name)

    previous = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield requests
    finally:
        if "SIGTERM" in requests:
            previous[signal.SIGTERM] = lambda number, frame: None
        for number, handler in previous.items():
            signal.signal(number, handler)


def agree(workers: Workers, stop_requests: Collection[str], num_steps: int) -> tuple[str | None, int]:
    """Returns the signal that any worker received, or None, and the number of steps that all workers take now."""
    signal_counts = [int(name in stop_requests) for name in ("SIGTERM", "SIGINT")]
    # Clocks differ, so each worker suggests another number; the mean is the same in all workers.
    num_workers, num_steps, is_terminated, is_interrupted = workers.sums([1, num_steps, *signal_counts])
    stop = "SIGINT" if is_interrupted else "SIGTERM" if is_terminated else None
    return stop, num_steps // num_workers
