"""Tags of words and their schemes, the entities in them, and the scores of CoNLL's shared tasks (conlleval).

A tag is O, B-TYPE or I-TYPE. An entity begins at B-, or at I- after O, after another type or at the start of the
sentence. It continues through the following I- tags of its type. This rule reads BIO, IOB1 (where B- only separates two
entities of the same type), and any mixture of them. IOBES and BILOU have more tags; `to_bio` converts them.
"""

import collections
import re
from collections.abc import Sequence

from bert_keras.evaluation.tables import text_table
from bert_keras.mistakes import Mistake

NEEDED_TAGS = "tags O, B-<type> and I-<type>"

# A mark, then a hyphen and the type, which files with a single type of entity may leave out.
_TAG = re.compile(r"O|[BI](-.*)?", re.DOTALL)
_TAG_OF_ANY_SCHEME = re.compile(r"O|[BIELMSU](-.+)?", re.DOTALL)
# The marks of the last word and of a single word: E and S in IOBES and BMES, L and U in BILOU.
_LAST, _SINGLE = "EL", "SU"


def is_tag(text: str) -> bool:
    """Returns whether a text is a tag of BIO, IOB1, IOBES or BILOU."""
    return _TAG_OF_ANY_SCHEME.fullmatch(text) is not None


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
    # The marks of entity tags after O, after another type, or at the start.
    beginnings = {
        tag[0]
        for tags in tag_lists
        for previous, tag in zip(["O", *tags], tags, strict=False)
        if tag != "O" and (previous == "O" or previous[2:] != tag[2:])
    }
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


def entities(tags: Sequence[str]) -> list[tuple[str, int, int]]:
    """Returns the entities of a sentence: (type, start, end) of the words start to end - 1, in their order.

    `B` and `I` without a type are entities of the type "". Raises ValueError for other tags.
    """
    spans, begun = [], None
    for place, tag in enumerate([*tags, "O"]):
        if not _TAG.fullmatch(tag):
            raise Mistake('tag "{}" is not O, B-TYPE or I-TYPE; give the tags as BIO or IOB1', tag)
        mark, type_ = tag[0], tag[2:]
        if begun and (mark != "I" or type_ != begun[0]):
            spans.append((*begun, place))
            begun = None
        if mark != "O" and begun is None:
            begun = type_, place
    return spans


def entity_metrics(true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]) -> dict[str, float]:
    """Computes the scores of conlleval: an entity is right if its type and all its words are right.

    Args:
        true_tags, predicted_tags: lists of sentences, each a list of str.

    Returns:
        dict of float, 0 to 1: `precision`, `recall`, `f1` of the entities, and `accuracy` of the tags. Undefined values
        are 0.

    Raises:
        ValueError: the numbers of sentences or words differ, no tag is given, or a tag is not O, B-TYPE or I-TYPE.
    """
    total = sum(_count(true_tags, predicted_tags).values(), collections.Counter())
    is_right = [
        tag == predicted
        for tags, others in zip(true_tags, predicted_tags, strict=True)
        for tag, predicted in zip(tags, others, strict=True)
    ]
    return {**_scores(total), "accuracy": sum(is_right) / len(is_right)}


def entity_metrics_by_type(
    true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]
) -> dict[str, dict[str, float]]:
    """Computes the scores of each entity type, a dict in alphabetical order; see `entity_metrics`.

    Each type has `precision`, `recall`, `f1`, `entities` and `predicted` (the numbers of gold and predicted entities).
    """
    counts = _count(true_tags, predicted_tags)
    return {
        type_: {**_scores(count), "entities": count["entities"], "predicted": count["predicted"]}
        for type_, count in sorted(counts.items())
    }


def entity_report(true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]) -> str:
    """Formats the scores of each entity type and of all types as a table for people; see `entity_metrics`."""
    by_type = entity_metrics_by_type(true_tags, predicted_tags)
    total = entity_metrics(true_tags, predicted_tags)
    total |= {name: sum(scores[name] for scores in by_type.values()) for name in ("entities", "predicted")}
    columns = ["precision", "recall", "f1", "entities", "predicted"]
    rows = [[type_ or "(no type)", *(scores[name] for name in columns)] for type_, scores in by_type.items()]
    return text_table(["", *columns], [*rows, [], ["all", *(total[name] for name in columns)]])


def _count(
    true_tags: Sequence[Sequence[str]], predicted_tags: Sequence[Sequence[str]]
) -> dict[str, collections.Counter]:
    """Returns a Counter of the gold, predicted and right entities of each type."""
    if len(true_tags) != len(predicted_tags):
        raise ValueError(
            f"there are {len(true_tags)} sentences with tags, but {len(predicted_tags)} with predictions; "
            "give the predictions of each sentence"
        )
    counts = collections.defaultdict(collections.Counter)
    for number, (tags, predicted) in enumerate(zip(true_tags, predicted_tags, strict=True), 1):
        if len(tags) != len(predicted):
            raise ValueError(
                f"sentence {number} has {len(tags)} tags, but {len(predicted)} predicted ones; every word needs one"
            )
        try:
            truth, found = set(entities(tags)), set(entities(predicted))
        except Mistake as error:
            raise Mistake("sentence {}: {}", number, error) from None
        for name, spans in (("entities", truth), ("predicted", found), ("right", truth & found)):
            for type_, _, _ in spans:
                counts[type_][name] += 1
    if not any(map(len, true_tags)):
        raise Mistake("0 tags were given; give at least one sentence")
    return counts


def _scores(count: collections.Counter) -> dict[str, float]:
    right, predicted, there = count["right"], count["predicted"], count["entities"]
    precision = right / predicted if predicted else 0.0
    recall = right / there if there else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}
