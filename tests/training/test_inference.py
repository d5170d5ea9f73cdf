"""The answers for all rows equal those of the network itself, for any batches and padding."""

import gc
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from rounding import assert_close
from tiny_bert import make_inputs, with_random_weights

from bert_keras.engine.evaluation_pass import Inference, last
from bert_keras.modeling import (
    ClassifierModel,
    MultipleChoiceModel,
    SquadModel,
    TokenClassifierModel,
)

NUM_TOKENS = 16
LENGTHS = np.array([3, 16, 7, 8, 9, 4, 12])


def make_model(make):
    keras.utils.set_random_seed(1)
    return with_random_weights(make())


def make_features(lengths=LENGTHS):
    inputs = make_inputs(np.random.default_rng(0), lengths, NUM_TOKENS)
    return inputs | {"example_index": np.arange(len(lengths))}


def outputs_of(model, features, batch_size=3, is_trimmed=True):
    return last(Inference(model, tf.distribute.get_strategy(), batch_size, is_trimmed).outputs(features))


def one_by_one(model, features):
    """Returns the network's output for each row alone, cut to its own length."""
    rows = []
    for row, mask in enumerate(features["input_mask"]):
        length = mask.sum(-1).max()
        part = {name: features[name][row : row + 1, ..., :length].astype(np.int32) for name in list(features)[:3]}
        rows.append({name: value.numpy()[0] for name, value in model(part).items()})
    return rows


@pytest.mark.parametrize(("batch_size", "is_trimmed"), [(3, True), (10, False)])
def test_answers_are_those_for_each_row_alone_in_its_place(tiny_config, batch_size, is_trimmed):
    model, features = make_model(lambda: ClassifierModel(tiny_config, 3)), make_features()
    outputs = outputs_of(model, features, batch_size, is_trimmed)
    expected = np.stack([row["logits"] for row in one_by_one(model, features)])
    assert np.ptp(expected, axis=0).min() > 1e-2  # detects swapped rows
    assert outputs["logits"].dtype == np.float32
    assert_close(outputs["logits"], expected)


@pytest.mark.parametrize("make", [lambda config: TokenClassifierModel(config, 3), SquadModel])
def test_answers_for_tokens_are_filled_up_with_zeros(tiny_config, make):
    # All rows are shorter than the features, so every batch is cut.
    features = make_features(np.minimum(LENGTHS, 7))
    model = make_model(lambda: make(tiny_config))
    outputs = outputs_of(model, features)
    for row, expected in enumerate(one_by_one(model, features)):
        length = features["input_mask"][row].sum()
        assert outputs.keys() == expected.keys()
        for name, values in outputs.items():
            assert values.shape[:2] == (7, NUM_TOKENS)
            assert_close(values[row, :length], expected[name])
            assert not values[row, 8:].any()


def test_cut_or_not_the_answers_for_tokens_are_the_same(tiny_config):
    model, features = make_model(lambda: SquadModel(tiny_config)), make_features()
    cut, whole = (outputs_of(model, features, is_trimmed=is_trimmed) for is_trimmed in (True, False))
    for name, values in cut.items():
        tokens = features["input_mask"] == 1
        assert_close(values[tokens], whole[name][tokens])
        # Uncut, padding has answers too, as in the original BERT.
        assert np.abs(whole[name][~tokens]).min() > 0


def test_choices_are_answered_for_each_row(tiny_config):
    model = make_model(lambda: MultipleChoiceModel(tiny_config))
    features = make_features(np.array([[3, 9], [16, 4], [5, 6], [2, 7], [8, 8]]))
    expected = np.stack([row["logits"] for row in one_by_one(model, features)])
    assert_close(outputs_of(model, features)["logits"], expected)


def test_weights_may_change_and_lengths_may_too_without_building_anew(tiny_config):
    built = []

    class Counted(ClassifierModel):
        def call(self, features, dropout_seed=None):
            built.append(features["input_ids"].shape)
            return super().call(features, dropout_seed=dropout_seed)

    model, features = make_model(lambda: Counted(tiny_config, 3)), make_features()
    inference = Inference(model, tf.distribute.get_strategy(), 2, is_trimmed=True)
    first = last(inference.outputs(features))["logits"]
    short = last(inference.outputs(make_features(np.array([3, 4, 5]))))["logits"]
    assert short.shape == (3, 3)
    assert len(built) == 1
    model.head.output_bias.assign_add([1.0, 2.0, 3.0])
    assert_close(last(inference.outputs(features))["logits"] - first, [[1, 2, 3]] * 7)
    assert len(built) == 1


def test_long_predictions_tell_how_far_they_are(tiny_config, monkeypatch, messages):
    monkeypatch.setattr("bert_keras.cli.progress.Progress.seconds_between", 0.0)
    outputs_of(make_model(lambda: ClassifierModel(tiny_config, 3)), make_features())
    assert [message.partition(" (")[0] for message in messages] == [
        f"predicting: {number} of 7 sequences" for number in (3, 6, 7)
    ]


def test_inference_is_freed_without_a_search_for_garbage(tiny_config):
    def reference():
        inference = Inference(ClassifierModel(tiny_config, 3), tf.distribute.get_strategy(), 3)
        last(inference.outputs(make_features()))
        return weakref.ref(inference)

    gc.disable()
    try:
        assert reference()() is None
    finally:
        gc.enable()
