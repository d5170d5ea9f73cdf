"""Reads the JSON of SQuAD 1.1 and 2.0 into questions, and reports where it is invalid."""

import collections
import dataclasses
import json
import logging
from collections.abc import Mapping
from typing import Any

from bert_keras.data_prep.tasks.squad import Passage, SquadExample
from bert_keras.evaluation.squad import questions_of
from bert_keras.mistakes import Mistake
from bert_keras.storage.json_files import read_json
from bert_keras.storage.text_files import is_blank

log = logging.getLogger("bert_keras")

_SHAPE = 'SQuAD is {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...}]}]}]}'
_TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}


def read_articles(path: str) -> list[dict]:
    """Reads a SQuAD file of either version and checks that every question has the required values.

    Returns the articles of its "data", with ids as str: `paragraphs`, each with `context` and `qas`, each of these with
    `id`, `question` and optionally `answers` (`text`, `answer_start`) and `is_impossible`.
    """
    content = read_json(path, "give a file of SQuAD's JSON")
    articles = content.get("data") if isinstance(content, dict) else None
    if not isinstance(articles, list):
        raise ValueError(f'{path} is JSON, but has no list "data" of articles; {_SHAPE}')
    num_questions = 0
    for number, article in enumerate(articles, 1):
        where = f"{path} article {number}"
        paragraphs = _value(article, "paragraphs", list, where)
        title = article.get("title")
        where += f' ("{title}")' if isinstance(title, str) else ""
        for place, paragraph in enumerate(paragraphs, 1):
            num_questions += _check_paragraph(paragraph, path, f"{where} paragraph {place}")
    if not num_questions:
        raise ValueError(f"{path} has no question; {_SHAPE}")
    return articles


def unanswered_ids(articles: list[dict], version_2_with_negative: bool) -> list[str]:
    """Returns the ids of questions that cannot be scored, because the file lacks their answers.

    With `version_2_with_negative`, an empty list of answers, or is_impossible, means that the question has no answer.
    """
    return [
        question["id"]
        for question in questions_of(articles)
        if not question.get("answers")
        and not (version_2_with_negative and ("answers" in question or question.get("is_impossible")))
    ]


def check_answers(articles: list[dict], path: str, version_2_with_negative: bool) -> None:
    """Raises a Mistake if the file of an evaluation lacks answers; see `unanswered_ids`."""
    if unanswered := unanswered_ids(articles, version_2_with_negative):
        advice = "" if version_2_with_negative else ", or {version_2_with_negative} for SQuAD 2.0"
        raise Mistake(
            '{} question "{}" has no answers to compare with; give a file of questions with answers' + advice,
            path,
            unanswered[0],
        )


def make_examples(
    articles: list[dict], path: str, is_training: bool, version_2_with_negative: bool
) -> list[SquadExample]:
    """Makes examples of the articles from `read_articles`, in the order of the file; raises ValueError for bad ones.

    In training, a question whose answer is not at its `answer_start` is left out, as in the original BERT; the log
    reports how many and lists up to five. Prediction ignores answers.
    Source: `read_squad_examples` of the original run_squad.py.
    """
    _check_ids(articles, path, is_training)
    examples, misplaced = [], []
    for article in articles:
        for paragraph in article["paragraphs"]:
            passage = Passage(paragraph["context"])
            for question in paragraph["qas"]:
                example = SquadExample(question["id"], question["question"], passage)
                if is_training:
                    example = _with_answer(example, question, path, version_2_with_negative)
                if example is None:
                    misplaced.append(question["id"])
                else:
                    examples.append(example)
    if misplaced:
        shown = ", ".join(misplaced[:5]) + (", ..." if len(misplaced) > 5 else "")
        if not examples:
            raise ValueError(
                f"{path}: no answer is at its answer_start ({shown}), so no question is left to train on; "
                "answer_start counts the characters of the context from 0"
            )
        count = f"{len(misplaced)} of {len(misplaced) + len(examples)} questions are left out"
        log.warning("%s: %s, because their answer is not at its answer_start: %s", path, count, shown)
    return examples


def _check_ids(articles: list[dict], path: str, is_training: bool) -> None:
    counts = collections.Counter(question["id"] for question in questions_of(articles))
    repeated = [id_ for id_, count in counts.items() if count > 1]
    if repeated and not is_training:
        raise ValueError(
            f'{path} has more than one question with the id "{repeated[0]}", but predictions need unique ids; '
            "give each question its own id"
        )
    if repeated:
        log.warning("%s: %d ids occur more than once; training uses all their questions", path, len(repeated))


def _with_answer(
    example: SquadExample, question: Mapping[str, Any], path: str, version_2_with_negative: bool
) -> SquadExample | None:
    """Returns the example with the answer of its question in the file; None if the answer is not at its position."""
    name = f'{path} question "{question["id"]}"'
    answers = question.get("answers", [])
    if version_2_with_negative:
        if "is_impossible" not in question:
            raise Mistake(
                '{} lacks "is_impossible", which every question of SQuAD 2.0 has; add it, or leave out '
                "{version_2_with_negative} for SQuAD 1.1",
                name,
            )
        if question["is_impossible"]:
            return dataclasses.replace(example, is_impossible=True)
    elif question.get("is_impossible"):
        raise Mistake("{} is marked is_impossible, as in SQuAD 2.0; give {version_2_with_negative}", name)
    if not answers:
        advice = "give {version_2_with_negative} for SQuAD 2.0"
        if version_2_with_negative:
            advice = 'set its "is_impossible" to true'
        raise Mistake("{} has no answer; to train on it, " + advice + ", or take it out", name)
    if len(answers) > 1:
        raise ValueError(
            f"{name} has {len(answers)} answers, but training needs exactly one; train on a training file, "
            "as those for evaluation have several, or keep one of them"
        )
    text, offset = answers[0]["text"], answers[0]["answer_start"]
    if is_blank(text):
        raise ValueError(f"{name} has an answer without text; give its text, or take the question out")
    passage = example.passage
    if not 0 <= offset <= offset + len(text) <= len(passage.text):
        return None
    start, end = passage.word_at(offset), passage.word_at(offset + len(text) - 1)
    # The answer is split at all Unicode white space, the passage only at five characters. So an answer with a no-break
    # space is not found.
    if " ".join(text.split()) not in " ".join(passage.words[start : end + 1]):
        return None
    return dataclasses.replace(example, answer_text=text, start_position=start, end_position=end)


def _check_paragraph(paragraph: Any, path: str, where: str) -> int:
    """Checks a paragraph and returns its number of questions."""
    _value(paragraph, "context", str, where)
    questions = _value(paragraph, "qas", list, where)
    for number, question in enumerate(questions, 1):
        _use_whole_number(question, "id")
        if isinstance(question, dict) and type(question.get("id")) is int:
            question["id"] = str(question["id"])  # predictions have it as a JSON key
        name = f'{path} question "{_value(question, "id", str, f"{where} question {number}")}"'
        _value(question, "question", str, name)
        for answer in _value(question, "answers", list, name) if "answers" in question else []:
            _value(answer, "text", str, f"{name}, in its answers,")
            _use_whole_number(answer, "answer_start")
            _value(answer, "answer_start", int, f"{name}, in its answers,")
        if "is_impossible" in question:
            _value(question, "is_impossible", bool, name)
    return len(questions)


def _use_whole_number(holder: Any, key: str) -> None:
    """Converts a value such as 3.0 to 3 in place."""
    if isinstance(holder, dict) and isinstance(holder.get(key), float) and holder[key].is_integer():
        holder[key] = int(holder[key])


def _value(holder: Any, key: str, kind: type, where: str) -> Any:
    """Returns the value of a key, after checking that it exists and has the right type."""
    if not isinstance(holder, dict):
        raise ValueError(f'{where} is {_shown(holder)} where an object with the key "{key}" is needed; {_SHAPE}')
    if key not in holder:
        raise ValueError(f'{where} lacks "{key}"; {_SHAPE}')
    value = holder[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f'{where} has {_shown(value)} for "{key}", which must be {_TYPE_NAMES[kind]}')
    return value


def _shown(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
