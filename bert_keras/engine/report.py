"""Progress of a run, on the screen and in the files of `runs.metrics_log`."""

import collections
import dataclasses
import logging
import math
import operator
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import rich.console
import rich.live
import rich.progress
import rich.text
import tensorflow as tf

from bert_keras.mistakes import several
from bert_keras.settings.groups import RunSettings

if TYPE_CHECKING:  # --help does not need them
    from bert_keras.modeling.losses import Loss
    from bert_keras.runs.metrics_log import MetricsFile, TensorBoardEvents

log = logging.getLogger("bert_keras")

_SECONDS_BETWEEN_LINES = 10.0
_CALLS_REMEMBERED = 50


def in_words(metrics: Mapping[str, float]) -> str:
    """Returns metrics as one line of text: accuracies in percent, other metrics with four digits."""
    return ", ".join(
        f"{name} {100 * value:.1f} %" if name.endswith("accuracy") else f"{name} {value:.4g}"
        for name, value in metrics.items()
    )


@dataclasses.dataclass(frozen=True)
class Callbacks:
    """The user's functions that a training run calls; among several workers, only the chief calls them.

    An exception in one of them ends the run, which continues later from its newest checkpoint.

    Attributes:
        on_step: takes the step and a dict of the averages since its last call: a training row of metrics.csv.
        on_evaluation: takes the step and a dict of the metrics. Training ends there if it returns True.
        on_save: takes the step and the path of a new checkpoint.
    """

    on_step: Callable[[int, dict[str, float]], Any] | None = None
    on_evaluation: Callable[[int, dict[str, float]], Any] | None = None
    on_save: Callable[[int, str], Any] | None = None

    def __post_init__(self) -> None:
        for name, function in vars(self).items():
            if function is not None and not callable(function):
                raise TypeError(f"{name} is of type {type(function).__name__}; give a function")


NO_CALLBACKS = Callbacks()


@dataclasses.dataclass(frozen=True)
class Result:
    """What a run returns: see `metrics` and `predictions` of `programs.calls.TrainedModel`.

    `is_complete`: whether the run has reached its end, and this process writes its files. `is_useful` is False if the
    model is not better than the baseline.
    """

    metrics: dict[str, float] | None = None
    predictions: Any = None
    is_complete: bool = False
    is_useful: bool = True


class Report:
    """Reports the progress of a training run, within a `with` statement; `learning_rate` is a function of the step."""

    def __init__(
        self,
        loss: "Loss",
        learning_rate: Callable[[int], float],
        settings: RunSettings,
        start_step: int,
        console: rich.console.Console,
        metrics_logs: "Sequence[MetricsFile | TensorBoardEvents]",
        since_row: dict[str, Any] | None = None,
    ) -> None:
        self._loss = loss
        self._learning_rate = learning_rate
        self._batch_size = settings.train_batch_size
        self._metrics_logs = metrics_logs
        self._screen = _Screen(console, start_step, settings.num_train_steps)
        self._calls: collections.deque[tuple[int, float]] = collections.deque(maxlen=_CALLS_REMEMBERED)
        self._is_first_call = True
        # The sums of the steps that have no row yet: floats, which JSON keeps to the bit; None without such steps.
        self.since_row = since_row

    def __enter__(self) -> "Report":
        if self._screen.live:
            self._screen.live.start()
        return self

    def __exit__(self, *exception: object) -> None:
        if self._screen.live:
            self._screen.live.stop()
        for metrics_log in self._metrics_logs:
            metrics_log.close()

    def steps(self, step: int, num_steps: int, totals: dict[str, Any], seconds: float) -> None:
        """Records the totals and the duration of a device call, which ended at `step`."""
        totals = {**tf.nest.map_structure(float, totals), "steps": float(num_steps)}
        if totals.get("num_skipped"):
            log.info(
                "%s up to step %d changed no weights because the gradients overflowed float16; the loss scale "
                "is now %g",
                several(int(totals["num_skipped"]), "steps"),
                step,
                totals["loss_scale"],
            )
        self.since_row = _sum(self.since_row, totals)
        self._calls.append((num_steps, seconds))
        if self._is_first_call:
            # The first call builds the graph, so its duration does not show the speed.
            self._calls.clear()
            self._is_first_call = False
        speed = self._speed() if self._calls else None
        self._screen.show(step, {**self._metrics(totals), "lr": self._rate_of(step)}, speed)

    def row(self, step: int) -> dict[str, float]:
        """Writes the averages since the last row, and returns them."""
        sums = self.since_row or {}
        values = {"learning_rate": self._rate_of(step), **self._metrics(sums)}
        if num_counted := _num_counted(sums):
            values["gradient_norm"] = sums["gradient_norm"] / num_counted
        if "loss_scale" in sums:
            values["loss_scale"], values["skipped_steps"] = sums["loss_scale"], sums["num_skipped"]
        if self._calls:
            values["examples_per_second"] = self._speed()[0]
        self.since_row = None
        self._write(step, "train", values)
        return values

    def evaluation(self, step: int, metrics: Mapping[str, float]) -> None:
        self._write(step, "eval", metrics)
        log.info("evaluation after step %d: %s", step, in_words(metrics))

    def _write(self, step: int, split: str, values: Mapping[str, float]) -> None:
        for metrics_log in self._metrics_logs:
            metrics_log.write(step, split, values)

    def _rate_of(self, step: int) -> float:
        # The update that led to `step` read the schedule before the step advanced.
        return float(self._learning_rate(step - 1))

    def _metrics(self, totals: Mapping[str, Any]) -> dict[str, float]:
        if not (num_counted := _num_counted(totals)):
            return {}
        metrics = self._loss.metrics(totals["numerators"], totals["denominators"])
        return {"loss": totals["loss"] / num_counted} | {name: float(metrics[name]) for name in metrics}

    def _speed(self) -> tuple[float, float]:
        """Returns examples per second and steps per second."""
        steps_per_second = sum(steps for steps, _ in self._calls) / sum(seconds for _, seconds in self._calls)
        return steps_per_second * self._batch_size, steps_per_second


def _num_counted(totals: Mapping[str, Any]) -> float:
    """Returns the number of steps that were measured; in float16 some are skipped."""
    return totals["steps"] - totals.get("num_skipped", 0.0)


def _sum(earlier: dict[str, Any] | None, totals: dict[str, Any]) -> dict[str, Any]:
    """Returns the sums of two parts of the steps since a row, with the later loss scale."""
    if earlier is None:
        return totals
    sums = tf.nest.map_structure(operator.add, earlier, totals)
    if "loss_scale" in totals:
        sums["loss_scale"] = totals["loss_scale"]
    return sums


class _Screen:
    """Shows a progress bar with the metrics below it on a terminal; elsewhere logs a line every ten seconds."""

    def __init__(self, console: rich.console.Console, start_step: int, num_train_steps: int) -> None:
        self._num_train_steps = num_train_steps
        self._last_line = -math.inf
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("step {task.completed}/{task.total}"),
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TextColumn("{task.fields[speed]}"),
            console=console,
        )
        self._task = self._bar.add_task("", total=num_train_steps, completed=start_step, speed="")
        self._metrics = rich.text.Text()
        group = rich.console.Group(self._bar, self._metrics)
        self.live = rich.live.Live(group, console=console, refresh_per_second=4) if console.is_terminal else None

    def show(self, step: int, metrics: Mapping[str, float], speed: tuple[float, float] | None) -> None:
        """Shows the metrics at a step; `speed`: examples per second and steps per second."""
        pace = ""
        if speed:
            seconds_left = round((self._num_train_steps - step) / speed[1])
            clock = f"{seconds_left // 3600}:{seconds_left // 60 % 60:02}:{seconds_left % 60:02}"
            pace = f"{speed[0]:.4g} examples/s, {clock} left"
        if self.live:
            self._bar.update(self._task, completed=step, speed=pace)
            self._metrics.plain = in_words(metrics)
            return
        now = time.monotonic()
        if step == self._num_train_steps or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            text = ", ".join(filter(None, (in_words(metrics), pace)))
            log.info("step %d/%d: %s", step, self._num_train_steps, text)
