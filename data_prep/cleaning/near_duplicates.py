"""Finds documents that share most of their word 5-grams (MinHash with bands), in memory that does not hold the text.

The estimated Jaccard similarity of two documents is the share of their `NUM_HASHES` minima that are equal. Only
documents that share a band of minima are compared: first by this estimate, then exactly by their 5-grams. The number of
comparisons of a document has a limit, so the time is proportional to the number of documents.

Source: Broder, On the resemblance and containment of documents (1997); Leskovec, Rajaraman and Ullman, Mining of
Massive Datasets, chapter 3.
"""

import collections
import dataclasses
import hashlib
import math
import re
from collections.abc import Callable, Iterable, Sequence

import numpy as np

NUM_HASHES = 128
_WORDS_AT_ONCE = 5
_RECALL = 0.99  # of pairs exactly at the threshold
# Comparisons of a document with earlier ones: by the estimate, and of the most similar of these by the 5-grams.
MOST_ESTIMATED, MOST_COMPARED = 256, 16
_MARGIN = 4  # standard errors by which an estimate may be below the threshold
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


def grams_of(words: Sequence[str], hashes: dict[str, int] | None = None) -> np.ndarray:
    """Returns the hashed 5-grams of a document without repetitions, sorted, uint64 [n].

    A document of fewer than five words has one shorter n-gram. `hashes` keeps the hashes of words for other calls.
    """
    hashes = _WordHashes() if hashes is None else hashes
    keys = np.array([hashes[word] for word in words] or [0], np.uint64)
    num_grams = max(1, len(keys) - _WORDS_AT_ONCE + 1)
    grams = np.zeros(num_grams, np.uint64)
    for place in range(min(_WORDS_AT_ONCE, len(keys))):
        grams = mix(grams + keys[place : place + num_grams] + np.uint64(place))
    return np.unique(grams)


def minima_of(documents: Sequence[list[str]]) -> np.ndarray:
    """Returns the minima of the hashed 5-grams of each document, uint32 [NUM_HASHES, documents]."""
    minima, hashes = np.empty((NUM_HASHES, len(documents)), np.uint32), _WordHashes()
    for number, words in enumerate(documents):
        grams = (grams_of(words, hashes) >> np.uint64(32)).astype(np.uint32)
        for first in range(0, NUM_HASHES, 16):  # small blocks stay in the processor's cache
            part = slice(first, first + 16)
            minima[part, number] = (grams * _MULTIPLIERS[part, None] + _OFFSETS[part, None]).min(axis=1)
    return minima


def rows_of_band(threshold: float) -> int:
    """Returns the most rows a band may have, so that 99 % of the pairs at the threshold share a band."""
    recalls = ((rows, 1 - (1 - threshold**rows) ** (NUM_HASHES // rows)) for rows in range(1, NUM_HASHES + 1))
    return max((rows for rows, recall in recalls if recall >= _RECALL), default=1)


def similarity_of(first: np.ndarray, second: np.ndarray) -> float:
    """Returns the Jaccard similarity of two documents from their sorted 5-grams; see `grams_of`."""
    num_shared = len(np.intersect1d(first, second, assume_unique=True))
    return num_shared / (len(first) + len(second) - num_shared)


@dataclasses.dataclass
class NearDuplicates:
    """Near duplicates, and the comparisons that found them."""

    is_near: np.ndarray  # bool [documents]; whether a document is a near duplicate of an earlier one that stays
    num_estimated: int = 0  # pairs of documents compared by the estimate
    num_compared: int = 0  # pairs compared exactly
    num_limited: int = 0  # documents that reached a limit of comparisons, and may stay next to a near duplicate


def find_near_duplicates(
    parts: Sequence[np.ndarray], is_candidate: np.ndarray, threshold: float, read_grams: Callable[[int], np.ndarray]
) -> NearDuplicates:
    """Finds documents that are near duplicates of an earlier one that stays.

    Args:
        parts: the minima of consecutive documents, uint32 [NUM_HASHES, documents of the part]; may be memory maps.
        is_candidate: bool [documents]; the others are ignored.
        threshold: Jaccard similarity from which a document is a duplicate, above 0 and at most 1.
        read_grams: returns the 5-grams of a document by its number, as `grams_of` does.

    Returns:
        The near duplicates. Memory: about 40 bytes a document, and 2 kB more for each that shares a band.
    """
    rows = rows_of_band(threshold)
    bands = [slice(first, first + rows) for first in range(0, NUM_HASHES - rows + 1, rows)]
    documents = _sharing_documents(parts, is_candidate, bands)
    starts = np.cumsum([0, *(part.shape[1] for part in parts)])
    found = NearDuplicates(np.zeros(len(is_candidate), bool))
    kept, kept_minima = [], np.empty((len(documents), NUM_HASHES), np.uint32)
    lowest = threshold - _MARGIN * math.sqrt(threshold * (1 - threshold) / NUM_HASHES)
    buckets = [collections.defaultdict(list) for _ in bands]
    for document in documents:
        part = int(np.searchsorted(starts, document, "right")) - 1
        minima = np.array(parts[part][:, document - starts[part]])
        own_buckets = [bucket[minima[band].tobytes()] for bucket, band in zip(buckets, bands, strict=True)]
        others, is_limited = _candidates(own_buckets)
        estimates = np.count_nonzero(kept_minima[others] == minima, axis=1) / NUM_HASHES
        similar = [others[place] for place in np.argsort(-estimates, kind="stable") if estimates[place] >= lowest]
        found.num_estimated += len(others)
        for other in similar[:MOST_COMPARED]:
            found.num_compared += 1
            if similarity_of(read_grams(kept[other]), read_grams(document)) >= threshold:
                found.is_near[document] = True
                break
        else:
            found.num_limited += is_limited or len(similar) > MOST_COMPARED
            kept_minima[len(kept)] = minima
            for bucket in own_buckets:
                bucket.append(len(kept))
            kept.append(document)
    return found


def _sharing_documents(parts: Sequence[np.ndarray], is_candidate: np.ndarray, bands: Iterable[slice]) -> list[int]:
    """Returns the candidates that share a band of minima with another one, ascending."""
    is_shared = np.zeros(len(is_candidate), bool)
    for band in bands:
        keys = np.concatenate([_keys(part[band]) for part in parts])
        order = np.flatnonzero(is_candidate)
        order = order[np.argsort(keys[order])]
        keys = keys[order]
        is_equal = keys[1:] == keys[:-1]
        is_shared[order[1:][is_equal]] = is_shared[order[:-1][is_equal]] = True
    return np.flatnonzero(is_shared).tolist()


def _candidates(buckets: Sequence[list[int]]) -> tuple[list[int], bool]:
    """Returns the documents of some buckets up to the limit, and whether there are more."""
    found: dict[int, None] = {}
    # Small buckets come first, because similar documents share more than what thousands have.
    for bucket in sorted(buckets, key=len):
        for document in reversed(bucket[-MOST_ESTIMATED - 1 :]):
            if document not in found and len(found) == MOST_ESTIMATED:
                return list(found), True
            found[document] = None
    return list(found), False


def _keys(band: np.ndarray) -> np.ndarray:
    keys = np.zeros(band.shape[1], np.uint64)
    for row in band:
        keys = mix(keys + row.astype(np.uint64) + np.uint64(0x9E3779B97F4A7C15))
    return keys
