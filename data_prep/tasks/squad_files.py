"""Reads the JSON of SQuAD 1.1 and 2.0, and reports where it is invalid."""

import collections
import json

from bert_keras.storage.json_files import read_json

_SHAPE = 'SQuAD is {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...}]}]}]}'


def read_articles(path: str) -> list[dict]:
    """Reads a SQuAD file of either version and checks that every question has the required values.

    Args:
        path: a JSON file.

    Returns:
        The articles of its "data", with ids as str: `paragraphs`, each with `context` and `qas`, each of these with
        `id`, `question` and optionally `answers` (`text`, `answer_start`) and `is_impossible`.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not JSON (see `storage.json_files.read_json`), has another structure, or has no
            question.
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


def repeated_ids(articles: list[dict]) -> list[str]:
    """Returns the ids that several questions of articles from `read_articles` have, each once."""
    counts = collections.Counter(question["id"] for question in _questions(articles))
    return [id_ for id_, count in counts.items() if count > 1]


def unanswered_ids(articles: list[dict], version_2_with_negative: bool) -> list[str]:
    """Returns the ids of questions that cannot be scored, because the file lacks their answers.

    Args:
        articles: from `read_articles`.
        version_2_with_negative: whether an empty list of answers, or is_impossible, means that the question has no
            answer.
    """
    return [
        question["id"]
        for question in _questions(articles)
        if not question.get("answers")
        and not (version_2_with_negative and ("answers" in question or question.get("is_impossible")))
    ]


def _questions(articles):
    for article in articles:
        for paragraph in article["paragraphs"]:
            yield from paragraph["qas"]


def _check_paragraph(paragraph, path, where):
    """Checks a paragraph and returns its number of questions."""
    _value(paragraph, "context", str, where)
    questions = _value(paragraph, "qas", list, where)
    for number, question in enumerate(questions, 1):
        id_ = _text_id(question, f"{where} question {number}")
        name = f'{path} question "{id_}"'
        _value(question, "question", str, name)
        for answer in _value(question, "answers", list, name) if "answers" in question else []:
            _value(answer, "text", str, f"{name}, in its answers,")
            _whole_number(answer, "answer_start")
            _value(answer, "answer_start", int, f"{name}, in its answers,")
        if "is_impossible" in question:
            _value(question, "is_impossible", bool, name)
    return len(questions)


def _text_id(question, where):
    """Returns the id of a question; a number becomes a str, because predictions have it as a JSON key."""
    if isinstance(question, dict):
        _whole_number(question, "id")
        if isinstance(question.get("id"), int) and not isinstance(question["id"], bool):
            question["id"] = str(question["id"])
    return _value(question, "id", str, where)


def _whole_number(holder, key):
    """Converts a value such as 3.0 to 3 in place."""
    if isinstance(holder, dict) and isinstance(holder.get(key), float) and holder[key].is_integer():
        holder[key] = int(holder[key])


_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}


def _value(holder, key, kind, where):
    """Returns the value of a key, after checking that it exists and has the right type."""
    if not isinstance(holder, dict):
        raise ValueError(f'{where} is {_shown(holder)} where an object with the key "{key}" is needed; {_SHAPE}')
    if key not in holder:
        raise ValueError(f'{where} lacks "{key}"; {_SHAPE}')
    value = holder[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        raise ValueError(f'{where} has {_shown(value)} for "{key}", which must be {_NAMES[kind]}')
    return value


def _shown(value):
    text = json.dumps(value)
    return text if len(text) <= 40 else f"{text[:40]}..."
