"""Sentence scoring: the pseudo-log-likelihood of a text, or the log-likelihood if the model reads left to right."""

import dataclasses
import logging
import math
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import tensorflow as tf

from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.prediction.arguments import PLL_CHOICES, check_choice
from bert_keras.prediction.network import Outputs, Question, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found, Row
from bert_keras.tasks.pretraining.predictor import MASK, UNKNOWN, PretrainedPredictor

log = logging.getLogger("bert_keras")

# A model that reads left to right scores this many tokens at once, to bound memory.
_TOKENS_A_QUESTION = 128

# The tokens of a text, and for each of them the end of the tokens that are masked with it.
_Encoded = tuple[list[int], Sequence[int]]


@dataclasses.dataclass(frozen=True)
class TokenScore:
    """A token, and the natural logarithm of its probability: when it is masked, or after the tokens before it."""

    token: str
    log_probability: float


@dataclasses.dataclass(frozen=True)
class SentenceScore:
    """The score of a text.

    Attributes:
        log_probability: the sum over its tokens. Values near 0 are more natural; longer texts have lower values.
        perplexity: exp(-log_probability / number of tokens), comparable between lengths; lower is more natural. At most
            the largest float, 1.8e308.
    """

    text: str
    log_probability: float
    perplexity: float
    tokens: list[TokenScore]

    def readable(self) -> str:
        tokens = " ".join(f"{score.token} {score.log_probability:.2f}" for score in self.tokens)
        return f"{self.log_probability:.4f}  perplexity {self.perplexity:.4g}  {self.text}\n  {tokens}"


class SentenceScorer(PretrainedPredictor[str, SentenceScore]):
    """Scores texts by masking one token at a time ("Masked Language Model Scoring", Salazar et al. 2020).

    A call takes a str and returns a SentenceScore; given several texts, it returns a list.

    A text of n tokens needs n sequences, which are batched. For a text longer than the model takes, `long="window"`
    scores each token in a window with as much context on both sides as fits; `long="truncate"` scores the beginning.

    A model that reads left to right (`is_decoder` in its config) predicts each token from those before it, without
    masks. A text needs one sequence, or one for each 128 tokens. For a text longer than the model takes,
    `long="window"` gives each token half a window of earlier tokens or more. `pll` changes nothing.

    The arguments are those of `PretrainedPredictor`. Option of a call:

    - `pll`: "original" masks only the token. "within_word_l2r" also masks the later tokens of the same word, so that
      the end of a rare word does not give away its beginning ("A Better Way to Do Masked Language Model Scoring",
      Kauf and Ivanova 2023).
    """

    head = "masked_lm"

    def _default_options(self) -> dict[str, Any]:
        return {"pll": "original"}

    def _check_options(self, options: dict[str, Any]) -> None:
        check_choice("pll", options["pll"], PLL_CHOICES)

    def _encode_row(self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]) -> _Encoded:
        ids = super()._encode_row(row, counts, options, extra)
        return ids, range(1, len(ids) + 1) if options["pll"] == "original" else word_ends(self.tokenizer, ids)

    def _encode(self, text: str, source: str) -> list[int]:
        self.limits.check_text(text, source)
        ids = self._ids_of_text(text)
        if not ids:
            raise Mistake("{} has no word; give a text to score", source)
        if self.tokenizer.vocab[MASK] in ids:
            raise Mistake("{} has a {}, but only complete texts can be scored; replace it with a word", source, MASK)
        ids = self._fit(ids, source)
        if not self.config.is_decoder:
            self.limits.check("max_sequences", len(ids), source, "tokens to score, each in its own sequence")
        num_unknown = ids.count(self.tokenizer.vocab[UNKNOWN])
        if num_unknown:
            log.warning("%s: %d of its %d tokens are unknown; they are scored as [UNK]", source, num_unknown, len(ids))
        return ids

    def _questions(self, encoded: _Encoded) -> Iterator[Question]:
        ids, ends = encoded
        return self._left_to_right(ids) if self.config.is_decoder else self._masked(ids, ends)

    def _left_to_right(self, ids: list[int]) -> Iterator[Question]:
        """Yields windows that end with the tokens to score. The output at a token predicts the next one."""
        step = min(_TOKENS_A_QUESTION, self.room if len(ids) <= self.room else -(-self.room // 2))
        for start in range(0, len(ids), step):
            scored = ids[start : start + step]
            window = ids[max(0, start + len(scored) - self.room) : start + len(scored)]
            first = len(window) - len(scored)  # [CLS] is before the window
            yield Question(*self._surround(window), range(first, len(window)), scored)

    def _masked(self, ids: list[int], ends: Sequence[int]) -> Iterator[Question]:
        mask_id = self.tokenizer.vocab[MASK]
        for place, (id_, end) in enumerate(zip(ids, ends, strict=True)):
            start = self._window_start(place, len(ids))
            window_ids = ids[start : start + self.room]
            num_masked = min(end - start, self.room) - (place - start)
            window_ids[place - start : place - start + num_masked] = [mask_id] * num_masked
            input_ids, segment_ids = self._surround(window_ids)
            position = 1 + place - start
            yield Question(input_ids, segment_ids, [position], [id_])

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        log_probabilities = tf.nn.log_softmax(outputs["masked_lm_logits"])  # [B, P, V]
        return (tf.gather(log_probabilities, features["masked_lm_ids"], axis=2, batch_dims=2),)  # [B, P]

    def _answer(self, text: str, encoded: _Encoded, found: Found, **options: Any) -> SentenceScore:
        ids, _ = encoded
        scores = [float(score) for num_scored, (scores,) in found for score in scores[:num_scored]]
        tokens = self.tokenizer.convert_ids_to_tokens(ids)
        total = math.fsum(scores)
        # math.exp overflows above 709.7, where the model gives each token a probability of 0.
        mean = min(-total / len(scores), math.log(sys.float_info.max))
        return SentenceScore(
            text=text,
            log_probability=total,
            perplexity=math.exp(mean),
            tokens=[TokenScore(token, score) for token, score in zip(tokens, scores, strict=True)],
        )


def word_ends(tokenizer: FullTokenizer, ids: Sequence[int]) -> list[int]:
    """Returns the end of each token's word, as a place in `ids`. A token that begins with "##" continues a word."""
    ends = [len(ids)] * len(ids)
    for place in range(len(ids) - 2, -1, -1):
        continues = tokenizer.inv_vocab[ids[place + 1]].startswith("##")
        ends[place] = ends[place + 1] if continues else place + 1
    return ends
