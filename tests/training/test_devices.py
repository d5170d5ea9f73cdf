"""The choice of the device. There is no TPU to run on: connecting to one is tested with a stand-in."""

import pytest
import tensorflow as tf

from training.devices import create_strategy


def test_the_default_is_one_device():
    assert create_strategy().num_replicas_in_sync == 1


def test_without_a_tpu_the_sentence_says_what_to_do():
    with pytest.raises(ValueError, match=r"--use_tpu: no TPU could be reached as 'local' \(.*tensorflow-tpu"):
        create_strategy(use_tpu=True)


@pytest.fixture
def fake_tpu(monkeypatch):
    calls = []
    resolver = object()
    monkeypatch.setattr(
        tf.distribute.cluster_resolver,
        "TPUClusterResolver",
        lambda tpu, zone, project: calls.append(("resolve", tpu, zone, project)) or resolver,
    )
    monkeypatch.setattr(
        tf.config, "experimental_connect_to_cluster", lambda r: calls.append(("connect", r is resolver))
    )
    monkeypatch.setattr(
        tf.tpu.experimental, "initialize_tpu_system", lambda r: calls.append(("initialize", r is resolver))
    )
    monkeypatch.setattr(tf.distribute, "TPUStrategy", lambda r: tf.distribute.get_strategy())
    return calls


def test_a_named_tpu_is_connected_to_and_initialised_in_this_order(fake_tpu):
    create_strategy(True, "grpc://10.0.0.2:8470", "zone", "project", num_tpu_cores=1)
    assert fake_tpu == [
        ("resolve", "grpc://10.0.0.2:8470", "zone", "project"),
        ("connect", True),
        ("initialize", True),
    ]


def test_the_tpu_of_this_machine_needs_no_connection(fake_tpu):
    create_strategy(True)
    assert [call[0] for call in fake_tpu] == ["resolve", "initialize"]


def test_another_number_of_cores_than_asked_for_is_refused(fake_tpu):
    with pytest.raises(ValueError, match="--num_tpu_cores=8, but the TPU 'local' has 1"):
        create_strategy(True, num_tpu_cores=8)
