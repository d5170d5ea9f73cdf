"""The choice between updates that XLA compiles and those that TensorFlow computes."""

import tensorflow as tf

from bert_keras.modeling import AdamWeightDecay, LearningRateSchedule
from bert_keras.training.updates import choose_updates


class UncompilableAdam(AdamWeightDecay):
    """An optimizer that XLA cannot compile, as on a GPU machine that lacks a CUDA file."""

    def update(self, name, value, *arguments):
        value = tf.numpy_function(lambda array: array, [value], tf.float32)
        return super().update(name, tf.ensure_shape(value, arguments[0].shape), *arguments)


def test_what_xla_cannot_compile_is_updated_without_it(monkeypatch, messages):
    strategy, seen = tf.distribute.OneDeviceStrategy("/CPU:0"), []
    run = strategy.run
    monkeypatch.setattr(strategy, "run", lambda function: seen.append(tf.executing_eagerly()) or run(function))
    weights = {"large": tf.Variable(tf.zeros([2**18])), "small": tf.Variable(tf.zeros([2]))}
    schedule = LearningRateSchedule(1e-2, 100, 0)
    updates = choose_updates(AdamWeightDecay(schedule), weights, strategy)
    assert updates["large"].function_spec  # a `tf.function`
    assert not hasattr(updates["small"], "function_spec")
    assert messages == []
    updates = choose_updates(UncompilableAdam(schedule), weights, strategy)
    assert not hasattr(updates["large"], "function_spec")
    [message] = messages
    assert message.startswith("XLA cannot compile the update of large weights (")
    assert message.endswith("); TensorFlow computes it without XLA, which is slower")
    assert seen == [False, False]  # tried in a graph
