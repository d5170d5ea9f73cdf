"""Labels of examples: collecting and checking them."""

import re

import pytest

from bert_keras.tasks.classification.labels import LABELS, Choice, Number, SeveralLabels
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.examples import Example, check_labels, learn_labels, learn_scale


def examples_of(*labels):
    return [
        Example(str(line), "text", None, label, (), f"train.csv line {line}") for line, label in enumerate(labels, 2)
    ]


@pytest.mark.parametrize(
    ("kind", "labels", "learnt"),
    [
        ("single_label", ["sport", "Art", "sport", "art"], ("Art", "art", "sport")),
        ("single_label", ["10", "2", "-1"], ("-1", "2", "10")),
        ("single_label", ["10", "2", "1.5"], ("1.5", "10", "2")),
        ("multi_label", [("red", "blue"), (), ("blue",)], ("blue", "red")),
        ("multi_label", [("red",)], ("red",)),
        ("regression", [1.0, 2.0], ()),
    ],
)
def test_labels_are_sorted_and_integers_as_numbers(kind, labels, learnt):
    assert LABELS[kind].learn(examples_of(*labels)) == learnt


def test_the_labels_of_choices_are_their_numbers():
    assert Choice.learn([Example("0", "a", None, "1", ("b", "c", "d"))]) == ("0", "1", "2")


@pytest.mark.parametrize(
    ("kind", "labels", "message"),
    [
        ("single_label", ["a", "a"], 'train.csv has one class only, "a" in all 2 examples; training needs examples of'),
        ("single_label", ["a", None], "train.csv line 3: no label, but labels are learnt from this file; add it"),
        ("multi_label", [(), ()], "train.csv has no example with a label; check the column of the labels"),
    ],
)
def test_useless_labels(kind, labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LABELS[kind].learn(examples_of(*labels))


@pytest.mark.parametrize(
    ("kind", "labels", "known", "message"),
    [
        ("single_label", ["no", "2"], ("no", "yes"), 'train.csv line 3: label "2" is not one of no, yes'),
        ("multi_label", [("a",), ("a", "c")], ("a", "b"), 'train.csv line 3: label "c" is not one of a, b'),
        ("regression", [1.0, float("nan")], (), 'train.csv line 3: label "nan" is not a finite number; correct'),
        ("regression", ["high"], (), 'train.csv line 2: label "high" is not a finite number; correct it'),
        ("single_label", ["x"], tuple(map(str, range(25))), "17, 18, 19 and 5 more"),
    ],
)
def test_unknown_labels(kind, labels, known, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        LABELS[kind](known).check(examples_of(*labels))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("caf\u00e9", "cafe\u0301"),
        ("a b", "a  b"),
        ("a b", "a\u00a0b"),
        ("pos", "pos\u200b"),
        ("pos", "\ufeffpos"),
        ("\u2764", "\u2764\ufe0f"),
        ("pos", "po\u00ads"),
    ],
)
@pytest.mark.parametrize("kind", ["single_label", "multi_label"])
def test_labels_that_look_equal(first, second, kind):
    labels = (first, "other", second) if kind == "single_label" else ((first,), ("other",), ("other", second))
    message = (
        f'line 4: the label "{second}" looks like "{first}" in train.csv line 2, but it is {ascii(second)} and not'
    )
    with pytest.raises(ValueError, match=re.escape(message)):
        LABELS[kind].learn(examples_of(*labels))
    with pytest.raises(ValueError, match=re.escape(f'; it looks like "{first}", but is {ascii(second)} and not')):
        check_labels(examples_of(second), [first])


def test_labels_that_differ_in_capitals_or_width(messages):
    labels = ("Pos", "pos", "neg", "POS", "\uff50\uff4f\uff53", "x2", "x3", "a-b", "ab")
    assert len(learn_labels(examples_of(*labels))) == len(labels)
    [message] = messages
    assert message.startswith('these are different labels: "Pos" (train.csv line 2), "pos" (train.csv line 3), "POS" (')
    assert "neg" not in message
    assert "x2" not in message
    with pytest.raises(ValueError, match='label "NEG" is not one of neg, pos; did you mean "neg"'):
        check_labels(examples_of("NEG"), ["neg", "pos"])


@pytest.mark.parametrize(
    ("labels", "scale"),
    [
        ([30.0, 40.0], (35, 5)),
        ([-3e-6, -1e-6, -2e-6], (-2e-6, 1e-6 * (2 / 3) ** 0.5)),
        ([1e6, 3e6], (2e6, 1e6)),
        ([2020, 2024], (2022, 2)),
        ([0, 1e-12], (5e-13, 5e-13)),
    ],
)
def test_the_scale_of_numbers(labels, scale):
    assert learn_scale(examples_of(*labels)) == pytest.approx(
        dict(zip(("mean", "std"), scale, strict=True)), rel=1e-12, abs=0
    )


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([5, 5.0], "train.csv has one number only, 5 in all 2 examples; a regression needs different numbers"),
        ([-1.5], "train.csv has one number only, -1.5 in all 1 examples"),
        ([0, 0], "train.csv has one number only, 0 in"),
        (
            [1e300, -1],
            "train.csv has labels from -1 to 1e+300, which float32 cannot hold; write them in another",
        ),
        ([1e-40, 2e-40], "train.csv has labels from 1e-40 to 2e-40, which float32 cannot"),
        (
            [1.7e9, 1.7e9 + 200],
            "differ too little for float32: they are from 1700000000 to 1700000200; subtract 1700000100",
        ),
    ],
)
def test_numbers_that_cannot_be_learnt(labels, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        learn_scale(examples_of(*labels))


def test_known_and_missing_labels():
    SingleLabel(("a", "b")).check(examples_of("a", None, "b"))
    SeveralLabels(("a", "b")).check(examples_of(("a", "b"), ()))
    Number().check(examples_of(1.5, 2))
