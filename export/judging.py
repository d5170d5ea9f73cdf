"""Runs a network of any format on evaluation data, and measures its speed."""

import time

import numpy as np

from bert_keras.training.input.feature_batches import prediction_batches


def outputs_of(call, features, is_per_token, is_trimmed=True, batch_size=8):
    """Runs a network on every row.

    Args:
        call: function that maps a dict of int32 arrays [B, T] to a dict of float32 arrays [B, ...]: an IdsNetwork, or
            the result of an opener in `prediction.loading.exported`.
        features: dict of input arrays [N, T]; or [N, K, T] if each row has K sequences with one score each.
        is_per_token: whether the network has an output for each token.
        is_trimmed: whether to cut batches to their longest sequence.
        batch_size: int.

    Returns:
        dict of float32 arrays [N, ...] in the order of the rows, with 0 for tokens that were cut off, as from
        `training.evaluation_pass.Inference`; and float, the rows per second. The first batch runs once without timing.
    """
    num_rows, num_tokens = len(features["input_ids"]), features["input_ids"].shape[-1]
    batches, order = prediction_batches(features, batch_size, is_trimmed)
    collected, seconds = {}, 0.0
    for start, batch in zip(range(0, num_rows, batch_size), batches, strict=True):
        rows = order[start : start + batch_size]
        shape = (len(rows), *batch["input_ids"].shape[1:])  # [B, T], or [B, K, T]
        sequences = {name: value.numpy()[: len(rows)].reshape(-1, shape[-1]) for name, value in batch.items()}
        if not start:
            _answer(call, sequences)  # may compile
        started = time.perf_counter()
        outputs = _answer(call, sequences)
        seconds += time.perf_counter() - started
        for name, values in outputs.items():
            values = values.reshape(shape[:2]) if len(shape) == 3 else values
            if is_per_token:
                values = np.pad(values, [(0, 0), (0, num_tokens - shape[1]), *[(0, 0)] * (values.ndim - 2)])
            collected.setdefault(name, np.empty((num_rows, *values.shape[1:]), np.float32))[rows] = values
    return collected, num_rows / seconds


def _answer(call, sequences):
    return {name: np.asarray(value) for name, value in call(sequences).items()}
