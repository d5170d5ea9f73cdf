"""How far a long piece of work has come: a bar on a terminal, else a line in the log now and then."""

import logging
import time

log = logging.getLogger("bert_keras")


class Progress:
    """Writes a line to the log every ten seconds. Use it as `start`, many times `advance`, `finish`, and again."""

    seconds_between = 10.0

    def __init__(self):
        self._what, self._total, self._unit = "", 0, ""
        self._done, self._started, self._next = 0, 0.0, 0.0

    def start(self, what: str, total: int, unit: str) -> None:
        """Begins a piece of work.

        Args:
            what: the work, as "reading".
            total: how many units it has.
            unit: their name, as "bytes".
        """
        self._what, self._total, self._unit = what, total, unit
        self._done, self._started = 0, time.monotonic()
        self._next = self._started + self.seconds_between

    def advance(self, amount: int = 1) -> None:
        """Says that so many more units are done. Cheap enough to call for every one."""
        self._done += amount
        now = time.monotonic()
        if now >= self._next:
            self._next = now + self.seconds_between
            self._show(now)

    def finish(self) -> None:
        """Ends the piece of work."""

    def _show(self, now: float) -> None:
        left = (now - self._started) * (self._total - self._done) / max(self._done, 1)
        log.info(
            "%s: %s of %s %s (%.0f %%), about %.0f s left",
            self._what,
            f"{self._done:,}",
            f"{self._total:,}",
            self._unit,
            100 * self._done / max(self._total, 1),
            left,
        )


class ProgressBar(Progress):
    """Draws a bar for each piece of work. A context manager: leaving it leaves the terminal in order.

    Args:
        console: the `rich.console.Console` to draw on.
    """

    seconds_between = 0.1

    def __init__(self, console):
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
        self._bar = None

    def __enter__(self) -> "ProgressBar":
        self._bars.start()
        return self

    def __exit__(self, *exception) -> None:
        self._bars.stop()

    def start(self, what: str, total: int, unit: str) -> None:
        """Begins a piece of work with a bar of its own."""
        super().start(what, total, unit)
        self._bar = self._bars.add_task(what, total=total, unit=unit)

    def finish(self) -> None:
        """Fills the bar."""
        self._bars.update(self._bar, completed=self._total)

    def _show(self, now: float) -> None:
        self._bars.update(self._bar, completed=self._done)
