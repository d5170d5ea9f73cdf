"""Converts documents of token ids to pre-training instances, drawn like the original BERT.

An instance is a pair of segments with masked tokens. The functions depend only on documents, settings and a random
generator, so any process can handle any document.
"""

import bisect
import collections
import dataclasses
import random
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.pretraining.masking import SPAN_LENGTHS, MaskingVocabulary, mask_tokens, num_predictions
from bert_keras.mistakes import Mistake, Setting
from bert_keras.settings.fields import check_choices, setting

Span = tuple[int, int]  # [start, end) in `Documents.tokens`


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
        "Maximum masked tokens in an example; about max_seq_length * masked_lm_prob.", 20
    )
    masked_lm_prob: float = setting("Share of the tokens to mask.", 0.15)
    short_seq_prob: float = setting("Probability that a document is cut into shorter examples.", 0.1)
    dupe_factor: int = setting("Number of times that the text is used, each time with other masks.", 10)
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
    replace_prob: float = setting("Share of the chosen tokens that become [MASK].", 0.8)
    keep_prob: float = setting("Share of the chosen tokens that stay. All others become random tokens.", 0.1)
    dynamic_masking: bool = setting("Write examples without masks. Training draws new masks in each epoch.", False)
    sentence_task: str = setting(
        "Second task: next_sentence, sentence_order (exchanged segments, as in ALBERT), or none (whole sentences, as "
        "in RoBERTa).",
        "next_sentence",
        choices=("next_sentence", "sentence_order", "none"),
    )
    strict_utf8: bool = setting("Refuse text that is not UTF-8 instead of dropping bytes.", False)

    def __post_init__(self) -> None:
        # [CLS], two [SEP], and one token per segment; the shortest target length is 2.
        if self.max_seq_length < 5:
            raise Mistake(
                "{max_seq_length}={} is too short: three special tokens and a token of each segment need at least 5",
                self.max_seq_length,
            )
        if not 1 <= self.max_predictions_per_seq <= self.max_seq_length:
            raise Mistake(
                "{max_predictions_per_seq}={0} is not valid with {max_seq_length}={1}; give a number from 1 "
                "to {1}, about max_seq_length * masked_lm_prob",
                self.max_predictions_per_seq,
                self.max_seq_length,
            )
        for name in ("masked_lm_prob", "short_seq_prob", "replace_prob", "keep_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise Mistake(
                    "{}={} is not a valid probability; give a number from 0 to 1", Setting(name), getattr(self, name)
                )
        if self.dupe_factor < 1:
            raise Mistake("{dupe_factor}={} makes no examples; give 1 or more", self.dupe_factor)
        check_choices(self)
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


class Instance(NamedTuple):
    """Unpadded masked sequence: `[CLS] first [SEP] second [SEP]`, or `[CLS] first [SEP]` with one segment."""

    tokens: list[int]  # ids after masking
    first_length: int  # number of tokens with segment id 0: `[CLS]`, the first segment and its `[SEP]`
    is_random_next: bool  # for the task "sentence_order": whether the segments were exchanged
    masked_lm_positions: list[int]  # ascending
    masked_lm_ids: list[int]  # original ids at these positions

    def features(self, settings: PretrainingDataSettings) -> dict[str, list]:
        """Returns the padded features under the names of the original BERT, as lists of int or float.

        The next-sentence label is 1 for a random or exchanged second segment, -1 without a sentence task. Dynamic
        masking omits the features of masked LM.
        """
        length, num_masked = len(self.tokens), len(self.masked_lm_ids)
        pad = [0] * (settings.max_seq_length - length)
        features: dict[str, list] = {
            "input_ids": self.tokens + pad,
            "input_mask": [1] * length + pad,
            "segment_ids": [0] * self.first_length + [1] * (length - self.first_length) + pad,
        }
        if not settings.dynamic_masking:
            pad = [0] * (settings.max_predictions_per_seq - num_masked)
            features["masked_lm_positions"] = self.masked_lm_positions + pad
            features["masked_lm_ids"] = self.masked_lm_ids + pad
            features["masked_lm_weights"] = [1.0] * num_masked + [0.0] * len(pad)
        features["next_sentence_labels"] = [-1 if settings.sentence_task == "none" else int(self.is_random_next)]
        return features


def draw_segments(
    documents: Documents, index: int, settings: PretrainingDataSettings, rng: random.Random
) -> Iterator[tuple[Span, Span | None, bool]]:
    """Yields the segments of the instances of one document for one duplicate, and the label of each pair.

    Random next segments come from the other documents.
    """
    num_special, segments_of = SENTENCE_TASKS[settings.sentence_task]
    max_num_tokens = settings.max_seq_length - num_special
    target_length = max_num_tokens
    if rng.random() < settings.short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    yield from segments_of(documents, index, target_length, max_num_tokens, rng)


def instances_of_document(
    documents: Documents,
    index: int,
    settings: PretrainingDataSettings,
    vocabulary: MaskingVocabulary,
    rng: random.Random,
) -> Iterator[Instance]:
    """Yields the instances of one document for one duplicate (create_instances_from_document in the original BERT)."""
    tokens, sep_id = documents.tokens, vocabulary.sep_id
    for (a, b), second, label in draw_segments(documents, index, settings, rng):
        sequence = [vocabulary.cls_id, *tokens[a:b].tolist(), sep_id]
        if second:
            sequence += [*tokens[second[0] : second[1]].tolist(), sep_id]
        if settings.dynamic_masking:
            yield Instance(sequence, b - a + 2, label, [], [])
            continue
        masked = mask_tokens(
            sequence,
            vocabulary,
            rng,
            settings.masked_lm_prob,
            settings.max_predictions_per_seq,
            settings.do_whole_word_mask,
            settings.masked_spans,
            settings.replace_prob,
            settings.keep_prob,
        )
        yield Instance(masked[0], b - a + 2, label, masked[1], masked[2])


def _next_sentence_pairs(
    documents: Documents, index: int, target_length: int, max_num_tokens: int, rng: random.Random
) -> Iterator[tuple[Span, Span, bool]]:
    """Yields two segments and whether the second is random, like the original BERT.

    Collects sentences up to the target length. Half of the time, splits this chunk at a random sentence. Otherwise, and
    for a single sentence, the second segment comes from another document, and the next chunk starts with the unused
    sentences.
    """
    starts = documents.sentence_starts
    first, end = documents.sentences(index)
    while first < end:
        chunk_end = _chunk_end(documents, first, end, target_length)
        num_sentences = chunk_end - first
        a_end = first + (rng.randint(1, num_sentences - 1) if num_sentences > 1 else 1)
        segment_a = starts[first], starts[a_end]
        is_random_next = num_sentences == 1 or rng.random() < 0.5
        if is_random_next:
            segment_b = _random_segment(documents, index, target_length - (segment_a[1] - segment_a[0]), rng)
            first = a_end
        else:
            segment_b = starts[a_end], starts[chunk_end]
            first = chunk_end
        yield *truncate_pair(segment_a, segment_b, max_num_tokens, rng), is_random_next


def _sentence_order_pairs(
    documents: Documents, index: int, target_length: int, max_num_tokens: int, rng: random.Random
) -> Iterator[tuple[Span, Span, bool]]:
    """Yields two consecutive segments, exchanged half of the time, and whether they are exchanged.

    Collects sentences as for the next-sentence task and splits them at a random sentence. Splits a single sentence at a
    random token, because it has no order otherwise. A single sentence of one token gives no example.
    """
    starts = documents.sentence_starts
    first, end = documents.sentences(index)
    while first < end:
        chunk_end = _chunk_end(documents, first, end, target_length)
        start, stop = starts[first], starts[chunk_end]
        is_alone = chunk_end - first == 1
        if is_alone and stop - start == 1:
            return  # only at the end of a document, because the target length is at least two
        cut = rng.randint(start + 1, stop - 1) if is_alone else starts[rng.randint(first + 1, chunk_end - 1)]
        first = chunk_end
        a, b = truncate_pair((start, cut), (cut, stop), max_num_tokens, rng)
        is_exchanged = rng.random() < 0.5
        yield (b, a, True) if is_exchanged else (a, b, False)


def _full_sentences(
    documents: Documents, index: int, target_length: int, max_num_tokens: int, rng: random.Random
) -> Iterator[tuple[Span, None, bool]]:
    """Yields as many whole sentences as fit into the target length; splits longer sentences."""
    starts = documents.sentence_starts
    first, end = documents.sentences(index)
    start, stop = starts[first], starts[end]
    while start < stop:
        limit = min(start + target_length, stop)
        sentence_end = starts[bisect.bisect_right(starts, limit, first, end + 1) - 1]
        chunk_end = sentence_end if sentence_end > start else limit
        yield (start, chunk_end), None, False
        start = chunk_end


def _chunk_end(documents: Documents, first: int, end: int, target_length: int) -> int:
    """Returns the end of the shortest chunk from sentence `first` that has `target_length` tokens, or `end`."""
    starts = documents.sentence_starts
    chunk_end = first + 1
    while chunk_end < end and starts[chunk_end] - starts[first] < target_length:
        chunk_end += 1
    return chunk_end


# Sentence task: number of special tokens in an example, and the function that yields its segments.
SENTENCE_TASKS = {
    "next_sentence": (3, _next_sentence_pairs),
    "sentence_order": (3, _sentence_order_pairs),
    "none": (2, _full_sentences),
}


def truncate_pair(segment_a: Span, segment_b: Span, max_num_tokens: int, rng: random.Random) -> tuple[Span, Span]:
    """Cuts a pair of segments to a total length (truncate_seq_pair in the original BERT).

    Removes one token at a time from the longer segment, or from the second if they are equal. A random draw chooses
    front or back.
    """
    (a, b), (c, d) = segment_a, segment_b
    toss = rng.random
    for _ in range(b - a + d - c - max_num_tokens):
        is_front = toss() < 0.5
        if b - a > d - c:
            if is_front:
                a += 1
            else:
                b -= 1
        elif is_front:
            c += 1
        else:
            d -= 1
    return (a, b), (c, d)


def _random_segment(documents: Documents, index: int, wanted_length: int, rng: random.Random) -> Span:
    """Draws a second segment, [start, end) in `tokens`, from a document other than `index`.

    As in the original BERT, after ten draws of `index` the segment comes from there: always in a corpus of one
    document.
    """
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    starts = documents.sentence_starts
    first, document_end = documents.sentences(other)
    first += rng.randint(0, document_end - first - 1)
    return starts[first], starts[_chunk_end(documents, first, document_end, wanted_length)]


def count_documents(documents: Documents, num_unknown: int) -> collections.Counter:
    """Starts the counts of a summary; `num_unknown` are the tokens of the corpus that are `[UNK]`."""
    return collections.Counter(
        num_documents=len(documents),
        num_sentences=documents.num_sentences,
        num_tokens=len(documents.tokens),
        num_unknown=num_unknown,
    )


def count_instance(counts: collections.Counter, instance: Instance) -> None:
    """Adds an instance to the counts of a summary."""
    counts["num_instances"] += 1
    counts["num_random_next"] += instance.is_random_next
    counts["num_masked"] += len(instance.masked_lm_ids)
    counts["num_real"] += len(instance.tokens)


def summarize(counts: collections.Counter, max_seq_length: int) -> dict:
    """Returns the summary of a corpus and its examples.

    Returns:
        documents, sentences, tokens, instances: int. Shares as float from 0 to 1: random_next_share of the instances,
        masked_share of the tokens without padding, padding_share of all positions, unknown_share of the corpus.

    Raises:
        UnusableTextError: the text gives no instances.
    """
    num_instances = counts["num_instances"]
    if not num_instances:
        raise UnusableTextError(
            "the text gives no examples: its documents have only one token each, so they have no order; give "
            "another text, or another {sentence_task}"
        )
    return {
        "documents": counts["num_documents"],
        "sentences": counts["num_sentences"],
        "tokens": counts["num_tokens"],
        "instances": num_instances,
        "random_next_share": counts["num_random_next"] / num_instances,
        "masked_share": counts["num_masked"] / counts["num_real"],
        "padding_share": 1 - counts["num_real"] / (num_instances * max_seq_length),
        "unknown_share": counts["num_unknown"] / counts["num_tokens"],
    }
