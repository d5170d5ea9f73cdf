"""Finds documents that share most of their word 5-grams (MinHash with bands), in memory that does not hold the text.

The estimated Jaccard similarity of two documents is the share of their `NUM_HASHES` minima that are equal. Only
documents that share a band of minima are compared.

Source: Broder, On the resemblance and containment of documents (1997); Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, chapter 3.
"""

import collections
import hashlib
import re
from collections.abc import Sequence

import numpy as np

NUM_HASHES = 128
_WORDS_AT_ONCE = 5
_RECALL = 0.99  # of pairs exactly at the threshold
_SCRIPTS_WITHOUT_SPACES = "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\U00020000-\U0003ffff"
# In scripts without spaces each character is a word.
_WORDS = re.compile(f"[{_SCRIPTS_WITHOUT_SPACES}]|[^\\s{_SCRIPTS_WITHOUT_SPACES}]+")
_CONSTANTS = np.random.RandomState(19).randint(1, 1 << 32, (2, NUM_HASHES), np.uint64).astype(np.uint32)
_MULTIPLIERS, _OFFSETS = _CONSTANTS[0] | np.uint32(1), _CONSTANTS[1]


def words_of(text: str) -> list[str]:
    """Returns the words of a text; each character of Chinese, Japanese, Thai and similar scripts is a word."""
    return _WORDS.findall(text)


def hash_text(text: str) -> int:
    """Returns 64 bits of the BLAKE2b hash of a text."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


def mix(numbers: np.ndarray) -> np.ndarray:
    """Returns well-mixed uint64 numbers, one for each uint64 (the finalizer of SplitMix64)."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    numbers = (numbers ^ (numbers >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return numbers ^ (numbers >> np.uint64(31))


class _WordHashes(dict):
    def __missing__(self, word: str) -> int:
        self[word] = number = hash_text(word)
        return number


def minima_of(documents: Sequence[list[str]]) -> np.ndarray:
    """Returns the minima of the hashed 5-grams of each document, uint32 [NUM_HASHES, documents].

    A document of fewer than five words has one shorter n-gram.
    """
    minima, hashes = np.empty((NUM_HASHES, len(documents)), np.uint32), _WordHashes()
    for number, words in enumerate(documents):
        keys = np.array([hashes[word] for word in words] or [0], np.uint64)
        num_grams = max(1, len(keys) - _WORDS_AT_ONCE + 1)
        grams = np.zeros(num_grams, np.uint64)
        for place in range(min(_WORDS_AT_ONCE, len(keys))):
            grams = mix(grams + keys[place : place + num_grams] + np.uint64(place))
        grams = np.unique((grams >> np.uint64(32)).astype(np.uint32))
        for first in range(0, NUM_HASHES, 16):  # small blocks stay in the processor's cache
            part = slice(first, first + 16)
            minima[part, number] = (grams * _MULTIPLIERS[part, None] + _OFFSETS[part, None]).min(axis=1)
    return minima


def rows_of_band(threshold: float) -> int:
    """Returns the most rows a band may have, so that 99 % of the pairs at the threshold share a band."""
    recalls = ((rows, 1 - (1 - threshold**rows) ** (NUM_HASHES // rows)) for rows in range(1, NUM_HASHES + 1))
    return max((rows for rows, recall in recalls if recall >= _RECALL), default=1)


def find_near_duplicates(parts: Sequence[np.ndarray], is_candidate: np.ndarray, threshold: float) -> np.ndarray:
    """Returns which documents are near duplicates of an earlier one that stays.

    Args:
        parts: the minima of consecutive documents, uint32 [NUM_HASHES, documents of the part]; may be memory maps.
        is_candidate: bool [documents]; the others are ignored.
        threshold: estimated Jaccard similarity from which a document is a duplicate, above 0 and at most 1.

    Returns:
        bool [documents]. Memory: about 40 bytes a document, and 2 kB more for each that shares a band.
    """
    rows = rows_of_band(threshold)
    bands = [slice(first, first + rows) for first in range(0, NUM_HASHES - rows + 1, rows)]
    is_shared = np.zeros(len(is_candidate), bool)
    for band in bands:
        keys = np.concatenate([_keys(part[band]) for part in parts])
        order = np.flatnonzero(is_candidate)
        order = order[np.argsort(keys[order])]
        keys = keys[order]
        is_equal = keys[1:] == keys[:-1]
        is_shared[order[1:][is_equal]] = is_shared[order[:-1][is_equal]] = True
    starts = np.cumsum([0, *(part.shape[1] for part in parts)])
    is_near, kept = np.zeros(len(is_candidate), bool), {}
    buckets = [collections.defaultdict(list) for _ in bands]
    for document in np.flatnonzero(is_shared).tolist():
        part = int(np.searchsorted(starts, document, "right")) - 1
        minima = np.array(parts[part][:, document - starts[part]])
        keys = [minima[band].tobytes() for band in bands]
        similar = {other for bucket, key in zip(buckets, keys, strict=True) for other in bucket.get(key, ())}
        if any(np.count_nonzero(kept[other] == minima) >= threshold * NUM_HASHES for other in similar):
            is_near[document] = True
            continue
        kept[document] = minima
        for bucket, key in zip(buckets, keys, strict=True):
            bucket[key].append(document)
    return is_near


def _keys(band: np.ndarray) -> np.ndarray:
    keys = np.zeros(band.shape[1], np.uint64)
    for row in band:
        keys = mix(keys + row.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return keys
