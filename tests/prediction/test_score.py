"""The pseudo-log-likelihood of a text is the sum over its tokens, each masked in turn."""

import math

import numpy as np
import pytest
from known_models import (
    ID,
    KNOWN_PROBABILITY,
    TOKENS,
    constant_model,
    ids_of,
    plain_call,
    positional_model,
    random_model,
    write_model,
)

from bert_keras.prediction import SentenceScorer


@pytest.fixture(scope="module")
def random(tmp_path_factory):
    model = random_model(seed=5)
    return model, write_model(tmp_path_factory.mktemp("random"), model)


def expected_score(model, tokens, place):
    """Returns the log-probability of one of the tokens by a plain call that masks only this token."""
    ids = ids_of(" ".join(["[CLS]", *tokens, "[SEP]"]))
    masked = [*ids[: place + 1], ID["[MASK]"], *ids[place + 2 :]]
    return plain_call(model, masked, position=place + 1)[0][ids[place + 1]]


def test_a_score_is_the_sum_of_its_pieces(tmp_path):
    folder = write_model(tmp_path, constant_model({"paris": 0.5, "walk": 0.25, "##ing": 0.125}))
    answer = SentenceScorer(folder)("Walking Paris paris")
    assert answer.text == "Walking Paris paris"
    assert [score.token for score in answer.tokens] == ["walk", "##ing", "paris", "paris"]
    assert [score.log_probability for score in answer.tokens] == pytest.approx(
        [math.log(0.25), math.log(0.125), math.log(0.5), math.log(0.5)], abs=1e-5
    )
    assert answer.log_probability == pytest.approx(-7 * math.log(2), abs=1e-5)
    assert answer.perplexity == pytest.approx(2 ** (7 / 4), abs=1e-5)


def test_each_piece_is_masked_at_its_own_place(tmp_path):
    # Position 0 is [CLS]; the model predicts a, b, c for positions 1, 2, 3.
    folder = write_model(tmp_path, positional_model(["p", "a", "b", "c"]))
    known, other = SentenceScorer(folder)(["a b c", "b a c"])
    assert known.log_probability == pytest.approx(3 * math.log(KNOWN_PROBABILITY), abs=1e-4)
    assert other.tokens[2].log_probability == pytest.approx(math.log(KNOWN_PROBABILITY), abs=1e-4)
    assert other.log_probability < known.log_probability - 12


def test_scores_are_those_of_plain_calls_without_padding(random):
    model, folder = random
    texts = ["paris is the capital of france .", "a", "he walk ##ed so", " ".join(TOKENS[5:19]) + " ."]
    answers = SentenceScorer(folder, batch_size=4)([text.replace(" ##", "") for text in texts])
    for answer, text in zip(answers, texts, strict=True):
        scores = [expected_score(model, text.split(), place) for place in range(len(text.split()))]
        assert [score.token for score in answer.tokens] == text.split()
        np.testing.assert_allclose([score.log_probability for score in answer.tokens], scores, atol=1e-4)
        assert answer.log_probability == pytest.approx(sum(scores), abs=1e-4)


def test_one_text_gives_one_answer_and_a_list_a_list(random):
    scorer = SentenceScorer(random[1])
    assert scorer("he").log_probability == pytest.approx(scorer(["he"])[0].log_probability, abs=1e-6)
    assert scorer([]) == []


def test_repeated_calls_do_not_trace_again(random):
    scorer = SentenceScorer(random[1], batch_size=5)
    for num_words in (1, 2, 7, 14):
        scorer("is " * num_words)
    assert scorer.num_traces == 1
    scorer(["is " * num_words for num_words in range(1, 39)])
    assert scorer.num_traces == 3


def test_many_texts_are_scored_in_order_in_groups(tmp_path):
    folder = write_model(tmp_path, constant_model({"a": 0.5}))
    answers = SentenceScorer(folder, batch_size=2)(["a " * (1 + number % 20) for number in range(60)])
    assert [round(-answer.log_probability / math.log(2)) for answer in answers] == [1 + n % 20 for n in range(60)]


def test_in_a_longer_text_each_piece_is_seen_through_its_own_window(random, messages):
    model, folder = random
    tokens = [TOKENS[5 + i * i % 14] for i in range(60)]
    answer = SentenceScorer(folder, long="window")(" ".join(tokens))
    assert [score.token for score in answer.tokens] == tokens
    for place, start in ((0, 0), (19, 0), (20, 1), (30, 11), (59, 22)):
        expected = expected_score(model, tokens[start : start + 38], place - start)
        assert answer.tokens[place].log_probability == pytest.approx(expected, abs=1e-4)
    assert "text 1 has 60 tokens, 22 more than the 38 that the model takes; it is read through windows" in messages


def test_a_long_text_is_asked_about_in_parts(random, monkeypatch):
    scorer = SentenceScorer(random[1], long="window", batch_size=1)
    texts = [" ".join(TOKENS[5 + i * i % 14] for i in range(number)) for number in (3, 80, 1, 20)]
    expected = [scorer(text) for text in texts]
    asked = []
    answer = scorer.network.answer
    monkeypatch.setattr(
        scorer.network, "answer", lambda questions: (asked.append(len(questions)), answer(questions))[1]
    )
    assert scorer(texts) == expected
    # The first group has one text, the second two, and the third the rest.
    assert asked == [3, 32, 32, 17, 20]
    asked.clear()
    assert [len(text.tokens) for text in scorer([texts[2]] * 64)] == [1] * 64
    assert asked == [1, 2, 4, 8, 16, 32, 1]


def test_of_a_longer_text_the_beginning_is_scored(random, messages):
    model, folder = random
    tokens = [TOKENS[5 + i % 14] for i in range(50)]
    answer = SentenceScorer(folder, long="truncate")(" ".join(tokens))
    assert [score.token for score in answer.tokens] == tokens[:38]
    for place in (0, 20, 37):
        expected = expected_score(model, tokens[:38], place)
        assert answer.tokens[place].log_probability == pytest.approx(expected, abs=1e-4)
    assert "text 1 has 50 tokens, 12 more than the 38 that the model takes; only the first 38 are used" in messages


def test_unknown_words_are_told(random, messages):
    [token] = SentenceScorer(random[1])("zebra").tokens
    assert token.token == "[UNK]"
    assert "text 1: 1 of its 1 tokens are unknown; they are scored as [UNK]" in messages


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "^text 2 has no word; give a text to score$"),
        (" \x00\t", "^text 2 has no word; give a text to score$"),
        ("[MASK]", r"^text 2 has a \[MASK\], but only complete texts can be scored; replace it with"),
        ("is " * 39, "^text 2 has 39 tokens, 1 more than the 38 that the model takes; make it shorter"),
        (b"is", "^text 2 is of type bytes, but a str is needed$"),
    ],
)
def test_what_has_no_score_is_refused_before_any_is_scored(random, text, message):
    scorer = SentenceScorer(random[1])
    with pytest.raises(ValueError, match=message):
        scorer(["is", text])
    assert scorer.num_traces == 0
