"""Splits text into words, and words into word pieces, exactly as the original BERT."""

import re
from collections.abc import Callable, Mapping, Sequence

from bert_keras.data_prep.text.characters import CLEAN, SPLIT, SPLIT_AND_STRIP, CharacterTable, normalize

LONGEST_WORD_TO_SPLIT = 200  # in characters, as in the original BERT

_WORD = re.compile(r"\S+")
_ASCII_WORD = re.compile(r"[A-Za-z0-9]+|[^A-Za-z0-9 ]")  # for printable ASCII: the second part matches punctuation only


def convert_to_unicode(text: str | bytes) -> str:
    """Returns text as str; decodes bytes as UTF-8 and drops invalid bytes. Raises ValueError for other types."""
    if isinstance(text, str):
        return text
    if isinstance(text, bytes):
        return text.decode("utf-8", "ignore")
    raise ValueError(f"the text to tokenize is of type {type(text).__name__}; give str, or bytes in UTF-8")


class PieceMemo(dict):
    """Cache of a function's results for parts of text; threads may share it.

    The cache has two generations of at most `max_pieces` parts. When the young generation is full, it replaces the old
    one, and a hit in the old one copies the part to the young one. So frequent parts stay and memory is bounded.
    """

    max_chars = 32  # longer parts, and parts with more results, are not cached
    max_results = 16

    def __init__(self, function: Callable[[str], tuple], max_pieces: int):
        super().__init__()
        self.max_pieces = max_pieces
        self._function = function
        self._old = {}

    def __missing__(self, piece: str) -> tuple:
        results = self._old.get(piece)
        if results is None:
            results = self._function(piece)
            if len(piece) > self.max_chars or len(results) > self.max_results:
                return results
        if len(self) >= self.max_pieces:
            self._old = dict(self)
            self.clear()
        self[piece] = results
        return results


class BasicTokenizer:
    """Splits text into words: cleans it, splits off ideographs and punctuation, lower-cases, strips accents.

    Args:
        do_lower_case: lower-cases.
        strip_accents: decomposes characters (NFD) and drops their marks (category Mn); None: same as `do_lower_case`.
            Differs from the original BERT, where one flag decides both. Many languages need lower case with accents.
    """

    def __init__(self, do_lower_case: bool = True, strip_accents: bool | None = None):
        self.do_lower_case = do_lower_case
        self.strip_accents = do_lower_case if strip_accents is None else strip_accents

    @property
    def _split_table(self) -> CharacterTable:
        return SPLIT_AND_STRIP if self.strip_accents else SPLIT

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the words of a text, in order; raises ValueError if the text is neither str nor bytes."""
        text = convert_to_unicode(text)
        if text.isascii() and text.isprintable():
            return _ASCII_WORD.findall(text.lower() if self.do_lower_case else text)
        text = text.translate(CLEAN)
        # The original BERT works word by word; the whole text gives the same result. White space is neither cased nor
        # case-ignorable, so the final-sigma rule of lower() does not look past it. In NFD no mark moves across it.
        if self.do_lower_case:
            text = text.lower()
        if self.strip_accents:
            text = normalize("NFD", text)
        return text.translate(self._split_table).split()

    def tokenize_with_sources(self, text: str) -> list[tuple[str, Sequence[int]]]:
        """Returns each word of `tokenize(text)` with the source position of each of its characters in the text.

        Positions never decrease: if NFD reorders marks, the positions keep the order of the text.
        """
        if text.isascii() and text.isprintable():
            lowered = text.lower() if self.do_lower_case else text
            return [(match.group(), range(*match.span())) for match in _ASCII_WORD.finditer(lowered)]
        # Each step maps single characters, except for the order of marks and the form of a final sigma. Neither changes
        # a length, so applying a step to single characters gives the number of characters that each one becomes.
        steps: list[Callable[[str], str]] = [lambda part: part.translate(CLEAN)]
        if self.do_lower_case:
            steps.append(str.lower)
        if self.strip_accents:
            steps.append(lambda part: normalize("NFD", part))
        steps.append(lambda part: part.translate(self._split_table))
        sources = list(range(len(text)))
        for step in steps:
            sources = [source for char, source in zip(text, sources, strict=True) for _ in step(char)]
            text = step(text)
        return [(match.group(), sources[match.start() : match.end()]) for match in _WORD.finditer(text)]


class WordpieceTokenizer:
    """Splits words into the longest word pieces of the vocabulary, from the left.

    Args:
        vocab: token to id; word pieces that continue a word start with `##`. Must not change afterwards.
        unk_token: token for words that cannot be split into word pieces of the vocabulary.
        max_input_chars_per_word: longer words become `unk_token`.
    """

    def __init__(
        self, vocab: Mapping[str, int], unk_token: str = "[UNK]", max_input_chars_per_word: int = LONGEST_WORD_TO_SPLIT
    ):
        self.vocab = vocab
        self.unk_token = unk_token
        self.max_input_chars_per_word = max_input_chars_per_word
        self._beginnings = {token: token for token in vocab}
        self._continuations = {token[2:]: token for token in vocab if token.startswith("##")}
        self._longest = max(map(len, vocab), default=0)

    def tokenize(self, text: str | bytes) -> list[str]:
        """Returns the word pieces of a text whose words are separated by white space."""
        return [piece for word in convert_to_unicode(text).split() for piece in self.split_word(word)]

    def split_word(self, word: str) -> list[str]:
        """Returns the word pieces of one word, or only `unk_token` if some part of the word matches nothing."""
        length = len(word)
        if length > self.max_input_chars_per_word:
            return [self.unk_token]
        known = self._beginnings
        if word in known:
            return [word]
        pieces, start = [], 0
        while start < length:
            for end in range(min(length, start + self._longest), start, -1):
                piece = known.get(word[start:end])
                if piece is not None:
                    break
            else:
                return [self.unk_token]
            pieces.append(piece)
            start, known = end, self._continuations
        return pieces
