"""The whole network against a plain NumPy one, its weight names, its sizes, and rejected input."""

import math
import re

import keras
import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from keras import ops
from reference_bert import ReferenceBert
from rounding import assert_close
from states import weights_of
from tiny_bert import make_config, make_features, make_model

from bert_keras.modeling import BertConfig, BertModel, PretrainingModel, weights_by_name
from bert_keras.modeling.released import find_released


def reference_of(model):
    config = model.config
    sizes = config.num_hidden_layers, config.num_attention_heads, config.hidden_act
    return ReferenceBert(*sizes, weights_of(model), is_decoder=config.is_decoder)


def assert_equal_to_reference(model, features):
    reference = reference_of(model)
    inputs = [features[name] for name in ("input_ids", "input_mask", "segment_ids")]
    embedded, layers, pooled = reference.encode(*inputs)
    model.bert.return_all_encoder_layers = True
    encoded = model.bert(*inputs)
    assert_close(encoded["embedding_output"], embedded)
    assert_close(np.stack(encoded["all_encoder_layers"]), np.stack(layers))
    np.testing.assert_array_equal(encoded["sequence_output"], encoded["all_encoder_layers"][-1])
    assert_close(encoded["pooled_output"], pooled)
    for i, probabilities in enumerate(model.bert.attention_probabilities(*inputs)):
        expected = reference.probabilities([embedded, *layers][i], inputs[1], f"bert/encoder/layer_{i}/attention")
        np.testing.assert_allclose(probabilities, expected, atol=1e-5)
    scores = model(features)
    np.testing.assert_allclose(
        ops.log_softmax(scores["masked_lm_logits"]),
        reference.masked_lm_log_probs(layers[-1], features["masked_lm_positions"]),
        atol=1e-5,
    )
    np.testing.assert_allclose(
        ops.log_softmax(scores["next_sentence_logits"]), reference.next_sentence_log_probs(pooled), atol=1e-5
    )


@settings(max_examples=6, deadline=None, derandomize=True, phases=[Phase.generate])
@given(st.data())
def test_any_small_model_equals_the_reference(data):
    heads = data.draw(st.integers(1, 4), "heads")
    config = make_config(
        hidden_size=heads * data.draw(st.integers(4, 7), "head size"),
        num_attention_heads=heads,
        num_hidden_layers=data.draw(st.integers(1, 3), "layers"),
        intermediate_size=data.draw(st.integers(1, 20), "inner width"),
        type_vocab_size=data.draw(st.integers(1, 3), "segment types"),
        hidden_act=data.draw(st.sampled_from(["gelu", "gelu_erf", "relu", "tanh", "linear"]), "activation"),
        is_decoder=data.draw(st.booleans(), "left to right"),
    )
    batch_size, num_tokens = data.draw(st.integers(1, 4), "batch"), data.draw(st.integers(4, 16), "tokens")
    features = make_features(config, batch_size, num_tokens, seed=data.draw(st.integers(0, 99), "seed"))
    assert_equal_to_reference(make_model(config), features)


@pytest.mark.parametrize("is_decoder", [False, True])
def test_mixed_segments_and_holes_in_the_mask_equal_the_reference(is_decoder):
    config = make_config(type_vocab_size=3, is_decoder=is_decoder)
    features = make_features(config)
    rng = np.random.default_rng(5)
    features["input_mask"] = rng.integers(0, 2, features["input_mask"].shape).astype(np.int32)
    features["segment_ids"] = rng.integers(0, 4, features["segment_ids"].shape).astype(np.int32)
    assert_equal_to_reference(make_model(config), features)


@settings(max_examples=8, deadline=None, derandomize=True, phases=[Phase.generate])
@given(place=st.integers(0, 10), seed=st.integers(0, 99))
def test_from_left_to_right_no_later_token_changes_an_output(left_to_right, place, seed):
    features = make_features(left_to_right.config, seed=seed)
    mask = np.random.default_rng(seed).integers(0, 2, features["input_mask"].shape).astype(np.int32)
    changed = {name: values.copy() for name, values in features.items()}
    changed["input_ids"][:, place:] = 1 + (changed["input_ids"][:, place:] + 7) % 39
    changed["segment_ids"][:, place:] ^= 1
    changed_mask = mask.copy()
    changed_mask[:, place:] ^= 1
    before = left_to_right.bert(features["input_ids"], mask, features["segment_ids"])["sequence_output"]
    after = left_to_right.bert(changed["input_ids"], changed_mask, changed["segment_ids"])["sequence_output"]
    np.testing.assert_array_equal(before[:, :place], after[:, :place])
    assert np.abs(before[:, place:] - after[:, place:]).max() > 0.01


@pytest.fixture(scope="module")
def left_to_right():
    return make_model(make_config(is_decoder=True))


def test_a_row_that_is_all_padding_is_seen_as_one_without_any():
    model = make_model(make_config())
    features = make_features(model.config)
    ids, mask = features["input_ids"], features["input_mask"].copy()
    mask[1] = 0
    hidden = model.bert(ids, mask)["sequence_output"]
    mask[1] = 1
    expected = reference_of(model).encode(ids, mask, np.zeros_like(ids))[1][-1]
    assert_close(ops.convert_to_numpy(hidden)[[0, 2, 3]], expected[[0, 2, 3]])
    # The mask adds -10000 to every score, which leaves three decimals in float32.
    np.testing.assert_allclose(hidden[1], expected[1], atol=2e-3)


def test_without_mask_and_segments_all_are_tokens_of_the_first():
    model = make_model(make_config())
    ids = np.array([[2, 7, 9, 3]], np.int32)
    given = model.bert(ids, np.ones_like(ids), np.zeros_like(ids))
    np.testing.assert_array_equal(model.bert(ids)["sequence_output"], given["sequence_output"])


def test_another_name_changes_the_paths_and_not_the_names_in_a_checkpoint():
    student = BertModel(make_config(), name="student")
    names = weights_by_name(student)
    assert len(names) == 5 + 16 * 2 + 2
    assert list(names) == list(weights_by_name(BertModel(make_config())))
    assert [weight.path for weight in names.values()] == [f"student{name.removeprefix('bert')}" for name in names]


@pytest.fixture
def shapes_only():
    """Make models without allocating their weights."""
    with keras.StatelessScope(initialize_variables=False):
        yield
    # Discards the uninitialised variables.
    keras.backend.clear_session()


@pytest.mark.parametrize(
    ("name", "encoder", "with_heads"),
    [
        ("base", 109_482_240, 110_106_428),
        ("large", 335_141_888, 336_226_108),
        ("multi_cased_L-12_H-768_A-12", 177_853_440, 178_566_653),
        ("tiny", 4_385_920, 4_433_468),
        ("uncased_L-4_H-128_A-2", 4_782_464, 4_830_012),
        ("uncased_L-2_H-256_A-4", 9_591_040, 9_688_380),
        ("uncased_L-2_H-512_A-8", 22_458_880, 22_754_108),
    ],
)
def test_released_models_have_their_parameter_counts(shapes_only, name, encoder, with_heads):
    model = PretrainingModel(BertConfig.from_name(name))
    assert sum(math.prod(weight.shape) for weight in model.bert.weights) == encoder
    assert sum(math.prod(weight.shape) for weight in model.weights) == with_heads == find_released(name).num_parameters


def test_a_seed_makes_the_initial_weights_reproducible():
    def build(seed):
        keras.utils.set_random_seed(seed)
        return weights_of(PretrainingModel(config))

    config = make_config(num_hidden_layers=1)
    first, again, other = build(1), build(1), build(2)
    random_names = [name for name in first if re.search("kernel|embeddings$|output_weights", name)]
    assert len(random_names) == 3 + 6 + 1 + 1 + 1
    for name in first:
        np.testing.assert_array_equal(first[name], again[name])
        assert (np.array_equal(first[name], other[name])) == (name not in random_names), name
    for name in set(first) - set(random_names):
        assert set(first[name].ravel().tolist()) == {1.0 if name.endswith("gamma") else 0.0}
    # No two weights of the same shape begin with the same numbers.
    kernels = [first[name] for name in random_names if first[name].shape == (8, 8)]
    assert len({kernel[0, 0] for kernel in kernels}) == len(kernels)


def test_dropout_is_a_function_of_the_seed():
    config = make_config(num_hidden_layers=1, hidden_dropout_prob=0.3, attention_probs_dropout_prob=0.3)
    model = make_model(config)
    features = make_features(config)

    def run(seed):
        seed = None if seed is None else np.array(seed, np.int32)
        return ops.convert_to_numpy(model(features, dropout_seed=seed)["masked_lm_logits"])

    np.testing.assert_array_equal(run((1, 2)), run((1, 2)))
    np.testing.assert_array_equal(run(None), run(None))
    assert np.abs(run((1, 2)) - run((1, 3))).max() > 1e-3
    assert np.abs(run((1, 2)) - run((2, 2))).max() > 1e-3
    assert np.abs(run((1, 2)) - run(None)).max() > 1e-3


@pytest.mark.parametrize(
    ("inputs", "sentence"),
    [
        ({"input_ids": (2, 17)}, "got sequences of 17 tokens, but max_position_embeddings is 16; make the sequences"),
        ({"input_ids": (17,)}, "got input_ids of shape [17], but needs [batch, tokens]"),
        (
            {"input_ids": (2, 5), "input_mask": (2, 1, 5)},
            "got input_mask of shape [2, 1, 5], but needs [batch, tokens]",
        ),
        (
            {"input_ids": (2, 5), "segment_ids": (1, 5)},
            "got segment_ids of shape [1, 5], but input_ids of shape [2, 5]",
        ),
    ],
    ids=["length", "rank of ids", "rank of mask", "shape of segments"],
)
def test_inputs_of_a_wrong_shape_are_refused(inputs, sentence):
    model = BertModel(make_config(num_hidden_layers=1))
    with pytest.raises(ValueError, match=re.escape(f"bert {sentence}")):
        model(**{name: np.zeros(shape, np.int32) for name, shape in inputs.items()})
