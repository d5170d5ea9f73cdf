"""Figures about texts and labels for a look at files, and the look at each file of a run."""

import collections
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from bert_keras.data_prep.text.same_text import Key, Placed, find_contradictions, find_shared
from bert_keras.mistakes import Message, shortened, some_of
from bert_keras.storage import paths
from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import S, T, files_used, open_settings

_LABELS_SHOWN, _NAMES_SHOWN = 12, 5
_LONGEST_SHOWN = 110
SIGNS = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff"
_WORD = re.compile(rf"[{SIGNS}]|[^\s{SIGNS}]+")
_UNEVEN = 10


class Texts:
    """The texts of a file for comparisons.

    Attributes:
        name: of the file.
        keys: what identifies the texts of each example.
        sources: the place of each example, such as "dev.csv line 41".
    """

    def __init__(self, path: str, placed: Sequence[Placed]) -> None:
        self.name = paths.name(path)
        self.keys = [example.key for example in placed]
        self.sources = [example.place.removeprefix(f"{path} ").removeprefix(f"{self.name} ") for example in placed]


def num_words(text: str) -> int:
    """Returns the number of words of a text; each character of Chinese and Japanese counts as one."""
    return len(text.split() if text.isascii() else _WORD.findall(text))


def spread(lengths: Sequence[int], sources: Sequence[str] = ()) -> str:
    """Returns the median, 95th percentile and maximum of lengths, and the place of the longest."""
    median, long = (int(np.percentile(lengths, share, method="higher")) for share in (50, 95))
    where = f" ({sources[int(np.argmax(lengths))]})" if sources else ""
    return f"median {median:,}, 95 % up to {long:,}, longest {max(lengths):,}{where}"


def add_examples(found: Findings, first: Iterable[str], count: int, name: str = "examples") -> None:
    """Adds the number of examples of a file and the first ones."""
    found.add(name, f"{count:,}, of which the first are")
    for text in first:
        found.add("", text)


def counted(counts: Mapping[str, int]) -> str:
    """Returns names with their counts, the most frequent first."""
    ordered = sorted(counts.items(), key=lambda pair: -pair[1])
    return some_of([f"{name} ({count:,})" for name, count in ordered], _LABELS_SHOWN)


def numbers(values: Sequence[float]) -> str:
    """Returns the range, the mean and the spread of numbers."""
    array = np.array(values, np.float64)
    return f"{array.min():.6g} to {array.max():.6g}, mean {array.mean():.4g}, standard deviation {array.std():.4g}"


def quoted(text: str) -> str:
    """Returns a text in quotes and on one line; a long one is cut."""
    line = " ".join(text.split())
    return f'"{shortened(line, _LONGEST_SHOWN)}"'


def add_equal_texts(found: Findings, texts: Texts, labels: Sequence[Any] | None = None) -> None:
    """Adds how many examples of a file repeat an earlier one, and how many of these have another label."""
    first: dict[Key, int] = {}
    repeated = [(number, first.setdefault(key, number)) for number, key in enumerate(texts.keys)]
    repeated = [(number, other) for number, other in repeated if number != other]
    if not repeated:
        return
    number, other = repeated[0]
    example = f"such as {texts.sources[number]}, the same as {texts.sources[other]}"
    found.add("equal texts", f"{len(repeated):,} of {len(texts.keys):,} repeat an earlier one, {example}")
    groups = find_contradictions(texts.keys, labels) if labels else []
    if labels and groups:
        names = [", ".join(label) if isinstance(label, tuple) else str(label) for label in labels]
        places = ", ".join(f"{texts.sources[row]} ({shortened(names[row])})" for row in groups[0][:_NAMES_SHOWN])
        found.add("warning", f"texts with different labels: {len(groups):,}, such as {places}")


def add_shared_texts(found: Findings, files: Sequence[Texts]) -> None:
    """Adds how many texts of each file are also in an earlier one."""
    for place, later in enumerate(files):
        for earlier in files[:place]:
            if both := find_shared(later.keys, earlier.keys):
                number, other = both[0]
                share = f"{len(both):,} of the {len(later.keys):,} texts of {later.name} are also in {earlier.name}"
                where = f"such as {later.sources[number]} ({earlier.sources[other]} there)"
                found.add("warning", f"{share}, {where}")


def is_uneven(counts: Collection[int]) -> bool:
    """Returns whether classes with these numbers of examples differ so much that weights help."""
    return max(counts) > _UNEVEN * min(counts)


def add_small_classes(found: Findings, counts: collections.Counter[str], has_weights: bool) -> None:
    """Adds the setting that helps if some classes have far fewer examples than others."""
    if len(counts) < 2 or has_weights:
        return
    (large, most), (small, fewest) = counts.most_common(1)[0], counts.most_common()[-1]
    if is_uneven(counts.values()):
        text = '"{}" has {} examples, but "{}" has {}; {class_weights}=balanced gives rare classes more weight'
        found.add("warning", Message(text, small, f"{fewest:,}", large, f"{most:,}"))


def look_at_files(
    settings: S,
    program: str,
    is_whole: bool,
    read: Callable[[S, str], T],
    describe: Callable[[Findings, T, S], Texts],
    split: Callable[[S, dict[str, T]], object],
) -> list[Findings]:
    """Looks at each file that the run of a program reads; not `is_whole`: only for mistakes.

    Args:
        read: reads and checks the file of a setting, given its name.
        describe: adds what a file holds, and returns its texts.
        split: divides what was read if a part of a file is the evaluation data, and refuses parts that do not fit.
    """
    together, files, texts, read_files = Findings(), [], [], {}
    with together.catching():
        settings = open_settings(settings, program)
        settings.check_effects()
        for name in files_used(settings):
            files.append(Findings(getattr(settings, name), name))
            content = None
            with files[-1].reading():
                content = read_files[name] = read(settings, name)
            if is_whole and content:
                texts.append(describe(files[-1], content, settings))
        if not any(found.problems for found in files):
            with together.reading():
                split(settings, read_files)
    add_shared_texts(together, texts)
    return [*files, together]
