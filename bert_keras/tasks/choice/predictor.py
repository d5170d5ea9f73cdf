"""Multiple choice: the continuation that fits a text best."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np
import scipy.special

from bert_keras.prediction.predictor import Found
from bert_keras.tasks.finetuning.predictor import Arrays, Texts, TextsScorer


@dataclasses.dataclass(frozen=True)
class Choice:
    """The `index` of the choice that fits a text best, from 0, and the probability of each choice; they sum to 1."""

    text: str
    choices: list[str]
    index: int
    probabilities: list[float]

    def readable(self) -> str:
        lines = [self.text]
        for number, (probability, choice) in enumerate(zip(self.probabilities, self.choices, strict=True)):
            lines.append(f"{'>' if number == self.index else ' '} {probability:.4f}  {choice}")
        return "\n".join(lines)


class ChoicePicker(TextsScorer[Choice]):
    """Picks one of several texts with a model of run_classifier.py (paper, section 4.4).

    `ChoicePicker("output")(("She opened the hood.", ["Then she looked in.", "Then she sang."])).index`

    A call takes a tuple of a text and a list of two or more choices, and returns a Choice. Given several such tuples,
    it returns a list.

    The arguments are those of `FineTunedPredictor`.
    """

    head = "multiple_choice"
    names = ("text", "choice", "choices")
    needed = "a text and a list of two or more choices"
    cut_parts = "choices, each with its text,"

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        return 'print(choices[outputs["logits"][:, 0].argmax()])'

    def _answer(self, question: Texts, encoded: tuple[Texts, Arrays], found: Found) -> Choice:
        (text, choices), _ = encoded
        logits = np.array([logit for _, (logit,) in found], np.float64)
        return Choice(text, choices, int(logits.argmax()), scipy.special.softmax(logits).tolist())
