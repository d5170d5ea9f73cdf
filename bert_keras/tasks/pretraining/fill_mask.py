"""Fill-mask: the most probable tokens for each [MASK] of a text."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, ClassVar

import tensorflow as tf

from bert_keras.mistakes import Mistake, Remedy, Setting, shortened
from bert_keras.prediction.arguments import check_top_k, describe_value
from bert_keras.prediction.export_facts import RankedField
from bert_keras.prediction.network import Outputs, Question, ReadOut, Tensors
from bert_keras.prediction.predictor import Counts, Found, Row
from bert_keras.tasks.pretraining.predictor import MASK, UNKNOWN, PretrainedPredictor

# A sequence with more masks is split into several questions, to bound memory.
_MASKS_A_QUESTION = 20
# Maximum characters of an answer, as a multiple of the longest text. A guess has its sentence and some more.
_TEXTS_AN_ANSWER, _CHARS_A_GUESS = 20, 60


@dataclasses.dataclass(frozen=True)
class Guess:
    """One way to fill a mask.

    Attributes:
        token: as in the vocabulary; "##" marks a token that continues the word before it.
        probability: in [0, 1]; the probabilities of the whole vocabulary sum to 1.
        sentence: the text with this mask filled in; other masks are unchanged.
    """

    token: str
    probability: float
    sentence: str


@dataclasses.dataclass(frozen=True)
class FilledText:
    """The guesses for the masks of a text.

    Attributes:
        masks: the guesses for each [MASK] in order, the most probable first.
        best: the text with every mask filled with its most probable token.
    """

    text: str
    masks: list[list[Guess]]
    best: str

    def readable(self) -> str:
        """Returns lines of text for readers, as every answer does."""
        lines = [self.text]
        for number, guesses in enumerate(self.masks, 1):
            if len(self.masks) > 1:
                lines.append(f"  [MASK] {number} of {len(self.masks)}")
            width = max(len(guess.token) for guess in guesses)
            lines += [f"  {guess.probability:.4f}  {guess.token:<{width}}  {guess.sentence}" for guess in guesses]
        if len(self.masks) > 1:
            lines.append(f"  all filled: {self.best}")
        return "\n".join(lines)


class FillMask(PretrainedPredictor[str, FilledText]):
    """Fills in masks: `FillMask("uncased_L-12_H-768_A-12")("Paris is the [MASK] of France.")`.

    A call takes a str with one [MASK] or more and returns a FilledText; given several texts, it returns a list.

    The model fills the masks of a text independently of each other, as in pre-training.

    The arguments are those of `PretrainedPredictor`. Options of a call:

    - `top_k`: number of guesses for each mask; by default all candidates, the setting of an export, or 5.
    - `candidates`: the only words to guess, such as ["paris", "london"], each one token of the vocabulary. Their
      probabilities are shares of the whole vocabulary, as without this option.
    """

    head = "masked_lm"
    ranked = RankedField("masks", best=("best",))

    @classmethod
    def card_code(cls, settings: Mapping[str, Any]) -> str:
        return f"""for scores in outputs["logits"][0]:
    print([tokenizer.id_to_token(int(number)) for number in scores.argsort()[::-1][:{settings["top_k"]}]])"""

    extra_specs: ClassVar = {"top_k": tf.TensorSpec([], tf.int32), "candidate_ids": tf.TensorSpec([None], tf.int32)}

    def _prepare(self) -> None:
        super()._prepare()
        if self.config.is_decoder:
            raise Mistake(
                "{} reads left to right (is_decoder in its config), so it cannot fill in a {}; give a "
                "model of masked LM, or score complete texts, which is the task score",
                self.folder,
                MASK,
            )

    def _default_options(self) -> dict[str, Any]:
        return {"top_k": None, "candidates": None}

    def _check_options(self, options: dict[str, Any]) -> None:
        if options["top_k"] is not None:
            check_top_k(options["top_k"], self.config.vocab_size, "the vocabulary's")
        self._extra(options)

    def _extra(self, options: dict[str, Any]) -> dict[str, Any]:
        ids = [] if options["candidates"] is None else self._ids_of(options["candidates"])
        default = self.settings["top_k"] if self.settings else min(5, self.config.vocab_size)
        top_k = options["top_k"] or len(ids) or default
        return {"top_k": min(top_k, len(ids) or top_k), "candidate_ids": ids}

    def _ids_of(self, candidates: object) -> list[int]:
        """Returns the id of each candidate once."""
        vocab, ids = self.tokenizer.vocab, []
        words = [] if isinstance(candidates, str) or not isinstance(candidates, Iterable) else list(candidates)
        if not words or not all(isinstance(word, str) for word in words):
            raise Mistake("{candidates} is {}, but a list of one word or more is needed", describe_value(candidates))
        for word in words:
            self.limits.check_text(word, Setting("candidates"))
            word_ids = [vocab[word]] if word in vocab else self.tokenizer.encode(word)
            if len(word_ids) != 1 or (word_ids == [vocab[UNKNOWN]] and word != UNKNOWN):
                tokens = " ".join(self.tokenizer.convert_ids_to_tokens(word_ids)) or "no token"
                raise Mistake(
                    '{candidates} has "{}", which the tokenizer turns into {}; a [MASK] is one token, so give words '
                    "that the vocabulary has",
                    word,
                    tokens,
                )
            ids += word_ids
        return list(dict.fromkeys(ids))

    def _encode(self, text: str, source: str) -> list[int]:
        self.limits.check_text(text, source)
        ids = self._ids_of_text(text)
        mask_id = self.tokenizer.vocab[MASK]
        num_masks = ids.count(mask_id)
        if not num_masks:
            written = next((word for word in ("[mask]", "<mask>", "[Mask]", "<MASK>") if word in text), None)
            hint = f"write {MASK} for {written}" if written else f"write {MASK} where a word is to be guessed"
            raise Mistake('{} has no {}: "{}"; {}', source, MASK, shortened(text, 57), hint)
        self.limits.check("max_masks", num_masks, source, MASK)
        ids = self._fit(ids, source)
        num_cut = num_masks - ids.count(mask_id)
        if num_cut:
            raise Mistake(
                "{} has {} of its {} {} beyond the {} tokens that the model takes; make it shorter{}",
                source,
                num_cut,
                num_masks,
                MASK,
                self.room,
                Remedy(", or choose {long}=window"),
            )
        return ids

    def _encode_row(self, row: Row, counts: Counts, options: dict[str, Any], extra: dict[str, Any]) -> list[int]:
        ids = super()._encode_row(row, counts, options, extra)
        # The answer repeats the text for every guess.
        num_masks, num_guesses = row.text.count(MASK), extra["top_k"]
        num_chars = num_masks * num_guesses * (len(row.text) + _CHARS_A_GUESS)
        if num_chars > _TEXTS_AN_ANSWER * self.limits.max_chars:
            raise Mistake(
                "{} has {} {} in {:,} characters: {} guesses for each, with their sentences, are {:,} "
                "characters, more than {} times {max_chars}; make it shorter, or choose a smaller {top_k}",
                row.source,
                num_masks,
                MASK,
                len(row.text),
                num_guesses,
                num_chars,
                _TEXTS_AN_ANSWER,
            )
        return ids

    def _questions(self, ids: list[int]) -> Iterator[Question]:
        mask_id = self.tokenizer.vocab[MASK]
        places_by_start = {}
        for place, id_ in enumerate(ids):
            if id_ == mask_id:
                places_by_start.setdefault(self._window_start(place, len(ids)), []).append(place)
        for start, places in places_by_start.items():
            sequence = self._surround(ids[start : start + self.room])
            for first in range(0, len(places), _MASKS_A_QUESTION):
                positions = [1 + place - start for place in places[first : first + _MASKS_A_QUESTION]]
                yield Question(*sequence, positions, [0] * len(positions))

    def _read_out(self, outputs: Outputs, features: Tensors) -> ReadOut:
        probabilities = tf.nn.softmax(outputs["masked_lm_logits"])  # [B, P, V]
        candidate_ids, top_k = features["candidate_ids"], features["top_k"]

        def best_candidates() -> tuple[tf.Tensor, tf.Tensor]:
            values, order = tf.math.top_k(tf.gather(probabilities, candidate_ids, axis=2), top_k)
            return values, tf.gather(candidate_ids, order)

        def best_tokens() -> tuple[tf.Tensor, tf.Tensor]:
            return tuple(tf.math.top_k(probabilities, top_k))

        return tf.cond(tf.size(candidate_ids) > 0, best_candidates, best_tokens)  # [B, P, K] each

    def _answer(self, text: str, ids: list[int], found: Found, **options: Any) -> FilledText:
        parts = text.split(MASK)
        starts = [0, *itertools.accumulate(len(part) + len(MASK) for part in parts[:-1])]
        masks = []
        for num_positions, (probabilities, token_ids) in found:
            for index in range(num_positions):
                before, after = text[: starts[len(masks) + 1] - len(MASK)], text[starts[len(masks) + 1] :]
                tokens = map(self._token, token_ids[index].tolist())
                masks.append(
                    [
                        Guess(token, probability, _append(before, token) + after)
                        for token, probability in zip(tokens, probabilities[index].tolist(), strict=True)
                    ]
                )
        best = parts[0]
        for guesses, part in itertools.zip_longest(masks, parts[1:]):
            best = _append(best, guesses[0].token if guesses else MASK) + part
        return FilledText(text, masks, best)

    def _token(self, id_: int) -> str:
        # If a vocabulary has a line twice, only the id of the last one maps to the token.
        return self.tokenizer.inv_vocab.get(id_, UNKNOWN)


def _append(sentence: str, token: str) -> str:
    """Appends a token to a sentence; one that continues a word loses its "##" and the space before it."""
    if token.startswith("##") and token != "##" and sentence.strip():
        return sentence.rstrip() + token[2:]
    return sentence + token
