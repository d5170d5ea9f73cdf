"""Converts documents of token ids to pre-training instances, drawn like the original BERT.

An instance is a pair of segments with masked tokens. The functions depend only on documents, settings and a random
generator, so any process can handle any document.
"""

import bisect
import collections
import logging
import random
from array import array
from collections.abc import Iterator
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, Stream, mask_tokens, shuffle
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.text.chinese_words import CorpusTokenizer

log = logging.getLogger("bert_keras")

_LABELS = {
    "next_sentence": ("actual next", "random next"),
    "sentence_order": ("in order", "exchanged"),
    "none": ("one segment",),
}
Span = tuple[int, int]  # [start, end) in `Documents.tokens`


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
        masked, positions, ids = mask_tokens(sequence, vocabulary, rng, settings)
        yield Instance(masked, b - a + 2, label, positions, ids)


def draw_instances(
    documents: Documents,
    settings: PretrainingDataSettings,
    vocabulary: MaskingVocabulary,
    rng: random.Random,
    progress: Progress | None = None,
) -> Iterator[Instance]:
    """Shuffles the documents in place and yields the instances of all duplicates, which are not shuffled.

    They are those of the original BERT. `progress` has been started, and advances by a document.
    """
    documents.order = array("Q", documents.order)
    shuffle(documents.order, rng)
    for _ in range(settings.dupe_factor):
        for index in range(len(documents)):
            yield from instances_of_document(documents, index, settings, vocabulary, rng)
            if progress:
                progress.advance()


def stream_of(index: int, duplicate: int, settings: PretrainingDataSettings) -> Stream:
    """Returns the random stream of a document for one duplicate, if not all come from the one of the original BERT."""
    return Stream(f"{settings.random_seed} {duplicate} {index}")


def draw_document(
    documents: Documents, index: int, duplicate: int, settings: PretrainingDataSettings, vocabulary: MaskingVocabulary
) -> Iterator[tuple[int, Instance]]:
    """Yields the instances of one document for one duplicate, from a separate random stream.

    Each comes with a random sort key from 0 to 2**64 - 1.
    """
    rng = stream_of(index, duplicate, settings)
    for instance in instances_of_document(documents, index, settings, vocabulary, rng):
        yield rng.getrandbits(64), instance


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


def show(number: int, instance: Instance, tokenizer: CorpusTokenizer, sentence_task: str) -> None:
    """Logs an instance."""
    tokens = tokenizer.convert_ids_to_tokens(instance.tokens)
    labels = tokenizer.convert_ids_to_tokens(instance.masked_lm_ids)
    masked = [f"{position} {label}" for position, label in zip(instance.masked_lm_positions, labels, strict=True)]
    log.info(
        "instance %d, %s: %s\n  masked: %s",
        number + 1,
        _LABELS[sentence_task][instance.is_random_next],
        " ".join(tokens),
        ", ".join(masked) or "during training",
    )


def count_instance(counts: collections.Counter, instance: Instance) -> None:
    """Adds an instance to the counts of a summary."""
    counts["instances"] += 1
    counts["random_next"] += instance.is_random_next
    counts["masked"] += len(instance.masked_lm_ids)
    counts["real"] += len(instance.tokens)


def summarize(
    counts: collections.Counter, documents: Documents, num_unknown: int, max_seq_length: int
) -> dict[str, float]:
    """Returns the summary of a corpus, `num_unknown` of whose tokens are `[UNK]`, and of the counts of its examples.

    Returns:
        documents, sentences, tokens, instances: int. Shares as float from 0 to 1: random_next_share of the instances,
        masked_share of the tokens without padding, padding_share of all positions, unknown_share of the corpus.

    Raises:
        UnusableTextError: the text gives no instances.
    """
    num_instances = counts["instances"]
    if not num_instances:
        raise UnusableTextError(
            "the text gives no examples: its documents have only one token each, so they have no order; give "
            "another text, or another {sentence_task}"
        )
    return {
        "documents": len(documents),
        "sentences": documents.num_sentences,
        "tokens": len(documents.tokens),
        "instances": num_instances,
        "random_next_share": counts["random_next"] / num_instances,
        "masked_share": counts["masked"] / counts["real"],
        "padding_share": 1 - counts["real"] / (num_instances * max_seq_length),
        "unknown_share": num_unknown / len(documents.tokens),
    }
