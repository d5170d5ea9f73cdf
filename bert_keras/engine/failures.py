"""What the user can do about failures of training: data that cannot be read, too little memory, numbers too large."""

import contextlib
from collections.abc import Iterator

import tensorflow as tf

from bert_keras.data_prep.records.reading import PretrainingRecords, explain_failure
from bert_keras.mistakes import Mistake, NotFinite, Setting
from bert_keras.runs.run_dir import RunDir
from bert_keras.settings.fields import setting_fields
from bert_keras.settings.groups import RunSettings
from bert_keras.storage.remote_files import reason_of

# Errors of a pass that cannot read its data; the last one if TensorFlow's message quotes bytes that are not text.
_READING_FAILURES = (tf.errors.DataLossError, tf.errors.InvalidArgumentError, UnicodeDecodeError)


@contextlib.contextmanager
def explain_records(records: PretrainingRecords) -> Iterator[None]:
    """Names the file and the example that cannot be read; see `data_prep.records.reading.explain_failure`."""
    try:
        yield
    except _READING_FAILURES as error:
        raise explain_failure(records, error) from error


@contextlib.contextmanager
def explain_errors(run_dir: RunDir, settings: RunSettings) -> Iterator[None]:
    """Explains TensorFlow's errors in a step: files that are not there any more, and too little memory."""
    try:
        yield
    except (tf.errors.NotFoundError, tf.errors.PermissionDeniedError) as error:
        raise OSError(
            f"the data cannot be read any more ({reason_of(error)}); when they can, the same command continues from "
            f"step {run_dir.latest_step()}"
        ) from error
    except tf.errors.ResourceExhaustedError as error:
        saved = run_dir.latest_step()
        if "gradient_accumulation_steps" not in {field.name for field in setting_fields(settings)}:
            raise Mistake("the device's memory does not hold a batch; give a lower {max_seq_length}") from error
        raise Mistake(
            "the device's memory does not hold a batch; give {recompute}, or a higher {gradient_accumulation_steps}, "
            "which splits the same batch into smaller parts"
            + (": the run continues from step {} with them" if saved else "; or lower {train_batch_size}"),
            saved,
        ) from error


@contextlib.contextmanager
def explain_large_model() -> Iterator[None]:
    """Explains that the device's memory does not hold the model and its optimizer."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise Mistake(
            "the device's memory does not hold the model's weights and the two values that Adam keeps for "
            "each of them; give a smaller model or a device with more memory; in fine-tuning, "
            "{freeze_layers} needs less"
        ) from error


@contextlib.contextmanager
def explain_out_of_memory(setting: str) -> Iterator[None]:
    """Names the setting to lower if the device's memory does not hold a batch of an evaluation or a prediction."""
    try:
        yield
    except tf.errors.ResourceExhaustedError as error:
        raise Mistake(
            "the device's memory does not hold a batch of {}; give a lower one: nothing that was trained is lost",
            Setting(setting),
        ) from error


def not_finite(step: int, num_steps: int, run_dir: RunDir) -> NotFinite:
    """Returns the error of `num_steps` steps after `step`, one of which had a loss or gradient that is not finite."""
    saved = run_dir.latest_step()
    steps = f"step {step + 1}" if num_steps == 1 else f"steps {step + 1} to {step + num_steps}"
    start = "start again with"
    if saved:
        start = "the checkpoint of step {1} is from before: start from it ({init_checkpoint}) in a new folder, with"
    return NotFinite(
        "the loss or its gradient is not finite in {0}; "
        + start
        + " a lower {learning_rate} or a longer warm-up, and look at the data around there",
        steps,
        saved,
    )
