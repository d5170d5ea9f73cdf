"""Next-sentence prediction: the probability that one text follows another."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import describe_value
from bert_keras.prediction.network import Outputs, Question, ReadOut, Tensors
from bert_keras.prediction.predictor import Found
from bert_keras.tasks.pretraining.predictor import PretrainedPredictor, fit_pair


@dataclasses.dataclass(frozen=True)
class PairAnswer:
    """The probability in [0, 1] that the second of two given texts follows the first."""

    text_a: str
    text_b: str
    probability: float

    def readable(self) -> str:
        return f"{self.probability:.4f}  {self.text_a}  ->  {self.text_b}"


class NextSentence(PretrainedPredictor[tuple[str, str], PairAnswer]):
    """Predicts the probability that one text follows another (paper, section 3.1, task 2).

    A call takes a tuple of two str and returns a PairAnswer; given several tuples, it returns a list.

    For pairs longer than the model takes, `long="truncate"` drops the end of the longer text, and `long="window"` keeps
    the tokens around the boundary.

    The arguments are those of `PretrainedPredictor`.
    """

    head = "next_sentence"
    takes_pairs = True
    num_special_tokens = 3

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        return """scores = outputs["logits"][0]
print(float(1 / (1 + np.exp(scores[1] - scores[0]))))"""

    def _encode(self, pair: tuple[str, str], source: str) -> tuple[list[int], list[int]]:
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            raise Mistake(
                "{} is {}, but a pair of two texts is needed, a tuple of two str", source, describe_value(pair)
            )
        for text, which in zip(pair, ("first", "second"), strict=True):
            self.limits.check_text(text, source, f"{which} text")
        first, second = (self._ids_of_text(text) for text in pair)
        for ids, which in ((first, "first"), (second, "second")):
            if not ids:
                raise Mistake("{} has no word in its {} text; give two texts", source, which)
        return fit_pair(first, second, self.room, self.long, source, self.tokenizer.rules.is_foreign)

    def _questions(self, ids: tuple[list[int], list[int]]) -> Iterator[Question]:
        # The masked-LM head needs a position. TensorFlow prunes it from the graph, because its output is unused.
        yield Question(*self._surround(*ids), [0], [0])

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        return (tf.nn.softmax(outputs["next_sentence_logits"])[:, 0],)  # [B]; class 0 is "follows"

    def _answer(self, pair: tuple[str, str], ids: tuple[list[int], list[int]], found: Found) -> PairAnswer:
        [(_, (probability,))] = found
        text_a, text_b = pair
        return PairAnswer(text_a, text_b, float(probability))
