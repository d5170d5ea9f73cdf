"""Fine-tuning runs with LoRA: what they train, the model and the adapter that they leave, and resuming."""

import json

import numpy as np
import pytest
from eager import without_graphs
from made_up_task import MadeUp, run, task_of
from states import assert_bit_equal, weights_in
from training_runs import stop_after

from bert_keras.modeling import ClassifierModel, load_weights, open_checkpoint, weights_by_name
from bert_keras.modeling.lora import load_lora, merged_weights

FLAGS = {"lora_rank": 2, "lora_alpha": 4, "eval_steps": 2, "learning_rate": 0.05}


@pytest.fixture(scope="module")
def whole(start, tmp_path_factory):
    """A run whose second evaluation of three is the best, and its return value."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    task = MadeUp(does_predict=True, scores=[0.1, 0.9, 0.5, 0.9])
    with without_graphs():
        return folder, run(task, folder, init_checkpoint=start, do_predict=True, **FLAGS)


def adapted_model(start, adapter):
    """Returns a classifier with the weights of `start` and an adapter, and what the adapter says of itself."""
    checkpoint = open_checkpoint(start)
    model = ClassifierModel(checkpoint.config, 2)
    load_weights(weights_by_name(model), checkpoint, allow_partial=True)
    return model, load_lora(model, adapter)


@pytest.mark.usefixtures("no_graphs")
def test_the_model_to_use_is_merged_and_has_the_original_names(whole, start):
    folder, metrics = whole
    before, after = weights_in(start), weights_in(folder / "model")
    assert set(after) == {name for name in before if not name.startswith("cls/")} | {"output_weights", "output_bias"}
    changed = {name for name in after if name in before and before[name].tobytes() != after[name].tobytes()}
    queries = [f"bert/encoder/layer_0/attention/self/{name}/kernel" for name in ("query", "value")]
    assert changed == {*queries, "bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    for name in queries:
        assert np.linalg.matrix_rank(after[name] - before[name], tol=1e-5) == 2
    # The metrics are those of the merged model, read again from its folder.
    again = run(MadeUp(scores=[0.9]), folder, do_train=False)
    assert again["margin"] == pytest.approx(metrics["margin"], rel=1e-5)
    assert task_of(folder)["step"] == 4


def test_slots_are_only_for_the_trained_weights(whole):
    names = weights_in(whole[0])
    trained = {name for name in names if name.endswith(("lora_kernel_a", "lora_kernel_b"))}
    assert len(trained) == 4
    trained |= {"bert/pooler/dense/kernel", "bert/pooler/dense/bias", "output_weights", "output_bias"}
    assert {name.removesuffix("/adam_m") for name in names if name.endswith("/adam_m")} == trained


def test_the_adapter_is_that_of_the_model_to_use(whole, start):
    folder, _ = whole
    model, facts = adapted_model(start, folder / "model" / "adapter.safetensors")
    assert facts == {"rank": 2, "alpha": 4.0, "targets": ["query", "value"], "base": start.name}
    assert_bit_equal(
        {name: np.asarray(value) for name, value in merged_weights(model).items()}, weights_in(folder / "model")
    )


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("flags", [{"lora_rank": 2}, {"freeze_layers": 0}], ids=str)
def test_the_log_counts_the_numbers_that_change(start, tmp_path, capsys, flags):
    run(MadeUp(), tmp_path, init_checkpoint=start, max_steps=1, seed=3, **flags)
    after = weights_in(tmp_path / "model.ckpt-1")
    trained = sum(value.size for name, value in after.items() if name.endswith("/adam_m"))
    total = sum(after[name].size for name in after if "adam_" not in name and name != "global_step")
    assert f"training changes {trained:,} of {total:,} numbers" in capsys.readouterr().out


@pytest.mark.slow  # several runs
@pytest.mark.usefixtures("no_graphs")
def test_a_stopped_run_ends_as_if_it_had_not_been_stopped(whole, start, tmp_path, monkeypatch):
    folder, _ = whole
    flags = {"init_checkpoint": start, "do_predict": True, **FLAGS}
    with monkeypatch.context() as patch:
        stop_after(patch, 2)
        assert run(MadeUp(does_predict=True, scores=[0.1]), tmp_path, **flags) is None
    # Without a model to use, an evaluation takes the newest checkpoint.
    assert weights_in(tmp_path)["global_step"] == 3
    for path in (tmp_path / "model").iterdir():
        path.unlink()
    metrics = run(MadeUp(), tmp_path, do_train=False)
    logits = np.array(json.loads((tmp_path / "answers.json").read_text()))
    assert logits[:, 0].sum() == pytest.approx(metrics["margin"], rel=1e-5)
    run(MadeUp(does_predict=True, scores=[0.9, 0.5, 0.9]), tmp_path, **flags)
    assert_bit_equal(weights_in(tmp_path), weights_in(folder))
    assert_bit_equal(weights_in(tmp_path / "model"), weights_in(folder / "model"))
    name = "model/adapter.safetensors"
    assert (tmp_path / name).read_bytes() == (folder / name).read_bytes()


@pytest.mark.slow  # builds the network again
def test_lora_works_with_the_settings_that_save_memory_and_time(start, tmp_path):
    flags = {"precision": "float16", "recompute": True, "gradient_accumulation_steps": 2, "layer_decay": 0.5}
    run(MadeUp(), tmp_path, init_checkpoint=start, jit=True, **FLAGS | flags)
    before, after = weights_in(start), weights_in(tmp_path / "model")
    changed = {name for name in after if name in before and before[name].tobytes() != after[name].tobytes()}
    queries = {f"bert/encoder/layer_0/attention/self/{name}/kernel" for name in ("query", "value")}
    assert changed == queries | {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    model, _ = adapted_model(start, tmp_path / "model" / "adapter.safetensors")
    assert_bit_equal({name: np.asarray(value) for name, value in merged_weights(model).items()}, after)


def test_settings_of_lora_belong_to_a_run(whole, start):
    with pytest.raises(ValueError, match="lora_rank was 2 and is 1 now; give the old settings to resume"):
        run(MadeUp(), whole[0], init_checkpoint=start, **FLAGS | {"lora_rank": 1})


def test_lora_without_a_model_to_adapt_is_refused(start, tmp_path):
    files = {"bert_config_file": start / "bert_config.json", "vocab_file": start / "vocab.txt"}
    with pytest.raises(ValueError, match="lora_rank adapts a pre-trained model; give init_checkpoint as well"):
        run(MadeUp(), tmp_path, lora_rank=2, **files)
