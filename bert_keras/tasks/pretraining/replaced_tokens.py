"""The task of ELECTRA's discriminator: which tokens of a text another model may have put there."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

import tensorflow as tf

from bert_keras.mistakes import Mistake
from bert_keras.modeling import ReplacedTokenModel
from bert_keras.prediction.network import Outputs, Question, ReadOut, Tensors
from bert_keras.prediction.predictor import Found
from bert_keras.tasks.pretraining.predictor import PretrainedPredictor


@dataclasses.dataclass(frozen=True)
class TokenReplacement:
    """A token, and the probability in [0, 1] that it does not belong there."""

    token: str
    probability: float


@dataclasses.dataclass(frozen=True)
class ReplacedTokens:
    """A text with all its tokens, in order."""

    text: str
    tokens: list[TokenReplacement]

    def readable(self) -> str:
        lines = [f"  {replacement.probability:.4f}  {replacement.token}" for replacement in self.tokens]
        return "\n".join([self.text, *lines])


class ReplacedTokenFinder(PretrainedPredictor[str, ReplacedTokens]):
    """Finds words that do not fit into a text, with the discriminator of an ELECTRA (Clark et al. 2020).

    A call takes a str and returns ReplacedTokens; given several texts, it returns a list. For a text longer than the
    model takes, `long="window"` reads it through windows, in which each token has at least a quarter of a window as
    context on both sides; `long="truncate"` reads the beginning.

    The arguments are those of `PretrainedPredictor`.
    """

    head = "replaced_token"
    network_class = ReplacedTokenModel

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        return """scores = 1 / (1 + np.exp(-outputs["logits"][0]))
for token, score in list(zip(rows[0].tokens, scores.tolist()))[1:-1]:
    print(token, score)"""

    def _encode(self, text: str, source: str) -> list[int]:
        self.limits.check_text(text, source)
        ids = self._ids_of_text(text)
        if not ids:
            raise Mistake("{} has no word; give a text", source)
        return self._fit(ids, source)

    def _questions(self, ids: list[int]) -> Iterator[Question]:
        step = self.room if len(ids) <= self.room else max(1, self.room // 2)
        for start in range(0, len(ids), step):
            end = min(start + step, len(ids))
            first = self._window_start((start + end) // 2, len(ids))
            window = ids[first : first + self.room]
            positions = range(1 + start - first, 1 + end - first)
            yield Question(*self._surround(window), positions, [0] * len(positions))

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        # [B, P]
        return (tf.gather(tf.sigmoid(outputs["logits"]), features["masked_lm_positions"], axis=1, batch_dims=1),)

    def _answer(self, text: str, ids: list[int], found: Found) -> ReplacedTokens:
        probabilities = [float(value) for count, (row,) in found for value in row[:count]]
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        return ReplacedTokens(text, [TokenReplacement(*pair) for pair in zip(tokens, probabilities, strict=True)])
