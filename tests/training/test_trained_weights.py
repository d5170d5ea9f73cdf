"""Frozen weights, a rate for each weight, and classes that weigh differently."""

import functools

import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from states import state_of, weights_of
from tiny_training import make_batches, make_trainer

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    ClassificationLoss,
    LearningRateSchedule,
    TokenClassificationLoss,
    TokenClassifierModel,
)


def assert_equal(first, second, tolerance):
    assert first.keys() == second.keys()
    for name, value in first.items():
        np.testing.assert_allclose(value, second[name], rtol=0, atol=tolerance, err_msg=name)


@functools.cache
def train_classifier(config, num_micro_batches=1, class_weights=None, rate_factor=None, is_trained=None, num_steps=1):
    """Returns the weights of a classifier before training, its state afterwards, and the metrics of the steps."""
    make_loss = functools.partial(ClassificationLoss, class_weights=class_weights)
    parts = {"num_micro_batches": num_micro_batches, "is_trained": is_trained}
    trainer = make_trainer(config, make_loss, adam={"rate_factor": rate_factor}, **parts)
    before = weights_of(trainer.loss.model)
    with without_graphs():
        totals = trainer.train(iter(in_parts(make_batches(32), num_micro_batches)), tf.constant(num_steps))
    return before, state_of(trainer), totals


def is_above_the_first_layer(name):
    return not name.startswith(("bert/embeddings/", "bert/encoder/layer_0/"))


def test_frozen_weights_keep_their_bits_and_have_no_slots(tiny_config):
    before, state, _ = train_classifier(tiny_config, is_trained=is_above_the_first_layer)
    frozen = [name for name in before if not is_above_the_first_layer(name)]
    assert len(frozen) == 5 + 16
    for name, value in before.items():
        assert (state[name].tobytes() == value.tobytes()) == (name in frozen), name
    # The checkpoint holds all weights, so it works without the initial checkpoint.
    trained = [name for name in before if name not in frozen]
    assert state.keys() == {"global_step", *before, *(f"{n}/adam_{slot}" for n in trained for slot in "mv")}
    assert state["global_step"] == 1


def test_what_is_frozen_does_not_count_for_the_norm_that_is_clipped_to(tiny_config):
    _, whole, all_totals = train_classifier(tiny_config)
    _, part, totals = train_classifier(tiny_config, is_trained=is_above_the_first_layer)
    norms = float(all_totals["gradient_norm"]), float(totals["gradient_norm"])
    slots = [name for name in part if name.endswith("/adam_m")]
    squares = sum(np.square(whole[name] / 0.1 * max(norms[0], 1.0)).sum() for name in slots)
    assert norms[1] == pytest.approx(np.sqrt(squares), rel=1e-5)
    assert norms[1] < 0.999 * norms[0]
    for name in slots:
        np.testing.assert_allclose(
            part[name] * max(norms[1], 1.0), whole[name] * max(norms[0], 1.0), rtol=1e-4, atol=1e-8, err_msg=name
        )


def test_each_weight_has_the_rate_that_its_factor_gives(tiny_config):
    before, plain, _ = train_classifier(tiny_config)
    factors = {name: 0.5 ** (number % 3) for number, name in enumerate(before)}
    _, scaled, _ = train_classifier(tiny_config, rate_factor=factors.get)
    for name, value in before.items():
        moved, expected = scaled[name] - value, factors[name] * (plain[name] - value)
        np.testing.assert_allclose(moved, expected, rtol=0, atol=2e-7, err_msg=name)
    has_moved = [factors[name] for name, value in before.items() if np.abs(plain[name] - value).max() > 1e-3]
    assert min(has_moved.count(factor) for factor in (1.0, 0.5, 0.25)) >= 5


def test_micro_batches_change_nothing_where_classes_weigh_differently(tiny_config):
    weights = (0.2, 5.0, 1.0)
    _, whole, totals = train_classifier(tiny_config, class_weights=weights, num_steps=2)
    _, parts, part_totals = train_classifier(tiny_config, num_micro_batches=4, class_weights=weights, num_steps=2)
    assert float(totals["loss"]) == pytest.approx(float(part_totals["loss"]), rel=1e-6)
    for kind in ("numerators", "denominators"):
        first, second = ({name: float(value) for name, value in t[kind].items()} for t in (totals, part_totals))
        assert first == pytest.approx(second, rel=1e-6)
    # Adam divides by the root of v, which amplifies the rounding of tiny gradients; the slots do not have this problem.
    assert_equal(whole, parts, tolerance=1e-4)
    slots = [{name: value for name, value in state.items() if name.endswith("adam_m")} for state in (whole, parts)]
    assert_equal(*slots, tolerance=1e-6)


def train_tagger(config, is_trained):
    loss = TokenClassificationLoss(TokenClassifierModel(config, 3))
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, 100, 0))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 7, is_trained=is_trained)
    features = dict.fromkeys(("input_ids", "input_mask", "segment_ids", "label_ids"), tf.ones((2, 4), tf.int32))
    trainer.train(iter(in_parts(tf.data.Dataset.from_tensors(features))), tf.constant(1))


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize("prefix", ["no weight", "bert/pooler/"])
def test_nothing_to_train_is_an_error(tiny_config, prefix):
    """The loss of tags does not depend on the pooler."""
    with pytest.raises(ValueError, match="^nothing to train: the loss depends only on weights that are frozen; freeze"):
        train_tagger(tiny_config, lambda name: name.startswith(prefix))
