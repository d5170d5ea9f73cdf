"""From logits to answers, compared with the original BERT's answers to the same logits and with plain definitions."""

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from reference_squad import answer_as_described, rows_as_described, text_as_described
from reference_tokenizer import odd_text

from bert_keras.data_prep.text.tokenization import BasicTokenizer, FullTokenizer
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.question_answering.squad import Passage, SquadExample, make_features
from bert_keras.tasks.question_answering.squad_answers import (
    AnswerSettings,
    answer_files,
    find_answers,
    project,
    report_unanswered,
)
from bert_keras.tasks.question_answering.squad_files import make_examples


@pytest.mark.parametrize("name", ["predict_v1", "predict_v2"])
def test_answers_equal_those_of_the_original(shared_dir, name):
    folder = shared_dir(f"golden/squad/{name}")
    meta = json.loads((folder / "meta.json").read_text())
    tokenizer = FullTokenizer(shared_dir("data/vocab/uncased.txt"), meta["do_lower_case"])
    path = str(folder / "input.json")
    examples = make_examples(read_articles(path), path, False, meta["version_2_with_negative"])
    lengths = [meta[key] for key in ("max_seq_length", "doc_stride", "max_query_length")]
    features = make_features(examples, tokenizer, *lengths, False)
    names = ("n_best_size", "max_answer_length", "version_2_with_negative", "null_score_diff_threshold")
    settings = AnswerSettings(**{key: meta[key] for key in names})
    with np.load(folder / "logits.npz") as logits:
        answers = find_answers(examples, features, logits["start_logits"], logits["end_logits"], tokenizer, settings)
    files = answer_files(answers)
    assert files["predictions.json"] == (folder / "predictions.json").read_text()
    nbest, expected = (
        json.loads(text) for text in (files["nbest_predictions.json"], (folder / "nbest_predictions.json").read_text())
    )
    assert list(nbest) == list(expected)
    for question_id, entries in expected.items():
        for ours, entry in zip(nbest[question_id], entries, strict=True):
            assert list(ours) == list(entry)
            assert ours.pop("text") == entry.pop("text")
            np.testing.assert_allclose(list(ours.values()), list(entry.values()), atol=1e-6, rtol=0)
    null_odds = folder / "null_odds.json"
    assert files.get(null_odds.name) == (null_odds.read_text() if meta["version_2_with_negative"] else None)


def test_answers_follow_their_definition(odd_tokenizer):
    # Few distinct logits, to get many ties.
    @given(
        st.lists(odd_text, max_size=6).map(" ".join),
        st.integers(1, 9),
        st.integers(1, 6),
        st.booleans(),
        st.integers(-3, 3),
        st.integers(0, 2**32 - 1),
        st.integers(1, 5),
    )
    def check(context, n_best_size, max_answer_length, version_2_with_negative, threshold, seed, num_logits):
        settings = AnswerSettings(n_best_size, max_answer_length, version_2_with_negative, threshold)
        example = SquadExample("q1", "un", Passage(context))
        lengths = (12, 3, 2)
        features = make_features([example], odd_tokenizer, *lengths, False)
        random = np.random.default_rng(seed)
        logits = random.integers(-num_logits, num_logits, (2, *features["input_ids"].shape)).astype(np.float32) / 2
        [answer] = find_answers([example], features, *logits, odd_tokenizer, settings)
        rows, _, _ = rows_as_described(example, odd_tokenizer, *lengths)
        text, entries, odds, has_none = answer_as_described(
            example, rows, *logits.tolist(), odd_tokenizer.basic_tokenizer, settings
        )
        assert (answer.text, answer.null_odds, answer.best is None) == (text, odds, has_none)
        assert [entry[0] for entry in entries] == [candidate.text for candidate in answer.candidates]
        found = [(entry.probability, entry.start_logit, entry.end_logit) for entry in answer.candidates]
        np.testing.assert_allclose(found, [entry[1:] for entry in entries], rtol=1e-12)

    check()


# The text of an answer.


@given(odd_text, odd_text, st.booleans(), st.data())
def test_the_text_of_an_answer_follows_its_definition(text, other, do_lower_case, data):
    basic_tokenizer = BasicTokenizer(do_lower_case)
    original = " ".join(Passage(text).words)
    tokenized = " ".join(basic_tokenizer.tokenize(original))
    if tokenized and data.draw(st.booleans()):
        start = data.draw(st.integers(0, len(tokenized) - 1))
        other = tokenized[start : data.draw(st.integers(start + 1, len(tokenized)))]
    piece_text = " ".join(other.split())
    place = project(piece_text, original, basic_tokenizer)
    expected = text_as_described(piece_text, original, basic_tokenizer)
    assert (original if place is None else original[slice(*place)]) == expected


@pytest.mark.parametrize(
    ("piece_text", "original", "text"),
    [
        ("steve smith", "Steve Smith's", "Steve Smith"),
        ("cafe", "Caf\u00e9,", "Caf\u00e9"),
        ("1895", "(1895\u20131943).", "1895"),
        ("50 %", "50%", "50%"),
        ("abc", "ab c", None),
        ("is", "\u0130s", "\u0130s"),
        ("smith", "Smith Smith", "Smith"),
        ("cafe", "cafe\u0301", None),
        ("", "ab", None),
    ],
)
def test_texts_of_answers(piece_text, original, text):
    place = project(piece_text, original, BasicTokenizer())
    assert (place and original[slice(*place)]) == text
    assert piece_text != "smith" or place == (0, 5)


# Choosing among spans, with a worked example: context aa bb cc dd, question who.


@pytest.fixture(scope="module")
def words_tokenizer(tmp_path_factory):
    vocab_file = tmp_path_factory.mktemp("vocab") / "vocab.txt"
    vocab_file.write_text("[PAD]\n[UNK]\n[CLS]\n[SEP]\nwho\naa\nbb\ncc\ndd\n##x\nsmith\njo\n##e\ne\n##\n")
    return FullTokenizer(vocab_file)


@pytest.fixture
def answer(words_tokenizer):
    """Return a function that answers a question from the given nonzero logits by position, in windows of 16."""

    def find(starts, ends, context="aa bb cc dd", **settings):
        example = SquadExample("q1", "who", Passage(context))
        features = make_features([example], words_tokenizer, 16, 3, 4, False)
        logits = np.zeros((2, *features["input_ids"].shape), np.float32)
        for side, values in zip(logits, (starts, ends), strict=True):
            for position, value in values.items():
                side[0, position] = value
        settings = AnswerSettings(**{"n_best_size": 3, "max_answer_length": 5, **settings})
        return find_answers([example], features, *logits, words_tokenizer, settings)[0]

    return find


WORKED = ({0: 1, 1: 9, 3: 4}, {0: 1.5, 3: 2, 4: 3})


def test_the_worked_example_of_version_1(answer):
    found = answer(*WORKED)
    assert found.text == "aa bb"
    assert found.null_odds is None
    assert [(entry.text, entry.start, entry.end) for entry in found.candidates] == [("aa bb", 0, 5), ("aa", 0, 2)]
    assert [entry.probability for entry in found.candidates] == pytest.approx([0.7310586, 0.2689414], abs=1e-7)


def test_the_worked_example_of_version_2(answer):
    found = answer(*WORKED, version_2_with_negative=True)
    assert found.text == "aa bb"
    assert found.null_odds == -4.5
    assert [entry.text for entry in found.candidates] == ["aa bb", "aa", ""]
    assert found.candidates[2].probability == pytest.approx(0.0080559, abs=1e-7)
    below = answer(*WORKED, version_2_with_negative=True, null_score_diff_threshold=-10)
    assert (below.text, below.best.text, below.null_odds) == ("", "aa bb", -4.5)
    assert answer(*WORKED, version_2_with_negative=True, null_score_diff_threshold=-4.5).text == "aa bb"


def test_the_files_have_the_form_of_the_original(answer):
    found = answer({3: 1, 4: 1}, {3: 1, 4: 1}, "\u00e9 bb", version_2_with_negative=True, n_best_size=1)
    files = answer_files([found])
    assert files["predictions.json"] == '{\n    "q1": "\\u00e9"\n}\n'
    assert files["null_odds.json"] == '{\n    "q1": -2.0\n}\n'
    assert files["nbest_predictions.json"].startswith('{\n    "q1": [\n        {\n            "text": "\\u00e9",\n')
    assert [entry["probability"] for entry in json.loads(files["nbest_predictions.json"])["q1"]] == (
        pytest.approx([0.8807971, 0.1192029])
    )


# Cases in which the original BERT stops with an error.


def test_without_a_span_there_is_no_answer(answer, messages):
    # The best starts come after the best ends.
    found = answer({6: 9, 5: 8}, {3: 9, 4: 8}, n_best_size=2, version_2_with_negative=True)
    assert (found.text, found.best, found.null_odds) == ("", None, 1000000.0)
    assert [(entry.text, entry.probability) for entry in found.candidates] == [("", 1.0)]
    report_unanswered([found, answer(*WORKED, version_2_with_negative=True), found])
    told = [message for message in messages if "no valid span" in message]
    assert told == ['2 of 3 questions have no valid span; their answer is ""']
    settings = {"n_best_size": 2, "version_2_with_negative": True, "null_score_diff_threshold": 2e6}
    assert answer({6: 9, 5: 8}, {3: 9, 4: 8}, **settings).text == ""


def test_without_a_span_version_1_answers_empty(answer, messages):
    found = answer({6: 9, 5: 8}, {3: 9, 4: 8}, n_best_size=2)
    assert (found.text, found.best, found.null_odds) == ("empty", None, None)
    assert [(entry.text, entry.probability, entry.start_logit) for entry in found.candidates] == [("empty", 1.0, 0.0)]
    report_unanswered([answer(*WORKED)])
    report_unanswered([found])
    told = [message for message in messages if "no valid span" in message]
    assert told == ['1 of 1 questions have no valid span; their answer is "empty", as in the original BERT']


@pytest.mark.parametrize("broken", [np.nan, np.inf, -np.inf])
def test_logits_that_are_not_finite(answer, broken):
    with pytest.raises(ValueError, match='1 of the 32 logits of question "q1" are not finite: the weights of the mod'):
        answer({2: broken}, {})


def test_logits_of_other_windows(words_tokenizer):
    example = SquadExample("q1", "who", Passage("aa"))
    features = make_features([example], words_tokenizer, 16, 3, 4, False)
    message = r"the logits have the shapes \(1, 15\) and \(1, 15\), but the windows have \(1, 16\)"
    with pytest.raises(ValueError, match=message):
        find_answers([example], features, *np.zeros((2, 1, 15)), words_tokenizer, AnswerSettings())


# The text, located by its position in the passage.


def test_texts_by_offsets(answer):
    context = "Smith,  Smith\nJoe"
    # [CLS] who [SEP] smith [UNK] smith jo ##e [SEP]
    for text in ("release", "offsets"):
        found = answer({5: 9}, {7: 9}, context, answer_text=text, n_best_size=1)
        assert (found.best.start, found.best.end) == (8, 17)
    assert found.text == "Smith\nJoe"
    assert answer({5: 9}, {7: 9}, context, n_best_size=1).text == "Smith Joe"
    # For the tokens e and ##e the original finds the second e in place of the first.
    places = {}
    for text in ("release", "offsets"):
        best = answer({4: 9}, {4: 9}, "Ee", answer_text=text, n_best_size=1).best
        places[text] = (best.text, best.start, best.end)
    assert places == {"release": ("E", 0, 1), "offsets": ("e", 1, 2)}


def test_a_text_that_the_original_does_not_find(answer, messages):
    # The tokenizer drops a combining accent, so characters cannot be matched by counting.
    context = "jo\u0301e, bb"
    found = answer({3: 9}, {4: 9}, context, n_best_size=1, verbose_logging=True)
    assert (found.text, found.best.start, found.best.end) == ("jo\u0301e,", 0, 5)
    assert messages[-1] == '"joe" is not in "jo\u0301e,", so all of this text is the answer'
    found = answer({3: 9}, {4: 9}, context, n_best_size=1, answer_text="offsets")
    assert (found.text, found.best.start, found.best.end) == ("jo\u0301e", 0, 4)


def test_offsets_are_those_of_the_text(odd_tokenizer):
    @given(
        st.lists(odd_text, max_size=6).map(" ".join), st.integers(0, 2**32 - 1), st.sampled_from(["release", "offsets"])
    )
    def check(context, seed, answer_text):
        example = SquadExample("q1", "un", Passage(context))
        features = make_features([example], odd_tokenizer, 12, 3, 2, False)
        logits = np.random.default_rng(seed).normal(size=(2, *features["input_ids"].shape))
        [answer] = find_answers([example], features, *logits, odd_tokenizer, AnswerSettings(answer_text=answer_text))
        for candidate in answer.candidates:
            if candidate.start is not None:
                text = context[candidate.start : candidate.end]
                assert candidate.text == (text if answer_text == "offsets" else " ".join(Passage(text).words))

    check()


@pytest.mark.slow
def test_how_often_the_two_texts_differ_on_real_data(shared_dir):
    """Reproduces the numbers of docs/guides/squad.md."""
    tokenizer = FullTokenizer(shared_dir("data/vocab/uncased.txt"))
    found = {}
    for file in ("dev_v2_normans.json", "train_v2_10_articles.json"):
        path = str(shared_dir(f"data/squad/{file}"))
        examples = make_examples(read_articles(path), path, False, True)
        features = make_features(examples, tokenizer, 384, 128, 64, False)
        logits = 3 * np.random.default_rng(1).normal(size=(2, *features["input_ids"].shape))
        answers = {
            text: find_answers(examples, features, *logits, tokenizer, AnswerSettings(answer_text=text))
            for text in ("release", "offsets")
        }
        found[file] = compare_texts(examples, answers["release"], answers["offsets"])
    assert found == {
        "dev_v2_normans.json": (2014, 2014, 2014, 0, 0, 0),
        "train_v2_10_articles.json": (50222, 50206, 50222, 193, 16, 175),
    }


def compare_texts(examples, by_release, by_offsets):
    """Counts n-best spans.

    The counts are: all; those whose original text occurs in the passage; those whose text by offsets occurs in it;
    those whose texts differ: all, in white space only, and where the original text contains the text by offsets.
    """
    counts = np.zeros(6, int)
    for example, first, second in zip(examples, by_release, by_offsets, strict=True):
        texts = {(entry.start_logit, entry.end_logit): entry.text for entry in second.candidates}
        for entry in first.candidates:
            other = texts.get((entry.start_logit, entry.end_logit))
            if entry.start is not None and other is not None:
                differs, is_white = entry.text != other, entry.text.split() == other.split()
                counts += [1, entry.text in example.passage.text, other in example.passage.text, differs, 0, 0]
                counts[4:] += [differs and is_white, differs and not is_white and other in entry.text]
    return tuple(counts.tolist())
