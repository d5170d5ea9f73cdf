"""Packed rows, recomputed layers and 16-bit products give the same numbers as the plain computation."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import (
    ClassificationLoss,
    ClassifierModel,
    MultiLabelLoss,
    MultipleChoiceModel,
    PretrainingLoss,
    PretrainingModel,
    RegressionLoss,
    SquadLoss,
    SquadModel,
    TokenClassificationLoss,
    TokenClassifierModel,
)
from bert_keras.modeling.layers import dtype_policy
from bert_keras.training.input.packing import pack

LENGTH, ROWS = 11, 6
RANDOM = np.random.default_rng(0)
LABELS = {
    "classes": {"label_ids": RANDOM.integers(0, 3, ROWS).astype(np.int32)},
    "values": {"label_values": RANDOM.standard_normal(ROWS).astype(np.float32)},
    "several": {"label_values": RANDOM.integers(0, 2, (ROWS, 3)).astype(np.float32)},
    "tokens": {"label_ids": RANDOM.integers(-1, 3, (ROWS, LENGTH)).astype(np.int32)},
    "spans": {name: RANDOM.integers(0, 4, ROWS).astype(np.int32) for name in ("start_positions", "end_positions")},
    "choices": {"label_ids": RANDOM.integers(0, 2, ROWS // 2).astype(np.int32)},
    "pretraining": {},
}
PACKABLE = ("classes", "values", "several", "tokens", "pretraining")


def make_loss(kind, **changes):
    """Makes a loss of a small model with random weights, always the same for a kind."""
    config = make_config(num_hidden_layers=1, **changes)
    model, make = {
        "classes": lambda: (ClassifierModel(config, 3), lambda model: ClassificationLoss(model, [0.5, 4.0, 0.25])),
        "values": lambda: (ClassifierModel(config, 1), RegressionLoss),
        "several": lambda: (ClassifierModel(config, 3), MultiLabelLoss),
        "tokens": lambda: (TokenClassifierModel(config, 3), TokenClassificationLoss),
        "spans": lambda: (SquadModel(config), SquadLoss),
        "choices": lambda: (MultipleChoiceModel(config), ClassificationLoss),
        "pretraining": lambda: (PretrainingModel(config), PretrainingLoss),
    }[kind]()
    return make(with_random_weights(model, seed=1))


def features_of(kind):
    features = make_features(make_config(), batch_size=ROWS, num_tokens=LENGTH)
    if kind == "choices":
        inputs = ("input_ids", "input_mask", "segment_ids")
        features = {name: features[name].reshape(ROWS // 2, 2, LENGTH) for name in inputs}
    if kind == "tokens":  # padding has no label
        return features | {"label_ids": np.where(features["input_mask"], LABELS[kind]["label_ids"], -1)}
    return features | LABELS[kind]


def metrics_and_gradients(loss, features, seed=None):
    """Returns the metrics of a batch, and the gradients of its loss, by name."""

    features = {name: tf.constant(values) for name, values in features.items()}
    with tf.GradientTape() as tape:
        numerators, denominators = loss.numerators(features, dropout_seed=seed), loss.denominators(features)
        value = loss.value(numerators, denominators)
    metrics = loss.metrics(numerators, denominators)
    gradients = tape.gradient(value, [weight.value for weight in loss.model.weights], unconnected_gradients="zero")
    gradients = map(tf.convert_to_tensor, gradients)
    names = [weight.path for weight in loss.model.weights]
    return {name: float(value) for name, value in metrics.items()}, dict(zip(names, gradients, strict=True))


@pytest.mark.parametrize(
    ("kind", "is_decoder"), [*((kind, False) for kind in PACKABLE), ("classes", True), ("pretraining", True)]
)
def test_packed_rows_have_the_losses_and_gradients_of_rows_of_their_own(kind, is_decoder):
    loss, features = make_loss(kind, is_decoder=is_decoder), features_of(kind)
    packed = pack(features, row_length=16, max_sequences=3)
    assert len(packed["input_ids"]) < ROWS
    assert 0 in packed["sequence_weights"]
    metrics, gradients = metrics_and_gradients(loss, packed)
    expected_metrics, expected_gradients = metrics_and_gradients(loss, features)
    assert metrics == pytest.approx(expected_metrics, rel=1e-5)
    largest = max(np.abs(gradient).max() for gradient in expected_gradients.values())
    for name, gradient in gradients.items():
        np.testing.assert_allclose(gradient, expected_gradients[name], rtol=0, atol=2e-6 * largest, err_msg=name)


@pytest.mark.parametrize("policy", ["float32", "mixed_bfloat16"])
def test_recomputed_layers_have_the_same_losses_and_gradients(policy):
    with dtype_policy(policy):
        loss = make_loss("pretraining", hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.2)
        features, seed = features_of("pretraining"), tf.constant([3, 4])
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


@pytest.mark.parametrize("kind", LABELS)
def test_products_in_16_bits_come_near_those_in_32(kind):
    features = features_of(kind)
    expected_metrics, expected = metrics_and_gradients(make_loss(kind), features)
    length = np.sqrt(sum(np.square(gradient).sum() for gradient in expected.values()))
    for policy, tolerance in (("mixed_bfloat16", 0.05), ("mixed_float16", 0.005)):
        with dtype_policy(policy):
            metrics, gradients = metrics_and_gradients(make_loss(kind), features)
        assert {gradient.dtype for gradient in gradients.values()} == {tf.float32}
        for name in (name for name in metrics if name.endswith("loss")):
            assert metrics[name] == pytest.approx(expected_metrics[name], rel=tolerance / 2)
        # The distance of all gradients together from those in float32.
        distance = np.sqrt(sum(np.square(gradients[name] - expected[name]).sum() for name in expected))
        assert 0 < distance < tolerance * length
