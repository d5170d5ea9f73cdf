"""The networks in `fit`, and as parts of other Keras models; on every backend, see test_keras_models.py."""

import keras
import numpy as np
import pytest
from keras_networks import CONFIG, IDS, INPUTS, arrays, assert_same, functional_model
from tiny_bert import make_config, with_random_weights

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    load_weights,
    save_safetensors,
    weights_by_name,
)

# Models of tokens do not use the pooler, and their training leaves it as it is.
pytestmark = pytest.mark.filterwarnings("ignore:Gradients do not exist for variables .'bert/pooler:UserWarning")


class TestTraining:
    def test_dropout_is_active_in_training_only(self):
        config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.5)
        for model in (BertModel(config), ClassifierModel(config, 3)):
            plain = model(INPUTS)
            assert_same(model(INPUTS, training=False), plain)
            first, second = (arrays(model(INPUTS, training=True)) for _ in range(2))
            for one, other, without in zip(first, second, arrays(plain), strict=True):
                assert np.abs(one - other).max() > 1e-4
                assert np.abs(one - without).max() > 1e-4

    def test_a_seed_of_keras_repeats_the_masks_and_leaves_the_initial_weights(self):
        def run():
            keras.utils.set_random_seed(1)
            model = ClassifierModel(CONFIG, 3)
            return [model(INPUTS, training=True) for _ in range(2)], model.head.output_weights

        (first, weights), (again, _) = run(), run()
        assert_same(again, first)
        keras.utils.set_random_seed(1)
        # The head draws its weights before all other layers, as it does without the seed of dropout.
        expected = keras.initializers.TruncatedNormal(stddev=0.02)((3, 8))
        assert_same(weights.value, expected)

    def test_two_encoders_draw_different_masks(self):
        first, second = BertModel(CONFIG), BertModel(CONFIG)
        second.set_weights(first.get_weights())
        assert np.abs(np.subtract(*(arrays(bert(INPUTS, training=True))[1] for bert in (first, second)))).max() > 1e-4

    def test_a_given_seed_is_used_whatever_training_is(self):
        model = ClassifierModel(CONFIG, 3)
        seed = np.array([3, 0], "uint32" if keras.backend.backend() == "jax" else "int32")
        expected = model(INPUTS, dropout_seed=seed)
        assert_same(model(INPUTS, dropout_seed=seed, training=True), expected)
        assert np.abs(arrays(model(INPUTS))[0] - arrays(expected)[0]).max() > 1e-4

    def test_the_state_of_the_seed_is_not_among_the_weights(self):
        model = ClassifierModel(CONFIG, 3)
        assert len(model.weights) == len(weights_by_name(model)) == 25
        assert not [weight.path for weight in model.weights if "seed" in weight.path]

    @pytest.mark.slow
    def test_fit_draws_new_masks_at_each_step_and_evaluate_none(self):
        config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.5)
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        labels = np.array([0, 2])
        for model, targets in (
            (ClassifierModel(config, 3), {"logits": labels}),
            (functional_model(BertModel(config)), labels),
        ):
            with_random_weights(model)
            losses = {"logits": loss} if isinstance(targets, dict) else loss
            model.compile(keras.optimizers.SGD(0.0), loss=losses, jit_compile=False)
            losses = model.fit(INPUTS, targets, epochs=3, shuffle=False, verbose=0).history["loss"]
            assert len(set(losses)) == 3
            outputs = model.predict(INPUTS, verbose=0)
            logits = outputs["logits"] if isinstance(outputs, dict) else outputs
            expected = float(loss(labels, logits))
            assert model.evaluate(INPUTS, targets, verbose=0) == pytest.approx(expected, rel=1e-5)
            assert expected not in losses

    @pytest.mark.slow
    def test_a_frozen_encoder_does_not_learn_in_another_model(self):
        bert = BertModel(CONFIG, trainable=False)
        model = functional_model(bert, training=False)
        before = bert.get_weights()
        assert [weight.path for weight in model.trainable_weights] == ["answer/kernel", "answer/bias"]
        model.compile(keras.optimizers.SGD(0.1), loss="mse", jit_compile=False)
        losses = model.fit(INPUTS, np.ones((2, 3)), epochs=2, verbose=0).history["loss"]
        assert losses[1] < losses[0]
        for values, expected in zip(bert.get_weights(), before, strict=True):
            np.testing.assert_array_equal(values, expected)


class TestNesting:
    def test_two_encoders_of_one_model_load_two_checkpoints(self, tmp_path):
        first, second = (with_random_weights(BertModel(CONFIG), seed) for seed in (1, 2))
        files = [
            save_safetensors(tmp_path / f"of_{number}", weights_by_name(bert), CONFIG)
            for number, bert in enumerate((first, second))
        ]
        inputs = keras.Input((5,), dtype="int32")
        encoders = [BertModel(CONFIG, name=f"encoder_{number}") for number in range(2)]
        model = keras.Model(inputs, [encoder(inputs)["pooled_output"] for encoder in encoders])
        for number, file in enumerate(files):
            report = load_weights(weights_by_name(model.get_layer(f"encoder_{number}")), file)
            assert len(report.loaded) == 23
        assert_same(model(IDS), [bert(IDS)["pooled_output"] for bert in (first, second)])
        paths = list(weights_by_name(model))
        assert sum(path.startswith("encoder_0/") for path in paths) == 23
        assert len(paths) == 46

    def test_models_made_inside_other_layers_load_a_checkpoint(self, tmp_path):
        class Outer(keras.layers.Layer):
            def build(self, input_shape):
                self.encoder = BertModel(CONFIG, name="reader")
                self.classifier = ClassifierModel(CONFIG, 3)

            def call(self, input_ids):
                return self.encoder(input_ids)["pooled_output"], self.classifier(input_ids)["logits"]

        model = with_random_weights(ClassifierModel(CONFIG, 3))
        outer = Outer(name="outer")
        outer(IDS)
        assert outer.encoder.weights[0].path == "outer/reader/embeddings/word_embeddings"
        assert outer.classifier.weights[-1].path == "outer/output_bias"
        for part, original in ((outer.encoder, model.bert), (outer.classifier, model)):
            file = save_safetensors(tmp_path / part.name, weights_by_name(original), CONFIG)
            load_weights(weights_by_name(part), file)
        assert_same(outer(IDS), (model.bert(IDS)["pooled_output"], model(IDS)["logits"]))
