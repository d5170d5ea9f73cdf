"""A network evaluated on all rows of an evaluation."""

import numpy as np
import pytest

from bert_keras.export.judging import outputs_of

FEATURES = {
    "input_ids": np.array([[5, 6, 0, 0], [5, 0, 0, 0], [5, 6, 7, 8], [9, 9, 9, 0], [7, 0, 0, 0]], np.int32),
    "input_mask": np.array([[1, 1, 0, 0], [1, 0, 0, 0], [1, 1, 1, 1], [1, 1, 1, 0], [1, 0, 0, 0]], np.int8),
}


def sums(features):
    assert all(values.dtype == np.int32 for values in features.values())
    total = features["input_ids"].sum(-1, keepdims=True)
    return {"logits": np.concatenate([total, -total], axis=1).astype(np.float32)}


def test_rows_come_back_in_their_order():
    outputs, speed = outputs_of(sums, FEATURES, is_per_token=False, batch_size=2)
    assert outputs["logits"].tolist() == [[11, -11], [5, -5], [26, -26], [27, -27], [7, -7]]
    assert speed > 0


@pytest.mark.parametrize("is_trimmed", [True, False])
def test_what_is_for_each_token_is_filled_up(is_trimmed):
    lengths = []

    def double(features):
        lengths.append(features["input_ids"].shape[1])
        return {"logits": 2.0 * features["input_ids"]}

    long = {name: np.pad(values, [(0, 0), (0, 12)]) for name, values in FEATURES.items()}
    outputs, _ = outputs_of(double, long, is_per_token=True, is_trimmed=is_trimmed, batch_size=2)
    assert outputs["logits"].tolist() == (2.0 * long["input_ids"]).tolist()
    assert set(lengths) == ({8} if is_trimmed else {16})


def test_the_sequences_of_a_row_have_a_score_each():
    def score(features):
        return {"logits": features["input_ids"].sum(-1, keepdims=True).astype(np.float32)}

    pairs = {name: np.stack([values, values[::-1]], axis=1) for name, values in FEATURES.items()}
    outputs, _ = outputs_of(score, pairs, is_per_token=False, batch_size=2)
    assert outputs["logits"].tolist() == [[11, 7], [5, 27], [26, 26], [27, 5], [7, 11]]
