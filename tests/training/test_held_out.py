"""Both parts of the examples have the same share of every label."""

import collections
import dataclasses
import random

import pytest

from bert_keras.tasks.classification.held_out import hold_out
from bert_keras.tasks.tables.examples import Example


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


def with_copies(counts, draw):
    """Return examples of shuffled rows: each text as often as `counts` says, with other case and blanks."""
    texts = [
        f"{' ' * copy}{'tT'[copy % 2]}ext {number}" for number, count in enumerate(counts) for copy in range(count)
    ]
    draw.shuffle(texts)
    return [Example(str(number), text, source=f"all.csv line {number + 2}") for number, text in enumerate(texts)]


def text_of(example):
    return tuple(sorted(" ".join(text.lower().split()) for text in example.texts))


@pytest.mark.parametrize("kind", ["single_label", "multi_label", "regression"])
@pytest.mark.parametrize("share", [0.1, 0.25, 0.5])
@pytest.mark.parametrize("copies", ["four of each", "a few", "some with many"])
def test_equal_texts_are_on_one_side(kind, share, copies):
    draw = random.Random(f"{kind} {share} {copies}")
    counts = {"four of each": [4] * 60, "a few": [1, 1, 1, 2, 1, 3] * 50, "some with many": [1] * 300 + [20, 15, 10]}
    of_text = collections.defaultdict(
        lambda: {"single_label": draw.choice("aaab"), "regression": draw.random()}.get(kind)
    )

    def label(example):
        if kind == "multi_label":
            return tuple(name for name in "abc" if draw.random() < 0.4)
        # One in ten rows contradicts its copies.
        return draw.choice("ab") if kind == "single_label" and draw.random() < 0.1 else of_text[text_of(example)]

    examples = [dataclasses.replace(each, label=label(each)) for each in with_copies(counts[copies], draw)]
    train, dev = hold_out(examples, share, "all.csv", kind)
    assert not {*map(text_of, train)} & {*map(text_of, dev)}
    assert sorted(train + dev, key=lambda each: int(each.id)) == examples
    assert len(dev) == pytest.approx(share * len(examples), abs=4)
    if kind == "regression":
        return
    everywhere, held_out = counts_of(examples, kind), counts_of(dev, kind)
    for name, count in everywhere.items():
        assert held_out[name] == pytest.approx(share * count, abs=4 + 0.05 * count), name


def test_pairs_and_choices_are_compared_text_by_text():
    pairs = [Example(str(n), f"q{n % 20}", f"a{n // 20}", label="ab"[n % 2]) for n in range(60)]
    swapped = [Example(str(n), f"a{n // 20} ", f"Q{n % 20}", label="ab"[n % 2]) for n in range(60)]
    train, dev = hold_out(pairs + swapped, 0.2, "all.csv", "single_label")
    assert len(dev) == 24
    assert {text_of(each) for each in dev}.isdisjoint(map(text_of, train))
    asked = [Example(str(n), "which?", label=str(n % 2), choices=(f"x{n // 2}", "y")) for n in range(40)]
    train, dev = hold_out(asked, 0.25, "all.csv", "multiple_choice")
    assert len(dev) == 10
    assert {each.choices for each in dev}.isdisjoint(each.choices for each in train)


def test_a_text_with_too_many_copies():
    # Each text has more copies than the share: one is held out, and the log says how many examples that are.
    examples = examples_of("ab" * 30)
    examples = [dataclasses.replace(each, text_a=f"text {int(each.id) % 6}") for each in examples]
    train, dev = hold_out(examples, 0.1, "all.csv", "single_label")
    assert (len(train), len(dev)) == (50, 10)
    with pytest.raises(ValueError, match="leaves 60 to train and 0 to evaluate on, because no label has two different"):
        hold_out(
            [dataclasses.replace(each, text_a=str(each.label)) for each in examples], 0.1, "all.csv", "single_label"
        )


def test_the_log_tells_copies_and_rare_labels(caplog):
    caplog.set_level("INFO", "bert_keras")
    examples = examples_of("aabb" * 10 + "cdd")
    examples[-1] = dataclasses.replace(examples[-1], text_a=examples[-2].text_a)
    hold_out(examples, 0.2, "folder/all.csv", "single_label")
    assert "all.csv: 9 of 43 examples, chosen at random within each label, are held out" in caplog.text
    assert "; equal texts (1 copies) stay together" in caplog.text
    told = "all.csv: no held-out example has these labels, which are too rare (with their examples): c (1), d (2)"
    assert told in caplog.text
    caplog.clear()
    hold_out(examples_of("aabb"), 0.5, "all.csv", "single_label")
    assert "stay together" not in caplog.text
    assert "too rare" not in caplog.text


@pytest.mark.parametrize(
    ("labels", "share", "message"),
    [
        ("aab", 0.1, "^eval_share=0.1 of 3 examples leaves 3 to train and 0 to evaluate on; give another share"),
        (
            "abc",
            0.5,
            "^eval_share=0.5 of 3 examples leaves 3 to train and 0 to evaluate on, because no label has two different "
            "texts; give another share",
        ),
        (("0.5", "1.25", "2"), 0.5, "two different texts \\(labels that are numbers need kind=regression\\); give"),
    ],
)
def test_nothing_to_hold_out(labels, share, message):
    with pytest.raises(ValueError, match=message):
        hold_out(examples_of(labels), share, "train.csv", "single_label")
