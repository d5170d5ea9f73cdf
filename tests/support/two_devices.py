"""Run by `test_several_devices.py`: two devices in float16, compiled, with different samples, and with vectors."""

import contextlib
import dataclasses
import sys

import devices
import keras
import numpy as np
import tensorflow as tf
import text_numbers
from devices import assert_as_one, batches_for, train
from eager import without_graphs
from states import state_of
from tiny_bert import make_config, make_features, with_random_weights
from xla_functions import find_compiled

from bert_keras.engine.distribution.devices import distribute
from bert_keras.engine.evaluation_pass import Evaluator, last
from bert_keras.engine.input.pretraining_batches import seeded_batches
from bert_keras.engine.loss_scale import LossScale
from bert_keras.modeling import (
    PretrainingLoss,
    PretrainingModel,
    ReplacedTokenLoss,
    ReplacedTokenModel,
    SentenceModel,
    weights_by_name,
)
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.tasks.vectors.losses import RankingLoss

CONFIG = make_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
ELECTRA = dataclasses.replace(CONFIG, embedding_size=6, vocab_size=200, initializer_range=0.3)
NUM_ROWS = 8


def make_trainer(strategy, make_loss, policy="float32", scale=None, **options):
    """Returns a trainer in a precision; `scale` is the start of the loss scale."""
    with strategy.scope():
        with dtype_policy(policy):
            loss = make_loss()
        loss_scale = LossScale(scale) if scale else None
    return devices.make_trainer(loss, strategy, loss_scale=loss_scale, **options)


def pretraining_trainer(*arguments, **options):
    def make_loss():
        return PretrainingLoss(with_random_weights(PretrainingModel(CONFIG), seed=2))

    return make_trainer(
        arguments[0], make_loss, *arguments[1:], learning_rate=1e-3, clip_norm=0, ema_decay=0.5, **options
    )


def make_examples():
    """Makes examples whose first half, that of the first device, has no labels and so no gradient."""
    examples = make_features(CONFIG, NUM_ROWS, num_tokens=12)
    examples["masked_lm_weights"][: NUM_ROWS // 2] = 0
    examples["next_sentence_labels"][: NUM_ROWS // 2] = -1
    return examples


def overflow(_, both):
    """Trains with gradients that overflow at first, on the second device only."""
    trainer = pretraining_trainer(both, "mixed_float16", 2.0**24)
    before, iterator = state_of(trainer), batches_for(trainer, make_examples())
    totals = trainer.train(iterator, tf.constant(2))
    assert (float(totals["num_skipped"]), float(totals["loss_scale"])) == (2, 2**22), totals
    after = state_of(trainer)
    assert (after.pop("global_step"), after.pop("loss_scale")) == (2, 2**22)
    for name, value in after.items():
        assert value.tobytes() == before[name].tobytes(), name
    for name, variable in trainer.state.items():
        first, second = (value.numpy() for value in both.experimental_local_results(variable))
        assert first.tobytes() == second.tobytes(), name
    totals = trainer.train(iterator, tf.constant(12))
    assert 1 <= float(totals["num_skipped"]) < 12, totals
    assert np.abs(state_of(trainer)["cls/predictions/output_bias"]).max() > 0.01
    check_average(trainer, iterator)
    print("what overflows on one device is left out on both")


def check_average(trainer, iterator):
    """Takes a step that does not overflow, and compares the averages with the formula, on both devices."""
    is_skipped = True
    while is_skipped:
        before = state_of(trainer)
        is_skipped = float(trainer.train(iterator, tf.constant(1))["num_skipped"])
    after = state_of(trainer)
    trainer.swap_averages()
    for name, weight in weights_by_name(trainer.loss.model).items():
        expected = (before[name] + after[f"{name}/unaveraged"]) / 2  # a decay of 0.5, after the tenth step
        for value in trainer.strategy.experimental_local_results(weight.value):
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-5, atol=1e-7, err_msg=name)


def compile_passes(one_device, both):
    """Trains and evaluates, uncompiled and compiled by XLA."""
    plain, compiled = pretraining_trainer(one_device), pretraining_trainer(both, scale=2.0**15, is_compiled=True)
    states, losses = [], []
    for trainer in (plain, compiled):
        with without_graphs() if trainer is plain else contextlib.nullcontext():
            totals, state = train(trainer, make_examples(), 3)
            examples = tf.data.Dataset.from_tensor_slices(make_examples()).batch(NUM_ROWS, drop_remainder=True)
            evaluator = Evaluator(trainer.loss, trainer.strategy, trainer is compiled)
            metrics = last(evaluator.evaluate(distribute(trainer.strategy, examples))).metrics
        losses += [totals["loss"], metrics["loss"]]
        states.append(state)
    np.testing.assert_allclose(losses[2:], losses[:2], rtol=1e-5)
    for name, value in states[0].items():
        if name.endswith("adam_m"):
            np.testing.assert_allclose(states[1][name], value, rtol=0, atol=1e-6, err_msg=name)
    # On each device one function before the exchange of gradients and one after it.
    inside, outside = find_compiled(compiled.train, batches_for(compiled, make_examples()), tf.constant(3))
    assert sorted("AssignVariableOp" in found for found in inside) == [False, False, True, True], inside
    assert not outside & {"MatMul", "Sqrt", "AssignVariableOp", "AssignAddVariableOp"}, outside
    print("compiled on two devices as on one without a compiler")


def train_electra(strategy, examples, num_steps, seed=None, **options):
    """Trains ELECTRA; the random weights are the same at every call. A seed gives each example its own samples."""
    keras.utils.set_random_seed(3)
    trainer = make_trainer(
        strategy,
        lambda: ReplacedTokenLoss(with_random_weights(ReplacedTokenModel(ELECTRA), seed=2), generator_size=0.5),
        **options,
    )
    if seed is not None:
        examples = seeded_batches(tf.data.Dataset.from_tensors(examples).repeat(), seed, 0)
    return train(trainer, examples, num_steps)


def replace_tokens(one_device, both):
    # Each device has its own copy of one example, and replaces its tokens by its own samples.
    example = make_features(ELECTRA, 1)
    copies = {name: np.repeat(values, 2, axis=0) for name, values in example.items()}
    with without_graphs():
        one, _ = train_electra(one_device, example, 1)
    two, _ = train_electra(both, copies, 1)
    means = [each["numerators"]["masked_lm_loss"] / each["denominators"]["masked_lm_loss"] for each in (one, two)]
    np.testing.assert_allclose(*means, rtol=1e-6)
    assert abs(one["loss"] - two["loss"]) > 1e-3, (one["loss"], two["loss"])

    # With a seed for each example, everything is the same, also in parts.
    examples = make_features(ELECTRA, 8, num_tokens=16)
    with without_graphs():
        expected = train_electra(one_device, examples, 3, seed=4)
        assert train_electra(one_device, examples, 3, seed=5)[0]["loss"] != expected[0]["loss"]
    for strategy, num_micro_batches in ((one_device, 2), (both, 1), (both, 4)):
        found = train_electra(strategy, examples, 3, seed=4, num_micro_batches=num_micro_batches)
        assert_as_one(found, expected, rtol=1e-4)
    print("other samples on each, and as one with a seed for each example")


def train_vectors(strategy, *arguments, **options):
    def make_loss():
        return RankingLoss(with_random_weights(SentenceModel(CONFIG), 1))

    trainer = make_trainer(strategy, make_loss, *arguments, learning_rate=1e-3, **options)
    return train(trainer, text_numbers.make_examples(), 3)


def compare_texts(one_device, both):
    # Each text is compared with those of both devices, so the loss is that of one device.
    with without_graphs():
        expected = train_vectors(one_device)
    for num_micro_batches in (1, 2):
        assert_as_one(train_vectors(both, num_micro_batches=num_micro_batches), expected, rtol=1e-4)
    for policy, scale in (("mixed_float16", 2.0**10), ("mixed_bfloat16", None)):
        for strategy in (one_device, both):
            with without_graphs() if strategy is one_device else contextlib.nullcontext():
                found, state = train_vectors(strategy, policy, scale)
            np.testing.assert_allclose(found["loss"], expected[0]["loss"], rtol=0.01 if scale else 0.05)
            norms = found["gradient_norm"], expected[0]["gradient_norm"]
            np.testing.assert_allclose(*norms, rtol=0.02 if scale else 0.1)
            assert not found.get("num_skipped"), found
            assert all(np.isfinite(value).all() for value in state.values())
    print("compared with the texts of both devices, and in 16 bits as in 32")


PARTS = {"overflow": overflow, "compile": compile_passes, "replace": replace_tokens, "texts": compare_texts}

if __name__ == "__main__":
    devices.compare(2, [PARTS[name] for name in sys.argv[1:]])
