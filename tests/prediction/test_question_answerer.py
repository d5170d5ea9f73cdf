"""Answers with their places in the text."""

import numpy as np
import pytest
from fine_tuned_models import OF_ANSWERS, word_finder, write_fine_tuned

from bert_keras.prediction import QuestionAnswerer

FILLER = "a b c d e f " * 10


def open_answerer(folder, model, **settings):
    run = write_fine_tuned(folder, model, "question_answering", **(OF_ANSWERS | settings))
    return QuestionAnswerer(run, batch_size=3)


@pytest.fixture(scope="module")
def answerer(tmp_path_factory):
    """Answers from "paris" or "the" to "france" or "capital"."""
    model = word_finder({"paris": 5, "the": 3}, {"france": 6, "capital": 5})
    return open_answerer(tmp_path_factory.mktemp("run"), model)


def test_the_answer_has_its_place_in_the_text(answerer):
    context = f"He is, so: PARIS,\n the  Capital of france! {FILLER}"
    answer = answerer(("where is he", context))
    # The context has a line break; the original BERT joins the words of an answer with single spaces.
    assert answer.text == "PARIS, the Capital"
    assert context[answer.start : answer.end] == "PARIS,\n the  Capital"
    assert answer.question == "where is he"
    assert (answer.is_impossible, answer.null_odds, answer.null_threshold) == (False, None, None)
    assert answer.probability == answer.n_best[0].probability
    assert sum(span.probability for span in answer.n_best) == pytest.approx(1)
    for span in answer.n_best:
        assert " ".join(context[span.start : span.end].split()) == span.text
    assert [span.text for span in answer.n_best[:2]] == ["PARIS, the Capital", "the Capital of france"]


def test_the_answer_is_a_part_of_the_text_if_the_training_chose_offsets(tmp_path):
    model = word_finder({"paris": 5, "the": 3}, {"france": 6, "capital": 5})
    answerer = open_answerer(tmp_path, model, answer_text="offsets")
    assert answerer(("where is he", f"He is, so: PARIS,\n the  Capital! {FILLER}")).text == "PARIS,\n the  Capital"


def test_an_answer_is_found_in_the_window_that_has_it(answerer, messages):
    context = f"{FILLER} paris is the capital of france {FILLER}"
    [answer, other] = answerer([("where", context), ("where", "he is in paris")])
    start = context.index("paris")
    assert (answer.text, answer.start, answer.end) == ("paris is the capital", start, start + 20)
    assert (other.text, other.start, other.end) == ("paris", 9, 14)
    assert answerer.num_traces == 1
    assert "texts longer than 24 tokens were read through windows: 1 of 2" in messages


@pytest.mark.parametrize(("threshold", "text"), [(-60.0, ""), (-50.0, "paris is the capital")])
def test_the_stored_threshold_decides_when_there_is_no_answer(tmp_path, threshold, text):
    model = word_finder({"paris": 5, "[CLS]": 1}, {"capital": 5, "[CLS]": 1})
    settings = {"version_2_with_negative": True, "null_score_diff_threshold": threshold}
    answerer = open_answerer(tmp_path, model, **settings)
    answer = answerer(("where", "he is so paris is the capital"))
    # A normalised one-hot row of 40 numbers has sqrt(39) at the one and -1 / sqrt(39) elsewhere.
    one, other = np.sqrt(39), -1 / np.sqrt(39)
    assert answer.null_odds == pytest.approx(2 * (one + 5 * other) - 2 * (5 * one + other), abs=1e-3)
    assert answer.null_threshold == threshold
    assert (answer.text, answer.is_impossible) == (text, not text)
    assert (answer.start, answer.end) == ((None, None) if not text else (9, 29))
    chosen = [span for span in answer.n_best if span.text == text]
    assert [answer.probability] == [span.probability for span in chosen]


def test_a_text_without_a_token_has_no_answer(answerer):
    answer = answerer(("where", "\ufffd"))
    assert (answer.text, answer.start, answer.end, answer.is_impossible) == ("", None, None, True)
