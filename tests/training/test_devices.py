"""The choice of the device. There is no TPU to run on, so a stand-in tests the connection."""

import dataclasses
import json
import types

import pytest
import tensorflow as tf

from bert_keras.engine import precision
from bert_keras.engine.distribution import devices
from bert_keras.engine.distribution.devices import create_strategy, strategy_of, workers_of_tf_config
from bert_keras.engine.precision import can_use_xla
from bert_keras.modeling import BertConfig
from bert_keras.settings.groups import RunSettings


def test_the_default_is_one_device():
    assert create_strategy().num_replicas_in_sync == 1


def test_flags_may_not_contradict_each_other():
    with pytest.raises(ValueError, match="use_tpu and strategy=one contradict each other; leave one"):
        create_strategy("one", use_tpu=True)


def tf_config(cluster, kind="worker", index=0):
    return json.dumps({"cluster": cluster, "task": {"type": kind, "index": index}})


@pytest.fixture
def made(monkeypatch):
    """Return the list of calls that would make strategies; none is made."""
    calls = []

    def stand_in(name):
        def make(*arguments):
            calls.append((name, *arguments))
            return types.SimpleNamespace(num_replicas_in_sync=4)

        return make

    monkeypatch.setattr(tf.distribute, "MultiWorkerMirroredStrategy", stand_in("multi_worker"))
    monkeypatch.setattr(tf.distribute, "MirroredStrategy", stand_in("mirrored"))
    gpus = [types.SimpleNamespace(name=f"/device:GPU:{number}") for number in range(2)]
    monkeypatch.setattr(tf.config, "list_logical_devices", lambda kind: gpus if kind == "GPU" else [])
    devices._mirrored.cache_clear()
    devices._multi_worker.cache_clear()
    yield calls
    devices._mirrored.cache_clear()
    devices._multi_worker.cache_clear()


def test_all_gpus_are_taken_and_by_one_strategy(made, messages):
    strategy = create_strategy()
    assert made == [("mirrored", ["/device:GPU:0", "/device:GPU:1"])]
    assert messages == ["devices: 2 (GPU:0, GPU:1)"]
    assert create_strategy("mirrored") is strategy
    assert len(made) == 1


@pytest.mark.parametrize(
    ("capability", "jit", "is_refused"),
    [
        ((12, 0), True, True),
        ((12, 0), "auto", False),
        ((12, 0), False, False),
        ((9, 0), True, False),
        (None, True, False),
    ],
)
def test_xla_is_refused_for_gpus_that_end_the_process(made, monkeypatch, capability, jit, is_refused):
    details = {"device_name": "B200"} | ({"compute_capability": capability} if capability else {})
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind: [types.SimpleNamespace(name="GPU:0")])
    monkeypatch.setattr(tf.config.experimental, "get_device_details", lambda gpu: details)
    if is_refused:
        with pytest.raises(ValueError, match=r"^jit needs XLA, .* 9.0 at most, but B200 has 12.0; give jit=false, or"):
            strategy_of(RunSettings(jit=jit))
    else:
        strategy_of(RunSettings(jit=jit))
    assert len(made) == (not is_refused)
    assert can_use_xla() == (capability == (9, 0))


def test_a_run_that_used_xla_does_not_continue_with_it_on_a_gpu_that_ends_the_process(monkeypatch, tmp_path):
    (tmp_path / "run_config.json").write_text('{"program": "run_classifier.py", "settings": {"jit": true}}')
    monkeypatch.setattr(precision, "list_gpus", lambda: [((10, 0), "B200")])
    settings = RunSettings(output_dir=str(tmp_path))
    with pytest.raises(ValueError, match="^jit needs XLA, "):
        precision.take_jit(settings, 1, BertConfig(vocab_size=10), 1)
    assert precision.take_jit(dataclasses.replace(settings, jit=False), 1, BertConfig(vocab_size=10), 1).jit is False


def test_several_workers_are_taken_where_there_are_several(made, monkeypatch, messages):
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": ["a:1", "b:1"]}, index=1))
    create_strategy()
    assert made == [("multi_worker",)]
    assert messages == ["this is worker 1; waiting for all 2 workers to start", "devices: 4 of 2 workers, 2 of each"]
    # A single worker uses the devices of its machine.
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": ["a:1"]}))
    create_strategy()
    assert made[1:] == [("mirrored", ["/device:GPU:0", "/device:GPU:1"])]


def test_the_chief_is_the_first_of_the_workers(monkeypatch):
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": ["a:1", "b:1"], "chief": ["c:1"]}, index=1))
    assert workers_of_tf_config() == ([("chief", 0), ("worker", 0), ("worker", 1)], ("worker", 1))


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("{}", "strategy=multi_worker needs the environment variable TF_CONFIG, which"),
        ("{", r"^the environment variable TF_CONFIG cannot be read \(.*\); correct it, or give strategy=one or "),
        ('{"cluster": 3}', "TF_CONFIG cannot be read"),
        (tf_config({"worker": ["a:1"], "ps": ["b:1"]}), "names ps, worker and says that this process is number 0 of"),
        (tf_config({"worker": ["a:1"]}, index=1), "names worker and says that this process is number 1 of worker; it"),
        (json.dumps({"cluster": {"worker": ["a:1", "b:1"]}}), "it must name only chief or worker, and say which of"),
    ],
)
def test_a_wrong_tf_config_is_told(made, monkeypatch, value, message):
    monkeypatch.setenv("TF_CONFIG", value)
    with pytest.raises(ValueError, match=message):
        create_strategy("multi_worker")
    assert made == []


@pytest.mark.parametrize(
    "value", ["{", '{"cluster": 3}', tf_config({"worker": ["a:1", "b:1"]}), tf_config({}, "evaluator", 2)]
)
def test_one_machine_does_not_read_tf_config(made, monkeypatch, value):
    monkeypatch.setenv("TF_CONFIG", value)
    assert create_strategy("one") is tf.distribute.get_strategy()
    create_strategy("mirrored")
    assert made == [("mirrored", ["/device:GPU:0", "/device:GPU:1"])]


@pytest.mark.parametrize(("precision", "is_on"), [("float32", False), ("tf32", True), ("bfloat16", False)])
def test_products_of_float32_numbers_are_computed_as_asked(made, precision, is_on):
    try:
        strategy_of(RunSettings(strategy="one", precision=precision))
        assert tf.config.experimental.tensor_float_32_execution_enabled() == is_on
    finally:
        tf.config.experimental.enable_tensor_float_32_execution(False)


def test_workers_come_before_anything_is_computed(monkeypatch):
    tf.constant(1)
    monkeypatch.setenv("TF_CONFIG", tf_config({"worker": ["127.0.0.1:1", "127.0.0.1:2"]}))
    with pytest.raises(ValueError, match="TensorFlow has already computed something in this process, .*; start a new"):
        create_strategy()
