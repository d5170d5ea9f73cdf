"""Splits running text into words with TensorFlow operations; the results equal those of `data_prep.text.words`.

That module loops over the words. This one applies its rules to all parts of a text at once. A part is a run of
characters or a single mark; the rules decide whether it belongs to the previous word.
Axes: N code points, P parts, W words, B batch.
"""

import tensorflow as tf

from bert_keras.data_prep.text.characters import is_cjk_ideograph, is_punctuation, is_removed
from bert_keras.data_prep.text.graph.code_point_tables import table_of
from bert_keras.data_prep.text.graph.normalization import Table
from bert_keras.data_prep.text.graph.tokenization import cut_out
from bert_keras.data_prep.text.words import APOSTROPHES, INNER, INNER_OF_NUMBERS, RUNS, SUFFIXES, is_of_word

# Classes of characters, one bit each.
_REMOVED, _SPACE, _ALONE, _WORD_CHARACTER, _DIGIT, _UPPER, _INNER, _INNER_OF_NUMBERS, _APOSTROPHE, _RUN = (
    1 << bit for bit in range(10)
)
_TESTS = {
    _REMOVED: is_removed,
    _SPACE: str.isspace,
    _ALONE: lambda char: is_punctuation(char) or is_cjk_ideograph(char),
    _WORD_CHARACTER: is_of_word,
    _DIGIT: str.isdigit,
    _UPPER: str.isupper,
    _INNER: INNER.__contains__,
    _INNER_OF_NUMBERS: INNER_OF_NUMBERS.__contains__,
    _APOSTROPHE: APOSTROPHES.__contains__,
    _RUN: RUNS.__contains__,
}
_SUFFIX = "|".join(sorted(SUFFIXES))
_DOT = ord(".")
_DEVICE = "CPU:0"  # the device of the tokenizer, which makes the code points


class WordSplitter:
    """Splits texts into the words of `data_prep.text.words.split_words`."""

    def __init__(self) -> None:
        with tf.device(_DEVICE):
            self._table = Table(table_of(_bits_of))

    def split(self, codes: tf.Tensor, row_splits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Finds the words in the result of `code_points`.

        Returns the starts and ends of the words in codes, int32 [W], and the row splits of the texts in the words.
        """
        with tf.device(_DEVICE):
            bits = self._table.look_up(codes)
            starts, ends = _parts(bits)
            is_first = ~_join(codes, bits, starts, ends)
            starts, ends = tf.boolean_mask(starts, is_first), tf.boolean_mask(ends, tf.roll(is_first, -1, 0))
            return starts, ends, tf.searchsorted(starts, row_splits)


def _bits_of(char: str) -> int:
    return sum(bit for bit, test in _TESTS.items() if test(char))


def _parts(bits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns starts and ends, int32 [P], of the words of a `BasicTokenizer` that keeps case."""
    kept = tf.where(bits & _REMOVED == 0)[:, 0]
    kinds = tf.gather(bits, kept)
    in_run = kinds & (_SPACE | _ALONE) == 0
    # Each text ends with white space, so `tf.roll` does not join the last character to the first.
    is_start = ~(in_run & tf.roll(in_run, 1, 0))
    is_end = ~(in_run & tf.roll(in_run, -1, 0))
    is_visible = kinds & _SPACE == 0
    places = tf.cast(kept, tf.int32)
    return tf.boolean_mask(places, is_start & is_visible), tf.boolean_mask(places, is_end & is_visible) + 1


def _join(codes: tf.Tensor, bits: tf.Tensor, starts: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
    """Returns whether each part belongs to the word before it, bool [P].

    `tf.roll` by 1 gives the previous part, by -1 the next one. The first part never touches the last, so rolling around
    the ends joins nothing.
    """
    code, first, last = tf.gather(codes, starts), tf.gather(bits, starts), tf.gather(bits, ends - 1)
    touches = starts == tf.roll(ends, 1, 0)
    touches_next = tf.roll(touches, -1, 0)
    next_ = tf.roll(first, -1, 0)
    before = tf.roll(last, 1, 0)

    # A mark before a letter or digit. An ending before such a mark is not a suffix.
    is_inner = touches & _has(first, _INNER) & _has(tf.gather(bits, starts + 1), _WORD_CHARACTER)
    is_ending = tf.strings.regex_full_match(tf.strings.lower(cut_out(codes, starts, ends)), _SUFFIX)
    is_ending = tf.roll(is_ending & ~tf.roll(is_inner, -1, 0), -1, 0)
    is_suffix = _has(first, _APOSTROPHE) & touches_next & is_ending

    is_in_word = _has(first, _INNER) & _has(before & next_, _WORD_CHARACTER)
    is_in_number = _has(first, _INNER_OF_NUMBERS) & _has(before & next_, _DIGIT)
    goes_on = touches & touches_next & ~is_suffix & (is_in_word | is_in_number)
    # A mark that continues a word never follows a suffix or a run of marks, so it always joins its neighbours.
    is_chained = goes_on | tf.roll(goes_on, 1, 0)

    is_abbreviated = _is_abbreviated(goes_on, is_chained, code, ends - starts, _has(first, _UPPER))
    is_abbreviated &= ~tf.roll(is_suffix, 1, 0)
    has_dot = touches & (code == _DOT) & ~is_chained & tf.roll(is_abbreviated, 1, 0)
    in_run = touches & _has(first, _RUN) & (code == tf.roll(code, 1, 0)) & ~tf.roll(has_dot, 1, 0)
    return is_chained | tf.roll(is_suffix, 1, 0) | has_dot | in_run


def _has(bits: tf.Tensor, bit: int) -> tf.Tensor:
    return bits & bit != 0


def _is_abbreviated(
    goes_on: tf.Tensor, is_chained: tf.Tensor, code: tf.Tensor, lengths: tf.Tensor, is_upper: tf.Tensor
) -> tf.Tensor:
    """Returns whether a dot after the chain of each part would belong to its word, bool [P]."""
    chains = tf.cumsum(tf.cast(~is_chained, tf.int32)) - 1  # [P]
    # An abbreviation alternates single characters and dots, or is one upper-case letter.
    is_wrong = tf.where(goes_on, code != _DOT, lengths != 1)
    is_alone = ~is_chained & ~tf.roll(goes_on, -1, 0)
    is_wrong |= is_alone & ~is_upper
    num_wrong = tf.math.segment_sum(tf.cast(is_wrong, tf.int32), chains)
    return tf.gather(num_wrong, chains) == 0
