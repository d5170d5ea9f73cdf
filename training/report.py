"""Progress of a run, on the screen and in the files of `training.metrics_log`."""

import collections
import logging
import time

import rich.console
import rich.live
import rich.progress
import rich.text
import tensorflow as tf

log = logging.getLogger("bert_keras")

_SECONDS_BETWEEN_LINES = 10.0
_CALLS_REMEMBERED = 50


def in_words(metrics):
    """Returns metrics as one line of text: accuracies in percent, other metrics with four digits."""
    return ", ".join(
        f"{name} {100 * value:.1f} %" if name.endswith("accuracy") else f"{name} {value:.4g}"
        for name, value in metrics.items()
    )


class Report:
    """Reports the progress of a training run. Use it as a context manager.

    Args:
        task: the task that is trained; its `metrics` computes the metrics to show.
        learning_rate: function of the step.
        batch_size: int, examples in a step.
        start_step: int.
        num_train_steps: int.
        console: a `rich.console.Console`.
        metrics_logs: list of objects with `write(step, split, values)` and `close()`.
    """

    def __init__(self, task, learning_rate, batch_size, start_step, num_train_steps, console, metrics_logs):
        self._task = task
        self._learning_rate = learning_rate
        self._batch_size = batch_size
        self._metrics_logs = metrics_logs
        self._screen = _Screen(console, start_step, num_train_steps)
        self._calls = collections.deque(maxlen=_CALLS_REMEMBERED)
        self._is_first_call = True
        self._since_row = []

    def __enter__(self):
        self._screen.start()
        return self

    def __exit__(self, *exception):
        self._screen.stop()
        for metrics_log in self._metrics_logs:
            metrics_log.close()

    def steps(self, step, num_steps, totals, seconds):
        """Records the result of one call of the device.

        Args:
            step: int; the step after the call.
            num_steps: int; steps in the call.
            totals: as `training.step.Trainer.take_steps` returns them.
            seconds: float; duration of the call.
        """
        totals = {**tf.nest.map_structure(float, totals), "steps": float(num_steps)}
        if totals.get("num_skipped"):
            log.info(
                "%d step(s) up to step %d changed no weights because the gradients overflowed float16; the loss scale "
                "is now %g",
                *(totals["num_skipped"], step, totals["loss_scale"]),
            )
        self._since_row.append(totals)
        self._calls.append((num_steps, seconds))
        self._screen.show(step, {**self._metrics([totals]), "lr": self._rate_of(step)}, *self._speed())
        if self._is_first_call:
            # The first call builds the graph, so its duration does not show the speed.
            self._calls.clear()
            self._is_first_call = False

    def row(self, step):
        """Writes the averages since the last row."""
        values = {"learning_rate": self._rate_of(step), **self._metrics(self._since_row)}
        num_counted = sum(map(_num_counted, self._since_row))
        if num_counted:
            values["gradient_norm"] = sum(totals["gradient_norm"] for totals in self._since_row) / num_counted
        if "loss_scale" in self._since_row[-1]:
            values["loss_scale"] = self._since_row[-1]["loss_scale"]
            values["skipped_steps"] = sum(totals["num_skipped"] for totals in self._since_row)
        if self._calls:
            values["examples_per_second"] = self._speed()[0]
        self._since_row = []
        self._write(step, "train", values)

    def evaluation(self, step, metrics):
        """Writes and logs the metrics of an evaluation."""
        self._write(step, "eval", metrics)
        log.info("evaluation after step %d: %s", step, in_words(metrics))

    def _write(self, step, split, values):
        for metrics_log in self._metrics_logs:
            metrics_log.write(step, split, values)

    def _rate_of(self, step):
        """Returns the rate of the update that led to `step`: the schedule reads the step before it advances."""
        return float(self._learning_rate(step - 1))

    def _metrics(self, parts):
        totals = tf.nest.map_structure(lambda *values: sum(values), *parts)
        if not _num_counted(totals):
            return {}
        metrics = self._task.metrics(totals["numerators"], totals["denominators"])
        return {
            "loss": totals["loss"] / _num_counted(totals),
            **{name: float(value) for name, value in metrics.items()},
        }

    def _speed(self):
        """Returns examples per second and steps per second."""
        steps_per_second = sum(steps for steps, _ in self._calls) / sum(seconds for _, seconds in self._calls)
        return steps_per_second * self._batch_size, steps_per_second


def _num_counted(totals):
    """Returns the number of steps that were measured; in float16 some are skipped."""
    return totals["steps"] - totals.get("num_skipped", 0.0)


class _Screen:
    """Shows a progress bar with the metrics below it on a terminal; elsewhere logs a line every ten seconds."""

    def __init__(self, console, start_step, num_train_steps):
        self._console = console
        self._num_train_steps = num_train_steps
        self._last_line = None
        self._bar = rich.progress.Progress(
            rich.progress.TextColumn("step {task.completed}/{task.total}"),
            rich.progress.BarColumn(bar_width=None),
            rich.progress.TextColumn("{task.fields[speed]}"),
            console=console,
        )
        self._task = self._bar.add_task("", total=num_train_steps, completed=start_step, speed="")
        self._figures = rich.text.Text()
        self._live = None

    def start(self):
        if self._console.is_terminal:
            group = rich.console.Group(self._bar, self._figures)
            self._live = rich.live.Live(group, console=self._console, refresh_per_second=4)
            self._live.start()

    def stop(self):
        if self._live is not None:
            self._live.stop()

    def show(self, step, metrics, examples_per_second, steps_per_second):
        left = _clock((self._num_train_steps - step) / steps_per_second)
        speed = f"{examples_per_second:.4g} examples/s, {left} left"
        if self._live is not None:
            self._bar.update(self._task, completed=step, speed=speed)
            self._figures.plain = in_words(metrics)
            return
        now = time.monotonic()
        is_first_or_last = self._last_line is None or step == self._num_train_steps
        if is_first_or_last or now - self._last_line >= _SECONDS_BETWEEN_LINES:
            self._last_line = now
            log.info("step %d/%d: %s, %s", step, self._num_train_steps, in_words(metrics), speed)


def _clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
