"""The XLA programs of the steps follow a TPU's rules, and the check finds violations."""

import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import make_config

from bert_keras.data_prep.records.reading import open_records
from bert_keras.modeling import TokenClassificationTask
from bert_keras.modeling.tagger import FeatureBasedTagger
from bert_keras.training.distribution.hlo import find_faults, lower
from bert_keras.training.evaluation_pass import Evaluator
from bert_keras.training.input import feature_batches, pretraining_batches
from bert_keras.training.loop import make_trainer
from check_tpu import TASKS, features_of, make_step

CONFIG = make_config(num_hidden_layers=1)
SETTINGS = {"max_seq_length": 12, "max_predictions_per_seq": 3, "num_labels": 3, "gradient_accumulation_steps": 1}
SETTINGS |= {"num_tpu_cores": 1, "precision": "float32", "recompute": False, "pack": False}
STRATEGY = tf.distribute.get_strategy()


# tests/test_check_tpu.py has two steps of classification, of which one is quick.
@pytest.mark.slow
@pytest.mark.parametrize("name", TASKS)
def test_a_tpu_supports_training_and_prediction_of_each_task(name):
    # Splitting a batch into micro-batches works the same for all tasks.
    settings = {**SETTINGS, "task": name, "gradient_accumulation_steps": 2 if name == "pretraining" else 1}
    trainer, features = make_step(settings, CONFIG), features_of(settings, 4)
    program = lower(trainer.step, features)
    assert find_faults(program.text) == []
    # Weights, moments and the step counter are updated in place, except those that the loss does not depend on: the
    # pooler's two, and their moments.
    num_unused = 6 if name in ("question_answering", "token_classification") else 0
    assert program.text.count("may-alias") == len(trainer.state) - num_unused
    if name == "pretraining":
        features["is_real_example"] = tf.TensorSpec([4], tf.float32)
        program = lower(Evaluator(trainer.task, STRATEGY).step, features)
    else:  # the fine-tuning tasks use the signature that `Inference` calls
        inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
        program = lower(trainer.task.model, inputs)
    assert find_faults(program.text) == []


@pytest.mark.slow
def test_a_tpu_supports_the_step_of_the_tagger_with_lstms():
    settings = {**SETTINGS, "task": "token_classification", "seed": 0}
    settings |= {"learning_rate": 1e-3, "num_train_steps": 9, "num_warmup_steps": 1, "smooth_learning_rate": False}
    task = TokenClassificationTask(FeatureBasedTagger(CONFIG, 3, units=4))
    trainer = make_trainer(task, STRATEGY, settings, is_trained=lambda name: not name.startswith("bert/"))
    assert find_faults(lower(trainer.step, features_of(settings, 4)).text) == []


@pytest.mark.parametrize(
    ("function", "fault"),
    [
        (lambda x: tf.reduce_sum(tf.boolean_mask(x, x > 1)), "a dynamic dimension: [<=6]"),
        (lambda x: tf.where(x > 1), "a dynamic dimension: [<=6,1]"),
        (lambda x: tf.cast(x, tf.float64) / 3, "numbers of 64 bits: f64"),
        (lambda x: tf.math.top_k(tf.cast(x, tf.float32), 1)[1], "a sort, which is slow"),
    ],
    ids=["mask", "where", "f64", "sort"],
)
def test_faults_are_found(function, fault):
    program = lower(lambda features: function(features["x"]), {"x": tf.TensorSpec([6], tf.int32)})
    assert fault in find_faults(program.text)


def test_long_integers_are_found_among_the_inputs_but_not_a_single_one():
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
    "function",
    [
        lambda x: tf.strings.length(tf.strings.as_string(x)),
        lambda x: tf.py_function(lambda y: y, [x], tf.int32),
        lambda x: tf.RaggedTensor.from_row_lengths(x, x).to_tensor(),
    ],
    ids=["strings", "python", "ragged"],
)
def test_functions_of_the_host_are_refused(function):
    with pytest.raises(ValueError, match="^XLA cannot compile this: "):
        lower(lambda features: function(features["x"]), {"x": tf.TensorSpec([2], tf.int32)})


def assert_fixed(dataset):
    """Checks for 32-bit numbers in static shapes: no strings, nothing ragged."""
    for name, spec in dataset.element_spec.items():
        assert isinstance(spec, tf.TensorSpec), name
        assert spec.dtype in (tf.int32, tf.float32), name
        assert spec.shape.is_fully_defined(), name


def test_batches_have_fixed_shapes(tmp_path, write_records):
    write_records(tmp_path / "a.tfrecord", 5)
    records = open_records(str(tmp_path / "a.tfrecord"), 12, 3, 40)
    assert_fixed(pretraining_batches.training_batches(records, 2, seed=0))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2))
    assert_fixed(pretraining_batches.evaluation_batches(records, 2, num_batches=3))
    features = {name: np.ones((5, 12), np.int8) for name in ("input_ids", "input_mask", "segment_ids")}
    features |= {"label_ids": np.ones(5, np.int64), "label_values": np.ones((5, 3), np.float32)}
    assert_fixed(feature_batches.training_batches(features, 2, seed=0))
    assert_fixed(feature_batches.prediction_batches(features, 2)[0])
