"""The check of a SavedModel compares its scores with the network in float32, in every precision."""

import numpy as np
import pytest
from fine_tuned_models import random_classifier

from bert_keras.export.checks import self_check
from bert_keras.export.checks.against_python import LiveComparison
from bert_keras.export.checks.self_check import check_saved_model
from bert_keras.export.formats.networks import IdsNetwork

TEXTS = {"text": np.array([b"he was hungry", b"paris"], object)}


class Answer:
    """A tensor with the attributes that the check uses."""

    def __init__(self, value):
        self._value = np.array(value)

    def numpy(self):
        return self._value


class EvenText:
    """A text model whose answer many other models would also give."""

    settings = {"task": "classification"}

    @staticmethod
    def answer(texts):
        num_rows = len(texts["text"])
        return {"probabilities": Answer([[0.5, 0.5]] * num_rows), "is_cut": Answer([False] * num_rows)}


@pytest.mark.parametrize("quantize", [None, "bfloat16"])
def test_scores_of_another_network_are_found_where_its_answers_are_alike(monkeypatch, quantize):
    network, other = (IdsNetwork(random_classifier(2, seed, num_hidden_layers=1), "classification") for seed in (0, 1))
    scores_of = network

    def run(folder, calls):
        answers = [
            EvenText.answer(inputs) if name == "serving_default" else scores_of(inputs) for name, inputs in calls
        ]
        return [{name: value.numpy() for name, value in answer.items()} for answer in answers], 0.5

    monkeypatch.setattr(self_check, "run_in_fresh_process", run)
    monkeypatch.setattr(self_check, "compare_with_live", lambda *arguments: LiveComparison(0.0, 2, 0))
    found = check_saved_model("1", EvenText, network, None, TEXTS, quantize)
    assert (found.distance, found.text, found.num_texts, found.num_live) == (0.0, 0.0, 2, 2)
    scores_of = other
    with pytest.raises(ValueError, match="^ids in a new process: logits"):
        check_saved_model("1", EvenText, network, None, TEXTS, quantize)
