"""A trainer of a classifier without dropout, and batches of eight random rows for it."""

import dataclasses

import keras
import numpy as np
import tensorflow as tf
from tiny_bert import make_inputs

from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, ClassifierModel, LearningRateSchedule
from bert_keras.modeling.number_format import dtype_policy


def make_trainer(config, make_loss, num_classes=3, policy="float32", adam=None, **arguments):
    """Returns a trainer whose weights are the same each time; `adam` are arguments of its optimizer."""
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keras.utils.set_random_seed(3)
    with dtype_policy(policy):
        loss = make_loss(ClassifierModel(config, num_classes))
    loss.model.head.dropout.rate = 0.0  # the original BERT has a fixed rate
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, 100), **(adam or {}))
    return TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 7, **arguments)


def make_batches(num_rows, **labels):
    """Returns a dataset of sequences of 4 to 10 tokens, with classes of three or other labels."""
    random = np.random.default_rng(0)
    features = make_inputs(random, random.integers(4, 11, num_rows), 10)
    labels = labels or {"label_ids": random.integers(0, 3, num_rows).astype(np.int32)}
    return tf.data.Dataset.from_tensor_slices(features | labels).batch(8, drop_remainder=True)
