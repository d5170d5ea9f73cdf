"""The user's own settings of Keras change no number: predictions, features, vectors, conversions, training."""

import contextlib
import importlib.util
import os
import pathlib
import subprocess
import sys

import keras
import pytest
from converted import convert
from fine_tuned_models import FINE_TUNED, OF_VECTORS, write_fine_tuned
from known_models import random_model, randomise, small_config, write_model
from states import assert_bit_equal, weights_in

from bert_keras import FeatureExtractor, FillMask, NextSentence, open_model, train_classifier
from bert_keras.commands import convert_checkpoint
from bert_keras.modeling import SentenceModel

ROOT = pathlib.Path(__file__).resolve().parents[1]
TEXT = "he was hungry so he ate"
SETTINGS = {
    "half": {"floatx": "float16"},
    "other": {"floatx": "float64", "policy": "float16", "epsilon": 0.5, "image_data_format": "channels_first"},
}


@contextlib.contextmanager
def settings_of_user(policy=None, **values):
    """Makes settings of Keras as `~/.keras/keras.json` or a user's notebook would."""
    before = {name: getattr(keras.config, name)() for name in ("floatx", "epsilon", "image_data_format")}
    policy_before = keras.config.dtype_policy()
    for name, value in values.items():
        getattr(keras.config, f"set_{name}")(value)
    # Keras takes the policy from floatx, unless a program sets it.
    keras.config.set_dtype_policy(policy or values.get("floatx", "float32"))
    try:
        yield
    finally:
        for name, value in before.items():
            getattr(keras.config, f"set_{name}")(value)
        keras.config.set_dtype_policy(policy_before)


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Folders of a pre-trained model and of models for every fine-tuned task, by name."""
    folder = tmp_path_factory.mktemp("models")
    found = {"pretrained": write_model(folder / "pretrained", random_model(num_hidden_layers=1))}
    for task in ("classification", "question_answering", "token_classification"):
        make, settings = FINE_TUNED[task]
        found[task] = write_fine_tuned(folder / task, make(), task, **settings)
    vectors = randomise(SentenceModel(small_config(num_hidden_layers=1, is_decoder=True)))
    return found | {"vectors": write_fine_tuned(folder / "vectors", vectors, "vectors", **OF_VECTORS)}


def answers(folders):
    """Returns the answers of every kind of model."""
    features = FeatureExtractor(folders["pretrained"], pooling="mean", max_seq_length=16)(TEXT)
    found = {
        "fill_mask": FillMask(folders["pretrained"])("he was [MASK]"),
        "next_sentence": NextSentence(folders["pretrained"])(("he was hungry", "so he ate")),
        "features": features.values.tolist(),
    }
    for task in ("classification", "token_classification", "vectors"):
        found[task] = open_model(folders[task])((TEXT, TEXT) if task == "classification" else TEXT)
    found["question_answering"] = open_model(folders["question_answering"])(("he was ?", TEXT))
    return found


@pytest.mark.slow  # opens each kind of model twice; the tests of conversion and training below are quick
@pytest.mark.usefixtures("no_graphs")
def test_answers_are_the_same(folders):
    expected = answers(folders)
    with settings_of_user(**SETTINGS["other"]):
        assert answers(folders) == expected


def test_conversions_are_the_same(folders, tmp_path, monkeypatch):
    monkeypatch.setattr(convert_checkpoint, "open_console", lambda: None)
    with settings_of_user(**SETTINGS["other"]):
        for format_, source in (("safetensors", folders["classification"]), ("tensorflow", tmp_path / "safetensors")):
            convert(source, tmp_path / format_, format_)
    assert_bit_equal(*(weights_in(folder) for folder in (tmp_path / "tensorflow", folders["classification"] / "model")))


@pytest.mark.usefixtures("no_graphs")
def test_training_is_the_same(folders, tmp_path):
    data = [("he was hungry", "a"), ("paris is the capital", "b")] * 4
    weights = []
    for name in ("plain", "half"):
        with settings_of_user(**(SETTINGS["half"] if name == "half" else {})):
            settings = {"init_checkpoint": folders["pretrained"], "output_dir": tmp_path / name}
            settings |= {"train_batch_size": 4, "num_train_epochs": 1, "learning_rate": 1e-3, "max_seq_length": 16}
            train_classifier(data, **settings, lora_rank=2, verbose=False)
        weights.append(weights_in(tmp_path / name / "model"))
    assert_bit_equal(*weights)


@pytest.mark.skipif(importlib.util.find_spec("torch") is not None, reason="PyTorch is installed")
def test_a_backend_that_is_not_installed_ends_in_one_sentence(tmp_path):
    (tmp_path / "keras.json").write_text('{"backend": "torch"}')
    environment = {name: value for name, value in os.environ.items() if name != "KERAS_BACKEND"}
    command = [sys.executable, "-c", "import bert_keras; bert_keras.open_model('')"]
    done = subprocess.run(
        command, cwd=ROOT, env=environment | {"KERAS_HOME": str(tmp_path)}, capture_output=True, text=True, check=False
    )
    assert done.stderr.splitlines()[-1] == (
        "ImportError: Keras is set to run on torch (by KERAS_BACKEND or ~/.keras/keras.json), which is not installed; "
        "set KERAS_BACKEND=tensorflow"
    )


def test_training_refuses_another_backend(monkeypatch, folders, tmp_path):
    monkeypatch.setattr("keras.backend.backend", lambda: "torch")
    with pytest.raises(ValueError, match="training TensorFlow or JAX; set KERAS_BACKEND=tensorflow"):
        train_classifier(
            [("a", "b"), ("b", "c")], output_dir=tmp_path, init_checkpoint=folders["pretrained"], max_seq_length=16
        )
