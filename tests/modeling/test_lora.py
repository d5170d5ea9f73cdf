"""LoRA on small models: the formula, what it trains, merging, and adapter files."""

import keras
import numpy as np
import pytest
import safetensors.numpy
from states import weights_of
from tiny_bert import make_config, make_features, with_random_weights

from bert_keras.modeling import BertModel, ClassifierModel, open_checkpoint, save_checkpoint, weights_by_name
from bert_keras.modeling.lora import (
    adapter_bytes,
    enable_lora,
    has_lora,
    load_lora,
    merge_lora,
    merged_weights,
    save_lora,
)
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.settings.choices import LORA_TARGETS

CONFIG = make_config(num_hidden_layers=2)
QUERY = "bert/encoder/layer_1/attention/self/query/"


def make_classifier(num_classes=3, seed=0, config=CONFIG):
    return with_random_weights(ClassifierModel(config, num_classes), seed)


def with_lora(seed=0, rank=2, **arguments):
    """Returns a classifier with LoRA whose trained weights differ from those at the start."""
    model = make_classifier(seed=seed)
    enable_lora(model, rank, **arguments)
    random = np.random.default_rng(9)
    for weight in model.trainable_weights:
        weight.assign(np.asarray(weight) + 0.3 * random.standard_normal(weight.shape))
    return model


def logits_of(model):
    return np.asarray(model(make_features(CONFIG))["logits"])


def test_lora_adds_a_product_of_two_matrices_to_the_kernel():
    model = with_lora(alpha=6)
    values = weights_of(model)
    a, b = values[f"{QUERY}lora_kernel_a"], values[f"{QUERY}lora_kernel_b"]
    assert (a.shape, b.shape) == ((8, 2), (2, 8))
    x = np.random.default_rng(0).standard_normal((5, 8)).astype(np.float32)
    expected = x @ values[f"{QUERY}kernel"] + 6 / 2 * (x @ a) @ b + values[f"{QUERY}bias"]
    np.testing.assert_allclose(model.bert.encoder_layers[1].self_attention.query(x), expected, rtol=1e-5, atol=1e-5)


def test_at_the_start_the_outputs_do_not_change():
    model = make_classifier()
    before = logits_of(model)
    enable_lora(model, 2)
    np.testing.assert_array_equal(logits_of(model), before)
    # The elements of A have variance 1 / input size.
    wide = BertModel(make_config(hidden_size=256, num_hidden_layers=1))
    enable_lora(wide, 64)
    first = np.asarray(wide.encoder_layers[0].self_attention.query.lora_kernel_a)
    assert first.std() == pytest.approx(1 / 16, rel=0.02)
    assert not np.array_equal(first, wide.encoder_layers[0].self_attention.value.lora_kernel_a)


def test_the_rest_of_the_encoder_is_frozen_and_the_head_is_not():
    model = with_lora()
    trained = {name for name, weight in weights_by_name(model).items() if weight.trainable}
    matrices = {
        f"bert/encoder/layer_{layer}/attention/self/{kernel}/lora_kernel_{letter}"
        for layer in range(2)
        for kernel in ("query", "value")
        for letter in "ab"
    }
    assert trained == matrices | {"bert/pooler/dense/kernel", "bert/pooler/dense/bias", "output_weights", "output_bias"}


def test_all_dense_layers_and_other_weights_can_be_trained():
    model = with_lora(targets=LORA_TARGETS, also_trained=["LayerNorm", "bias$"])
    names = {name for name, weight in weights_by_name(model).items() if weight.trainable}
    assert len([name for name in names if name.endswith("lora_kernel_a")]) == 2 * 6
    assert "bert/encoder/layer_0/output/LayerNorm/gamma" in names
    assert "bert/encoder/layer_0/intermediate/dense/bias" in names
    assert not [name for name in names if name.endswith(("/kernel", "_embeddings"))]


def test_training_changes_only_the_trained_weights():
    model = with_lora()
    before = weights_of(model)
    trained = {name for name, weight in weights_by_name(model).items() if weight.trainable}
    features = make_features(CONFIG)
    inputs = {name: features[name] for name in ("input_ids", "input_mask", "segment_ids")}
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(optimizer=keras.optimizers.SGD(0.1), loss={"logits": loss}, run_eagerly=True)
    model.fit(inputs, {"logits": np.array([0, 1, 2, 0])}, verbose=0)
    after = weights_of(model)
    assert {name for name in after if not np.array_equal(after[name], before[name])} == trained


@pytest.mark.parametrize("targets", [("query", "value"), LORA_TARGETS])
def test_a_merged_model_has_the_same_outputs_and_the_weights_of_the_original(targets, monkeypatch):
    model = with_lora(targets=targets)
    expected, names = logits_of(model), list(weights_of(make_classifier()))
    merged = {name: np.asarray(value) for name, value in merged_weights(model).items()}
    assert list(merged) == names
    assert has_lora(model)
    merge_lora(model)
    assert list(weights_of(model)) == names
    assert not has_lora(model)
    assert all(weight.trainable for weight in model.weights)
    np.testing.assert_allclose(logits_of(model), expected, rtol=1e-5, atol=1e-5)
    for name, value in weights_of(model).items():
        np.testing.assert_array_equal(merged[name], value)
    # LoRA can be enabled again; a model without LoRA does not change.
    enable_lora(model, 1)
    merge_lora(model)
    monkeypatch.setattr("gc.freeze", None)  # it would take a tenth of a second
    merge_lora(model)
    np.testing.assert_allclose(logits_of(model), expected, rtol=1e-5, atol=1e-5)


def test_a_kernel_is_merged_in_full_precision():
    with dtype_policy("mixed_bfloat16"):
        model = with_lora()
    values = weights_of(model)
    merge_lora(model)
    expected = values[f"{QUERY}kernel"] + values[f"{QUERY}lora_kernel_a"] @ values[f"{QUERY}lora_kernel_b"]
    np.testing.assert_allclose(weights_of(model)[f"{QUERY}kernel"], expected, rtol=1e-6, atol=1e-6)


def test_a_checkpoint_of_the_merged_weights_is_that_of_a_plain_model(tmp_path):
    model = with_lora()
    save_checkpoint(tmp_path / "merged", merged_weights(model))
    checkpoint, plain = open_checkpoint(tmp_path / "merged"), make_classifier(seed=5)
    for name, weight in weights_by_name(plain).items():
        weight.assign(checkpoint.read(name))
    np.testing.assert_allclose(logits_of(plain), logits_of(model), rtol=1e-5, atol=1e-5)


@pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword:DeprecationWarning")
def test_a_weights_file_of_keras_is_merged_and_makes_a_model_with_lora_untrainable(tmp_path):
    model, plain, other = with_lora(), make_classifier(seed=1), with_lora(seed=1)
    model.save_weights(tmp_path / "model.weights.h5")
    for each in (plain, other):
        each.load_weights(tmp_path / "model.weights.h5")
        np.testing.assert_allclose(logits_of(each), logits_of(model), rtol=1e-5, atol=1e-5)
    # With A and B at zero, both gradients are zero.
    matrices = [value for name, value in weights_of(other).items() if "lora_kernel" in name]
    assert len(matrices) == 8
    assert not any(value.any() for value in matrices)


class TestAdapterFile:
    def test_it_brings_another_model_to_the_same_outputs(self, tmp_path):
        model = with_lora(rank=3, alpha=6, targets=("key", "output"))
        save_lora(model, tmp_path / "adapter.safetensors", base="tiny")
        other = make_classifier()
        facts = load_lora(other, tmp_path / "adapter.safetensors")
        assert facts == {"rank": 3, "alpha": 6, "targets": ["key", "output"], "base": "tiny"}
        np.testing.assert_array_equal(logits_of(other), logits_of(model))
        trained = [[name for name, w in weights_by_name(each).items() if w.trainable] for each in (model, other)]
        assert trained[0] == trained[1]

    def test_it_holds_only_the_trained_weights(self):
        model = with_lora(rank=1, also_trained=())
        arrays = safetensors.numpy.load(adapter_bytes(model))
        # Two layers with two kernels of [8, 1] and [1, 8], and a head of [3, 8] and [3].
        assert sum(array.size for array in arrays.values()) == 2 * 2 * 16 + 27
        assert set(arrays) == {name for name, weight in weights_by_name(model).items() if weight.trainable}

    def test_an_adapter_of_an_encoder_works_in_an_encoder(self, tmp_path):
        first, second = (with_random_weights(BertModel(CONFIG)) for _ in range(2))
        enable_lora(first, 2)
        weights_by_name(first)[f"{QUERY}lora_kernel_b"].assign(np.ones((2, 8)))
        save_lora(first, tmp_path / "a.safetensors")
        load_lora(second, tmp_path / "a.safetensors")
        ids = np.array([[1, 2, 3]])
        np.testing.assert_array_equal(first(ids)["sequence_output"], second(ids)["sequence_output"])

    @pytest.mark.parametrize(
        ("make", "sentence"),
        [
            (lambda: make_classifier(2), r"output_bias is \[3\] in the file, and is \[2\] in the model"),
            (
                lambda: make_classifier(seed=1),
                r"was trained on other weights than .* the checkpoint of its base \(tiny\)",
            ),
            (
                lambda: with_random_weights(BertModel(CONFIG)),
                r"output_bias is \[3\] in the file, and is missing in the model",
            ),
            (lambda: with_lora(), r"has LoRA already; call merge_lora first"),
            (
                lambda: make_classifier(config=make_config(num_hidden_layers=3)),
                r"layer_2/.*/query/lora_kernel_a is missing in the file, and is \[8, 2\] in the model",
            ),
        ],
    )
    def test_a_model_that_it_does_not_fit_stays_as_it_is(self, tmp_path, make, sentence):
        save_lora(with_lora(), tmp_path / "a.safetensors", base="tiny")
        model = make()
        before = {name: (np.asarray(weight), weight.trainable) for name, weight in weights_by_name(model).items()}
        with pytest.raises(ValueError, match=sentence):
            load_lora(model, tmp_path / "a.safetensors")
        after = {name: (np.asarray(weight), weight.trainable) for name, weight in weights_by_name(model).items()}
        np.testing.assert_equal(after, before)

    def test_other_files_are_refused(self, tmp_path):
        safetensors.numpy.save_file({"w": np.ones(2)}, tmp_path / "other.safetensors")
        with pytest.raises(ValueError, match="is not an adapter: .* give a file of save_lora"):
            load_lora(make_classifier(), tmp_path / "other.safetensors")
        with pytest.raises(FileNotFoundError, match="missing.safetensors"):
            load_lora(make_classifier(), tmp_path / "missing.safetensors")
        with pytest.raises(ValueError, match="has no LoRA to save; call enable_lora and train it first"):
            save_lora(make_classifier(), tmp_path / "a.safetensors")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"rank": 0}, "rank is 0, but must be a whole number from 1 to the hidden size 8"),
        ({"rank": 9}, "rank is 9, but must be"),
        ({"rank": 2.0}, "rank is 2.0, but must be"),
        ({"rank": 2, "alpha": 0}, "alpha is 0, but must be above 0"),
        ({"rank": 2, "targets": ["query", "pooler"]}, "targets are pooler; give one or more of query, key, value"),
        ({"rank": 2, "targets": []}, "targets are empty; give one or more"),
    ],
)
def test_impossible_arguments_are_refused(arguments, sentence):
    model = make_classifier()
    with pytest.raises(ValueError, match=sentence):
        enable_lora(model, **arguments)
    assert not has_lora(model)


def test_a_model_without_an_encoder_is_refused():
    model = keras.Sequential([keras.layers.Dense(2)], name="mine")
    with pytest.raises(ValueError, match="mine has no BertModel among its layers; give the BertModel itself"):
        enable_lora(model, 2)


def test_an_encoder_within_a_functional_model_is_adapted():
    ids = keras.Input((None,), dtype="int32")
    encoder = with_random_weights(BertModel(CONFIG))
    outputs = keras.layers.Dense(2, name="mine")(encoder(ids)["pooled_output"])
    model = keras.Model(ids, outputs)
    enable_lora(model, 2, also_trained=())
    assert len(model.trainable_weights) == 2 * 2 * 2 + 2
    assert model.get_layer("mine").kernel.trainable
