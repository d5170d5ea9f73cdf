"""Reads and scores minimal pairs: an acceptable sentence, and a similar one that is not acceptable.

Sources: BLiMP (Warstadt et al. 2020), Zorro (Huebner et al. 2021). Imports without TensorFlow.
"""

import dataclasses
import logging
import math
import os
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from bert_keras.evaluation.intervals import WIDTH, wilson
from bert_keras.evaluation.tables import text_table
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, text_files
from bert_keras.storage.inspection import ending_of, inspect
from bert_keras.storage.json_rows import JsonRows

log = logging.getLogger("bert_keras")

_ENDINGS = (".jsonl", ".txt", ".tsv")
_GROUPS_FILE = "paradigms.tsv"
_NEEDED = "give the folder of BLiMP or Zorro, or files with a good sentence, a tab and a bad sentence in each line"


@dataclasses.dataclass(frozen=True)
class Paradigm:
    """The minimal pairs of one file.

    Attributes:
        name: name of the file without its ending.
        group: name of the group that the paradigm belongs to, such as "island_effects"; "" if it is not known.
        pairs: the good and the bad sentence of each pair.
    """

    name: str
    group: str
    pairs: list[tuple[str, str]]


def read_paradigms(path: str | os.PathLike) -> list[Paradigm]:
    """Reads a file of minimal pairs, or all files of a folder, sorted by name.

    `.jsonl` is the format of BLiMP; the group is its linguistics_term. `.txt` is the format of Zorro: the bad sentence
    of a pair, then the good one in the next line. In `.tsv`, a line is the good sentence, a tab and the bad one. If
    the folder has paradigms.tsv, its first two columns are the paradigm and its group. Otherwise, the group of
    `a-b.txt` is a.

    Raises:
        FileNotFoundError: the path does not exist.
        ValueError: a file has another format, or the folder has no such file.
    """
    path = os.fspath(path)
    if not paths.is_dir(path):
        return [_read_paradigm(path, {})]
    names = [name for name in sorted(paths.list_dir(path)) if ending_of(name) in _ENDINGS]
    groups = {}
    if _GROUPS_FILE in names:
        names.remove(_GROUPS_FILE)
        file = paths.join(path, _GROUPS_FILE)
        rows = [line.split("\t") for line in _lines_of(file)]
        groups = {row[0]: row[1] for row in rows if len(row) > 1}
    if not names:
        raise Mistake("{} has no file that ends in {}; {}", path, ", ".join(_ENDINGS), _NEEDED)
    return [_read_paradigm(paths.join(path, name), groups) for name in names]


def has_pairs(path: str) -> bool:
    """Returns whether a path is that of a folder, or of a file like those of BLiMP."""
    if ending_of(path) != ".jsonl" or not paths.is_file(path):
        return paths.is_dir(path)
    return b'"sentence_good"' in inspect(path).head.partition(b"\n")[0]


def right_pairs(paradigm: Paradigm, scores: Mapping[str, float]) -> list[bool]:
    """Returns, for each pair, whether the good sentence has a higher score than the bad one.

    Args:
        scores: the score of each sentence, such as its log-probability.
    """
    return [scores[good] > scores[bad] for good, bad in paradigm.pairs]


def score_minimal_pairs(data_file: str, predictions_file: str) -> tuple[dict[str, Any], str]:
    """Scores the sentence scores of any program: JSON lines with "text" and "log_probability".

    Returns a dict of metrics, and the same as a table for people. Each accuracy has an interval of 95 %.
    """
    paradigms = read_paradigms(data_file)
    scores = _read_scores(predictions_file)
    # Alone, a file of two columns is a table for predict.py.
    scored = (paths.parent(data_file) or ".") if ending_of(data_file) == ".tsv" else data_file
    for paradigm in paradigms:
        for sentence in (sentence for pair in paradigm.pairs for sentence in pair):
            if sentence not in scores:
                raise Mistake(
                    '{0} has no score of "{1}", a sentence of {2}; score each sentence of {3} '
                    "(predict.py --task=score --input_file={3} --json)",
                    predictions_file,
                    sentence,
                    paradigm.name,
                    scored,
                )
    found = {paradigm.name: paradigm_accuracy(right_pairs(paradigm, scores)) for paradigm in paradigms}
    by_group: dict[str, list] = {}
    for paradigm in paradigms:
        by_group.setdefault(paradigm.group, []).append(found[paradigm.name])
    groups = {group: mean_accuracy(accuracies) for group, accuracies in sorted(by_group.items()) if group}
    mean = mean_accuracy(list(found.values()))
    tables = [minimal_pairs_table("paradigm", found | {"mean of paradigms": mean})]
    if groups:
        tables.append(minimal_pairs_table("group", groups))
    metrics = {"task": "minimal_pairs", **mean._asdict()}
    for key, accuracies in (("groups", groups), ("paradigms", found)):
        metrics[key] = {name: accuracy._asdict() for name, accuracy in accuracies.items()}
    return metrics, "\n".join(tables)


def _read_scores(path: str) -> dict[str, float]:
    scores = {}
    needed = 'each line needs "text" and "log_probability", as predict.py --task=score --json writes them'
    for number, value in JsonRows(path, needed).objects():
        score = value.get("log_probability")
        if not isinstance(score, int | float) or not isinstance(value.get("text"), str) or not math.isfinite(score):
            raise Mistake("{} line {} is not the score of a sentence; {}", path, number, needed)
        scores[value["text"]] = score
    return scores


def _read_paradigm(path: str, groups: Mapping[str, str]) -> Paradigm:
    ending = ending_of(path)
    name = paths.name(path)[: paths.name(path).lower().rfind(ending)]
    group = groups.get(name, name.rpartition("-")[0])
    pairs: list[Any]
    if ending == ".jsonl":
        objects = list(JsonRows(path, _NEEDED).objects())
        group = groups.get(name) or str(objects[0][1].get("linguistics_term", ""))
        pairs = [(value.get("sentence_good"), value.get("sentence_bad")) for _, value in objects]
        for (number, _), pair in zip(objects, pairs, strict=True):
            if not all(isinstance(sentence, str) for sentence in pair):
                raise Mistake('{} line {} has no "sentence_good" and "sentence_bad"; {}', path, number, _NEEDED)
    elif ending == ".txt":
        lines = _lines_of(path)
        if len(lines) % 2:
            raise Mistake("{} has {} lines, but each bad sentence needs a good one after it", path, len(lines))
        pairs = list(zip(lines[1::2], lines[::2], strict=True))
    elif ending == ".tsv":
        pairs = [line.split("\t") for line in _lines_of(path)]
        for number, pair in enumerate(pairs, 1):
            if len(pair) != 2:
                raise Mistake("{} line {} has {} tabs, but a pair has one; {}", path, number, len(pair) - 1, _NEEDED)
    else:
        raise Mistake("{} does not end in {}; {}", path, ", ".join(_ENDINGS), _NEEDED)
    for number, pair in enumerate(pairs, 1):
        if any(map(text_files.is_blank, pair)):
            raise Mistake("{}: a sentence of pair {} is empty; each pair needs two sentences", path, number)
    if num_equal := sum(good == bad for good, bad in pairs):
        log.warning("%s: pairs of two equal sentences, which no model gets right: %d", path, num_equal)
    return Paradigm(name, group, [(good, bad) for good, bad in pairs])


def _lines_of(path: str) -> list[str]:
    return text_files.unify_line_ends(text_files.read_text(path, _NEEDED)).removesuffix("\n").split("\n")


class Accuracy(NamedTuple):
    """A share of right pairs in [0, 1], with its interval of 95 %."""

    accuracy: float
    low: float
    high: float
    pairs: int


def paradigm_accuracy(is_right: Sequence[bool]) -> Accuracy:
    """Returns the accuracy on one paradigm, with Wilson's interval."""
    accuracy = sum(is_right) / len(is_right)
    low, high = wilson(accuracy, len(is_right))
    return Accuracy(accuracy, low, high, len(is_right))


def mean_accuracy(accuracies: Sequence[Accuracy]) -> Accuracy:
    """Returns the mean over paradigms. The interval is that of other pairs of the same paradigms."""
    mean = math.fsum(one.accuracy for one in accuracies) / len(accuracies)
    variance = math.fsum(one.accuracy * (1 - one.accuracy) / one.pairs for one in accuracies) / len(accuracies) ** 2
    half = WIDTH * math.sqrt(variance)
    return Accuracy(mean, max(0.0, mean - half), min(1.0, mean + half), sum(one.pairs for one in accuracies))


def minimal_pairs_table(title: str, accuracies: dict[str, Accuracy]) -> str:
    """Formats accuracies by name as a table for people, in percent."""
    rows = [
        [name, *(f"{100 * value:.1f}" for value in (one.accuracy, one.low, one.high)), one.pairs]
        for name, one in accuracies.items()
    ]
    return text_table([title, "accuracy %", "from", "to", "pairs"], rows)
