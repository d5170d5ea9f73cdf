"""Which tokens a model has to guess, and what stands in their place: the masked-LM task, as the original draws it.

Pure functions of token ids and a `random.Random`; nothing here reads a file or a flag.
"""

import dataclasses
import random
from array import array
from collections.abc import Mapping, MutableSequence, Sequence


@dataclasses.dataclass(frozen=True, eq=False)
class MaskingVocabulary:
    """What masking needs to know of a vocabulary. The original works on strings; these tables say the same by id.

    Attributes:
        cls_id, sep_id, mask_id: int, the ids of `[CLS]`, `[SEP]` and `[MASK]`.
        replacement_ids: the ids in the order of the vocabulary's keys, from which random replacements are drawn. It
            is shorter than the vocabulary file where lines repeat.
        continues_word: bytes [highest id + 1], 1 where the piece starts with `##`.
    """

    cls_id: int
    sep_id: int
    mask_id: int
    replacement_ids: array
    continues_word: bytes

    @classmethod
    def from_vocab(cls, vocab: Mapping[str, int]) -> "MaskingVocabulary":
        """Builds the tables from a map of token to id.

        Raises:
            ValueError: the vocabulary lacks special tokens; all of them are named.
        """
        missing = [token for token in ("[UNK]", "[CLS]", "[SEP]", "[MASK]") if token not in vocab]
        if missing:
            raise ValueError(
                f"the vocabulary of {len(vocab)} tokens has no {', '.join(missing)}, which pre-training needs; "
                "use the vocab.txt that came with a BERT model, or add the missing lines to yours"
            )
        continues_word = bytearray(max(vocab.values()) + 1)
        for token, id_ in vocab.items():
            continues_word[id_] = token.startswith("##")
        replacement_ids = array("I", vocab.values())
        return cls(vocab["[CLS]"], vocab["[SEP]"], vocab["[MASK]"], replacement_ids, bytes(continues_word))


# How many words a span has, as weights of 1, 2, 3 and so on.
SPAN_LENGTHS = {
    "none": None,
    "ngram": (1.0, 1 / 2, 1 / 3),  # ALBERT, section 4.1
    "geometric": tuple(0.2 * 0.8**length for length in range(10)),  # SpanBERT, section 3.1
}


def shuffle(items: MutableSequence, rng: random.Random) -> None:
    """Shuffles in place with the draws and the result of `rng.shuffle(items)`, in about a third of the time.

    The time goes into drawing one number below n for each n: n.bit_length() random bits, again until they are below n.
    Here that length is worked out once for all n that share it.
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
    """A random generator whose draws need not be those of the original."""


def choose(items: MutableSequence, count: int, rng: random.Random) -> None:
    """Leaves `count` of the items, the first ones of their random order.

    The original shuffles all items and takes the first; with a `Stream` only those are drawn, which is as random.
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


def num_predictions(num_tokens: int, masked_lm_prob: float, max_predictions_per_seq: int) -> int:
    """Returns how many tokens to mask among `num_tokens`, which include the special ones.

    Rounds half to even, as the original does under Python 3: 0.15 of 30 tokens are 4. It is at least 1.
    """
    return min(max_predictions_per_seq, max(1, round(num_tokens * masked_lm_prob)))


def mask_tokens(
    tokens: list[int],
    vocabulary: MaskingVocabulary,
    rng: random.Random,
    masked_lm_prob: float = 0.15,
    max_predictions_per_seq: int = 20,
    do_whole_word_mask: bool = False,
    masked_spans: str = "none",
) -> tuple[list[int], list[int], list[int]]:
    """Masks the tokens of one sequence (paper, section 3.1, task 1; the original's create_masked_lm_predictions).

    Of the chosen tokens 80 % become `[MASK]`, 10 % stay, 10 % become any entry of the vocabulary. With whole-word
    masking a word is chosen with all its pieces or not at all; what becomes of them is drawn for each piece.

    Args:
        tokens: ids of the sequence with its `[CLS]` and `[SEP]`, which are never chosen. Not changed.
        vocabulary: see there.
        rng: where randomness is drawn from.
        masked_lm_prob: share of the tokens to choose.
        max_predictions_per_seq: the most tokens to choose.
        do_whole_word_mask: chooses words rather than pieces.
        masked_spans: chooses words that follow each other: of up to three, a short span more probably ("ngram", as
            ALBERT), or of up to ten, with the geometric distribution of SpanBERT ("geometric"), where a span as a whole
            is masked, kept or replaced. "none": as the original.

    Returns:
        The masked tokens; the chosen positions in ascending order; the original ids at these positions.
    """
    num_to_predict = num_predictions(len(tokens), masked_lm_prob, max_predictions_per_seq)
    if masked_spans != "none":
        spans = choose_spans(tokens, vocabulary, rng, num_to_predict, SPAN_LENGTHS[masked_spans])
        positions = [position for span in spans for position in span]
    elif do_whole_word_mask:
        positions = _choose_words(tokens, vocabulary, rng, num_to_predict)
    else:
        cls_id, sep_id = vocabulary.cls_id, vocabulary.sep_id
        positions = [i for i, token in enumerate(tokens) if token != cls_id and token != sep_id]
        choose(positions, num_to_predict, rng)

    masked = tokens.copy()
    for span in spans if masked_spans == "geometric" else ([position] for position in positions):
        if rng.random() < 0.8:
            for position in span:
                masked[position] = vocabulary.mask_id
        elif rng.random() >= 0.5:
            for position in span:
                masked[position] = vocabulary.replacement_ids[rng.randint(0, len(vocabulary.replacement_ids) - 1)]
    positions.sort()
    return masked, positions, [tokens[position] for position in positions]


def _choose_words(
    tokens: list[int], vocabulary: MaskingVocabulary, rng: random.Random, num_to_predict: int
) -> list[int]:
    """Returns the positions of whole words, at most `num_to_predict`; words too long for what is left are passed over.

    As in the original a word goes on across a `[SEP]`, where the second segment was cut in the middle of a word.
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
    """Chooses spans of whole words that follow each other.

    A span ends early where a segment does, where the next word is taken, or where it would be one piece too many.

    Args:
        tokens, vocabulary, rng: as of `mask_tokens`.
        num_to_predict: the most positions of all spans together.
        length_weights: of spans of 1, 2, 3 and so on words.

    Returns:
        The positions of each span.
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
    """Returns the positions of each word's pieces."""
    words = []
    for position, token in enumerate(tokens):
        if token in (vocabulary.cls_id, vocabulary.sep_id):
            continue
        if words and vocabulary.continues_word[token]:
            words[-1].append(position)
        else:
            words.append([position])
    return words
