"""Entities in tags, and the scores of CoNLL's shared tasks (conlleval) on them.

A tag is O, B-TYPE or I-TYPE. An entity begins at B-, or at I- after O, after another type or at the start of the
sentence; it goes on through the I- of its type. So BIO and IOB1 (where B- only parts two entities of a type), and any
mixture of them, are read by one rule.
"""

import collections
import re

from bert_keras.evaluation.tables import text_table

_TAG = re.compile(r"O|[BI](-.*)?", re.DOTALL)


def entities(tags):
    """Finds the entities of a sentence.

    Args:
        tags: list of str, the tags of its words. `B` and `I` alone are of a type without a name.

    Returns:
        list of (type, start, end): str and two int, the words start to end - 1; in the order of the words.

    Raises:
        ValueError: a tag is none of O, B-TYPE, I-TYPE.
    """
    spans, begun = [], None
    for place, tag in enumerate([*tags, "O"]):
        check_tag(tag)
        mark, type_ = tag[0], tag[2:]
        if begun and (mark != "I" or type_ != begun[0]):
            spans.append((*begun, place))
            begun = None
        if mark != "O" and begun is None:
            begun = type_, place
    return spans


def check_tag(tag):
    """Checks that a tag can be read.

    Raises:
        ValueError: it is none of O, B-TYPE, I-TYPE.
    """
    if not _TAG.fullmatch(tag):
        raise ValueError(f'tag "{tag}" is none of O, B-TYPE, I-TYPE; give the tags as BIO or IOB1')


def entity_metrics(true_tags, predicted_tags):
    """The scores of conlleval: an entity is right if its type and all its words are.

    Args:
        true_tags: list of sentences, each a list of str.
        predicted_tags: the same for the predictions.

    Returns:
        dict of float, 0 to 1: `precision`, `recall`, `f1` of the entities, and `accuracy` of the tags. What has nothing
        to divide by is 0.

    Raises:
        ValueError: sentences or words are missing on one side, there are none, or a tag is none of O, B-TYPE, I-TYPE.
    """
    tallies = _count(true_tags, predicted_tags)
    pairs = [
        (tag, predicted)
        for tags, others in zip(true_tags, predicted_tags, strict=True)
        for tag, predicted in zip(tags, others, strict=True)
    ]
    accuracy = sum(tag == predicted for tag, predicted in pairs) / len(pairs)
    return {**_figures(tallies), "accuracy": accuracy}


def entity_metrics_by_type(true_tags, predicted_tags):
    """The scores of each type of entity by itself.

    Args:
        true_tags: list of sentences, each a list of str.
        predicted_tags: the same for the predictions.

    Returns:
        dict by type, in the order of the alphabet, of dict with `precision`, `recall`, `f1` (float, 0 to 1), `entities`
        and `predicted` (int, how many there are and were predicted).

    Raises:
        ValueError: as `entity_metrics`.
    """
    tallies = _count(true_tags, predicted_tags)
    return {
        type_: {
            **_figures({type_: tally}),
            "entities": tally["entities"],
            "predicted": tally["predicted"],
        }
        for type_, tally in sorted(tallies.items())
    }


def entity_report(true_tags, predicted_tags):
    """The scores of each type of entity and of all together, as a table for people.

    Args:
        true_tags: list of sentences, each a list of str.
        predicted_tags: the same for the predictions.

    Returns:
        str.

    Raises:
        ValueError: as `entity_metrics`.
    """
    by_type = entity_metrics_by_type(true_tags, predicted_tags)
    rows = [_report_row(type_ or "(no type)", figures) for type_, figures in by_type.items()]
    total = {name: sum(figures[name] for figures in by_type.values()) for name in ("entities", "predicted")}
    rows += [[], _report_row("all", {**entity_metrics(true_tags, predicted_tags), **total})]
    return text_table(["", "precision", "recall", "f1", "entities", "predicted"], rows)


def _count(true_tags, predicted_tags):
    """Returns for each type how many entities there are, were predicted and are right."""
    if len(true_tags) != len(predicted_tags):
        raise ValueError(
            f"there are {len(true_tags)} sentences with tags, but {len(predicted_tags)} with predictions; "
            "give the predictions of each sentence"
        )
    tallies = collections.defaultdict(collections.Counter)
    for number, (tags, predicted) in enumerate(zip(true_tags, predicted_tags, strict=True), 1):
        if len(tags) != len(predicted):
            raise ValueError(
                f"sentence {number} has {len(tags)} tags, but {len(predicted)} predicted ones; every word needs one"
            )
        truth, found = set(_entities_of(number, tags)), set(_entities_of(number, predicted))
        for name, spans in (("entities", truth), ("predicted", found), ("right", truth & found)):
            for type_, _, _ in spans:
                tallies[type_][name] += 1
    if not any(map(len, true_tags)):
        raise ValueError("there are no tags to judge; give at least one sentence")
    return tallies


def _entities_of(number, tags):
    try:
        return entities(tags)
    except ValueError as error:
        raise ValueError(f"sentence {number}: {error}") from None


def _figures(tallies):
    right, predicted, there = (
        sum(tally[key] for tally in tallies.values()) for key in ("right", "predicted", "entities")
    )
    precision = right / predicted if predicted else 0.0
    recall = right / there if there else 0.0
    f1 = 2 * precision * recall / (precision + recall) if right else 0.0
    return {"precision": precision, "recall": recall, "f1": f1}


def _report_row(name, figures):
    shares = [f"{figures[key]:.4f}" for key in ("precision", "recall", "f1")]
    return [name, *shares, str(figures["entities"]), str(figures["predicted"])]
