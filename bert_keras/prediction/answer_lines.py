"""Answers as lines for readers or of JSON."""

import json
import logging
from collections.abc import Iterable, Iterator
from typing import Any

from bert_keras.prediction.containers import given_fields
from bert_keras.prediction.predictor import Unanswered

log = logging.getLogger("bert_keras")


def answer_lines(answers: Iterable[Any], as_json: bool) -> Iterator[str]:
    """Yields each answer as JSON or as text for readers, without a newline at the end. Logs the number of failures."""
    num_unanswered = 0
    for answer in answers:
        num_unanswered += isinstance(answer, Unanswered)
        if as_json:
            yield json.dumps(given_fields(answer), default=vars, ensure_ascii=False, allow_nan=False)
        else:
            yield answer.readable()
    if num_unanswered:
        log.warning("texts that could not be answered: %d", num_unanswered)
