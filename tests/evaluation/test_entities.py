"""Entities in tags, by the rules of conlleval, and its scores."""

import numpy as np
import pytest

from bert_keras.tasks.tagging.entities import entities, entity_metrics, entity_metrics_by_type, entity_report


@pytest.mark.parametrize(
    ("tags", "spans"),
    [
        ("", []),
        ("O O", []),
        ("B-PER I-PER O", [("PER", 0, 2)]),
        ("O B-PER", [("PER", 1, 2)]),
        ("B-PER B-PER", [("PER", 0, 1), ("PER", 1, 2)]),
        # IOB1: an entity begins with I- unless it follows an entity of its type.
        ("I-PER I-PER B-PER O I-LOC", [("PER", 0, 2), ("PER", 2, 3), ("LOC", 4, 5)]),
        # After another type, I- begins an entity in every scheme.
        ("B-PER I-LOC I-LOC", [("PER", 0, 1), ("LOC", 1, 3)]),
        ("I-PER I-LOC B-LOC", [("PER", 0, 1), ("LOC", 1, 2), ("LOC", 2, 3)]),
        ("O I-PER", [("PER", 1, 2)]),
        ("B-a-b I-a-b I-a", [("a-b", 0, 2), ("a", 2, 3)]),
        ("B I O I", [("", 0, 2), ("", 3, 4)]),
    ],
)
def test_entities(tags, spans):
    assert entities(tags.split()) == spans


@pytest.mark.parametrize("tag", ["E-PER", "o", "PER", "", "B_PER", "O-PER"])
def test_other_tags(tag):
    with pytest.raises(ValueError, match=f'^tag "{tag}" is not O, B-TYPE or I-TYPE; give the tags as BIO or IOB1$'):
        entities(["O", tag])


# Two sentences. Correct: PER at the beginning and the second LOC of sentence 2. ORG is one word too long, and its
# prediction counts. The LOC of sentence 1 is predicted as MISC.
TRUTH = [["B-PER", "I-PER", "O", "B-LOC", "O", "B-ORG"], ["B-LOC", "B-LOC", "O"]]
FOUND = [["I-PER", "I-PER", "O", "B-MISC", "B-ORG", "I-ORG"], ["O", "I-LOC", "O"]]


def test_the_scores_of_conlleval():
    assert entity_metrics(TRUTH, FOUND) == pytest.approx(
        {"precision": 2 / 4, "recall": 2 / 5, "f1": 2 * 0.5 * 0.4 / 0.9, "accuracy": 3 / 9}
    )


def test_the_scores_of_each_type():
    nothing = {"precision": 0, "recall": 0, "f1": 0}
    assert entity_metrics_by_type(TRUTH, FOUND) == {
        "LOC": {"precision": 1, "recall": 1 / 3, "f1": 0.5, "entities": 3, "predicted": 1},
        "MISC": {**nothing, "entities": 0, "predicted": 1},
        "ORG": {**nothing, "entities": 1, "predicted": 1},
        "PER": {"precision": 1, "recall": 1, "f1": 1, "entities": 1, "predicted": 1},
    }
    assert entity_report(TRUTH, FOUND) == (
        "      precision  recall      f1  entities  predicted\n"
        "LOC      1.0000  0.3333  0.5000         3          1\n"
        "MISC     0.0000  0.0000  0.0000         0          1\n"
        "ORG      0.0000  0.0000  0.0000         1          1\n"
        "PER      1.0000  1.0000  1.0000         1          1\n"
        "\n"
        "all      0.5000  0.4000  0.4444         5          4\n"
    )


def test_an_entity_ends_with_its_sentence():
    assert entity_metrics([["B-PER"], ["I-PER"]], [["B-PER"], ["I-PER"]])["f1"] == 1
    assert entity_metrics_by_type([["B-PER"], ["I-PER"]], [["O"], ["B-PER"]])["PER"]["recall"] == 0.5


def test_without_entities_all_scores_are_0():
    assert entity_metrics([["O", "O"]], [["O", "O"]]) == {"precision": 0, "recall": 0, "f1": 0, "accuracy": 1}
    assert entity_report([["B"]], [["B"]]).splitlines()[1].split() == (
        ["(no", "type)", "1.0000", "1.0000", "1.0000", "1", "1"]
    )


@pytest.mark.parametrize(
    ("truth", "found", "message"),
    [
        ([["O"], ["O"]], [["O"]], "^there are 2 sentences with tags, but 1 with predictions; give the predictions of"),
        ([["O"], ["O", "O"]], [["O"], ["O"]], "^sentence 2 has 2 tags, but 1 predicted ones; every word needs one$"),
        ([["O"], ["O"]], [["O"], ["X"]], '^sentence 2: tag "X" is not O, B-TYPE or I-TYPE'),
        ([], [], "^0 tags were given; give at least one sentence$"),
        ([[]], [[]], "^0 tags were given"),
    ],
)
def test_mistakes(truth, found, message):
    with pytest.raises(ValueError, match=message):
        entity_metrics(truth, found)


def random_tags(seed):
    """Makes 200 sentences with random tags (BIO, IOB1 and invalid ones) and predictions similar to them."""
    random = np.random.default_rng(seed)
    tags = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC", "B-ORG", "I-ORG"]
    truth = [random.choice(tags, length).tolist() for length in random.integers(1, 12, 200)]
    found = [[tag if random.random() < 0.7 else str(random.choice(tags)) for tag in sentence] for sentence in truth]
    return truth, found


@pytest.mark.parametrize("seed", range(3))
def test_seqeval_finds_the_same(seed):
    seqeval = pytest.importorskip("seqeval.metrics", reason="seqeval, of the extra [test], is not installed")
    truth, found = random_tags(seed)
    names = ("precision", "recall", "f1", "accuracy")
    expected = {name: getattr(seqeval, f"{name}_score")(truth, found) for name in names}
    assert entity_metrics(truth, found) == pytest.approx(expected)
    assert 0.4 < expected["f1"] < 0.9
    report = seqeval.classification_report(truth, found, output_dict=True)
    for type_, by_type in entity_metrics_by_type(truth, found).items():
        assert by_type["f1"] == pytest.approx(report[type_]["f1-score"])
        assert by_type["entities"] == report[type_]["support"]
