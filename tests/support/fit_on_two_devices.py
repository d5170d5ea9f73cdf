"""Run by `test_keras_fit.py`: what `fit` computes on two devices, compared with one."""

import re

import keras
import numpy as np
import tensorflow as tf
from devices import make_trainer, split_processor, train
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import AdamWeightDecay, ClassificationLoss, ClassifierModel, weights_by_name
from bert_keras.modeling.lora import adapter_bytes, enable_lora, merge_lora, merged_weights

CONFIG = make_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
LOSS = keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def fit(strategy, make_optimizer):
    """Returns the changes of the weights and the slots of the optimizer in a step with clipped gradients."""
    features = make_features(CONFIG, batch_size=8)
    inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    with strategy.scope():
        classifier = with_random_weights(ClassifierModel(CONFIG, 3), scale=0.6)
        classifier.head.dropout.rate = 0.0
        # A functional model casts its inputs. For several devices, Keras makes floats of them while it builds a model.
        symbols = {name: keras.Input((None,), dtype="int32", name=name) for name in inputs}
        model = keras.Model(symbols, classifier(symbols))
        model.compile(optimizer=make_optimizer(), loss={"logits": LOSS})
    before = {weight.path: weight.numpy() for weight in model.weights}
    model.fit(inputs, {"logits": np.arange(8) % 3}, batch_size=8, shuffle=False, verbose=0)
    # The softmax does not depend on the key biases, so their gradients are rounding errors.
    variables = [*model.weights, *model.optimizer.variables]
    return {v.path: v.numpy() - before.get(v.path, 0) for v in variables if not re.search("key.bias", v.path)}


def difference(one_device, devices, make_optimizer):
    """Returns the largest difference between one device and two, as a share of the largest change of a variable."""
    one, two = fit(one_device, make_optimizer), fit(devices, make_optimizer)
    return max(np.abs(one[name] - two[name]).max() / np.abs(one[name]).max() for name in one if one[name].any())


def train_lora(strategy):
    """Returns the merged weights after three steps of our training loop with LoRA, and the bytes of the adapter."""
    with strategy.scope():
        classifier = with_random_weights(ClassifierModel(CONFIG, 3), scale=0.6)
        classifier.head.dropout.rate = 0.0
        enable_lora(classifier, 2)
    for name, weight in weights_by_name(classifier).items():
        if name.endswith("lora_kernel_a"):  # its start is random
            weight.assign(np.ones(weight.shape))
    trained = {name for name, weight in weights_by_name(classifier).items() if weight.trainable}
    trainer = make_trainer(ClassificationLoss(classifier), strategy, 0.01, is_trained=trained.__contains__)
    features = make_features(CONFIG, batch_size=8)
    batch = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    batch["label_ids"] = np.arange(8, dtype=np.int32) % 3
    train(trainer, batch, 3)
    merged = {name: np.asarray(value) for name, value in merged_weights(classifier).items()}
    adapter = adapter_bytes(classifier)
    merge_lora(classifier)
    for name, weight in weights_by_name(classifier).items():
        np.testing.assert_array_equal(weight.numpy(), merged[name])
    return merged, len(adapter)


def masks(strategy):
    """Returns what a dropout layer of Keras makes of ones on each device."""
    with strategy.scope():
        dropout = keras.layers.Dropout(0.5, seed=1)
        dropout.build((4, 8))

    @tf.function
    def run():
        return strategy.run(lambda: dropout(tf.ones((4, 8)), training=True))

    return [mask.numpy() for mask in strategy.experimental_local_results(run())]


def weight_after_an_overflow(strategy):
    """Returns a weight after a step of Keras's LossScaleOptimizer with an infinite gradient on the second device."""
    with strategy.scope():
        weight = keras.Variable(np.ones(1), dtype="float32")
        optimizer = keras.optimizers.LossScaleOptimizer(keras.optimizers.SGD(0.1), initial_scale=16.0)
        optimizer.build([weight])

    @tf.function
    def step():
        def update():
            number = tf.cast(tf.distribute.get_replica_context().replica_id_in_sync_group, tf.float32)
            optimizer.apply([tf.where(number > 0, [np.inf], [1.0])], [weight])

        strategy.run(update)

    step()
    return weight.numpy()


def main():
    split_processor(2)
    one_device = tf.distribute.get_strategy()
    devices = tf.distribute.MirroredStrategy(cross_device_ops=tf.distribute.ReductionToOneDevice())
    (one, size), (two, size_of_two) = train_lora(one_device), train_lora(devices)
    assert size == size_of_two
    print("lora", max(np.abs(one[name] - two[name]).max() for name in one))
    print("masks", *(np.array_equal(*masks(devices)), masks(devices)[0].min()))
    print("overflow", *weight_after_an_overflow(devices))
    for name, make_optimizer in (
        ("ours", lambda: AdamWeightDecay(0.01)),
        ("keras", lambda: keras.optimizers.SGD(0.01, global_clipnorm=0.1, name="sgd")),
    ):
        print(name, difference(one_device, devices, make_optimizer))


if __name__ == "__main__":
    main()
