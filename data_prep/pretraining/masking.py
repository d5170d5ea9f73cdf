"""Masked-LM task: chooses tokens to predict and their replacements, drawn like the original BERT.

All functions are pure functions of token ids and a `random.Random`.
"""

import dataclasses
import random
from array import array
from collections.abc import Mapping, MutableSequence, Sequence

from bert_keras.data_prep.pretraining.settings import SPAN_LENGTHS, PretrainingDataSettings, num_predictions
from bert_keras.data_prep.text.vocabulary_files import check_special_tokens


@dataclasses.dataclass(frozen=True, eq=False)
class MaskingVocabulary:
    """Vocabulary data for masking. The original BERT works on strings; these tables have the same data by id.

    `replacement_ids` are in the order of the vocabulary's keys: fewer than the lines of the file if lines repeat.
    `continues_word` is 1 for the ids of tokens that start with `##`.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    replacement_ids: array
    continues_word: bytes

    @classmethod
    def from_vocab(cls, vocab: Mapping[str, int]) -> "MaskingVocabulary":
        """Builds the tables from a map of token to id; raises ValueError if special tokens are missing."""
        check_special_tokens(
            vocab,
            ("[UNK]", "[CLS]", "[SEP]", "[MASK]"),
            f"the vocabulary of {len(vocab)} tokens",
            "pre-training needs them: use the vocab.txt that came with a BERT model, or add the missing lines to yours",
        )
        continues_word = bytearray(max(vocab.values()) + 1)
        for token, id_ in vocab.items():
            continues_word[id_] = token.startswith("##")
        replacement_ids = array("I", vocab.values())
        return cls(vocab["[CLS]"], vocab["[SEP]"], vocab["[MASK]"], replacement_ids, bytes(continues_word))


def shuffle(items: MutableSequence, rng: random.Random) -> None:
    """Shuffles in place with the draws and the result of `rng.shuffle(items)`, in about a third of the time.

    For each n, `rng.shuffle` draws one number below n: n.bit_length() random bits, repeated until the number is below
    n. This function computes the bit length once for all n that share it.
    """
    getrandbits = rng.getrandbits
    remaining = len(items)
    while remaining > 1:
        num_bits = remaining.bit_length()
        smallest = 1 << (num_bits - 1)
        for last in range(remaining - 1, smallest - 2, -1):
            place = getrandbits(num_bits)
            while place > last:
                place = getrandbits(num_bits)
            items[last], items[place] = items[place], items[last]
        remaining = smallest - 1


class Stream(random.Random):
    """Random generator whose draws need not match the original BERT."""


def choose(items: MutableSequence, count: int, rng: random.Random) -> None:
    """Keeps `count` random items, in random order.

    The original BERT shuffles all items and keeps the first. With a `Stream`, only these are drawn, which is equally
    random.
    """
    if not isinstance(rng, Stream):
        shuffle(items, rng)
        del items[count:]
        return
    getrandbits, num_items = rng.getrandbits, len(items)
    for place in range(min(count, num_items)):
        num_bits = (num_items - place).bit_length()
        other = place + getrandbits(num_bits)
        while other >= num_items:
            other = place + getrandbits(num_bits)
        items[place], items[other] = items[other], items[place]
    del items[count:]


def mask_tokens(
    tokens: list[int], vocabulary: MaskingVocabulary, rng: random.Random, settings: PretrainingDataSettings
) -> tuple[list[int], list[int], list[int]]:
    """Masks the tokens of one sequence (paper, section 3.1, task 1; create_masked_lm_predictions in the original BERT).

    80 % of the chosen tokens become `[MASK]`, 10 % stay, 10 % become a random entry of the vocabulary; `replace_prob`
    and `keep_prob` change these shares. `[CLS]` and `[SEP]` are never chosen. Whole-word masking chooses all word
    pieces of a word or none, and draws the replacement of each word piece separately. For `masked_spans` see
    `PretrainingDataSettings`; with "geometric", a span is masked, kept or replaced as a whole. As in SpanBERT, it also
    joins spans next to each other. The marks of Chinese words (see `WordMarker`) are read and removed.

    Returns:
        The masked tokens; the chosen positions in ascending order; the original ids at these positions.
    """
    num_to_predict = num_predictions(len(tokens), settings.masked_lm_prob, settings.max_predictions_per_seq)
    num_ids, masked_spans, replace_prob = len(vocabulary.continues_word), settings.masked_spans, settings.replace_prob
    if masked_spans != "none":
        spans = choose_spans(tokens, vocabulary, rng, num_to_predict, SPAN_LENGTHS[masked_spans])
        positions = [position for span in spans for position in span]
    elif settings.do_whole_word_mask:
        positions = _choose_words(tokens, vocabulary, rng, num_to_predict)
    else:
        cls_id, sep_id = vocabulary.cls_id, vocabulary.sep_id
        positions = [i for i, token in enumerate(tokens) if token != cls_id and token != sep_id]
        choose(positions, num_to_predict, rng)

    if max(tokens) >= num_ids:
        tokens = [token if token < num_ids else token - num_ids for token in tokens]
    masked = tokens.copy()
    # Rounded, so that the defaults give exactly the 0.5 of the original BERT.
    keep_prob_of_others = round(settings.keep_prob / (1 - replace_prob), 12) if replace_prob < 1 else 0.0
    for span in _runs(sorted(positions)) if masked_spans == "geometric" else ([position] for position in positions):
        if rng.random() < replace_prob:
            for position in span:
                masked[position] = vocabulary.mask_id
        elif rng.random() >= keep_prob_of_others:
            for position in span:
                masked[position] = vocabulary.replacement_ids[rng.randint(0, len(vocabulary.replacement_ids) - 1)]
    positions.sort()
    return masked, positions, [tokens[position] for position in positions]


def _runs(positions: list[int]) -> list[list[int]]:
    """Groups ascending positions that follow each other without a gap."""
    runs: list[list[int]] = []
    for position in positions:
        if runs and position == runs[-1][-1] + 1:
            runs[-1].append(position)
        else:
            runs.append([position])
    return runs


def _choose_words(
    tokens: list[int], vocabulary: MaskingVocabulary, rng: random.Random, num_to_predict: int
) -> list[int]:
    """Returns the positions of whole words, at most `num_to_predict`; skips words that exceed the remaining number.

    As in the original BERT, a word continues after a `[SEP]` if truncation cut the second segment inside a word.
    """
    words = _words(tokens, vocabulary)
    shuffle(words, rng)
    positions = []
    for word in words:
        if len(positions) >= num_to_predict:
            break
        if len(positions) + len(word) <= num_to_predict:
            positions += word
    return positions


def choose_spans(
    tokens: list[int],
    vocabulary: MaskingVocabulary,
    rng: random.Random,
    num_to_predict: int,
    length_weights: Sequence[float],
) -> list[list[int]]:
    """Returns the positions of each of some random spans of consecutive whole words, at most `num_to_predict` in all.

    A span ends early at the end of a segment, before a chosen word, or before a word that exceeds the remaining number.
    `length_weights` are the weights of spans of 1, 2, 3, ... words.
    """
    words, spans, num_left = _words(tokens, vocabulary), [], num_to_predict
    taken = bytearray(len(words))
    starts = list(range(len(words)))
    shuffle(starts, rng)
    for start in starts:
        if not num_left:
            break
        [length] = rng.choices(range(1, len(length_weights) + 1), length_weights)
        span = []
        for number in range(start, min(start + length, len(words))):
            word = words[number]
            if taken[number] or len(word) > num_left or (span and word[0] != span[-1] + 1):
                break
            taken[number] = True
            span += word
            num_left -= len(word)
        if span:
            spans.append(span)
    return spans


def _words(tokens: list[int], vocabulary: MaskingVocabulary) -> list[list[int]]:
    """Returns the positions of each word's word pieces, or of the characters of a Chinese word.

    A Chinese word ends with its segment, also if truncation cut it.
    """
    words, continues_word = [], vocabulary.continues_word
    for position, token in enumerate(tokens):
        if token in (vocabulary.cls_id, vocabulary.sep_id):
            continue
        is_marked = token >= len(continues_word)
        if words and (words[-1][-1] == position - 1 if is_marked else continues_word[token]):
            words[-1].append(position)
        else:
            words.append([position])
    return words
