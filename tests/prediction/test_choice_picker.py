"""The picked continuation, compared with the trained network."""

import numpy as np
import pytest
from fine_tuned_models import randomise, small_config, write_fine_tuned
from known_models import ID
from reference_bert import softmax

from bert_keras.modeling import MultipleChoiceModel
from bert_keras.prediction import Choice, ChoicePicker

pytestmark = pytest.mark.usefixtures("no_graphs")


@pytest.fixture(scope="module")
def model():
    return randomise(MultipleChoiceModel(small_config(num_hidden_layers=1)), seed=2)


def expected(model, text, choices):
    """Returns the probabilities of a plain call on the choices, padded to one length."""
    rows = [["[CLS]", *text.split(), "[SEP]", *choice.split(), "[SEP]"] for choice in choices]
    features = {name: np.zeros((1, len(rows), 16), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    for number, row in enumerate(rows):
        features["input_ids"][0, number, : len(row)] = [ID[token] for token in row]
        features["input_mask"][0, number, : len(row)] = 1
        features["segment_ids"][0, number, len(text.split()) + 2 : len(row)] = 1
    return softmax(np.asarray(model(features)["logits"], np.float64)[0])


def test_probabilities_are_those_of_the_trained_model(model, tmp_path, messages):
    pick = ChoicePicker(write_fine_tuned(tmp_path, model, "multiple_choice", max_seq_length=16))
    messages.clear()
    questions = [
        ("he was hungry", ["so he ate .", "paris is the capital", "a"]),
        ("paris is", ["a b", "c d"]),
        ("she was", ["a", "b", "c", "d", "e"]),
    ]
    answers = pick(questions)
    for answer, (text, choices) in zip(answers, questions, strict=True):
        probabilities = expected(model, text, choices)
        assert answer == Choice(
            text, choices, int(probabilities.argmax()), pytest.approx(probabilities.tolist(), abs=1e-5)
        )
    pick(("he was", ["a " * 20, "b"]))
    assert messages == [
        "choices, each with its text, longer than the model takes (max_seq_length=16) lost their ends: 1"
    ]
