"""A labelled text, and functions that learn and check labels."""

import collections
import contextlib
import dataclasses
import functools
import logging
import math
import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.same_text import Key, Placed, key_of
from bert_keras.mistakes import Mistake, closest, some_of
from bert_keras.storage import text_files
from bert_keras.tasks.tables.header import to_number

log = logging.getLogger("bert_keras")

# The labels of inferences, and those of inferences on which annotators did not agree.
INFERENCES = frozenset(("entailment", "contradiction", "neutral"))
UNDECIDED = ("-", "-1")

Label = str | float | tuple[str, ...]

_PLACE = re.compile(r" (line|row|example) \d+$")
_INTEGER = re.compile(r"[+-]?\d+")
# Bounds of the largest label of a regression, so that products and squares of its parts are numbers in float32; and the
# least standard deviation as a share of it, so that rounding to float32 changes no label by more than 1 % of it.
_LEAST, _MOST, _LEAST_SPREAD = 1e-15, 1e15, 1e-5


@dataclasses.dataclass(frozen=True)
class Example:
    """One text, or pair of texts, and its label.

    Attributes:
        id: from the file, or the number of the example from 0.
        text_a, text_b: the texts; text_b is None for a single text.
        label: class name, number (regression), or class names (multi-label); None: not labelled.
        choices: the second texts to choose from, for multiple choice only; the label is the number of one, such as "0".
        source: the place in the user's data, such as "dev.tsv line 41" or "eval_data row 40".
    """

    id: str
    text_a: str
    text_b: str | None = None
    label: Label | None = None
    choices: tuple[str, ...] = ()
    source: str = ""

    @property
    def texts(self) -> tuple[str, ...]:
        """All texts of the example: one, two, or the first and the choices."""
        return self.text_a, *(() if self.text_b is None else (self.text_b,)), *self.choices

    @property
    def num_chars(self) -> int:
        return sum(map(len, self.texts))

    @functools.cached_property
    def key(self) -> Key:
        """The same for examples with the same texts."""
        return key_of(self.texts)

    @property
    def placed(self) -> Placed:
        return Placed(self.key, self.source)


def without_undecided(examples: list[Example], name: str) -> list[Example]:
    """Returns the examples of a file without those whose label means that its annotators did not agree.

    In labelled inferences, as in SNLI, that is "-", or -1 with the classes 0, 1 and 2. Elsewhere these are labels as
    all others. The log counts what is left out.
    """
    labels = {example.label for example in examples}
    is_named, is_numbered = bool(labels & INFERENCES), labels == {"-1", "0", "1", "2"}
    if not (is_named and labels <= {*INFERENCES, *UNDECIDED, None}) and not is_numbered:
        return examples
    kept = [example for example in examples if example.text_b is None or example.label not in (*UNDECIDED, None)]
    if len(kept) < len(examples):
        text = '%s: %s inferences whose label is "-" or -1, because annotators did not agree, are left out'
        log.warning(text, name, f"{len(examples) - len(kept):,}")
    return kept


def in_order(labels: Sequence[str], held: Sequence[str] | None) -> list[str]:
    """Returns labels in the order of those of a head, if they are the same."""
    return [*held] if held and len(held) == len(labels) and set(held) == set(labels) else [*labels]


def learn_labels(examples: Sequence[Example], has_several: bool = False) -> tuple[str, ...]:
    """Returns the labels of training examples in the order of their ids: sorted, by value if all are integers.

    `has_several`: an example has a tuple of labels. Raises ValueError if an example has no label, or all examples have
    the same class.
    """
    counts, places = collections.Counter(), {}
    for example in examples:
        if example.label is None:
            raise Mistake("{}: no label, but labels are learnt from this file; add it", example.source)
        for label in _names_in(example.label):
            counts[label] += 1
            places.setdefault(label, example.source)
    name = _PLACE.sub("", examples[0].source) or "the training data"
    if not counts:
        raise Mistake("{} has no example with a label; check the column of the labels", name)
    if len(counts) == 1 and not has_several:
        raise Mistake(
            '{} has one class only, "{}" in all {:,} examples; '
            "training needs examples of two or more, so check the column of the labels",
            name,
            next(iter(counts)),
            len(examples),
        )
    check_spellings(places, "label", "labels")
    if all(map(_INTEGER.fullmatch, counts)):
        return tuple(sorted(counts, key=lambda label: (int(label), label)))
    return tuple(sorted(counts))


def check_spellings(places: Mapping[str, str], what: str, kinds: str) -> None:
    """Refuses names that look the same and are not, and warns of those that differ only in capitals, width or zeros.

    `places` has the place of the first example with each name; `what` is what the names are, such as "label",
    and `kinds` its plural.
    """
    for folded, is_error in ((_looks, True), (_sounds, False)):
        groups = collections.defaultdict(list)
        for name in places:
            groups[folded(name)].append(name)
        alike = [group for group in groups.values() if len(group) > 1]
        if alike and is_error:
            first, second = alike[0][:2]
            raise Mistake(
                '{}: the {} "{}" looks like "{}" in {}, but it is {} and not {}; write both in the same way',
                places[second],
                what,
                second,
                first,
                places[first],
                ascii(second),
                ascii(first),
            )
        if alike:
            groups = [", ".join(f'"{name}" ({places[name]})' for name in group) for group in alike]
            message = "these are different %s: %s; if they mean the same, write them in the same way"
            log.warning(message, kinds, some_of(groups, 3, "; ", " groups"))


def did_you_mean(name: str, known: Sequence[str]) -> str:
    """Returns the end of a message about an unknown name: a known one that looks nearly the same; or nothing."""
    for other in known:
        if _looks(name) == _looks(other):
            return f'; it looks like "{other}", but is {ascii(name)} and not {ascii(other)}'
    close = closest(name, known, share=1)
    return f'; did you mean "{close}"?' if close else ""


def _looks(name: str) -> str:
    """Returns what one sees of a name: the same for two Unicode forms of a letter, and without invisible characters."""
    return " ".join(text_files.without_invisible(unicodedata.normalize("NFC", name)).split())


def _sounds(name: str) -> str:
    text = unicodedata.normalize("NFKC", _looks(name)).casefold()
    number = to_number(text) if "_" not in text else None
    return text if number is None else f"{number:.17g}"


def learn_scale(examples: Sequence[Example]) -> dict[str, float]:
    """Returns the "mean" and the standard deviation "std" of the numbers that a regression trains on.

    Raises ValueError if all are equal, or if float32 cannot tell them apart or hold them.
    """
    values = np.array([example.label for example in examples], np.float64)
    name = _PLACE.sub("", examples[0].source) or "the training data"
    lowest, highest = f"{values.min():.10g}", f"{values.max():.10g}"
    if lowest == highest or np.ptp(values) == 0:
        raise Mistake(
            "{} has one number only, {} in all {:,} examples; a regression needs different "
            "numbers, so check the column of the labels",
            name,
            lowest,
            len(values),
        )
    largest = np.abs(values).max()
    if not _LEAST < largest < _MOST:
        raise Mistake(
            "{} has labels from {} to {}, which float32 cannot hold; write them in another unit", name, lowest, highest
        )
    mean, std = float(values.mean()), float(values.std())
    if std < _LEAST_SPREAD * largest:
        raise Mistake(
            "the labels of {} differ too little for float32: they are from {} to {}; subtract {:.10g} from each",
            name,
            lowest,
            highest,
            mean,
        )
    return {"mean": mean, "std": std}


def check_numbers(examples: Sequence[Example]) -> None:
    """Raises ValueError, with file and line, for a label that is not a finite number; it may be missing."""
    for example in examples:
        label = example.label
        is_number = isinstance(label, (int, float)) and not isinstance(label, bool) and math.isfinite(label)
        if label is not None and not is_number:
            raise Mistake('{}: label "{}" is not a finite number; correct it', example.source, label)


def check_labels(examples: Sequence[Example], labels: Sequence[str]) -> None:
    """Raises ValueError, with file and line, for a label that is not in `labels`; it may be missing."""
    known = set(labels)
    for example in examples:
        for name in _names_in(example.label):
            if name not in known:
                raise Mistake(
                    '{}: label "{}" is not one of {}{}',
                    example.source,
                    name,
                    some_of(labels, 20),
                    did_you_mean(name, labels),
                )


@contextlib.contextmanager
def naming_teacher(settings: Any) -> Iterator[None]:
    """Adds to the error about a label that the known ones are those of the teacher, if the run has one."""
    try:
        yield
    except Mistake as error:
        if settings.teacher:
            raise Mistake("{}; a student has the labels of its {teacher}", error) from None
        raise


def _names_in(label: Any) -> Sequence[str]:
    return label if isinstance(label, tuple) else () if label is None else (label,)
