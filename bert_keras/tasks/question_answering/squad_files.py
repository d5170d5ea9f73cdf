"""Makes the examples of questions from `question_files`, and reports answers that do not fit their context."""

import collections
import dataclasses
import hashlib
import itertools
import logging
from collections.abc import Iterable, Mapping
from typing import Any

from bert_keras.data_prep.text.same_text import Key, key_of
from bert_keras.mistakes import Mistake, several
from bert_keras.storage.json_rows import name_of
from bert_keras.storage.text_files import is_blank
from bert_keras.storage.writing import sha256
from bert_keras.tasks.question_answering.metrics import questions_of
from bert_keras.tasks.question_answering.question_files import read_articles
from bert_keras.tasks.question_answering.squad import Passage, SquadExample

log = logging.getLogger("bert_keras")


@dataclasses.dataclass(frozen=True)
class QuestionFile:
    """The articles of a file, from `read_articles`, which `held_out.with_part` can divide by their contexts."""

    name: str
    articles: list[dict]
    digest: str
    strata: None = None

    @classmethod
    def read(cls, path: str) -> "QuestionFile":
        return cls(name_of(path), read_articles(path), sha256(path))

    @property
    def keys(self) -> list[Key]:
        return [key_of([paragraph["context"]]) for article in self.articles for paragraph in article["paragraphs"]]

    def take(self, numbers: Iterable[int]) -> "QuestionFile":
        chosen = [*numbers]
        wanted, number = {*chosen}, itertools.count()
        parts = [[part for part in article["paragraphs"] if next(number) in wanted] for article in self.articles]
        articles = [{**article, "paragraphs": part} for article, part in zip(self.articles, parts, strict=True) if part]
        digest = hashlib.sha256(f"{self.digest} {chosen}".encode("ascii")).hexdigest()
        return QuestionFile(self.name, articles, digest)


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
                    example = _with_answer(example, question, version_2_with_negative)
                if example is None:
                    misplaced.append(question["id"])
                else:
                    examples.append(example)
    if examples and not any(example.passage.words for example in examples):
        raise Mistake("{}: no context contains a word; give a file with texts", path)
    if misplaced:
        misplaced_ids = ", ".join(misplaced[:5]) + (", ..." if len(misplaced) > 5 else "")
        if not examples:
            raise Mistake(
                "{}: no answer is at its answer_start ({}), so no question is left to train on; "
                "answer_start counts the characters of the context from 0",
                path,
                misplaced_ids,
            )
        count = f"{len(misplaced)} of {len(misplaced) + len(examples)} questions are left out"
        log.warning("%s: %s, because their answer is not at its answer_start: %s", path, count, misplaced_ids)
    return examples


def _check_ids(articles: list[dict], path: str, is_training: bool) -> None:
    counts = collections.Counter(question["id"] for question in questions_of(articles))
    repeated = [id_ for id_, count in counts.items() if count > 1]
    if repeated and not is_training:
        raise Mistake(
            '{} has more than one question with the id "{}", but predictions need unique ids; '
            "give each question its own id",
            path,
            repeated[0],
        )
    if repeated:
        ids = several(len(repeated), "repeated ids")
        log.warning("%s has %s; training uses all their questions", path, ids)


def _with_answer(
    example: SquadExample, question: Mapping[str, Any], version_2_with_negative: bool
) -> SquadExample | None:
    """Returns the example with the answer of its question in the file; None if the answer is not at its position."""
    name = question.get("place", question["id"])
    if question.get("is_complete") and not {"answers", "is_impossible"} & {*question}:
        raise Mistake(
            '{} has neither "answer" nor "answers"; give one of these names to the column or key with its answer, '
            "which is empty for a question without one",
            name,
        )
    answers = question.get("answers", [])
    if version_2_with_negative:
        if "is_impossible" not in question and not question.get("is_complete"):
            raise Mistake(
                '{} lacks "is_impossible", which every question of SQuAD 2.0 has; add it, or leave out '
                "{version_2_with_negative} for SQuAD 1.1",
                name,
            )
        if question.get("is_impossible", not answers):
            return dataclasses.replace(example, is_impossible=True)
    elif question.get("is_impossible"):
        raise Mistake("{} is marked is_impossible, as in SQuAD 2.0; give {version_2_with_negative}", name)
    if not answers:
        advice = "give {version_2_with_negative} for SQuAD 2.0"
        if version_2_with_negative:
            advice = 'set its "is_impossible" to true'
        raise Mistake("{} has no answer; to train on it, " + advice + ", or take it out", name)
    if len(answers) > 1:
        raise Mistake(
            "{} has {} answers, but training needs exactly one; train on a training file, "
            "as those for evaluation have several, or keep one of them",
            name,
            len(answers),
        )
    text, offset = answers[0]["text"], answers[0]["answer_start"]
    if is_blank(text):
        raise Mistake("{} has an answer without text; give its text, or take the question out", name)
    passage = example.passage
    if not 0 <= offset <= offset + len(text) <= len(passage.text):
        return None
    start, end = passage.word_at(offset), passage.word_at(offset + len(text) - 1)
    # The answer is split at all Unicode white space, the passage only at five characters. So an answer with a no-break
    # space is not found.
    if " ".join(text.split()) not in " ".join(passage.words[start : end + 1]):
        return None
    return dataclasses.replace(example, answer_text=text, start_position=start, end_position=end)
