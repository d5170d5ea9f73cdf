"""A TPU as the device. There is none to run on, so stand-ins test the connection."""

import numpy as np
import pytest
import tensorflow as tf
from made_up_task import MadeUp, run
from training_programs import run_classifier, run_pretraining

from bert_keras.data_prep.records.reading import open_records
from bert_keras.engine.distribution import tpu
from bert_keras.engine.distribution.devices import create_strategy
from bert_keras.engine.distribution.tpu import check_cores, check_run, check_tpu, connect, is_tpu
from bert_keras.engine.input import feature_batches, pretraining_batches
from bert_keras.modeling import ClassifierModel
from bert_keras.settings.groups import RunSettings
from bert_keras.tasks.pretraining.settings import PretrainingSettings

ON_THE_TPU = {"use_tpu": True, "tpu_name": "mine", "output_dir": "/data/run"}


@pytest.fixture
def fake_tpu(monkeypatch):
    """A fake TPU of one core; returns the list of calls in order."""
    calls = []
    resolver = object()
    monkeypatch.setattr(
        tf.distribute.cluster_resolver,
        "TPUClusterResolver",
        lambda tpu, zone, project: calls.append(("resolve", tpu, zone, project)) or resolver,
    )

    def recorded(name):
        return lambda given: calls.append((name, given is resolver)) or tf.distribute.get_strategy()

    monkeypatch.setattr(tf.config, "experimental_connect_to_cluster", recorded("connect"))
    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", recorded("initialize"))
    monkeypatch.setattr(tf.distribute, "TPUStrategy", recorded("strategy"))
    monkeypatch.setattr(tpu, "_has_library", lambda: True)
    tpu._strategy.cache_clear()
    yield calls
    tpu._strategy.cache_clear()


def test_a_named_tpu_is_connected_to_and_initialised_in_this_order(fake_tpu):
    create_strategy("auto", True, "grpc://10.0.0.2:8470", "zone", "project", num_tpu_cores=1)
    assert fake_tpu == [
        ("resolve", "grpc://10.0.0.2:8470", "zone", "project"),
        ("connect", True),
        ("initialize", True),
        ("strategy", True),
    ]


def test_the_tpu_of_this_machine_needs_no_connection_and_is_initialised_once(fake_tpu):
    assert create_strategy(use_tpu=True) is connect("local", num_cores=1)
    assert fake_tpu == [("resolve", "local", None, None), ("initialize", True), ("strategy", True)]
    # Another number of cores than asked for.
    with pytest.raises(ValueError, match="^num_tpu_cores=8, but the TPU 'local' has 1$"):
        create_strategy(use_tpu=True, num_tpu_cores=8)


def test_without_a_tpu_the_package_that_is_missing_is_named():
    with pytest.raises(
        ValueError,
        match=r"^use_tpu: no TPU could be reached as 'local' \(the package tensorflow-tpu is not installed; "
        r"docs/guides/tpu\.md has the commands\); run on the machine of a TPU, or leave use_tpu out to use the CPU "
        r"or GPU$",
    ):
        connect("local")


@pytest.mark.parametrize("program", [run_pretraining, run_classifier])
def test_a_missing_tpu_comes_before_missing_flags(program):
    with pytest.raises(ValueError, match=r"no TPU could be reached as 'local' \(the package tensorflow-tpu is not ins"):
        program.main(["program", "--use_tpu"])


class Device:
    platform = "tpu"
    device_kind = "TPU v5 lite"


@pytest.fixture
def tpu_of_jax(monkeypatch):
    """A fake TPU of four cores on JAX; returns the list of its devices, which a test may change."""
    jax = pytest.importorskip("jax")
    devices = [Device() for _ in range(4)]
    monkeypatch.setattr(jax, "devices", lambda: devices)
    monkeypatch.setattr("keras.backend.backend", lambda: "jax")
    return devices


def test_jax_uses_the_tpu_of_its_machine(tpu_of_jax):
    check_tpu(RunSettings(use_tpu=True))
    assert tpu.tpu_of_jax() == tpu_of_jax
    check_cores(4, 4)
    with pytest.raises(ValueError, match="^num_tpu_cores=8, but the TPU 'local' has 4$"):
        check_cores(8, 4)


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"tpu_name": "mine"}, "^tpu_name is for TensorFlow; JAX uses the TPU of its own machine; leave it out$"),
        ({"master": "grpc://10.0.0.2:8470"}, "^master is for TensorFlow"),
        ({"tpu_zone": "zone"}, "^tpu_zone is for TensorFlow"),
        ({"gcp_project": "mine"}, "^gcp_project is for TensorFlow"),
        ({"strategy": "one"}, "^use_tpu and strategy=one contradict each other"),
    ],
)
def test_jax_refuses_flags_of_tpus_on_other_machines(tpu_of_jax, given, sentence):
    with pytest.raises(ValueError, match=sentence):
        check_tpu(RunSettings(use_tpu=True, **given))


def test_without_a_tpu_jax_says_what_is_missing(tpu_of_jax, monkeypatch):
    tpu_of_jax[0].platform, tpu_of_jax[0].device_kind = "cpu", "cpu"
    sentence = (
        r"^use_tpu: JAX finds no TPU \({}\); run on the machine of a TPU, after pip install 'jax\[tpu\]', or leave"
    )
    with pytest.raises(ValueError, match=sentence.format("cpu")):
        check_tpu(RunSettings(use_tpu=True))

    def fail():
        raise RuntimeError("Unable to initialize backend 'tpu'\nmore")

    monkeypatch.setattr("jax.devices", fail)
    with pytest.raises(ValueError, match=sentence.format("Unable to initialize backend 'tpu'")):
        check_tpu(RunSettings(use_tpu=True))
    check_tpu(RunSettings(use_tpu=False))


@pytest.mark.parametrize(("target", "is_installed"), [("local", True), ("mine", False)])
def test_where_that_package_is_not_the_reason_tensorflow_gives_it(fake_tpu, monkeypatch, target, is_installed):
    def fail(resolver):
        raise tf.errors.NotFoundError(None, None, "TPUs not found in the cluster.\nOp type: X")

    monkeypatch.setattr(tf.tpu.experimental, "initialize_tpu_system", fail)
    monkeypatch.setattr(tpu, "_has_library", lambda: is_installed)
    with pytest.raises(ValueError, match=rf"reached as '{target}' \(TPUs not found in the cluster\.\); run on"):
        connect(target)


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({}, "output_dir=/data/run"),
        ({"tpu_name": None, "master": "grpc://10.0.0.2:8470"}, "output_dir=/data/run"),
        ({"output_dir": "gs://bucket/run", "input_file": "gs://bucket/a,/data/b"}, "input_file=gs://bucket/a,/data/"),
    ],
)
def test_files_of_this_machine_are_refused_for_a_tpu_of_another_one(given, name):
    with pytest.raises(ValueError, match=rf"^{name}.* is in another one, which would look for it on its own disk; run"):
        check_run(PretrainingSettings(**ON_THE_TPU | given))


@pytest.mark.parametrize("given", [{"tpu_name": None}, {"tpu_name": "local"}, {"use_tpu": False}])
def test_a_tpu_of_this_machine_and_other_devices_take_any_file(given):
    check_run(PretrainingSettings(**ON_THE_TPU | given))


def test_ways_to_compute_that_are_not_for_a_tpu_are_refused():
    with pytest.raises(ValueError, match=r"^precision=float16 does not work on a TPU; give bfloat16$"):
        check_run(RunSettings(use_tpu=True, precision="float16"))
    with pytest.raises(ValueError, match=r"^jit is not for a TPU, .*; leave it out$"):
        check_run(RunSettings(use_tpu=True, jit=True))
    check_run(RunSettings(use_tpu=True, precision="bfloat16", jit=False))
    check_run(RunSettings(use_tpu=False, precision="float16", jit=True))


@pytest.mark.parametrize(("flags", "message"), [({"tpu_name": "mine"}, "is in another one"), ({"jit": True}, "jit")])
def test_flags_are_checked_before_anything_else(tmp_path, fake_tpu, flags, message):
    with pytest.raises(ValueError, match=message):
        run(MadeUp(), tmp_path / "run", init_checkpoint=tmp_path / "not_there", use_tpu=True, **flags)
    assert fake_tpu == []


@pytest.mark.usefixtures("no_graphs")
def test_on_a_tpu_all_batches_of_fine_tuning_have_one_length(start, tmp_path, monkeypatch):
    shapes = []
    call = ClassifierModel.call

    def recording(self, features, dropout_seed=None):
        shapes.append((dropout_seed is not None, tuple(features["input_ids"].shape)))
        return call(self, features, dropout_seed=dropout_seed)

    monkeypatch.setattr(ClassifierModel, "call", recording)
    # The only device of the tests acts as a TPU.
    monkeypatch.setattr(tf.distribute, "TPUStrategy", type(tf.distribute.get_strategy()))
    assert is_tpu(tf.distribute.get_strategy())
    flags = {"init_checkpoint": start, "num_train_epochs": 1, "do_predict": True, "eval_batch_size": 8}
    run(MadeUp(does_predict=True), tmp_path / "run", **flags)
    assert set(shapes) == {(True, (8, 8)), (False, (8, 8))}


def assert_fixed(dataset):
    """Checks for 32-bit numbers in static shapes: no strings, nothing ragged."""
    for name, spec in dataset.element_spec.items():
        assert isinstance(spec, tf.TensorSpec), name
        assert spec.dtype in (tf.int32, tf.float32), name
        assert spec.shape.is_fully_defined(), name


def test_batches_have_fixed_shapes(tmp_path, write_records):
    write_records(tmp_path / "a.tfrecord", 5)
    records = open_records(str(tmp_path / "a.tfrecord"), 12, 3, 40)
    assert_fixed(pretraining_batches.training_batches(records, 2, seed=0))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2, num_batches=3))
    features = {name: np.ones((5, 12), np.int8) for name in ("input_ids", "input_mask", "segment_ids")}
    features |= {"label_ids": np.ones(5, np.int64), "label_values": np.ones((5, 3), np.float32)}
    assert_fixed(feature_batches.training_batches(features, 2, seed=0))
    assert_fixed(feature_batches.prediction_batches(features, 2)[0])
