"""Classes, numbers and labels of texts, compared with BERT in plain NumPy."""

import numpy as np
import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned
from known_models import ID
from reference_bert import ReferenceBert, softmax

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import Classification, MultiLabel, Regression, TextClassifier

LABELS = ["sport", "world", "arts"]
LETTERS = "a b c d e f g h i j k l m n o p"


@pytest.fixture(scope="module")
def model():
    return random_classifier(3, seed=12)


@pytest.fixture
def open_as(model, tmp_path):
    """Return a function that opens the model for a task with changed settings."""

    def open_(task, model=model, **settings):
        labels = {} if task == "regression" else {"labels": LABELS}
        return TextClassifier(write_fine_tuned(tmp_path, model, task, **(OF_TEXTS | labels | settings)))

    return open_


def logits_of(model, *pieces):
    """Returns the logits of one unpadded sequence: [CLS] and each of the segments with [SEP]."""
    ids, segment_ids = [ID["[CLS]"]], [0]
    for number, segment in enumerate(pieces):
        ids += [ID[piece] for piece in [*segment.split(), "[SEP]"]]
        segment_ids += [number] * (len(segment.split()) + 1)
    weights = {name: np.asarray(weight) for name, weight in weights_by_name(model).items()}
    bert = ReferenceBert(2, model.config.num_attention_heads, "gelu", weights)
    pooled = bert.encode(np.array([ids]), np.ones((1, len(ids))), np.array([segment_ids]))[2]
    return (pooled @ weights["output_weights"].T + weights["output_bias"])[0]


def test_a_text_has_the_probabilities_of_the_plain_network(model, open_as):
    texts = ["he was hungry", "paris", "so he ate ."]
    answers = open_as("classification")(texts)
    for answer, text in zip(answers, texts, strict=True):
        expected = softmax(logits_of(model, text))
        assert isinstance(answer, Classification)
        assert (answer.text, answer.text_pair) == (text, None)
        assert list(answer.probabilities) == LABELS
        assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert answer.label == LABELS[expected.argmax()]
    assert len({answer.label for answer in answers}) > 1


def test_one_text_gives_one_answer_and_a_list_a_list(open_as):
    classify = open_as("classification")
    assert classify(["paris"]) == [classify("paris")]
    assert classify([]) == []


def test_a_pair_is_two_segments(model, open_as):
    classify = open_as("classification", is_pair=True)
    answer = classify(("he was hungry", "so he ate"))
    assert (answer.text, answer.text_pair) == ("he was hungry", "so he ate")
    expected = softmax(logits_of(model, "he was hungry", "so he ate"))
    assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    alone = softmax(logits_of(model, "he was hungry"))
    answer = classify(("he was hungry", ""))
    assert list(answer.probabilities.values()) == pytest.approx(alone.tolist(), abs=1e-5)


def test_a_regression_gives_its_number(open_as):
    model = random_classifier(1, seed=9)
    predict = open_as("regression", model, is_pair=True)
    answer = predict(("he was hungry", "so he ate"))
    [expected] = logits_of(model, "he was hungry", "so he ate")
    assert answer == Regression("he was hungry", "so he ate", pytest.approx(expected, abs=1e-5))


def test_labels_that_apply_have_at_least_even_odds(model, open_as):
    texts = ["he was hungry", "paris", "c d", "the capital of france", "e"]
    answers = open_as("multi_label")(texts)
    for answer, text in zip(answers, texts, strict=True):
        expected = 1 / (1 + np.exp(-logits_of(model, text)))
        assert isinstance(answer, MultiLabel)
        assert list(answer.probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
        assert answer.labels == [label for label, share in zip(LABELS, expected, strict=True) if share >= 0.5]
    assert len({len(answer.labels) for answer in answers}) > 1


def test_a_long_text_loses_its_end_and_the_log_says_so(model, open_as, messages):
    classify = open_as("classification")
    expected = softmax(logits_of(model, " ".join(LETTERS.split()[:14])))
    assert list(classify(LETTERS).probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    assert messages[-1] == "texts longer than the model takes (max_seq_length=16) lost their ends: 1"


# Windows of 14 tokens, 5 apart; the last one starts before the end of the text.
WINDOWS = [" ".join((LETTERS.split() + LETTERS.split())[start : start + 14]) for start in (0, 5, 10, 15, 20)]


def test_windows_are_averaged(model, open_as, messages):
    classify = open_as("classification", doc_stride=5)
    answers = classify(["paris", f"{LETTERS} {LETTERS}", "he"])
    expected = np.mean([softmax(logits_of(model, window)) for window in WINDOWS], axis=0)
    assert list(answers[1].probabilities.values()) == pytest.approx(expected.tolist(), abs=1e-5)
    for answer, text in ((answers[0], "paris"), (answers[2], "he")):
        assert list(answer.probabilities.values()) == pytest.approx(softmax(logits_of(model, text)).tolist(), abs=1e-5)
    assert messages[-1] == "texts longer than 16 tokens were read through windows: 1 of 3"


def test_windows_of_a_regression_are_averaged_as_numbers(open_as):
    model = random_classifier(1, seed=9)
    answer = open_as("regression", model, doc_stride=5)(f"{LETTERS} {LETTERS}")
    expected = np.mean([logits_of(model, window)[0] for window in WINDOWS])
    assert answer.value == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize(
    ("is_pair", "text", "message"),
    [
        (False, "", "^text 1 has no word in its text; give a text$"),
        (False, " \n", "^text 1 has no word in its text"),
        (False, 5, "^text 1 is of type int, but a str is needed$"),
        (False, ("he", "was"), r"^text 1 is \('he', 'was'\), but the model takes single texts; give one str$"),
        (True, "he was", "^text 1 is 'he was', but a pair of two texts is needed: first text and second text$"),
        (True, ("he", None), "^text 1 is of type NoneType, but a str is needed$"),
        (True, (" ", "he"), "^text 1 has no word in its first text; give a first text$"),
        (True, ("he", "was", "so"), "^text 1 is .*, but a pair of two texts is needed"),
    ],
)
def test_what_is_no_text_is_refused(open_as, is_pair, text, message):
    classify = open_as("classification", is_pair=is_pair)
    with pytest.raises(ValueError, match=message):
        classify(text)


def test_scores_that_are_no_numbers_are_refused(open_as):
    model = random_classifier(3)
    weights_by_name(model)["output_bias"].assign([0.0, np.nan, 0.0])
    for task in ("classification", "multi_label"):
        classify = open_as(task, model)
        with pytest.raises(ValueError, match="^text 1: the scores of the model are not finite numbers, so its weights"):
            classify("he was")
