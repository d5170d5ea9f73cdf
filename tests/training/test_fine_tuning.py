"""Fine-tuning runs: training, saved files, and resuming after an interruption."""

import json
import os
import shutil
import signal

import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from made_up_task import MadeUp, run, task_of
from states import assert_bit_equal, weights_in
from training_runs import results_in, rows_of, stop_after

from bert_keras.engine.evaluation_pass import Inference
from bert_keras.modeling import layer_of, open_checkpoint
from bert_keras.tasks.finetuning.model_dir import is_model_of


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """An uninterrupted run with an evaluation every two steps, and its return value."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    task = MadeUp(does_predict=True)
    flags = {"init_checkpoint": start, "eval_steps": 2, "save_checkpoints_steps": 4, "do_predict": True}
    with without_graphs():
        return folder, run(task, folder, **flags)


def files_below(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_run_leaves_what_it_says(whole):
    folder, metrics = whole
    assert metrics == {name: json.loads((folder / "evaluation.json").read_text())["metrics"][name] for name in metrics}
    rows = [row for row in rows_of(folder) if row["split"] == "eval"]
    assert [row["step"] for row in rows] == ["2", "4", "6"]
    best = max(rows, key=lambda row: float(row["accuracy"]))
    assert metrics["margin"] == pytest.approx(float(best["margin"]), rel=1e-6)
    task = task_of(folder)
    assert task == {
        "program": "run_made_up",
        "task": "classification",
        "labels": ["low", "high"],
        "is_pair": False,
        "doc_stride": None,
        "max_seq_length": 8,
        "step": int(best["step"]),
        "metrics": metrics,
    }
    results = results_in(folder)
    assert results.keys() == {"eval_accuracy", "eval_margin", "global_step"}
    assert int(results["global_step"]) == task["step"]
    assert json.loads((folder / "evaluation.json").read_text())["baseline"] == {"accuracy": 0.0, "margin": 0.0}
    logits = np.array(json.loads((folder / "answers.json").read_text()))
    assert logits[:, 0].sum() == pytest.approx(metrics["margin"], rel=1e-5)
    assert np.array(json.loads((folder / "predictions.json").read_text())).shape == (5, 2)


def test_the_model_to_use_is_complete_and_holds_no_more_than_weights(whole, start):
    folder, _ = whole
    step = task_of(folder)["step"]
    assert {path.name for path in (folder / "model").iterdir()} == {
        *("bert_config.json", "vocab.txt", "tokenizer_config.json", "task.json", "checkpoint"),
        *(f"model.ckpt-{step}.index", f"model.ckpt-{step}.data-00000-of-00001"),
    }
    assert (folder / "model" / "vocab.txt").read_bytes() == (start / "vocab.txt").read_bytes()
    names = set(weights_in(folder / "model"))
    assert names == {name for name in weights_in(folder) if "/adam_" not in name and name != "global_step"}
    assert {"output_weights", "output_bias"} < names


@pytest.mark.slow  # several runs
@pytest.mark.usefixtures("no_graphs")
def test_a_run_that_was_stopped_three_times_ends_as_if_it_had_not(whole, start, tmp_path, monkeypatch, capsys):
    folder, metrics = whole
    flags = {"init_checkpoint": start, "eval_steps": 2, "save_checkpoints_steps": 4, "do_predict": True}
    stopped = tmp_path / "run"

    def assert_stopped(step):
        assert run(MadeUp(does_predict=True), stopped, **flags) is None
        text = f"stopped by SIGTERM after step {step}, which is saved; the same command continues"
        assert text in capsys.readouterr().out
        assert weights_in(stopped)["global_step"] == step
        assert not (stopped / "eval_results.txt").exists()

    # In training: after an evaluation without a checkpoint.
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert_stopped(3)
    # During an evaluation: of step 4, which has a checkpoint, and of the last one.
    outputs = Inference.outputs
    for step in (4, 6):

        def stopping(self, features, step=step):
            for result in outputs(self, features):
                if weights_in(stopped)["global_step"] == step:
                    os.kill(os.getpid(), signal.SIGTERM)
                yield result

        with monkeypatch.context() as patch:
            patch.setattr(Inference, "outputs", stopping)
            assert_stopped(step)
        assert str(step) not in {row["step"] for row in rows_of(stopped) if row["split"] == "eval"}
    assert run(MadeUp(does_predict=True), stopped, **flags) == metrics
    assert_bit_equal(weights_in(folder), weights_in(stopped))
    assert rows_of(folder) == rows_of(stopped)
    assert files_below(folder / "model") == files_below(stopped / "model")
    for name in ("eval_results.txt", "evaluation.json", "answers.json", "predictions.json"):
        assert (folder / name).read_bytes() == (stopped / name).read_bytes(), name


@pytest.mark.usefixtures("no_graphs")
def test_the_same_command_again_trains_nothing_and_says_the_same(whole, start, capsys):
    folder, metrics = whole
    before = files_below(folder)
    task = MadeUp(does_predict=True)
    flags = {"init_checkpoint": start, "eval_steps": 2, "save_checkpoints_steps": 4, "do_predict": True}
    assert run(task, folder, **flags) == metrics
    assert task.num_evaluations == 1
    assert "nothing to train: step 6 of 6 is reached\n" in capsys.readouterr().out
    after = files_below(folder)
    changed = {name for name in before if before[name] != after[name]}
    assert {name for name in changed if not name.endswith(".png")} == set()


@pytest.mark.usefixtures("no_graphs")
def test_evaluation_and_prediction_alone_take_the_model_and_the_settings_of_the_run(whole, tmp_path, capsys):
    original, metrics = whole
    folder = tmp_path / "run"  # a copy, because other tests use the run
    shutil.copytree(original, folder)
    predictions = (folder / "predictions.json").read_bytes()
    (folder / "predictions.json").unlink()
    assert run(MadeUp(does_predict=True), folder, do_train=False, do_predict=True) == metrics
    assert (folder / "predictions.json").read_bytes() == predictions
    assert "settings that were not given are taken from the run" in capsys.readouterr().out
    # Training settings, such as evaluating every two steps, do not prevent a prediction.
    (folder / "predictions.json").unlink()
    assert run(MadeUp(does_evaluate=False, does_predict=True), folder, do_train=False, do_predict=True) is None
    assert (folder / "predictions.json").read_bytes() == predictions
    # The model can also be used from another folder.
    assert run(MadeUp(), tmp_path / "new" / "folder", do_train=False, init_checkpoint=original) == metrics
    assert (tmp_path / "new" / "folder" / "eval_results.txt").exists()


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_the_best_checkpoint_is_kept_and_early_stopping_ends_training(start, tmp_path, capsys):
    flags = {"init_checkpoint": start, "eval_steps": 1, "save_checkpoints_steps": 1, "early_stopping": 3}
    metrics = run(MadeUp(scores=[0.5, 0.7, 0.7, 0.6, 0.7, 0.1]), tmp_path, **flags)
    rows = {row["step"]: row for row in rows_of(tmp_path) if row["split"] == "eval"}
    assert [row["accuracy"] for row in rows.values()] == ["0.5", "0.7", "0.7", "0.6", "0.7"]
    # model/ and the last evaluation have the weights of the first best step, not of the last step.
    assert weights_in(tmp_path)["global_step"] == 5
    assert (task_of(tmp_path)["step"], task_of(tmp_path)["metrics"]["accuracy"]) == (2, 0.7)
    at_two = open_checkpoint(str(tmp_path / "model.ckpt-2"))
    for name, value in weights_in(tmp_path / "model").items():
        np.testing.assert_array_equal(value, at_two.read(name), err_msg=name)
    assert metrics["margin"] == pytest.approx(float(rows["2"]["margin"]), rel=1e-6)
    shown = capsys.readouterr().out
    assert "training ends early (--early_stopping); the model has the weights with the best accuracy" in shown
    assert "evaluation of step 2: " in shown

    before = weights_in(tmp_path), (tmp_path / "metrics.csv").read_bytes()
    run(MadeUp(), tmp_path, **flags)
    assert "nothing to train: 3 evaluations did not improve accuracy" in capsys.readouterr().out
    assert_bit_equal(before[0], weights_in(tmp_path))
    assert (tmp_path / "metrics.csv").read_bytes() == before[1]
    # With more patience, the run continues from its end.
    run(MadeUp(scores=[0.9]), tmp_path, **{**flags, "early_stopping": 5})
    assert [row["step"] for row in rows_of(tmp_path) if row["split"] == "eval"] == ["1", "2", "3", "4", "5", "6"]
    assert task_of(tmp_path)["step"] == 6


@pytest.mark.usefixtures("no_graphs")
def test_from_random_numbers_and_without_an_evaluation_the_last_weights_are_kept(start, tmp_path, capsys):
    files = {"bert_config_file": start / "bert_config.json", "vocab_file": start / "vocab.txt"}
    assert run(MadeUp(does_evaluate=False), tmp_path, num_train_epochs=1, **files) is None
    state = weights_in(tmp_path)
    assert state["global_step"] == 3
    for name, value in weights_in(tmp_path / "model").items():
        np.testing.assert_array_equal(value, state[name], err_msg=name)
    assert (task_of(tmp_path)["step"], task_of(tmp_path)["metrics"]) == (3, {})
    assert not (tmp_path / "eval_results.txt").exists()
    shown = " ".join(capsys.readouterr().out.split())
    assert "warning: no --init_checkpoint: training starts from random numbers, without any pre-training" in shown


@pytest.mark.parametrize("does_predict", [False, True])
def test_a_batch_that_is_too_large_to_evaluate_or_predict_is_named(whole, tmp_path, monkeypatch, does_predict):
    def fail(self, features):
        raise tf.errors.ResourceExhaustedError(None, None, "OOM when allocating tensor")

    monkeypatch.setattr(Inference, "outputs", fail)
    task = MadeUp(does_evaluate=not does_predict, does_predict=does_predict)
    flag = "predict_batch_size" if does_predict else "eval_batch_size"
    with pytest.raises(ValueError, match=f"memory does not hold a batch of {flag}; give a lower one"):
        run(task, tmp_path, do_train=False, init_checkpoint=whole[0], do_predict=does_predict)


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_frozen_layers_keep_their_bits_and_lower_layers_move_less_by_the_decay(deep_start, tmp_path, capsys):
    before, after = weights_in(deep_start), {}
    flags = {"init_checkpoint": deep_start, "train_batch_size": 24, "num_train_epochs": 1, "warmup_proportion": 0}
    for decay in (1.0, 0.1):
        task = MadeUp(does_evaluate=decay == 1.0)
        task.files = dict.fromkeys(("train_file", "eval_file"), str(deep_start / "vocab.txt"))
        run(task, tmp_path / str(decay), layer_decay=decay, freeze_layers=1, **flags)
        after[decay] = weights_in(tmp_path / str(decay) / "model")
    for name, value in after[1.0].items():
        layer = layer_of(name, 2)
        if name.startswith("bert/"):
            assert (before[name].tobytes() == value.tobytes()) == (layer <= 1), name
            moved, expected = after[0.1][name] - before[name], 0.1 ** (3 - layer) * (value - before[name])
            np.testing.assert_allclose(moved, expected, rtol=0, atol=5e-7, err_msg=name)
    name = "bert/encoder/layer_1/output/LayerNorm/gamma"
    assert np.abs(after[1.0][name] - before[name]).max() > 5e-3
    slots = {name for name in weights_in(tmp_path / "1.0") if name.endswith("/adam_m")}
    assert slots == {f"{name}/adam_m" for name in after[1.0] if layer_of(name, 2) > 1}
    assert " ".join(capsys.readouterr().out.split()).count("vocab.txt is the training data: its metrics") == 1


def test_a_head_of_another_shape_is_refused_unless_a_new_one_is_asked_for(whole, tmp_path):
    folder, _ = whole
    flags = {"init_checkpoint": folder, "num_train_epochs": 1, "train_batch_size": 24}
    with pytest.raises(
        ValueError,
        match=r"has a head of another shape: output_weights is \[2, 8\], and \[3, 8\] is needed; give new_head",
    ):
        run(MadeUp(num_classes=3), tmp_path / "other", **flags)
    with pytest.raises(
        ValueError, match="has a head for the labels low, high, and no, yes are needed; give new_head to start it fr"
    ):
        run(MadeUp(labels=["no", "yes"]), tmp_path / "other", **flags)


@pytest.mark.slow
@pytest.mark.usefixtures("no_graphs")
def test_a_head_that_is_there_is_trained_on_unless_a_new_one_is_asked_for(whole, tmp_path):
    folder, _ = whole
    # At this rate the weights do not change, so that the final weights are the initial ones.
    flags = {"init_checkpoint": folder, "learning_rate": 1e-30, "train_batch_size": 24, "num_train_epochs": 1}
    run(MadeUp(does_evaluate=False), tmp_path / "on", **flags)
    run(MadeUp(does_evaluate=False), tmp_path / "new", new_head=True, **flags)
    held = weights_in(folder / "model")
    assert_bit_equal(weights_in(tmp_path / "on" / "model"), held)
    new = weights_in(tmp_path / "new" / "model")
    assert {name for name in held if held[name].tobytes() != new[name].tobytes()} == {"output_weights", "output_bias"}
    assert np.abs(new["output_bias"]).max() < 1e-20


def test_a_folder_with_a_run_of_other_settings_or_data_is_refused(whole, start):
    for name, changes, message in (
        ("abc", {"learning_rate": 0.02}, "learning_rate was 0.01 and is 0.02 now; give the old settings to resume"),
        ("abc", {"num_train_epochs": 3}, "num_train_epochs was 2.0 and is 3.0 now"),
        ("abc", {"precision": "bfloat16"}, "precision was float32 and is bfloat16 now"),
        ("abc", {"freeze_layers": 1}, "freeze_layers was not given and is 1 now"),
        ("abc", {"num_seeds": 2}, "is_one_of_several_tries was False and is True now"),
        ("xyz", {}, "train_data was abc and is xyz now; give the old settings"),
    ):
        with pytest.raises(ValueError, match=f"holds a run with other settings: .*{message}"):
            run(MadeUp(name=name), whole[0], **{"init_checkpoint": start, "eval_steps": 2, **changes})


def test_a_run_whose_start_makes_other_tokens_now_is_refused(whole, start, tmp_path):
    folder = shutil.copytree(whole[0], tmp_path / "run")
    config = json.loads((folder / "run_config.json").read_text(encoding="utf-8"))
    config["facts"]["tokenizer"]["max_input_chars_per_word"] = 7
    (folder / "run_config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(ValueError, match="tokenizer: max_input_chars_per_word was 7 and is 200 now; give the old"):
        run(MadeUp(), folder, init_checkpoint=start, eval_steps=2)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (
            {"train_batch_size": 25, "num_train_epochs": 1},
            "24 examples, train_batch_size=25 and num_train_epochs=1.0 give no training step; give",
        ),
        (
            {"train_batch_size": "8,9", "gradient_accumulation_steps": 2},
            "train_batch_size=9 cannot be divided evenly by 1 device",
        ),
    ],
    ids=["too few examples", "uneven parts"],
)
def test_batches_that_do_not_fit_are_refused_before_anything_is_made(start, tmp_path, flags, message):
    with pytest.raises(ValueError, match=message):
        run(MadeUp(), tmp_path / "run", init_checkpoint=start, **flags)
    assert not (tmp_path / "run").exists()


@pytest.mark.slow  # five runs
@pytest.mark.usefixtures("no_graphs")
def test_several_seeds_that_were_interrupted_end_as_if_they_had_not(start, tmp_path, monkeypatch, messages):
    flags = {"init_checkpoint": start, "num_train_epochs": 1, "num_seeds": 2, "learning_rate": 0.05}
    metrics = run(MadeUp(baseline=2.0), tmp_path / "whole", **flags)
    with monkeypatch.context() as patch:
        stop_after(patch, 1)  # in the first try
        assert run(MadeUp(baseline=2.0), tmp_path / "run", **flags) is None
    assert (tmp_path / "run" / "tries.tsv").read_text() == "seed\taccuracy\tstatus\n"
    with pytest.raises(ValueError, match="other settings: train_data was abc and is xyz now; give the old settings"):
        run(MadeUp(baseline=2.0, name="xyz"), tmp_path / "run", **flags)
    with pytest.raises(ValueError, match="is_one_of_several_tries was True and is False now"):
        run(MadeUp(baseline=2.0), tmp_path / "run", **{**flags, "num_seeds": 1})
    with monkeypatch.context() as patch:
        stop_after(patch, 1)  # in the second: the first resumes at step 2
        assert run(MadeUp(baseline=2.0), tmp_path / "run", **flags) is None
    assert run(MadeUp(baseline=2.0), tmp_path / "run", **flags) == metrics
    for name in ("tries.tsv", "eval_results.txt", "evaluation.json", "answers.json"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "run" / name).read_bytes(), name
    assert files_below(tmp_path / "whole" / "model") == files_below(tmp_path / "run" / "model")
    rows = [line.split("\t") for line in (tmp_path / "whole" / "tries.tsv").read_text().splitlines()[1:]]
    assert [(seed, status) for seed, _, status in rows] == [
        (seed, "failed: not above the baseline 2") for seed in ("12345", "12346")
    ]
    assert max(float(value) for _, value, _ in rows) == pytest.approx(metrics["accuracy"], rel=1e-5)


@pytest.mark.slow  # several runs
@pytest.mark.usefixtures("no_graphs")
def test_a_try_is_the_run_that_its_settings_alone_would_be(whole, start, tmp_path):
    folder, metrics = whole
    flags = {"init_checkpoint": start, "eval_steps": 2, "save_checkpoints_steps": 4, "do_predict": True}
    # The first try is the worse one.
    task = MadeUp(scores=[-1.0] * 3, does_predict=True)
    assert run(task, tmp_path, learning_rate="0.02,0.01", **flags) == metrics
    [chosen] = (tmp_path / "tries").glob("learning_rate=0.01,*")
    assert json.loads((chosen / "state.json").read_text())["result"]["value"] == pytest.approx(metrics["accuracy"])
    assert_bit_equal(weights_in(tmp_path / "model"), weights_in(folder / "model"))
    assert rows_of(chosen) == rows_of(folder)
    assert task_of(tmp_path) == task_of(folder)
    assert (tmp_path / "predictions.json").read_bytes() == (folder / "predictions.json").read_bytes()
    for path in (tmp_path, folder):
        assert is_model_of(str(path), str(path / "model"))
        assert not is_model_of(str(path), str(start))


@pytest.mark.usefixtures("no_graphs")
def test_settings_that_only_change_the_memory_may_change_when_a_run_resumes(whole, start, tmp_path, capsys):
    flags = {"init_checkpoint": start, "eval_steps": 2, "save_checkpoints_steps": 4, "do_predict": True}
    original, metrics = whole
    folder = tmp_path / "run"  # a copy, because run_config.json changes
    shutil.copytree(original, folder)
    assert run(MadeUp(does_predict=True), folder, gradient_accumulation_steps=2, recompute=True, **flags) == metrics
    assert "nothing to train: step 6 of 6 is reached" in capsys.readouterr().out
