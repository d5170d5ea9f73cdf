"""The comparison of JavaScript with Python: its texts, and what stops an export."""

import json

import pytest
from fine_tuned_models import OF_TEXTS, random_classifier, write_fine_tuned

from bert_keras.export.checks import web_check
from bert_keras.export.checks.texts import built_in_texts, items_of
from bert_keras.export.checks.web_check import compare_in_node


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
