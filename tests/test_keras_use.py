"""Training and copies of networks as the pages tell a Keras user to make them; on every backend."""

import dataclasses
import pathlib

import keras
import numpy as np
import pytest
from other_backends import run_tests_on

from bert_keras import (
    AdamWeightDecay,
    BertConfig,
    BertModel,
    ClassifierModel,
    FullTokenizer,
    LearningRateSchedule,
    PretrainingModel,
    enable_lora,
    load_weights,
    merge_lora,
    open_checkpoint,
    save_safetensors,
    weights_by_name,
)

TOKENS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *["the", "film", "was", "good", "bad", "they", "left", "."]]
TEXTS = ["The film was good.", "Bad.", "They left. The film was bad.", "Good good."]
CLASSES = np.array([1, 0, 0, 1])
# To compile takes longer than these steps, but not on JAX, where each operation is compiled otherwise.
COMPILED = {"jit_compile": keras.backend.backend() == "jax"}


def array(tensor):
    return keras.ops.convert_to_numpy(tensor)


def same(tensor, expected):
    np.testing.assert_array_equal(array(tensor), array(expected))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A pre-trained model with random weights, written as a user does."""
    keras.utils.set_random_seed(0)
    folder, config = tmp_path_factory.mktemp("models") / "tiny", BertConfig(len(TOKENS), 8, 1, 2, 16)
    config = dataclasses.replace(config, max_position_embeddings=24, initializer_range=0.3)
    save_safetensors(folder, weights_by_name(PretrainingModel(config)), config)
    FullTokenizer(TOKENS, do_lower_case=True).save(folder)
    return folder


def functional(folder, **options):
    """Returns the model of the page: a dense layer on the pooled vector."""
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in ("input_ids", "input_mask", "segment_ids")
    }
    pooled = BertModel.from_checkpoint(folder)(inputs, **options)["pooled_output"]
    return keras.Model(inputs, keras.layers.Dense(2, name="scores")(pooled))


@pytest.fixture(scope="module")
def features(folder):
    return FullTokenizer.from_checkpoint(folder)(TEXTS, sequence_length=12)


def clone(model, file):
    again = keras.models.clone_model(model)
    again.set_weights(model.get_weights())
    return again


WAYS_TO_COPY = {"keras": lambda model, file: (model.save(file), keras.models.load_model(file))[1], "clone": clone}


@pytest.mark.parametrize("way", WAYS_TO_COPY)
@pytest.mark.usefixtures("no_graphs")
def test_a_functional_model_gives_the_same_numbers(folder, features, tmp_path, way):
    model = functional(folder)
    again = WAYS_TO_COPY[way](model, tmp_path / "classifier.keras")
    same(again.predict(features, verbose=0), model.predict(features, verbose=0))


def test_fit_overrides_training_in_a_functional_model(folder, features):
    """See the page; Keras may change it."""
    model = functional(folder, training=False)
    assert np.abs(array(model(features, training=True)) - array(model(features))).max() > 1e-3


def test_mistakes_are_sentences(folder, tmp_path):
    bert = BertModel.from_checkpoint(folder)
    for call, message in (
        (lambda: BertModel("tiny"), "^the config is of type str; give a BertConfig, such as read_config"),
        (lambda: load_weights(bert, folder), r"^the weights are of type BertModel; give weights_by_name\(model\)$"),
    ):
        with pytest.raises(TypeError, match=message):
            call()
    enable_lora(bert, rank=1, targets="query")
    with pytest.raises(ValueError, match="query/lora_kernel_b; leave that out, or call merge_lora on the model first$"):
        save_safetensors(tmp_path / "adapted", weights_by_name(bert), bert.config)
    merge_lora(bert)
    save_safetensors(tmp_path / "adapted", weights_by_name(bert), bert.config)


@pytest.mark.slow  # traces a step twice
def test_a_model_learns_with_a_schedule_and_is_saved_with_it(folder, features, tmp_path):
    keras.utils.set_random_seed(2)
    model = ClassifierModel(open_checkpoint(folder).config, num_classes=2)
    load_weights(weights_by_name(model), folder, allow_partial=True)
    before = model.get_weights()
    loss = {"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}
    schedule = LearningRateSchedule(0.01, num_train_steps=40, num_warmup_steps=1)
    model.compile(AdamWeightDecay(schedule), loss, metrics={"logits": "accuracy"}, **COMPILED)
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


def test_training_beyond_the_schedule_warns_once(tmp_path, messages):
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
    told = "the learning rate is 0 from step 2, the num_train_steps of the schedule, and the optimizer is at step {}"
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


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_this_file_passes_on_another_backend(backend):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("this is the process of another backend")
    run_tests_on(backend, pathlib.Path(__file__), marker="")
