"""Comparing answer texts in each language."""

import pytest

from bert_keras.evaluation.answer_texts import LANGUAGES, are_without_spaces, normalize_answer
from bert_keras.evaluation.squad import squad_v1_metrics, squad_v2_metrics


@pytest.mark.parametrize(
    ("language", "text", "normalized"),
    [
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
def test_the_rules_of_mlqa(language, text, normalized):
    assert normalize_answer(text, language) == normalized


def test_other_punctuation_than_ascii_only_counts_as_such_in_mlqa():
    assert normalize_answer("“end”。") == "“end”。"
    for language in LANGUAGES:
        assert normalize_answer("“end”。", language) == "end"


def gold_file(answers):
    questions = [{"id": id_, "answers": [{"text": text} for text in texts]} for id_, texts in answers.items()]
    return {"data": [{"paragraphs": [{"qas": questions}]}]}


def test_a_partial_answer_in_chinese_counts_by_its_characters():
    gold, predictions = gold_file({"a": ["北京大学"]}), {"a": "北京"}
    assert squad_v1_metrics(gold, predictions) == {"exact_match": 0, "f1": 0}
    # Both predicted characters are correct, of four.
    assert squad_v1_metrics(gold, predictions, "zh") == pytest.approx({"exact_match": 0, "f1": 100 * 2 / 3})
    figures = squad_v2_metrics(gold_file({"a": ["北京大学"], "b": ["。"]}), {"a": "北京", "b": ""}, language="zh")
    assert figures["HasAns_f1"] == pytest.approx((200 / 3 + 100) / 2)


@pytest.mark.parametrize(
    ("texts", "expected"),
    [
        (["北京", "2008年"], True),
        (["ไทย"], True),
        (["かな と カナ"], True),
        (["Peking (北京)"], False),
        (["한국 사람"], False),
        (["", " "], False),
        ([], False),
    ],
)
def test_scripts_without_spaces_are_seen(texts, expected):
    assert are_without_spaces(texts) == expected
