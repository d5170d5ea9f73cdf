"""Computes the official scores of SQuAD, to the last digit as in its two evaluation scripts."""

import collections
import dataclasses
import logging
import math

import numpy as np

from bert_keras.evaluation.answer_texts import are_without_spaces, normalize_answer

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class Question:
    """A question of a gold file: its id, and the texts of its gold answers (tuple of str, empty if it has none)."""

    id: str
    answers: tuple


def squad_v1_metrics(dataset, predictions, language=None):
    """Computes the scores of SQuAD 1.1, where every question has an answer.

    Args:
        dataset: the content of the gold file: a dict with `data`, or the list of articles in it.
        predictions: dict of answer texts by question id. A question without a prediction counts 0; the log reports how
            many.
        language: the rules for comparing texts, see `evaluation.answer_texts.normalize_answer`.

    Returns:
        dict with `exact_match` and `f1`, in percent: the best score over a question's gold answers, averaged over all
        questions.

    Raises:
        ValueError: the gold file has another form, a question has no answer, no question has a prediction, or a
            prediction is not a str.
    """
    questions = read_questions(dataset)
    for question in questions:
        if not question.answers:
            raise ValueError(
                f"question {question.id} of the gold file has no answer, as in SQuAD 2.0; "
                "give --version_2_with_negative"
            )
    answered = _answered(questions, predictions, "count 0")
    gold = [question.answers for question in answered]
    exact, f1 = _scores(gold, _texts(answered, predictions), 0, language)
    return {"exact_match": 100.0 * sum(exact) / len(questions), "f1": 100.0 * sum(f1) / len(questions)}


def squad_v2_metrics(dataset, predictions, na_probs=None, na_prob_thresh=1.0, language=None):
    """Computes the scores of SQuAD 2.0, where an empty text is the right prediction for a question without an answer.

    Args:
        dataset: the content of the gold file: a dict with `data`, or the list of articles in it.
        predictions: dict of answer texts by question id. Questions without a prediction are left out; the log reports
            how many.
        na_probs: dict by question id of finite numbers, as in null_odds.json: the higher, the likelier that the
            question has no answer. None: 0 for all, and no best thresholds.
        na_prob_thresh: float; a question with a higher number counts as answered with an empty text.
        language: the rules for comparing texts, see `evaluation.answer_texts.normalize_answer`.

    Returns:
        dict with `exact`, `f1` (percent) and `total` (int). The prefixes `HasAns_` and `NoAns_` mark the same metrics
        of the questions with and without answers, if any. With na_probs also `best_exact`, `best_exact_thresh`,
        `best_f1`, `best_f1_thresh`: the best score of any threshold, and that threshold. No threshold recovers a
        prediction that is already empty.

        Differs from the official script: if predictions are missing, the script ends with a KeyError; here all metrics
        cover the questions with a prediction.

    Raises:
        ValueError: the gold file has another form, no question has a prediction, a prediction is not a str, or the
            na_prob of a question is missing or not a finite number.
    """
    answered = _answered(read_questions(dataset), predictions, "are left out")
    texts = _texts(answered, predictions)
    gold = [[text for text in question.answers if normalize_answer(text, language)] or [""] for question in answered]
    exact, f1 = (np.array(scores, np.float64) for scores in _scores(gold, texts, 1, language))
    has_answer = np.array([bool(question.answers) for question in answered])
    odds = np.zeros(len(answered)) if na_probs is None else _finite_odds(answered, na_probs)
    exact_kept, f1_kept = (np.where(odds > na_prob_thresh, ~has_answer, scores) for scores in (exact, f1))
    result = _means(exact_kept, f1_kept)
    for name, is_member in (("HasAns", has_answer), ("NoAns", ~has_answer)):
        if is_member.any():
            means = _means(exact_kept[is_member], f1_kept[is_member])
            result.update({f"{name}_{key}": value for key, value in means.items()})
    if na_probs is None:
        return result
    is_empty = np.array([not text for text in texts])
    order = _by_odds(answered, na_probs, odds)
    for name, scores in (("exact", exact), ("f1", f1)):
        gains = np.where(has_answer, scores, np.where(is_empty, 0, -1))[order]
        result[f"best_{name}"], result[f"best_{name}_thresh"] = _best_threshold(gains, odds[order], sum(~has_answer))
    return result


def is_version_2(dataset):
    """Returns whether a gold file is SQuAD 2.0: a question has no answer, or has `is_impossible`.

    Raises:
        ValueError: the gold file has another form.
    """
    return any("is_impossible" in entry or not entry.get("answers") for entry in _entries(dataset))


def warn_of_words(dataset, name):
    """Warns if most gold answers have no spaces between words, because the official scripts split answers at spaces.

    Args:
        dataset: as in `squad_v1_metrics`.
        name: str, the gold file.
    """
    if are_without_spaces(text for question in read_questions(dataset) for text in question.answers):
        log.warning(
            "%s: F1 splits answers into words at spaces, as in the official script, but most of these answers have "
            "none, so a partly correct answer has F1 0; --answer_language=zh compares Chinese characters",
            name,
        )


def read_questions(dataset):
    """Reads the questions of a gold file.

    Args:
        dataset: the content of the file: a dict with `data`, or the list of articles in it.

    Returns:
        list of `Question`, in the file's order.

    Raises:
        ValueError: the file has another form or no questions, repeats an id, or lacks gold answers.
    """
    questions = {}
    for entry in _entries(dataset):
        id_, answers = entry.get("id"), entry.get("answers")
        if isinstance(id_, int) and not isinstance(id_, bool):
            id_ = str(id_)  # predictions have str keys
        if not isinstance(id_, str):
            raise ValueError(f'the gold file has a question without an id ("{entry.get("question")}"); give it one')
        if id_ in questions:
            raise ValueError(f"the gold file has two questions with the id {id_}; every question needs its own")
        if answers is None and entry.get("is_impossible") is True:
            answers = []
        is_list = isinstance(answers, list) and all(isinstance(answer, dict) for answer in answers)
        if not is_list or not all(isinstance(answer.get("text"), str) for answer in answers):
            raise ValueError(f'question {id_} of the gold file has no "answers" with a "text"; give both keys')
        questions[id_] = Question(id_, tuple(answer["text"] for answer in answers))
    if not questions:
        raise ValueError("the gold file has no questions; give one with questions")
    return list(questions.values())


def _entries(dataset):
    """Yields the dict of each question, after checking the levels above it."""
    articles = dataset.get("data") if isinstance(dataset, dict) else dataset
    for article in _members({"data": articles}, "data", "the gold file"):
        for paragraph in _members(article, "paragraphs", "an article of the gold file"):
            yield from _members(paragraph, "qas", "a paragraph of the gold file")


def _members(parent, key, where):
    members = parent.get(key)
    if not isinstance(members, list) or not all(isinstance(member, dict) for member in members):
        title = f' ("{parent["title"]}")' if "title" in parent else ""
        raise ValueError(f'{where}{title} has no list "{key}"; a SQuAD file has data, paragraphs and qas')
    return members


def _answered(questions, predictions, consequence):
    """Returns the questions with a prediction; logs how many have none, and how many predictions match no question."""
    answered = [question for question in questions if question.id in predictions]
    if not answered:
        raise ValueError("no question of the gold file has a prediction; give the predictions for this file")
    missing = [question.id for question in questions if question.id not in predictions]
    if missing:
        log.warning(
            "%d of %d questions have no prediction and %s; the first is %s",
            *(len(missing), len(questions), consequence, missing[0]),
        )
    if len(predictions) > len(answered):
        log.warning("%d predictions have ids that are not in the gold file", len(predictions) - len(answered))
    return answered


def _texts(questions, predictions):
    for question in questions:
        if not isinstance(predictions[question.id], str):
            raise ValueError(
                f"the prediction for question {question.id} is {_shown(predictions[question.id])}, but has to be a text"
            )
    return [predictions[question.id] for question in questions]


def _shown(value):
    text = repr(value)
    return text if len(text) <= 40 else f"{text[:40]}..."


def _scores(gold, texts, f1_of_nothing, language):
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


def _f1(gold_words, predicted_words, f1_of_nothing):
    if not gold_words and not predicted_words:
        return f1_of_nothing
    num_same = sum((collections.Counter(gold_words) & collections.Counter(predicted_words)).values())
    if num_same == 0:
        return 0
    precision, recall = num_same / len(predicted_words), num_same / len(gold_words)
    return 2 * precision * recall / (precision + recall)


def _means(exact, f1):
    # Added one by one, like the script: NumPy's sums differ in the last digits.
    return {
        "exact": 100.0 * sum(exact.tolist()) / len(exact),
        "f1": 100.0 * sum(f1.tolist()) / len(f1),
        "total": len(exact),
    }


def _finite_odds(questions, na_probs):
    for question in questions:
        value = na_probs.get(question.id)
        is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
        if not is_number or not math.isfinite(value):
            told = "missing" if question.id not in na_probs else str(value) if is_number else _shown(value)
            raise ValueError(f"the na_prob of question {question.id} is {told}, but has to be a finite number")
    return np.array([na_probs[question.id] for question in questions], np.float64)


def _by_odds(questions, na_probs, odds):
    """Returns the order of the questions by ascending odds; ties keep the order of `na_probs`."""
    places = {id_: place for place, id_ in enumerate(na_probs)}
    return np.lexsort(([places[question.id] for question in questions], odds))


def _best_threshold(gains, odds, num_without_answer):
    """Returns the best mean score in percent, and its threshold; the threshold is 0 if answering no question is best.

    `gains` are sorted by ascending odds: the change of the summed scores from answering each question, too. The sum is
    `num_without_answer` if no question is answered.
    """
    sums = np.cumsum([num_without_answer, *gains])
    best = int(np.argmax(sums))
    threshold = odds[best - 1] if best else 0.0
    return 100.0 * float(sums[best]) / len(gains), float(threshold)
