"""The answers of Python to the table tests/cases/answers.json; JavaScript has the same in test_page_answers.py."""

import pytest
from answer_cases import TABLE, answer_of_python, differences_of, settings_of, text_of_python

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.mark.parametrize("case", TABLE["texts"], ids=lambda case: case["about"])
def test_the_tokens_and_words_of_texts(case):
    found = text_of_python(case)
    assert found == {name: case[name] for name in found}
    assert all(0 <= start < end <= len(case["text"]) for _, start, end in found["tokens"])


@pytest.mark.parametrize("model", TABLE["models"])
def test_the_cases_of_a_model(model):
    for case in TABLE["answers"]:
        if case["model"] != model:
            continue
        answer = answer_of_python(case)
        assert differences_of(case, answer) == [], case
        if isinstance(answer.get("probabilities"), dict):  # objects of JavaScript have another order
            assert [*answer["probabilities"]] == [*case["answer"]["probabilities"]]


def test_the_places_of_an_answer_hold_its_text():
    """The table itself, in every script: a part of a text is between its places."""
    num_checked = 0
    for case in TABLE["answers"]:
        answer, item = case.get("answer", {}), case["item"]
        parts = [(part[0], *part[2:4], item["text"]) for part in answer.get("entities", ())]
        is_exact = settings_of(case).get("answer_text") == "offsets"
        parts += [(part[0], *part[2:4], item["context"]) for part in answer.get("n_best", ()) if is_exact and part[0]]
        parts += [(word, start, end, item[field]) for word, start, end, _, field in answer.get("words") or ()]
        for part, start, end, text in parts:
            assert text[start:end] == part
        num_checked += len(parts)
    assert num_checked > 80
