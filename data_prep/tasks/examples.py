"""An example of a text with its label, and the labels of many: learnt from a training file, and checked.

Imports without TensorFlow.
"""

import collections
import dataclasses
import math
import re
from collections.abc import Sequence

KINDS = ("single_label", "regression", "multi_label", "multiple_choice")

Label = str | float | tuple[str, ...]

_PLACE = re.compile(r" (line|example) \d+$")
_INTEGER = re.compile(r"[+-]?\d+")


@dataclasses.dataclass(frozen=True)
class Example:
    """One text, or pair of texts, and its label.

    Attributes:
        id: as the file gives it, or its number from 0.
        text_a, text_b: the texts; text_b is None where there is one only.
        label: name of the class, number (regression), names (multi-label); None: not labelled.
        choices: the second texts to choose from, for multiple choice only; the label is the number of one, as "0".
        source: the place in the user's data, as "dev.tsv line 41".
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: Label | None = None
    choices: tuple[str, ...] = ()
    source: str = ""


def learn_labels(examples: Sequence[Example], kind: str) -> tuple[str, ...]:
    """Finds the labels of training examples.

    Args:
        examples: all of them labelled.
        kind: one of KINDS.

    Returns:
        The labels in order of their ids: sorted, as numbers where all of them are integers. For regression (); for
        multiple choice the numbers of the choices.

    Raises:
        ValueError: an example has no label, or there is nothing to learn because all have the same one.
    """
    if kind == "regression":
        return ()
    if kind == "multiple_choice":
        return tuple(map(str, range(max(len(example.choices) for example in examples))))
    counts = collections.Counter()
    for example in examples:
        if example.label is None:
            raise ValueError(f"{example.source}: no label, but labels are learnt from this file; add it")
        counts.update(example.label if kind == "multi_label" else [example.label])
    name = _file_of(examples[0])
    if not counts:
        raise ValueError(f"{name} has no example with a label; check the column of the labels")
    if len(counts) == 1 and kind == "single_label":
        raise ValueError(
            f'{name} has one class only, "{next(iter(counts))}" in all its {len(examples):,} rows; '
            "training needs examples of two or more, so check the column of the labels"
        )
    if all(map(_INTEGER.fullmatch, counts)):
        return tuple(sorted(counts, key=lambda label: (int(label), label)))
    return tuple(sorted(counts))


def check_labels(examples: Sequence[Example], labels: Sequence[str], kind: str) -> None:
    """Checks that every label is known; examples without one pass.

    Args:
        examples: of a file to train on or to evaluate with.
        labels: in order of their ids; () for regression.
        kind: one of KINDS.

    Raises:
        ValueError: a label is not among the labels, or for regression no finite number (names file and line).
    """
    known = set(labels)
    for example in examples:
        label = example.label
        if label is None:
            continue
        if kind == "regression":
            if isinstance(label, bool) or not isinstance(label, (int, float)) or not math.isfinite(label):
                raise ValueError(f'{example.source}: label "{label}" is not a finite number, as regression needs')
            continue
        for name in label if kind == "multi_label" else [label]:
            if name not in known:
                raise ValueError(f'{example.source}: label "{name}" is not one of {_list_names(labels)}')


def to_number(text: str | float) -> float | None:
    """Returns a number as float; None where it is none, or not finite."""
    try:
        number = float(text)
    except (TypeError, ValueError):
        return None
    return number if math.isfinite(number) else None


def _file_of(example):
    return _PLACE.sub("", example.source) or "the training data"


def _list_names(labels):
    """Returns the labels for a message; of many only the first."""
    shown = ", ".join(labels[:20])
    return shown if len(labels) <= 20 else f"{shown} and {len(labels) - 20} more"
