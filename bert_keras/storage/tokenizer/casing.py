"""Tells from the words of a vocabulary whether it was made from text that was not lower-cased."""

import re
import unicodedata
from collections.abc import Callable, Collection

# Special tokens such as [UNK], and the <S> of the Chinese vocabulary; they have capitals in every vocabulary.
_MARKER = re.compile(r"\[.*\]|<.*>")
# A vocabulary is cased if more than this share of its tokens has capitals or accents. Cased vocabularies have capitals
# in a third of their tokens, or accents in a few percent. Uncased ones have them only in tokens that users added.
_CASED_SHARE = 0.01


def is_cased(pieces: Collection[str], strip_accents: bool | None = None) -> bool:
    """Returns whether a vocabulary was made from text that was not lower-cased.

    Args:
        pieces: the tokens of the vocabulary.
        strip_accents: False: lower-casing keeps accents, so only capitals count. None or True: lower-casing strips
            accents, so tokens with accents count, too.
    """
    return changes_many(str.lower if strip_accents is False else _lower_cased, pieces)


def changes_many(change: Callable[[str], str], tokens: Collection[str]) -> bool:
    """Returns whether a function changes more than a few words of a vocabulary."""
    words = [token for token in tokens if not _MARKER.fullmatch(token.strip())]
    return sum(word != change(word) for word in words) > _CASED_SHARE * len(words)


def _lower_cased(token: str) -> str:
    return "".join(char for char in unicodedata.normalize("NFD", token.lower()) if unicodedata.category(char) != "Mn")
