"""Question answering in a graph equals `QuestionAnswerer` where one window is enough."""

import numpy as np
import pytest
from fine_tuned_models import OF_ANSWERS, random_answerer, word_finder
from hypothesis import example, given, settings
from hypothesis import strategies as st
from known_models import TOKENS
from reference_tokenizer import odd_text
from tiny_exports import open_both

from bert_keras.storage.text_files import is_blank


@pytest.fixture(scope="module")
def open_answerer(tmp_path_factory, tokenizer):
    """Opens a SquadModel in both forms."""
    return lambda model: open_both(tmp_path_factory.mktemp("run"), model, "question_answering", tokenizer, **OF_ANSWERS)


@pytest.fixture(scope="module")
def version_1(open_answerer):
    return open_answerer(random_answerer(seed=6))


@pytest.fixture(scope="module")
def version_2(version_1):
    """The same model, which finds no answer in half of the texts."""
    both = version_1.changed(version_2_with_negative=True)
    odds = np.sort(both.ask(*PAIRS)["null_odds"])
    return both.changed(is_traced=True, null_score_diff_threshold=float(odds[3:5].mean()))


@pytest.fixture(scope="module")
def word_knower(open_answerer):
    """A model that answers from "paris" to "capital", and has an answer for "no answer"."""
    return open_answerer(word_finder({"paris": 5, "[CLS]": 1}, {"capital": 5, "[CLS]": 1}))


PAIRS = [
    ("where is he", "he was hungry, so he ate."),
    ("who", "Paris"),
    ("a b c d e f", "she walks the walk,\n so\u3000she  walked a b c"),
    ("Zoë\u0301?", "e\u0301 \u200bPA\u200bRIS\u200b, she首都a \U0001f4a9 \u0130 \ufffd!"),
    ("?", "the capital of france " * 3 + "is paris a b"),
    ("\u200b", "the capital"),
    ("the capital", "\u200b"),
    ("\u200b", "\u200b"),
    ("", "paris is the capital of france"),
    ("who", ""),
    ("", ""),
]


@pytest.mark.parametrize("version", ["version_1", "version_2"])
def test_answers_are_those_of_python(version, request):
    both = request.getfixturevalue(version)
    found = both.check(*PAIRS)
    answered = ~found["is_impossible"]
    for row, (_, context) in enumerate(PAIRS):
        if is_blank(context):
            assert (found["answer"][row], found["start"][row], found["end"][row]) == (b"", -1, -1)
    assert answered.sum() == (7 if version == "version_1" else 4)
    assert version == "version_2" or found["score"][~answered].tolist() == [0, 0, 0, 0]
    alone = both.check(PAIRS[2])
    for name, values in alone.items():
        assert values[0] == (pytest.approx(found[name][2], abs=1e-5) if name == "score" else found[name][2])
    assert both.ask()["answer"].shape == (0,)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"version_2_with_negative": True},
        {"n_best_size": 3},
    ],
)
def test_any_place_of_a_text_may_begin_an_answer_of_other_libraries(version_1, changes):
    """With few places, some of these texts have no answer, because the best places are in the question."""
    few = {"n_best_size": 1, **changes}
    found = version_1.changed(**few, use_all_places=True).check(*PAIRS)
    assert found["answer"].tolist() != version_1.changed(**few).check(*PAIRS)["answer"].tolist()


def test_one_candidate_is_no_answer_if_its_score_is_higher_than_that_of_any_place(word_knower):
    changes = {"version_2_with_negative": True, "null_score_diff_threshold": 100.0, "n_best_size": 1}
    both = word_knower.changed(**changes, use_all_places=True)
    found = both.check(("who", "he was hungry"), ("who", "paris is the capital"))
    assert found["answer"].tolist() == [b"", b"paris is the capital"]


words = st.lists(st.sampled_from([token for token in TOKENS[5:] if token[0] != "#"]), max_size=5).map(" ".join)


@settings(max_examples=30)
@given(st.lists(st.tuples(words, words | st.tuples(odd_text, words).map("".join)), min_size=1, max_size=4))
@example([("who", "\u302e\ufe20 paris\u0301")])
def test_answers_to_odd_texts_are_those_of_python(version_2, pairs):
    fitting = [pair for pair in pairs if len(version_2.live.tokenizer.encode(pair[1])) <= 16]
    assert not version_2.check(*fitting)["is_cut"].any()


def test_the_first_of_equal_answers_is_taken(open_answerer):
    low = {"[PAD]": -1}
    both = open_answerer(
        word_finder({"paris": 5, "the": 5, "[SEP]": 5, **low}, {"france": 6, "capital": 6, "[CLS]": 6, **low})
    )
    found = both.check(
        ("a", "so paris france paris france"),
        ("a", "the is capital paris capital"),
        ("a", "a a a a"),
        ("a", "capital a the"),
        ("paris france", "a b"),
    )
    assert found["answer"].tolist() == [b"paris france", b"the is capital", b"a", b"capital", b"a"]
    assert found["start"].tolist() == [3, 0, 0, 0, 0]


@pytest.mark.parametrize("n_best_size", [1, 40])
def test_as_many_places_as_in_python_compete(word_knower, n_best_size):
    for has_null in (False, True):
        both = word_knower.changed(n_best_size=n_best_size, version_2_with_negative=has_null)
        both.check(("a", "b c d e f"), ("a", "b paris c france"), ("paris", "b c france"), ("b", "a a b"), ("b", "is"))


@pytest.mark.parametrize(("threshold", "answer"), [(-60.0, b""), (-50.0, b"paris is the capital")])
def test_the_stored_threshold_decides_when_there_is_no_answer(word_knower, threshold, answer):
    both = word_knower.changed(version_2_with_negative=True, null_score_diff_threshold=threshold)
    found = both.check(("where", "he is so paris is the capital"))
    # A normalised one-hot row of 40 numbers has sqrt(39) at the one and -1 / sqrt(39) elsewhere.
    one, other = np.sqrt(39), -1 / np.sqrt(39)
    null, best = 2 * (one + 5 * other), 2 * (5 * one + other)
    assert found["answer"].tolist() == [answer]
    assert found["null_odds"][0] == pytest.approx(null - best, abs=1e-3)
    assert found["score"][0] == pytest.approx(best if answer else null, abs=1e-3)
    nothing = both.ask(("where", ""))
    assert nothing["null_odds"].tolist() == [1_000_000]
    assert nothing["is_impossible"].tolist() == [True]


def test_a_long_context_is_cut(version_1, version_2):
    context = "he was Hungry, so\u200b she ate. paris is the capital of france a b c d e f g h i j k"
    pieces = version_1.live.tokenizer.tokenize_with_offsets(context)
    for both in (version_1, version_2):
        for question, num_shown in (("who", 20), ("a b c d e f g h", 15), ("", 21)):
            found = both.ask((question, context), ("who", "paris"))
            assert found["is_cut"].tolist() == [True, False]
            shown = context[: pieces[num_shown - 1][2]]
            cut = both.ask((question[:11], shown))
            assert cut["is_cut"].tolist() == [False]
            for name in ("answer", "start", "end", "is_impossible"):
                assert found[name][0] == cut[name][0]
            np.testing.assert_allclose(found["score"][0], cut["score"][0], atol=1e-5)
    assert version_1.ask(("a b c d e f g", "paris"))["is_cut"].tolist() == [True]
    assert version_1.ask(("a b c d e f", "walks " * 7 + "a"))["is_cut"].tolist() == [False]
    assert version_1.ask(("a b c d e f", "walks " * 8))["is_cut"].tolist() == [True]


def test_what_is_not_utf8_is_dropped(version_1):
    dirty = (b"w\xffho\xe2\x82", b"\xf0\x9f he w\xc3as hu\xffngry \xe2\x82\xac, so\xed\xa0\x80 h\xe2")
    clean = tuple(text.decode("utf-8", "ignore") for text in dirty)
    found, expected = version_1.ask(dirty), version_1.check(clean)
    assert found == expected
    assert clean[1][found["start"][0] : found["end"][0]] == found["answer"][0].decode() != ""


def test_an_answer_is_a_substring_of_the_text_whatever_the_training_was_told(word_knower):
    both = word_knower.changed(answer_text="release")
    pair = ("where", "it is Paris,\n the  Capital")
    assert both.check(pair)["answer"].tolist() == [b"Paris,\n the  Capital"]
    assert both.live(pair).text == "Paris, the Capital"


def test_settings_without_room_for_a_context_are_refused(version_1):
    with pytest.raises(ValueError, match=r"^max_seq_length=24 leaves no room for a text after max_query_length=21 "):
        version_1.changed(max_query_length=21)
