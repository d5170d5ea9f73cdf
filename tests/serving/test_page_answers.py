"""The answers that JavaScript makes of the outputs of a network, in Node."""

import pytest
from label_cases import LABEL_CASES, NAMES, PROBABILITIES, check_labels, logits_of_labels
from node import run_node

LABELS_OF = """
import { answer, optionsOf } from "./web_answers.js";

async function main({ labels, logits, options }) {
  const model = { settings: { task: "multi_label", labels } };
  const run = async () => ({ logits: { data: logits } });
  const encoded = { sequences: [{ tokens: [], segments: [] }] };
  const found = [];
  for (const given of options) found.push(await answer(model, { text: "he" }, encoded, optionsOf(model, given), run));
  return found;
}
"""

RANKED = """
import { ranked } from "./views.js";

async function main({ labels, probabilities }) {
  return ranked({ labels }, probabilities).map(([label]) => label);
}
"""


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_top_k_changes_only_the_probabilities(tmp_path, names):
    given = {"labels": names, "logits": logits_of_labels(), "options": [options for options, _, _ in LABEL_CASES]}
    for answer, case in zip(run_node(tmp_path / "node", LABELS_OF, given), LABEL_CASES, strict=True):
        check_labels(answer, names, case, is_ordered=names is NAMES["letters"])


@pytest.mark.parametrize(
    ("labels", "values", "expected"),
    [
        (["10", "9", "2"], [0.25, 0.25, 0.25], ["10", "9", "2"]),  # as in the model, not 2, 9, 10
        (["b", "3", "a", "1"], [0.1, 0.2, 0.1, 0.2], ["3", "1", "b", "a"]),
        (["1990", "1980", "-5", "0.5"], [0.0, 0.1, 0.1, 0.1], ["1980", "-5", "0.5", "1990"]),
        (NAMES["digits"], PROBABILITIES, ["2", "9", "01", "10"]),
        (["2", "1", "0"], [0.5, 0.5], ["2", "1"]),  # only some have a probability
    ],
)
def test_labels_of_digits_keep_their_order(tmp_path, labels, values, expected):
    given = {"labels": labels, "probabilities": dict(zip(labels, values, strict=False))}
    assert run_node(tmp_path / "node", RANKED, given) == expected
