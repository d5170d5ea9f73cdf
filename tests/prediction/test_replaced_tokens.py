"""The tokens of a text that a discriminator takes for replacements."""

import numpy as np
import pytest
from known_models import ids_of, random_model, randomise, small_config, write_model

from bert_keras.modeling import ReplacedTokenModel
from bert_keras.prediction import ReplacedTokenFinder

pytestmark = pytest.mark.usefixtures("no_graphs")

LONG = "a b c d e f g h i j k l m n o p a b c d e f g h i j k l m n o p a b c d e f g h i j"


@pytest.fixture(scope="module")
def model():
    return randomise(ReplacedTokenModel(small_config(num_hidden_layers=1)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory, model):
    return write_model(tmp_path_factory.mktemp("electra"), model)


def expected(model, text):
    """Returns the probabilities of the tokens of a text from a plain call."""
    ids = np.array([ids_of(f"[CLS] {text} [SEP]")], np.int32)
    logits = model({"input_ids": ids, "input_mask": np.ones_like(ids), "segment_ids": np.zeros_like(ids)})["logits"]
    return 1 / (1 + np.exp(-np.asarray(logits)[0, 1:-1]))


def test_answers_are_those_of_a_plain_call(model, folder):
    text = "he was hungry so he ate ."
    answer = ReplacedTokenFinder(folder)(text)
    assert [each.token for each in answer.tokens] == text.split()
    assert [each.probability for each in answer.tokens] == pytest.approx(expected(model, text), abs=1e-6)
    assert answer.readable().splitlines()[1] == f"  {answer.tokens[0].probability:.4f}  he"


def test_a_long_text_is_read_through_windows_with_context_on_both_sides(model, folder, messages):
    tokens, room = LONG.split(), 38
    answer = ReplacedTokenFinder(folder, long="window")(LONG)
    assert [each.token for each in answer.tokens] == tokens
    # Windows of 38 tokens answer for 19 each; the first and the last begin and end with the text.
    windows = [(0, 0, 19), (9, 19, 38), (4, 38, 42)]
    assert len(tokens) == 42
    places = [(min(first, len(tokens) - room), start, end) for first, start, end in windows]
    found = [
        value
        for first, start, end in places
        for value in expected(model, " ".join(tokens[first : first + room]))[start - first : end - first]
    ]
    assert [each.probability for each in answer.tokens] == pytest.approx(found, abs=1e-6)
    beginning = ReplacedTokenFinder(folder, long="truncate")(LONG)
    assert len(beginning.tokens) == room
    assert any("has 42 tokens" in line for line in messages)


def test_a_model_without_the_head_is_refused(tmp_path):
    with pytest.raises(ValueError, match="has no replaced-token head: it lacks cls/replaced_token/"):
        ReplacedTokenFinder(write_model(tmp_path / "bert", random_model(num_hidden_layers=1)))
