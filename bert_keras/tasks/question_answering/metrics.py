"""Computes the official scores of SQuAD, to the last digit as in its two evaluation scripts, and those of MLQA."""

import collections
import logging
import math
import re
import string
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.mistakes import Message, Mistake, shortened

log = logging.getLogger("bert_keras")

# The languages of MLQA.
LANGUAGES = ("ar", "de", "en", "es", "hi", "vi", "zh")

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_ENGLISH_ARTICLES = re.compile(r"\b(a|an|the)\b")
# Hindi and Chinese have none. The Arabic article is part of a word; like MLQA's script, this removes it everywhere.
_ARTICLES = {
    "ar": re.compile("ال"),
    "de": re.compile(r"\b(ein|eine|einen|einem|eines|einer|der|die|das|den|dem|des)\b"),
    "en": _ENGLISH_ARTICLES,
    "es": re.compile(r"\b(un|una|unos|unas|el|la|los|las)\b"),
    "vi": re.compile(r"\b(của|là|cái|chiếc|những)\b"),
}
_CHINESE_CHARACTER = re.compile("[\u4e00-\u9fa5]")
# Chinese, Japanese, Thai, Lao, Burmese and Khmer.
_WITHOUT_SPACES = re.compile("[\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]")


def squad_v1_metrics(
    dataset: dict[str, Any] | list[dict[str, Any]], predictions: Mapping[str, str], language: str | None = None
) -> dict[str, float]:
    """Computes the scores of SQuAD 1.1, where every question has an answer.

    A question without a prediction counts 0; the log reports how many. Arguments and errors are as in
    `squad_v2_metrics`.

    Returns:
        dict with `exact_match` and `f1`, in percent: the best score over a question's gold answers, averaged over all
        questions.
    """
    gold = _gold_answers(dataset)
    for id_, answers in gold.items():
        if not answers:
            raise Mistake(
                "question {} of the gold file has no answer, as in SQuAD 2.0; give {version_2_with_negative}", id_
            )
    answered = _answered(gold, predictions, "count 0")
    exact, f1 = _scores([gold[id_] for id_ in answered], list(answered.values()), 0, language)
    return {"exact_match": 100.0 * sum(exact) / len(gold), "f1": 100.0 * sum(f1) / len(gold)}


def f1_of_answers(texts: Sequence[str], gold: Sequence[Sequence[str]]) -> list[float]:
    """Returns the F1 of SQuAD 1.1 of each predicted text, from 0 to 1, the best over its gold answers."""
    return [float(value) for value in _scores(gold, texts, 0, None)[1]]


def squad_v2_metrics(
    dataset: dict[str, Any] | list[dict[str, Any]],
    predictions: Mapping[str, str],
    na_probs: Mapping[str, float] | None = None,
    na_prob_thresh: float = 1.0,
    language: str | None = None,
) -> dict[str, float]:
    """Computes the scores of SQuAD 2.0, where an empty text is the right prediction for a question without an answer.

    Questions without a prediction are left out; the log reports how many. Differs from the official script: it ends
    with a KeyError.

    Args:
        dataset: the content of the gold file: a dict with `data`, or the list of articles in it.
        predictions: dict of answer texts by question id.
        na_probs: dict by question id of finite numbers, as in null_odds.json: higher if an answer is less likely.
            None: 0 for all, and no best thresholds.
        na_prob_thresh: float; a question with a higher number counts as answered with an empty text.
        language: the rules for comparing texts, see `normalize_answer`.

    Returns:
        dict with `exact`, `f1` (percent) and `total` (int). The prefixes `HasAns_` and `NoAns_` mark the same metrics
        of the questions with and without answers, if any. With na_probs also `best_exact`, `best_exact_thresh`,
        `best_f1`, `best_f1_thresh`: the best score of any threshold, and that threshold. No threshold recovers a
        prediction that is already empty.

    Raises:
        ValueError: a value has another form or is missing, or no question has a prediction.
    """
    gold = _gold_answers(dataset)
    answered = _answered(gold, predictions, "are left out")
    answers = [[text for text in gold[id_] if normalize_answer(text, language)] or [""] for id_ in answered]
    scores = _scores(answers, list(answered.values()), 1, language)
    exact, f1 = (np.array(values, np.float64) for values in scores)
    has_answer = np.array([bool(gold[id_]) for id_ in answered])
    odds = np.zeros(len(answered)) if na_probs is None else _finite_odds(answered, na_probs)
    exact_kept, f1_kept = (np.where(odds > na_prob_thresh, ~has_answer, values) for values in (exact, f1))
    result = {}
    for prefix, is_member in (("", np.full(len(odds), True)), ("HasAns_", has_answer), ("NoAns_", ~has_answer)):
        total = int(is_member.sum())
        if total:
            # Added one by one, like the script: NumPy's sums differ in the last digits.
            result[f"{prefix}exact"] = 100.0 * sum(exact_kept[is_member].tolist()) / total
            result[f"{prefix}f1"] = 100.0 * sum(f1_kept[is_member].tolist()) / total
            result[f"{prefix}total"] = total
    if na_probs is None:
        return result
    is_empty = np.array([not text for text in answered.values()])
    # By ascending odds; ties keep the order of `na_probs`.
    places = {id_: place for place, id_ in enumerate(na_probs)}
    order = np.lexsort((np.array([places[id_] for id_ in answered]), odds))
    for name, values in (("exact", exact), ("f1", f1)):
        gains = np.where(has_answer, values, np.where(is_empty, 0, -1))[order]
        result[f"best_{name}"], result[f"best_{name}_thresh"] = _best_threshold(gains, odds[order], sum(~has_answer))
    return result


def normalize_answer(text: str, language: str | None = None) -> str:
    """Normalizes a text for comparison: lower case, without punctuation, articles and extra white space.

    A language of LANGUAGES selects the rules of MLQA: they remove the punctuation of all scripts and the articles of
    the language, and separate Chinese characters. None selects the rules of SQuAD's official scripts, with ASCII
    punctuation and English articles.
    """
    text = text.lower()
    if language is None:
        text = _ENGLISH_ARTICLES.sub(" ", text.translate(_PUNCTUATION))
        return " ".join(text.split())
    text = "".join(char for char in text if char not in string.punctuation and unicodedata.category(char)[0] != "P")
    if language in _ARTICLES:
        text = _ARTICLES[language].sub(" ", text)
    if language == "zh":
        text = _CHINESE_CHARACTER.sub(r" \g<0> ", text)
    return " ".join(text.split())


def questions_of(dataset: dict[str, Any] | list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yields the dict of each question, after checking the levels above it."""
    articles = dataset.get("data") if isinstance(dataset, dict) else dataset
    for article in _members({"data": articles}, "data", "the gold file"):
        for paragraph in _members(article, "paragraphs", "an article of the gold file"):
            yield from _members(paragraph, "qas", "a paragraph of the gold file")


def is_version_2(dataset: dict[str, Any] | list[dict[str, Any]]) -> bool:
    """Returns whether a gold file is SQuAD 2.0: a question has no answer, or has `is_impossible`."""
    return any("is_impossible" in entry or not entry.get("answers") for entry in questions_of(dataset))


def warn_of_words(dataset: dict[str, Any] | list[dict[str, Any]], name: str) -> None:
    """Warns if most gold answers of a file have no spaces, because the official scripts split answers at spaces."""
    text = " ".join(answer for answers in _gold_answers(dataset).values() for answer in answers)
    num_without = len(_WITHOUT_SPACES.findall(text))
    if num_without > sum(map(str.isalpha, _WITHOUT_SPACES.sub("", text))):
        log.warning(
            Message(
                "{}: F1 splits answers into words at spaces, as in the official script, but most of these "
                "answers have none, so a partly correct answer has F1 0; {answer_language}=zh compares "
                "Chinese characters",
                name,
            )
        )


def _has_text(answer: Any) -> bool:
    return isinstance(answer, dict) and isinstance(answer.get("text"), str)


def _gold_answers(dataset: dict[str, Any] | list[dict[str, Any]]) -> dict[str, tuple[str, ...]]:
    """Returns the texts of the gold answers of each question by its id, in the file's order; () if it has none."""
    gold = {}
    for entry in questions_of(dataset):
        id_, answers = entry.get("id"), entry.get("answers")
        if isinstance(id_, int) and not isinstance(id_, bool):
            id_ = str(id_)  # predictions have str keys
        if not isinstance(id_, str):
            raise Mistake('the gold file has a question without an id ("{!s}"); give it one', entry.get("question"))
        if id_ in gold:
            raise Mistake("the gold file has two questions with the id {}; every question needs its own", id_)
        if answers is None and entry.get("is_impossible") is True:
            answers = []
        if not isinstance(answers, list) or not all(map(_has_text, answers)):
            raise Mistake('question {} of the gold file has no "answers" with a "text"; give both keys', id_)
        gold[id_] = tuple(answer["text"] for answer in answers)
    if not gold:
        raise Mistake("the gold file has no questions; give one with questions")
    return gold


def _members(parent: dict[str, Any], key: str, where: str) -> list[dict[str, Any]]:
    members = parent.get(key)
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        title = f' ("{parent["title"]}")' if "title" in parent else ""
        raise Mistake('{}{} has no list "{}"; a SQuAD file has data, paragraphs and qas', where, title, key)
    return members


def _answered(gold: Mapping[str, Sequence[str]], predictions: Mapping[str, str], consequence: str) -> dict[str, str]:
    """Returns the predictions of the questions of the gold file; logs those missing, and those for no question."""
    answered = {id_: predictions[id_] for id_ in gold if id_ in predictions}
    if not answered:
        raise Mistake("no question of the gold file has a prediction; give the predictions for this file")
    missing = [id_ for id_ in gold if id_ not in predictions]
    if missing:
        count = f"{len(missing)} of {len(gold)} questions have no prediction"
        log.warning("%s and %s; the first is %s", count, consequence, missing[0])
    if len(predictions) > len(answered):
        log.warning("%d predictions have ids that are not in the gold file", len(predictions) - len(answered))
    for id_, text in answered.items():
        if not isinstance(text, str):
            raise Mistake("the prediction for question {} is {}, but has to be a text", id_, shortened(repr(text)))
    return answered


def _scores(
    gold: Sequence[Sequence[str]], texts: Sequence[str], f1_of_nothing: int, language: str | None
) -> tuple[list[int], list[float]]:
    """Returns exact match and F1 of each text, the best over its gold answers.

    `f1_of_nothing` is the F1 of two texts that are both empty after normalization; it differs between the two scripts.
    """
    exact, f1 = [], []
    for answers, text in zip(gold, texts, strict=True):
        predicted = normalize_answer(text, language)
        answers = [normalize_answer(answer, language) for answer in answers]
        exact.append(int(predicted in answers))
        f1.append(max(_f1(answer.split(), predicted.split(), f1_of_nothing) for answer in answers))
    return exact, f1


def _f1(gold_words: list[str], predicted_words: list[str], f1_of_nothing: int) -> float:
    if not gold_words and not predicted_words:
        return f1_of_nothing
    num_same = sum((collections.Counter(gold_words) & collections.Counter(predicted_words)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(predicted_words), num_same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _finite_odds(ids: Iterable[str], na_probs: Mapping[str, float]) -> np.ndarray:
    for id_ in ids:
        value = na_probs.get(id_, math.nan)
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            description = "missing" if id_ not in na_probs else str(value) if is_number else shortened(repr(value))
            raise Mistake("the na_prob of question {} is {}, but has to be a finite number", id_, description)
    return np.array([na_probs[id_] for id_ in ids], np.float64)


def _best_threshold(gains: np.ndarray, odds: np.ndarray, num_without_answer: int) -> tuple[float, float]:
    """Returns the best mean score in percent, and its threshold; the threshold is 0 if answering no question is best.

    `gains` are sorted by ascending odds: the change of the summed scores from answering each question, too. The sum is
    `num_without_answer` if no question is answered.
    """
    sums = np.cumsum([num_without_answer, *gains])
    best = int(np.argmax(sums))
    threshold = odds[best - 1] if best else 0.0
    return 100.0 * float(sums[best]) / len(gains), float(threshold)
