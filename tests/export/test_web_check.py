"""The comparison of JavaScript with Python: what may differ, and what stops an export."""

import json

import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned

from bert_keras.export.checks import web_check
from bert_keras.export.checks.comparison import compare_answers
from bert_keras.export.checks.texts import built_in_texts, items_of
from bert_keras.export.checks.web_check import compare_in_node
from bert_keras.prediction import FillMask, QuestionAnswerer, Reranker


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


def test_the_items_of_a_task():
    items = items_of(built_in_texts({"task": "multiple_choice", "max_seq_length": 16}))
    assert {frozenset(item) for item in items} == {frozenset({"text", "choices"})}
    assert {len(item["choices"]) for item in items} == {3}
    long = max((item["text"] for item in items), key=len)
    assert "France 0. " in long
    assert "France 15. " in long
    json.dumps(items).encode()


@pytest.fixture
def export(tmp_path):
    """An export folder for web browsers whose network is a whole model, and its settings."""
    run = write_fine_tuned(tmp_path / "run", random_classifier(1, num_hidden_layers=1), "regression", **OF_TEXTS)
    return run, {"task": "regression", **OF_TEXTS}


def test_an_answer_that_differs_stops_the_export(export, monkeypatch):
    folder, settings = export
    monkeypatch.setattr(web_check.shutil, "which", lambda name: name)

    def answers_in_node(web, items):
        assert web == folder / "web"
        found = web_check.answers_of_python(web_check.open_model(folder), items)
        found[1]["value"] += 0.1
        return found

    monkeypatch.setattr(web_check, "answers_in_node", answers_in_node)
    with pytest.raises(ValueError, match="^the web export answers the check text 2 differently from Python: value is "):
        compare_in_node(folder, settings)


def test_tokens_that_differ_stop_the_export(export, monkeypatch):
    folder, settings = export
    monkeypatch.setattr(web_check.shutil, "which", lambda name: name)
    monkeypatch.setattr(
        web_check,
        "answers_in_node",
        lambda web, items: web_check.answers_of_python(web_check.open_model(folder), items),
    )

    def tokens_in_node(web, items):
        found = web_check.tokens_of_python(web_check.open_model(folder), items)
        found[2][0]["tokens"][1]["start"] += 1
        return found

    monkeypatch.setattr(web_check, "tokens_in_node", tokens_in_node)
    message = (
        r"^the web export reads other tokens in the check text 3 than Python: \[0\]\.tokens\[1\]\.start is 1, but 0 "
    )
    with pytest.raises(ValueError, match=message):
        compare_in_node(folder, settings)


def test_without_node_the_log_says_so(export, monkeypatch, messages):
    monkeypatch.setattr(web_check.shutil, "which", lambda _: None)
    assert compare_in_node(*export) == {}
    [message] = messages
    assert message.startswith("node is not installed, so the JavaScript of the web export was not compared")
