"""The schedule, the clipping and the update rule, each against computed numbers."""

import keras
import numpy as np
import pytest
import tensorflow as tf
from tiny_bert import make_config

from bert_keras.modeling import (
    AdamWeightDecay,
    LearningRateSchedule,
    TokenClassifierModel,
    clip_by_global_norm,
    layer_of,
    weights_by_name,
)
from bert_keras.modeling.optimization import SCHEDULES


class TestSchedule:
    def test_the_release_jumps_down_where_the_warmup_ends(self):
        schedule = LearningRateSchedule(0.01, num_train_steps=10, num_warmup_steps=3)
        expected = [0, 0.01 / 3, 0.02 / 3, 0.007, 0.006, 0.005, 0.004, 0.003, 0.002, 0.001, 0, 0]
        assert [schedule(step) for step in range(12)] == pytest.approx(expected)

    def test_the_smooth_form_decays_from_the_full_rate(self):
        schedule = LearningRateSchedule(0.01, num_train_steps=10, num_warmup_steps=2, shape="smooth_linear")
        expected = [0, 0.005, 0.01, 0.00875, 0.0075, 0.00625, 0.005, 0.00375, 0.0025, 0.00125, 0, 0]
        assert [schedule(step) for step in range(12)] == pytest.approx(expected)

    def test_the_other_shapes_start_from_the_full_rate(self):
        constant = LearningRateSchedule(0.01, num_train_steps=6, num_warmup_steps=2, shape="constant")
        assert [constant(step) for step in range(8)] == pytest.approx([0, 0.005, *[0.01] * 6])
        cosine = LearningRateSchedule(0.01, num_train_steps=6, num_warmup_steps=2, shape="cosine")
        half = 0.005 * 2**-0.5
        expected = [0, 0.005, 0.01, 0.005 + half, 0.005, 0.005 - half, 0, 0]
        assert [cosine(step) for step in range(8)] == pytest.approx(expected, abs=1e-12)

    @pytest.mark.parametrize("shape", ["linear", "smooth_linear"])
    def test_without_warmup_the_decay_is_all_there_is(self, shape):
        schedule = LearningRateSchedule(0.5, num_train_steps=4, shape=shape)
        assert [schedule(step) for step in range(6)] == pytest.approx([0.5, 0.375, 0.25, 0.125, 0, 0])

    @pytest.mark.parametrize(("num_train_steps", "num_warmup_steps"), [(10, 3), (4, 0), (5, 5), (3, 8), (1, 0)])
    @pytest.mark.parametrize("shape", SCHEDULES)
    def test_tensors_and_numbers_agree(self, num_train_steps, num_warmup_steps, shape):
        schedule = LearningRateSchedule(1e-4, num_train_steps, num_warmup_steps, shape)
        steps = range(num_train_steps + num_warmup_steps + 2)
        in_graph = tf.function(schedule)
        rates = [in_graph(tf.constant(step, tf.int64)) for step in steps]
        assert {rate.dtype for rate in rates} == {tf.float32}
        np.testing.assert_allclose(rates, [schedule(step) for step in steps], rtol=1e-6, atol=1e-12)

    @pytest.mark.parametrize("shape", SCHEDULES)
    def test_a_warmup_longer_than_the_training_only_rises(self, shape):
        schedule = LearningRateSchedule(1.0, num_train_steps=4, num_warmup_steps=10, shape=shape)
        assert [schedule(step) for step in range(5)] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4])

    @pytest.mark.parametrize(
        ("arguments", "sentence"),
        [
            ((0.0, 10), r"learning_rate is 0.0, but must be above 0"),
            ((float("nan"), 10), r"learning_rate is nan, but must be above 0"),
            ((1e-4, 0), r"num_train_steps is 0, but must be at least 1"),
            ((1e-4, 10, -1), r"num_warmup_steps is -1, but must be at least 0"),
            ((1e-4, 10, 0, "steep"), r"shape is 'steep', but must be one of linear, smooth_linear, cosine, constant"),
        ],
    )
    def test_impossible_values_are_refused(self, arguments, sentence):
        with pytest.raises(ValueError, match=sentence):
            LearningRateSchedule(*arguments)


class TestClipping:
    def gradients(self, scale):
        return [scale * np.array([[1.0, 2.0], [-2.0, 4.0]], np.float32), scale * np.array([10.0, 10.0], np.float32)]

    @pytest.mark.parametrize("scale", [1.0, 0.01, 0.0])
    def test_it_is_that_of_tensorflow(self, scale):
        clipped, norm = clip_by_global_norm(self.gradients(scale), 1.0)
        expected, expected_norm = tf.clip_by_global_norm(self.gradients(scale), 1.0)
        assert float(norm) == pytest.approx(15.0 * scale)
        np.testing.assert_allclose(norm, expected_norm, rtol=1e-6)
        for gradient, expected_gradient in zip(clipped, expected, strict=True):
            np.testing.assert_allclose(gradient, expected_gradient, rtol=1e-6)

    @pytest.mark.parametrize("bad", [np.inf, -np.inf, np.nan])
    def test_what_is_not_finite_spreads(self, bad):
        clipped, norm = clip_by_global_norm([np.array([1.0, bad], np.float32), np.ones(3, np.float32)], 1.0)
        assert not np.isfinite(norm)
        assert all(np.isnan(gradient).all() for gradient in clipped)

    def test_without_a_limit_the_norm_is_only_measured(self):
        unclipped, norm = clip_by_global_norm(self.gradients(1.0), 0.0)
        assert float(norm) == pytest.approx(15.0)
        np.testing.assert_array_equal(unclipped[1], [10.0, 10.0])

    def test_a_weight_without_a_gradient_stays_without(self):
        clipped, norm = clip_by_global_norm([None, np.array([3.0, 4.0], np.float32)], 1.0)
        assert clipped[0] is None
        assert float(norm) == pytest.approx(5.0)
        np.testing.assert_allclose(clipped[1], [0.6, 0.8], rtol=1e-6)

    def test_slices_of_one_row_are_added_before_they_are_measured(self):
        rows = tf.IndexedSlices(tf.constant([[1.0], [2.0], [4.0]]), tf.constant([0, 0, 1]), tf.constant([3, 1]))
        clipped, norm = clip_by_global_norm([rows], 1.0)
        assert float(norm) == pytest.approx(5.0)
        np.testing.assert_allclose(clipped[0], [[0.6], [0.8], [0.0]], rtol=1e-6)


def numpy_update(value, gradient, m, v, rate, decay):
    """Applies the original BERT's formula, in float64."""
    m = 0.9 * m + 0.1 * gradient
    v = 0.999 * v + 0.001 * gradient**2
    return value - rate * (m / (np.sqrt(v) + 1e-6) + decay * value), m, v


class TestAdamWeightDecay:
    @pytest.mark.parametrize(("name", "decay"), [("dense/kernel", 0.01), ("dense/bias", 0.0)])
    def test_five_updates_equal_the_formula(self, name, decay):
        rng = np.random.default_rng(0)
        schedule = LearningRateSchedule(0.1, num_train_steps=8, num_warmup_steps=2)
        optimizer = AdamWeightDecay(schedule)
        start = rng.standard_normal((3, 4))
        ours = [tf.constant(start, tf.float32), tf.zeros((3, 4)), tf.zeros((3, 4))]
        theirs = [start, np.zeros((3, 4)), np.zeros((3, 4))]
        for step in range(5):
            gradient = rng.standard_normal((3, 4))
            rate = optimizer.schedule(step)
            ours = optimizer.update(name, ours[0], tf.constant(gradient, tf.float32), *ours[1:], rate)
            theirs = numpy_update(theirs[0], gradient, *theirs[1:], rate, decay)
            for actual, expected in zip(ours, theirs, strict=True):
                np.testing.assert_allclose(actual, expected, atol=1e-6)

    @pytest.mark.parametrize("beta_1", [0.0, 0.9])
    def test_bias_correction_divides_the_means_by_what_they_lack(self, beta_1):
        rng = np.random.default_rng(0)
        update = tf.function(AdamWeightDecay(1e-3, beta_1=beta_1, bias_correction=True).update)
        ours = [tf.constant(0.5), tf.constant(0.0), tf.constant(0.0)]
        value, m, v = 0.5, 0.0, 0.0
        for step in range(2000):
            gradient = rng.standard_normal()
            ours = update("w", ours[0], tf.constant(gradient, tf.float32), *ours[1:], 1e-3, tf.constant(step))
            m, v = beta_1 * m + (1 - beta_1) * gradient, 0.999 * v + 0.001 * gradient**2
            corrected = m / (1 - beta_1 ** (step + 1)), v / (1 - 0.999 ** (step + 1))
            value -= 1e-3 * (corrected[0] / (np.sqrt(corrected[1]) + 1e-6) + 0.01 * value)
            if step in (0, 1, 9, 1999):
                np.testing.assert_allclose([float(ours[0]), float(ours[2])], [value, v], rtol=2e-5)

    def test_with_bias_correction_fit_gives_the_weights_of_keras_adamw(self):
        x = np.random.default_rng(0).standard_normal((64, 3)).astype(np.float32)
        weights = []
        for optimizer in (
            AdamWeightDecay(1e-2, clip_norm=0.0, exclude_from_weight_decay=(), bias_correction=True),
            keras.optimizers.AdamW(1e-2, weight_decay=0.01, epsilon=1e-6),
        ):
            keras.utils.set_random_seed(3)
            model = keras.Sequential([keras.Input((3,)), keras.layers.Dense(2)])
            model.compile(optimizer, "mse")
            model.fit(x, x[:, :2] ** 2, batch_size=8, epochs=3, shuffle=False, verbose=0)
            weights.append(model.get_weights())
        for ours, theirs in zip(*weights, strict=True):
            np.testing.assert_allclose(ours, theirs, rtol=1e-4, atol=1e-6)

    def test_a_saved_optimizer_keeps_its_bias_correction(self):
        config = AdamWeightDecay(1e-3, bias_correction=True).get_config()
        assert AdamWeightDecay.from_config(config).bias_correction is True

    def test_epsilon_stands_outside_the_root(self):
        optimizer = AdamWeightDecay(1e-3, weight_decay_rate=0.0)
        value, *_ = optimizer.update("w", np.float32(0), np.float32(1e-6), np.float32(0), np.float32(0), 1.0)
        assert float(value) == pytest.approx(-1e-7 / (np.sqrt(1e-15) + 1e-6), rel=1e-4)

    @pytest.mark.parametrize(
        ("name", "is_decayed"),
        [
            ("bert/embeddings/word_embeddings", True),
            ("bert/embeddings/LayerNorm/gamma", False),
            ("bert/encoder/layer_0/attention/self/query/kernel", True),
            ("bert/encoder/layer_0/attention/self/query/bias", False),
            ("encoder/layer_norm/gamma", False),
            ("cls/seq_relationship/output_weights", True),
            ("cls/seq_relationship/output_bias", False),
        ],
    )
    def test_decay_is_decided_by_the_name(self, name, is_decayed):
        assert AdamWeightDecay(1e-3).rule(name) == (0.01 if is_decayed else 0.0, 1.0)
        assert AdamWeightDecay(1e-3, exclude_from_weight_decay=()).rule(name) == (0.01, 1.0)
        assert AdamWeightDecay(1e-3, weight_decay_rate=0.0).rule(name) == (0.0, 1.0)

    def test_slices_are_not_taken(self):
        slices = tf.IndexedSlices(tf.ones((1, 1)), tf.constant([0]), tf.constant([3, 1]))
        zeros = tf.zeros((3, 1))
        with pytest.raises(TypeError, match="IndexedSlices"):
            AdamWeightDecay(1e-3).update("table", zeros, slices, zeros, zeros, 0.1)

    def test_the_rate_of_a_weight_is_multiplied_by_its_factor(self):
        factors = {"low/kernel": 0.25, "high/kernel": 1.0, "frozen/kernel": 0.0}
        plain, scaled = AdamWeightDecay(1e-3), AdamWeightDecay(1e-3, rate_factor=factors.get)
        start = [tf.constant(number) for number in (1.0, 0.5, 0.5, 0.25)]
        for name, factor in factors.items():
            value, m, v = scaled.update(name, *start, learning_rate=0.1)
            expected, expected_m, expected_v = plain.update(name, *start, learning_rate=0.1)
            # The decay is part of the step, so the learning rate scales it too.
            assert 1.0 - float(value) == pytest.approx(factor * (1.0 - float(expected)), rel=1e-5)
            assert (float(m), float(v)) == (float(expected_m), float(expected_v))


class TestLayerOf:
    def test_the_name_has_the_layer(self):
        assert layer_of("bert/encoder/layer_11/output/LayerNorm/beta", 12) == 12
        assert layer_of("tagger/forward/kernel", 12) == 13

    def test_every_weight_of_a_model_has_a_layer(self):
        names = list(weights_by_name(TokenClassifierModel(make_config(num_hidden_layers=3), 2)))
        layers = [layer_of(name, 3) for name in names]
        # 3 tables and a normalisation; 16 in each layer; the pooler and the head.
        assert [layers.count(layer) for layer in range(5)] == [5, 16, 16, 16, 4]
