"""The check of a SavedModel in a new process, and its expected answers."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.export.checks import fresh_process
from bert_keras.export.checks.fresh_process import largest_difference, run_in_fresh_process, scale_of

ANSWER = {
    "label": np.array([b"yes", b"no"], object),
    "probabilities": np.array([[0.5, 0.5], [0.25, 0.75]], np.float32),
    "start": np.array([3, -1], np.int32),
    "is_cut": np.array([True, False]),
}


def test_what_a_process_of_its_own_has_loaded_is_looked_at(tmp_path, monkeypatch):
    # Hides a package that the check must not load: absl comes with TensorFlow.
    monkeypatch.setattr(fresh_process, "_OF_THIS_PROJECT", (*fresh_process._OF_THIS_PROJECT, "absl"))
    module = tf.Module()
    module.twice = tf.function(lambda ids: {"twice": 2 * ids}, [tf.TensorSpec([None], tf.int32, "ids")])
    tf.saved_model.save(module, str(tmp_path), {"ids": module.twice})
    with pytest.raises(ValueError, match=r"^the SavedModel does not run in a new process: it has loaded absl$"):
        run_in_fresh_process(tmp_path, [("ids", {"ids": np.array([1], np.int32)})])


def test_the_largest_difference_of_numbers():
    found = {**ANSWER, "probabilities": ANSWER["probabilities"] + np.array([[0, 1e-5], [-3e-5, 0]], np.float32)}
    assert largest_difference(ANSWER, found, 1e-4, "it") == pytest.approx(3e-5, rel=1e-2)
    assert largest_difference(ANSWER, ANSWER, 0.0, "it") == 0.0
    assert largest_difference({"a": np.zeros([0, 2])}, {"a": np.zeros([0, 2])}, 0.0, "it") == 0.0


def changed(name, value):
    return {**ANSWER, name: np.array(value, ANSWER[name].dtype)}


@pytest.mark.parametrize(
    ("found", "message"),
    [
        (
            changed("probabilities", [[0.5, 0.5], [0.25, 0.7505]]),
            r"it: probabilities\[1, 1\] is 0.7505, but 0.75 is expected \(numbers to within 0.0001\)",
        ),
        (
            changed("probabilities", [[np.nan, 0.5], [0.25, 0.75]]),
            r"it: probabilities\[0, 0\] is nan, but 0.5 is expect",
        ),
        (changed("label", [b"yes", b"yes"]), r'it: label\[1\] is "yes", but "no" is expected'),
        (changed("start", [3, 0]), r"it: start\[1\] is 0, but -1 is expected"),
        (changed("is_cut", [True, True]), r"it: is_cut\[1\] is True, but False is expected"),
        (changed("start", [3]), r"it: start has the shape \(1,\), but \(2,\) is expected"),
        ({"label": ANSWER["label"]}, r"it gives label, but is_cut, label, probabilities, start are expected"),
    ],
)
def test_a_difference_is_an_error_that_names_it(found, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        largest_difference(ANSWER, found, 1e-4, "it")


def test_the_scale_of_a_tolerance():
    assert scale_of(ANSWER) == 1.0
    assert scale_of({"score": np.array([-3.0, 2.0]), "start": np.array([900])}) == 3.0
    assert scale_of({"label": ANSWER["label"]}) == 1.0
