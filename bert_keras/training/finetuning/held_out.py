"""Holds out a part of the training examples for evaluation."""

import collections
import logging
import random
from collections.abc import Sequence
from typing import Any

from bert_keras.data_prep.tasks.examples import Example
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

# Independent of the run's seed, so that runs with different seeds hold out the same examples.
_SPLIT_SEED = 12345
_TOO_FEW = {
    "evaluation": "{eval_share}={} of {} examples leaves {} to train and {} to evaluate on{}; give another share, or "
    "{eval_file}",
    "calibration": "{calibrate}: a share of {} of {} examples leaves {} to train and {} to calibrate{}; leave it out",
}


def hold_out(
    examples: Sequence[Example], share: float, path: str, kind: str, purpose: str = "evaluation"
) -> tuple[list[Example], list[Example]]:
    """Splits examples into training and another part: at random, but always in the same way.

    Both parts have about the same share of each label, and training has at least one example of each.

    Args:
        examples: those of the file.
        share: of the examples to hold out.
        path: the file of the examples, for messages.
        kind: one of `data_prep.tasks.examples.KINDS`.
        purpose: "evaluation" or "calibration".

    Returns:
        The examples to train on, and those that are held out, both in the order of the file.

    Raises:
        ValueError: one of the lists would be empty.
    """
    order = list(range(len(examples)))
    random.Random(_SPLIT_SEED).shuffle(order)
    wanted = round(share * len(examples))
    if 0 < wanted < len(examples) and kind != "regression":
        held_out = _stratified(order, [_labels_in(example, kind) for example in examples], wanted)
    else:
        held_out = set(order[:wanted])
    if not 0 < len(held_out) < len(examples):
        reason = ", because no label has two examples" if 0 < wanted < len(examples) else ""
        raise Mistake(
            _TOO_FEW[purpose],
            share,
            len(examples),
            len(examples) - len(held_out),
            len(held_out),
            reason,
        )
    log.info(
        "%s: %s of %s examples, chosen at random%s, are held out for %s",
        paths.name(path),
        f"{len(held_out):,}",
        f"{len(examples):,}",
        "" if kind == "regression" else " within each label",
        purpose,
    )
    train = [example for number, example in enumerate(examples) if number not in held_out]
    return train, [example for number, example in enumerate(examples) if number in held_out]


def _labels_in(example: Example, kind: str) -> Sequence[str]:
    """Returns the labels of an example; one without a label counts as having a label of that kind."""
    label: Any = example.label
    return (label or ("",)) if kind == "multi_label" else (label,)


def _stratified(order: Sequence[int], labels: Sequence[Sequence[str]], wanted: int) -> set[int]:
    """Returns the numbers of the examples to hold out: `wanted`, or fewer if labels are too rare.

    Rare labels come first, as in Sechidis et al. 2011, "On the Stratification of Multi-Label Data". First each label
    gets its whole part of the share, then the labels that miss most of a part get one more.
    """
    numbers = collections.defaultdict(list)
    for number in order:
        for label in labels[number]:
            numbers[label].append(number)
    share = wanted / len(order)
    rarest_first = sorted(numbers, key=lambda label: (len(numbers[label]), label))
    num_left = {label: len(found) for label, found in numbers.items()}
    candidates, held_out = {label: iter(numbers[label]) for label in numbers}, set()

    def missing(label: str) -> float:
        return share * len(numbers[label]) - (len(numbers[label]) - num_left[label])

    def take(label: str) -> bool:
        """Holds out one more example of a label, if training keeps one of each of its labels."""
        for number in candidates[label]:
            if number not in held_out and all(num_left[other] > 1 for other in labels[number]):
                held_out.add(number)
                num_left.update({other: num_left[other] - 1 for other in labels[number]})
                return True
        return False

    for label in rarest_first:
        while len(held_out) < wanted and missing(label) >= 1 and take(label):
            pass
    is_progress = True
    while len(held_out) < wanted and is_progress:
        is_progress = False
        for label in sorted(rarest_first, key=missing, reverse=True):
            is_progress |= len(held_out) < wanted and take(label)
    return held_out
