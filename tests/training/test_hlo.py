"""The XLA programs of the steps follow a TPU's rules, and the check finds violations."""

import numpy as np
import pytest
import tensorflow as tf

from bert_keras.data_prep.records.reading import open_records
from bert_keras.modeling import BertConfig, TokenClassificationTask
from bert_keras.modeling.tagger import FeatureBasedTagger
from bert_keras.training.distribution.hlo import find_faults, lower
from bert_keras.training.evaluation_pass import Evaluator
from bert_keras.training.input import feature_batches, pretraining_batches
from bert_keras.training.loop import make_trainer
from check_tpu import TASKS, features_of, make_step

CONFIG = BertConfig(
    vocab_size=40,
    hidden_size=8,
    num_hidden_layers=1,
    num_attention_heads=2,
    intermediate_size=16,
    max_position_embeddings=16,
)
SETTINGS = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_labels": 3, "gradient_accumulation_steps": 1}
SETTINGS |= {"num_tpu_cores": 1, "precision": "float32", "recompute": False, "pack": False}
STRATEGY = tf.distribute.get_strategy()


def settings_of(task, num_parts=1):
    return {**SETTINGS, "task": task, "gradient_accumulation_steps": num_parts}


# Splitting a batch into micro-batches works the same for all tasks.
@pytest.mark.parametrize(("task", "num_parts"), [(task, 1 + (task == "pretraining")) for task in TASKS])
def test_the_step_of_each_task_is_one_that_a_tpu_takes(task, num_parts):
    settings = settings_of(task, num_parts)
    trainer = make_step(settings, CONFIG)
    program = lower(trainer.step, features_of(settings, 4))
    assert find_faults(program.text) == []
    # Weights, moments and the step counter are updated in place, except those that the loss does not depend on: the
    # pooler's two, and their moments.
    num_unused = 6 if task in ("question_answering", "token_classification") else 0
    assert program.text.count("may-alias") == len(trainer.state) - num_unused


def test_the_step_of_the_recurrent_tagger_is_one_that_a_tpu_takes():
    settings = settings_of("token_classification")
    schedule = {"learning_rate": 1e-3, "num_train_steps": 9, "num_warmup_steps": 1, "smooth_learning_rate": False}
    task = TokenClassificationTask(FeatureBasedTagger(CONFIG, 3, units=4))
    is_trained = lambda name: not name.startswith("bert/")  # noqa: E731
    trainer = make_trainer(task, STRATEGY, {**settings, **schedule, "seed": 0}, is_trained=is_trained)
    assert find_faults(lower(trainer.step, features_of(settings, 4)).text) == []


@pytest.mark.parametrize("task", TASKS)
def test_evaluation_and_prediction_are_what_a_tpu_takes(task):
    settings = settings_of(task)
    task = make_step(settings, CONFIG).task
    features = features_of(settings, 4)
    if settings["task"] == "pretraining":
        features["is_real_example"] = tf.TensorSpec([4], tf.float32)
        assert find_faults(lower(Evaluator(task, STRATEGY).step, features).text) == []
        return
    # The fine-tuning tasks use the signature that `Inference` calls.
    inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    assert find_faults(lower(task.model, inputs).text) == []


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 1)), "a dynamic dimension: [<=6]"),
        (lambda x: tf.where(x > 1), "a dynamic dimension: [<=6,1]"),
        (lambda x: tf.cast(x, tf.float64) / 3, "numbers of 64 bits: f64"),
        (lambda x: tf.math.top_k(tf.cast(x, tf.float32), 1)[1], "a sort, which is slow"),
    ],
)
def test_what_only_a_tpu_refuses_is_found(function, fault):
    program = lower(lambda features: function(features["x"]), {"x": tf.TensorSpec([6], tf.int32)})
    assert fault in find_faults(program.text)


def test_long_integers_are_found_among_the_inputs_and_a_single_one_is_not():
    specs = {"ids": tf.TensorSpec([2, 3], tf.int64), "step": tf.TensorSpec([], tf.int64)}
    program = lower(lambda features: features["ids"] + features["step"], specs)
    assert find_faults(program.text) == ["an input of long integers: s64[2,3]"]


def test_operations_on_the_host_are_found():
    text = """HloModule m
ENTRY %main (a: f32[2]) -> (f32[2], token[]) {
  %a = f32[2]{0} parameter(0)
  %custom-call.1 = (f32[2]{0}, s32[]) custom-call(f32[2]{0} %a), custom_call_target="xla_python_callback"
  %t = token[] after-all()
  %in = ((f32[2]{0}), token[]) infeed(token[] %t)
  ROOT %out = token[] outfeed(f32[2]{0} %a, token[] %t)
}
"""
    assert find_faults(text) == [f"an operation on the host: {name}" for name in ("custom-call", "infeed", "outfeed")]


@pytest.mark.parametrize(
    ("function", "spec"),
    [
        (lambda x: tf.strings.length(tf.strings.as_string(x)), tf.TensorSpec([2], tf.int32)),
        (lambda x: tf.py_function(lambda y: y, [x], tf.int32), tf.TensorSpec([2], tf.int32)),
        (lambda x: tf.RaggedTensor.from_row_lengths(x, x).to_tensor(), tf.TensorSpec([2], tf.int32)),
    ],
    ids=["strings", "python", "ragged"],
)
def test_what_belongs_on_the_host_cannot_be_lowered(function, spec):
    with pytest.raises(ValueError, match="^XLA cannot compile this: "):
        lower(lambda features: function(features["x"]), {"x": spec})


def assert_fixed(dataset):
    """Checks for 32-bit numbers in static shapes: no strings, nothing ragged."""
    for name, spec in dataset.element_spec.items():
        assert isinstance(spec, tf.TensorSpec), name
        assert spec.dtype in (tf.int32, tf.float32), name
        assert spec.shape.is_fully_defined(), name


def test_batches_of_pre_training_are_fixed(tmp_path, write_records):
    write_records(tmp_path / "a.tfrecord", 5)
    records = open_records(str(tmp_path / "a.tfrecord"), 12, 3, 40)
    assert_fixed(pretraining_batches.training_batches(records, 2, seed=0))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2, num_batches=3))


def test_batches_of_fine_tuning_are_fixed():
    features = {name: np.ones((5, 12), np.int8) for name in ("input_ids", "input_mask", "segment_ids")}
    features |= {"label_ids": np.ones(5, np.int64), "label_values": np.ones((5, 3), np.float32)}
    assert_fixed(feature_batches.training_batches(features, 2, seed=0))
    assert_fixed(feature_batches.prediction_batches(features, 2)[0])
    cut = feature_batches.training_batches(features, 2, seed=0, is_trimmed=True)
    assert cut.element_spec["input_ids"].shape.as_list() == [2, None]
