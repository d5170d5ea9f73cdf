"""Logs the labels of a classification run, and warns of probable mistakes in them."""

import collections
import logging
from collections.abc import Sequence
from typing import Any

from bert_keras.data_prep.text.same_text import find_contradictions
from bert_keras.mistakes import Message, some_of
from bert_keras.tasks.classification.labels import SeveralLabels
from bert_keras.tasks.classification.single_label import SingleLabel
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import are_numbers, is_missing

log = logging.getLogger("bert_keras")

_LABELS_SHOWN = 20


def warn_of_contradictions(examples: Sequence[Example]) -> None:
    """Warns of equal texts with different labels. Numbers may differ, because they may be measured again."""
    labels = [_answer(example) for example in examples]
    groups = find_contradictions([example.key for example in examples], labels)
    if groups:
        first = groups[0][0]
        other = next(number for number in groups[0] if labels[number] != labels[first])
        log.warning(
            "texts that occur with different labels: %s, such as %s (%s) and %s (%s); no model can answer both",
            f"{len(groups):,}",
            *(value for number in (first, other) for value in (examples[number].source, labels[number])),
        )


def _answer(example: Example) -> str:
    label: Any = example.label
    if example.choices:
        return example.choices[int(label)]
    return ", ".join(sorted(label)) or "no label" if isinstance(label, tuple) else str(label)


def log_labels(train: Sequence[Example], kind: SingleLabel) -> None:
    """Logs the labels, and warns of probable mistakes."""
    example_labels: list[Any] = [example.label for example in train]
    labels, scale = kind.names, kind.scale
    if scale:
        message = (
            "the labels are numbers from %.6g to %.6g, with mean %.6g and standard deviation %.6g; the loss is in "
            "squared standard deviations, about 1 for a model that always predicts the mean"
        )
        log.info(message, min(example_labels), max(example_labels), scale["mean"], scale["std"])
        return
    counts = kind.counts(train)
    counted_labels = listed([f"{label} ({counts[label]:,})" for label in labels])
    log.info("%d labels, with their examples to train on: %s", len(labels), counted_labels)
    unseen = [label for label in labels if not counts[label]]
    if unseen:
        log.warning("no example to train on has the label %s", listed(unseen))
    if missing := [f"{label} ({counts[label]:,})" for label in labels if is_missing(label)]:
        log.warning("labels that programs write for missing values: %s; remove their rows if they are", listed(missing))
    if isinstance(kind, SeveralLabels) and not any(len(label) > 1 for label in example_labels):
        log.warning(
            Message(
                "no example has more than one label; if a cell has several, name what separates them with "
                "{label_separator}; if each has one, {kind}=single_label fits"
            )
        )
    combined, separator = combined_label(labels) if kind.has_one else ("", "")
    if combined:
        log.warning(
            Message(
                'the label "{}" counts as one class; if it is several labels, give {kind}=multi_label and '
                "{label_separator}={}",
                combined,
                separator,
            )
        )
    if len(labels) > max(_LABELS_SHOWN, len(train) / 2):
        log.warning(
            Message(
                "{} labels are many for {} examples: check {label_column}; numbers need {kind}=regression",
                f"{len(labels):,}",
                f"{len(train):,}",
            )
        )


def combined_label(labels: Sequence[str]) -> tuple[str, str]:
    """Returns a label that others seem to be parts of, and what separates them in it; without any, two empty texts.

    A part between commas is another label, or is at the first place of one label and a later place of another. So
    neither "Albany, NY" and "Buffalo, NY" count, nor "Arts, crafts" without "Arts", nor the numbers "5" and "4,5". With
    other separators, two labels may have the part in any place.
    """
    if are_numbers(label.replace(",", ".") for label in labels):
        return "", ""
    for separator in ",;|":
        parts = {label: [part.strip() for part in label.split(separator)] for label in labels}
        first, counts = {found[0] for found in parts.values()}, collections.Counter()
        if separator != ",":
            counts.update(part for found in parts.values() for part in {*found})
        for label, found in parts.items():
            is_part = first.intersection(found[1:]) or found[0] in parts or any(counts[part] > 1 for part in found)
            if len(found) > 1 and all(found) and is_part:
                return label, separator
    return "", ""


def listed(labels: Sequence[str]) -> str:
    """Returns the first labels, and the number of the others, for a message."""
    return some_of(labels, _LABELS_SHOWN) or "none"
