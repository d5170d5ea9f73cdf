"""Training with `compile` and `fit`: our optimizer is exact there, and each error of Keras in the guide is real."""

import pathlib

import every_backend_fit
import keras
import numpy as np
import pytest
import tensorflow as tf
from other_backends import run_on
from states import assert_states_close
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.engine.input.feature_batches import in_parts
from bert_keras.engine.tensorflow_step import TensorFlowTrainer
from bert_keras.modeling import (
    AdamWeightDecay,
    BertModel,
    ClassificationLoss,
    ClassifierModel,
    LearningRateSchedule,
    open_checkpoint,
    save_safetensors,
    weights_by_name,
)

SUPPORT = pathlib.Path(__file__).resolve().parents[1] / "support"


def run_process(script, *arguments, backend="tensorflow"):
    """Runs a program of tests/support on a backend; returns what it prints."""
    return run_on(backend, SUPPORT / script, *arguments)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["tensorflow", "jax", "torch"])
def test_thirty_updates_in_fit_equal_the_original_on_every_backend(golden_dir, tmp_path, backend):
    folder = golden_dir / "pretraining_a"
    checkpoint = open_checkpoint(folder / "bert_model.ckpt")
    # Safetensors, because only TensorFlow can read the original format.
    weights = {name: checkpoint.read(name) for name in checkpoint.names}
    weights_file = save_safetensors(tmp_path / "weights", weights, checkpoint.config)
    files = [folder / "bert_config.json", folder / "training.npz", weights_file, tmp_path]
    run_process("every_backend_fit.py", *files, backend=backend)
    result = dict(np.load(tmp_path / "result.npz"))
    lora = {name: result.pop(name) for name in [*result] if name.startswith("lora/")}
    trained = open_checkpoint(folder / "trained" / "model.ckpt-30")
    assert_states_close(result, {name: trained.read(name) for name in trained.names})
    expected = every_backend_fit.fit_lora(tmp_path)
    assert lora.keys() == expected.keys()
    for name, value in lora.items():
        np.testing.assert_allclose(value, expected[name], rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.slow  # a process with two devices
def test_on_two_devices_fit_is_right_with_our_optimizer_and_wrong_where_the_guide_says_so():
    printed = dict(line.split(" ", 1) for line in run_process("fit_on_two_devices.py").splitlines())
    assert float(printed["ours"]) < 1e-4
    assert float(printed["lora"]) < 1e-5
    assert float(printed["keras"]) > 0.1
    assert printed["masks"] == "True 0.0"
    assert printed["overflow"] == "-inf"


@pytest.mark.slow  # builds the network twice
def test_fit_gives_the_numbers_of_the_training_step():
    config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
    features = make_features(config, batch_size=12)
    inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    labels = np.arange(12, dtype=np.int32) % 3
    schedule = LearningRateSchedule(0.01, num_train_steps=10, num_warmup_steps=2)

    def make_model():
        model = with_random_weights(ClassifierModel(config, 3))
        model.head.dropout.rate = 0.0
        return model

    ours, theirs = make_model(), make_model()
    optimizer = AdamWeightDecay(schedule)
    trainer = TensorFlowTrainer(ClassificationLoss(ours), optimizer, tf.distribute.get_strategy(), seed=0)
    batches = tf.data.Dataset.from_tensor_slices(inputs | {"label_ids": labels}).batch(4, drop_remainder=True)
    trainer.train(iter(in_parts(batches)), tf.constant(3))
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    theirs.compile(optimizer=AdamWeightDecay(schedule), loss={"logits": loss})
    theirs.fit(inputs, {"logits": labels}, batch_size=4, shuffle=False, verbose=0)
    expected = {name: weight.numpy() for name, weight in weights_by_name(ours).items() if "key/bias" not in name}
    for name, value in expected.items():
        np.testing.assert_allclose(weights_by_name(theirs)[name], value, rtol=0, atol=2e-6, err_msg=name)


@pytest.mark.usefixtures("no_graphs")
def test_kerass_adam_squares_the_slices_of_a_row_separately_and_ours_does_not():
    def second_moment(optimizer):
        model = keras.Sequential([keras.layers.Embedding(3, 1), keras.layers.Flatten(), keras.layers.Dense(1)])
        model.build((None, 3))
        model.layers[-1].kernel.assign(np.ones((3, 1)))
        # The loss is the sum of the three looked-up numbers, of which two are row 0.
        model.compile(optimizer=optimizer, loss=lambda labels, outputs: outputs[:, 0])
        model.fit(np.array([[0, 0, 1]]), np.zeros((1, 1)), verbose=0)
        found = [v for v in optimizer.variables if "embeddings" in v.path and v.path.endswith(("adam_v", "velocity"))]
        return found[0].numpy()[:, 0]

    np.testing.assert_allclose(second_moment(AdamWeightDecay(0.1, clip_norm=0)), [0.004, 0.001, 0], rtol=1e-4)
    np.testing.assert_allclose(second_moment(keras.optimizers.AdamW(0.1)), [0.002, 0.001, 0], rtol=1e-4)


def test_decay_is_decided_by_the_path_in_a_model_of_models():
    config = make_config(num_hidden_layers=1)
    ids = keras.Input((None,), dtype="int32")
    encoder = BertModel(config, name="encoder_a")
    model = keras.Model(ids, keras.layers.Dense(2, name="mine")(encoder(ids)["pooled_output"]), name="outer")
    optimizer = AdamWeightDecay(0.1)
    optimizer.build(model.trainable_variables)
    before = {weight.path: weight.numpy() for weight in model.trainable_variables}
    optimizer.apply([np.zeros(weight.shape, np.float32) for weight in model.trainable_variables])
    after = {weight.path: weight.numpy() for weight in model.trainable_variables}
    for path, value in before.items():
        is_decayed = not any(part in path for part in ("LayerNorm", "bias"))
        np.testing.assert_allclose(after[path], value * (1 - 0.1 * 0.01 * is_decayed), rtol=1e-6, err_msg=path)


def make_dense():
    return keras.Sequential(
        [keras.Input((4,)), keras.layers.Dense(3, kernel_initializer="ones"), keras.layers.Dense(1)]
    )


@keras.saving.register_keras_serializable(package="tests")
def half_for_kernels(name):
    return 0.5 if name.endswith("kernel") else 1.0


# Keras's way to save arrays.
@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
class TestSaving:
    def test_training_continues_from_a_saved_model(self, tmp_path):
        random = np.random.default_rng(0)
        x, y = random.normal(size=(12, 4)), random.normal(size=(12, 1))
        schedule = LearningRateSchedule(0.1, num_train_steps=8, num_warmup_steps=2)
        model = make_dense()
        model.compile(optimizer=AdamWeightDecay(schedule, rate_factor=half_for_kernels), loss="mse")
        model.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        model.save(tmp_path / "model.keras")
        again = keras.models.load_model(tmp_path / "model.keras")
        for each in (model, again):
            each.fit(x, y, batch_size=4, shuffle=False, verbose=0)
        assert int(again.optimizer.iterations) == 6
        for value, expected in zip(again.get_weights(), model.get_weights(), strict=True):
            np.testing.assert_array_equal(value, expected)

    def test_all_settings_are_saved(self):
        optimizer = AdamWeightDecay(
            LearningRateSchedule(0.1, 8, 2, "smooth_linear"),
            0.2,
            0.8,
            0.99,
            1e-5,
            ["norm"],
            half_for_kernels,
            2.0,
            "mine",
        )
        again = keras.optimizers.deserialize(keras.optimizers.serialize(optimizer))
        assert again.get_config() == optimizer.get_config()
        assert (again.rate_factor, again.exclude_from_weight_decay) == (half_for_kernels, ("norm",))
        assert [again.schedule(step) for step in range(9)] == [optimizer.schedule(step) for step in range(9)]
        assert AdamWeightDecay.from_config(AdamWeightDecay(0.25).get_config()).get_config()["learning_rate"] == 0.25


def test_the_first_update_uses_the_rate_of_step_0():
    model = make_dense()
    model.compile(optimizer=AdamWeightDecay(LearningRateSchedule(1.0, 10, num_warmup_steps=5)), loss="mse")
    before = model.get_weights()
    model.fit(np.ones((2, 4)), np.ones((2, 1)), verbose=0)
    for value, expected in zip(model.get_weights(), before, strict=True):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.usefixtures("no_graphs")
def test_gradients_are_clipped_by_their_global_norm_unless_told_otherwise():
    def first_moments(**arguments):
        model = make_dense()
        model.compile(optimizer=AdamWeightDecay(0.1, **arguments), loss="mse")
        model.layers[1].kernel.assign(np.ones((3, 1)))
        model.fit(10 * np.ones((2, 4)), np.zeros((2, 1)), verbose=0)
        return [v.numpy() for v in model.optimizer.variables if v.path.endswith("adam_m")]

    def norm(moments):
        return np.sqrt(sum(np.square(10 * m).sum() for m in moments))

    assert norm(first_moments()) == pytest.approx(1.0, rel=1e-5)
    assert norm(first_moments(clip_norm=0.25)) == pytest.approx(0.25, rel=1e-5)
    assert norm(first_moments(clip_norm=0)) > 1000


def test_our_optimizer_works_with_the_loss_scale_of_float16():
    model = keras.Sequential([keras.Input((4,)), keras.layers.Dense(1, dtype="mixed_float16")])
    model.compile(optimizer=keras.optimizers.LossScaleOptimizer(AdamWeightDecay(0.1), initial_scale=16.0), loss="mse")
    before = model.get_weights()[0]
    model.fit(np.ones((2, 4)), np.ones((2, 1)), verbose=0)
    # The first step of Adam without bias correction is 0.1 / sqrt(0.001) times the rate.
    np.testing.assert_allclose(np.abs(model.get_weights()[0] - before), 0.1 * 0.1 / np.sqrt(0.001), rtol=0.02)


def test_accumulation_of_keras_reads_the_schedule_at_the_wrong_step_so_it_is_not_taken():
    schedule = keras.optimizers.schedules.PiecewiseConstantDecay([0], [1.0, 100.0])
    model = keras.Sequential([keras.Input((1,)), keras.layers.Dense(1, use_bias=False, kernel_initializer="zeros")])
    model.compile(optimizer=keras.optimizers.SGD(schedule, gradient_accumulation_steps=2), loss=lambda y, z: z)
    model.fit(np.ones((2, 1)), np.ones((2, 1)), batch_size=1, verbose=0)
    # This is the first update. Its rate is 1, but two batches were read.
    assert model.get_weights()[0] == -100.0
    with pytest.raises(TypeError, match="gradient_accumulation_steps"):
        AdamWeightDecay(0.1, gradient_accumulation_steps=2)  # pyright: ignore[reportCallIssue]


def test_a_checkpoint_of_tensorflow_leaves_out_the_layers_of_the_encoder(tmp_path):
    config = make_config(num_hidden_layers=1)
    saved, restored = (with_random_weights(BertModel(config), seed) for seed in (1, 2))
    path = tf.train.Checkpoint(model=saved).save(str(tmp_path / "checkpoint"))
    tf.train.Checkpoint(model=restored).restore(path).assert_existing_objects_matched()
    restored = weights_by_name(restored)
    same = {name: np.array_equal(weight, restored[name]) for name, weight in weights_by_name(saved).items()}
    assert {name for name, is_same in same.items() if not is_same} == {name for name in same if "/layer_0/" in name}


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_saved_weights_do_not_hold_the_random_state_of_dropout(tmp_path):
    model = keras.Sequential([keras.Input((64,)), keras.layers.Dropout(0.5, seed=1)])
    x = np.ones((1, 64))
    model(x, training=True)
    model.save_weights(tmp_path / "model.weights.h5")
    second = np.asarray(model(x, training=True))
    again = keras.models.clone_model(model)
    again.load_weights(tmp_path / "model.weights.h5")
    assert not np.array_equal(again(x, training=True), second)


def test_a_weighted_loss_of_keras_is_divided_by_all_positions():
    labels, weights = np.array([[0, 1]]), np.array([[1.0, 0.0]])
    logits = np.array([[[2.0, 0.0], [5.0, 0.0]]])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    true = np.log1p(np.exp(-2.0))
    assert float(loss(labels, logits, sample_weight=weights)) == pytest.approx(true / 2, rel=1e-5)
    mean = keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="mean_with_sample_weight")
    assert float(mean(labels, logits, sample_weight=weights)) == pytest.approx(true, rel=1e-5)
