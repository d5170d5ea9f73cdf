"""Documents of token ids into pre-training instances: pairs of segments with masked tokens, drawn as the original does.

A document, the settings and a random generator go in, instances come out; there is no other state, so that documents
can be worked on in any process.
"""

import bisect
import dataclasses
import random
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.pretraining.masking import SPAN_LENGTHS, MaskingVocabulary, mask_tokens, num_predictions

Span = tuple[int, int]  # [start, end) in the tokens of the documents


@dataclasses.dataclass(frozen=True)
class PretrainingDataSettings:
    """How pre-training examples are made: the original's flags of these names, with its defaults.

    Attributes:
        max_seq_length: length of every example with its three special tokens, padding included.
        max_predictions_per_seq: the most masked tokens in an example.
        masked_lm_prob: share of the tokens to mask.
        short_seq_prob: probability that a document is cut into pairs of a shorter length, drawn in every pass.
        dupe_factor: passes over the corpus, each with masks of its own.
        random_seed: seed of the `random.Random` that everything is drawn from.
        do_whole_word_mask: masks words with all their pieces.
        masked_spans: "ngram" or "geometric": masks spans of words; see `mask_tokens`. Not of the original.
        dynamic_masking: masks nothing, which is left to whoever reads the records. Not of the original.
        sentence_task: what the label of an example says. Not of the original, but for the first:
            "next_sentence": whether the second segment is a random one;
            "sentence_order": whether the two, which follow each other, were exchanged (ALBERT, section 3.1);
            "none": nothing, -1. An example is one segment of whole sentences of a document (RoBERTa, section 4.2).
        strict_utf8: refuses text that is not UTF-8 instead of dropping what is not. Not of the original.

    Raises:
        ValueError: a value that makes no sense.
    """

    max_seq_length: int = 128
    max_predictions_per_seq: int = 20
    masked_lm_prob: float = 0.15
    short_seq_prob: float = 0.1
    dupe_factor: int = 10
    random_seed: int = 12345
    do_whole_word_mask: bool = False
    masked_spans: str = "none"
    dynamic_masking: bool = False
    sentence_task: str = "next_sentence"
    strict_utf8: bool = False

    def __post_init__(self):
        # [CLS] and two [SEP], and a token of each segment; the shortest target length is 2.
        if self.max_seq_length < 5:
            raise ValueError(
                f"--max_seq_length={self.max_seq_length} is too short: three special tokens and a token of each "
                "segment need at least 5"
            )
        if not 1 <= self.max_predictions_per_seq <= self.max_seq_length:
            raise ValueError(
                f"--max_predictions_per_seq={self.max_predictions_per_seq} makes no sense with "
                f"--max_seq_length={self.max_seq_length}; give a number from 1 to {self.max_seq_length}, "
                f"about max_seq_length * masked_lm_prob"
            )
        for name in ("masked_lm_prob", "short_seq_prob"):
            if not 0 <= getattr(self, name) <= 1:
                raise ValueError(f"--{name}={getattr(self, name)} is no probability; give a number from 0 to 1")
        if self.dupe_factor < 1:
            raise ValueError(
                f"--dupe_factor={self.dupe_factor} passes over the corpus make no examples; give 1 or more"
            )
        for name, known in (("masked_spans", SPAN_LENGTHS), ("sentence_task", SENTENCE_TASKS)):
            if getattr(self, name) not in known:
                raise ValueError(f"--{name}={getattr(self, name)} is not known; give one of {', '.join(known)}")
        if self.do_whole_word_mask and self.masked_spans != "none":
            raise ValueError(
                f"--masked_spans={self.masked_spans} masks whole words in any case; leave out --do_whole_word_mask"
            )
        if self.dynamic_masking and (self.do_whole_word_mask or self.masked_spans != "none"):
            raise ValueError(
                "--dynamic_masking chooses single pieces when the records are read; leave out --do_whole_word_mask and "
                "--masked_spans, or --dynamic_masking"
            )

    @property
    def most_predictions(self) -> int:
        """int; masked tokens of a full-length instance, were they not limited by `max_predictions_per_seq`."""
        return num_predictions(self.max_seq_length, self.masked_lm_prob, self.max_seq_length)


class Instance(NamedTuple):
    """A pair of segments with masked tokens: `[CLS] first [SEP] second [SEP]`, not padded; or one: `[CLS] first [SEP]`.

    Attributes:
        tokens: ids, masked.
        first_length: how many of the tokens have segment id 0: `[CLS]`, the first segment and its `[SEP]`.
        is_random_next: whether the second segment is a random one rather than what follows the first; where order is
            the task, whether the two were exchanged.
        masked_lm_positions: ascending places in `tokens`.
        masked_lm_ids: the original ids at these places.
    """

    tokens: list[int]
    first_length: int
    is_random_next: bool
    masked_lm_positions: list[int]
    masked_lm_ids: list[int]

    def features(self, settings: PretrainingDataSettings) -> dict[str, list]:
        """Returns the seven padded features under the original's names.

        Returns:
            input_ids, input_mask, segment_ids: lists of int [T]; masked_lm_positions, masked_lm_ids: lists of int [P];
            masked_lm_weights: list of float [P]; next_sentence_labels: list of int [1], 1 for a random next, -1 where
            the sentence task is none. With dynamic masking those of masked LM are left out.
        """
        length, num_masked = len(self.tokens), len(self.masked_lm_ids)
        pad = [0] * (settings.max_seq_length - length)
        features = {
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


def instances_of_document(
    documents: Documents,
    index: int,
    settings: PretrainingDataSettings,
    vocabulary: MaskingVocabulary,
    rng: random.Random,
) -> Iterator[Instance]:
    """Makes the instances of one document in one pass (the original's create_instances_from_document).

    Args:
        documents: all documents; random next segments come from the others.
        index: which document.
        settings: see there.
        vocabulary: see there.
        rng: where randomness is drawn from.

    Yields:
        Instances of at most `max_seq_length` tokens.
    """
    num_special, segments_of = SENTENCE_TASKS[settings.sentence_task]
    max_num_tokens = settings.max_seq_length - num_special
    target_length = max_num_tokens
    if rng.random() < settings.short_seq_prob:
        target_length = rng.randint(2, max_num_tokens)
    tokens, sep_id = documents.tokens, vocabulary.sep_id
    for (a, b), second, label in segments_of(documents, index, target_length, max_num_tokens, rng):
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
        )
        yield Instance(masked[0], b - a + 2, label, masked[1], masked[2])


def _next_sentence_pairs(
    documents: Documents, index: int, target_length: int, max_num_tokens: int, rng: random.Random
) -> Iterator[tuple[Span, Span, bool]]:
    """Yields two segments and whether the second is a random one, as the original does.

    Sentences are gathered until they reach the target length. Half of the time the chunk is cut in two at a random
    sentence; otherwise, and where it is a single sentence, the second segment comes from another document and the
    sentences not used are gathered again.
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
    """Yields two segments that follow each other in the text and whether they are exchanged, half of the time.

    Sentences are gathered as for the next-sentence task and cut in two at a random one. A sentence that is alone is cut
    in two at a random token, for there is no order in it otherwise; alone and of one token it makes no example.
    """
    starts = documents.sentence_starts
    first, end = documents.sentences(index)
    while first < end:
        chunk_end = _chunk_end(documents, first, end, target_length)
        start, stop = starts[first], starts[chunk_end]
        is_alone = chunk_end - first == 1
        if is_alone and stop - start == 1:
            return  # only at the end of a document, as the target length is two or more
        cut = rng.randint(start + 1, stop - 1) if is_alone else starts[rng.randint(first + 1, chunk_end - 1)]
        first = chunk_end
        a, b = truncate_pair((start, cut), (cut, stop), max_num_tokens, rng)
        is_exchanged = rng.random() < 0.5
        yield (b, a, True) if is_exchanged else (a, b, False)


def _full_sentences(
    documents: Documents, index: int, target_length: int, max_num_tokens: int, rng: random.Random
) -> Iterator[tuple[Span, None, bool]]:
    """Yields as many whole sentences as fit into the target length; a sentence that is longer comes in parts."""
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
    """Returns the sentence before which the tokens from sentence `first` on reach the target length, or `end`."""
    starts = documents.sentence_starts
    chunk_end = first + 1
    while chunk_end < end and starts[chunk_end] - starts[first] < target_length:
        chunk_end += 1
    return chunk_end


# Of each task the special tokens of an example, and what makes its segments.
SENTENCE_TASKS = {
    "next_sentence": (3, _next_sentence_pairs),
    "sentence_order": (3, _sentence_order_pairs),
    "none": (2, _full_sentences),
}


def truncate_pair(segment_a: Span, segment_b: Span, max_num_tokens: int, rng: random.Random) -> tuple[Span, Span]:
    """Cuts a pair of segments down to a total length (the original's truncate_seq_pair).

    Takes a token at a time from the longer one, from the second where they are equal, at the front or the back by the
    toss of a coin.

    Args:
        segment_a, segment_b: [start, end) of each.
        max_num_tokens: the most tokens of both together.
        rng: where randomness is drawn from.

    Returns:
        [start, end) of each, cut.
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

    After ten draws of `index` itself the segment comes from there, as in the original: in a corpus of one document.
    """
    for _ in range(10):
        other = rng.randint(0, len(documents) - 1)
        if other != index:
            break
    starts = documents.sentence_starts
    first, document_end = documents.sentences(other)
    first += rng.randint(0, document_end - first - 1)
    end = first + 1
    while end < document_end and starts[end] - starts[first] < wanted_length:
        end += 1
    return starts[first], starts[end]
