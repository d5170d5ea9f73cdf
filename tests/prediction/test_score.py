"""The pseudo-log-likelihood of a text is the sum over its tokens, each masked in turn."""

import json
import math
import sys

import numpy as np
import pytest
from known_models import (
    ID,
    TOKENS,
    constant_model,
    ids_of,
    plain_call,
    plain_calls,
    random_model,
    write_model,
)

from bert_keras.modeling import weights_by_name
from bert_keras.prediction import FeatureExtractor, FillMask, SentenceScorer
from bert_keras.tasks.pretraining import sentence_score


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model(seed=5, num_hidden_layers=1)
    return model, write_model(tmp_path_factory.mktemp("random"), model)


def expected_scores(model, tokens, ends=None):
    """Returns the log-probability of each token by a plain call without padding.

    Each sequence masks one token, or all from it to before its place in `ends`.
    """
    ids = ids_of(" ".join(["[CLS]", *tokens, "[SEP]"]))
    rows = []
    for place, end in enumerate(ends or range(1, len(tokens) + 1)):
        rows.append([*ids[: place + 1], *[ID["[MASK]"]] * (end - place), *ids[end + 1 :]])
    places = range(1, len(tokens) + 1)
    found, _ = plain_calls(model, rows, np.zeros_like(rows), places)
    return [row[ids[place]] for row, place in zip(found, places, strict=True)]


@pytest.mark.usefixtures("no_graphs")
def test_a_score_is_the_sum_over_its_tokens(tmp_path):
    folder = write_model(tmp_path, constant_model({"paris": 0.5, "walk": 0.25, "##ing": 0.125}))
    answer = SentenceScorer(folder)("Walking Paris paris")
    assert answer.text == "Walking Paris paris"
    assert [score.token for score in answer.tokens] == ["walk", "##ing", "paris", "paris"]
    assert [score.log_probability for score in answer.tokens] == pytest.approx(
        [math.log(0.25), math.log(0.125), math.log(0.5), math.log(0.5)], abs=1e-5
    )
    assert answer.log_probability == pytest.approx(-7 * math.log(2), abs=1e-5)
    assert answer.perplexity == pytest.approx(2 ** (7 / 4), abs=1e-5)


@pytest.mark.usefixtures("no_graphs")
def test_scores_are_those_of_plain_calls_without_padding(random):
    model, folder = random
    texts = ["paris is the capital of france .", "a", "he walk ##ed so", " ".join(TOKENS[5:19]) + " ."]
    scorer = SentenceScorer(folder, batch_size=4)
    answers = scorer([text.replace(" ##", "") for text in texts])
    for answer, text in zip(answers, texts, strict=True):
        scores = expected_scores(model, text.split())
        assert [score.token for score in answer.tokens] == text.split()
        np.testing.assert_allclose([score.log_probability for score in answer.tokens], scores, atol=1e-4)
        assert answer.log_probability == pytest.approx(sum(scores), rel=1e-5)


@pytest.mark.usefixtures("no_graphs")
@pytest.mark.parametrize(
    ("long", "num_scored", "start_by_place", "told"),
    [
        ("window", 60, {0: 0, 19: 0, 20: 1, 30: 11, 59: 22}, "it is read through windows"),
        ("truncate", 38, {0: 0, 20: 0, 37: 0}, "only the first 38 are used"),
    ],
)
def test_longer_texts(random, messages, long, num_scored, start_by_place, told):
    model, folder = random
    tokens = [TOKENS[5 + i * i % 14] for i in range(60)]
    answer = SentenceScorer(folder, long=long)(" ".join(tokens))
    assert [score.token for score in answer.tokens] == tokens[:num_scored]
    windows = {start: expected_scores(model, tokens[start : start + 38]) for start in set(start_by_place.values())}
    for place, start in start_by_place.items():
        assert answer.tokens[place].log_probability == pytest.approx(windows[start][place - start], abs=1e-4)
    assert f"text 1 has 60 tokens, 22 more than the 38 that the model takes; {told}" in messages


def test_a_long_text_is_scored_in_parts(random, monkeypatch):
    scorer = SentenceScorer(random[1], long="window", batch_size=1)
    texts = [" ".join(TOKENS[5 + i * i % 14] for i in range(number)) for number in (3, 80, 1, 20)]
    expected = [scorer(text) for text in texts]
    asked = []
    answer = scorer.network.answer_by_length
    monkeypatch.setattr(
        scorer.network,
        "answer_by_length",
        lambda questions, *rest: (asked.append(len(questions)), answer(questions, *rest))[1],
    )
    assert scorer(texts) == expected
    assert asked == [32, 32, 32, 8]
    asked.clear()
    assert [*scorer.pipe(texts)] == expected
    # To answer soon, the first group has one text, the second two, and the third the rest.
    assert asked == [3, 32, 32, 17, 20]
    asked.clear()
    assert [len(text.tokens) for text in scorer.pipe([texts[2]] * 64)] == [1] * 64
    assert asked == [1, 2, 4, 8, 16, 32, 1]


@pytest.mark.usefixtures("no_graphs")
def test_unknown_words_are_logged(random, messages):
    [token] = SentenceScorer(random[1])("zebra").tokens
    assert token.token == "[UNK]"
    assert "text 1: 1 of its 1 tokens are unknown; they are scored as [UNK]" in messages


@pytest.mark.usefixtures("no_graphs")
def test_an_improbable_text_has_a_finite_perplexity(tmp_path):
    model = constant_model({})
    weights_by_name(model)["cls/predictions/output_bias"].assign([1e4] + [0.0] * (len(TOKENS) - 1))
    answer = SentenceScorer(write_model(tmp_path, model))("he was")
    assert answer.log_probability == pytest.approx(-2e4)
    assert answer.perplexity == pytest.approx(sys.float_info.max)
    json.dumps(answer.perplexity, allow_nan=False)


@pytest.mark.usefixtures("no_graphs")
def test_within_word_l2r_masks_the_rest_of_the_word(random):
    """Each token is scored with the later tokens of its word masked (Kauf and Ivanova 2023), by plain calls."""
    model, folder = random
    tokens = ["he", "walk", "##ed", "##s", "so", "##ing", "."]
    ends = [1, 4, 4, 4, 6, 6, 7]
    expected = expected_scores(model, tokens, ends)
    scorer = SentenceScorer(folder)
    text = "he walkeds soing ."
    within, original = scorer(text, pll="within_word_l2r"), scorer(text)
    assert [score.token for score in within.tokens] == tokens
    np.testing.assert_allclose([score.log_probability for score in within.tokens], expected, atol=1e-4)
    # The last token of a word has the same context in both.
    differences = np.abs(np.subtract(expected, [score.log_probability for score in original.tokens]))
    assert differences[[0, 3, 5, 6]].max() < 1e-4 < differences[[1, 2]].min()
    assert SentenceScorer(folder, pll="within_word_l2r")(text) == within


@pytest.mark.usefixtures("no_graphs")
def test_a_word_may_cross_the_end_of_a_window(random):
    model, folder = random
    tokens = ["he"] * 36 + ["walk", "##ed", "##s", "##ing"] + ["he"] * 10
    answer = SentenceScorer(folder, long="window", pll="within_word_l2r")("he " * 36 + "walkedsing" + " he" * 10)
    assert [score.token for score in answer.tokens] == tokens
    # Of 50 tokens, the window of token 36 begins at 12, and 17 is the first place with a window after the start.
    ids = ids_of(" ".join(["[CLS]", *tokens[12:], "[SEP]"]))
    masked = [*ids[:25], *[ID["[MASK]"]] * 4, *ids[29:]]
    expected = plain_call(model, masked, position=25)[0][ids[25]]
    assert answer.tokens[36].log_probability == pytest.approx(expected, abs=1e-4)


def test_an_unknown_way_to_mask_is_refused(random):
    with pytest.raises(ValueError, match='pll is "l2r", but must be one of original, within_word_l2r'):
        SentenceScorer(random[1], pll="l2r")


@pytest.fixture(scope="module")
def left_to_right(tmp_path_factory):
    model = random_model(seed=5, num_hidden_layers=1, is_decoder=True)
    return model, write_model(tmp_path_factory.mktemp("left_to_right"), model)


def expected_from_the_left(model, tokens, place):
    """Returns the log-probability of one of the tokens by a plain call that has a mask in its place, and no others."""
    ids = ids_of(" ".join(["[CLS]", *tokens[: place + 1]]))
    return plain_call(model, [*ids[:-1], ID["[MASK]"]], position=place)[0][ids[-1]]


@pytest.mark.usefixtures("no_graphs")
def test_from_left_to_right_a_text_needs_one_sequence(left_to_right):
    model, folder = left_to_right
    texts = ["paris is the capital of france .", "a", "he walk ##ed so", " ".join(TOKENS[5:19] * 2) + " ."]
    scorer = SentenceScorer(folder)
    answers = scorer([text.replace(" ##", "") for text in texts])
    assert scorer([text.replace(" ##", "") for text in texts], pll="within_word_l2r") == answers
    for answer, text in zip(answers, texts, strict=True):
        tokens = text.split()
        assert [score.token for score in answer.tokens] == tokens
        scores = [score.log_probability for score in answer.tokens]
        for place in range(0, len(tokens), 3):
            assert scores[place] == pytest.approx(expected_from_the_left(model, tokens, place), abs=1e-4)
        assert answer.log_probability == pytest.approx(sum(scores), rel=1e-5)
        assert len(scorer.sequences(text)[1]) == 1


@pytest.mark.usefixtures("no_graphs")
def test_from_left_to_right_windows_have_half_a_window_of_earlier_tokens(left_to_right, monkeypatch):
    model, folder = left_to_right
    tokens = [TOKENS[5 + i * i % 14] for i in range(60)]
    scorer = SentenceScorer(folder, long="window")
    answer = scorer(" ".join(tokens))
    # The model takes 38 tokens of a text, so each sequence scores 19.
    for place, start in {0: 0, 18: 0, 19: 0, 37: 0, 38: 19, 56: 19, 57: 22, 59: 22}.items():
        expected = expected_from_the_left(model, tokens[start:], place - start)
        assert answer.tokens[place].log_probability == pytest.approx(expected, abs=1e-4)
    assert len(scorer.sequences(" ".join(tokens))[1]) == 4
    # To bound memory, a text that fits is scored in parts, too.
    text = " ".join(tokens[:30])
    expected = [score.log_probability for score in scorer(text).tokens]
    monkeypatch.setattr(sentence_score, "_TOKENS_A_QUESTION", 7)
    assert len(scorer.sequences(text)[1]) == 5
    assert [score.log_probability for score in scorer(text).tokens] == pytest.approx(expected, abs=1e-5)


def test_other_predictors_refuse_a_model_that_reads_left_to_right(left_to_right):
    message = r"left_to_right0 reads left to right \(is_decoder in its config\), so "
    with pytest.raises(ValueError, match=rf"{message}it cannot fill in a \[MASK\]; give a model of masked LM"):
        FillMask(left_to_right[1])
    with pytest.raises(ValueError, match=rf"{message}the vector of \[CLS\] is the same for all texts; choose another"):
        FeatureExtractor(left_to_right[1], pooling="cls")
