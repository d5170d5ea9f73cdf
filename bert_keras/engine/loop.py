"""The training loop, for pre-training and for fine-tuning: steps, checkpoints, evaluations and reports."""

import dataclasses
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rich.console
import tensorflow as tf

from bert_keras.engine.distribution.devices import part_of_batch
from bert_keras.engine.distribution.workers import Workers
from bert_keras.engine.evaluation_pass import Evaluation
from bert_keras.engine.failures import explain_errors, not_finite
from bert_keras.engine.precision import note_process
from bert_keras.engine.report import NO_CALLBACKS, Callbacks, Report
from bert_keras.engine.step import Trainer
from bert_keras.engine.stop_requests import agree, collect_stop_requests
from bert_keras.mistakes import Message, several
from bert_keras.runs.metrics_log import MetricsFile, TensorBoardEvents
from bert_keras.runs.run_dir import ALL_STEPS, CALLBACK, EARLY_STOPPING, RunDir
from bert_keras.settings.groups import FineTuningSettings, RunSettings

log = logging.getLogger("bert_keras")

# Target duration of a device call: long enough to hide its overhead, short enough for frequent progress reports.
_SECONDS_PER_CALL = 0.5


def steps_until_due(settings: RunSettings, step: int) -> int:
    """Returns the number of steps from `step` to the next scheduled event of a run."""
    num_steps = settings.num_train_steps
    intervals = [settings.save_checkpoints_steps, settings.log_steps, settings.eval_steps or num_steps]
    return min(num_steps - step, *(interval - step % interval for interval in intervals))


def is_due(settings: RunSettings, step: int, name: str) -> bool:
    """Returns whether the event of a setting, such as "log_steps", happens at `step`; 0: only at the last, as all."""
    return step == settings.num_train_steps or ((every := getattr(settings, name)) > 0 and step % every == 0)


def end_in_words(step: int, num_steps: int, reason: str | None) -> str:
    """Returns the end of a run as a text for the log."""
    place = f"step {step} of {num_steps}"
    return f"{place} is reached" if step >= num_steps else f"the run has ended at {place} ({reason})"


@dataclasses.dataclass
class Progress:
    """Where a run is: after `step`.

    `end` is the reason if the run ends here, as in state.json; `stop` is the signal if only this process ends here, and
    the same command continues. `evaluation` is that of the step by this process. Each is None without such a thing.
    `seconds` is the duration of the last device call.
    """

    step: int
    end: str | None = None
    stop: str | None = None
    evaluation: Evaluation | None = None
    seconds: float = 0.0

    @property
    def is_whole(self) -> bool:
        """Whether the run has ended, and its last evaluation, too."""
        return self.end is not None and self.stop is None


@dataclasses.dataclass
class Hooks:
    """The run that `train` works on, and the functions that it calls between steps.

    Attributes:
        run_dir: holds the checkpoints and metrics; this run has claimed it.
        num_examples: in one epoch.
        console: shows the progress.
        workers: the processes that train together.
        evaluate: returns a generator that yields None before each batch, and at last an `Evaluation`; None: no
            evaluation.
        judge: takes the step and the metrics of an evaluation, and returns whether to end training there.
        eval_metric_names: metrics of `evaluate` in addition to those of training.
        callbacks: the user's functions.
    """

    run_dir: RunDir
    settings: RunSettings
    num_examples: int
    console: rich.console.Console
    workers: Workers
    evaluate: Callable[[], Iterator[Evaluation | None]] | None = None
    judge: Callable[[int, dict[str, float]], bool] = lambda step, metrics: False
    eval_metric_names: Sequence[str] = ()
    callbacks: Callbacks = NO_CALLBACKS

    def call(self, name: str, *arguments: object) -> Any:
        """Calls one of the user's functions, if there is one and this worker is the chief; returns its result."""
        function = getattr(self.callbacks, name)
        return function(*arguments) if function and self.run_dir.is_writable else None

    def save(self, step: int, state: Mapping[str, tf.Variable], since_row: dict[str, Any] | None) -> None:
        """Saves a checkpoint, and the sums of the steps that have no row in metrics.csv yet."""
        self.run_dir.save_run(step, state, since_row, self.settings.keep_checkpoint_max)
        self.call("on_save", step, self.run_dir.file(f"model.ckpt-{step}"))


def train(
    trainer: Trainer,
    make_batches: Callable[[int], Iterable],
    hooks: Hooks,
    clock: Callable[[], float] = time.monotonic,
) -> Progress:
    """Trains in a run folder, or resumes there, to the last step, or until a signal or an evaluation ends training.

    If the trainer averages weights, evaluations see the averages, and the model has them at the end.

    Args:
        make_batches: function of the first step that returns an iterable of global batches for the devices.
        clock: returns the time in seconds.

    Raises:
        ValueError: the loss or its gradient is not finite (in float16: at the lowest loss scale), or the device is out
            of memory. Nothing after the last checkpoint is saved.
        OSError: a data file is missing or cannot be read any more, or a checkpoint cannot be written.
        KeyboardInterrupt: Ctrl-C. The first one finishes and saves the step in progress; a second one stops at once.
    """
    run_dir, settings = hooks.run_dir, hooks.settings
    progress, is_evaluation_missing = _resume(trainer, hooks)
    if progress.end and not is_evaluation_missing:
        trainer.swap_averages()
        run_dir.finish(progress.step, progress.end)  # which a run that was killed after its last checkpoint lacks
        return progress
    note_process(run_dir.state, trainer.strategy)
    batches = iter(make_batches(progress.step))
    with _open_report(trainer, hooks, progress.step) as report, collect_stop_requests() as requests:
        if hooks.evaluate and is_evaluation_missing:
            _evaluate(hooks.evaluate(), progress, trainer, hooks, report, requests)
        for num_steps in _schedule(progress, hooks, requests):
            started = clock()
            with explain_errors(run_dir, settings):
                totals = trainer.train(batches, tf.constant(num_steps))
                # Reading the numbers waits for the device, so the duration and the errors are those of these steps.
                is_finite = math.isfinite(float(totals["loss"]) + float(totals["gradient_norm"]))
            progress.seconds = clock() - started
            if not is_finite:
                # Before anything is saved: the newest checkpoint stays one that can train further.
                raise not_finite(progress.step, num_steps, run_dir)
            progress.step, progress.evaluation = progress.step + num_steps, None
            report.steps(progress.step, num_steps, totals, progress.seconds)
            # The row of step 1 shows soon whether the loss begins where it should.
            if progress.step == 1 or is_due(settings, progress.step, "log_steps"):
                hooks.call("on_step", progress.step, report.row(progress.step))
            # Save before the evaluation, which may take long, so that nothing is lost if the run ends there.
            if is_due(settings, progress.step, "save_checkpoints_steps"):
                hooks.save(progress.step, trainer.state, report.since_row)
            if progress.step == settings.num_train_steps:
                progress.end = ALL_STEPS
            if hooks.evaluate and is_due(settings, progress.step, "eval_steps"):
                _evaluate(hooks.evaluate(), progress, trainer, hooks, report, requests)
        # The last step of the schedule is saved already; an earlier end may be between two checkpoints.
        if progress.end != ALL_STEPS and progress.step != run_dir.latest_step():
            hooks.save(progress.step, trainer.state, report.since_row)
        if stop := progress.stop:
            log.info("stopped by %s after step %d, which is saved; the same command continues", stop, progress.step)
            # The signal may have reached only another worker so far, and may still reach this one.
            requests.append(stop)
    if "SIGINT" in requests:
        raise KeyboardInterrupt
    trainer.swap_averages()
    if progress.end and not progress.stop:
        run_dir.finish(progress.step, progress.end)
    return progress


def _resume(trainer: Trainer, hooks: Hooks) -> tuple[Progress, bool]:
    """Restores the newest checkpoint; returns the `Progress`, and whether the evaluation of its step is missing."""
    run_dir, settings, num_steps = hooks.run_dir, hooks.settings, hooks.settings.num_train_steps
    if run_dir.latest_checkpoint():
        run_dir.restore(trainer.state)
        log.info("resuming from %s", run_dir.latest_checkpoint())
    elif run_dir.has_results:
        log.warning("%s has no checkpoint any more: the run begins again at step 1", run_dir.path)
    step = int(trainer.global_step.numpy())
    # A run that was interrupted in an evaluation has saved its step, but not the metrics.
    is_evaluated = hooks.evaluate is not None and step > 0 and is_due(settings, step, "eval_steps")
    is_evaluation_missing = is_evaluated and step not in run_dir.state.evaluations()
    reason = ALL_STEPS if step >= num_steps else None
    if (stored := run_dir.state["end"]) and 0 < stored["step"] <= step:
        reason = reason or stored["reason"]
    batch_size, num_devices = settings.train_batch_size, trainer.strategy.num_replicas_in_sync
    part = part_of_batch(settings, trainer.strategy)
    reached = end_in_words(step, num_steps, reason)
    if reason is None:
        num_epochs = (num_steps - step) * batch_size / hooks.num_examples
        schedule = f"steps {step + 1} to {num_steps} of {several(batch_size, 'examples')} each, {part} at a time"
        log.info("training: %s: %.3g epochs of %s", schedule, num_epochs, several(hooks.num_examples, "examples"))
    elif is_evaluation_missing:
        log.info("nothing to train: %s, but its evaluation is missing", reached)
    else:
        # A fine-tuning run cannot be extended: its epochs or --max_steps determine its schedule.
        can_continue = step >= num_steps and not isinstance(settings, FineTuningSettings)
        remedy = "; give a higher {num_train_steps} to continue" if can_continue else ""
        log.info(Message("nothing to train: {}" + remedy, reached))
        return Progress(step, reason), False
    if num_devices > 1:
        parts = f"{num_devices} devices x {several(trainer.num_micro_batches, 'parts')} x {several(part, 'examples')}"
        log.info("batch: %d examples = %s", batch_size, parts)
    if settings.num_warmup_steps >= num_steps:
        log.warning("all %d steps are warm-up: the learning rate never falls", num_steps)
    return Progress(step, reason), is_evaluation_missing


def _open_report(trainer: Trainer, hooks: Hooks, step: int) -> Report:
    run_dir, settings = hooks.run_dir, hooks.settings
    names = [*trainer.loss.metric_names, *hooks.eval_metric_names]
    names += ["loss_scale", "skipped_steps"] if "loss_scale" in trainer.state else []
    metrics_logs: list[MetricsFile | TensorBoardEvents] = []
    if run_dir.is_writable:
        metrics_logs.append(MetricsFile(run_dir, names, step))
        metrics_logs += [TensorBoardEvents(run_dir)] if TensorBoardEvents.is_available() else []
    since_row = run_dir.state.since_row(step)
    return Report(trainer.loss, trainer.optimizer.schedule, settings, step, hooks.console, metrics_logs, since_row)


def _schedule(progress: Progress, hooks: Hooks, requests: list[str]) -> Iterator[int]:
    """Yields the number of steps of each device call until the run ends, or a signal, which it notes, stops it."""
    settings, longest = hooks.settings, 1  # the first call also builds the graph, so its duration says little
    while not progress.end and not progress.stop:
        signals = [*requests]  # a later signal ends the run after the next call
        num_steps = min(longest, settings.iterations_per_loop, steps_until_due(settings, progress.step))
        progress.stop, num_steps = agree(hooks.workers, signals, num_steps)
        if not progress.stop:
            yield num_steps
            fitting = int(_SECONDS_PER_CALL * num_steps / max(progress.seconds, 1e-9))
            longest = max(1, min(2 * longest, fitting))


def _evaluate(
    results: Iterable, progress: Progress, trainer: Trainer, hooks: Hooks, report: Report, requests: list[str]
) -> None:
    """Evaluates the step, and notes the evaluation in the progress, with a reason to end there or a signal to stop."""
    trainer.swap_averages()
    try:
        for evaluation in results:
            # An evaluation may take longer than the time that a scheduler leaves after SIGTERM.
            progress.stop = None if evaluation else agree(hooks.workers, requests, 0)[0]
            if progress.stop:
                return
        is_over = hooks.judge(progress.step, evaluation.metrics)
    finally:
        trainer.swap_averages()
    progress.evaluation = evaluation
    # Report last: a run killed before this line evaluates the step again when it resumes.
    report.evaluation(progress.step, evaluation.metrics)
    hooks.run_dir.state.note_evaluation(progress.step, evaluation.metrics)
    answer = hooks.call("on_evaluation", progress.step, evaluation.metrics)
    # Trackers return other objects.
    is_asked = isinstance(answer, (bool, np.bool_)) and bool(answer)
    is_asked = hooks.workers.sums([int(is_asked)])[0] > 0
    progress.end = progress.end or (EARLY_STOPPING if is_over else CALLBACK if is_asked else None)
