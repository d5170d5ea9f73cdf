"""The inputs on which the scales of int8 are found: data of the run without padding, or sample texts."""

import types

import numpy as np
import pytest

from bert_keras.export.calibration import calibration_of
from bert_keras.export.checks.agreement import batches_of
from bert_keras.tasks.graph.networks import IdsNetwork


def source_of(**features):
    network = types.SimpleNamespace(input_names=("input_ids", "input_mask"))
    return types.SimpleNamespace(network=network, calibration=features)


def test_rows_lose_their_padding():
    ids = np.array([[5, 6, 0, 0], [5, 0, 0, 0], [5, 6, 7, 8]])
    rows = calibration_of(source_of(input_ids=ids, input_mask=np.sign(ids), labels=np.zeros(3)))
    assert [row["input_ids"].tolist() for row in rows] == [[[5, 6]], [[5]], [[5, 6, 7, 8]]]
    assert {name: value.dtype for name, value in rows[0].items()} == dict.fromkeys(
        ("input_ids", "input_mask"), np.int32
    )


def test_many_rows_are_taken_evenly_and_choices_together():
    ids = np.arange(3000 * 2 * 3).reshape(3000, 2, 3)
    rows = calibration_of(source_of(input_ids=ids, input_mask=np.ones_like(ids)))
    assert len(rows) == 300
    assert (rows[0]["input_ids"] == ids[0]).all()
    assert (rows[-1]["input_ids"] == ids[-1]).all()


def test_an_export_is_checked_on_a_padded_batch_and_a_row_alone():
    rows = [{"input_ids": np.full((1, length), length)} for length in range(1, 64)]
    batch, alone = (each["input_ids"] for each in batches_of(rows))
    assert batch.shape == (32, 63)
    assert batch[0].tolist() == [1] + [0] * 62
    assert batch[-1].tolist() == [63] * 63
    assert alone.tolist() == [[1]]


@pytest.mark.parametrize("task", ["classification", "multiple_choice", "question_answering", "fill_mask"])
def test_sample_texts_stand_for_data(open_task, task):
    both = open_task(task)
    settings, network = both.text_model.settings, IdsNetwork(both.live.model, task)
    source = types.SimpleNamespace(network=network, calibration=None, predictor=both.live, settings=settings)
    rows = calibration_of(source)
    assert len(rows) >= 30  # some texts are too long for this model
    assert {tuple(row) for row in rows} == {tuple(network.input_names)}
    assert all(row["input_mask"].all() for row in rows)
    network(rows[0])
