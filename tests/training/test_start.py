"""TensorFlow's greetings are held back; what else it says is not."""

import gc
import os
import sys

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


def test_nothing_of_tensorflow_is_searched_for_garbage(tmp_path, monkeypatch):
    (tmp_path / "tensorflow.py").write_text(
        "import gc, types\n"
        "is_searching = gc.isenabled()\n"
        "config = types.SimpleNamespace(list_physical_devices=lambda: None)\n"
    )
    frozen = gc.get_freeze_count()
    start_tensorflow()  # it has been imported by others, whose objects are theirs
    assert gc.get_freeze_count() == frozen
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "tensorflow")
    try:
        start_tensorflow()
        assert not sys.modules["tensorflow"].is_searching
        assert gc.isenabled()
        assert gc.get_freeze_count() > frozen
    finally:
        gc.unfreeze()
