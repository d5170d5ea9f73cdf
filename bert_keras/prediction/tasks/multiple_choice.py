"""Multiple choice: the continuation that fits a text best."""

import dataclasses

import numpy as np
import scipy.special

from bert_keras.data_prep.tasks.examples import Example
from bert_keras.modeling import ClassifierModel
from bert_keras.prediction.arguments import shown
from bert_keras.prediction.tasks.fine_tuned import FineTunedPredictor


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


class ChoicePicker(FineTunedPredictor[tuple[str, list[str]], Choice]):
    """Picks one of several texts with a model of run_classifier.py (paper, section 4.4).

    `ChoicePicker("output")(("She opened the hood.", ["Then she looked in.", "Then she sang."])).index`

    A call takes a tuple of a text and a list of two or more choices, and returns a Choice. Given several such tuples,
    it returns a list.

    The arguments are those of `FineTunedPredictor`.
    """

    head = "multiple_choice"
    takes_pairs = True
    cut_parts = "choices, each with its text,"

    @property
    def num_classes(self) -> int:
        return 1

    def _make_model(self, config):
        # A MultipleChoiceModel has the same weights. They score choices one by one, so any number is possible.
        return ClassifierModel(config, 1)

    def _encode(self, question, source):
        is_pair = isinstance(question, tuple | list) and len(question) == 2
        if not is_pair or not isinstance(question[1], tuple | list) or len(question[1]) < 2:
            raise ValueError(f"{source} is {shown(question)}, but a text and a list of two or more choices are needed")
        text, choices = question
        self._check_text(text, source)
        self.limits.check("max_sequences", len(choices), source, "choices")
        for number, choice in enumerate(choices, 1):
            self._check_text(choice, source, f"choice {number}")
        return text, list(choices)

    def _features(self, example, counts, options):
        text, choices = example
        return self._features_of([Example("", text, choice) for choice in choices], counts)

    def _read_out(self, outputs, features):
        return (outputs["logits"][:, 0],)  # [B]

    def _answer(self, text, encoded, found):
        (text, choices), _ = encoded
        logits = np.array([logit for _, (logit,) in found], np.float64)
        return Choice(text, choices, int(logits.argmax()), scipy.special.softmax(logits).tolist())
