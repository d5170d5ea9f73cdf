"""Finds entities in tags, and computes the scores of CoNLL's shared tasks (conlleval).

A tag is O, B-TYPE or I-TYPE. An entity begins at B-, or at I- after O, after another type or at the start of the
sentence. It continues through the following I- tags of its type. This rule reads BIO, IOB1 (where B- only separates two
entities of the same type), and any mixture of them.
"""

import collections
import re

from bert_keras.evaluation.tables import text_table

_TAG = re.compile(r"O|[BI](-.*)?", re.DOTALL)


def entities(tags):
    """Finds the entities of a sentence.

    Args:
        tags: list of str, one for each word. `B` and `I` without a type are entities of a nameless type.

    Returns:
        list of (type, start, end) in the order of the words: str and two int, the words start to end - 1.

    Raises:
        ValueError: a tag is not O, B-TYPE or I-TYPE.
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
    """Raises ValueError if a tag is not O, B-TYPE or I-TYPE."""
    if not _TAG.fullmatch(tag):
        raise ValueError(f'tag "{tag}" is not O, B-TYPE or I-TYPE; give the tags as BIO or IOB1')


def entity_metrics(true_tags, predicted_tags):
    """Computes the scores of conlleval: an entity is right if its type and all its words are right.

    Args:
        true_tags, predicted_tags: lists of sentences, each a list of str.

    Returns:
        dict of float, 0 to 1: `precision`, `recall`, `f1` of the entities, and `accuracy` of the tags. Undefined values
        are 0.

    Raises:
        ValueError: the numbers of sentences or words differ, no tag is given, or a tag is not O, B-TYPE or I-TYPE.
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
    """Computes the scores of each entity type; arguments and errors as in `entity_metrics`.

    Returns:
        dict by type, in alphabetical order, of dict with `precision`, `recall`, `f1` (float, 0 to 1), `entities` and
        `predicted` (int, the numbers of gold and predicted entities).
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
    """Formats the scores of each entity type and of all types as a table for people, a str.

    Arguments and errors are as in `entity_metrics`.
    """
    by_type = entity_metrics_by_type(true_tags, predicted_tags)
    rows = [_report_row(type_ or "(no type)", figures) for type_, figures in by_type.items()]
    total = {name: sum(figures[name] for figures in by_type.values()) for name in ("entities", "predicted")}
    rows += [[], _report_row("all", {**entity_metrics(true_tags, predicted_tags), **total})]
    return text_table(["", "precision", "recall", "f1", "entities", "predicted"], rows)


def _count(true_tags, predicted_tags):
    """Returns the numbers of gold, predicted and right entities of each type."""
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
        raise ValueError("there are no tags; give at least one sentence")
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
