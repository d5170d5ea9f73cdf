"""Recognizes the tag schemes BIO, IOB1, IOBES and BILOU, and converts all of them to BIO."""

import re
from collections.abc import Sequence

# A mark, then a hyphen and the type, which files with a single type of entity may leave out.
_TAG = re.compile(r"O|[BIELMSU](-.+)?", re.DOTALL)
# The marks of the last word and of a single word: E and S in IOBES and BMES, L and U in BILOU.
_LAST, _SINGLE = "EL", "SU"

NEEDED_TAGS = "tags O, B-<type> and I-<type>"


def is_tag(text: str) -> bool:
    """Returns whether a text is a tag of one of the schemes."""
    return _TAG.fullmatch(text) is not None


def find_scheme(tag_lists: Sequence[Sequence[str]]) -> str:
    """Returns the scheme of the tags of sentences.

    It is "IOBES" or "BILOU" if a mark occurs only in that scheme. Otherwise it is "BIO", "IOB1", or "mixed" if entities
    begin in both ways. If the tags fit BIO and IOB1, it is "BIO".
    """
    marks = {tag[0] for tags in tag_lists for tag in tags}
    if marks & set("ESM"):
        return "IOBES"
    if marks & set("LU"):
        return "BILOU"
    beginnings = {tags[word][0] for tags in tag_lists for word in _changes(tags)}
    if "I" not in beginnings:
        return "BIO"
    return "mixed" if "B" in beginnings else "IOB1"


def to_bio(tags: Sequence[str]) -> list[str]:
    """Returns the tags of a sentence as BIO, with the entities that conlleval finds."""
    converted, previous = [], "O"
    for tag in tags:
        if tag == "O":
            converted.append(tag)
        else:
            begins = tag[0] in "B" + _SINGLE or previous[0] in "O" + _LAST + _SINGLE or previous[2:] != tag[2:]
            converted.append(("B" if begins else "I") + tag[1:])
        previous = tag
    return converted


def _changes(tags):
    """Yields the indices of entity tags after O, after another type, or at the start."""
    for place, (previous, tag) in enumerate(zip(["O", *tags], tags, strict=False)):
        if tag != "O" and (previous == "O" or previous[2:] != tag[2:]):
            yield place
