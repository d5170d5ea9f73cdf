"""Run by `test_several_devices.py`: two devices, each with its own compiler, in float16 and in float32."""

import contextlib
import sys

import numpy as np
import tensorflow as tf
from eager import without_graphs
from states import state_of
from tiny_bert import make_config, make_features, with_random_weights
from xla_functions import find_compiled

from bert_keras.engine.distribution.devices import create_strategy, distribute
from bert_keras.engine.evaluation_pass import Evaluator, last
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    weights_by_name,
)
from bert_keras.modeling.number_format import dtype_policy

CONFIG = make_config(
    num_hidden_layers=1, max_position_embeddings=12, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
)
NUM_ROWS = 8


def make_examples():
    """Makes examples whose first half, that of the first device, has no labels and so no gradient."""
    examples = make_features(CONFIG, NUM_ROWS, num_tokens=12)
    examples["masked_lm_weights"][: NUM_ROWS // 2] = 0
    examples["next_sentence_labels"][: NUM_ROWS // 2] = -1
    return examples


def make_trainer(strategy, policy="float32", start=None, is_compiled=False):
    with strategy.scope():
        with dtype_policy(policy):
            loss = PretrainingLoss(PretrainingModel(CONFIG))
        loss_scale = LossScale(start) if start else None
    with_random_weights(loss.model, seed=2)
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-3, 100), clip_norm=0)
    options = {"loss_scale": loss_scale, "is_compiled": is_compiled, "ema_decay": 0.5}
    return TensorFlowTrainer(loss, optimizer, strategy, 7, **options)


def batches_for(strategy):
    batches = in_parts(tf.data.Dataset.from_tensors(make_examples()).repeat(), strategy.num_replicas_in_sync)
    return distribute(strategy, batches, is_endless=True)


def overflow(devices):
    """Trains with gradients that overflow at first, on the second device only."""
    trainer = make_trainer(devices, "mixed_float16", 2.0**24)
    before, iterator = state_of(trainer), iter(batches_for(devices))
    totals = trainer.train(iterator, tf.constant(2))
    assert (float(totals["num_skipped"]), float(totals["loss_scale"])) == (2, 2**22), totals
    after = state_of(trainer)
    assert (after.pop("global_step"), after.pop("loss_scale")) == (2, 2**22)
    for name, value in after.items():
        assert value.tobytes() == before[name].tobytes(), name
    for name, variable in trainer.state.items():
        first, second = (value.numpy() for value in devices.experimental_local_results(variable))
        assert first.tobytes() == second.tobytes(), name
    totals = trainer.train(iterator, tf.constant(12))
    assert 1 <= float(totals["num_skipped"]) < 12, totals
    assert np.abs(state_of(trainer)["cls/predictions/output_bias"]).max() > 0.01
    check_average(trainer, devices, iterator)
    print("what overflows on one device is left out on both")


def check_average(trainer, devices, iterator):
    """Takes a step that does not overflow, and compares the averages with the formula, on both devices."""
    is_skipped = True
    while is_skipped:
        before = state_of(trainer)
        is_skipped = float(trainer.train(iterator, tf.constant(1))["num_skipped"])
    after = state_of(trainer)
    trainer.swap_averages()
    for name, weight in weights_by_name(trainer.loss.model).items():
        expected = (before[name] + after[f"{name}/unaveraged"]) / 2  # a decay of 0.5, after the tenth step
        for value in devices.experimental_local_results(weight.value):
            np.testing.assert_allclose(value.numpy(), expected, rtol=1e-5, atol=1e-7, err_msg=name)


def compile_passes(one_device, devices):
    """Trains and evaluates, uncompiled and compiled by XLA."""
    plain, compiled = make_trainer(one_device), make_trainer(devices, start=2.0**15, is_compiled=True)
    states, losses = [], []
    for trainer, strategy in ((plain, one_device), (compiled, devices)):
        with without_graphs() if trainer is plain else contextlib.nullcontext():
            losses.append(float(trainer.train(iter(batches_for(strategy)), tf.constant(3))["loss"]))
            examples = tf.data.Dataset.from_tensor_slices(make_examples()).batch(NUM_ROWS, drop_remainder=True)
            evaluator = Evaluator(trainer.loss, strategy, trainer is compiled)
            metrics = last(evaluator.evaluate(distribute(strategy, examples))).metrics
        losses.append(metrics["loss"])
        states.append(state_of(trainer))
    np.testing.assert_allclose(losses[2:], losses[:2], rtol=1e-5)
    for name, value in states[0].items():
        if name.endswith("adam_m"):
            np.testing.assert_allclose(states[1][name], value, rtol=0, atol=1e-6, err_msg=name)
    # On each device one function before the exchange of gradients and one after it.
    inside, outside = find_compiled(compiled.train, iter(batches_for(devices)), tf.constant(3))
    assert sorted("AssignVariableOp" in found for found in inside) == [False, False, True, True], inside
    assert not outside & {"MatMul", "Sqrt", "AssignVariableOp", "AssignAddVariableOp"}, outside
    print("compiled on two devices as on one without a compiler")


def main(does_compile):
    [processor] = tf.config.list_physical_devices("CPU")
    tf.config.set_logical_device_configuration(processor, [tf.config.LogicalDeviceConfiguration()] * 2)
    one_device, devices = create_strategy("one"), create_strategy("mirrored")
    if does_compile:
        compile_passes(one_device, devices)
    else:
        overflow(devices)


if __name__ == "__main__":
    main(sys.argv[1:] == ["compile"])
