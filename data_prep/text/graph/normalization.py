"""Cleans, lower-cases and decomposes text with TensorFlow operations on arrays of code points."""

import unicodedata

import numpy as np
import tensorflow as tf

from bert_keras.data_prep.text.characters import PRIVATE_USE, is_dropped_mark
from bert_keras.data_prep.text.graph import code_point_tables as tables

_SIGMA = ord("Σ")
_FINAL_SIGMA_STEP = (ord("ς") - ord("σ")) << tables.NUM_KIND_BITS


def as_in_transformers(codes: tf.Tensor, do_lower_case: bool) -> tf.Tensor:
    """Does what `characters.as_in_transformers` does, for code points."""
    for first, last in PRIVATE_USE:
        codes = tf.where((codes >= first) & (codes <= last), 0x200B, codes)
    return tf.where(codes == _SIGMA, ord("σ"), codes) if do_lower_case else codes


class Normalizer:
    """Cleans, lower-cases and decomposes arrays of code points, which must end with a line feed.

    do_lower_case applies the final-sigma rule of `str.lower`; strip_accents decomposes characters (NFD) and drops their
    marks (category Mn).
    """

    def __init__(self, do_lower_case: bool, strip_accents: bool):
        self._strip_accents = strip_accents
        self._map = _Map(*tables.character_map(do_lower_case, strip_accents))
        self._sigma_contexts = Table(tables.table_of(tables.sigma_context, tables.UNCASED)) if do_lower_case else None
        if strip_accents:
            self._combining_classes = Table(tables.table_of(unicodedata.combining))
            self._dropped_marks = Table(tables.table_of(is_dropped_mark))

    def normalize(self, codes: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns the packed characters (see `character_map`) of codes, int32 [N], and the source of each, int32 [M].

        The sources are indices in codes that never decrease.
        """
        entries = self._entries(codes)

        def one_each() -> tuple[tf.Tensor, tf.Tensor]:
            return codes * (1 << tables.NUM_KIND_BITS) + entries, tf.range(tf.size(codes))

        def some_or_none_each() -> tuple[tf.Tensor, tf.Tensor]:
            expanded = self._map.expand(codes, entries)
            return self._strip_marks(*expanded) if self._strip_accents else expanded

        return tf.cond(tf.reduce_max(entries) < tables.EXPANDS, one_each, some_or_none_each)

    def behind_marks(self, codes: tf.Tensor, ends: tf.Tensor) -> tf.Tensor:
        """Returns ends, int32 [P], moved behind the dropped marks that follow them in codes, int32 [N]."""
        if not self._strip_accents:
            return ends
        is_mark = self._dropped_marks.look_up(codes) == 1

        def move() -> tf.Tensor:
            # The last code point is a line feed, so a code point that is not a mark always follows.
            others = tf.cast(tf.where(~is_mark)[:, 0], tf.int32)
            return tf.gather(others, tf.searchsorted(others, ends))

        return tf.cond(tf.reduce_any(is_mark), move, lambda: ends)

    def _entries(self, codes: tf.Tensor) -> tf.Tensor:
        entries = self._map.look_up(codes)
        sigma_contexts = self._sigma_contexts
        if sigma_contexts is None:
            return entries
        has_sigma = tf.reduce_any(codes == _SIGMA)
        return tf.cond(has_sigma, lambda: entries + self._final_sigma_steps(codes, sigma_contexts), lambda: entries)

    def _final_sigma_steps(self, codes: tf.Tensor, sigma_contexts: "Table") -> tf.Tensor:
        """Returns the steps to add to entries so that word-final sigmas become ς, as in `str.lower`."""
        contexts = sigma_contexts.look_up(codes)
        counts = contexts != tables.PASSED_OVER
        counted = tf.concat([[tables.UNCASED], tf.boolean_mask(contexts, counts), [tables.UNCASED]], 0)
        sigmas = tf.where(codes == _SIGMA)
        ranks = tf.gather(tf.cumsum(tf.cast(counts, tf.int32), exclusive=True), sigmas[:, 0])
        is_final = (tf.gather(counted, ranks) == tables.CASED) & (tf.gather(counted, ranks + 2) != tables.CASED)
        steps = tf.where(is_final, _FINAL_SIGMA_STEP, 0)
        return tf.scatter_nd(sigmas, steps, tf.shape(codes, tf.int64))

    def _strip_marks(self, characters: tf.Tensor, sources: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Sorts marks into canonical order and drops MARKs; sources keep their order."""
        classes = self._combining_classes.look_up(without_low_bits(characters, tables.NUM_KIND_BITS))

        def in_order() -> tf.Tensor:
            runs = tf.cumsum(tf.cast(classes == 0, tf.int64))
            return tf.gather(characters, tf.argsort(runs * 256 + tf.cast(classes, tf.int64), stable=True))

        is_kept = low_bits(characters, tables.NUM_KIND_BITS) != tables.MARK
        has_kept_marks = tf.reduce_any(is_kept & (classes != 0))
        characters = tf.cond(has_kept_marks, in_order, lambda: characters)
        index = tf.where(low_bits(characters, tables.NUM_KIND_BITS) != tables.MARK)[:, 0]
        return tf.gather(characters, index), tf.gather(sources, index)


class Table:
    """The result of `table_of` as constants."""

    def __init__(self, table: tuple[np.ndarray, np.ndarray]):
        self._pages, self._rows = map(tf.constant, table)

    def look_up(self, codes: tf.Tensor) -> tf.Tensor:
        """Returns the number of each code point, int32 of the shape of codes."""
        pages = tf.gather(self._pages, without_low_bits(codes, tables.PAGE_BITS))
        return tf.gather(self._rows, pages + low_bits(codes, tables.PAGE_BITS))


class _Map(Table):
    """The result of `character_map` as constants."""

    def __init__(self, table: tuple[np.ndarray, np.ndarray], expansions: np.ndarray):
        super().__init__(table)
        self._expansions = tf.constant(expansions)

    def expand(self, codes: tf.Tensor, entries: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Returns packed characters, int32 [M], and the index of the code point of each, int32 [M]."""
        several = entries >= tables.EXPANDS
        places = entries - tables.EXPANDS
        lengths = tf.where(several, low_bits(places, tables.NUM_LENGTH_BITS), 1)
        sources = tf.repeat(tf.range(tf.size(codes)), lengths)
        characters = tf.gather(codes * (1 << tables.NUM_KIND_BITS) + entries, sources)
        index = tf.where(tf.gather(several, sources))
        of = tf.gather(sources, index[:, 0])
        first_index = tf.gather(tf.cumsum(lengths, exclusive=True), of)
        start = tf.gather(without_low_bits(places, tables.NUM_LENGTH_BITS), of)
        expanded = tf.gather(self._expansions, start + tf.cast(index[:, 0], tf.int32) - first_index)
        return tf.tensor_scatter_nd_update(characters, index, expanded), sources


def low_bits(numbers: tf.Tensor, num_bits: int) -> tf.Tensor:
    """Returns the low bits of numbers, int32."""
    return tf.bitwise.bitwise_and(numbers, (1 << num_bits) - 1)


def without_low_bits(numbers: tf.Tensor, num_bits: int) -> tf.Tensor:
    """Returns numbers without their low bits, shifted right, int32."""
    return tf.bitwise.right_shift(numbers, num_bits)
