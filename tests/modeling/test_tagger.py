"""The feature-based tagger against NumPy, with padding, with dropout, and with a frozen encoder."""

import inspect

import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import ops
from rounding import assert_close
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import weights_by_name
from bert_keras.modeling.tagger import FeatureBasedTagger, LstmTagger

SEED = np.array([3, 0], np.int32)


def make_tagger(num_layers=1, kind=FeatureBasedTagger, **changes):
    """Makes a tagger of random weights, biases included."""
    config = make_config(num_hidden_layers=num_layers, **changes)
    return with_random_weights(kind(config, num_classes=3, units=5))


@pytest.fixture(scope="module")
def tagger():
    """A tagger of one layer, which no test changes."""
    return make_tagger()


@pytest.fixture(scope="module")
def features():
    return make_features(make_config())


def logits_of(tagger, features, seed=None):
    return ops.convert_to_numpy(tagger(features, dropout_seed=seed)["logits"])


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, kernel, recurrent_kernel, bias):
    """Computes the outputs [T, U] of one sequence [T, input]. Gates in the order input, forget, cell, output."""
    units = len(recurrent_kernel)
    hidden, cell, outputs = np.zeros(units), np.zeros(units), []
    for step in x:
        gates = step @ kernel + hidden @ recurrent_kernel + bias
        enter, keep, new, leave = gates.reshape(4, units)
        cell = sigmoid(keep) * cell + sigmoid(enter) * np.tanh(new)
        hidden = sigmoid(leave) * np.tanh(cell)
        outputs.append(hidden)
    return np.array(outputs)


def expected_logits(tagger, features, row, num_layers):
    """Returns the logits of the tokens of one row without its padding, in float64."""
    weights = {name: np.asarray(weight, np.float64) for name, weight in weights_by_name(tagger).items()}
    length = features["input_mask"][row].sum()
    encoded = tagger.bert(
        *(features[name][row : row + 1, :length] for name in ("input_ids", "input_mask", "segment_ids"))
    )
    x = np.concatenate(
        [ops.convert_to_numpy(layer)[0] for layer in encoded["all_encoder_layers"][-num_layers:]], axis=-1
    )
    for i in range(2):
        directions = []
        for name, step in (("forward", 1), ("backward", -1)):
            prefix = f"tagger/layer_{i}/{name}/lstm_cell"
            arrays = (weights[f"{prefix}/{part}"] for part in ("kernel", "recurrent_kernel", "bias"))
            directions.append(lstm(x[::step], *arrays)[::step])
        x = np.concatenate(directions, axis=-1)
    return x @ weights["tagger/output/kernel"] + weights["tagger/output/bias"]


@pytest.mark.parametrize(
    ("kind", "num_layers", "num_read"), [(FeatureBasedTagger, 1, 1), (FeatureBasedTagger, 5, 4), (LstmTagger, 2, 1)]
)
def test_logits_equal_numpy_on_ragged_rows(features, kind, num_layers, num_read):
    tagger = make_tagger(num_layers, kind)
    assert len(set(features["input_mask"].sum(1))) > 1
    logits = logits_of(tagger, features)
    for row, length in enumerate(features["input_mask"].sum(1)):
        expected = expected_logits(tagger, features, row, num_read)
        assert_close(logits[row, :length], expected)


def test_rows_that_fill_up_a_batch_change_nothing_and_have_a_token(monkeypatch, tagger, features):
    alone = logits_of(tagger, features)
    masks = []
    call = keras.layers.LSTM.call

    def recording(self, sequences, initial_state=None, mask=None, training=False):
        masks.append(ops.convert_to_numpy(mask))
        return call(self, sequences, initial_state, mask, training)

    monkeypatch.setattr(keras.layers.LSTM, "call", recording)
    filled = {name: np.pad(values, [(0, 3), *[(0, 0)] * (values.ndim - 1)]) for name, values in features.items()}
    logits = logits_of(tagger, filled)
    assert_close(logits[:-3], alone)
    assert np.isfinite(logits).all()
    # cuDNN requires that each row has at least one token, and all padding at its end.
    lengths = [*features["input_mask"].sum(1), 1, 1, 1]
    assert len(masks) == 4
    for mask in masks:
        np.testing.assert_array_equal(mask, np.arange(11) < np.array(lengths)[:, None])


def test_names_do_not_depend_on_earlier_models(tagger):
    names = sorted(weights_by_name(tagger))
    assert sorted(weights_by_name(make_tagger())) == names
    others = [name for name in names if not name.startswith("bert/")]
    parts = [f"{direction}/lstm_cell/{part}" for direction in ("backward", "forward") for part in ("bias", "kernel")]
    parts += [f"{direction}/lstm_cell/recurrent_kernel" for direction in ("backward", "forward")]
    expected = [f"tagger/layer_{i}/{part}" for i in range(2) for part in parts]
    assert others == sorted([*expected, "tagger/output/bias", "tagger/output/kernel"])
    assert inspect.signature(FeatureBasedTagger).parameters["units"].default == 768


def test_bert_gets_no_gradient_and_everything_else_does(tagger, features):
    weights = {name: weight.value for name, weight in weights_by_name(tagger).items()}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tagger(features, dropout_seed=tf.constant(SEED))["logits"]))
    gradients = tape.gradient(loss, weights)
    without = {name for name, gradient in gradients.items() if gradient is None or not np.any(gradient)}
    assert without == {name for name in weights if name.startswith("bert/")}


def test_the_tuned_tagger_trains_bert_with_dropout(features):
    tagger = make_tagger(2, LstmTagger)
    assert tagger.get_config()["units"] == 5
    assert LstmTagger(make_config(hidden_size=12, num_attention_heads=2), 3).units == 12
    weights = {name: weight.value for name, weight in weights_by_name(tagger).items()}
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(tagger(features)["logits"]))
    gradients = tape.gradient(loss, weights)
    without = {name for name, gradient in gradients.items() if gradient is None or not np.any(gradient)}
    assert without == {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
    in_bert = make_tagger(1, LstmTagger, hidden_dropout_prob=0.9)
    states = []
    call = in_bert.bert.call
    in_bert.bert.call = lambda *args, **named: states.append(call(*args, **named)) or states[-1]
    for seed in (None, SEED):
        logits_of(in_bert, features, seed)
    plain, dropped = (ops.convert_to_numpy(state["sequence_output"]) for state in states)
    assert np.abs(dropped - plain).max() > 1e-3


def test_dropout_is_drawn_from_the_seed_and_never_inside_bert(features):
    tagger = make_tagger(hidden_dropout_prob=0.9, attention_probs_dropout_prob=0.9)
    plain, dropped, again = (logits_of(tagger, features, seed) for seed in (None, SEED, SEED))
    np.testing.assert_array_equal(dropped, again)
    assert np.abs(dropped - plain).max() > 1e-3
    assert np.abs(dropped - logits_of(tagger, features, SEED + 1)).max() > 1e-3
    dropouts = [tagger.input_dropout, *(layer.dropout for layer in tagger.recurrent_layers)]
    assert len({dropout.index for dropout in dropouts}) == 3
    for dropout in dropouts:
        dropout.rate = 0
    np.testing.assert_array_equal(logits_of(tagger, features, SEED), plain)
