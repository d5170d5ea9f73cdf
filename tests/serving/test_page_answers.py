"""The answers of JavaScript, in Node, to the table tests/cases/answers.json, which Python answers, too."""

import pytest
from answer_cases import TABLE, differences_of, found_in_node
from node import run_node

RANKED = """
import { ranked } from "./views.js";

async function main({ labels, probabilities }) {
  return ranked({ labels }, probabilities).map(([label]) => label);
}
"""


def test_the_cases_of_the_table(tmp_path):
    found = found_in_node(tmp_path / "node")
    for case, answer in zip(TABLE["texts"], found["texts"], strict=True):
        assert answer == {name: case[name] for name in answer}, case["text"]
    wrong = []
    for number, (case, answer) in enumerate(zip(TABLE["answers"], found["answers"], strict=True)):
        wrong += [(number, case["model"], each) for each in differences_of(case, answer)]
    assert wrong == [], "\n".join(map(str, wrong))


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        (["10", "9", "2"], [0.25, 0.25, 0.25], ["10", "9", "2"]),  # as in the model, not 2, 9, 10
        (["b", "3", "a", "1"], [0.1, 0.2, 0.1, 0.2], ["3", "1", "b", "a"]),
        (["1990", "1980", "-5", "0.5"], [0.0, 0.1, 0.1, 0.1], ["1980", "-5", "0.5", "1990"]),
        (["2", "1", "0"], [0.5, 0.5], ["2", "1"]),  # only some have a probability
    ],
)
def test_labels_of_digits_keep_their_order(tmp_path, labels, values, expected):
    given = {"labels": labels, "probabilities": dict(zip(labels, values, strict=False))}
    assert run_node(tmp_path / "node", RANKED, given) == expected
