"""The comparison of answers: what may differ, and how a difference is named."""

import numpy as np
import pytest

from bert_keras.export.checks.comparison import compare_answers, largest_difference
from bert_keras.prediction import FillMask, QuestionAnswerer, Reranker

ANSWER = {
    "label": np.array([b"yes", b"no"], object),
    "probabilities": np.array([[0.5, 0.5], [0.25, 0.75]], np.float32),
    "start": np.array([3, -1], np.int32),
    "is_cut": np.array([True, False]),
}


def test_the_largest_difference_of_numbers():
    found = {**ANSWER, "probabilities": ANSWER["probabilities"] + np.array([[0, 1e-5], [-3e-5, 0]], np.float32)}
    assert largest_difference("it", ANSWER, found, 1e-4) == pytest.approx(3e-5, rel=1e-2)
    assert largest_difference("it", ANSWER, ANSWER, 0.0) == 0.0
    assert largest_difference("it", {"a": np.zeros([0, 2])}, {"a": np.zeros([0, 2])}, 0.0) == 0.0


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "probabilities",
            [[0.5, 0.5], [0.25, 0.7505]],
            r"it: probabilities\[1, 1\] is 0.7505, but 0.75 is expected \(numbers to within 0.0001\)",
        ),
        ("probabilities", [[np.nan, 0.5], [0.25, 0.75]], r"it: probabilities\[0, 0\] is nan, but 0.5 is expect"),
        ("label", [b"yes", b"yes"], r'it: label\[1\] is "yes", but "no" is expected'),
        ("start", [3, 0], r"it: start\[1\] is 0, but -1 is expected"),
        ("is_cut", [True, True], r"it: is_cut\[1\] is True, but False is expected"),
        ("start", [3], r"it: start has the shape \(1,\), but \(2,\) is expected"),
        (
            "other",
            1,
            "it gives is_cut, label, other, probabilities, start, but is_cut, label, probabilities, start are",
        ),
    ],
)
def test_a_difference_is_an_error_that_names_it(name, value, message):
    found = {**ANSWER, name: np.array(value, ANSWER[name].dtype if name in ANSWER else None)}
    with pytest.raises(ValueError, match=f"^{message}"):
        largest_difference("it", ANSWER, found, 1e-4)


def difference_of(expected, found, ranked=None):
    """Compares two answers to a text."""
    largest, num_other = compare_answers("text {}", [expected], [found], ranked=ranked)
    assert num_other == 0
    return largest


def guess(text, probability):
    return {"text": text, "probability": probability, "start": 0, "end": 1}


def answer(*n_best):
    return {"text": n_best[0]["text"], "start": 0, "end": 1, "n_best": list(n_best), "null_odds": 1.0}


def test_numbers_may_differ_a_little():
    expected = {"label": "a", "probabilities": {"a": 0.75, "b": 0.25}, "text_pair": None}
    assert difference_of(expected, expected) == 0
    assert difference_of(expected, {**expected, "probabilities": {"a": 0.75005, "b": 0.25}}) == pytest.approx(5e-5)
    # Large numbers are compared relative to the largest.
    assert difference_of({"value": 1000.0}, {"value": 1000.05}) == pytest.approx(0.05)
    assert difference_of("an error in Python", "another sentence") == 0


@pytest.mark.parametrize(
    ("found", "message"),
    [
        ({"label": "a", "p": {"a": 0.76}}, r"p\.a is 0.76, but 0.75 is expected \(numbers to within 0.0001\)"),
        ({"label": "a", "p": {"a": None}}, r"p\.a is None, but 0.75 is expected \(numbers to within 0.0001\)"),
        ({"label": "b", "p": {"a": 0.75}}, r'label is "b", but "a" is expected \(numbers to within 0.0001\)'),
        ({"label": "a"}, "gives label, but label, p.a are expected"),
        ("No.", r"only one of them has an error \(the export: No\.\)"),
    ],
)
def test_what_may_not_differ(found, message):
    with pytest.raises(ValueError, match=f"^text 1:? {message}$"):
        difference_of({"label": "a", "p": {"a": 0.75}}, found)
    with pytest.raises(ValueError, match=r"^text 1: only one of them has an error \(Python: No\.\)$"):
        difference_of("No.", {"label": "a"})


def test_guesses_of_the_same_probability_may_change_places():
    first, second, third = guess("a", 0.6), guess("b", 0.2), guess("c", 0.19995)
    swapped = [guess("c", 0.2), guess("b", 0.19995)]
    assert difference_of(answer(first, second, third), answer(first, *swapped), QuestionAnswerer.ranked) < 1e-4
    with pytest.raises(ValueError, match=r'^text 1: text is "b", but "a" is expected \('):
        difference_of(answer(first, second, third), answer(second, first, third), QuestionAnswerer.ranked)
    # The best guess may change if the next one is as good.
    tied = guess("a", 0.4), guess("b", 0.39995), guess("c", 0.1)
    other = answer(guess("b", 0.4), guess("a", 0.39995), tied[2])
    assert difference_of(answer(*tied), other, QuestionAnswerer.ranked) < 1e-4
    # The last of several guesses may be another one, but a single guess may not.
    masks = {"masks": [[guess("a", 0.7), guess("b", 0.2)]], "best": "a"}
    other = {"masks": [[guess("a", 0.7), guess("c", 0.2)]], "best": "a"}
    assert difference_of(masks, other, FillMask.ranked) < 1e-4
    found = {"masks": [[guess("b", 0.7)]], "best": "a"}
    with pytest.raises(ValueError, match=r'^text 1: masks\[0\]\[0\].text is "b", but "a" is expected \('):
        difference_of({"masks": [[guess("a", 0.7)]], "best": "a"}, found, FillMask.ranked)
    # All texts have a score, also the last one.
    texts = [{"index": index, "score": score} for index, score in ((1, 0.6), (0, 0.3), (2, 0.29995))]
    swapped = [texts[0], {"index": 2, "score": 0.3}, {"index": 0, "score": 0.29995}]
    assert difference_of({"texts": texts}, {"texts": swapped}, Reranker.ranked) < 1e-4
    with pytest.raises(ValueError, match=r"^text 1: texts\[1\].index is 1, but 0 is expected \("):
        difference_of({"texts": texts[:2]}, {"texts": [texts[0], {**texts[1], "index": 1}]}, Reranker.ranked)


def test_the_tolerance_of_a_text_depends_on_no_other_text():
    expected = [{"odds": np.array(1e6)}, {"odds": np.array(1.0)}]
    assert compare_answers("text {}", expected, [{"odds": np.array(1e6 + 50)}, expected[1]]) == (50.0, 0)
    with pytest.raises(ValueError, match=r"^text 2: odds is 1.01, but 1 is expected \(numbers to within 0.0001\)$"):
        compare_answers("text {}", expected, [expected[0], {"odds": np.array(1.01)}])


def test_answers_of_a_quantized_model_are_counted():
    expected = [{"label": "a", "p": 0.75}, "an error", None, {"label": "a", "p": 0.75}, {"index": 1}]
    found = [{"label": "a", "p": 0.25}, {"label": "a", "p": 0.75}, {"other": 1}, {"label": "b", "p": 1}, {"index": 2}]
    assert compare_answers("text {}", expected, found, np.inf) == (0.5, 3)


def test_texts_keep_the_zeros_at_their_end():
    with pytest.raises(ValueError, match="^text 1: words\\[1\\] is "):
        compare_answers("text {}", [{"words": ["a", "b"]}], [{"words": ["a", "b\0"]}])
