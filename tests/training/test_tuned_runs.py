"""Runs with other constants of training than those of the original BERT."""

import json
import os

import numpy as np
import pytest
from eager import without_graphs
from made_up_task import MadeUp, run, task_of
from pretraining_runs import make_files
from pretraining_runs import run as pretrain
from states import assert_bit_equal, weights_in
from training_runs import rows_of, stop_after

AVERAGED = {"ema_decay": 0.9, "eval_steps": 2, "save_checkpoints_steps": 2, "keep_checkpoint_max": 2}


@pytest.fixture(scope="module")
def averaged(start, tmp_path_factory):
    """A run that averages its weights, and its return value; its best step is not the last one."""
    folder = tmp_path_factory.mktemp("averaged") / "run"
    with without_graphs():
        return folder, run(MadeUp(scores=[0.1, 0.9, 0.2]), folder, init_checkpoint=start, **AVERAGED)


@pytest.fixture(scope="module")
def plain(start, tmp_path_factory):
    """The folder of the same run without averages."""
    folder = tmp_path_factory.mktemp("plain") / "run"
    with without_graphs():
        run(MadeUp(scores=[0.1, 0.9, 0.2]), folder, init_checkpoint=start, **{**AVERAGED, "ema_decay": 0})
    return folder


def values_of(state, suffix):
    return {name.removesuffix(suffix): value for name, value in state.items() if name.endswith(suffix)}


@pytest.mark.usefixtures("no_graphs")
def test_the_model_and_the_evaluation_have_the_averages(averaged, plain, tmp_path):
    folder, metrics = averaged
    assert task_of(folder)["step"] == 4
    at_four, model = weights_in(folder / "model.ckpt-4"), weights_in(folder / "model")
    assert_bit_equal(model, {name: at_four[name] for name in model})
    trained = values_of(at_four, "/unaveraged")
    assert trained.keys() == model.keys() == values_of(at_four, "/adam_m").keys()
    moved = [name for name in trained if np.abs(trained[name] - model[name]).max() > 1e-3]
    assert "output_bias" in moved
    # The training itself is that without averages.
    plain, last = weights_in(plain), weights_in(folder)
    assert_bit_equal(values_of(last, "/unaveraged"), {name: plain[name] for name in trained})
    assert_bit_equal(values_of(last, "/adam_v"), values_of(plain, "/adam_v"))
    # The same model in a new run has the metrics of the evaluation in training.
    again = run(MadeUp(scores=[0.9]), tmp_path / "again", do_train=False, init_checkpoint=folder)
    assert again == metrics
    evaluated = [row for row in rows_of(folder) if row["split"] == "eval"]
    assert float(evaluated[1]["margin"]) == pytest.approx(metrics["margin"], rel=1e-6)
    # The last checkpoint alone gives the averages as well.
    for name in os.listdir(folder):
        if name.startswith("model.ckpt-6"):
            (tmp_path / name).write_bytes((folder / name).read_bytes())
    for name in ("bert_config.json", "vocab.txt", "tokenizer_config.json"):
        (tmp_path / name).write_bytes((folder / "model" / name).read_bytes())
    at_six = run(MadeUp(), tmp_path / "six", do_train=False, init_checkpoint=tmp_path / "model.ckpt-6")
    assert float(evaluated[2]["margin"]) == pytest.approx(at_six["margin"], rel=1e-6)


@pytest.mark.slow  # two runs
@pytest.mark.usefixtures("no_graphs")
def test_without_an_evaluation_the_model_has_the_averages_of_the_last_step(start, tmp_path):
    flags = {"init_checkpoint": start, "ema_decay": 0.9, "num_train_epochs": 1, "train_batch_size": 12}
    run(MadeUp(does_evaluate=False), tmp_path, **flags)
    model, last = weights_in(tmp_path / "model"), weights_in(tmp_path)
    assert_bit_equal(model, {name: last[name] for name in model})
    assert model["output_bias"].tobytes() != last["output_bias/unaveraged"].tobytes()
    # The finished run, once more: it trains nothing and uses the same weights.
    (tmp_path / "model" / "task.json").unlink()
    run(MadeUp(does_evaluate=False), tmp_path, **flags)
    assert_bit_equal(weights_in(tmp_path / "model"), model)


@pytest.mark.slow  # two runs; tests/training/test_tuning.py continues single steps
@pytest.mark.usefixtures("no_graphs")
def test_a_run_with_averages_that_was_stopped_ends_as_if_it_had_not(averaged, start, tmp_path, monkeypatch):
    folder, metrics = averaged
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert run(MadeUp(scores=[0.1]), tmp_path, init_checkpoint=start, **AVERAGED) is None
    assert weights_in(tmp_path)["global_step"] == 3
    assert run(MadeUp(scores=[0.9, 0.2]), tmp_path, init_checkpoint=start, **AVERAGED) == metrics
    assert_bit_equal(weights_in(tmp_path), weights_in(folder))
    assert_bit_equal(weights_in(tmp_path / "model"), weights_in(folder / "model"))
    assert rows_of(tmp_path) == rows_of(folder)


def test_other_constants_are_refused_and_the_number_of_checkpoints_may_change(averaged, start, capsys):
    folder, _ = averaged
    assert sorted(path.name for path in folder.glob("*.index")) == ["model.ckpt-4.index", "model.ckpt-6.index"]
    flags = {"init_checkpoint": start, **AVERAGED}
    for change, message in (
        ({"ema_decay": 0.5}, "ema_decay was 0.9 and is 0.5 now"),
        ({"weight_decay_rate": 0.1}, "weight_decay_rate was 0.01 and is 0.1 now"),
        ({"learning_rate_schedule": "cosine"}, "learning_rate_schedule was linear and is cosine now"),
        ({"label_smoothing": 0.1}, "label_smoothing was 0.0 and is 0.1 now"),
        ({"max_steps": 7}, "max_steps was 0 and is 7 now"),
    ):
        with pytest.raises(ValueError, match=f"holds a run with other settings: {message}; give the old settings"):
            run(MadeUp(), folder, **{**flags, **change})
    run(MadeUp(), folder, **{**flags, "keep_checkpoint_max": 0})
    assert "nothing to train: step 6 of 6 is reached\n" in capsys.readouterr().out


@pytest.mark.usefixtures("no_graphs")
def test_steps_replace_epochs_the_schedule_follows_and_labels_are_smoothed(plain, start, tmp_path):
    flags = {"init_checkpoint": start, "max_steps": 5, "warmup_proportion": 0.2, "learning_rate_schedule": "cosine"}
    flags |= {"num_train_epochs": 100, "label_smoothing": 0.4}
    run(MadeUp(does_evaluate=False), tmp_path, **flags)
    rows = rows_of(tmp_path)
    rates = [float(row["learning_rate"]) for row in rows]
    assert rates == pytest.approx([0, *(0.005 * (1 + np.cos(np.pi * step / 4)) for step in range(4))], rel=1e-5)
    assert weights_in(tmp_path)["global_step"] == 5
    # The first step of the other run has the same weights and masks.
    other = rows_of(plain)[0]
    assert rows[0]["accuracy"] == other["accuracy"]
    assert abs(float(rows[0]["loss"]) - float(other["loss"])) > 1e-3


def test_labels_that_cannot_be_smoothed_are_refused(start, tmp_path):
    task = MadeUp()
    task.no_effect = {"label_smoothing": "its labels are songs"}
    with pytest.raises(ValueError, match="^label_smoothing does not apply: its labels are songs; le"):
        run(task, tmp_path / "run", init_checkpoint=start, label_smoothing=0.1)
    assert not (tmp_path / "run").exists()


@pytest.fixture(scope="module")
def pretraining(tmp_path_factory, tiny_config, write_records):
    """The flags of a short pre-training that averages its weights, and its metrics."""
    flags = make_files(tmp_path_factory.mktemp("pretraining"), tiny_config, write_records)
    flags |= {"num_train_steps": 4, "num_warmup_steps": 0, "do_eval": True, "log_steps": 1, "ema_decay": 0.5}
    flags |= {"masked_lm_loss_weight": 0, "next_sentence_loss_weight": 2, "do_train": True}
    with without_graphs():
        return flags, pretrain(flags)


@pytest.mark.usefixtures("no_graphs")
def test_pretraining_evaluates_the_averages_and_weighs_its_losses(pretraining):
    flags, metrics = pretraining
    assert pretrain(flags, do_train=False) == metrics
    assert metrics["loss"] == pytest.approx(2 * metrics["next_sentence_loss"], rel=1e-5)
    for row in rows_of(flags["output_dir"])[:4]:
        assert float(row["loss"]) == pytest.approx(2 * float(row["next_sentence_loss"]), rel=1e-5)
    state = weights_in(flags["output_dir"])
    slots = values_of(state, "/adam_m")
    assert not slots["cls/predictions/output_bias"].any()
    assert slots["cls/seq_relationship/output_bias"].any()
    # The loss does not depend on the other head, which keeps its bits, and so does its average.
    for name in ("cls/predictions/output_bias", "cls/predictions/transform/dense/kernel"):
        assert state[name].tobytes() == state[f"{name}/unaveraged"].tobytes()


def test_pretraining_without_any_loss_is_refused(pretraining, tmp_path):
    flags = {**pretraining[0], "output_dir": tmp_path / "run"}
    with pytest.raises(
        ValueError,
        match="^masked_lm_loss_weight=0 and next_sentence_loss_weight=0 leave nothing to learn; give a w",
    ):
        pretrain(flags, next_sentence_loss_weight=0)
    path = flags["input_file"].with_name("train.tfrecord.json")
    path.write_text(json.dumps({"settings": {"sentence_task": "none"}}))
    with pytest.raises(ValueError, match="^masked_lm_loss_weight=0 and records without a sentence task leave nothing"):
        pretrain(flags)
    path.unlink()
    assert not (tmp_path / "run" / "run_config.json").exists()
