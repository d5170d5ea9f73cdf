"""The training loop, for pre-training and for fine-tuning: steps, checkpoints, evaluations and reports."""

import collections.abc
import contextlib
import dataclasses
import logging
import math
import signal
import threading
import time

import numpy as np
import rich.console
import tensorflow as tf

from bert_keras.modeling.optimization import AdamWeightDecay, LearningRateSchedule
from bert_keras.training.distribution.workers import Workers
from bert_keras.training.failures import explain_errors, explain_large_model, not_finite
from bert_keras.training.metrics_log import MetricsFile, TensorBoardEvents, evaluated_steps
from bert_keras.training.report import NO_CALLBACKS, Callbacks, Report
from bert_keras.training.run_dir import ALL_STEPS, CALLBACK, EARLY_STOPPING, RunDir
from bert_keras.training.settings import TUNING_DEFAULTS
from bert_keras.training.step import LossScale, Trainer

log = logging.getLogger("bert_keras")

# Target duration of a device call: long enough to hide its overhead, short enough for frequent progress reports.
_SECONDS_PER_CALL = 0.5


def steps_until_due(settings, step):
    """Returns the number of steps from `step` to the next scheduled event of a run."""
    num_steps = settings["num_train_steps"]
    intervals = [settings["save_checkpoints_steps"], settings["log_steps"], settings["eval_steps"] or num_steps]
    return min(num_steps - step, *(interval - step % interval for interval in intervals))


def is_due(settings, step, interval):
    """Returns whether an event with this interval happens at `step`; 0: only at the last step, as every event does."""
    return step == settings["num_train_steps"] or (interval > 0 and step % interval == 0)


@dataclasses.dataclass
class Hooks:
    """The run that `train` works on, and the functions that it calls between steps.

    Attributes:
        run_dir: holds the checkpoints and metrics; this run has claimed it.
        settings: dict of flag values by name.
        num_examples: in one epoch.
        console: shows the progress.
        workers: the processes that train together.
        evaluate: returns a dict of metrics; None: no evaluation. Its argument is a function to call before each batch,
            whose exceptions it must let through.
        judge: takes the step and the metrics of an evaluation, and returns whether to end training there.
        explain: takes one of `training.failures.READING_FAILURES`, and returns the exception to raise instead.
        eval_metric_names: metrics of `evaluate` in addition to those of training.
        callbacks: the user's functions.
    """

    run_dir: RunDir
    settings: dict
    num_examples: int
    console: rich.console.Console
    workers: Workers
    evaluate: collections.abc.Callable | None = None
    judge: collections.abc.Callable = lambda step, metrics: False
    explain: collections.abc.Callable = lambda error: error
    eval_metric_names: tuple = ()
    callbacks: Callbacks = NO_CALLBACKS

    def call(self, name, *arguments):
        """Calls one of the user's functions, if there is one and this worker is the chief; returns its result."""
        function = getattr(self.callbacks, name)
        return function(*arguments) if function and self.run_dir.is_writable else None

    def save(self, step, state):
        """Saves a checkpoint."""
        self.run_dir.save(step, state, self.settings["keep_checkpoint_max"])
        self.call("on_save", step, self.run_dir.file(f"model.ckpt-{step}"))


@explain_large_model()
def make_trainer(loss, strategy, settings, rate_factor=None, is_trained=None):
    """Returns a `training.step.Trainer` with the optimizer and the schedule of the settings.

    Settings of `TUNING_DEFAULTS` may be missing. Their defaults are those of the original BERT.
    """
    settings = TUNING_DEFAULTS | settings
    schedule = LearningRateSchedule(
        settings["learning_rate"],
        settings["num_train_steps"],
        settings["num_warmup_steps"],
        settings["learning_rate_schedule"],
    )
    optimizer = AdamWeightDecay(
        schedule,
        weight_decay_rate=settings["weight_decay_rate"],
        beta_1=settings["adam_beta_1"],
        beta_2=settings["adam_beta_2"],
        epsilon=settings["adam_epsilon"],
        rate_factor=rate_factor,
        clip_norm=settings["clip_norm"],
    )
    with strategy.scope():
        loss_scale = LossScale() if settings.get("precision") == "float16" else None
    return Trainer(
        loss,
        optimizer,
        strategy,
        settings["seed"],
        settings["gradient_accumulation_steps"],
        is_trained,
        loss_scale,
        settings.get("jit", False),
        settings["ema_decay"],
    )


def train(trainer, make_batches, hooks, clock=time.monotonic):
    """Trains in a run folder, or resumes there, to the last step, or until a signal or `hooks.judge` ends training.

    If the trainer averages weights, evaluations see the averages, and the model has them at the end.

    Args:
        trainer: a `training.step.Trainer`.
        make_batches: function of the first step that returns an iterable of global batches for the devices.
        clock: returns the time in seconds.

    Returns:
        Three values: the last step; the metrics of the evaluation at the end, or None; and whether training finished,
        with its evaluation, which is False after SIGTERM.

    Raises:
        ValueError: the loss or its gradient is not finite (in float16: at the lowest loss scale), or the device is out
            of memory. Nothing after the last checkpoint is saved.
        OSError: a data file is missing or cannot be read any more, or a checkpoint cannot be written.
        KeyboardInterrupt: Ctrl-C. The first one finishes and saves the step in progress; a second one stops at once.
    """
    run_dir, settings, last_step = hooks.run_dir, hooks.settings, hooks.settings["num_train_steps"]
    step, is_evaluation_owed, end = _resume(trainer, hooks)
    if end and not is_evaluation_owed:
        trainer.swap_averages()
        return step, None, True
    with _open_report(trainer, hooks, step) as report:
        iterator = iter(make_batches(step))
        steps_per_call, metrics, stop = 1, None, None
        with _stop_requests() as stop_requests:
            if is_evaluation_owed:
                metrics, end, stop = _evaluate(step, trainer, hooks, report, stop_requests, end)
            while not end and not stop:
                asked, num_steps = [*stop_requests], 0
                if not asked:
                    num_steps = min(steps_per_call, settings["iterations_per_loop"], steps_until_due(settings, step))
                stop, num_steps = _agree(hooks.workers, asked, num_steps)
                if stop:
                    break
                started = clock()
                with explain_errors(hooks.explain, run_dir):
                    totals = trainer.train(iterator, tf.constant(num_steps))
                    is_finite = math.isfinite(float(totals["loss"]) + float(totals["gradient_norm"]))
                seconds = clock() - started
                if not is_finite:
                    raise not_finite(step, num_steps, run_dir)
                step += num_steps
                end = ALL_STEPS if step == last_step else None
                report.steps(step, num_steps, totals, seconds)
                if step == 1 or is_due(settings, step, settings["log_steps"]):
                    hooks.call("on_step", step, report.row(step))
                # Save before the evaluation, which may take long, so that nothing is lost if the run ends there.
                if is_due(settings, step, settings["save_checkpoints_steps"]):
                    hooks.save(step, trainer.state)
                if hooks.evaluate is not None and is_due(settings, step, settings["eval_steps"]):
                    metrics, end, stop = _evaluate(step, trainer, hooks, report, stop_requests, end)
                longest = int(_SECONDS_PER_CALL * num_steps / max(seconds, 1e-9))
                steps_per_call = max(1, min(2 * steps_per_call, longest))
            if (stop or end not in (None, ALL_STEPS)) and step != run_dir.latest_step():
                hooks.save(step, trainer.state)
            if stop:
                log.info("stopped by %s after step %d, which is saved; the same command continues", stop, step)
                # The signal may have reached only another worker so far, and may still reach this one.
                stop_requests.append(stop)
    if "SIGINT" in stop_requests:
        raise KeyboardInterrupt
    trainer.swap_averages()
    if stop or not end:
        return step, None, False
    run_dir.finish(step, end)
    return step, metrics, True


def part_of_batch(settings, strategy):
    """Returns the number of examples that a device processes at a time.

    Raises:
        ValueError: the batch does not divide evenly.
    """
    num_replicas, num_parts = strategy.num_replicas_in_sync, settings["gradient_accumulation_steps"]
    part, rest = divmod(settings["train_batch_size"], num_replicas * num_parts)
    if rest:
        raise ValueError(
            f"--train_batch_size={settings['train_batch_size']} cannot be divided evenly by {num_replicas} device(s) x "
            f"--gradient_accumulation_steps={num_parts}; give a multiple of {num_replicas * num_parts}"
        )
    return part


def _resume(trainer, hooks):
    """Restores the newest checkpoint.

    Returns its step, whether the evaluation of this step is missing, and why the run has ended there, or None.
    """
    run_dir, settings, num_steps = hooks.run_dir, hooks.settings, hooks.settings["num_train_steps"]
    if run_dir.latest_checkpoint():
        run_dir.restore(trainer.state)
        log.info("resuming from %s", run_dir.latest_checkpoint())
    elif run_dir.has_results:
        log.warning("%s has no checkpoint any more: the run begins again at step 1", run_dir.path)
    step = int(trainer.global_step.numpy())
    # A run that was interrupted in an evaluation has saved its step, but not the metrics.
    is_evaluation_owed = (
        hooks.evaluate is not None
        and step > 0
        and is_due(settings, step, settings["eval_steps"])
        and step not in evaluated_steps(run_dir)
    )
    reason = ALL_STEPS if step >= num_steps else None
    if (stored := run_dir.end) and 0 < stored["step"] <= step:
        reason = reason or stored["reason"]
    batch_size, num_devices = settings["train_batch_size"], trainer.strategy.num_replicas_in_sync
    part = part_of_batch(settings, trainer.strategy)
    if reason is None:
        num_epochs = (num_steps - step) * batch_size / hooks.num_examples
        schedule = f"steps {step + 1} to {num_steps} of {batch_size} examples each, {part} at a time"
        log.info("training: %s: %.3g epochs of %d examples", schedule, num_epochs, hooks.num_examples)
    elif is_evaluation_owed:
        log.info("nothing to train: step %d of %d is reached, but its evaluation is missing", step, num_steps)
    elif step < num_steps:
        log.info("nothing to train: the run has ended at step %d of %d (%s)", step, num_steps, reason)
        return step, False, reason
    else:
        # A fine-tuning run cannot be extended: its epochs or --max_steps determine its schedule.
        remedy = "" if "num_train_epochs" in settings else "; give a higher --num_train_steps to continue"
        log.info("nothing to train: step %d of %d is reached%s", step, num_steps, remedy)
        return step, False, reason
    if num_devices > 1:
        parts = f"{num_devices} devices x {trainer.num_micro_batches} part(s) x {part} examples"
        log.info("batch: %d examples = %s", batch_size, parts)
    if settings["num_warmup_steps"] >= num_steps:
        log.warning("all %d steps are warm-up: the learning rate never falls", num_steps)
    return step, is_evaluation_owed, reason


def _open_report(trainer, hooks, step):
    run_dir, settings = hooks.run_dir, hooks.settings
    names = [*trainer.loss.metric_names, *hooks.eval_metric_names]
    names += ["loss_scale", "skipped_steps"] if "loss_scale" in trainer.state else []
    metrics_logs: list[MetricsFile | TensorBoardEvents] = (
        [MetricsFile(run_dir, names, step)] if run_dir.is_writable else []
    )
    if run_dir.is_writable and TensorBoardEvents.is_available():
        metrics_logs.append(TensorBoardEvents(run_dir))
    return Report(
        trainer.loss,
        trainer.optimizer.schedule,
        settings["train_batch_size"],
        step,
        settings["num_train_steps"],
        hooks.console,
        metrics_logs,
    )


def _evaluate(step, trainer, hooks, report, stop_requests, end):
    """Evaluates a step, where the run ends anyway if `end` is not None.

    Returns the metrics, the reason to end training or None, and the signal that ended the evaluation or None.
    """

    def check_stop():
        if asked := _agree(hooks.workers, stop_requests, 0)[0]:
            raise _StopRequestedError(asked)

    trainer.swap_averages()
    try:
        metrics = hooks.evaluate(check_stop)
        is_over = hooks.judge(step, metrics)
    except _StopRequestedError as request:
        return None, end, str(request)
    finally:
        trainer.swap_averages()
    # Report last: a run killed before this line evaluates the step again when it resumes.
    report.evaluation(step, metrics)
    answer = hooks.call("on_evaluation", step, metrics)
    # Trackers return other objects.
    is_asked = isinstance(answer, (bool, np.bool_)) and bool(answer)
    is_asked = hooks.workers.sums([int(is_asked)])[0] > 0
    return metrics, end or (EARLY_STOPPING if is_over else CALLBACK if is_asked else None), None


class _StopRequestedError(Exception):
    """A signal requested a stop during an evaluation; the message is the signal's name."""


def _agree(workers, stop_requests, num_steps):
    """Returns the signal that any worker received, or None, and the number of steps that all workers take now."""
    asked = [int(name in stop_requests) for name in ("SIGTERM", "SIGINT")]
    # Clocks differ, so each worker suggests another number; the mean is the same in all workers.
    num_workers, num_steps, is_terminated, is_interrupted = workers.sums([1, num_steps, *asked])
    stop = "SIGINT" if is_interrupted else "SIGTERM" if is_terminated else None
    return stop, num_steps // num_workers


@contextlib.contextmanager
def _stop_requests():
    """Collects the names of signals that request a stop, so that the step in progress is finished and saved first.

    A second Ctrl-C stops at once. A second SIGTERM is ignored until `training.distribution.workers.open_run_dir` exits,
    because all workers end together.
    """
    requests = []
    if threading.current_thread() is not threading.main_thread():
        yield requests
        return

    def ask(number, frame):
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
