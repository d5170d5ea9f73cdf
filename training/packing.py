"""Training on packed rows, see `data_prep.packed_batches`."""

import logging

import tensorflow as tf

from data_prep.feature_batches import training_batches
from data_prep.packed_batches import PackedShape, measure_filling, pack_batches

log = logging.getLogger("bert_keras")


class PackedTask:
    """A task that takes its features as `pack_batches` gives them, in parts of the batch: [parts, R, ...].

    Devices and micro-batches share out the parts, so that the number of rows may differ from batch to batch.

    Args:
        task: a task of `modeling.tasks`.
    """

    def __init__(self, task):
        self._task = task
        self.model = task.model
        self.metric_names = task.metric_names
        self.loss = task.loss
        self.metrics = task.metrics

    def denominators(self, features):
        """Returns what each metric is divided by, as the task does."""
        return self._task.denominators(_joined(features))

    def numerators(self, features, dropout_seed=None):
        """Runs the model and returns the weighted sum of each metric, as the task does."""
        return self._task.numerators(_joined(features), dropout_seed=dropout_seed)


def _joined(features):
    """Returns the parts [parts, R, ...] as one, [parts * R, ...]."""
    return {name: tf.reshape(value, tf.concat([[-1], tf.shape(value)[2:]], 0)) for name, value in features.items()}


def packed_training_batches(features, settings, num_devices, start_step=0, is_trimmed=False, is_fixed=False):
    """Makes the batches of `data_prep.feature_batches.training_batches`, packed, and says how full their rows are.

    Args:
        features: as there.
        settings: dict of flag values by name.
        num_devices: int; each has parts of its own.
        start_step: as there.
        is_trimmed: whether batches would be cut if they were not packed.
        is_fixed: whether all batches have one shape: as many rows as that of the run takes which takes the most.

    Returns:
        A `tf.data.Dataset` as of `pack_batches`.
    """
    batch_size, seed = settings["train_batch_size"], settings["seed"]
    num_parts = num_devices * settings["gradient_accumulation_steps"]
    num_examples, row_length = features["input_mask"].shape
    num_batches = settings["num_train_steps"] if is_fixed else max(1, num_examples // batch_size)
    filling = measure_filling(features, batch_size, seed, num_batches, is_trimmed)
    log.info(
        "packing: %d examples fill %.1f rows of %d pieces, at most %d; padding: %.1f %%, unpacked %.1f %%",
        *(batch_size, filling.mean_rows, row_length, filling.most_rows),
        *(100 * filling.padding_share, 100 * filling.unpacked_padding_share),
    )
    shortest = int(features["input_mask"].sum(-1).min())
    shape = PackedShape(
        num_parts, -(-filling.most_rows // num_parts) if is_fixed else None, min(batch_size, row_length // shortest)
    )
    return pack_batches(training_batches(features, batch_size, seed, start_step), shape)
