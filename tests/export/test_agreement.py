"""The measure of agreement: every wrong output fails in every precision, and rounding does not."""

import numpy as np
import pytest
from fine_tuned_models import randomise
from tiny_bert import make_config, with_random_weights

from bert_keras.export.checks.agreement import LIMITS, judge, questions
from bert_keras.modeling import ClassifierModel, SquadModel, weights_by_name
from bert_keras.tasks.graph.networks import IdsNetwork

CONFIG = make_config(
    vocab_size=300, hidden_size=32, num_hidden_layers=1, intermediate_size=64, max_position_embeddings=20
)
PRECISIONS = list(LIMITS)


def answers_of(network):
    return [{name: value.numpy() for name, value in network(features).items()} for features in questions(network)]


def constants(answer):
    """Returns the best answer that does not depend on the text."""
    return {name: np.broadcast_to(value.mean(axis=0), value.shape) for name, value in answer.items()}


WRONG = {
    "zeros": lambda answer: {name: np.zeros_like(value) for name, value in answer.items()},
    "constants": constants,
    "other rows": lambda answer: {name: np.roll(value, 1, axis=0) for name, value in answer.items()},
    "negated": lambda answer: {name: -value for name, value in answer.items()},
    "ten times": lambda answer: {name: 10 * value for name, value in answer.items()},
}


@pytest.mark.parametrize(
    ("task", "make", "scale"),
    [
        ("classification", lambda: ClassifierModel(CONFIG, 2), 0.5),
        ("regression", lambda: ClassifierModel(CONFIG, 1), 0.02),
        ("question_answering", lambda: SquadModel(CONFIG), 0.5),
    ],
)
def test_wrong_outputs_fail_in_every_precision(task, make, scale):
    model = make()
    network = IdsNetwork(model, task)
    unrelated = []
    for seed in range(1, 4):
        with_random_weights(model, seed, scale)
        unrelated.append(answers_of(network))
    with_random_weights(model, 0, scale)
    right = answers_of(network)
    wrong = unrelated + [[change(answer) for answer in right] for change in WRONG.values()]
    if task == "classification":
        wrong.append([{"logits": answer["logits"][:, ::-1]} for answer in right])
    if task == "question_answering":
        wrong.append([{"start_logits": a["end_logits"], "end_logits": a["start_logits"]} for a in right])
    for answers in wrong:
        for precision in PRECISIONS:
            with pytest.raises(ValueError, match=r"^the file: \w+(\[.*\] is | differs from that of the network by )"):
                judge("the file", answers, network, precision)
    for precision in PRECISIONS:
        assert judge("the file", right, network, precision)["distance"] == 0


def test_the_distance_has_no_unit():
    """The same relative error gives the same distance, however large the scores are."""
    model = randomise(ClassifierModel(CONFIG, 2))
    network = IdsNetwork(model, "classification")
    distances = []
    for _ in range(3):
        answers = [{"logits": 1.1 * answer["logits"]} for answer in answers_of(network)]
        distances.append(judge("it", answers, network, "int8")["distance"])
        for name in ("output_weights", "output_bias"):
            weights_by_name(model)[name].assign(weights_by_name(model)[name].numpy() * 1e-3)
    assert distances == pytest.approx([distances[0]] * 3, rel=1e-4)
    assert 0.05 < distances[0] < LIMITS["int8"]


def test_a_network_that_always_gives_the_same_agrees_with_rounding_alone():
    model = randomise(ClassifierModel(CONFIG, 2))
    weights_by_name(model)["output_weights"].assign(np.zeros((2, 32)))
    weights_by_name(model)["output_bias"].assign([3.0, -1.0])
    network = IdsNetwork(model, "classification")
    right = answers_of(network)
    for precision in PRECISIONS:
        rounded = judge("it", scaled(right, 1.000001), network, precision)
        assert rounded["largest_difference"] > 0
        with pytest.raises(ValueError, match="^it: logits"):
            judge("it", scaled(right, 1.001), network, precision)


def scaled(answers, factor):
    return [{"logits": answer["logits"] * np.float32(factor)} for answer in answers]


def test_numbers_that_are_not_finite_never_agree():
    model = randomise(ClassifierModel(CONFIG, 3))
    network = IdsNetwork(model, "classification")
    for precision in PRECISIONS:
        with pytest.raises(ValueError, match=r"^the file: logits\[0, 0\] is nan, but"):
            judge("the file", scaled(answers_of(network), np.nan), network, precision)
    weights_by_name(model)["output_bias"].assign([0.0, np.nan, 0.0])
    message = "^the scores of the model are not finite: its weights are broken; take another"
    with pytest.raises(ValueError, match=message):
        judge("the file", answers_of(network), network)
