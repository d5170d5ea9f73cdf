"""TensorFlow's greetings are held back; what else it says is not."""

import os

import tensorflow as tf

from training.start import start_tensorflow


def test_only_greetings_are_held_back(capfd, monkeypatch):
    def say():
        os.write(2, b"I0000 port.cc:153] oneDNN custom operations are on. You may see\n")
        os.write(2, b"W0000 gpu_device.cc:2341] Cannot dlopen some GPU libraries.\n")

    monkeypatch.setattr(tf.config, "list_physical_devices", say)
    start_tensorflow()
    assert capfd.readouterr().err == "W0000 gpu_device.cc:2341] Cannot dlopen some GPU libraries.\n"
    os.write(2, b"later\n")
    assert capfd.readouterr().err == "later\n"
