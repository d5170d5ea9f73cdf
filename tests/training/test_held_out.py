"""Both parts of the examples have the same share of every label."""

import collections
import random

import pytest

from bert_keras.data_prep.tasks.examples import Example
from bert_keras.training.finetuning.held_out import hold_out


def examples_of(labels):
    return [Example(str(number), f"text {number}", label=label) for number, label in enumerate(labels)]


def counts_of(examples, kind):
    return collections.Counter(
        name for each in examples for name in (each.label if kind == "multi_label" else [each.label])
    )


@pytest.mark.parametrize(
    ("counts", "share", "held_out"),
    [
        ({"a": 20, "b": 10}, 0.2, {"a": 4, "b": 2}),
        ({"a": 90, "b": 9, "c": 1}, 0.1, {"a": 9, "b": 1}),
        ({"a": 5, "b": 5}, 0.5, None),
        ({"a": 1, "b": 1, "c": 4}, 0.5, {"c": 3}),  # a label with one example stays in training
        (dict.fromkeys("abcdefghij", 2), 0.1, None),
        (dict.fromkeys(map(str, range(40)), 3), 0.3, None),
        ({"a": 1, "b": 1, "c": 2}, 0.75, {"c": 1}),
    ],
)
def test_every_label_has_its_share(counts, share, held_out):
    labels = [label for label, count in counts.items() for _ in range(count)]
    random.Random(1).shuffle(labels)
    train, dev = hold_out(examples_of(labels), share, "train.csv", "single_label")
    found = counts_of(dev, "single_label")
    if held_out is None:
        assert len(dev) == round(share * len(labels))
        assert max(found.values()) - min(found[label] for label in counts) <= 1
    else:
        assert found == held_out
    assert set(counts_of(train, "single_label")) == set(counts)
    assert sorted(int(each.id) for each in train + dev) == list(range(len(labels)))
    assert hold_out(examples_of(labels), share, "other.csv", "single_label") == (train, dev)


@pytest.mark.parametrize("seed", range(5))
def test_no_label_of_several_is_only_held_out(seed):
    draw = random.Random(seed)
    # Frequencies from 150 down to 1 or 2 of 300 examples.
    shares = {f"label{number}": 0.5**number for number in range(1, 9)}
    labels = [tuple(name for name, share in shares.items() if draw.random() < share) for _ in range(300)]
    examples = examples_of(labels)
    train, dev = hold_out(examples, 0.2, "train.csv", "multi_label")
    assert len(dev) == 60
    everywhere, held_out = counts_of(examples, "multi_label"), counts_of(dev, "multi_label")
    assert set(counts_of(train, "multi_label")) == set(everywhere)
    for name, count in everywhere.items():
        assert abs(held_out[name] - 0.2 * count) <= 2 + 0.05 * count, name


def test_numbers_are_held_out_without_a_look_at_them():
    train, dev = hold_out(examples_of([1.0, 1.0, 2.0, 3.0]), 0.5, "train.csv", "regression")
    assert (len(train), len(dev)) == (2, 2)


@pytest.mark.parametrize(
    ("labels", "share", "message"),
    [
        ("aab", 0.1, "^eval_share=0.1 of 3 examples leaves 3 to train and 0 to evaluate on; give another share"),
        (
            "abc",
            0.5,
            "^eval_share=0.5 of 3 examples leaves 3 to train and 0 to evaluate on, because no label has two",
        ),
    ],
)
def test_nothing_to_hold_out(labels, share, message):
    with pytest.raises(ValueError, match=message):
        hold_out(examples_of(labels), share, "train.csv", "single_label")
