"""The network of each task as a function of ids gives the model's scores, in a graph that every format supports."""

import itertools

import numpy as np
import pytest
import tensorflow as tf
from fine_tuned_models import random_answerer, random_classifier, randomise, small_config
from known_models import make_config, random_model

from bert_keras.export.formats.networks import IdsNetwork
from bert_keras.modeling import BertModel, ClassifierModel, TokenClassifierModel, weights_by_name
from bert_keras.modeling.tagger import FeatureBasedTagger

ONE_LAYER = {"num_hidden_layers": 1}
# Task -> its model, and the network's outputs by the names of the model's. The other tasks have the first one's.
TASKS = {
    "classification": (lambda: random_classifier(3, **ONE_LAYER), {"logits": "logits"}),
    "question_answering": (
        lambda: random_answerer(**ONE_LAYER),
        {"start_logits": "start_logits", "end_logits": "end_logits"},
    ),
    "token_classification": (
        lambda: randomise(TokenClassifierModel(small_config(**ONE_LAYER), 5)),
        {"logits": "logits"},
    ),
    "fill_mask": (random_model, {"logits": "masked_lm_logits"}),
}


def make_features(names, num_rows, num_tokens, seed=0):
    """Makes random ids with ragged masks and two segments."""
    random = np.random.default_rng(seed)
    lengths = random.integers(3, num_tokens + 1, num_rows)[:, None]
    is_real = np.arange(num_tokens) < lengths
    features = {
        "input_ids": random.integers(5, 40, is_real.shape) * is_real,
        "input_mask": is_real,
        "segment_ids": is_real & (np.arange(num_tokens) >= lengths // 2),
        "masked_lm_positions": random.integers(0, 3, (num_rows, 2)),
    }
    return {name: features[name].astype(np.int32) for name in names}


def assert_close(found, expected):
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-5)


@pytest.mark.parametrize("task", TASKS)
def test_scores_are_those_of_the_model(task):
    make_model, names = TASKS[task]
    model = make_model()
    network = IdsNetwork(model, task)
    assert network.output_names == tuple(names)
    assert network.input_names == tuple(network.signature)
    for num_rows, num_tokens in ((1, 5), (3, 12)):
        features = make_features(network.input_names, num_rows, num_tokens)
        scores, expected = network({**features, "other": None}), model(features)
        assert {value.dtype for value in scores.values()} == {tf.float32}
        for name, of_model in names.items():
            assert_close(scores[name], expected[of_model])
    empty = network({name: np.zeros((0, 4), np.int32) for name in network.input_names})
    assert [value.shape[0] for value in empty.values()] == [0] * len(names)


def test_the_recurrent_tagger():
    model = randomise(FeatureBasedTagger(small_config(**ONE_LAYER), 5, units=4))
    network = IdsNetwork(model, "token_classification")
    features = make_features(network.input_names, 3, 9)
    is_real = features["input_mask"] == 1
    assert_close(network(features)["logits"][is_real], model(features)["logits"][is_real])


@pytest.fixture(scope="module")
def bert():
    return randomise(BertModel(small_config()))


@pytest.mark.parametrize("layer", [-1, 0, "embeddings"])
def test_vectors_of_a_layer(bert, layer):
    network = IdsNetwork(bert, "vectors", layer=layer)
    features = make_features(network.input_names, 3, 12)
    scores, expected = network(features), bert(*features.values())
    values = expected["embedding_output"] if layer == "embeddings" else expected["all_encoder_layers"][layer]
    assert_close(scores["sequence_output"], values)
    assert_close(scores["pooled_output"], expected["pooled_output"])


def test_without_a_pooler_there_is_no_pooled_output(bert):
    network = IdsNetwork(bert, "vectors", has_pooler=False)
    assert network.output_names == ("sequence_output",)
    assert set(network(make_features(network.input_names, 2, 5))) == {"sequence_output"}


def test_each_weight_is_held_once():
    model = random_model()
    network = IdsNetwork(model, "fill_mask")
    weights = weights_by_name(model)
    assert list(network.weights) == list(weights)
    assert len(network.variables) == len(weights)
    for variable in network.variables:
        variable.assign(np.zeros(variable.shape))
    assert not any(np.any(weight) for weight in weights.values())


def operations(network):
    """Returns all operations of the graph of a network, including its functions."""
    function = tf.function(lambda features: network(features), autograph=False)
    graph = function.get_concrete_function(network.signature).graph.as_graph_def()
    return list(itertools.chain(graph.node, *(function.node_def for function in graph.library.function)))


@pytest.mark.parametrize(("hidden_act", "expected"), [("gelu_erf", {"Erf"}), ("gelu", set())])
def test_the_graph_has_operations_that_onnx_and_litert_support(hidden_act, expected):
    model = randomise(ClassifierModel(make_config(hidden_size=16, hidden_act=hidden_act), 2))
    nodes = operations(IdsNetwork(model, "classification"))
    assert {node.op for node in nodes} & {"Erf", "Erfc"} == expected
    assert not [node.name for node in nodes if node.op == "StridedSlice" and node.attr["new_axis_mask"].i]
    assert {node.op for node in nodes} >= {"ExpandDims", "Softmax"}
