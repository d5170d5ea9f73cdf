"""Steps that XLA compiles: the numbers of those without it, and no more outside of XLA than the loop over them."""

import functools

import keras
import numpy as np
import pytest
import tensorflow as tf
from eager import without_graphs
from lookup_loss import LookupLoss
from machines import SAPPHIRE_RAPIDS
from pretraining_runs import assert_continues, make_files, run
from states import assert_bit_equal, state_of
from steps_on_backends import ALIKE, WAYS, assert_same, take_steps
from tensorflow.python.eager import context
from tiny_bert import make_config, make_features
from xla_functions import find_compiled

from bert_keras.engine import precision
from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.loss_scale import LossScale
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import AdamWeightDecay, ClassificationLoss, ClassifierModel, LearningRateSchedule
from bert_keras.runs.run_dir import read_run_config

CONFIG = make_config(num_hidden_layers=1, hidden_dropout_prob=0.2)
ARITHMETIC = {"MatMul", "BatchMatMulV2", "Sqrt", "Rsqrt", "AssignVariableOp", "AssignAddVariableOp", "Erf"}


class UncompilableAdam(AdamWeightDecay):
    """An optimizer that XLA cannot compile, as on a GPU machine that lacks a CUDA file."""

    def update(self, name, value, *arguments):
        value = tf.numpy_function(lambda array: array, [value], tf.float32)
        return super().update(name, tf.ensure_shape(value, arguments[0].shape), *arguments)


def make_trainer(is_compiled, optimizer=AdamWeightDecay, strategy=None, **options):
    loss = ClassificationLoss(ClassifierModel(CONFIG, 3))
    strategy = strategy or tf.distribute.get_strategy()
    adam = optimizer(LearningRateSchedule(1e-2, 100))
    return TensorFlowTrainer(loss, adam, strategy, 7, is_compiled=is_compiled, **options)


def make_batches(num_parts=1):
    features = make_features(CONFIG, 6, num_tokens=12)
    features = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    batch = tf.data.Dataset.from_tensors({**features, "label_ids": np.arange(6, dtype=np.int32) % 3})
    return in_parts(batch, num_parts).repeat()


@pytest.mark.slow  # XLA compiles each of them
@pytest.mark.parametrize(
    "way", [pytest.param(way, marks=pytest.mark.rare) if way in ALIKE else way for way in (*WAYS, "scaled")]
)
def test_four_compiled_steps_equal_those_without_xla(way):
    way, options = ("classes", {"loss_scale": LossScale()}) if way == "scaled" else (way, {})
    with without_graphs():
        expected = take_steps(way)
    found = take_steps(way, is_compiled=True, **options)
    if options:
        assert (found.pop("loss_scale"), found.pop("loss_scale_steps")) == (2**15, 4)
    assert_same(found, expected, way)


@pytest.mark.slow  # XLA compiles it twice
def test_a_compiled_run_that_is_resumed_ends_with_the_same_bits():
    options = {"num_micro_batches": 3, "ema_decay": 0.9}
    whole, batches = make_trainer(True, **options), iter(make_batches(3))
    start = state_of(whole)
    whole.train(batches, tf.constant(4))
    middle = state_of(whole)
    whole.train(batches, tf.constant(5))
    resumed = make_trainer(True, **options)
    for name, value in middle.items():
        assert value.tobytes() != start[name].tobytes() or not np.any(value), name
        resumed.state[name].assign(value)
    resumed.train(iter(make_batches(3)), tf.constant(5))
    assert_bit_equal(state_of(resumed), state_of(whole))


@pytest.mark.parametrize("options", [{}, {"num_micro_batches": 3, "ema_decay": 0.9}], ids=["", "all"])
def test_all_of_a_step_is_one_compiled_function(options):
    options = {**options, "loss_scale": LossScale()} if options else options
    trainer = make_trainer(True, **options)
    batches = iter(make_batches(options.get("num_micro_batches", 1)))
    [inside], outside = find_compiled(trainer.train, batches, tf.constant(2))
    assert inside >= ARITHMETIC - {"Rsqrt", "Erf"}
    assert outside & ARITHMETIC == set()


@pytest.mark.parametrize(
    ("is_compiled", "size", "capability"),
    [
        (False, 1, (9, 0)),
        (None, 1, ()),  # XLA may end the process for a GPU that is unknown to it
        (None, 1, (12, 0)),  # newer than XLA
        (None, 2**20, (9, 0)),  # a small model
    ],
)
def test_without_jit_xla_compiles_no_update_that_gains_nothing(monkeypatch, is_compiled, size, capability):
    monkeypatch.setattr(precision, "_LARGE", size)
    monkeypatch.setattr(precision, "list_gpus", lambda: [((8, 0), "a GPU"), (capability, "another")])
    assert make_trainer(is_compiled)._compiled == {}


def test_without_jit_xla_compiles_at_most_the_update(monkeypatch):
    monkeypatch.setattr(precision, "_LARGE", 1)
    monkeypatch.setattr(precision, "list_gpus", lambda: [((8, 0), "a GPU"), ((9, 0), "another")])
    trainer = make_trainer(None)
    [inside], outside = find_compiled(trainer.train, iter(make_batches()), tf.constant(2))
    assert "AssignVariableOp" not in outside
    assert "MatMul" in outside
    assert inside & ARITHMETIC == {"Sqrt", "AssignVariableOp", "AssignAddVariableOp"}


def test_an_update_that_xla_cannot_compile_is_left_to_tensorflow(monkeypatch, messages):
    monkeypatch.setattr(precision, "_LARGE", 1)
    strategy, seen = tf.distribute.OneDeviceStrategy("/CPU:0"), []
    run = strategy.run
    monkeypatch.setattr(strategy, "run", lambda function: seen.append(tf.executing_eagerly()) or run(function))
    assert make_trainer(None, strategy=strategy)._compiled.keys() == {"_update"}
    assert messages == []
    assert make_trainer(None, UncompilableAdam, strategy)._compiled == {}
    [message] = messages
    assert message.startswith("XLA cannot compile the update (")
    assert message.endswith("); TensorFlow computes it without XLA, which is slower")
    assert seen == [False, False]  # tried in a graph


@pytest.mark.slow  # XLA compiles the update
def test_the_compiled_update_equals_the_plain_one(monkeypatch):
    with without_graphs():
        expected = take_steps("masked words and sentences")
    monkeypatch.setattr(precision, "_LARGE", 1)
    assert_same(take_steps("masked words and sentences"), expected, "")


def operations_of(function):
    """Calls a function, and returns the types of the operations that TensorFlow ran."""
    context.enable_graph_collection()
    try:
        function()
        metadata = context.export_run_metadata()
    finally:
        context.disable_graph_collection()
    return {node.op for graph in metadata.partition_graphs for node in graph.node}


class DenseLoss(LookupLoss):
    """A loss of products with a bias and an activation between them."""

    def __init__(self):
        super().__init__()
        self.model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(4, "tanh"), keras.layers.Dense(2)])

    def numerators(self, features, dropout_seed=None):
        return super().numerators({"input_ids": tf.cast(features["input_ids"], tf.float32)})


def test_xla_compiles_operations_only_in_steps_that_ask_for_it():
    batches = iter(in_parts(tf.data.Dataset.from_tensors({"input_ids": [[1, 2, 3], [4, 5, 6]]}).repeat()))
    for is_compiled in (None, "fusible"):
        adam = AdamWeightDecay(LearningRateSchedule(1e-2, 100))
        trainer = TensorFlowTrainer(DenseLoss(), adam, tf.distribute.get_strategy(), 7, is_compiled=is_compiled)
        operations = operations_of(functools.partial(trainer.train, batches, tf.constant(2)))
        assert ("_XlaRun" in operations) == (is_compiled == "fusible")
        assert "_FusedMatMul" in operations or "_MklNativeFusedMatMul" in operations
        assert tf.config.optimizer.get_jit() == ""


@pytest.mark.slow
@pytest.mark.parametrize("way", ["masked words and sentences", "parts"])
def test_steps_with_compiled_operations_equal_those_without(way):
    assert_same(take_steps(way, is_compiled="fusible"), take_steps(way), way)


@pytest.mark.slow
def test_a_run_with_compiled_operations_ends_with_the_same_bits_when_it_is_resumed(
    machine, monkeypatch, tmp_path, tiny_config, write_records
):
    machine(SAPPHIRE_RAPIDS)
    monkeypatch.setattr(precision, "_LONG_RUN", 0)
    flags = make_files(tmp_path, tiny_config, write_records)
    flags |= {"do_train": True, "do_eval": True, "deterministic": True, "precision": "bfloat16", "log_steps": 1}
    assert_continues(flags, run(flags), tmp_path / "stopped", 6)
    for folder in ("model", "stopped"):
        assert read_run_config(tmp_path / folder / "run_config.json")["settings"]["jit"] == "fusible"
