"""Equal texts are found whatever their case, blanks and Unicode forms, and different ones are not."""

import random

import pytest

from bert_keras.data_prep.text.same_text import find_contradictions, find_shared, group_numbers, hash_of, key_of
from bert_keras.tasks.tables.examples import Example


@pytest.mark.parametrize(
    ("text", "other"),
    [
        ("Good film.", "  good\tFILM.\n"),
        ("caf\u00e9", "cafe\u0301"),
        ("\ufb01ne \uff21\uff22", "fine ab"),
        ("Stra\u00dfe", "STRASSE"),
        ("good\u00a0film", "good film"),
        ("go\u00adod \u200bfilm\ufeff", "good film"),
        ("a \u200b b", "a b"),
        ("love \u2764\ufe0f", "love \u2764"),
        ("a\u0000b", "ab"),
        ("broken \ud800", "broken \ud800 "),
    ],
)
def test_the_same_text(text, other):
    assert hash_of([text]) == hash_of([other]) == hash_of([other.upper()])


@pytest.mark.parametrize(
    ("text", "other"), [("good film", "good film."), ("cafe", "caf\u00e9"), ("a b", "ab"), ("a b", "b a"), ("", "a")]
)
def test_another_text(text, other):
    assert hash_of([text]) != hash_of([other])


def test_lines_are_one_text():
    assert hash_of(["Ab  c.", "d e"]) == hash_of(["ab c. D", "E"]) != hash_of(["ab c."])
    assert (
        hash_of(["good film"]) == 16877464135873016321
    )  # the documents that create_pretraining_data.py holds out depend on it


def test_examples_are_compared_text_by_text():
    pairs = [("a", "b"), ("A", "B "), ("b", "a"), ("a b", ""), ("a", "bc"), ("ab", "c"), ("a",), ("a", "b", "b")]
    assert group_numbers(map(key_of, pairs)) == [0, 0, 0, 1, 2, 3, 4, 5]
    example = Example("0", "q", label="1", choices=("x", "y"))
    assert example.texts == ("q", "x", "y")
    assert Example("0", "q", "").texts == ("q", "")


def test_shared_examples():
    train = list(map(key_of, [("x",), ("Y",), ("y ",), ("a", "b")]))
    found = find_shared(map(key_of, [("z",), ("y",), ("b", "a"), ("X",), ("a b",)]), train)
    assert found == [(1, 1), (2, 3), (3, 0)]
    assert find_shared([], train) == find_shared(train, []) == []


def test_only_the_same_order_contradicts():
    keys = list(map(key_of, [("a", "b"), ("b", "a"), ("A", "b"), ("c", "d"), ("c", "d"), ("a", "b")]))
    assert find_contradictions(keys, ["yes", "no", "no", "yes", "yes", "yes"]) == [[0, 2, 5]]
    assert find_contradictions(keys, ["yes", "no", "yes", "no", "no", "yes"]) == []


def test_many_texts_stay_different():
    draw = random.Random(0)
    texts = {"".join(draw.choices("abcde ", k=12)).strip() for _ in range(20_000)}
    texts = {" ".join(text.split()) for text in texts}
    assert len({*group_numbers(key_of([text]) for text in texts)}) == len(texts)
