"""Runs in float16 and runs compiled by XLA learn like others, and resume after a stop."""

import dataclasses
import functools
import gc

import keras
import numpy as np
import pytest
import tensorflow as tf
from made_up_task import MadeUp, make_features, run
from rounding import assert_close
from states import assert_bit_equal, state_of, weights_in
from training_runs import assert_near, rows_of

from bert_keras.engine.evaluation_pass import Inference, last, length_step
from bert_keras.engine.input.feature_batches import in_parts, training_batches
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.trainer import make_trainer
from bert_keras.modeling import (
    BertConfig,
    ClassificationLoss,
    ClassifierModel,
    SquadModel,
    load_weights,
    open_checkpoint,
    weights_by_name,
)
from bert_keras.modeling.dropout import Dropout
from bert_keras.settings.groups import RunSettings

STRATEGY = tf.distribute.get_strategy()


@pytest.mark.slow  # three runs of sixty steps; tests/training/test_loss_scale.py has shorter ones
def test_a_run_in_float16_learns_and_goes_on_with_the_scale_it_had(deep_start, tmp_path, monkeypatch, capsys):
    # So large that the first steps overflow, and growing so fast that later ones do.
    monkeypatch.setattr("bert_keras.engine.trainer.LossScale", functools.partial(LossScale, 2.0**24, 3))
    # Two layers, whose gradients overflow again late in a run.
    flags = {"init_checkpoint": deep_start, "precision": "float16", "num_train_epochs": 20}
    flags |= {"eval_steps": 30, "save_checkpoints_steps": 30}
    run(MadeUp(scores=[0.5, 0.6]), tmp_path / "whole", **flags)
    text = "1 step up to step 1 changed no weights because the gradients overflowed float16; the loss scale is now"
    assert text in capsys.readouterr().out
    with pytest.raises(OSError, match="stop"):
        run(MadeUp(scores=[OSError("stop")]), tmp_path / "run", **flags)
    gc.collect()  # releases the objects of the exception, including the lock of the folder
    halfway = weights_in(tmp_path / "run")
    assert halfway["global_step"] == 30
    run(MadeUp(scores=[0.5, 0.6]), tmp_path / "run", **flags)
    assert_bit_equal(weights_in(tmp_path / "run"), weights_in(tmp_path / "whole"))
    assert rows_of(tmp_path / "run") == rows_of(tmp_path / "whole")

    rows = [row for row in rows_of(tmp_path / "whole") if row["split"] == "train"]
    assert len(rows) == 60
    skipped = [row for row in rows if row["skipped_steps"] == "1"]
    assert {row["step"] for row in skipped} > {"1", "2"}
    assert all(row["loss"] == row["gradient_norm"] == "" for row in skipped)
    assert any(int(row["step"]) > 30 for row in skipped)
    assert float(rows[-1]["loss_scale"]) == weights_in(tmp_path / "whole")["loss_scale"] < 2**24
    losses = [float(row["loss"]) for row in rows if row["loss"]]
    assert losses[0] > 0.5
    assert np.mean(losses[-6:]) < 0.7 * losses[0]

    # The loss scale is not a weight: loading the checkpoint ignores it.
    checkpoint = open_checkpoint(str(tmp_path / "whole"))
    assert {"loss_scale", "loss_scale_steps"} < set(checkpoint.names)
    config = BertConfig.from_json_file(deep_start / "bert_config.json")
    report = load_weights(weights_by_name(ClassifierModel(config, 2)), checkpoint)
    assert report.unused == []


@pytest.mark.slow  # XLA compiles four programs; a shorter test of the same network is below
def test_a_run_that_is_compiled_trains_the_same_weights(deep_start, tmp_path):
    flags = {"init_checkpoint": deep_start, "eval_steps": 3, "gradient_accumulation_steps": 2, "do_predict": True}
    expected = run(MadeUp(does_predict=True), tmp_path / "plain", **flags)
    compiled = run(MadeUp(does_predict=True), tmp_path / "compiled", **flags, jit=True)
    assert compiled == pytest.approx(expected, rel=1e-5)
    assert_near(weights_in(tmp_path / "compiled"), weights_in(tmp_path / "plain"), atol=2e-6)


def make_rows():
    """Makes rows of random features, some of them much longer than the others."""
    features = make_features(24, 1)
    padding = [(0, 0), (0, 128 - features["input_ids"].shape[1])]
    features = {name: np.pad(value, padding) if value.ndim == 2 else value for name, value in features.items()}
    features["input_mask"][::5, :64] = 1
    features["input_ids"] += features["input_mask"] * (features["input_ids"] == 0)
    return features


@pytest.mark.slow  # traces a step for each length
def test_batches_cut_to_few_lengths_train_as_padded_ones(tiny_config, monkeypatch):
    # Batches of another length get other masks.
    monkeypatch.setattr(Dropout, "is_active", lambda self, seed: False)
    features, states, losses, shapes = make_rows(), [], [], []
    config = dataclasses.replace(tiny_config, max_position_embeddings=128)
    for jit in (False, True):
        keras.utils.set_random_seed(1)
        settings = RunSettings(learning_rate=1e-3, num_train_steps=9, seed=0, jit=jit)
        trainer = make_trainer(ClassificationLoss(ClassifierModel(config, 2)), STRATEGY, settings)
        batches = training_batches(features, 4, 0, is_trimmed=jit, length_step=length_step(128, jit))
        shapes.append({batch["input_ids"].shape[1] for batch in batches.take(6)})
        losses.append(float(trainer.train(iter(in_parts(batches)), tf.constant(6))["loss"]))
        states.append(state_of(trainer))
    assert shapes == [{128}, {16, 64}]
    assert losses[1] == pytest.approx(losses[0], rel=1e-6)
    assert_near(*states, atol=2e-6)


def test_answers_of_compiled_models_are_those_of_others(tiny_config):
    config = dataclasses.replace(tiny_config, max_position_embeddings=128)
    model, features = SquadModel(config), make_rows()
    outputs = last(Inference(model, STRATEGY, 5, is_trimmed=True, is_compiled=True).outputs(features))
    expected = last(Inference(model, STRATEGY, 5).outputs(features))
    tokens = features["input_mask"] == 1
    for name, values in outputs.items():
        assert_close(values[tokens], expected[name][tokens])
        assert not values[:, 64:].any()


@pytest.mark.parametrize(
    ("longest", "lengths"),
    [(128, range(16, 129, 16)), (384, range(48, 385, 48)), (100, [16, 32, 48, 64, 80, 96, 100]), (8, [8])],
)
def test_there_are_eight_lengths_to_compile_at_most(longest, lengths):
    step = length_step(longest, is_compiled=True)
    assert sorted({min(-(-length // step) * step, longest) for length in range(1, longest + 1)}) == list(lengths)
    assert length_step(longest, is_compiled=False) == 8
