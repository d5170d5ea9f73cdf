"""The networks as Keras models: saved, copied, called, and with masks; on every backend."""

import copy
import os
import pathlib
import pickle
import re
import subprocess
import sys

import keras
import numpy as np
import pytest
from keras import ops
from keras_networks import CONFIG, IDS, INPUTS, MODELS, arrays, assert_same, functional_model, inputs_of
from other_backends import run_tests_on
from rounding import assert_close
from tiny_bert import make_config, with_random_weights

from bert_keras.modeling import (
    BertModel,
    ClassifierModel,
    MultipleChoiceModel,
    PretrainingModel,
    SquadModel,
    TokenClassifierModel,
    weights_by_name,
)

ROOT = pathlib.Path(__file__).resolve().parents[2]


def save_and_load(model, tmp_path):
    model.save(tmp_path / "model.keras")
    return keras.models.load_model(tmp_path / "model.keras")


def clone(model, tmp_path):
    again = keras.models.clone_model(model)
    model.save_weights(tmp_path / "model.weights.h5")
    again.load_weights(tmp_path / "model.weights.h5")
    return again


WAYS_TO_COPY = {
    "keras": save_and_load,
    "clone": clone,
    "pickle": lambda model, _: pickle.loads(pickle.dumps(model)),
    "deepcopy": lambda model, _: copy.deepcopy(model),
}


@pytest.mark.parametrize(
    ("name", "way"), [*((name, "keras") for name in MODELS), *(("classifier", way) for way in WAYS_TO_COPY)]
)
def test_a_copy_is_the_same_model(tmp_path, name, way):
    model = with_random_weights(MODELS[name]())
    again = WAYS_TO_COPY[way](model, tmp_path)
    assert type(again) is type(model)
    assert again is not model
    assert again.config == model.config
    assert list(weights_by_name(again)) == list(weights_by_name(model))
    assert_same(again(inputs_of(again)), model(inputs_of(model)))


def test_a_copy_keeps_name_type_and_what_is_trained():
    model = ClassifierModel(CONFIG, 3, name="news", dtype="mixed_bfloat16", trainable=False)
    again = ClassifierModel.from_config(model.get_config())
    assert (again.name, again.dtype_policy.name, again.trainable_weights) == ("news", "mixed_bfloat16", [])
    outer = keras.Sequential([again])
    assert outer.trainable_weights == []


@pytest.mark.slow
def test_a_new_process_loads_a_functional_model(tmp_path):
    model = functional_model(with_random_weights(BertModel(CONFIG)))
    model.save(tmp_path / "model.keras")
    np.savez(tmp_path / "inputs.npz", **INPUTS)
    code = (
        "import keras, numpy as np, bert_keras.modeling\n"
        "inputs = dict(np.load('inputs.npz'))\n"
        "np.save('outputs.npy', keras.ops.convert_to_numpy(keras.models.load_model('model.keras')(inputs)))\n"
    )
    environment = os.environ | {"PYTHONPATH": str(ROOT)}
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, env=environment, check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "outputs.npy"), ops.convert_to_numpy(model(INPUTS)))


@pytest.mark.parametrize("name", MODELS)
def test_a_type_reaches_all_layers_and_no_other_model(name):
    model = MODELS[name](dtype="mixed_bfloat16")
    layers = [layer for layer in model._flatten_layers() if layer.weights]
    assert {layer.dtype_policy.name for layer in layers} == {"mixed_bfloat16"}
    assert {weight.dtype for weight in model.weights} == {"float32"}
    assert keras.config.dtype_policy().name == "float32"
    outputs = model(inputs_of(model))
    is_encoder = isinstance(model, BertModel)
    types = {keras.backend.standardize_dtype(output.dtype) for output in keras.tree.flatten(outputs)}
    assert types == {"bfloat16" if is_encoder else "float32"}


class TestCalls:
    def test_inputs_by_position_by_name_in_a_dict_and_as_lists_are_the_same(self):
        for model in (BertModel(CONFIG), ClassifierModel(CONFIG, 3)):
            expected = model(INPUTS)
            assert_same(model(*INPUTS.values()), expected)
            assert_same(model(**INPUTS), expected)
            assert_same(model(*(values.tolist() for values in INPUTS.values())), expected)
            assert_same(model({name: ops.convert_to_tensor(x) for name, x in INPUTS.items()}), expected)
            assert_same(
                model(INPUTS | {"label_ids": np.zeros(2, np.int32), "input_mask": INPUTS["input_mask"] > 0}), expected
            )
            ids = {"input_ids": IDS}
            assert_same(model(ids), model(IDS, np.ones_like(IDS), np.zeros_like(IDS)))
            assert_same(model(ids | {"input_mask": None}), model(IDS))

    @pytest.mark.parametrize(
        ("inputs", "sentence"),
        [
            (([[1, 2], [3]],), "news got input_ids with rows of different lengths; pad all rows to one length"),
            (([[]],), "news got sequences of 0 tokens; give one token or more"),
            (([[1, 40, 41]],), "news got the token id 40, but its ids are 0 to 39; take the model's vocabulary"),
            ((IDS - 1,), "news got the token id -1, but its ids are 0 to 39; take the model's vocabulary"),
            ((IDS + 0.9,), "news got input_ids with the number 2.9, but needs whole numbers"),
            (
                (ops.convert_to_tensor(np.full((1, 5), 1.5)),),
                "news got input_ids with the number 1.5, but needs whole numbers",
            ),
            (([[1, float("nan")]],), "news got input_ids with the number nan, but needs whole numbers"),
            ((IDS, np.full(IDS.shape, 0.5)), "news got input_mask with the number 0.5, but needs whole numbers"),
            (
                ({"input_ids": IDS, "segment_ids": IDS * 0 + 0.1},),
                "news got segment_ids with the number 0.1, but needs whole numbers",
            ),
            (([["a text"]],), "news got texts as input_ids; turn them into ids with FullTokenizer"),
            ((["a text"],), "news got texts as input_ids; turn them into ids with FullTokenizer"),
            (({"input_mask": IDS},), "news got the inputs input_mask; it also needs input_ids"),
            (
                ({"input_ids": IDS, "attention_mask": IDS},),
                "news got the unknown inputs attention_mask, but not input_mask, segment_ids; rename them, or leave "
                "them out (it takes input_ids, input_mask, segment_ids, sequence_ids, position_ids, cls_positions)",
            ),
            (({"input_ids": IDS}, IDS), "news got a dict of inputs, and also input_mask; put all inputs into the dict"),
        ],
    )
    def test_mistakes_are_told_in_one_sentence(self, inputs, sentence):
        for make_model in (MODELS["encoder"], MODELS["classifier"]):
            with pytest.raises(ValueError, match=f"^{re.escape(sentence)}$"):
                make_model(name="news")(*inputs)

    def test_mistakes_of_some_models_are_told_in_one_sentence(self):
        with pytest.raises(ValueError, match="^pretraining got the inputs .*; it also needs masked_lm_positions$"):
            PretrainingModel(CONFIG)(INPUTS)
        with pytest.raises(ValueError, match=re.escape("shape [2, 5], but needs [batch, choices, tokens]")):
            MultipleChoiceModel(CONFIG)(INPUTS)

    def test_ids_as_floats_are_exact_in_16_bits(self):
        config = make_config(num_hidden_layers=1, vocab_size=300)
        bert, ids = BertModel(config, dtype="mixed_bfloat16"), IDS + 280
        expected = bert(ids)["pooled_output"]
        assert_same(bert(ids.astype(np.float32))["pooled_output"], expected)
        inputs = keras.Input((5,))
        assert_same(keras.Model(inputs, bert(inputs)["pooled_output"])(ids.astype(np.float32)), expected)
        assert np.abs(np.subtract(*arrays([bert(ids + 1)["pooled_output"], expected]))).max() > 0

    def test_symbolic_outputs_have_the_static_sizes(self):
        bert = BertModel(CONFIG, return_all_encoder_layers=True)
        outputs = bert({name: keras.Input((5,), dtype="int32") for name in INPUTS})
        hidden = (None, 5, 8)
        assert keras.tree.map_structure(lambda x: x.shape, outputs) == {
            "sequence_output": hidden,
            "pooled_output": (None, 8),
            "embedding_output": hidden,
            "all_encoder_layers": [hidden],
        }
        # For an unknown length, PyTorch tries out a length of 83.
        bert = BertModel(make_config(num_hidden_layers=1, max_position_embeddings=128))
        assert bert(keras.Input((None,), dtype="int32"))["sequence_output"].shape == (None, None, 8)
        scores = SquadModel(CONFIG)({name: keras.Input((5,), dtype="int32") for name in INPUTS})
        assert scores["end_logits"].shape == (None, 5)

    def test_only_requested_outputs_are_returned(self):
        bert = BertModel(CONFIG)
        few = bert(INPUTS)
        bert.return_all_encoder_layers = True
        many = bert(INPUTS)
        assert (len(few), len(many)) == (2, 4)
        assert_same(few, {name: many[name] for name in few})
        assert_same(many["all_encoder_layers"][-1], few["sequence_output"])
        [shares] = arrays(bert.attention_probabilities(INPUTS))
        np.testing.assert_allclose(shares.sum(-1), 1, atol=1e-6)
        assert shares[0, :, :, 4:].max() < 1e-6 < shares[0, :, :, :4].min()

    def test_a_summary_shows_built_layers_and_their_shapes(self):
        for name in MODELS:
            lines = []
            MODELS[name]().summary(expand_nested=True, print_fn=lines.append)
            table = "\n".join(lines)
            assert "unbuilt" not in table, name
            # Keras knows no shape of a model that is part of another one, unless that one is functional.
            assert re.findall(r"(\S+) \(\w+\) +│ \?", table) == (
                [] if name in ("encoder", "all layers") else ["bert"]
            ), table
            assert "8)" in table, name


class TestMasks:
    def test_layers_after_the_encoder_see_the_mask(self):
        bert = with_random_weights(BertModel(CONFIG))
        mask = INPUTS["input_mask"][:, :, None]
        hidden = ops.convert_to_numpy(bert(INPUTS)["sequence_output"])
        mean = (hidden * mask).sum(1) / mask.sum(1)
        pooled = keras.layers.GlobalAveragePooling1D()(bert(INPUTS)["sequence_output"])
        assert_close(ops.convert_to_numpy(pooled), mean)
        model = functional_model(bert)
        expected = mean @ ops.convert_to_numpy(model.get_layer("answer").kernel)
        assert_close(ops.convert_to_numpy(model(INPUTS)), expected)
        unmasked = keras.layers.GlobalAveragePooling1D()(bert(IDS)["sequence_output"])
        assert np.abs(ops.convert_to_numpy(unmasked)[0] - mean[0]).max() > 1e-3

    def test_each_output_with_a_token_axis_has_the_mask(self):
        bert = BertModel(CONFIG, return_all_encoder_layers=True)
        masks = bert.compute_mask({name: ops.convert_to_tensor(x) for name, x in INPUTS.items()})
        assert masks["pooled_output"] is None
        for mask in (masks["sequence_output"], masks["embedding_output"], *masks["all_encoder_layers"]):
            np.testing.assert_array_equal(ops.convert_to_numpy(mask), IDS > 0)
        outputs, pool = bert(INPUTS), keras.layers.GlobalAveragePooling1D()
        assert_same(pool(outputs["all_encoder_layers"][-1]), pool(outputs["sequence_output"]))
        assert bert.compute_mask({"input_ids": IDS}) is None

    def test_losses_of_tokens_leave_out_padding(self):
        model = with_random_weights(TokenClassifierModel(CONFIG, 3))
        labels = np.array([[0, 1, 2, 1, 0], [2, 2, 0, 1, 1]])
        model.compile(loss={"logits": keras.losses.SparseCategoricalCrossentropy(from_logits=True)})
        loss = model.evaluate(INPUTS, {"logits": labels}, verbose=0)
        log_probs = ops.convert_to_numpy(ops.log_softmax(model(INPUTS)["logits"]))
        losses = -np.take_along_axis(log_probs, labels[:, :, None], -1)[:, :, 0]
        assert loss == pytest.approx(losses[IDS > 0].mean(), rel=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_these_files_pass_on_another_backend(backend):
    if keras.backend.backend() != "tensorflow":
        pytest.skip("this is the process of another backend")
    run_tests_on(backend, __file__, pathlib.Path(__file__).with_name("test_keras_training.py"), marker="")
