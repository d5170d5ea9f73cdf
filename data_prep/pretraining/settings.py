"""The settings of pre-training examples, and their checks."""

import dataclasses
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.settings.fields import check_fields, setting

# Weights of spans of 1, 2, 3, ... words.
SPAN_LENGTHS = {
    "none": None,
    "ngram": (1.0, 1 / 2, 1 / 3),  # ALBERT, section 4.1
    "geometric": tuple(0.2 * 0.8**length for length in range(10)),  # SpanBERT, section 3.1
}
_SHARE: dict[str, Any] = {"lower_bound": 0.0, "upper_bound": 1.0}


def num_predictions(num_tokens: int, masked_lm_prob: float, max_predictions_per_seq: int) -> int:
    """Returns the number of tokens to mask among `num_tokens`, which include the special tokens.

    Rounds half to even, like the original BERT under Python 3: 0.15 of 30 tokens is 4. The result is at least 1.
    """
    return min(max_predictions_per_seq, max(1, round(num_tokens * masked_lm_prob)))


@dataclasses.dataclass(frozen=True)
class PretrainingDataSettings:
    """Settings of pre-training examples: the flags of the original BERT with its defaults, and additional settings.

    Not in the original BERT: other values of `chinese_words`, `masked_spans` and `sentence_task`, of `replace_prob` and
    `keep_prob` (paper, section 3.1; other shares: table 8), `dynamic_masking` and `strict_utf8`. `sentence_task` sets
    the meaning of an example's label: whether the second segment is random; whether two consecutive segments were
    exchanged (ALBERT, section 3.1); or always -1, for one segment of whole sentences (RoBERTa, section 4.2).

    Raises:
        ValueError: an invalid value.
    """

    max_seq_length: int = setting("Number of tokens in each example, with its three special tokens.", 128)
    max_predictions_per_seq: int = setting(
        "Maximum masked tokens in an example; about {max_seq_length} * {masked_lm_prob}.", 20
    )
    masked_lm_prob: float = setting("Share of the tokens to mask.", 0.15, **_SHARE)
    short_seq_prob: float = setting("Probability that a document is cut into shorter examples.", 0.1, **_SHARE)
    dupe_factor: int = setting("Number of times that the text is used, each time with other masks.", 10, lower_bound=1)
    random_seed: int = setting("Seed of all random choices.", 12345)
    do_whole_word_mask: bool = setting("Mask all word pieces of a word together.", False)
    chinese_words: str = setting(
        "With {do_whole_word_mask} or {masked_spans}: words of Chinese text, whose characters are masked together: "
        "jieba, spaces (a segmenter put them between words), a file with one word a line, or none.",
        "none",
    )
    masked_spans: str = setting(
        "Mask spans of words: ngram, up to 3 words as in ALBERT, or geometric, up to 10 as in SpanBERT.",
        "none",
        choices=SPAN_LENGTHS,
    )
    replace_prob: float = setting("Share of the chosen tokens that become [MASK].", 0.8, **_SHARE)
    keep_prob: float = setting("Share of the chosen tokens that stay. All others become random tokens.", 0.1, **_SHARE)
    dynamic_masking: bool = setting("Write examples without masks. Training draws new masks in each epoch.", False)
    sentence_task: str = setting(
        "Second task: next_sentence, sentence_order (exchanged segments, as in ALBERT), or none (whole sentences, as "
        "in RoBERTa).",
        "next_sentence",
        choices=("next_sentence", "sentence_order", "none"),
    )
    strict_utf8: bool = setting("Refuse text that is not UTF-8 instead of dropping bytes.", False)

    def __post_init__(self) -> None:
        check_fields(self)
        # [CLS], two [SEP], and one token per segment; the shortest target length is 2.
        if self.max_seq_length < 5:
            raise Mistake(
                "{max_seq_length}={} is too short: three special tokens and a token of each segment need at least 5",
                self.max_seq_length,
            )
        if not 1 <= self.max_predictions_per_seq <= self.max_seq_length:
            raise Mistake(
                "{max_predictions_per_seq}={0} is not valid with {max_seq_length}={1}; give a number from 1 "
                "to {1}, about {max_seq_length} * {masked_lm_prob}",
                self.max_predictions_per_seq,
                self.max_seq_length,
            )
        if self.do_whole_word_mask and self.masked_spans != "none":
            raise Mistake(
                "{masked_spans}={} always masks whole words; leave out {do_whole_word_mask}", self.masked_spans
            )
        if self.chinese_words != "none":
            self._check_chinese_words()
        if self.replace_prob + self.keep_prob > 1 + 1e-9:
            raise Mistake(
                "{replace_prob}={} and {keep_prob}={} are more than 1 together; give shares of the chosen tokens",
                self.replace_prob,
                self.keep_prob,
            )
        if self.dynamic_masking and (self.replace_prob, self.keep_prob) != (0.8, 0.1):
            raise Mistake(
                "{dynamic_masking} masks with {replace_prob}=0.8 and {keep_prob}=0.1; leave these out, or "
                "{dynamic_masking}"
            )
        if self.dynamic_masking and (self.do_whole_word_mask or self.masked_spans != "none"):
            raise Mistake(
                "{dynamic_masking} masks single tokens during training; leave out {do_whole_word_mask} and "
                "{masked_spans}, or {dynamic_masking}"
            )

    def _check_chinese_words(self) -> None:
        if not self.chinese_words:
            raise Mistake("{chinese_words} is empty; give jieba, spaces, none, or a file with one word a line")
        if self.dynamic_masking:
            raise Mistake(
                "{chinese_words}={} is for masks of whole words, but {dynamic_masking} masks single tokens "
                "during training; leave out one of them",
                self.chinese_words,
            )
        if not self.do_whole_word_mask and self.masked_spans == "none":
            raise Mistake(
                "{chinese_words}={} is for masks of whole words; also give {do_whole_word_mask} or {masked_spans}",
                self.chinese_words,
            )

    @property
    def most_predictions(self) -> int:
        """int; masked tokens of a full-length instance without the limit `max_predictions_per_seq`."""
        return num_predictions(self.max_seq_length, self.masked_lm_prob, self.max_seq_length)
