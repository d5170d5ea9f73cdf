"""The picked continuation, compared with the trained network."""

import numpy as np
import pytest
from fine_tuned_models import randomise, small_config, write_fine_tuned
from known_models import ID
from reference_bert import softmax

from bert_keras.modeling import MultipleChoiceModel, weights_by_name
from bert_keras.prediction import Choice, ChoicePicker


@pytest.fixture(scope="module")
def model():
    return randomise(MultipleChoiceModel(small_config()), seed=2)


@pytest.fixture(scope="module")
def pick(model, tmp_path_factory):
    return ChoicePicker(write_fine_tuned(tmp_path_factory.mktemp("run"), model, "multiple_choice", max_seq_length=16))


def expected(model, text, choices):
    """Returns the probabilities of a plain call on the choices, padded to one length."""
    rows = [["[CLS]", *text.split(), "[SEP]", *choice.split(), "[SEP]"] for choice in choices]
    features = {name: np.zeros((1, len(rows), 16), np.int32) for name in ("input_ids", "input_mask", "segment_ids")}
    for number, row in enumerate(rows):
        features["input_ids"][0, number, : len(row)] = [ID[piece] for piece in row]
        features["input_mask"][0, number, : len(row)] = 1
        features["segment_ids"][0, number, len(text.split()) + 2 : len(row)] = 1
    return softmax(np.asarray(model(features)["logits"], np.float64)[0])


def test_probabilities_are_those_of_the_model_that_was_trained(model, pick):
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
    assert pick(questions[1]).probabilities == pytest.approx(answers[1].probabilities, abs=1e-6)
    assert pick([]) == []


@pytest.mark.parametrize(
    ("question", "message"),
    [
        ("he was", "^text 1 is 'he was', but a text and a list of two or more choices are needed$"),
        (("he was", "so"), "^text 1 is .* but a text and a list of two or more choices are needed$"),
        (("he was", ["so"]), "^text 1 is .* but a text and a list of two or more choices are needed$"),
        (("", ["a", "b"]), "^text 1 has no word in its text; give a text$"),
        (("he", ["a", " "]), "^text 1 has no word in its choice 2; give a choice 2$"),
    ],
)
def test_what_is_no_question_is_refused(pick, question, message):
    with pytest.raises(ValueError, match=message):
        pick(question)


def test_scores_that_are_no_numbers_are_refused(tmp_path):
    model = MultipleChoiceModel(small_config())
    weights_by_name(model)["output_bias"].assign([np.inf])
    pick = ChoicePicker(write_fine_tuned(tmp_path, model, "multiple_choice", max_seq_length=16))
    with pytest.raises(ValueError, match="^text 1: the scores of the model are not finite numbers"):
        pick(("he", ["a", "b"]))
