"""Training on packed rows, see `training.input.packed_batches`."""

import logging

import numpy as np
import tensorflow as tf

from bert_keras.training.input.feature_batches import training_batches
from bert_keras.training.input.packed_batches import PackedShape, measure_filling, pack_batches

log = logging.getLogger("bert_keras")

# Batches of records to measure; enough for a mean.
_NUM_MEASURED = 100


class PackedTask:
    """Wraps a task of `modeling.tasks`, so that it takes features from `pack_batches`: [parts, R, ...].

    Each device and micro-batch gets whole parts, so the number of rows may differ between batches.
    """

    def __init__(self, task):
        self._task = task
        self.model = task.model
        self.metric_names = task.metric_names
        self.loss = task.loss
        self.metrics = task.metrics

    def denominators(self, features):
        return self._task.denominators(_joined(features))

    def numerators(self, features, dropout_seed=None):
        return self._task.numerators(_joined(features), dropout_seed=dropout_seed)


def _joined(features):
    """Joins the parts: [parts, R, ...] -> [parts * R, ...]."""
    return {name: tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], 0)) for name, value in features.items()}


def packed_training_batches(features, settings, num_devices, start_step=0, is_trimmed=False, is_fixed=False):
    """Packs the batches of `training.input.feature_batches.training_batches`, and logs how full the rows are.

    Args:
        settings: dict of flag values by name.
        num_devices: each device gets its own parts.
        is_trimmed: whether unpacked batches would be cut to their longest sequence.
        is_fixed: whether all batches have one shape, with as many rows as the largest batch of the run needs.
    """
    batch_size, seed, mask = settings["train_batch_size"], settings["seed"], features["input_mask"]
    num_parts = num_devices * settings["gradient_accumulation_steps"]
    num_examples, row_length = mask.shape
    lengths = mask.sum(-1, dtype=np.int32)
    num_batches = settings["num_train_steps"] if is_fixed else max(1, num_examples // batch_size)
    # The batches in training order, with one column of the mask, which is enough.
    batches = training_batches({"input_mask": mask[:, :1], "lengths": lengths}, batch_size, seed).take(num_batches)
    of_batches = (batch["lengths"] for batch in batches.as_numpy_iterator())
    filling = measure_filling(of_batches, row_length, is_trimmed)
    _log_filling(filling, batch_size, row_length)
    num_rows = -(-filling.most_rows // num_parts) if is_fixed else None
    shape = PackedShape(num_parts, num_rows, min(batch_size, row_length // int(lengths.min())))
    return pack_batches(training_batches(features, batch_size, seed, start_step), shape)


def check_record_packing(settings):
    """Refuses --pack for records if each new batch shape must be compiled."""
    if not settings["pack"]:
        return
    if settings["use_tpu"] or settings["strategy"] == "tpu":
        raise ValueError(
            "--pack gives each batch a different number of rows, but a TPU needs the same number in every batch; "
            "leave it out"
        )
    if settings["jit"]:
        raise ValueError(
            "--pack gives each batch a different number of rows, and --jit compiles again for each number; leave one "
            "of the two out"
        )


def pack_examples(batches, settings, num_devices):
    """Packs batches of pre-training examples, and logs how full the rows of the first batches are."""
    row_length = batches.element_spec["input_mask"].shape[1]
    lengths = batches.take(_NUM_MEASURED).map(lambda batch: tf.reduce_sum(batch["input_mask"], -1))
    filling = measure_filling(lengths.as_numpy_iterator(), row_length)
    _log_filling(filling, settings["train_batch_size"], row_length)
    return pack_batches(batches, PackedShape(num_devices * settings["gradient_accumulation_steps"]))


def _log_filling(filling, batch_size, row_length):
    log.info(
        "packing: %d examples fill %.1f rows of %d tokens, at most %d; padding: %.1f %%, unpacked %.1f %%",
        batch_size,
        filling.mean_rows,
        row_length,
        filling.most_rows,
        100 * filling.padding_share,
        100 * filling.unpacked_padding_share,
    )
