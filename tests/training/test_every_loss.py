"""The duties of every loss: a new one needs one row in `CELLS` of tests/support/every_loss.py.

Its value and its slope equal NumPy for each kind of network, and the right weights have a gradient. Packed rows, layers
that are computed again and 16-bit products give the same numbers.
"""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from every_loss import CELLS, CONFIGS, DRAW, SIZES, Network, features_for
from states import weights_of
from tiny_bert import make_config

from bert_keras.engine.input.packing import pack
from bert_keras.modeling import weights_by_name
from bert_keras.modeling.lora import enable_lora
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.modeling.objectives import replaced_tokens

PLAIN = make_config(**SIZES)
# Few-shot models have no LoRA.
REFUSED = {("lora", "vectors of classes")}


def merged(weights):
    """Returns the weights of the network without LoRA, whose rank is 2 and whose strength is 4."""
    merged = {name: value for name, value in weights.items() if "/lora_" not in name}
    for name in weights:
        if name.endswith("lora_kernel_a"):
            kernel = name.replace("lora_kernel_a", "kernel")
            merged[kernel] = weights[kernel] + 2.0 * weights[name] @ weights[name.replace("kernel_a", "kernel_b")]
    return merged


def expected_names(loss, cell, variant):
    """Returns the names of the weights that must have a gradient."""
    names = {*weights_by_name(loss.model), *loss.own_weights}
    if variant == "lora":
        is_adapted = {"bert/pooler/dense/kernel", "bert/pooler/dense/bias"}
        names = {name for name in names if not name.startswith("bert/") or "/lora_" in name or name in is_adapted}
    return {name for name in names if not name.startswith(cell.unused)}


# One cell for each output of the network: the losses have no part for the other variants.
OUTPUTS = ("classes", "masked words and sentences", "attention")


@pytest.mark.parametrize(
    ("variant", "name"),
    [
        pair
        for pair in itertools.product(CONFIGS, CELLS)
        if pair not in REFUSED and (pair[0] == "lora" or pair[1] in OUTPUTS)
    ],
)
def test_each_network_learns_each_task(variant, name):
    cell, config = CELLS[name], CONFIGS[variant]
    loss = cell.make(config)
    if variant == "lora":
        enable_lora(loss.model, 2, 4.0)
        for weight_name, weight in weights_by_name(loss.model).items():
            if "/lora_" in weight_name:
                weight.assign(0.3 * DRAW.standard_normal(weight.shape))
    features = features_for(cell)
    variables = weights_by_name(loss.model) | loss.own_weights
    trained = {name: variable.value for name, variable in variables.items() if variable.trainable}
    with tf.GradientTape() as tape:
        tensors = {name: tf.constant(value) for name, value in features.items()}
        value = loss.value(loss.numerators(tensors), loss.denominators(tensors))
    gradients = tape.gradient(value, trained)
    gradients = {name: tf.convert_to_tensor(value).numpy() for name, value in gradients.items() if value is not None}
    assert set(gradients) >= expected_names(loss, cell, variant)
    for weight_name in sorted(set(gradients) - expected_names(loss, cell, variant)):
        assert np.abs(gradients[weight_name]).max() < 1e-6, weight_name
    if cell.loss is None:
        assert np.isfinite(float(value))
        return

    weights = {name: np.asarray(value, np.float64) for name, value in weights_of(loss.model).items()}

    def loss_at(step):
        moved = {
            name: value + step * gradients[name] if name in gradients else value for name, value in weights.items()
        }
        return float(cell.loss(Network(config, merged(moved), features), **cell.labels))

    np.testing.assert_allclose(float(value), loss_at(0.0), rtol=2e-5, atol=1e-6)
    square = sum(float(np.sum(np.square(value, dtype=np.float64))) for value in gradients.values())
    step = 1e-4 / np.sqrt(square)
    np.testing.assert_allclose((loss_at(step) - loss_at(-step)) / (2 * step), square, rtol=1e-3)


def metrics_and_gradients(loss, features, seed=None):
    """Returns the metrics of a batch, and the gradients of its loss by name, dense."""
    features = {name: tf.constant(values) for name, values in features.items()}
    variables = weights_by_name(loss.model) | loss.own_weights
    with tf.GradientTape() as tape:
        numerators, denominators = loss.numerators(features, dropout_seed=seed), loss.denominators(features)
        value = loss.value(numerators, denominators)
    values = {name: variable.value for name, variable in variables.items()}
    gradients = tape.gradient(value, values, unconnected_gradients="zero")
    metrics = loss.metrics(numerators, denominators)
    return (
        {name: float(value) for name, value in metrics.items()},
        {name: tf.convert_to_tensor(value).numpy() for name, value in gradients.items()},
    )


# Others have several texts in an example, or need to know where a text begins.
PACKED = ("classes", "numbers", "several labels", "tags", "masked words and sentences", "spans", "replaced tokens")
PACKED += ("labels and soft labels", "hidden states", "attention", "cosines of states")
PACKED_LEFT_TO_RIGHT = ("masked words and sentences", "attention")


@pytest.mark.parametrize(
    ("name", "config"),
    [*((name, PLAIN) for name in PACKED), *((name, CONFIGS["left to right"]) for name in PACKED_LEFT_TO_RIGHT)],
    ids=[*PACKED, *(f"{name}, left to right" for name in PACKED_LEFT_TO_RIGHT)],
)
def test_packed_rows_have_the_losses_and_gradients_of_rows_of_their_own(monkeypatch, name, config):
    monkeypatch.setattr(replaced_tokens, "gumbel_noise", lambda shape, seed: 0.0)
    loss, features = CELLS[name].make(config), features_for(CELLS[name])
    packed = pack(features, row_length=16, max_sequences=3)
    assert len(packed["input_ids"]) < 3
    assert 0 in packed["sequence_weights"]
    metrics, gradients = metrics_and_gradients(loss, packed)
    expected_metrics, expected_gradients = metrics_and_gradients(loss, features)
    assert metrics == pytest.approx(expected_metrics, rel=1e-5)
    largest = max(np.abs(gradient).max() for gradient in expected_gradients.values())
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected_gradients[name], rtol=0, atol=2e-6 * largest, err_msg=name)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_recomputed_layers_have_the_same_losses_and_gradients(policy):
    cell = CELLS["masked words and sentences"]
    config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
    with dtype_policy(policy):
        loss, features, seed = cell.make(config), features_for(cell), tf.constant([3, 4])
        expected_metrics, expected_gradients = metrics_and_gradients(loss, features, seed)
        calls = []
        layer = loss.model.bert.encoder_layers[0]
        layer.call = lambda *args, call=layer.call, **kwargs: calls.append(1) or call(*args, **kwargs)
        loss.model.bert.is_recomputed = True
        metrics, gradients = metrics_and_gradients(loss, features, seed)
    assert len(calls) == 2
    assert metrics == expected_metrics
    for name, gradient in gradients.items():
        np.testing.assert_array_equal(gradient, expected_gradients[name], err_msg=name)


@pytest.mark.parametrize("name", ["classes", "numbers", "several labels", "tags", "masked words and sentences"])
def test_products_in_16_bits_come_near_those_in_32(name):
    cell, features = CELLS[name], features_for(CELLS[name])
    expected_metrics, expected = metrics_and_gradients(cell.make(PLAIN), features)
    length = np.sqrt(sum(np.square(gradient).sum() for gradient in expected.values()))
    for policy, tolerance in (("mixed_bfloat16", 0.05), ("mixed_float16", 0.005)):
        with dtype_policy(policy):
            metrics, gradients = metrics_and_gradients(cell.make(PLAIN), features)
        assert {gradient.dtype for gradient in gradients.values()} == {np.dtype("float32")}
        for metric in (metric for metric in metrics if metric.endswith("loss")):
            assert metrics[metric] == pytest.approx(expected_metrics[metric], rel=tolerance / 2)
        # The distance of all gradients together from those in float32.
        distance = np.sqrt(sum(np.square(gradients[each] - expected[each]).sum() for each in expected))
        assert 0 < distance < tolerance * length


@pytest.mark.parametrize("name", CELLS)
def test_features_that_training_reads_are_those_that_the_loss_needs(name):
    loss = CELLS[name].make(PLAIN)
    assert loss.feature_names[:3] == ("input_ids", "input_mask", "segment_ids")
    assert set(loss.feature_names[3:]) == set(CELLS[name].labels)
