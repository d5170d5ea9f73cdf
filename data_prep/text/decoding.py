"""Joins WordPiece tokens to readable text."""

import unicodedata
from collections.abc import Iterable

from bert_keras.data_prep.text.characters import is_cjk_ideograph, is_punctuation

_NOT_TEXT = ("[PAD]", "[CLS]", "[SEP]")
# Marks that are written without a space before them, or after them.
_CLOSING = frozenset(".,;:!?%)]}'\u2019\u2026")
_OPENING = frozenset("([{'\u2019")


def join_tokens(tokens: Iterable[str]) -> str:
    """Returns the text of tokens without [CLS], [SEP] and [PAD].

    A tokenizer splits text at every mark and ideograph, so the text has the same tokens as before, except for special
    tokens in it.
    """
    text = ""
    for token in tokens:
        if token in _NOT_TEXT or not token:
            continue
        if text and token.startswith("##") and len(token) > 2:
            text += token[2:]
        elif text and _needs_space(text[-1], token[0]):
            text += f" {token}"
        else:
            text += token
    return text


def _needs_space(left: str, right: str) -> bool:
    if right in _CLOSING or left in _OPENING:
        return False
    # Chinese and Japanese have no spaces; Korean, whose letters are wide, too, has spaces between words.
    is_wide = all(unicodedata.east_asian_width(char) in "WF" for char in (left, right))
    return not (is_wide and any(is_cjk_ideograph(char) or is_punctuation(char) for char in (left, right)))
