"""Answers as text for readers and as JSON."""

import json

import pytest

from bert_keras.prediction import (
    Choice,
    Classification,
    Entity,
    FilledText,
    Guess,
    MultiLabel,
    PairAnswer,
    QuestionAnswer,
    Regression,
    SentenceScore,
    TaggedText,
    TextVector,
    TokenScore,
    Unanswered,
)
from bert_keras.prediction.answer_lines import answer_lines

PARIS, LONDON = Guess("paris", 0.5, "is paris"), Guess("london", 0.25, "is london")
CLASSES = {f"class {number}": number / 28 for number in range(7)}
FOUND = {"question": "Where?", "text": "Paris", "start": 9, "end": 14, "n_best": [], "probability": 1.0}
NULL = {"null_odds": -51.242, "null_threshold": 0.0}
NO_NULL = {"null_odds": None, "null_threshold": None}

SHOWN = {
    "masks": (
        FilledText("is [MASK]", [[PARIS, LONDON]], "is paris"),
        "is [MASK]|  0.5000  paris   is paris|  0.2500  london  is london",
    ),
    "several masks": (
        FilledText("[MASK] is [MASK]", [[PARIS], [LONDON]], "paris is london"),
        "[MASK] is [MASK]|  [MASK] 1 of 2|  0.5000  paris  is paris|  [MASK] 2 of 2|  0.2500  london  is london"
        "|  all filled: paris is london",
    ),
    "pair": (PairAnswer("he", "ate", 0.9), "0.9000  he  ->  ate"),
    "score": (
        SentenceScore("paris london", -2.07944, 2.8284, [TokenScore("paris", -0.693), TokenScore("london", -1.386)]),
        "-2.0794  perplexity 2.828  paris london|  paris -0.69 london -1.39",
    ),
    "class": (Classification("He", None, "yes", {"no": 0.2689, "yes": 0.7311}), "He|  0.7311  yes|  0.2689  no"),
    "class of a pair": (Classification("He", "was", "yes", {"yes": 1.0}), "He  |  was|  1.0000  yes"),
    "many classes": (
        Classification("he", None, "class 6", CLASSES),
        "he|  0.2143  class 6|  0.1786  class 5|  0.1429  class 4|  0.1071  class 3|  0.0714  class 2"
        "|  and 2 others; JSON has all",
    ),
    "number": (Regression("he", "was", 2.5), "2.5  he  |  was"),
    "labels": (MultiLabel("He", None, ["a", "c"], {"a": 0.7, "b": 0.2, "c": 0.9}), "He|  0.9000  c|  0.7000  a"),
    "no label": (MultiLabel("He", None, [], {"a": 0.2}), "He|  no label"),
    "choice": (Choice("He", ["hungry", "so"], 1, [0.25, 0.75]), "He|  0.2500  hungry|> 0.7500  so"),
    "answer": (QuestionAnswer(is_impossible=False, **FOUND, **NO_NULL), "Where?|  1.0000  Paris  (9 to 14)"),
    "answer and odds": (
        QuestionAnswer(is_impossible=False, **FOUND, **NULL),
        "Where?|  1.0000  Paris  (9 to 14)  odds of no answer -51.24, threshold 0",
    ),
    "no answer": (
        QuestionAnswer(is_impossible=True, **FOUND, **NULL),
        "Where?|  1.0000  (no answer)  odds of no answer -51.24, threshold 0",
    ),
    "entities": (TaggedText("He", [Entity("He", "PER", 0, 2, 0.9945)], []), "He|  0.9945  PER  He  (0 to 2)"),
    "no entity": (TaggedText("so?", [], []), "so?|  no entity"),
    "vector": (TextVector("he", [0.25] * 16), f"he|  {'0.2500 ' * 6}and 10 others; JSON has all"),
    "short vector": (TextVector("he", [0.25, -1.0]), "he|  0.2500 -1.0000"),
    "error": (Unanswered("line 7", "line 7 is empty"), "no answer: line 7 is empty"),
}


@pytest.mark.parametrize("name", SHOWN)
def test_answers_for_readers(name):
    answer, shown = SHOWN[name]
    # Lines are separated by "|", which only answers to pairs contain.
    assert answer.readable().replace("\n", "|") == shown


def test_json_has_all_fields_and_plain_letters(messages):
    answers = [Classification("é 首", None, "yes", CLASSES), SHOWN["error"][0], SHOWN["entities"][0]]
    first, second, third = answer_lines(answers, as_json=True)
    assert '"text": "é 首"' in first
    assert json.loads(first) == {"text": "é 首", "text_pair": None, "label": "yes", "probabilities": CLASSES}
    assert json.loads(second) == {"source": "line 7", "error": "line 7 is empty"}
    entity = {"text": "He", "type": "PER", "start": 0, "end": 2, "probability": 0.9945}
    assert json.loads(third) == {"text": "He", "entities": [entity], "words": []}
    assert messages == ["texts that could not be answered: 1"]
