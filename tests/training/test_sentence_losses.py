"""The losses of vectors of texts equal NumPy, and no split of a batch changes them."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from states import assert_states_close, state_of
from text_numbers import NUMBERS, make_examples
from tiny_bert import make_config, with_random_weights

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.step import dropout_seed
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule, SentenceModel, weights_by_name
from bert_keras.tasks.vectors.losses import NO_TEXT, ClassesLoss, RankingLoss


def make_trainer(num_micro_batches=1, dropout=0.0):
    config = make_config(num_hidden_layers=1, hidden_dropout_prob=dropout, attention_probs_dropout_prob=dropout)
    model = with_random_weights(SentenceModel(config), 1)
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, 100, 0))
    return TensorFlowTrainer(RankingLoss(model), optimizer, tf.distribute.get_strategy(), 5, num_micro_batches)


def batch_of(examples, num_micro_batches):
    return iter(in_parts(tf.data.Dataset.from_tensors(examples), num_micro_batches))


def ranking_by_hand(vectors):
    """Returns the losses and the hits of each example at a scale of 7."""
    vectors = vectors / np.linalg.norm(vectors, axis=-1, keepdims=True)
    losses, hits = [], []
    for row, (first, second, _) in enumerate(NUMBERS):
        logits = {}
        for other, (asked, *texts) in enumerate(NUMBERS):
            for place, number in enumerate(texts, 1):
                is_own = other == row and place == 1
                answers_same = place == 1 and asked == first
                if is_own or not (number in (first, second, NO_TEXT) or answers_same):
                    logits[other, place] = 7.0 * vectors[row, 0] @ vectors[other, place]
        losses.append(np.log(sum(map(np.exp, logits.values()))) - logits[row, 1])
        hits.append(float(max(logits.values()) == logits[row, 1]))
    return np.array(losses), np.array(hits)


def test_ranking_equals_numpy():
    vectors = np.random.default_rng(3).standard_normal((8, 3, 4)).astype(np.float32)
    found = RankingLoss(None, 7.0).compare(tf.constant(vectors), {"text_numbers": tf.constant(NUMBERS)})
    losses, hits = ranking_by_hand(vectors.astype(np.float64))
    np.testing.assert_allclose(found["compared_loss"], losses, rtol=1e-5, atol=1e-5)
    np.testing.assert_array_equal(found["compared_accuracy"], hits)
    assert 0 < hits.mean() < 1
    nudged = vectors.copy()
    nudged[2, 1, 3] += 1e-2
    change = ranking_by_hand(nudged.astype(np.float64))[0].sum() - losses.sum()
    np.testing.assert_allclose(found["vector_gradients"][2, 1, 3], change / 1e-2, rtol=0.05)


def test_an_example_without_another_of_its_class_has_no_loss_of_its_own():
    draw = np.random.default_rng(1)
    vectors = draw.standard_normal((5, 4)).astype(np.float32)
    found = ClassesLoss(None).compare(tf.constant(vectors), {"label_ids": tf.constant([0, 1, 0, 2, 0])})
    losses = found["compared_loss"].numpy()
    assert losses[[1, 3]].tolist() == [0, 0]
    assert losses[[0, 2, 4]].min() > 0
    # It is still one of the texts that others are compared with.
    assert np.abs(found["vector_gradients"].numpy()).sum(-1).min() > 0


def trained(num_micro_batches):
    trainer = make_trainer(num_micro_batches)
    with without_graphs():
        trainer.totals = trainer.train(batch_of(make_examples(), num_micro_batches), tf.constant(1))
    return trainer


@pytest.fixture(scope="module")
def whole():
    """A trainer after a step without micro-batches."""
    return trained(1)


@pytest.mark.parametrize("num_micro_batches", [8, pytest.param(2, marks=pytest.mark.slow)])
def test_micro_batches_compare_the_whole_batch(whole, num_micro_batches):
    """Without the comparison across parts, eight parts of one example would each have a loss of 0."""
    parts = trained(num_micro_batches)
    np.testing.assert_allclose(parts.totals["loss"], whole.totals["loss"], rtol=1e-5)
    np.testing.assert_allclose(parts.totals["gradient_norm"], whole.totals["gradient_norm"], rtol=1e-4)
    np.testing.assert_array_equal(parts.totals["numerators"]["accuracy"], whole.totals["numerators"]["accuracy"])
    assert_states_close(state_of(parts), state_of(whole))


@pytest.mark.usefixtures("no_graphs")
def test_the_gradient_is_that_of_the_vectors_with_their_dropout():
    trainer, examples = make_trainer(2, dropout=0.3), make_examples()
    weights = {name: weight.value for name, weight in weights_by_name(trainer.loss.model).items()}
    with tf.GradientTape() as tape:
        parts = []
        for number in range(2):
            part = {name: value[4 * number : 4 * number + 4] for name, value in examples.items()}
            seed = dropout_seed(5, 0, 0, number)
            parts.append(trainer.loss.model(part, dropout_seed=seed)["vectors"])
        loss = tf.reduce_mean(trainer.loss._values({"vectors": tf.concat(parts, 0)}, examples)["loss"])
    norm = tf.linalg.global_norm([x for x in tape.gradient(loss, list(weights.values())) if x is not None])
    totals = trainer.train(batch_of(examples, 2), tf.constant(1))
    np.testing.assert_allclose(totals["loss"], loss, rtol=1e-5)
    # The norm of dense gradients; that of the slices of a lookup differs where a token occurs twice.
    assert abs(float(totals["gradient_norm"]) - float(norm)) < 0.1 * float(norm)
    keras.utils.set_random_seed(1)


def test_dropout_makes_the_two_vectors_of_a_text_differ():
    trainer, examples = make_trainer(dropout=0.3), make_examples(num_texts=1)
    twice = {name: tf.repeat(value, 2, axis=1) for name, value in examples.items()}
    first, second = tf.unstack(trainer.loss.model(twice, dropout_seed=dropout_seed(1, 0, 0, 0))["vectors"], axis=1)
    assert float(tf.reduce_min(tf.reduce_max(tf.abs(first - second), axis=1))) > 1e-3
    first, second = tf.unstack(trainer.loss.model(twice)["vectors"], axis=1)
    np.testing.assert_array_equal(first, second)
