"""Two devices, here halves of one processor, give what one gives. In a process of its own, as devices are set first."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]

CHILD = """
import keras
import numpy as np
import tensorflow as tf

[processor] = tf.config.list_physical_devices("CPU")
tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)

from data_prep.feature_batches import training_batches
from modeling import AdamWeightDecay, BertConfig, LearningRateSchedule, TokenClassificationTask, TokenClassifierModel
from modeling import weights_by_name
from training.inference import Inference
from training.step import Trainer

config = BertConfig(vocab_size=40, hidden_size=8, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16,
    max_position_embeddings=24, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
random = np.random.default_rng(0)
mask = np.arange(24) < random.integers(3, 25, 13)[:, None]
features = {
    "input_ids": (random.integers(1, 40, mask.shape) * mask).astype(np.int32),
    "input_mask": mask.astype(np.int8),
    "segment_ids": np.zeros(mask.shape, np.int8),
    # The halves of a batch have unlike numbers of tokens that count.
    "label_ids": np.where(mask, random.integers(0, 3, mask.shape), -1).astype(np.int32),
}
start = None

def run(strategy):
    global start
    with strategy.scope():
        task = TokenClassificationTask(TokenClassifierModel(config, 3))
    task.model.head.dropout.rate = 0.0
    weights = weights_by_name(task.model)
    if start is None:
        start = {name: 0.3 * random.standard_normal(w.shape) + name.endswith("gamma") for name, w in weights.items()}
    for name, weight in weights.items():
        weight.assign(start[name])
    answers = Inference(task.model, strategy, 4, is_trimmed=True).outputs(features)["logits"]
    trainer = Trainer(task, AdamWeightDecay(LearningRateSchedule(1e-2, 100)), strategy, 7, num_micro_batches=2)
    batches = training_batches(features, 8, seed=5, is_trimmed=True)
    totals = trainer.train(iter(strategy.experimental_distribute_dataset(batches)), tf.constant(3))
    return answers, float(totals["loss"]), {name: value.numpy() for name, value in trainer.state.items()}

one = run(tf.distribute.get_strategy())
strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
assert strategy.num_replicas_in_sync == 2
two = run(strategy)
np.testing.assert_allclose(two[0], one[0], rtol=0, atol=1e-6)
np.testing.assert_allclose(two[1], one[1], rtol=1e-6)
for name, value in one[2].items():
    # Adam magnifies the rounding of tiny gradients; what it keeps of them does not.
    np.testing.assert_allclose(two[2][name], value, rtol=0, atol=1e-6 if "/adam_" in name else 1e-4, err_msg=name)
print("equal in", len(one[2]), "of", len(two[2]))
"""


def test_two_devices_train_and_answer_as_one():
    done = subprocess.run(
        [sys.executable, "-c", CHILD], cwd=ROOT, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip().endswith("equal in 124 of 124")  # 41 weights, two slots of each, and the step
