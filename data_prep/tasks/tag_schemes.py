"""How the tags of words mark entities: BIO, IOB1, IOBES and BILOU, all of which become BIO.

Needs the standard library only.
"""

import re
from collections.abc import Sequence

# After the mark a hyphen and the type; a file whose entities all have one type may leave it out.
_TAG = re.compile(r"O|[BIELMSU](-.+)?", re.DOTALL)
# IOBES and BMES name the last word E and a single one S; BILOU names them L and U.
_LAST, _SINGLE = "EL", "SU"

NEEDED_TAGS = "tags O, B-<type> and I-<type>"


def is_tag(text: str) -> bool:
    """Returns whether a text is a tag of one of the schemes."""
    return _TAG.fullmatch(text) is not None


def find_scheme(tag_lists: Sequence[Sequence[str]]) -> str:
    """Returns the scheme of the tags of sentences.

    It is "IOBES" or "BILOU" where a mark is only found there; else "BIO", "IOB1", or "mixed" where some entities begin
    as in one and some as in the other. Where nothing tells them apart it is BIO.
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
    """Yields the places of the tags that differ from the one before in being an entity, or in its type."""
    for place, (previous, tag) in enumerate(zip(["O", *tags], tags, strict=False)):
        if tag != "O" and (previous == "O" or previous[2:] != tag[2:]):
            yield place
