"""Holds out a part of the training examples for evaluation or for calibration. Equal texts are on one side."""

import collections
import logging
import random
from collections.abc import Iterator, Mapping, Sequence

from bert_keras.data_prep.text.same_text import group_numbers
from bert_keras.mistakes import Message, Mistake, some_of
from bert_keras.storage import paths
from bert_keras.tasks.classification.labels import LABELS
from bert_keras.tasks.classification.settings import ClassifierSettings
from bert_keras.tasks.tables.examples import Example
from bert_keras.tasks.tables.header import are_numbers

log = logging.getLogger("bert_keras")

# Independent of the run's seed, so that runs with different seeds hold out the same examples.
_SPLIT_SEED = 12345
_TOO_FEW = {
    "evaluation": "{eval_share}={} of {} examples leaves {} to train and {} to evaluate on{}; give another share, or "
    "{eval_file}",
    "calibration": "{calibrate}: a share of {} of {} examples leaves {} to train and {} to calibrate{}; leave it out",
}
_LABELS_SHOWN = 5
_CALIBRATION_SHARE = 0.1


def hold_out(
    examples: Sequence[Example], share: float, path: str, kind: str, purpose: str = "evaluation"
) -> tuple[list[Example], list[Example]]:
    """Splits examples into training and another part: at random, but always in the same way.

    Equal texts, see `data_prep.text.same_text`, are in one part. Both parts have about the same share of each label,
    and training has at least one example of each.

    Args:
        examples: those of the file.
        share: of the examples to hold out.
        path: the file of the examples, for messages.
        kind: one of `tasks.tables.settings.KINDS`.
        purpose: "evaluation" or "calibration".

    Returns:
        The examples to train on and the held-out ones, both in the order of the file.

    Raises:
        ValueError: one of the lists would be empty.
    """
    order = list(range(len(examples)))
    random.Random(_SPLIT_SEED).shuffle(order)
    wanted = round(share * len(examples))
    numbers = group_numbers(example.key for example in examples)
    of_kind = LABELS[kind]()
    labels = [of_kind.names_in(example.label) for example in examples]
    held_out = _Split(order, numbers, labels, wanted).choose() if 0 < wanted < len(examples) else set(order[:wanted])
    if not 0 < len(held_out) < len(examples):
        reason: str | Message = ", because no label has two different texts" if 0 < wanted < len(examples) else ""
        if reason and of_kind.has_one and are_numbers(str(example.label) for example in examples):
            reason = Message("{} (labels that are numbers need {kind}=regression)", reason)
        raise Mistake(
            _TOO_FEW[purpose],
            share,
            len(examples),
            len(examples) - len(held_out),
            len(held_out),
            reason,
        )
    num_texts = len({*numbers})
    log.info(
        "%s: %s of %s examples, chosen at random%s, are held out for %s%s",
        paths.name(path),
        f"{len(held_out):,}",
        f"{len(examples):,}",
        " within each label" if of_kind.has_classes else "",
        purpose,
        f"; equal texts ({len(examples) - num_texts:,} copies) stay together" if num_texts < len(examples) else "",
    )
    train = [example for number, example in enumerate(examples) if number not in held_out]
    dev = [example for number, example in enumerate(examples) if number in held_out]
    if purpose == "evaluation":
        _warn_of_missing(of_kind.counts(examples), of_kind.counts(dev), paths.name(path))
    return train, dev


def hold_out_for_calibration(
    settings: ClassifierSettings, train: list[Example], kind: str
) -> tuple[list[Example], list[Example] | None]:
    """Returns the examples to train on, and those to calibrate on."""
    if not settings.calibrate:
        return train, None
    source = settings.train_file or settings.task_name or settings.tfds or ""
    return hold_out(train, _CALIBRATION_SHARE, source, kind, "calibration")


def _warn_of_missing(counts: Mapping[str, int], held: Mapping[str, int], name: str) -> None:
    missing = [f"{label} ({count:,})" for label, count in sorted(counts.items()) if label not in held]
    if missing:
        message = "%s: no held-out example has these labels, which are too rare (with their examples): %s"
        log.warning(message, name, some_of(missing, _LABELS_SHOWN))


class _Split:
    """Chooses the examples to hold out, `wanted` or nearly so many, and keeps one of each label in training.

    Attributes:
        held_out: the numbers of the examples so far.
    """

    def __init__(
        self, order: Sequence[int], texts: Sequence[int], labels: Sequence[Sequence[str]], wanted: int
    ) -> None:
        """Takes the shuffled numbers of the examples, and by example the number of its text and its labels."""
        self.held_out: set[int] = set()
        self._wanted, self._share = wanted, wanted / len(order)
        self._rows: dict[int, list[int]] = collections.defaultdict(list)
        for row in order:
            self._rows[texts[row]].append(row)
        self._counts = {
            text: collections.Counter(label for row in rows for label in labels[row])
            for text, rows in self._rows.items()
        }
        self._totals: collections.Counter[str] = collections.Counter()
        for counts in self._counts.values():
            self._totals.update(counts)
        self._left = self._totals.copy()

    def choose(self) -> set[int]:
        """Returns the numbers of the examples to hold out.

        Rare labels come first, as in Sechidis et al. 2011, "On the Stratification of Multi-Label Data". First each
        label gets its whole part of the share, then the labels that miss most of a part get one more text.
        """
        rarest_first = sorted(self._totals, key=lambda label: (self._totals[label], label))
        candidates = self._by_label()
        for label in rarest_first:
            while self._missing(label) >= 1 and self._take(candidates[label], label, self._missing(label)):
                pass
        candidates, is_progress = self._by_label(), True
        while is_progress:
            is_progress = False
            for label in sorted(rarest_first, key=self._missing, reverse=True):
                # A text with copies must not bring the label further from its part.
                is_progress |= self._take(candidates[label], label, max(1, 2 * self._missing(label)))
        if not self.held_out:  # each text has too many copies
            fewest_first = sorted(self._rows, key=lambda text: len(self._rows[text]))
            self._hold(next(filter(self._is_possible, fewest_first), None))
        return self.held_out

    def _by_label(self) -> dict[str, Iterator[int]]:
        texts = collections.defaultdict(list)
        for text, counts in self._counts.items():
            for label in counts:
                texts[label].append(text)
        return {label: iter(of_label) for label, of_label in texts.items()}

    def _missing(self, label: str) -> float:
        return self._share * self._totals[label] - (self._totals[label] - self._left[label])

    def _is_possible(self, text: int) -> bool:
        is_left = all(self._left[label] > count for label, count in self._counts[text].items())
        return is_left and self._rows[text][0] not in self.held_out

    def _take(self, texts: Iterator[int], label: str, most: float) -> bool:
        """Holds out the next text that fits and has up to `most` examples of the label."""
        room = self._wanted - len(self.held_out)
        for text in texts if room else ():
            if self._counts[text][label] <= most and len(self._rows[text]) <= room and self._is_possible(text):
                self._hold(text)
                return True
        return False

    def _hold(self, text: int | None) -> None:
        if text is not None:
            self.held_out.update(self._rows[text])
            self._left.subtract(self._counts[text])
