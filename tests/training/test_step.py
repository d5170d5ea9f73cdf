"""The training step equals the original BERT's, and avoids the silent errors of Keras."""

import dataclasses
import gc
import itertools
import weakref

import keras
import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from lookup_loss import LookupLoss
from states import assert_bit_equal, assert_states_close, state_of
from steps_on_backends import thirty_updates

from bert_keras.engine.evaluation_pass import Evaluator, last
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.step import dropout_seed
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    SquadLoss,
    SquadModel,
    open_checkpoint,
)
from bert_keras.modeling.number_format import dtype_policy


def features_of(examples):
    return {
        name: tf.constant(value, tf.float32 if name == "masked_lm_weights" else tf.int32)
        for name, value in examples.items()
    }


def make_trainer(config, num_micro_batches=1, seed=7, learning_rate=1e-2, is_trained=None):
    keras.utils.set_random_seed(3)
    loss = PretrainingLoss(PretrainingModel(config))
    optimizer = AdamWeightDecay(LearningRateSchedule(learning_rate, 100, 0))
    return TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), seed, num_micro_batches, is_trained)


@pytest.mark.parametrize(
    ("name", "is_compiled"),
    [
        ("pretraining_a", False),
        ("pretraining_b", False),
        # XLA compiles the step.
        pytest.param("pretraining_a", True, marks=pytest.mark.slow),
        pytest.param("pretraining_b", True, marks=pytest.mark.slow),
        pytest.param("pretraining_b", "fusible", marks=pytest.mark.slow),
    ],
)
def test_thirty_updates_equal_the_release(golden_dir, name, is_compiled):
    state = thirty_updates(golden_dir / name, is_compiled=is_compiled)
    golden = np.load(golden_dir / name / "training.npz")
    np.testing.assert_allclose(state.pop("losses"), golden["losses"], rtol=1e-4)
    trained = open_checkpoint(golden_dir / name / "trained" / "model.ckpt-30")
    assert_states_close(state, {name: trained.read(name) for name in trained.names})


@pytest.mark.slow
def test_many_steps_in_one_call_are_the_same_as_one_by_one(tiny_config, make_examples):
    dataset = tf.data.Dataset.from_tensor_slices(features_of(make_examples(24))).batch(4, drop_remainder=True)
    trainer = make_trainer(tiny_config)
    start = state_of(trainer)
    totals = trainer.train(iter(in_parts(dataset, trainer.num_micro_batches)), tf.constant(6))
    together = state_of(trainer)
    assert together["global_step"] == 6
    for name, value in start.items():
        trainer.state[name].assign(value)
    iterator = iter(in_parts(dataset, trainer.num_micro_batches))
    losses = [float(trainer.train(iterator, tf.constant(1))["loss"]) for _ in range(6)]
    assert_bit_equal(together, state_of(trainer))
    assert float(totals["loss"]) == pytest.approx(sum(losses), rel=1e-6)


def test_dropout_is_a_function_of_seed_step_and_micro_batch(tiny_config, make_examples):
    row = make_examples(1)
    same_rows = features_of({name: np.repeat(value, 8, axis=0) for name, value in row.items()})
    dataset = tf.data.Dataset.from_tensors(same_rows).repeat(2)

    def losses(**arguments):
        # One weight is enough, and takes less time.
        trainer = make_trainer(
            tiny_config, learning_rate=1e-30, is_trained="cls/predictions/output_bias".__eq__, **arguments
        )
        iterator = iter(in_parts(dataset, trainer.num_micro_batches))
        return [float(trainer.train(iterator, tf.constant(1))["loss"]) for _ in range(2)]

    # At this rate the weights do not change, so any difference comes from the masks.
    assert len(set(losses())) == 2
    with without_graphs():
        first, second = losses()
        assert len({first, second, losses(seed=8)[0], losses(num_micro_batches=2)[0]}) == 4


def test_seeds_of_dropout_differ_in_the_element_that_no_layer_adds_to():
    places = list(itertools.product((0, 1, 12345), range(4), range(3), range(3)))
    seeds = [dropout_seed(*place).numpy() for place in places]
    assert len({int(first) for first, _ in seeds}) == len(places)
    assert all(second == 0 for _, second in seeds)


def train_lookup(scale, num_micro_batches=1):
    loss = LookupLoss(scale)
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, 10, 0))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 0, num_micro_batches)
    ids = tf.constant([[0, 0, 0], [0, 1, 2]], tf.int32)
    batches = in_parts(tf.data.Dataset.from_tensors({"input_ids": ids}), num_micro_batches)
    trainer.train(iter(batches), tf.constant(1))
    [(_, m)] = [(name, value) for name, value in state_of(trainer).items() if name.endswith("adam_m")]
    [(_, v)] = [(name, value) for name, value in state_of(trainer).items() if name.endswith("adam_v")]
    return m, v


def test_rows_that_a_batch_names_twice_are_summed_before_they_are_squared():
    m, v = train_lookup(scale=1.0)
    gradient = -np.array([4, 1, 1, 0]) / 6  # six ids, four of them 0
    np.testing.assert_allclose(m[:, 0], 0.1 * gradient, rtol=1e-5)
    np.testing.assert_allclose(v[:, 0], 0.001 * gradient**2, rtol=1e-4)


def test_many_trainings_in_one_process_bring_no_warning_of_traces(monkeypatch, caplog):
    monkeypatch.setattr("bert_keras.engine.precision._LARGE", 1)  # as for the weights of a usable model
    monkeypatch.setattr(tf.get_logger(), "propagate", True)
    with caplog.at_level("WARNING"):
        for _ in range(5):
            train_lookup(scale=1.0)
    assert [record.getMessage() for record in caplog.records if "retracing" in record.getMessage()] == []


def test_a_batch_with_other_parts_than_the_trainer_computes_is_refused(tiny_config, make_examples):
    dataset = tf.data.Dataset.from_tensors(features_of(make_examples(4)))
    trainer = make_trainer(tiny_config, num_micro_batches=2)
    with pytest.raises(ValueError, match=r"must be equal, but are 4 and 2|\[4,.*\[2,"):
        trainer.train(iter(in_parts(dataset, 4)), tf.constant(1))


def make_squad_trainer(config, policy="float32", **arguments):
    config = dataclasses.replace(config, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    keras.utils.set_random_seed(3)
    with dtype_policy(policy):
        loss = SquadLoss(SquadModel(config))
    schedule = LearningRateSchedule(1e-2, 100, 0)
    return TensorFlowTrainer(loss, AdamWeightDecay(schedule), tf.distribute.get_strategy(), 7, **arguments)


@pytest.fixture
def squad_batches(make_examples):
    features = {name: make_examples(32)[name] for name in ("input_ids", "input_mask", "segment_ids")}
    random = np.random.default_rng(0)
    features |= {name: random.integers(0, 6, 32) for name in ("start_positions", "end_positions")}
    return tf.data.Dataset.from_tensor_slices(features_of(features)).batch(8, drop_remainder=True)


@pytest.mark.parametrize(
    ("arguments", "policy"),
    [
        pytest.param({"is_compiled": True}, "float32", marks=pytest.mark.slow),  # XLA compiles the network
        ({"num_micro_batches": 2, "loss_scale": 2.0**15}, "mixed_float16"),
    ],
    ids=["compiled", "micro-batches in float16"],
)
def test_a_weight_that_the_loss_does_not_depend_on_keeps_its_bits(tiny_config, squad_batches, arguments, policy):
    if "loss_scale" in arguments:
        arguments = {**arguments, "loss_scale": LossScale(arguments["loss_scale"])}
    trainer = make_squad_trainer(tiny_config, policy, **arguments)
    before = state_of(trainer)
    totals = trainer.train(iter(in_parts(squad_batches, trainer.num_micro_batches)), tf.constant(4))
    assert float(totals.get("num_skipped", 0)) == 0
    after = state_of(trainer)
    for name in after.keys() - {"loss_scale"}:
        assert (after[name].tobytes() == before[name].tobytes()) == name.startswith("bert/pooler/"), name
    # A checkpoint holds slots for all weights, like a checkpoint of an earlier pre-training.
    assert {"bert/pooler/dense/kernel/adam_m", "bert/pooler/dense/bias/adam_v"} <= after.keys()


@pytest.mark.usefixtures("no_graphs")
def test_without_a_sentence_task_its_weights_keep_their_bits(tiny_config, make_examples):
    keras.utils.set_random_seed(3)
    loss = PretrainingLoss(PretrainingModel(tiny_config), has_sentence_task=False)
    optimizer = AdamWeightDecay(LearningRateSchedule(1e-2, 100, 0))
    trainer = TensorFlowTrainer(loss, optimizer, tf.distribute.get_strategy(), 7, num_micro_batches=2)
    before = state_of(trainer)
    examples = make_examples(16)
    examples["next_sentence_labels"][:] = -1
    dataset = tf.data.Dataset.from_tensor_slices(features_of(examples)).batch(4, drop_remainder=True)
    totals = trainer.train(iter(in_parts(dataset, trainer.num_micro_batches)), tf.constant(4))
    assert float(totals["numerators"]["next_sentence_loss"]) == 0
    after = state_of(trainer)
    same = {name for name in trainer.state if after[name].tobytes() == before[name].tobytes() and "/adam_" not in name}
    assert {"bert/pooler/dense/kernel", "cls/seq_relationship/output_weights"} <= same
    assert "bert/embeddings/word_embeddings" not in same


@pytest.mark.parametrize("num_micro_batches", [1, 2])
def test_the_norm_is_clipped_over_the_whole_batch(num_micro_batches):
    m, _ = train_lookup(scale=1000.0, num_micro_batches=num_micro_batches)
    gradient = np.repeat(np.array([4, 1, 1, 0])[:, None], 2, axis=1)
    np.testing.assert_allclose(m, -0.1 * gradient / np.linalg.norm(gradient), rtol=1e-5)


def test_evaluation_weighs_examples_and_averages_the_loss_over_batches(tiny_config, make_examples):
    loss = make_trainer(tiny_config).loss
    features = features_of(make_examples(5))
    batches = tf.data.Dataset.from_tensor_slices(features).batch(4)
    result = last(Evaluator(loss, tf.distribute.get_strategy()).evaluate(batches)).metrics

    whole = loss.metrics(loss.numerators(features), loss.denominators(features))
    for name, value in whole.items():
        assert result[name] == pytest.approx(float(value), rel=1e-5)
    parts = [
        {name: value[:4] for name, value in features.items()},
        {name: value[4:] for name, value in features.items()},
    ]
    losses = [float(loss.value(loss.numerators(part), loss.denominators(part))) for part in parts]
    assert result["loss"] == pytest.approx(np.mean(losses), rel=1e-5)


# XLA compiles the network twice.
@pytest.mark.parametrize("is_compiled", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_trainer_and_its_memory_are_freed(tiny_config, squad_batches, is_compiled):
    def references():
        trainer = make_squad_trainer(tiny_config, is_compiled=is_compiled)
        trainer.train(iter(in_parts(squad_batches, trainer.num_micro_batches)), tf.constant(2))
        evaluator = Evaluator(trainer.loss, trainer.strategy, is_compiled)
        last(evaluator.evaluate(squad_batches.take(1)))
        slots = [variable for name, variable in trainer.state.items() if "/adam_" in name]
        objects = [weakref.ref(value) for value in (trainer, evaluator, trainer.global_step, *slots)]
        return objects, [weakref.ref(variable.handle) for variable in trainer.state.values()]

    gc.disable()
    try:
        objects, memory = references()
        assert all(reference() is None for reference in objects)  # without a search for garbage
    finally:
        gc.enable()
    gc.collect()
    assert all(reference() is None for reference in memory)


def test_evaluation_without_a_batch_is_refused(tiny_config, make_examples):
    loss = make_trainer(tiny_config).loss
    empty = tf.data.Dataset.from_tensor_slices(features_of(make_examples(2))).batch(4).take(0)
    with pytest.raises(ValueError, match="evaluation found no batch"):
        last(Evaluator(loss, tf.distribute.get_strategy()).evaluate(empty))
