"""Progress of long work: a bar on a terminal, or log lines."""

import contextlib
import logging
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:  # only a program with a console loads rich
    import rich.console

log = logging.getLogger("bert_keras")


class Progress:
    """Logs a line every ten seconds. Call `start`, then `advance` many times, then `finish`; repeat for other work."""

    seconds_between = 10.0

    def __init__(self) -> None:
        self._what, self._total, self._unit = "", 0, ""
        self._done, self._started, self._next = 0, 0.0, 0.0

    def start(self, what: str, total: int, unit: str) -> None:
        """Starts a piece of work, such as "reading", of `total` units, such as "bytes"."""
        self._what, self._total, self._unit = what, total, unit
        self._done, self._started = 0, time.monotonic()
        self._next = self._started + self.seconds_between

    def advance(self, amount: int = 1) -> None:
        """Counts finished units. It is cheap enough to call for every unit."""
        self._done += amount
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.seconds_between
            self._show(now)

    def reach(self, done: int) -> None:
        """Counts the units up to `done`."""
        self.advance(done - self._done)

    def finish(self) -> None:
        """Ends the piece of work."""

    def _show(self, now: float) -> None:
        done, total = f"{self._done:,}", f"{self._total:,}"
        percent = 100 * self._done / max(self._total, 1)
        left = (now - self._started) * (self._total - self._done) / max(self._done, 1)
        log.info("%s: %s of %s %s (%.0f %%), about %.0f s left", self._what, done, total, self._unit, percent, left)


class ProgressBar(Progress):
    """Draws a bar for each piece of work. As a context manager, it restores the terminal at the end."""

    seconds_between = 0.1

    def __init__(self, console: "rich.console.Console") -> None:
        from rich import progress

        super().__init__()
        self._bars = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.TaskProgressColumn(),
            progress.TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[unit]}"),
            progress.TimeRemainingColumn(elapsed_when_finished=True),
            console=console,
        )
        self._bar = progress.TaskID(0)  # until `start`

    def __enter__(self) -> "ProgressBar":
        self._bars.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._bars.stop()

    def start(self, what: str, total: int, unit: str) -> None:
        super().start(what, total, unit)
        self._bar = self._bars.add_task(what, total=total, unit=unit)

    def finish(self) -> None:
        self._bars.update(self._bar, completed=self._total)

    def _show(self, now: float) -> None:
        self._bars.update(self._bar, completed=self._done)


def progress_on(console: "rich.console.Console") -> contextlib.AbstractContextManager[Progress]:
    """Returns progress bars on a console that is a terminal, else log lines."""
    return ProgressBar(console) if console.is_terminal else contextlib.nullcontext(Progress())
