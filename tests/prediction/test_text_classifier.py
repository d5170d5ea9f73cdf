"""Classes, numbers and labels of texts, compared with BERT in plain NumPy."""

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, fixed_classifier, logits_of, random_classifier, write_fine_tuned
from reference_bert import softmax

from bert_keras.prediction import Classification, MultiLabel, Regression, TextClassifier

pytestmark = pytest.mark.usefixtures("no_graphs")

LABELS = ["sport", "world", "arts"]
LETTERS = "a b c d e f g h i j k l m n o p"


@pytest.fixture(scope="module")
def model():
    return random_classifier(3, seed=4, num_hidden_layers=1)


@pytest.fixture(scope="module")
def regressor():
    return random_classifier(1, seed=9, num_hidden_layers=1)


@pytest.fixture(scope="module")
def open_as(tmp_path_factory):
    """Return a function that opens a model for a task with changed settings."""

    def open_(model, task, **settings):
        labels = {} if task == "regression" else {"labels": LABELS}
        folder = tmp_path_factory.mktemp("run")
        return TextClassifier(write_fine_tuned(folder, model, task, **(OF_TEXTS | labels | settings)))

    return open_


def test_labels_without_a_probability_are_shown(tmp_path):
    model = fixed_classifier(-1.0, 1.0, 2.0)
    classify = TextClassifier(write_fine_tuned(tmp_path, model, "multi_label", **OF_TEXTS, labels=LABELS))
    assert classify("he", top_k=1).readable().splitlines()[1:] == ["  0.8808  arts", "          world"]
    assert classify("he", threshold=0.9).readable().splitlines()[1:] == ["  no label"]


@pytest.fixture(scope="module")
def classify(model, open_as):
    return open_as(model, "classification")


def close_to(probabilities):
    return dict(zip(LABELS, (pytest.approx(float(value), abs=1e-5) for value in probabilities), strict=True))


def test_a_text_has_the_probabilities_of_the_plain_network(model, classify):
    texts = ["he was hungry", "paris", "so he ate ."]
    answers = classify(texts)
    for answer, text in zip(answers, texts, strict=True):
        expected = softmax(logits_of(model, text))
        assert answer == Classification(text, None, LABELS[expected.argmax()], close_to(expected))
        assert list(answer.probabilities) == LABELS
    assert len({answer.label for answer in answers}) > 1


def test_a_pair_is_two_segments(model, open_as):
    classify_pairs = open_as(model, "classification", is_pair=True)
    pair, alone = classify_pairs([("he was hungry", "so he ate"), ("he was hungry", "")])
    assert (pair.text, pair.text_pair, alone.text_pair) == ("he was hungry", "so he ate", "")
    assert pair.probabilities == close_to(softmax(logits_of(model, "he was hungry", "so he ate")))
    assert alone.probabilities == close_to(softmax(logits_of(model, "he was hungry")))


def test_a_regression_gives_its_number(regressor, open_as):
    answer = open_as(regressor, "regression", is_pair=True)(("he was hungry", "so he ate"))
    [expected] = logits_of(regressor, "he was hungry", "so he ate")
    assert answer == Regression("he was hungry", "so he ate", pytest.approx(expected, abs=1e-5))


def test_labels_that_apply_have_at_least_even_odds(model, open_as):
    texts = ["he was hungry", "paris", "c d", "the capital of france", "e"]
    answers = open_as(model, "multi_label")(texts)
    for answer, text in zip(answers, texts, strict=True):
        expected = 1 / (1 + np.exp(-logits_of(model, text)))
        labels = [label for label, probability in zip(LABELS, expected, strict=True) if probability >= 0.5]
        assert answer == MultiLabel(text, None, labels, close_to(expected))
    assert len({len(answer.labels) for answer in answers}) > 1


def test_a_long_text_loses_its_end_and_the_log_reports_it(model, classify, messages):
    expected = softmax(logits_of(model, " ".join(LETTERS.split()[:14])))
    assert classify(LETTERS).probabilities == close_to(expected)
    assert messages[-1] == "texts longer than the model takes (max_seq_length=16) lost their ends: 1"


# Windows of 14 tokens, 5 apart; the last one starts before the end of the text.
WINDOWS = [" ".join((LETTERS.split() + LETTERS.split())[start : start + 14]) for start in (0, 5, 10, 15, 20)]


def test_windows_are_averaged(model, open_as, messages):
    texts = ["paris", f"{LETTERS} {LETTERS}", "he"]
    first, long, last = open_as(model, "classification", doc_stride=5)(texts)
    assert long.probabilities == close_to(np.mean([softmax(logits_of(model, window)) for window in WINDOWS], axis=0))
    assert first.probabilities == close_to(softmax(logits_of(model, "paris")))
    assert last.probabilities == close_to(softmax(logits_of(model, "he")))
    assert messages[-1] == "texts longer than 16 tokens were read through windows: 1 of 3"


def test_windows_of_a_regression_are_averaged_as_numbers(regressor, open_as):
    answer = open_as(regressor, "regression", doc_stride=5)(f"{LETTERS} {LETTERS}")
    expected = np.mean([logits_of(regressor, window)[0] for window in WINDOWS])
    assert answer.value == pytest.approx(expected, abs=1e-5)
