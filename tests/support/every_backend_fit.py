"""Trains with `fit` and computes numbers that must be the same on every backend of Keras.

A test runs this file as a program in a process with another backend; see `tests/training/test_keras_fit.py`.
"""

import pathlib
import sys

import keras
import numpy as np
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import (
    AdamWeightDecay,
    BertConfig,
    ClassifierModel,
    LearningRateSchedule,
    PretrainingLoss,
    PretrainingModel,
    load_weights,
    weights_by_name,
)
from bert_keras.modeling.lora import enable_lora, load_lora, merge_lora, save_lora


class PretrainingWithFit(keras.Model):
    """Pre-training for `fit`: the loss is that of the original BERT."""

    def __init__(self, network):
        super().__init__()
        self.network = network

    def call(self, features):
        return self.network(features)

    def compute_loss(self, x=None, y=None, y_pred=None, sample_weight=None, training=True):
        loss = PretrainingLoss(lambda features, dropout_seed=None: y_pred)
        return loss.value(loss.numerators(x), loss.denominators(x))


class Batches(keras.utils.PyDataset):
    """Several batches in turn."""

    def __init__(self, batches, num_steps):
        super().__init__()
        self.batches = batches
        self.num_steps = num_steps

    def __len__(self):
        return self.num_steps

    def __getitem__(self, step):
        return (self.batches[step % len(self.batches)],)


def fit_golden(config_file, training_file, weights_file):
    """Returns the weights and slots after 30 updates of the golden model, by their names in a checkpoint."""
    golden = np.load(training_file)
    network = PretrainingModel(BertConfig.from_json_file(config_file))
    load_weights(weights_by_name(network), weights_file)
    schedule = LearningRateSchedule(
        float(golden["learning_rate"]), int(golden["num_train_steps"]), int(golden["num_warmup_steps"])
    )
    batches = [
        {name.split("/")[1]: golden[name] for name in golden.files if name.startswith(f"batch{number}/")}
        for number in range(3)
    ]
    model = PretrainingWithFit(network)
    model.compile(optimizer=AdamWeightDecay(schedule))
    model.fit(Batches(batches, 30), shuffle=False, verbose=0)
    slots = {variable.path.rpartition("/")[2]: variable for variable in model.optimizer.variables}
    state = dict(weights_by_name(network))
    for name in [*state]:
        state |= {f"{name}/{slot}": slots[f"{name.replace('/', '_')}_{slot}"] for slot in ("adam_m", "adam_v")}
    state["global_step"] = slots["iteration"]
    return {name: variable.numpy() for name, variable in state.items()}


def fit_lora(folder):
    """Trains a small classifier with LoRA in `fit`; returns its numbers, a dict of arrays."""
    config = make_config(hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    features = make_features(config)
    inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}

    def make_model():
        model = with_random_weights(ClassifierModel(config, 3))
        model.head.dropout.rate = 0.0
        return model

    model = make_model()
    enable_lora(model, 2, alpha=4, targets=("query", "output"))
    for name, weight in weights_by_name(model).items():
        if name.endswith("lora_kernel_a"):  # its start is random
            weight.assign(np.sin(np.arange(np.prod(weight.shape))).reshape(weight.shape))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=AdamWeightDecay(0.05), loss={"logits": loss})
    before = {name: weight.numpy() for name, weight in weights_by_name(model).items()}
    model.fit(inputs, {"logits": np.array([0, 1, 2, 0])}, epochs=3, verbose=0)
    after = {name: weight.numpy() for name, weight in weights_by_name(model).items()}
    changed = {name for name in after if not np.array_equal(after[name], before[name])}
    assert changed == {name for name, weight in weights_by_name(model).items() if weight.trainable}, changed
    save_lora(model, folder / "adapter.safetensors")
    logits = keras.ops.convert_to_numpy(model(inputs)["logits"])
    other = make_model()
    load_lora(other, folder / "adapter.safetensors")
    merge_lora(other)
    np.testing.assert_allclose(keras.ops.convert_to_numpy(other(inputs)["logits"]), logits, rtol=1e-5, atol=1e-5)
    return {f"lora/{name}": after[name] for name in changed} | {"lora/logits": logits}


def main(config_file, training_file, weights_file, folder):
    folder = pathlib.Path(folder)
    results = fit_golden(config_file, training_file, weights_file) | fit_lora(folder)
    if keras.backend.backend() != "tensorflow":
        assert "tensorflow" not in sys.modules
    np.savez(folder / "result.npz", **results)


if __name__ == "__main__":
    main(*sys.argv[1:])
