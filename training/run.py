"""Trains any task from the settings of a run."""

import contextlib
import logging

import tensorflow as tf

from bert_keras.modeling.optimization import AdamWeightDecay, LearningRateSchedule
from bert_keras.training.distribution.devices import distribute
from bert_keras.training.loop import Pace, train
from bert_keras.training.metrics_log import MetricsFile, TensorBoardEvents, evaluated_steps
from bert_keras.training.report import Report
from bert_keras.training.step import LossScale, Trainer

log = logging.getLogger("bert_keras")

# Settings that may differ when a run resumes, because they do not change what the model learns.
FREE_SETTINGS = frozenset(
    [
        *("output_dir", "do_train", "do_eval", "vocab_file", "allow_partial_checkpoint"),
        # These paths may change: the run compares the architecture and the examples themselves.
        *("bert_config_file", "input_file"),
        *("eval_file", "eval_batch_size", "eval_steps", "max_eval_steps"),
        *("log_steps", "save_checkpoints_steps", "iterations_per_loop"),
        # These change the memory that the same update needs: a run that is out of memory can continue with others.
        *("gradient_accumulation_steps", "recompute"),
        *("strategy", "use_tpu", "tpu_name", "tpu_zone", "gcp_project", "master", "num_tpu_cores"),
    ]
)


def make_trainer(task, strategy, settings, rate_factor=None, is_trained=None):
    """Returns a `training.step.Trainer` with the optimizer and the schedule of the original BERT.

    Args:
        task: a task of `modeling.tasks`, with the weights that training starts from.
        strategy: `tf.distribute.Strategy`; the task was built in its scope.
        settings: dict of flag values by name.
        rate_factor: see `modeling.optimization.AdamWeightDecay`.
        is_trained: see `training.step.Trainer`.
    """
    names = ("learning_rate", "num_train_steps", "num_warmup_steps", "smooth_learning_rate")
    optimizer = AdamWeightDecay(LearningRateSchedule(*(settings[name] for name in names)), rate_factor=rate_factor)
    with strategy.scope():
        loss_scale = LossScale() if settings.get("precision") == "float16" else None
    return Trainer(
        *(task, optimizer, strategy, settings["seed"], settings["gradient_accumulation_steps"], is_trained),
        *(loss_scale, settings.get("jit", False)),
    )


def train_task(
    trainer,
    run_dir,
    settings,
    make_batches,
    num_examples,
    console,
    evaluate=None,
    explain=None,
    judge=None,
    eval_metric_names=(),
    workers=None,
):
    """Trains a task in a run folder, or resumes the training found there, to the last step or a stop.

    Args:
        trainer: as `make_trainer` returns it.
        run_dir: a `training.run_dir.RunDir` that this run has claimed.
        settings: dict of flag values by name.
        make_batches: function of the first step that returns a `tf.data.Dataset` of global batches.
        num_examples: int, in one epoch.
        console: a `rich.console.Console`.
        evaluate: function that returns a dict of metrics, called every `eval_steps` and at the end; or None. See
            `training.loop.train`.
        explain, judge: see `training.loop.train`.
        eval_metric_names: names of the metrics that `evaluate` returns in addition to those of training.
        workers: the `training.distribution.workers.Workers` that train together; None: only this process.

    Returns:
        Three values: the last step as an int; the metrics of the evaluation at the end, or None; and whether training
        finished without being stopped.

    Raises:
        ValueError, OSError, KeyboardInterrupt: see `part_of_batch`, `RunDir.restore` and `training.loop.train`.
    """
    batch_size, num_steps = settings["train_batch_size"], settings["num_train_steps"]
    task, strategy, schedule = trainer.task, trainer.strategy, trainer.optimizer.learning_rate
    if run_dir.latest_checkpoint():
        run_dir.restore(trainer.state)
        log.info("resuming from %s", run_dir.latest_checkpoint())
    step = int(trainer.global_step.numpy())
    pace = Pace(**{name: settings[name] for name in Pace.__dataclass_fields__})
    # A run that was interrupted in an evaluation has saved its step, but not the metrics.
    is_evaluation_owed = (
        evaluate is not None
        and step > 0
        and pace.is_due(step, pace.eval_steps)
        and step not in evaluated_steps(run_dir)
    )
    if step >= num_steps and not is_evaluation_owed:
        # A fine-tuning run cannot be extended: its number of epochs determines its schedule.
        remedy = "" if "num_train_epochs" in settings else "; give a higher --num_train_steps to continue"
        log.info("nothing to train: step %d of %d is reached%s", step, num_steps, remedy)
        return step, None, True
    if step < num_steps:
        num_passes = (num_steps - step) * batch_size / num_examples
        log.info(
            "training: steps %d to %d of %d examples each, %d at a time: %.3g epochs of %d examples",
            *(step + 1, num_steps, batch_size, part_of_batch(settings, strategy), num_passes, num_examples),
        )
    else:
        log.info("nothing to train: step %d of %d is reached, but its evaluation is missing", step, num_steps)
    if strategy.num_replicas_in_sync > 1:
        log.info(
            "batch: %d examples = %d devices x %d part(s) x %d examples",
            *(batch_size, strategy.num_replicas_in_sync, trainer.num_micro_batches, part_of_batch(settings, strategy)),
        )
    if schedule.num_warmup_steps >= num_steps:
        log.warning("all %d steps are warm-up: the learning rate never falls", num_steps)
    names = [*task.metric_names, *eval_metric_names]
    names += ["loss_scale", "skipped_steps"] if "loss_scale" in trainer.state else []
    metrics_logs = [MetricsFile(run_dir, names, step)] if run_dir.is_writable else []
    if run_dir.is_writable and TensorBoardEvents.is_available():
        metrics_logs.append(TensorBoardEvents(run_dir))
    with Report(task, schedule, batch_size, step, num_steps, console, metrics_logs) as report:
        batches = distribute(strategy, make_batches(step), is_endless=True)
        metrics, is_whole = train(
            *(trainer, batches, run_dir, report, pace, evaluate, explain, judge, is_evaluation_owed),
            *([workers.sums] if workers else []),
        )
    return int(trainer.global_step.numpy()), metrics, is_whole


def part_of_batch(settings, strategy):
    """Returns the number of examples that a device processes at a time.

    Args:
        settings: dict with `train_batch_size` and `gradient_accumulation_steps`.
        strategy: `tf.distribute.Strategy`.

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


@contextlib.contextmanager
def told_out_of_memory(flag):
    """Names the flag to lower if the device's memory does not hold a batch of an evaluation or a prediction.

    Args:
        flag: str; the name of the flag with the size of such a batch.

    Raises:
        ValueError: TensorFlow ran out of memory within the block.
    """
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise ValueError(
            f"the device's memory does not hold a batch of --{flag}; give a lower one: nothing that was trained is lost"
        ) from error


def write_eval_results(run_dir, step, metrics):
    """Writes eval_results.txt in the format of the original BERT: one line `key = value` for each key, sorted.

    Args:
        run_dir: a `training.run_dir.RunDir`.
        step: int; the step of the weights that were evaluated.
        metrics: dict of numbers by name; float32 gives the same digits as the original BERT.
    """
    results = {"global_step": step, **metrics}
    run_dir.create()
    run_dir.write_text("eval_results.txt", "".join(f"{name} = {results[name]}\n" for name in sorted(results)))
