"""Run by `test_several_devices.py`: trains, evaluates and predicts on one device and on several, and compares."""

import dataclasses
import gc
import math
import sys
import weakref

import devices
import numpy as np
import tensorflow as tf
from devices import assert_as_one, batches_for, make_trainer, train
from eager import without_graphs
from states import state_of
from tiny_bert import make_config, make_features, make_inputs, with_random_weights

from bert_keras.engine.distribution import replicas
from bert_keras.engine.distribution.devices import distribute
from bert_keras.engine.evaluation_pass import Evaluator, Inference, last
from bert_keras.engine.input.feature_batches import training_batches
from bert_keras.engine.input.packed_batches import packed_training_batches
from bert_keras.modeling import (
    PretrainingLoss,
    PretrainingModel,
    TokenClassificationLoss,
    TokenClassifierModel,
)
from bert_keras.settings.groups import RunSettings

NUM_STEPS = 20
POOLER = ("bert/pooler/dense/kernel", "bert/pooler/dense/bias")
CONFIG = make_config(
    num_hidden_layers=1, max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)


def make_sentences():
    """Makes 13 sentences with a tag for each token; the parts of a batch differ in the number of scored tokens."""
    random = np.random.default_rng(0)
    inputs = make_inputs(random, random.integers(3, 25, 13), 24)
    labels = np.where(inputs["input_mask"], random.integers(0, 3, (13, 24)), -1)
    return inputs | {"label_ids": labels.astype(np.int32)}


def make_examples(num_rows):
    """Makes pre-training examples with different numbers of masked tokens."""
    return make_features(CONFIG, num_rows, num_tokens=24) | {"is_real_example": np.ones(num_rows, np.float32)}


def set_weights(model):
    """Gives a model weights whose gradients are long enough to be clipped."""
    return with_random_weights(model, seed=2, scale=0.6)


def train_evaluate_answer(strategy):
    """Trains tagging, whose loss does not depend on the pooler; predicts with it, and evaluates pre-training."""
    with strategy.scope():
        tagging = TokenClassificationLoss(set_weights(TokenClassifierModel(CONFIG, 3)))
        pretraining = PretrainingLoss(set_weights(PretrainingModel(CONFIG)))
    tagging.model.head.dropout.rate = 0.0
    features = make_sentences()
    trainer = make_trainer(tagging, strategy, num_micro_batches=2)
    pooler = {name: trainer.state[name].numpy() for name in POOLER}
    totals, state = train(trainer, training_batches(features, 8, seed=5, is_trimmed=True), NUM_STEPS)
    assert totals["gradient_norm"] > NUM_STEPS, totals  # otherwise no clipping would happen
    assert {name: state[name].tobytes() for name in POOLER} == {name: pooler[name].tobytes() for name in POOLER}
    assert np.abs(state["bert/encoder/layer_0/output/dense/kernel/adam_m"]).min() > 0
    # 13 rows, 5 at a time: no batch divides evenly by 2 or 4, and the last is not full.
    answers = last(Inference(tagging.model, strategy, 5, is_trimmed=True).outputs(features))["logits"]
    examples = tf.data.Dataset.from_tensor_slices(make_examples(15)).batch(5, drop_remainder=True)
    metrics = last(Evaluator(pretraining, strategy).evaluate(distribute(strategy, examples))).metrics
    return totals, state, answers, metrics


def train_packed(strategy):
    """Trains two steps on packed rows, whose number varies by batch.

    Returns:
        The state, and a weak reference to the memory of one of its variables.
    """
    with strategy.scope():
        tagging = TokenClassificationLoss(set_weights(TokenClassifierModel(CONFIG, 3)))
    tagging.model.head.dropout.rate = 0.0
    settings = RunSettings(train_batch_size=8, seed=5)
    batches = packed_training_batches(make_sentences(), settings, strategy.num_replicas_in_sync)
    trainer = make_trainer(tagging, strategy)
    trainer.train(iter(distribute(strategy, batches, is_endless=True)), tf.constant(2))
    step = strategy.experimental_local_results(trainer.global_step)[0]
    return state_of(trainer), weakref.ref(step.handle)


def train_on_copies(strategy, num_rows):
    """Trains a step on copies of one example with dropout, and a step in which one copy has an infinite weight."""
    with strategy.scope():
        config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.5)
        loss = PretrainingLoss(set_weights(PretrainingModel(config)))
    rows = {name: np.repeat(values, num_rows, axis=0) for name, values in make_examples(1).items()}
    del rows["is_real_example"]
    weights = np.stack([rows["masked_lm_weights"]] * 2)
    weights[1, -1] *= math.inf
    rows = {name: np.stack([values] * 2) for name, values in rows.items()} | {"masked_lm_weights": weights}
    trainer = make_trainer(loss, strategy)
    iterator = batches_for(trainer, tf.data.Dataset.from_tensor_slices(rows).repeat())
    first, second = (trainer.train(iterator, tf.constant(1)) for _ in range(2))
    return float(first["loss"]), float(first["gradient_norm"]), float(second["gradient_norm"])


def compare_training(one_device, several_devices):
    # Small enough to split the gradients of each layer.
    replicas._COMMUNICATION = tf.distribute.experimental.CommunicationOptions(bytes_per_pack=300)
    with without_graphs():
        one = train_evaluate_answer(one_device)
    several = train_evaluate_answer(several_devices)
    assert_as_one(several, one)
    print("as one in", len(several[1]), "of", len(one[1]), "values of the state, and without a gradient nothing moves")


def compare_packing(one_device, several_devices):
    with without_graphs():
        expected, _ = train_packed(one_device)
    state, memory = train_packed(several_devices)
    gc.collect()
    assert memory() is None
    for name, value in state.items():
        np.testing.assert_allclose(value, expected[name], rtol=0, atol=1e-6, err_msg=name)
    print("packed as one")


def compare_copies(one_device, several_devices):
    with without_graphs():
        loss_of_one_mask = train_on_copies(one_device, 1)[0]
    loss, norm, norm_without_end = train_on_copies(several_devices, several_devices.num_replicas_in_sync)
    assert math.isfinite(norm)
    assert abs(loss - loss_of_one_mask) > 1e-3, (loss, loss_of_one_mask)
    assert not math.isfinite(norm_without_end)
    print("other masks on each, and a loss of one of them that is not finite is seen")


PARTS = {"train": compare_training, "pack": compare_packing, "copy": compare_copies}

if __name__ == "__main__":
    devices.compare(4, [PARTS[name] for name in sys.argv[1:]])
