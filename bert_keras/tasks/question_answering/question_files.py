"""Reads questions with their contexts and answers: SQuAD's JSON of either version, or a question in each row.

A row has "context", "question" and optionally "id". A question has its answers in one of these forms: "answers", a list
of texts or of objects with "text" and "answer_start", or one object with a list of each; or "answer", a text, with
"answer_start". Without a place, the first place of the answer in the context counts. In a row, an empty list means that
the context does not answer the question. Rows are in JSON, see `JsonRows`, or in a table.
"""

import itertools
import json
import logging
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.text.characters import utf16_places
from bert_keras.mistakes import Mistake, shortened, some_of
from bert_keras.storage.json_rows import JsonRows, look_for_rows
from bert_keras.tasks.tables.column_names import (
    ANSWER_NAMES,
    ANSWERS_NAMES,
    CONTEXT_NAMES,
    ID_NAMES,
    QUESTION_NAMES,
    START_NAMES,
    folded,
)
from bert_keras.tasks.tables.columns import checked_rows
from bert_keras.tasks.tables.header import TRUTH_VALUES
from bert_keras.tasks.tables.labels import read_value, without_arrays
from bert_keras.tasks.tables.tables import Table, without_bad_rows

log = logging.getLogger("bert_keras")

_SHAPE = (
    'SQuAD is {"data": [{"paragraphs": [{"context": ..., "qas": [{"id": ..., "question": ...}]}]}]}; rows are '
    '{"context": ..., "question": ..., "answers": ...}'
)
_NEEDED = "give a file of questions, such as SQuAD's JSON"
_ANSWER_FIELDS = (*ANSWERS_NAMES, *ANSWER_NAMES, *START_NAMES, "is_impossible")
_WHOLE = re.compile(r"\d{1,15}(\.0*)?")
_TYPE_NAMES = {str: "text", int: "a whole number", bool: "true or false", list: "a list"}


def read_articles(path: str) -> list[dict]:
    """Reads a file of questions and checks that every question has the required values.

    Returns the articles of SQuAD's "data", with ids as str: `paragraphs`, each with `context` and `qas`, each of these
    with `id`, `question` and optionally `answers` (`text`, `answer_start` in code points) and `is_impossible`.
    Questions have their `place`, for messages. They are `is_complete` if no answer means none, although
    they lack `is_impossible`: those of rows, and those whose answers are one object.
    """
    name, rows = _rows_of(path)
    articles: list[dict] = []
    paragraphs: list[dict] = []  # of questions in rows
    found: list[int] = []  # by question, the answers that may be at several places
    for number, (place, row) in enumerate(rows):
        if "paragraphs" in row or "qas" in row or not any(folded(key) in QUESTION_NAMES for key in row):
            found += _check_article(row, name, place, len(articles) + 1)
            articles.append(row if "paragraphs" in row else {"paragraphs": [row]})
            paragraphs = []
            continue
        context, question, num_found = _question_of(row, place, number)
        found.append(num_found)
        if not paragraphs:
            articles.append({"title": name, "paragraphs": paragraphs})
        if not paragraphs or paragraphs[-1]["context"] != context:
            paragraphs.append({"context": context, "qas": []})
        paragraphs[-1]["qas"].append(question)
    if not found:
        raise Mistake("{} has no question; {}", name, _SHAPE)
    if num_found := sum(found):
        message = "%s: answers without answer_start that their context has more than once, the first counts: %d"
        log.warning(message, name, num_found)
    _use_code_points(name, articles)
    return articles


def _rows_of(path: str) -> tuple[str, Iterator[tuple[str, dict[str, Any]]]]:
    """Returns the name of a file for messages, and an iterator over the place and the values of its rows."""
    is_json, text = look_for_rows(path, _NEEDED)
    if is_json:
        found = JsonRows(path, _NEEDED, text)
        return found.path, ((f"{found.path} {found.place(line)}", row) for line, row in found.objects())
    table = Table(path, text)
    names = tuple(name for name in table.names if folded(name) in QUESTION_NAMES)
    if not names:
        raise Mistake(
            "{} has the columns {}, but questions need columns such as context, "
            "question, answer; rename them, or give SQuAD's JSON",
            path,
            ", ".join(table.names)[:200],
        )
    rows = without_bad_rows(table.name, checked_rows(table))
    places = ((f"{path} {table.place(row.line)}", zip(table.names, row.cells, strict=True)) for row in rows)
    return path, ((place, {name: _read_cell(name, cell, place) for name, cell in cells}) for place, cells in places)


def _read_cell(name: str, cell: str, place: str) -> Any:
    """Returns the value of a cell: answers are JSON or Python; without a place or a truth value, it is missing."""
    if folded(name) in START_NAMES or folded(name) == "is_impossible":
        return cell.strip() or None
    if folded(name) not in ANSWERS_NAMES or cell.strip()[:1] not in ("[", "{", "("):
        return cell
    if (answers := read_value(without_arrays(cell))) is None:
        needed = 'must be JSON such as {"text": ["1954"], "answer_start": [36]}'
        raise Mistake("{}: the answers are {}, but {}", place, shortened(json.dumps(cell)), needed)
    return answers


def _question_of(row: Mapping[str, Any], place: str, number: int) -> tuple[str, dict[str, Any], int]:
    """Returns the context of a row, its question as in SQuAD, and how many answers may be at several places."""
    texts = {"context": _first(row, CONTEXT_NAMES), "question": _first(row, QUESTION_NAMES)}
    for name, text in texts.items():
        if not isinstance(text, str):
            raise Mistake('{} has no text "{}"; every question needs it', place, name)
    id_ = _first(row, ID_NAMES)
    question = {folded(key): value for key, value in row.items() if folded(key) in _ANSWER_FIELDS}
    if question.get("is_impossible", 0) is None:
        del question["is_impossible"]
    question |= {"id": str(number) if id_ is None else id_, "question": texts["question"], "is_complete": True}
    return texts["context"], question, _check_question(question, texts["context"], place, place)


def _first(row: Mapping[str, Any], names: Sequence[str]) -> Any:
    """Returns the value of the first of some names in a row; None without any."""
    keys = {folded(key): key for key in row if row[key] is not None}
    return next((row[keys[name]] for name in names if name in keys), None)


def _use_answers(question: dict[str, Any], context: str, where: str) -> int:
    answers = _first(question, ANSWERS_NAMES) or _first(question, ANSWER_NAMES)
    if answers is None and not any(name in question for name in (*ANSWERS_NAMES, *ANSWER_NAMES)):
        return 0
    if isinstance(answers, str):
        answers = [{"text": answers, "answer_start": _first(question, START_NAMES)}] if answers.strip() else []
    answers = _answers_of(answers or [], where)
    num_found = 0
    for number, answer in enumerate(answers if isinstance(answers, list) else ()):
        answer = {"text": answer} if isinstance(answer, str) else answer
        text = answer.get("text") if isinstance(answer, dict) else None
        if isinstance(text, str) and text.strip() and answer.get("answer_start") is None:
            num_found += context.count(text) > 1
            if text not in context:
                raise Mistake('{}: the answer "{}" is not in the context; give its exact words', where, text)
            answers[number] = {**answer, "answer_start": context.find(text)}
    question["answers"] = answers
    return num_found


def _answers_of(answers: Any, where: str) -> Any:
    """Returns a list of answers: lists of texts and places become one object for each answer."""
    if not isinstance(answers, Mapping):
        return answers
    texts, starts = answers.get("text"), answers.get("answer_start")
    if not isinstance(texts, list) and not isinstance(starts, list):
        return [answers]
    if starts is None and isinstance(texts, list):
        return texts
    if not isinstance(texts, list) or not isinstance(starts, list) or len(texts) != len(starts):
        raise Mistake(
            '{} has {} for "answers", which must be a list, or lists "text" and "answer_start" of the same length',
            where,
            shortened(json.dumps(answers)),
        )
    return [{"text": text, "answer_start": start} for text, start in zip(texts, starts, strict=True)]


def _check_article(article: dict[str, Any], name: str, place: str, number: int) -> list[int]:
    """Checks an article or a paragraph, and returns the results of `_check_question`."""
    if "paragraphs" not in article and "qas" not in article:
        found = some_of([*article], 10) or "nothing"
        raise Mistake("{} is neither an article nor a question, but has {}; {}", place, found, _SHAPE)
    where = f"{name} article {number}"
    title = article.get("title")
    where += f' ("{title}")' if isinstance(title, str) else ""
    paragraphs = _value(article, "paragraphs", list, where) if "paragraphs" in article else [article]
    found = []
    for index, paragraph in enumerate(paragraphs, 1):
        at = f"{where} paragraph {index}"
        context = _value(paragraph, "context", str, at)
        questions = _value(paragraph, "qas", list, at)
        for position, question in enumerate(questions, 1):
            if isinstance(question, dict):
                question["is_complete"] = isinstance(question.get("answers"), Mapping)
            found.append(_check_question(question, context, f"{at} question {position}", f"{name} question"))
    return found


def _check_question(question: Any, context: str, where: str, name: str) -> int:
    """Checks a question in place, and gives it its "answers" as in SQuAD.

    `where` is its place, and `name` precedes its id if another place is not known.

    Returns:
        How many of the answers may be at several places.
    """
    _use_whole_number(question, "id")
    if isinstance(question, dict) and type(question.get("id")) is int:
        question["id"] = str(question["id"])  # predictions have it as a JSON key
    id_ = _value(question, "id", str, where)
    name = question["place"] = where if where == name else f'{name} "{id_}"'
    _value(question, "question", str, name)
    num_found = _use_answers(question, context, name)
    for answer in _value(question, "answers", list, name) if "answers" in question else []:
        _value(answer, "text", str, f"{name}, in its answers,")
        start = answer.get("answer_start")
        if isinstance(start, str) and _WHOLE.fullmatch(start.strip()):  # as tables write it, also as 3.0
            answer["answer_start"] = float(start)
        _use_whole_number(answer, "answer_start")
        _value(answer, "answer_start", int, f"{name}, in its answers,")
    if "is_impossible" in question:
        if isinstance(found := question["is_impossible"], str):  # as tables write it
            question["is_impossible"] = TRUTH_VALUES.get(found.strip().lower(), found)
        _value(question, "is_impossible", bool, name)
    return num_found


def _use_code_points(name: str, articles: list[dict]) -> None:
    """Converts the places of answers in UTF-16 units, which JavaScript counts, if the answers show that these are.

    They are if, of the answers after emoji or other characters of two units, more are at their place in UTF-16 units
    than in code points.
    """
    num_kept, moved = 0, []
    for paragraph in itertools.chain.from_iterable(article["paragraphs"] for article in articles):
        context = paragraph["context"]
        places = utf16_places(context) or ()
        for answer in (answer for question in paragraph["qas"] for answer in question.get("answers") or ()):
            start, text = answer["answer_start"], answer["text"]
            if 0 <= start < len(places) and places[start] != start:
                num_kept += context.startswith(text, start)
                moved += [(answer, places[start])] if context.startswith(text, places[start]) else []
    if num_kept < len(moved):
        for answer, start in moved:
            answer["answer_start"] = start
        log.info("%s: answer_start counts UTF-16 units, as the answers after emoji show: %d", name, len(moved))


def _use_whole_number(holder: Any, key: str) -> None:
    """Converts a value such as 3.0 to 3 in place."""
    if isinstance(holder, dict) and isinstance(holder.get(key), float) and holder[key].is_integer():
        holder[key] = int(holder[key])


def _value(holder: Any, key: str, kind: type, where: str) -> Any:
    """Returns the value of a key, after checking that it exists and has the right type."""
    if not isinstance(holder, dict):
        found = shortened(json.dumps(holder))
        raise Mistake('{} is {} where an object with the key "{}" is needed; {}', where, found, key, _SHAPE)
    if key not in holder:
        raise Mistake('{} lacks "{}"; {}', where, key, _SHAPE)
    value = holder[key]
    if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
        found = shortened(json.dumps(value))
        raise Mistake('{} has {} for "{}", which must be {}', where, found, key, _TYPE_NAMES[kind])
    return value
