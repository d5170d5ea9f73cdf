"""Training on JAX: the numbers of TensorFlow and the original BERT, for any number of devices; what JAX refuses."""

import dataclasses
import json
import types

import numpy as np
import pytest
import quick_start
import steps_on_backends
import tensorflow as tf
from eager import without_graphs
from other_backends import run_on
from states import assert_states_close
from steps_on_backends import assert_same

from bert_keras import check_labels
from bert_keras.engine.distribution.devices import strategy_of
from bert_keras.mistakes import Mistake
from bert_keras.modeling import open_checkpoint
from bert_keras.tasks.pretraining.settings import PretrainingSettings
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.reranking.task import Reranking


def results_on_jax(kind, tmp_path, folder="", num_devices=1):
    file = tmp_path / "results.npz"
    run_on("jax", quick_start.__file__, steps_on_backends.__file__, kind, folder, file, num_devices=num_devices)
    return steps_on_backends.results_of(file)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["steps", pytest.param("more steps", marks=pytest.mark.rare)])
def test_four_steps_of_every_loss_equal_tensorflow_with_dropout(tmp_path, kind):
    found = results_on_jax(kind, tmp_path)
    for name, bits in steps_on_backends.masks().items():
        np.testing.assert_array_equal(found["masks"][name], bits, err_msg=name)
    assert len(found) > 10
    with without_graphs():
        for way in found.keys() - {"masks"}:
            assert_same(found[way], steps_on_backends.take_steps(way), way)


@pytest.mark.slow
def test_thirty_updates_on_jax_equal_the_release(golden_dir, tmp_path):
    found = results_on_jax("golden", tmp_path, golden_dir)
    for name, state in found.items():
        losses = state.pop("losses")
        np.testing.assert_allclose(losses, np.load(golden_dir / name / "training.npz")["losses"], rtol=1e-4)
        trained = open_checkpoint(golden_dir / name / "trained" / "model.ckpt-30")
        assert_states_close(state, {name: trained.read(name) for name in trained.names})
    assert sorted(found) == ["pretraining_a", "pretraining_b"]


@pytest.mark.slow
def test_eight_devices_equal_one_with_dropout(tmp_path):
    found = results_on_jax("devices", tmp_path, num_devices=8)
    ways = sorted({way.partition("|")[0] for way in found})
    assert len(ways) == 3
    for way in ways:
        assert_same(found[f"{way}|8"], found[f"{way}|1"], way, tolerance=1e-6)


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"use_tpu": True}, r"use_tpu: JAX finds no TPU \(cpu\); run on the machine of a TPU, after pip install 'jax"),
        (
            {"strategy": "multi_worker"},
            "strategy=multi_worker is for TensorFlow; for several processes of JAX, give coordinator_address, num_proc",
        ),
        ({"precision": "float16"}, "precision=float16 is for TensorFlow; give bfloat16, which needs no loss scale"),
        ({"jit": False, "do_train": True}, "jit=false is for TensorFlow, and JAX compiles every step; leave it out"),
    ],
)
def test_jax_refuses_what_only_tensorflow_has(changes, expected):
    pytest.importorskip("jax")
    from bert_keras.engine.distribution.jax_devices import jax_devices

    settings = dataclasses.replace(PretrainingSettings(output_dir=""), **changes)
    with pytest.raises(Mistake, match=f"^{expected}"):
        jax_devices(settings)


def test_texts_are_not_mined_on_jax(monkeypatch):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    settings = RerankerSettings(output_dir="", do_train=True, train_file="train.csv", mine_negatives="vectors")
    with pytest.raises(Mistake, match="^mine_negatives predicts, which needs TensorFlow; leave it out, or train with"):
        Reranking(settings, types.SimpleNamespace(tokenizer=None))


def test_jax_refuses_a_deterministic_gpu(monkeypatch):
    jax = pytest.importorskip("jax")
    from bert_keras.engine.distribution.jax_devices import jax_devices

    gpu = types.SimpleNamespace(platform="gpu", device_kind="a GPU")
    monkeypatch.setattr(jax, "devices", lambda: [gpu])
    settings = PretrainingSettings(bert_config_file="", output_dir="", deterministic=True)
    with pytest.raises(Mistake, match="^deterministic is for TensorFlow; for JAX on a GPU, put xla_gpu_determinis"):
        jax_devices(settings)


def test_jax_refuses_workers_of_tensorflow(monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    cluster = {"worker": ["127.0.0.1:1", "127.0.0.1:2"]}
    monkeypatch.setenv("TF_CONFIG", json.dumps({"cluster": cluster, "task": {"type": "worker", "index": 0}}))
    with pytest.raises(Mistake, match="TF_CONFIG names 2 workers, but JAX does not read it; unset it, and give coor"):
        strategy_of(PretrainingSettings(bert_config_file="", output_dir=""))


def test_labels_are_not_checked_on_jax(monkeypatch, tmp_path):
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    with pytest.raises(ValueError, match="Keras is set to run on jax .* but prediction needs TensorFlow"):
        check_labels([("a", "x"), ("b", "y")], init_checkpoint=tmp_path, output_dir=tmp_path / "out")


def test_a_full_memory_of_jax_is_an_error_of_tensorflow():
    jax = pytest.importorskip("jax")
    from bert_keras.engine.distribution.jax_devices import errors_of_tensorflow

    with pytest.raises(tf.errors.ResourceExhaustedError, match="to allocate"), errors_of_tensorflow():
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory while trying to allocate 9 bytes.")
    with pytest.raises(jax.errors.JaxRuntimeError, match="INTERNAL"), errors_of_tensorflow():
        raise jax.errors.JaxRuntimeError("INTERNAL: a failure")
