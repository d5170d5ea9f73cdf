"""The optimizer and LoRA in `compile` and `fit`, used as the pages tell a Keras user to; on every backend."""

import os

import keras
import numpy as np
import pytest
from keras_user import CLASSES, TEXTS, array, classifier_of, compiled, load_encoder, same, write_pretrained

from bert_keras import (
    AdamWeightDecay,
    ClassifierModel,
    FullTokenizer,
    LearningRateSchedule,
    enable_lora,
    load_lora,
    load_weights,
    merge_lora,
    open_checkpoint,
    save_lora,
    weights_by_name,
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pretrained(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="module")
def features(folder):
    return FullTokenizer.from_checkpoint(folder)(TEXTS, sequence_length=12)


class TestSchedule:
    @pytest.mark.parametrize(
        ("options", "rates"),
        [
            ({}, [0, 0.5, 0.8, 0.7, 0.1, 0]),
            ({"shape": "smooth_linear"}, [0, 0.5, 1, 7 / 8, 1 / 8, 0]),
            ({"shape": "constant"}, [0, 0.5, 1, 1, 1, 1]),
            ({"shape": "cosine"}, [0, 0.5, 1, *((1 + np.cos(np.pi * np.array([1, 7, 8]) / 8)) / 2)]),
        ],
    )
    def test_rates_are_those_of_the_formulas(self, options, rates):
        schedule = LearningRateSchedule(2.0, num_train_steps=10, num_warmup_steps=2, **options)
        for step, rate in zip([0, 1, 2, 3, 9, 10], rates, strict=True):
            assert float(array(schedule(step))) == pytest.approx(2 * rate, abs=1e-6)

    def test_keras_can_save_it(self):
        schedule = LearningRateSchedule(1e-3, num_train_steps=10, num_warmup_steps=2, shape="cosine")
        again = keras.saving.deserialize_keras_object(keras.saving.serialize_keras_object(schedule))
        assert float(array(again(7))) == float(array(schedule(7)))


class TestOptimizer:
    @pytest.mark.parametrize("clip_norm", [1.0, 0])
    @pytest.mark.usefixtures("no_graphs")
    def test_an_update_is_that_of_the_formula(self, clip_norm):
        """The gradients are 3 for the kernel and 1 for the bias: the loss is the output for an input of 3."""
        inputs = keras.Input((1,))
        model = keras.Model(inputs, keras.layers.Dense(1, kernel_initializer="ones", bias_initializer="ones")(inputs))
        optimizer = AdamWeightDecay(
            0.1, weight_decay_rate=0.5, beta_1=0.8, beta_2=0.9, epsilon=0.5, clip_norm=clip_norm
        )
        model.compile(optimizer, loss=lambda target, output: output, jit_compile=False)
        model.fit(np.full((1, 1), 3.0), np.zeros((1, 1)), verbose=0)
        for weight, gradient, decay in zip(model.weights, (3, 1), (0.5, 0), strict=True):
            if clip_norm:
                gradient /= np.sqrt(10)
            update = 0.2 * gradient / (np.sqrt(0.1 * gradient**2) + 0.5) + decay * 1
            assert array(weight).item() == pytest.approx(1 - 0.1 * update, rel=1e-6)

    def test_a_model_learns_with_a_schedule_and_is_saved_with_it(self, folder, features, tmp_path):
        keras.utils.set_random_seed(2)
        model = ClassifierModel(open_checkpoint(folder).config, num_classes=2)
        load_weights(weights_by_name(model), folder, allow_partial=True)
        before = model.get_weights()
        loss = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
        schedule = LearningRateSchedule(0.01, num_train_steps=40, num_warmup_steps=1)
        model.compile(AdamWeightDecay(schedule), loss, metrics={"logits": "accuracy"}, jit_compile=False)
        model.fit(features, {"logits": CLASSES}, verbose=0)
        assert all(map(np.array_equal, model.get_weights(), before))  # the first rate is 0
        # The same batch 39 times: an epoch takes longer than a step.
        repeated = {name: np.tile(value, (39, 1)) for name, value in features.items()}
        rows = {"batch_size": len(CLASSES), "shuffle": False}
        model.fit(repeated, {"logits": np.tile(CLASSES, 39)}, **rows, verbose=0)
        assert array(model(features)["logits"]).argmax(-1).tolist() == list(CLASSES)
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        assert type(again.optimizer) is AdamWeightDecay
        assert int(array(again.optimizer.iterations)) == 40
        assert again.optimizer.get_config() == model.optimizer.get_config()
        same(again(features)["logits"], model(features)["logits"])

    def test_training_beyond_the_schedule_warns_once(self, tmp_path, messages):
        def fit(model, epochs=2):
            model.fit(np.ones((1, 1)), np.zeros((1, 1)), epochs=epochs, verbose=0)
            return model

        def made(schedule):
            model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1)])
            model.compile(AdamWeightDecay(schedule), "mse", jit_compile=False)
            return model

        short = LearningRateSchedule(0.1, num_train_steps=2)
        model = fit(made(short))
        model.save(tmp_path / "model.keras")
        fit(made(LearningRateSchedule(0.1, num_train_steps=2, shape="constant")), 3)
        assert messages == []
        fit(fit(model, 1))
        told = (
            "the learning rate is 0 from step 2, the num_train_steps of the schedule, and the optimizer is at step {}"
        )
        # PyTorch knows the step at the start of each fit; TensorFlow only where it compiles, and else at the end.
        step = 2 if keras.backend.backend() == "torch" else 3
        assert [line.partition(", so")[0] for line in messages] == [told.format(step)]
        messages.clear()
        again = keras.models.load_model(tmp_path / "model.keras")
        again.predict(np.ones((1, 1)), verbose=0)
        assert messages == []
        fit(again)
        # JAX knows the step only at the end.
        assert [line.partition(", so")[0] for line in messages] == [
            told.format(4 if keras.backend.backend() == "jax" else 2)
        ]
        messages.clear()
        fit(made(short), 3)
        assert [line.partition(", so")[0] for line in messages] == [told.format(3)]


class TestLora:
    @pytest.mark.usefixtures("no_graphs")
    def test_train_save_load_and_merge(self, folder, features, tmp_path):
        model = classifier_of(load_encoder(folder))
        head = model.get_layer("scores").get_weights()
        before = array(model(features))
        enable_lora(model, rank=2)
        same(model(features), before)  # B starts at 0
        names = [weight.path for weight in model.trainable_weights]
        assert len(names) == 4 + 4  # A and B of query and value; kernel and bias of the pooler and of the head
        frozen = {weight.path: array(weight) for weight in model.non_trainable_weights}
        compiled(model, AdamWeightDecay(0.05)).fit(features, CLASSES, epochs=8, verbose=0)
        for weight in model.non_trainable_weights:
            if weight.path in frozen:
                np.testing.assert_array_equal(array(weight), frozen[weight.path])
        trained = array(model(features))
        assert np.abs(trained - before).max() > 0.1
        save_lora(model, tmp_path / "adapter.safetensors", base="tiny")
        assert os.path.getsize(tmp_path / "adapter.safetensors") < 4096

        other = classifier_of(load_encoder(folder))
        other.get_layer("scores").set_weights(head)
        facts = load_lora(other, tmp_path / "adapter.safetensors")
        assert facts == {"rank": 2, "alpha": 2, "targets": ["query", "value"], "base": "tiny"}
        same(other(features), trained, is_rounded=True)
        merge_lora(other)
        same(other(features), trained, is_rounded=True)
        assert len(other.weights) == len(classifier_of(load_encoder(folder)).weights)
        assert other.non_trainable_weights == []

    def test_an_adapter_of_other_weights_is_refused(self, folder, tmp_path):
        model = load_encoder(folder)
        enable_lora(model, rank=1, targets=("intermediate",))
        save_lora(model, tmp_path / "adapter.safetensors")
        other = load_encoder(write_pretrained(tmp_path / "other", seed=1))
        weights = other.get_weights()
        with pytest.raises(ValueError, match="adapter"):
            load_lora(other, tmp_path / "adapter.safetensors")
        assert all(map(np.array_equal, other.get_weights(), weights))

    def test_more_weights_can_be_trained(self, folder):
        model = load_encoder(folder)
        num_biases = sum(weight.path.endswith("bias") for weight in model.weights)
        enable_lora(model, rank=1, targets=("query",), also_trained=("bias$",))
        paths = [weight.path for weight in model.trainable_weights]
        assert sum(path.endswith("bias") for path in paths) == num_biases
        assert len(paths) == num_biases + 2
