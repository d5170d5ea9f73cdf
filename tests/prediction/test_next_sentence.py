"""Predicting whether one text follows another."""

import pytest
from known_models import constant_model, ids_of, plain_call, random_model, write_model

from bert_keras.prediction import NextSentence, PairAnswer


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model(seed=3)
    return model, write_model(tmp_path_factory.mktemp("random"), model)


def expected(model, first, second):
    """Returns the probability from a plain call on the tokens of two texts."""
    ids = ids_of(f"[CLS] {first} [SEP] {second} [SEP]")
    num_first = len(first.split()) + 2
    return plain_call(model, ids, [0] * num_first + [1] * (len(ids) - num_first))[1]


def test_the_probability_is_that_of_following(tmp_path):
    next_sentence = NextSentence(write_model(tmp_path, constant_model({}, follows=0.9)))
    answer = next_sentence(("he was hungry.", "so he ate."))
    assert isinstance(answer, PairAnswer)
    assert (answer.text_a, answer.text_b) == ("he was hungry.", "so he ate.")
    assert answer.probability == pytest.approx(0.9, abs=1e-6)


def test_answers_are_those_of_a_plain_call_without_padding(random):
    model, folder = random
    pairs = [
        ("he was hungry", "so he ate ."),
        ("so he ate .", "he was hungry"),
        ("a", "b"),
        ("a b c d e f g h i j", "k l m n o p"),
        ("paris [MASK]", "[MASK] is"),
    ]
    answers = NextSentence(folder, batch_size=2)(pairs)
    assert [(answer.text_a, answer.text_b) for answer in answers] == pairs
    probabilities = [answer.probability for answer in answers]
    assert probabilities == pytest.approx([expected(model, *pair) for pair in pairs], abs=1e-6)
    assert len({round(probability, 3) for probability in probabilities}) == len(pairs)


def test_one_pair_gives_one_answer_and_a_list_a_list(random):
    next_sentence = NextSentence(random[1])
    alone = next_sentence(("a", "b"))
    assert alone.probability == pytest.approx(next_sentence([["a", "b"]])[0].probability, abs=1e-6)
    assert next_sentence([]) == []


def test_repeated_calls_do_not_trace_again(random):
    next_sentence = NextSentence(random[1], batch_size=3)
    for num_pairs in (1, 2, 3, 7):
        next_sentence([("is " * (number + 1), "he was") for number in range(num_pairs)])
    assert next_sentence.num_traces == 1
    for num_words in range(1, 37):
        next_sentence([("is " * num_words, "he")] * 2)
    assert next_sentence.num_traces == 3


FIRST = "a b c d e f g h i j k l m n o p a b c d e f g h i j"
SECOND = "k l m n o p a b c d e f g h i j k l m n o p a b c d"


@pytest.mark.parametrize(
    ("long", "first", "second"),
    [
        ("truncate", FIRST.split()[:19], SECOND.split()[:18]),
        ("window", FIRST.split()[-19:], SECOND.split()[:18]),
    ],
)
def test_a_longer_pair_is_cut_as_chosen(random, messages, long, first, second):
    model, folder = random
    answer = NextSentence(folder, long=long)((FIRST, SECOND))
    assert answer.probability == pytest.approx(expected(model, " ".join(first), " ".join(second)), abs=1e-6)
    assert any("text 1 has 52 tokens, 15 more than the 37 that the model takes; " in message for message in messages)


def test_a_longer_pair_is_refused_unless_said_otherwise(random):
    with pytest.raises(ValueError, match=r"^text 2 has 52 tokens, 15 more than the 37 that the model takes; make it"):
        NextSentence(random[1])([("a", "b"), (FIRST, SECOND)])


@pytest.mark.parametrize(
    ("pair", "message"),
    [
        (("", "b"), "^text 1 has no word in its first text; give two texts$"),
        (("a", " \n"), "^text 1 has no word in its second text; give two texts$"),
        ("ab", "^text 1 is 'ab', but a pair of two texts is needed$"),
        (("a", "b", "c"), r"^text 1 is \('a', 'b', 'c'\), but a pair of two texts is needed$"),
        (("a", None), "^text 1 is of type NoneType, but a str is needed$"),
    ],
)
def test_what_is_no_pair_is_refused(random, pair, message):
    with pytest.raises(ValueError, match=message):
        NextSentence(random[1])([pair])


@pytest.mark.parametrize("pairs", [(("a", "b"), ("c", "d")), (["a", "b"], ["c", "d"], ["e", "f"])])
def test_pairs_come_in_a_list(random, pairs):
    with pytest.raises(ValueError, match="^a tuple is one pair of texts, .*; give a list of pairs$"):
        NextSentence(random[1])(pairs)
