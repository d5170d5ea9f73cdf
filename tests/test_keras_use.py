"""The layers and models, used as the pages tell a Keras user to; on every backend."""

import copy
import dataclasses
import pathlib
import pickle

import keras
import numpy as np
import pytest
from keras_user import (
    CLASSES,
    CONFIG,
    TEXTS,
    array,
    classifier_of,
    compiled,
    functional_inputs,
    load_encoder,
    same,
    write_pretrained,
)
from other_backends import run_tests_on

from bert_keras import (
    BertModel,
    ClassifierModel,
    FullTokenizer,
    enable_lora,
    load_weights,
    merge_lora,
    save_safetensors,
    weights_by_name,
)
from bert_keras.modeling import HEAD_PATTERNS

ROOT = pathlib.Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return write_pretrained(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture
def encoder(folder):
    """Returns a function that makes an encoder with the weights of the folder."""
    return lambda **options: load_encoder(folder, **options)


@pytest.fixture(scope="module")
def features(folder):
    return FullTokenizer.from_checkpoint(folder)(TEXTS, sequence_length=12)


class TestEncoder:
    def test_inputs_come_by_position_by_name_as_lists_or_in_a_dict(self, encoder, features):
        bert = encoder()
        expected = bert(features)
        assert set(expected) == {"sequence_output", "pooled_output"}
        assert expected["sequence_output"].shape == (4, 12, 8)
        for outputs in (
            bert(features["input_ids"], features["input_mask"], features["segment_ids"]),
            bert(**features),
            bert(*(features[name].tolist() for name in ("input_ids", "input_mask", "segment_ids"))),
            bert(features | {"label": CLASSES}),
        ):
            same(outputs["sequence_output"], expected["sequence_output"])
            same(outputs["pooled_output"], expected["pooled_output"])
        with pytest.raises(ValueError, match="attention_mask"):
            bert({"input_ids": features["input_ids"], "attention_mask": features["input_mask"]})

    def test_padding_changes_nothing(self, encoder, features):
        bert = encoder()
        short = {name: values[1:2, :4] for name, values in features.items()}  # [CLS] bad . [SEP]
        assert short["input_mask"].sum() == features["input_mask"][1].sum() == 4
        same(bert(features)["sequence_output"][1:2, :4], bert(short)["sequence_output"], is_rounded=True)

    def test_all_layers_and_attention_come_on_request(self, encoder, features):
        outputs = encoder(return_all_encoder_layers=True)(features)
        assert len(outputs["all_encoder_layers"]) == 1
        same(outputs["all_encoder_layers"][-1], outputs["sequence_output"])
        assert outputs["embedding_output"].shape == (4, 12, 8)
        (shares,) = encoder().attention_probabilities(features)
        assert shares.shape == (4, 2, 12, 12)
        np.testing.assert_allclose(array(shares).sum(-1), 1, atol=1e-6)
        assert array(shares)[1, :, :, 4:].max() < 1e-6

    def test_symbolic_shapes_keep_the_length(self, encoder):
        bert = encoder()
        outputs = bert(functional_inputs(7))
        assert outputs["sequence_output"].shape == (None, 7, 8)
        assert outputs["pooled_output"].shape == (None, 8)
        assert bert(functional_inputs())["sequence_output"].shape == (None, None, 8)

    def test_the_summary_has_no_unbuilt_layer(self, encoder, features):
        lines = []
        model = classifier_of(encoder())
        model.summary(print_fn=lines.append, expand_nested=True)
        text = "\n".join(lines)
        assert "unbuilt" not in text
        assert "bert" in text
        assert "scores" in text
        assert f"{model.count_params():,}" in text

    def test_the_mask_reaches_other_layers(self, encoder, features):
        inputs = functional_inputs()
        tokens = encoder()(inputs)["sequence_output"]
        mean = keras.Model(inputs, keras.layers.GlobalAveragePooling1D()(tokens))
        vectors = array(encoder()(features)["sequence_output"])
        weights = features["input_mask"][..., None]
        same(mean(features), (vectors * weights).sum(1) / weights.sum(1), is_rounded=True)
        recurrent = keras.Model(inputs, keras.layers.LSTM(3)(tokens))
        short = {name: values[1:2, :4] for name, values in features.items()}
        same(recurrent(features)[1:2], recurrent(short), is_rounded=True)

    def test_a_type_holds_for_one_model(self, encoder, features):
        half = encoder(dtype="mixed_bfloat16")
        output = half(features)["sequence_output"]
        assert keras.backend.standardize_dtype(output.dtype) == "bfloat16"
        assert {weight.dtype for weight in half.weights} == {"float32"}
        distance = np.abs(array(keras.ops.cast(output, "float32")) - array(encoder()(features)["sequence_output"]))
        assert 0 < distance.max() < 0.1


class TestNesting:
    def test_encoders_with_names_load_before_and_after_they_are_in_a_model(self, folder, encoder, features):
        inputs = functional_inputs()
        vectors = [bert(inputs)["pooled_output"] for bert in (encoder(name="first"), BertModel(CONFIG, name="second"))]
        model = keras.Model(inputs, vectors)
        assert np.abs(np.subtract(*map(array, model(features)))).max() > 0.1
        second = weights_by_name(model.get_layer("second"))
        assert all(name.startswith("bert/") for name in second)
        load_weights(second, folder, ignored=HEAD_PATTERNS)
        same(*model(features))
        paths = weights_by_name(model)
        assert len(paths) == 2 * len(second)
        assert {path.split("/")[0] for path in paths} == {"first", "second"}

    def test_a_layer_that_contains_an_encoder(self, encoder, features):
        class Similarity(keras.layers.Layer):
            def __init__(self):
                super().__init__()
                self.bert = encoder()
                self.built = True

            def call(self, first, second):
                vectors = [keras.ops.normalize(self.bert(part)["pooled_output"], axis=-1) for part in (first, second)]
                return keras.ops.sum(vectors[0] * vectors[1], axis=-1)

        similarity = Similarity()
        same(similarity(features, features), np.ones(4), is_rounded=True)
        assert array(similarity(features, {name: values[::-1] for name, values in features.items()})).max() < 0.999
        assert len(similarity.trainable_weights) == len(encoder().weights)

    @pytest.mark.usefixtures("no_graphs")
    def test_a_frozen_encoder_leaves_two_weights_to_train(self, folder, features):
        config = dataclasses.replace(CONFIG, hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0)
        bert = BertModel(config, trainable=False)
        load_weights(weights_by_name(bert), folder, ignored=HEAD_PATTERNS)
        probe = classifier_of(bert)
        assert len(probe.trainable_weights) == 2
        before = bert.get_weights()
        compiled(probe, keras.optimizers.SGD(0.1)).fit(features, CLASSES, epochs=2, verbose=0)
        assert all(map(np.array_equal, bert.get_weights(), before))
        same(probe(features, training=True), probe(features))

    def test_fit_overrides_training_in_a_functional_model(self, encoder, features):
        """See the page; Keras may change it."""
        inputs = functional_inputs()
        model = keras.Model(inputs, encoder()(inputs, training=False)["pooled_output"])
        assert np.abs(array(model(features, training=True)) - array(model(features))).max() > 1e-3


class TestDropout:
    def test_training_decides(self, encoder, features):
        bert = encoder()
        plain = bert(features)["pooled_output"]
        for training in (None, False):
            same(bert(features, training=training)["pooled_output"], plain)
        first, second = (array(bert(features, training=True)["pooled_output"]) for _ in range(2))
        assert np.abs(first - second).max() > 1e-3
        assert np.abs(first - array(plain)).max() > 1e-3
        seeds = [np.array([number, 0], "uint32" if keras.backend.backend() == "jax" else "int32") for number in (7, 8)]
        seeded = [bert(features, dropout_seed=seed)["pooled_output"] for seed in (seeds[0], seeds[0], seeds[1])]
        same(seeded[0], seeded[1])
        assert np.abs(array(seeded[0]) - array(seeded[2])).max() > 1e-3

    @pytest.mark.usefixtures("no_graphs")
    def test_fit_applies_dropout_and_a_seed_repeats_it(self, encoder, features):
        def fit(seed):
            keras.utils.set_random_seed(seed)
            model = classifier_of(encoder(), kernel_initializer=keras.initializers.RandomNormal(seed=0))
            compiled(model, keras.optimizers.SGD(0.0))
            return model, model.fit(features, CLASSES, epochs=3, verbose=0).history["loss"]

        (model, losses), (_, again) = fit(1), fit(1)
        assert again == pytest.approx(losses, rel=1e-6)
        plain = model.compute_loss(y=keras.ops.convert_to_tensor(CLASSES), y_pred=model(features), training=False)
        assert len({*losses, float(array(plain))}) == 4  # no weight changes, so the masks make the difference


def test_mistakes_are_sentences(encoder, folder, tmp_path):
    bert = encoder()
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


WAYS_TO_COPY = {
    "keras": lambda model, file: (model.save(file), keras.models.load_model(file))[1],
    "pickle": lambda model, file: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, file: copy.deepcopy(model),
    "clone": lambda model, file: (again := keras.models.clone_model(model), again.set_weights(model.get_weights()))[0],
    "config": lambda model, file: (
        again := type(model).from_config(model.get_config()),
        again.set_weights(model.get_weights()),
    )[0],
}


@pytest.mark.usefixtures("no_graphs")
class TestCopies:
    @pytest.mark.parametrize("way", WAYS_TO_COPY)
    def test_a_functional_model_gives_the_same_numbers(self, encoder, features, tmp_path, way):
        model = classifier_of(encoder())
        again = WAYS_TO_COPY[way](model, tmp_path / "classifier.keras")
        same(again.predict(features, verbose=0), model.predict(features, verbose=0))

    @pytest.mark.parametrize("way", WAYS_TO_COPY)
    def test_a_model_of_a_task_gives_the_same_numbers(self, features, tmp_path, way):
        model = ClassifierModel(CONFIG, num_classes=3)
        again = WAYS_TO_COPY[way](model, tmp_path / "classifier.keras")
        assert again.config == CONFIG
        same(again.predict(features, verbose=0)["logits"], model.predict(features, verbose=0)["logits"])

    def test_an_encoder_of_a_model_becomes_a_checkpoint(self, encoder, features, tmp_path):
        bert = classifier_of(encoder()).get_layer("bert")
        bert.embedding_table.assign(bert.embedding_table * 2)
        save_safetensors(tmp_path / "my_encoder", weights_by_name(bert), bert.config)
        again = load_encoder(tmp_path / "my_encoder")
        same(again(features)["sequence_output"], bert(features)["sequence_output"])


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_these_files_pass_on_another_backend(backend):
    files = [__file__, pathlib.Path(__file__).with_name("test_keras_use_of_fit.py")]
    assert "skipped" not in run_tests_on(backend, *files, marker="not slow")
