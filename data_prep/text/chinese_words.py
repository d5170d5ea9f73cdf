"""Finds the words of Chinese text for masks of whole words (Cui et al. 2019, arXiv:1906.08101).

The tokens stay single characters. A segmenter only tells which characters belong together.
"""

import functools
import hashlib
import importlib.metadata
import logging
import re
import warnings
from collections.abc import Collection
from typing import Any

import numpy as np

from bert_keras.data_prep.text.characters import CJK_IDEOGRAPHS
from bert_keras.data_prep.text.splitting import convert_to_unicode
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.data_prep.text.vocabulary import read_words
from bert_keras.mistakes import Message, MissingFile, Mistake
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

_CLASS = "".join(f"{chr(first)}-{chr(last)}" for first, last in CJK_IDEOGRAPHS)
_RUN = re.compile(f"([{_CLASS}]+)")
_AT_ONCE = 1 << 20
# Words of two or more characters have about 2.2 on average. More than this is text without spaces between words.
_MOST_CHARACTERS = 4.0


class Segmenter:
    """Splits rows of Chinese characters into words.

    Args:
        chinese_words: "jieba" uses the package jieba. "spaces": each row is a word, because a segmenter put spaces
            between the words. All else is a file with one word a line. There, the longest word of the list at each
            place counts, from left to right, and all other characters are single words.

    Attributes:
        source: str for the metadata of records, such as the version of jieba or the digest of the list.

    Raises:
        FileNotFoundError, ValueError: the package or the file is missing, or the file is not a list of words.
    """

    def __init__(self, chinese_words: str):
        self.method = chinese_words if chinese_words in ("jieba", "spaces") else "list"
        self.source = self.method
        self._words: Collection[str] = ()
        if self.method == "jieba":
            _jieba()
            self.source = f"jieba {importlib.metadata.version('jieba')}"
        elif self.method == "list":
            self._words = _read_words(chinese_words)
            digest = hashlib.sha256("\n".join(sorted(self._words)).encode("utf-8")).hexdigest()
            self.source = f"{len(self._words)} words, sha256 {digest}"
        self._longest = max(map(len, self._words), default=1)

    def split(self, row: str) -> list[str]:
        """Returns the words of a row of Chinese characters without anything between them."""
        if self.method == "jieba":
            return _jieba().lcut(row)
        if self.method == "spaces":
            return [row]
        words, start = [], 0
        while start < len(row):
            ends = range(min(len(row), start + self._longest), start + 1, -1)
            end = next((end for end in ends if row[start:end] in self._words), start + 1)
            words.append(row[start:end])
            start = end
        return words


class WordMarker:
    """Tokenizer for a corpus whose ids also mark the characters that continue a Chinese word.

    The id of such a character is higher by the size of the vocabulary. Without the marks, the ids are those of the
    tokenizer. `mask_tokens` reads the marks and removes them.

    Args:
        tokenizer: makes the tokens.
        segmenter: finds the words.

    Attributes:
        vocab: token to id, without marks.
        vocab_size: int; every id is below it, so this is twice the size of the vocabulary.
    """

    def __init__(self, tokenizer: FullTokenizer, segmenter: Segmenter):
        self.vocab = tokenizer.vocab
        self.vocab_size = 2 * tokenizer.vocab_size
        self.segmenter = segmenter
        self._tokenizer = tokenizer

    def encode(self, text: str | bytes) -> list[int]:
        """Returns the ids of a text with the marks."""
        encode, mark, ids = self._tokenizer.encode, self._tokenizer.vocab_size, []
        # Each Chinese character is one token, so the parts of a text have the tokens of the whole text.
        for number, part in enumerate(_RUN.split(convert_to_unicode(text))):
            if number % 2 == 0:
                ids += encode(part)
                continue
            for word in self.segmenter.split(part):
                first, *rest = encode(word)
                ids.append(first)
                ids += [id_ + mark for id_ in rest]
        return ids

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        """Returns the token of each id without a mark."""
        return self._tokenizer.convert_ids_to_tokens(ids)


CorpusTokenizer = FullTokenizer | WordMarker


def count_unknown(tokens: Any, tokenizer: CorpusTokenizer) -> int:
    """Returns the number of `[UNK]` in an array of ids, with and without marks."""
    num_tokens = max(tokenizer.vocab.values()) + 1
    return sum(tokens.count(id_) for id_ in range(tokenizer.vocab["[UNK]"], tokenizer.vocab_size, num_tokens))


def check_words(tokens: Any, tokenizer: CorpusTokenizer) -> None:
    """Checks an array of ids with marks; does nothing for ids of a tokenizer that makes no marks.

    Logs the words of two or more Chinese characters, and warns if there are none. Raises ValueError if spaces should be
    between words, and the words are too long for that.
    """
    if not isinstance(tokenizer, WordMarker):
        return
    first_mark, num_words, num_marked = tokenizer.vocab_size // 2, 0, 0
    for start in range(0, len(tokens), _AT_ONCE):
        # One token more, because a word may continue in the next part. The first token of a text has no mark.
        is_marked = np.asarray(tokens[start : start + _AT_ONCE + 1]) >= first_mark
        num_marked += int(is_marked[1:].sum())
        num_words += int((is_marked[1:] & ~is_marked[:-1]).sum())
    if not num_words:
        log.warning(
            Message("the text has no Chinese words of two or more characters, so {chinese_words} changes nothing")
        )
        return
    length = 1 + num_marked / num_words
    if tokenizer.segmenter.method == "spaces" and length > _MOST_CHARACTERS:
        raise Mistake(
            "the {:,} Chinese words of two or more characters have {:.1f} on average, but words have about "
            "2.2: spaces are not between all words; split the text with a segmenter, or give "
            "{chinese_words}=jieba",
            num_words,
            length,
        )
    log.info("found %s Chinese words of two or more characters, %.1f on average", f"{num_words:,}", length)


@functools.lru_cache(maxsize=1)
def _jieba() -> Any:
    try:
        with warnings.catch_warnings():
            # jieba 0.42.1 has invalid escapes in its patterns and imports pkg_resources.
            warnings.simplefilter("ignore")
            import jieba  # pyright: ignore[reportMissingImports] (an extra)
    except ImportError:
        raise Mistake(
            "{chinese_words}=jieba needs jieba, which is not installed; run pip install 'bert-keras[jieba]'"
        ) from None
    jieba.setLogLevel(logging.WARNING)
    return jieba


def _read_words(file: str) -> frozenset[str]:
    """Returns the words of a list with two or more Chinese characters."""
    if not paths.exists(file):
        raise MissingFile(
            '{chinese_words}: the file "{}" does not exist; give jieba, spaces, or a file with one word a line', file
        )
    words, others = set(), []
    for word, line in read_words(file).items():
        if len(word.split()) > 1:
            raise Mistake('{} line {}: "{}" is more than one word; give one word a line', file, line, word)
        if _RUN.fullmatch(word):
            words.add(word)
        else:
            others.append(f'line {line}, "{word}"')
    if not any(len(word) > 1 for word in words):
        raise Mistake(
            "{} has no word of two or more Chinese characters; give a list of Chinese words, one a line", file
        )
    if others:
        log.warning(
            "%s: %d words are not used, because they have characters that are not Chinese (%s)",
            file,
            len(others),
            ", ".join(others[:3]),
        )
    return frozenset(word for word in words if len(word) > 1)
