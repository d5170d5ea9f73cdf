"""The layers: activations, initial values, attention, masks, and dropout positions."""

import random
import threading

import keras
import numpy as np
import pytest
from keras import ops
from reference_bert import ACTIVATIONS
from rounding import assert_close
from tiny_bert import make_config

from bert_keras.modeling import (
    BertModel,
    PretrainingModel,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SpanBoundaryModel,
    TokenClassifierModel,
    weights_by_name,
)
from bert_keras.modeling.layers import (
    EncoderLayer,
    activation,
    initial_seed,
    layer_norm,
    padding_scores,
    truncated_normal,
    weights_to_load,
)
from bert_keras.modeling.lora import enable_lora


def test_gelu_is_the_tanh_form_of_the_original():
    values = activation("gelu")(ops.convert_to_tensor([-3.0, -1.0, -0.5, 0.5, 1.0, 3.0]))
    expected = [-0.00363743, -0.158808, -0.154286, 0.345714, 0.841192, 2.9963627]
    assert_close(values, expected)
    x = np.linspace(-4, 4, 801, dtype=np.float32)
    difference = np.abs(activation("gelu")(x) - activation("gelu_erf")(x)).max()
    assert difference == pytest.approx(4.73e-4, rel=1e-2)


@pytest.mark.parametrize("name", sorted(ACTIVATIONS))
def test_activations_equal_their_formulas(name):
    x = np.linspace(-6, 6, 241, dtype=np.float32)
    assert_close(activation(name)(x), ACTIVATIONS[name](x.astype(np.float64)))


def test_layer_norm_has_the_biased_variance_and_a_tiny_epsilon():
    layer = layer_norm(make_config(hidden_size=4))
    x = 1e-5 * np.array([[1.0, 2.0, 3.0, 6.0]], np.float32)
    # Mean 3, biased variance 3.5; an epsilon of 1e-6 or 1e-3 would shrink such small numbers to almost zero.
    expected = (np.array([[1, 2, 3, 6]]) - 3) / np.sqrt(3.5 + 1e-2)
    np.testing.assert_allclose(layer(x), expected, rtol=1e-4, atol=1e-5)


def test_initial_values_are_cut_at_two_standard_deviations():
    keras.utils.set_random_seed(0)
    values = ops.convert_to_numpy(truncated_normal(0.02)((1000, 200), "float32"))
    assert np.abs(values).max() <= 0.04
    assert np.abs(values).max() > 0.0399
    # The given deviation is that of the untruncated curve; truncation leaves 0.8796 of it.
    assert values.std() == pytest.approx(0.02 * 0.8796, rel=5e-3)
    assert values.mean() == pytest.approx(0.0, abs=2e-4)


def _tagger_with_lora(config):
    tagger = TokenClassifierModel(config, 3)
    enable_lora(tagger, 2)
    return tagger


@pytest.mark.parametrize(
    "make",
    [
        PretrainingModel,
        SpanBoundaryModel,
        _tagger_with_lora,
        lambda config: ReplacedTokenLoss(ReplacedTokenModel(config), 0.5),
    ],
)
def test_no_initial_weight_comes_from_a_global_random_state(make, monkeypatch):
    def values():
        made = make(make_config(num_hidden_layers=1))
        weights = weights_by_name(made) if isinstance(made, keras.Model) else made.own_weights
        return {name: ops.convert_to_numpy(weight) for name, weight in weights.items()}

    keras.utils.set_random_seed(5)
    expected = values()
    for module, name in ((random, "randint"), (np.random, "randint")):
        monkeypatch.setattr(module, name, lambda *bounds: pytest.fail("a draw from a global random state"))
    with initial_seed(5):
        found = values()
    assert found.keys() == expected.keys()
    for name in expected:
        np.testing.assert_array_equal(found[name], expected[name], err_msg=name)


def test_weights_that_are_to_be_loaded_are_not_drawn():
    with weights_to_load():
        weights = BertModel(make_config(num_hidden_layers=1)).weights
        in_another_thread = []
        thread = threading.Thread(target=lambda: in_another_thread.append(truncated_normal(0.02)))
        thread.start()
        thread.join()
    assert all(np.all(weight.numpy() == weight.path.endswith("gamma")) for weight in weights)
    assert isinstance(in_another_thread[0], keras.initializers.TruncatedNormal)
    assert isinstance(truncated_normal(0.02), keras.initializers.TruncatedNormal)


def test_an_encoder_layer_drops_in_three_places():
    config = make_config(hidden_dropout_prob=0.5, attention_probs_dropout_prob=0.5)
    hidden = np.random.default_rng(0).standard_normal((2, 5, 8)).astype(np.float32)
    scores = padding_scores(np.ones((2, 5), np.int32))
    keras.utils.set_random_seed(0)
    layer = EncoderLayer(config, 0, name="layer_0")
    plain = ops.convert_to_numpy(layer(hidden, scores))
    parts = (layer.self_attention, layer.attention_output, layer.feed_forward_output)
    for part in parts:
        for other in parts:
            other.dropout.rate = 0.5 if other is part else 0.0
        dropped = ops.convert_to_numpy(layer(hidden, scores, dropout_seed=np.array([1, 2], np.int32)))
        assert np.abs(dropped - plain).max() > 1e-5
