"""The probability that one text follows another."""

import pytest
from known_models import ids_of, plain_call, random_model, write_model

from bert_keras.prediction import NextSentence

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def model():
    return random_model(num_hidden_layers=1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    return write_model(tmp_path_factory.mktemp("random"), model)


def expected(model, first, second):
    """Returns the probability from a plain call on the tokens of two texts."""
    ids = ids_of(f"[CLS] {first} [SEP] {second} [SEP]")
    num_first = len(first.split()) + 2
    return plain_call(model, ids, [0] * num_first + [1] * (len(ids) - num_first))[1]


def test_answers_are_those_of_a_plain_call_without_padding(model, folder):
    next_sentence = NextSentence(folder, batch_size=2)
    pairs = [
        ("he was hungry", "so he ate ."),
        ("so he ate .", "he was hungry"),
        ("a", "b"),
        ("a b c d e f g h i j", "k l m n o p"),
        ("paris [MASK]", "[MASK] is"),
    ]
    answers = next_sentence(pairs)
    assert [(answer.text_a, answer.text_b) for answer in answers] == pairs
    probabilities = [answer.probability for answer in answers]
    assert probabilities == pytest.approx([expected(model, *pair) for pair in pairs], abs=1e-6)
    assert len({round(probability, 3) for probability in probabilities}) == len(pairs)
    assert next_sentence([list(pairs[0])])[0].probability == pytest.approx(probabilities[0], abs=1e-6)


FIRST = "a b c d e f g h i j k l m n o p a b c d e f g h i j"
SECOND = "k l m n o p a b c d e f g h i j k l m n o p a b c d"


@pytest.mark.parametrize(
    ("long", "first", "second"),
    [
        ("truncate", FIRST.split()[:19], SECOND.split()[:18]),
        ("window", FIRST.split()[-19:], SECOND.split()[:18]),
    ],
)
def test_a_longer_pair_is_cut_as_chosen(model, folder, messages, long, first, second):
    answer = NextSentence(folder, long=long)((FIRST, SECOND))
    assert answer.probability == pytest.approx(expected(model, " ".join(first), " ".join(second)), abs=1e-6)
    assert any("text 1 has 52 tokens, 15 more than the 37 that the model takes; " in message for message in messages)
