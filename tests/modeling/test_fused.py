"""Networks with the fused operations of oneDNN give the outputs of those without."""

import numpy as np
import pytest
import tensorflow as tf
from known_models import random_model, randomise, small_config, write_model
from machines import SAPPHIRE_RAPIDS, SKYLAKE, has_bfloat16

from bert_keras.cli.start import may_use_onednn
from bert_keras.modeling import BertModel
from bert_keras.modeling.fused import fused_operations, is_fused
from bert_keras.modeling.lora import enable_lora
from bert_keras.modeling.number_format import dtype_policy
from bert_keras.prediction import FeatureExtractor, FillMask

NUM_ROWS, NUM_TOKENS = 3, 9
OPERATIONS = {"_MklNativeFusedMatMul", "_MklLayerNorm"}
VARIANTS = [
    *({"hidden_act": name} for name in ("gelu", "gelu_erf", "relu", "tanh", "linear")),
    {"embedding_size": 4, "has_shared_layers": True},
    {"is_decoder": True},
    {"type_vocab_size": 1, "pooling": "mean"},
]


@pytest.fixture
def has_operations():
    if not has_bfloat16() or not may_use_onednn():
        pytest.skip("the processor has no instructions for bfloat16, or oneDNN is off")
    with tf.Graph().as_default(), fused_operations(is_wanted=True):
        if not is_fused():
            pytest.skip("TensorFlow has no operations of oneDNN here")


def features_of(seed=0):
    random = np.random.default_rng(seed)
    lengths = random.integers(2, NUM_TOKENS, NUM_ROWS)
    shape = (NUM_ROWS, NUM_TOKENS)
    return {
        "input_ids": tf.constant(random.integers(1, 20, shape), tf.int32),
        "input_mask": tf.constant(np.arange(NUM_TOKENS) < lengths[:, None], tf.int32),
        "segment_ids": tf.zeros(shape, tf.int32),
    }


def traced(model, is_wanted):
    """Returns the network as a function of any number of rows and tokens."""

    def run(features):
        with fused_operations(is_wanted):
            return model(features)

    names = ("input_ids", "input_mask", "segment_ids")
    specs = dict.fromkeys(names, tf.TensorSpec([None, None], tf.int32))
    return tf.function(run, autograph=False).get_concrete_function(specs)


def operations_of(function):
    return {operation.type for operation in function.graph.get_operations()}


@pytest.mark.usefixtures("has_operations")
@pytest.mark.parametrize("changes", VARIANTS, ids=str)
def test_every_kind_of_network_gives_the_same_outputs(changes):
    model = randomise(BertModel(small_config(**changes), return_all_encoder_layers=True))
    plain, quick = traced(model, False), traced(model, True)
    assert operations_of(quick) >= OPERATIONS
    assert not operations_of(plain) & OPERATIONS
    for seed in range(2):  # the copies of the weights are made in the first call
        expected, found = (tf.nest.flatten(function(features_of(seed))) for function in (plain, quick))
        for one, other in zip(expected, found, strict=True):
            assert one.shape == other.shape
            np.testing.assert_allclose(other, one, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("has_operations")
def test_lora_is_part_of_the_products():
    model = randomise(BertModel(small_config()))
    enable_lora(model, rank=2, alpha=4.0, targets=("query", "intermediate"))
    randomise(model, 1)
    expected, found = (traced(model, is_wanted)(features_of())["sequence_output"] for is_wanted in (False, True))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.usefixtures("has_operations")
def test_in_16_bits_the_outputs_are_as_near_to_those_of_32_bits():
    exact = randomise(BertModel(small_config(hidden_size=32, num_hidden_layers=4)))
    with dtype_policy("bfloat16"):
        model = randomise(BertModel(exact.config))
    expected = traced(exact, False)(features_of())["pooled_output"]
    errors = [
        float(
            np.abs(
                np.subtract(tf.cast(traced(model, is_wanted)(features_of())["pooled_output"], "float32"), expected)
            ).mean()
        )
        for is_wanted in (False, True)
    ]
    assert 0 < errors[1] < 1.5 * errors[0]


def test_networks_that_run_without_a_graph_or_in_training_have_no_fused_operations():
    model = randomise(BertModel(small_config()))
    with fused_operations(is_wanted=True):
        assert not is_fused()
        assert np.isfinite(model(features_of())["sequence_output"]).all()
    keras_function = tf.function(lambda features: model(features, training=True))
    assert not operations_of(keras_function.get_concrete_function(features_of())) & OPERATIONS


@pytest.mark.usefixtures("has_operations")
@pytest.mark.parametrize(
    ("processor", "precision", "has_them"),
    [(SAPPHIRE_RAPIDS, "bfloat16", True), (SAPPHIRE_RAPIDS, "float32", False), (SKYLAKE, "bfloat16", False)],
)
def test_predictors_fuse_where_the_processor_has_instructions_for_16_bits(
    machine, tmp_path, processor, precision, has_them
):
    machine(processor)
    fill = FillMask(write_model(tmp_path / "bert", random_model()), precision=precision)
    assert bool(operations_of(fill.network._compiled) & OPERATIONS) == has_them


def test_a_network_that_a_user_shares_may_change(machine, tmp_path):
    machine(SAPPHIRE_RAPIDS)
    with dtype_policy("bfloat16"):
        model = random_model()
    folder = write_model(tmp_path / "bert", random_model())
    extract = FeatureExtractor(folder, [-1], "mean", model=model)
    before = extract("he was hungry").vector
    randomise(model, 1)
    assert np.abs(extract("he was hungry").vector - before).max() > 0.1
    assert not operations_of(extract.network._compiled) & OPERATIONS
