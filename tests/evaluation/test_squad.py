"""The official scores of SQuAD."""

import collections
import json
import math
import re
import string

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tiny_data import gold_file

from bert_keras.tasks.question_answering.metrics import (
    LANGUAGES,
    is_version_2,
    normalize_answer,
    squad_v1_metrics,
    squad_v2_metrics,
    warn_of_words,
)


@pytest.mark.parametrize(
    ("language", "text", "normalized"),
    [
        (None, "The  Cat, and\ta DOG!", "cat and dog"),
        (None, "another theme", "another theme"),
        (None, "an A-team", "ateam"),
        (None, "a.", ""),
        (None, "U.S.A.", "usa"),
        (None, "Ångström's “end”", "ångströms “end”"),
        (None, "the-end", "theend"),
        (None, "“end”。", "“end”。"),
        *((language, "“end”。", "end") for language in LANGUAGES),
        ("en", "The “Cat”, and\ta — DOG!", "cat and dog"),
        ("de", "Die Stadt des Königs", "stadt königs"),
        ("de", "Deren Einer", "deren"),
        ("es", "¿Los Andes? El país", "andes país"),
        ("vi", "Những cái tên của tôi", "tên tôi"),
        ("hi", "दिल्ली। में", "दिल्ली में"),
        ("ar", "الكتاب، والكتاب", "كتاب و كتاب"),
        ("zh", "《北京大学》 NBA 2008年", "北 京 大 学 nba 2008 年"),
        ("zh", "the NBA冠军", "the nba 冠 军"),
        ("zh", "。", ""),
        # Only characters of MLQA's ranges are separated.
        ("zh", "かな㐀㐁", "かな㐀㐁"),
    ],
)
def test_normalized_answers(language, text, normalized):
    assert normalize_answer(text, language) == normalized


def test_a_partial_answer_in_chinese_counts_by_its_characters():
    gold, predictions = gold_file({"a": ["北京大学"]}), {"a": "北京"}
    assert squad_v1_metrics(gold, predictions) == {"exact_match": 0, "f1": 0}
    # Both predicted characters are correct, of four.
    assert squad_v1_metrics(gold, predictions, "zh") == pytest.approx({"exact_match": 0, "f1": 100 * 2 / 3})
    metrics = squad_v2_metrics(gold_file({"a": ["北京大学"], "b": ["。"]}), {"a": "北京", "b": ""}, language="zh")
    assert metrics["HasAns_f1"] == pytest.approx((200 / 3 + 100) / 2)


@pytest.mark.parametrize(
    ("texts", "is_told"),
    [
        (["北京", "2008年"], True),
        (["ไทย"], True),
        (["かな と カナ"], True),
        (["Peking (北京)"], False),
        (["한국 사람"], False),
        (["", " "], False),
    ],
)
def test_answers_without_spaces(messages, texts, is_told):
    warn_of_words(gold_file({"a": texts}), "gold.json")
    assert len(messages) == is_told


def test_scores_of_version_1():
    gold = gold_file({"a": ["the cat", "a big cat"], "b": ["Paris"], "c": ["in the year 1066"], "d": ["x"]})
    predictions = {"a": "big cat!", "b": "London", "c": "1066 year or so"}
    # c: 2 of 4 predicted words are among the 3 of the answer; d has no prediction.
    assert squad_v1_metrics(gold, predictions) == pytest.approx(
        {"exact_match": 100 * 1 / 4, "f1": 100 * (1 + 0 + 2 * (2 / 4) * (2 / 3) / (2 / 4 + 2 / 3) + 0) / 4}
    )


def test_the_two_versions_differ_if_nothing_is_left_of_an_answer():
    gold, predictions = gold_file({"a": ["the"]}), {"a": "an"}
    assert squad_v1_metrics(gold, predictions) == {"exact_match": 100, "f1": 0}
    assert squad_v2_metrics(gold, predictions)["f1"] == 100


QUESTIONS = {"a": ["cat"], "b": ["a dog", "dog house"], "c": [], "d": [], "e": ["bird"]}
ANSWERS = {"a": "the cat", "b": "dog food", "c": "", "d": "something", "e": ""}


def test_scores_of_version_2():
    f1_of_b = 2 * (1 / 2) * 1 / (3 / 2)
    assert squad_v2_metrics(gold_file(QUESTIONS), ANSWERS) == pytest.approx(
        {
            "exact": 100 * 2 / 5,
            "f1": 100 * (1 + f1_of_b + 1 + 0 + 0) / 5,
            "total": 5,
            "HasAns_exact": 100 * 1 / 3,
            "HasAns_f1": 100 * (1 + f1_of_b + 0) / 3,
            "HasAns_total": 3,
            "NoAns_exact": 50,
            "NoAns_f1": 50,
            "NoAns_total": 2,
        }
    )


def test_missing_and_superfluous_predictions(messages):
    gold = gold_file({"a": ["x"], "b": ["y"], "c": []})
    metrics = squad_v2_metrics(gold, {"a": "x", "z": "?"}, {"a": 0.0})
    assert metrics["exact"] == metrics["best_exact"] == 100
    assert metrics["total"] == 1
    assert messages == [
        "2 of 3 questions have no prediction and are left out; the first is b",
        "1 predictions have ids that are not in the gold file",
    ]
    messages.clear()
    assert squad_v1_metrics(gold_file({"a": ["x"], "b": ["y"]}), {"b": "y"})["f1"] == 50
    assert messages == ["1 of 2 questions have no prediction and count 0; the first is a"]


def test_the_version_of_a_file():
    assert not is_version_2(gold_file({"a": ["x"]}))
    assert is_version_2(gold_file({"a": ["x"], "b": []}))
    gold = gold_file({"a": ["x"]})
    gold["data"][0]["paragraphs"][0]["qas"][0]["is_impossible"] = False
    assert is_version_2(gold)


def test_impossible_questions_may_lack_answers():
    gold = gold_file({"a": []})
    question = gold["data"][0]["paragraphs"][0]["qas"][0]
    del question["answers"]
    question["is_impossible"] = True
    assert squad_v2_metrics(gold, {"a": ""})["exact"] == 100


@pytest.mark.parametrize(
    ("gold", "message"),
    [
        ({"version": "1.1"}, '^the gold file has no list "data"; a SQuAD file has data, paragraphs and qas$'),
        ([{"title": "T"}], r'^an article of the gold file \("T"\) has no list "paragraphs"'),
        ([{"paragraphs": [{"context": "x"}]}], '^a paragraph of the gold file has no list "qas"'),
        ([{"paragraphs": [{"qas": [3]}]}], '^a paragraph of the gold file has no list "qas"'),
        ([{"paragraphs": []}], "^the gold file has no questions; give one with questions$"),
        ([{"paragraphs": [{"qas": [{"question": "W"}]}]}], r'^the gold file has a question without an id \("W"\)'),
        ([{"paragraphs": [{"qas": [{"id": "q"}]}]}], '^question q of the gold file has no "answers" with a "text"'),
        ([{"paragraphs": [{"qas": [{"id": "q", "answers": [{"text": 3}]}]}]}], "^question q of the gold file has no "),
        (
            [{"paragraphs": [{"qas": [{"id": "q", "answers": []}, {"id": "q", "answers": []}]}]}],
            "^the gold file has two questions with the id q; every question needs its own$",
        ),
    ],
)
def test_mistakes_in_gold_files(gold, message):
    with pytest.raises(ValueError, match=message):
        squad_v2_metrics(gold, {})


@pytest.mark.parametrize(
    ("predictions", "na_probs", "message"),
    [
        ({"a": 3}, None, "^the prediction for question a is 3, but has to be a text$"),
        ({"a": ["x" * 60]}, None, r"^the prediction for question a is \['x{38}\.\.\., but has to be a text$"),
        ({"a": "x", "b": "y"}, {"a": 1}, "^the na_prob of question b is missing, but has to be a finite number$"),
        ({"a": "x", "b": "y"}, {"a": 1, "b": math.nan}, "^the na_prob of question b is nan, but has to be a finite"),
        ({"a": "x"}, {"a": np.float64("inf")}, "^the na_prob of question a is inf, but"),
        ({"a": "x"}, {"a": "0.5"}, "^the na_prob of question a is '0.5', but"),
        ({"a": "x"}, {"a": True}, "^the na_prob of question a is True, but"),
        ({"z": "x"}, None, "^no question of the gold file has a prediction; give the predictions for this file$"),
    ],
)
def test_mistakes_in_predictions(predictions, na_probs, message):
    with pytest.raises(ValueError, match=message):
        squad_v2_metrics(gold_file({"a": ["x"], "b": []}), predictions, na_probs)


def test_version_1_needs_an_answer_to_every_question():
    message = "^question b of the gold file has no answer, as in SQuAD 2.0; give version_2_with_negative$"
    with pytest.raises(ValueError, match=message):
        squad_v1_metrics(gold_file({"a": ["x"], "b": []}), {"a": "x", "b": "y"})


# ----------------------------------------------------------------------------------------------------------------------
# A second, plain implementation.


def plain_words(text):
    text = "".join(c for c in text.lower() if c not in set(string.punctuation))
    return [word for word in re.sub(r"\b(?:a|an|the)\b", " ", text).split() if word]


def plain_scores(golds, text, empty_is_right):
    best_exact, best_f1 = 0, 0
    for gold in golds:
        left, right = plain_words(gold), plain_words(text)
        best_exact = max(best_exact, left == right)
        same = sum(min(left.count(word), right.count(word)) for word in set(left))
        f1 = 2 * same / (len(left) + len(right)) if left or right else empty_is_right
        best_f1 = max(best_f1, f1)
    return best_exact, best_f1


def plain_version_2(gold, predictions, na_probs):
    groups = collections.defaultdict(list)
    for article in gold["data"]:
        for paragraph in article["paragraphs"]:
            for question in paragraph["qas"]:
                golds = [a["text"] for a in question["answers"] if plain_words(a["text"])] or [""]
                has_answer = "HasAns_" if question["answers"] else "NoAns_"
                text = predictions[question["id"]]
                groups[has_answer].append((question["id"], *plain_scores(golds, text, 1), text))
    kept = {
        name: [
            (name == "NoAns_", name == "NoAns_") if na_probs[id_] > 1 else (exact, f1) for id_, exact, f1, _ in members
        ]
        for name, members in groups.items()
    }
    kept[""] = [scores for name in list(kept) for scores in kept[name]]
    metrics = {}
    for name, scores in kept.items():
        metrics[f"{name}exact"], metrics[f"{name}f1"] = 100 * np.mean(np.array(scores, float), axis=0)
        metrics[f"{name}total"] = len(scores)
    for column, name in ((1, "exact"), (2, "f1")):
        # Answer the questions up to a threshold, and try all thresholds.
        best = max(
            [-math.inf, *na_probs.values()],
            key=lambda threshold: (round(plain_sum(groups, na_probs, column, threshold), 9), -threshold),
        )
        metrics[f"best_{name}"] = 100 * plain_sum(groups, na_probs, column, best) / len(kept[""])
        metrics[f"best_{name}_thresh"] = 0 if best == -math.inf else best
    return metrics


def plain_sum(groups, na_probs, column, threshold):
    answerable = sum(member[column] for member in groups["HasAns_"] if na_probs[member[0]] <= threshold)
    return answerable + sum(na_probs[member[0]] > threshold or not member[3] for member in groups["NoAns_"])


def test_a_plain_implementation_finds_the_same_for_version_2(shared_dir):
    gold = json.loads((shared_dir("data/squad") / "dev_v2_normans.json").read_text(encoding="utf-8"))
    folder = shared_dir("golden/squad") / "predict_v2"
    predictions = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    null_odds = json.loads((folder / "null_odds.json").read_text(encoding="utf-8"))
    metrics = squad_v2_metrics(gold, predictions, null_odds)
    assert metrics["total"] == 208
    assert metrics["NoAns_total"] == 112
    assert metrics == pytest.approx(plain_version_2(gold, predictions, null_odds), abs=1e-9)


def test_a_plain_implementation_finds_the_same_for_version_1(shared_dir):
    folder = shared_dir("golden/squad") / "predict_v1"
    gold = json.loads((folder / "input.json").read_text(encoding="utf-8"))
    predictions = json.loads((folder / "predictions.json").read_text(encoding="utf-8"))
    scores = [
        plain_scores([answer["text"] for answer in question["answers"]], predictions[question["id"]], 0)
        for article in gold["data"]
        for paragraph in article["paragraphs"]
        for question in paragraph["qas"]
    ]
    exact, f1 = 100 * np.mean(np.array(scores, float), axis=0)
    assert len(scores) == 76
    assert squad_v1_metrics(gold, predictions) == pytest.approx({"exact_match": exact, "f1": f1}, abs=1e-9)


WORDS = st.lists(st.sampled_from(["a", "the", "cat", "Cat.", "dog", "!"]), max_size=4).map(" ".join)
CASES = st.lists(st.tuples(st.lists(WORDS, max_size=2), WORDS, st.integers(-3, 3)), min_size=1, max_size=8)


@settings(max_examples=60)
@given(CASES)
def test_a_plain_implementation_finds_the_same_on_anything(cases):
    # The official script processes questions with equal odds one by one; here all odds differ.
    gold = gold_file({str(number): golds for number, (golds, _, _) in enumerate(cases)})
    predictions = {str(number): text for number, (_, text, _) in enumerate(cases)}
    na_probs = {str(number): odds + number / 16 for number, (_, _, odds) in enumerate(cases)}
    metrics = squad_v2_metrics(gold, predictions, na_probs)
    assert metrics == pytest.approx(plain_version_2(gold, predictions, na_probs), abs=1e-9)


def test_ties_of_odds_have_the_order_of_their_file():
    gold, predictions = gold_file({"a": ["x"], "b": []}), {"a": "x", "b": "y"}
    assert squad_v2_metrics(gold, predictions, {"a": 0.5, "b": 0.5})["best_exact"] == 100
    assert squad_v2_metrics(gold, predictions, {"b": 0.5, "a": 0.5})["best_exact"] == 50
