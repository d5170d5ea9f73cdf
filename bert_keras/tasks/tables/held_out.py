"""Holds out a part of the training examples for evaluation or for calibration. Equal texts are on one side."""

import collections
import logging
import random
from collections.abc import Iterable, Iterator, Mapping, Sequence, Set
from typing import Any, Protocol, TypeVar

from bert_keras.data_prep.text.same_text import Key, group_numbers
from bert_keras.mistakes import Message, Mistake, several, some_of
from bert_keras.runs.run_dir import RUN_CONFIG, read_run_config
from bert_keras.storage import paths
from bert_keras.storage.json_rows import name_of

D = TypeVar("D", bound="Divisible")

log = logging.getLogger("bert_keras")

# Independent of the run's seed, so that runs with different seeds hold out the same examples.
_SPLIT_SEED = 12345
_TOO_FEW = {
    "evaluation": "{eval_share}={} of {} leaves {} to train and {} to evaluate on{}; give another share, or "
    "{eval_file}",
    "calibration": "{calibrate}: a share of {} of {} leaves {} to train and {} to calibrate{}; leave it out",
}
_LABELS_SHOWN = 5


def choose_held_out(
    keys: Iterable[Key],
    share: float,
    path: str,
    labels: Sequence[Sequence[str]] | None = None,
    unit: str = "examples",
    hint: str | Message = "",
    purpose: str = "evaluation",
) -> set[int]:
    """Chooses the examples to hold out: at random, but always in the same way.

    Equal texts, see `data_prep.text.same_text`, are in one part. Both parts have about the same share of each label,
    and training has at least one example of each.

    Args:
        keys: of the texts of each example of the file.
        share: of the examples to hold out.
        path: the file of the examples, for messages.
        labels: of each example; None if they are not classes.
        unit: what an example is, for messages.
        hint: what else the message may say if no part can be held out.
        purpose: "evaluation" or "calibration".

    Returns:
        The numbers of the examples to hold out.

    Raises:
        ValueError: one of the parts would be empty.
    """
    numbers = group_numbers(keys)
    count, wanted = len(numbers), round(share * len(numbers))
    order = list(range(count))
    random.Random(_SPLIT_SEED).shuffle(order)
    all_labels = labels or [[""]] * count
    held_out = _Split(order, numbers, all_labels, wanted).choose() if 0 < wanted < count else set(order[:wanted])
    if not 0 < len(held_out) < count:
        reason: str | Message = ", because no label has two different texts" if 0 < wanted < count else ""
        if reason and labels is None:
            reason = ", because all texts are equal"
        elif reason and hint:
            reason = Message("{} ({})", reason, hint)
        raise Mistake(_TOO_FEW[purpose], share, several(count, unit), count - len(held_out), len(held_out), reason)
    num_texts, name = len({*numbers}), paths.name(name_of(path))
    log.info(
        "%s: %s of %s %s, chosen at random%s, are held out for %s%s",
        name,
        f"{len(held_out):,}",
        f"{count:,}",
        unit,
        " within each label" if labels else "",
        purpose,
        f"; equal texts ({count - num_texts:,} copies) stay together" if num_texts < count else "",
    )
    if labels and purpose == "evaluation":
        _warn_of_missing(labels, held_out, name)
    return held_out


class Divisible(Protocol):
    """The content of a file that can be divided into examples to train on and to evaluate on.

    It has the keys of the texts that decide the part of each example, the labels of each, of which both parts should
    have the same share (None without any), what identifies the content, and the examples with some numbers.
    """

    @property
    def keys(self) -> list[Key]: ...
    @property
    def strata(self) -> Sequence[Sequence[str]] | None: ...
    @property
    def digest(self) -> str: ...
    def take(self: D, numbers: Iterable[int]) -> D: ...


def with_part(settings: Any, files: Mapping[str, D], unit: str) -> tuple[dict[str, D], dict[str, str]]:
    """Divides the training data of a run that evaluates on a part of them.

    Args:
        settings: those of the run, see `settings.groups.HeldOutSettings`.
        files: the contents of its files by the names of their settings.
        unit: what an example is, for messages.

    Returns:
        The contents as if there was an `eval_file`, and facts for `Task.facts`; without a part, `files` and no facts.

    Raises:
        ValueError: one of the parts would be empty, or the run was not trained on exactly the rest.
    """
    found = {**files}
    if not (settings.holds_out and "train_file" in found):
        return found, {}
    whole = found.pop("train_file")
    keys = whole.keys
    held_out = choose_held_out(keys, settings.eval_share, settings.train_file, whole.strata, unit)
    rest = whole.take(number for number in range(len(keys)) if number not in held_out)
    facts = {"not_held_out_sha256": rest.digest}
    if settings.do_train:
        found["train_file"] = rest
    else:
        check_same_rest(settings, facts)
    if settings.do_eval:
        found["eval_file"] = whole.take(sorted(held_out))
    return found, facts


def check_same_rest(settings: Any, facts: Mapping[str, Any]) -> None:
    """Checks that the run in the output folder was trained on exactly the examples that are not held out."""
    try:
        stored = read_run_config(paths.join(settings.output_dir, RUN_CONFIG))["facts"]
    except FileNotFoundError:
        stored = {}
    if any(stored.get(name) != value for name, value in facts.items()):
        raise Mistake(
            "{eval_share}={} of {}: the model in {} was not trained on exactly the rest of it; give {eval_file}",
            settings.eval_share,
            name_of(settings.train_file),
            settings.output_dir,
        )


def _warn_of_missing(labels: Sequence[Sequence[str]], held_out: Set[int], name: str) -> None:
    counts = collections.Counter(label for names in labels for label in names if label)
    held = {label for row in held_out for label in labels[row]}
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
        return {label: iter(label_texts) for label, label_texts in texts.items()}

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
