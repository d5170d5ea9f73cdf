"""What a network of any format gives for the rows of an evaluation, and how fast."""

import time

import numpy as np

from bert_keras.training.input.feature_batches import prediction_batches


def outputs_of(call, features, is_per_token, is_trimmed=True, batch_size=8):
    """Asks a network about every row.

    Args:
        call: function of a dict of int32 arrays [B, T] that gives a dict of float32 arrays [B, ...]: an IdsNetwork, or
            what `open_onnx` and `open_litert` give.
        features: dict of arrays with the rows as first axis, what it takes, [N, T]; or [N, K, T], where each row has K
            sequences with a score each.
        is_per_token: whether it gives something for each token.
        is_trimmed: whether batches are cut to their longest sequence.
        batch_size: int.

    Returns:
        dict of float32 arrays [N, ...] in the order of the rows, 0 for tokens that were cut off, as
        `training.evaluation_pass.Inference` gives them; and float, the rows that were answered in a second.
    """
    num_rows, num_tokens = len(features["input_ids"]), features["input_ids"].shape[-1]
    batches, order = prediction_batches(features, batch_size, is_trimmed)
    collected, seconds = {}, 0.0
    for start, batch in zip(range(0, num_rows, batch_size), batches, strict=True):
        rows = order[start : start + batch_size]
        shape = (len(rows), *batch["input_ids"].shape[1:])  # [B, T], or [B, K, T]
        sequences = {name: value.numpy()[: len(rows)].reshape(-1, shape[-1]) for name, value in batch.items()}
        if not start:
            _answer(call, sequences)  # which may compile it
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
