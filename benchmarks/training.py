"""Compares the speed of a pre-training step with transformers (PyTorch) and keras-hub; the programs take turns.

    python benchmarks/training.py

A step trains masked LM and next sentence prediction with dropout: forward pass, backward pass, clipping if the
library's own recipe has it, and the optimizer. bfloat16 is mixed precision in all libraries: weights and optimizer stay
in float32. keras-hub has no next-sentence head, so this program adds one. Prints tables in Markdown. Needs pip install
'.[peers]'.
"""

import os
import pathlib
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
os.environ.setdefault("KERAS_BACKEND", "tensorflow")
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

from bert_keras.cli.start import CLUSTERING_FLAGS

os.environ.setdefault("TF_XLA_FLAGS", CLUSTERING_FLAGS)

import keras
import keras_hub
import tensorflow as tf
import torch

from benchmarks import peers, speed
from bert_keras.cli.flags import as_program
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule, PretrainingLoss, PretrainingModel
from bert_keras.modeling.number_format import dtype_policy


def main(argv):
    """Runs the benchmark."""
    torch.set_num_threads(os.cpu_count())
    speed.compare(argv, __doc__, make_programs, speed.pretraining_operations)


def make_programs(config, batch):
    """Returns a dict of functions by name; each makes a program."""
    programs = {
        "bert-keras graph float32": lambda: ours(config, batch, "float32", is_compiled=None),
        "bert-keras graph bfloat16": lambda: ours(config, batch, "mixed_bfloat16", is_compiled=None),
        "bert-keras fusible bfloat16": lambda: ours(config, batch, "mixed_bfloat16", is_compiled="fusible"),
        "bert-keras XLA float32": lambda: ours(config, batch, "float32", is_compiled=True),
        "transformers float32": lambda: peers.transformers_step(config, batch, is_mixed=False),
        "transformers bfloat16": lambda: peers.transformers_step(config, batch, is_mixed=True),
        "keras-hub graph float32": lambda: keras_hub_step(config, batch, "float32", is_compiled=False),
        "keras-hub graph bfloat16": lambda: keras_hub_step(config, batch, "mixed_bfloat16", is_compiled=False),
        "keras-hub XLA float32": lambda: keras_hub_step(config, batch, "float32", is_compiled=True),
        "keras-hub XLA bfloat16": lambda: keras_hub_step(config, batch, "mixed_bfloat16", is_compiled=True),
    }
    if peers.has_compiler():
        programs |= {
            f"transformers compiled {precision}": lambda is_mixed=is_mixed: peers.transformers_step(
                config, batch, is_mixed, is_compiled=True
            )
            for precision, is_mixed in (("float32", False), ("bfloat16", True))
        }
    return programs


def ours(config, batch, policy, is_compiled):
    """Returns a function that takes one step of this project's training."""
    with dtype_policy(policy):
        loss = PretrainingLoss(PretrainingModel(config))
    optimizer = AdamWeightDecay(LearningRateSchedule(peers.LEARNING_RATE, num_train_steps=10**6))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), seed=1, is_compiled=is_compiled)
    batches = iter(in_parts(tf.data.Dataset.from_tensors(batch)).repeat().prefetch(1))
    one = tf.constant(1)
    return lambda: float(trainer.train(batches, one)["loss"])


def keras_hub_step(config, batch, policy, is_compiled):
    """Returns a function that takes one step of keras-hub's BertBackbone with its masked-LM head and Keras's AdamW."""
    backbone = peers.keras_hub_backbone(config, policy)
    policy = keras.dtype_policies.get(policy)
    positions = keras.Input((batch["masked_lm_positions"].shape[1],), dtype="int32", name="masked_lm_positions")
    encoded = backbone(backbone.input)
    masked_lm = keras_hub.layers.MaskedLMHead(
        vocabulary_size=config.vocab_size,
        token_embedding=backbone.token_embedding,
        dtype=policy,
        name="masked_lm",
    )(encoded["sequence_output"], positions)
    next_sentence = keras.layers.Dense(2, dtype=policy, name="next_sentence")(encoded["pooled_output"])
    model = keras.Model({**backbone.input, "masked_lm_positions": positions}, [masked_lm, next_sentence])
    losses = [keras.losses.SparseCategoricalCrossentropy(from_logits=True) for _ in range(2)]
    optimizer = keras.optimizers.AdamW(peers.LEARNING_RATE, weight_decay=peers.WEIGHT_DECAY, global_clipnorm=1.0)
    model.compile(optimizer=optimizer, loss=losses, jit_compile=is_compiled)
    inputs = peers.keras_hub_inputs(batch) | {"masked_lm_positions": batch["masked_lm_positions"]}
    labels = [batch["masked_lm_ids"], batch["next_sentence_labels"]]
    return lambda: model.train_on_batch(inputs, labels)


if __name__ == "__main__":
    as_program(main)
