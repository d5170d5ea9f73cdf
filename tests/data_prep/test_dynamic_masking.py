"""Masks drawn while reading records: properties of every draw, and reproducibility from seed and step."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_data import assert_same_batches, take

from bert_keras.data_prep.pretraining.build import Build, build_pretraining_data
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings, num_predictions
from bert_keras.data_prep.records.reading import open_records
from bert_keras.engine.input.pretraining_batches import evaluation_batches, mask_batch, training_batches
from bert_keras.storage import paths

CLS, SEP, MASK = 2, 3, 4
MASKING = {"cls_id": CLS, "sep_id": SEP, "mask_id": MASK, "vocab_size": 50, "masked_lm_prob": 0.15}


def make_batch(num_rows, length):
    rng = np.random.default_rng(0)
    ids = rng.integers(5, 50, (num_rows, length))
    num_tokens = rng.integers(4, length + 1, num_rows)
    num_tokens[0] = length
    for row, count in enumerate(num_tokens):
        ids[row, 0] = CLS
        ids[row, [count // 2, count - 1]] = SEP
        ids[row, count:] = 0
    is_real = np.arange(length) < num_tokens[:, None]
    return {"input_ids": tf.constant(ids, tf.int32), "input_mask": tf.constant(is_real, tf.int32)}


def masked(batch, seed=(1, 2), predictions=20, **changes):
    return {
        name: value.numpy()
        for name, value in mask_batch(batch, {**MASKING, **changes}, predictions, tf.constant(seed, tf.int64)).items()
    }


@pytest.mark.parametrize(("length", "predictions"), [(128, 20), (30, 3), (12, 20)])
def test_tokens_are_chosen_as_when_records_are_built(length, predictions):
    batch = make_batch(60, length)
    result, original = masked(batch, predictions=predictions), batch["input_ids"].numpy()
    num_tokens = batch["input_mask"].numpy().sum(axis=1)
    for row in range(60):
        weights, positions = result["masked_lm_weights"][row], result["masked_lm_positions"][row]
        count = int(weights.sum())
        candidates = sum(token not in (0, CLS, SEP) for token in original[row])
        assert count == min(num_predictions(num_tokens[row], 0.15, predictions), candidates)
        assert weights.tolist() == [1.0] * count + [0.0] * (predictions - count)
        chosen = positions[:count].tolist()
        assert chosen == sorted(set(chosen))
        assert result["masked_lm_ids"][row].tolist() == [*original[row, chosen], *[0] * (predictions - count)]
        assert not positions[count:].any()
        assert not {CLS, SEP, 0} & set(result["masked_lm_ids"][row, :count].tolist())
        rest = np.setdiff1d(np.arange(length), chosen)
        assert (result["input_ids"][row, rest] == original[row, rest]).all()
    # Half a token is rounded to the even number, as in Python.
    assert masked(make_batch(1, 30))["masked_lm_weights"].sum() == 4 == num_predictions(30, 0.15, 20)


def test_chosen_tokens_are_masked_kept_or_replaced():
    batch = make_batch(400, 128)
    result = masked(batch)
    is_chosen = result["masked_lm_weights"] > 0
    now = np.take_along_axis(result["input_ids"], result["masked_lm_positions"], 1)[is_chosen]
    before = result["masked_lm_ids"][is_chosen]
    assert np.mean(now == MASK) == pytest.approx(0.8 + 0.1 / 50, abs=0.015)
    assert np.mean(now == before) == pytest.approx(0.1 + 0.1 / 50, abs=0.015)
    others = now[(now != MASK) & (now != before)]
    assert set(others.tolist()) == set(range(50)) - {MASK}
    # Every eligible position is equally likely.
    candidates = (batch["input_ids"].numpy() > SEP).sum(axis=0)
    chosen = np.bincount(result["masked_lm_positions"][is_chosen], minlength=128)
    assert chosen[1:60].sum() / candidates[1:60].sum() == pytest.approx(0.155, abs=0.015)
    assert chosen[60:].sum() / candidates[60:].sum() == pytest.approx(0.155, abs=0.015)


def test_seed_and_step_decide():
    batch = make_batch(8, 64)
    first = masked(batch, (1, 2))["masked_lm_positions"]
    assert (masked(batch, (1, 2))["masked_lm_positions"] == first).all()
    for seed in ((1, 3), (2, 2), (2, 1)):
        assert (masked(batch, seed)["masked_lm_positions"] != first).any()


@pytest.fixture
def records(tmp_path, letters_tokenizer):
    (tmp_path / "text").write_text("abc def ghi jkl\nmno pqr stu\n\nvw xyz abc def\nghi jkl\n\n" * 5)
    for name, is_dynamic in (("records", True), ("others", False)):
        settings = PretrainingDataSettings(32, 5, dupe_factor=2, dynamic_masking=is_dynamic)
        build_pretraining_data(Build([str(tmp_path / "text")], [str(tmp_path / name)], letters_tokenizer, settings))
    return open_records(str(tmp_path / "records"), 32, 5, 57)


def restored(batch):
    """Returns the ids of a batch before masking, as bytes for each row."""
    ids = batch["input_ids"].copy()
    for row in range(len(ids)):
        count = int(batch["masked_lm_weights"][row].sum())
        ids[row, batch["masked_lm_positions"][row, :count]] = batch["masked_lm_ids"][row, :count]
    return [row.tobytes() for row in ids]


def test_training_masks_differently_in_each_epoch_and_continues_exactly(records):
    total = records.total_examples
    assert total > 15
    batches = take(training_batches(records, 1, seed=4), 2 * total)
    evaluated = [row for batch in take(evaluation_batches(records, total), 1) for row in restored(batch)]
    masks = []
    for part in (batches[:total], batches[total:]):
        assert sorted(restored(batch)[0] for batch in part) == sorted(evaluated)
        masks.append({(restored(batch)[0], batch["masked_lm_positions"].tobytes()) for batch in part})
    assert len(masks[0] & masks[1]) < total / 3
    rest = take(training_batches(records, 1, seed=4, start_step=7), 5)
    assert_same_batches(rest, batches[7:12])


def test_evaluation_masks_in_the_same_way_each_time_and_remote_records_as_local_ones(records, tmp_path):
    address = f"ram://{tmp_path.name}/records"
    for end in ("", ".json"):
        paths.copy(records.files[0] + end, address + end)
    remote = open_records(address, 32, 5, 57)
    assert remote.masking == records.masking
    batches = evaluation_batches(records, 8)
    first = take(batches, 3)
    for again in (take(batches, 3), take(evaluation_batches(remote, 8), 3)):
        assert_same_batches(again, first)
    assert all(batch["masked_lm_weights"].sum() > 8 for batch in first)
    paths.remove(f"{address}.json")
    with pytest.raises(ValueError, match="without masks .dynamic_masking., which need their metadata file"):
        open_records(address, 32, 5, 57)


def test_records_without_masks_are_not_mixed_with_others(records, tmp_path):
    with pytest.raises(ValueError, match="others and .*records were built with different dynamic_masking or mask"):
        open_records(f"{tmp_path}/others,{tmp_path}/records", 32, 5, 57)
