"""Text for every kind of answer: for readers, or JSON."""

import dataclasses
import functools
import json
import logging

from bert_keras.prediction.predictor import Unanswered
from bert_keras.prediction.tasks.classification import Classification, MultiLabel, Regression
from bert_keras.prediction.tasks.entities import TaggedText
from bert_keras.prediction.tasks.features import TextVector
from bert_keras.prediction.tasks.fill_mask import FilledText
from bert_keras.prediction.tasks.multiple_choice import Choice
from bert_keras.prediction.tasks.next_sentence import PairAnswer
from bert_keras.prediction.tasks.question_answering import QuestionAnswer
from bert_keras.prediction.tasks.sentence_score import SentenceScore

log = logging.getLogger("bert_keras")

# Maximum numbers of classes, and of values of a vector, to show.
_MOST_CLASSES = 5
_MOST_NUMBERS = 6


def answer_lines(answers, as_json):
    """Yields each answer as JSON or as text for readers, without a newline at the end. Logs the number of failures."""
    num_unanswered = 0
    for answer in answers:
        num_unanswered += isinstance(answer, Unanswered)
        if as_json:
            yield json.dumps(dataclasses.asdict(answer), ensure_ascii=False, allow_nan=False)
        else:
            yield readable(answer)
    if num_unanswered:
        log.warning("texts that could not be answered: %d", num_unanswered)


@functools.singledispatch
def readable(answer):
    """Returns the answer of any predictor as one or more lines of text."""
    raise ValueError(f"{type(answer).__name__} is not a type of answer; give the answer of a predictor")


@readable.register
def _(answer: FilledText):
    lines = [answer.text]
    for number, guesses in enumerate(answer.masks, 1):
        if len(answer.masks) > 1:
            lines.append(f"  [MASK] {number} of {len(answer.masks)}")
        width = max(len(guess.token) for guess in guesses)
        lines += [f"  {guess.probability:.4f}  {guess.token:<{width}}  {guess.sentence}" for guess in guesses]
    if len(answer.masks) > 1:
        lines.append(f"  all filled: {answer.best}")
    return "\n".join(lines)


@readable.register
def _(answer: PairAnswer):
    return f"{answer.probability:.4f}  {answer.text_a}  ->  {answer.text_b}"


@readable.register
def _(answer: SentenceScore):
    tokens = " ".join(f"{score.token} {score.log_probability:.2f}" for score in answer.tokens)
    return f"{answer.log_probability:.4f}  perplexity {answer.perplexity:.4g}  {answer.text}\n  {tokens}"


@readable.register
def _(answer: Classification):
    return "\n".join([_texts(answer), *_ranked(answer.probabilities, _MOST_CLASSES)])


@readable.register
def _(answer: Regression):
    return f"{answer.value:.4f}  {_texts(answer)}"


@readable.register
def _(answer: MultiLabel):
    applying = {label: answer.probabilities[label] for label in answer.labels}
    return "\n".join([_texts(answer), *(_ranked(applying, len(applying)) or ["  no label"])])


@readable.register
def _(answer: Choice):
    chances = zip(answer.probabilities, answer.choices, strict=True)
    lines = [
        f"{'>' if number == answer.index else ' '} {chance:.4f}  {choice}"
        for number, (chance, choice) in enumerate(chances)
    ]
    return "\n".join([answer.text, *lines])


@readable.register
def _(answer: QuestionAnswer):
    found = "(no answer)" if answer.is_impossible else f"{answer.text}  ({answer.start} to {answer.end})"
    line = f"{answer.question}\n  {answer.probability:.4f}  {found}"
    if answer.null_odds is not None:
        line += f"  odds of no answer {answer.null_odds:.4g}, threshold {answer.null_threshold:.4g}"
    return line


@readable.register
def _(answer: TaggedText):
    lines = [
        f"  {entity.probability:.4f}  {entity.type}  {entity.text}  ({entity.start} to {entity.end})"
        for entity in answer.entities
    ]
    return "\n".join([answer.text, *(lines or ["  no entity"])])


@readable.register
def _(answer: TextVector):
    shown = " ".join(f"{value:.4f}" for value in answer.vector[:_MOST_NUMBERS])
    num_others = len(answer.vector) - _MOST_NUMBERS
    return f"{answer.text}\n  {shown}" + (f" and {num_others} others; --json has all" if num_others > 0 else "")


@readable.register
def _(answer: Unanswered):
    return f"no answer: {answer.error}"


def _texts(answer):
    return answer.text if answer.text_pair is None else f"{answer.text}  |  {answer.text_pair}"


def _ranked(probabilities, num_shown):
    """Returns a line for each of the most probable classes, and a line with the number of others."""
    ranked = sorted(probabilities.items(), key=lambda item: -item[1])
    lines = [f"  {probability:.4f}  {label}" for label, probability in ranked[:num_shown]]
    num_others = len(ranked) - num_shown
    return lines if num_others <= 0 else [*lines, f"  and {num_others} other{'s' * (num_others > 1)}; --json has all"]
