"""The training loop: steps, checkpoints, evaluations and reports."""

import contextlib
import dataclasses
import logging
import math
import signal
import threading
import time

import tensorflow as tf

from bert_keras.storage.paths import reason_of

log = logging.getLogger("bert_keras")

# Errors of a step that cannot read its data; the last one if TensorFlow's message quotes bytes that are not text.
READING_FAILURES = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)
# Target duration of a device call: long enough to hide its overhead, short enough for frequent progress reports.
_SECONDS_PER_CALL = 0.5


@dataclasses.dataclass(frozen=True)
class Pace:
    """The schedule of a run, in steps.

    Attributes:
        num_train_steps: int; the last step of training.
        save_checkpoints_steps: int; steps between two checkpoints.
        log_steps: int; steps between two rows of the metrics.
        eval_steps: int; steps between two evaluations, or 0 for a single one at the end.
        iterations_per_loop: int; maximum number of steps in one call of the device.
    """

    num_train_steps: int
    save_checkpoints_steps: int
    log_steps: int
    eval_steps: int = 0
    iterations_per_loop: int = 1000

    def steps_until_due(self, step):
        """Returns the number of steps from `step` to the next scheduled event, as an int."""
        intervals = [self.save_checkpoints_steps, self.log_steps, self.eval_steps or self.num_train_steps]
        return min(self.num_train_steps - step, *(interval - step % interval for interval in intervals))

    def is_due(self, step, interval):
        """Returns whether an event with this interval happens at `step`; every event happens at the last step."""
        return step == self.num_train_steps or (interval > 0 and step % interval == 0)


def train(
    trainer,
    batches,
    run_dir,
    report,
    pace,
    evaluate=None,
    explain=None,
    judge=None,
    is_evaluation_owed=False,
    sums=list,
    clock=time.monotonic,
):
    """Trains to the last step, or until a signal or `judge` ends training, and saves checkpoints.

    Args:
        trainer: a `training.step.Trainer`, at the step where training starts.
        batches: `tf.data.Dataset` of global batches, starting with that step's.
        run_dir: a `training.run_dir.RunDir`.
        report: a `training.report.Report`.
        pace: a `Pace`.
        evaluate: function that returns a dict of metrics; None: no evaluation. Its argument is a function to call
            before each batch, whose exceptions it must let through.
        explain: function that takes one of `READING_FAILURES` and returns the exception to raise instead.
        judge: function of the step and the metrics of an evaluation; returns whether to end training there.
        is_evaluation_owed: whether to evaluate the first step before training.
        sums: `training.distribution.workers.Workers.sums`, with which workers agree; the default is for one process.
        clock: function that returns the time in seconds.

    Returns:
        Two values: the metrics of the evaluation at the end, or None; and whether training finished, with its
        evaluation. The second is False after SIGTERM.

    Raises:
        ValueError: the loss or its gradient is not finite (in float16: at the lowest loss scale), and the message names
            the steps; or the device is out of memory. Nothing after the last checkpoint is saved.
        OSError: a data file is missing or cannot be read any more, or a checkpoint cannot be written.
        KeyboardInterrupt: Ctrl-C. The first one finishes and saves the step in progress; a second one stops at once.
    """
    step = int(trainer.global_step.numpy())
    iterator = iter(batches)
    steps_per_call, metrics, is_over, stop = 1, None, False, None

    with _stop_requests() as stop_requests:

        def check_stop():
            if asked := _agree(sums, stop_requests, 0)[0]:
                raise _StopRequestedError(asked)

        def evaluate_and_judge():
            try:
                metrics = evaluate(check_stop)
            except _StopRequestedError as request:
                return None, False, str(request)
            is_over = judge is not None and judge(step, metrics)
            # Report last: a run killed before this line evaluates the step again when it resumes.
            report.evaluation(step, metrics)
            return metrics, is_over, None

        if is_evaluation_owed:
            metrics, is_over, stop = evaluate_and_judge()
        while step < pace.num_train_steps and not is_over and not stop:
            asked, num_steps = [*stop_requests], 0
            if not asked:
                num_steps = min(steps_per_call, pace.iterations_per_loop, pace.steps_until_due(step))
            stop, num_steps = _agree(sums, asked, num_steps)
            if stop:
                break
            started = clock()
            with _told_errors(explain, run_dir):
                totals = trainer.train(iterator, tf.constant(num_steps))
                is_finite = math.isfinite(float(totals["loss"]) + float(totals["gradient_norm"]))
            seconds = clock() - started
            if not is_finite:
                raise _not_finite(step, num_steps, run_dir)
            step += num_steps
            report.steps(step, num_steps, totals, seconds)
            if step == 1 or pace.is_due(step, pace.log_steps):
                report.row(step)
            # Save before the evaluation, which may take long, so that nothing is lost if the run ends there.
            if pace.is_due(step, pace.save_checkpoints_steps):
                run_dir.save(step, trainer.state)
            if evaluate is not None and pace.is_due(step, pace.eval_steps):
                metrics, is_over, stop = evaluate_and_judge()
            steps_per_call = max(1, min(2 * steps_per_call, int(_SECONDS_PER_CALL * num_steps / max(seconds, 1e-9))))
        if (stop or is_over) and step != run_dir.latest_step():
            run_dir.save(step, trainer.state)
        if stop:
            log.info("stopped by %s after step %d, which is saved; the same command continues", stop, step)
            # The signal may have reached only another worker so far, and may still reach this one.
            stop_requests.append(stop)
    if "SIGINT" in stop_requests:
        raise KeyboardInterrupt
    is_whole = not stop and (is_over or step == pace.num_train_steps)
    return metrics if is_whole else None, is_whole


class _StopRequestedError(Exception):
    """A signal requested a stop during an evaluation; the message is the signal's name."""


@contextlib.contextmanager
def _told_errors(explain, run_dir):
    """Replaces TensorFlow's errors in a step by messages that tell the user what to do."""
    try:
        yield
    except READING_FAILURES as error:
        raise (explain(error) if explain else error) from error
    except (tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as error:
        raise OSError(
            f"the data cannot be read any more ({reason_of(error)}); when they can, the same command continues from "
            f"step {run_dir.latest_step()}"
        ) from error
    except tf.errors.ResourceExhaustedError as error:
        saved = run_dir.latest_step()
        raise ValueError(
            "the device's memory does not hold a batch; give --recompute, or a higher --gradient_accumulation_steps, "
            "which splits the same batch into smaller parts"
            + (f": the run continues from step {saved} with them" if saved else "; or lower --train_batch_size")
        ) from error


def _agree(sums, stop_requests, num_steps):
    """Returns the signal that any worker received, or None, and the number of steps that all workers take now."""
    asked = [int(name in stop_requests) for name in ("SIGTERM", "SIGINT")]
    # Clocks differ, so each worker suggests another number; the mean is the same in all workers.
    num_workers, num_steps, is_terminated, is_interrupted = sums([1, num_steps, *asked])
    stop = "SIGINT" if is_interrupted else "SIGTERM" if is_terminated else None
    return stop, num_steps // num_workers


def _not_finite(step, num_steps, run_dir):
    saved = run_dir.latest_step()
    steps = f"step {step + 1}" if num_steps == 1 else f"steps {step + 1} to {step + num_steps}"
    start = "start again with"
    if saved:
        start = (
            f"the checkpoint of step {saved} is from before: start from it (--init_checkpoint) in a new folder, with"
        )
    return ValueError(
        f"the loss or its gradient is not finite in {steps}; {start} a lower --learning_rate or a "
        "longer warm-up, and look at the data around there"
    )


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
