"""Cleans texts of any size with several processes, and splits them into a training and a held-out part.

Tasks write the documents that are long enough, with a hash. The main process chooses the documents by their hashes;
other tasks write the chosen ones.
"""

import collections
import os
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.data_prep.cleaning.filters import Cleaning, log, tell_removed
from bert_keras.data_prep.cleaning.tasks import DROP, EVAL, TRAIN, Task, clean_documents, write_kept
from bert_keras.data_prep.corpus.text_lines import Dropped, TextFile, UnusableTextError, cut, text_warnings
from bert_keras.data_prep.corpus.workers import Work

_UNITS = ("documents", "lines", "characters")


class CleanTexts(NamedTuple):
    """Readable texts to train on and to evaluate on."""

    train: list[TextFile]
    eval: list[TextFile]


def clean_texts(texts: Sequence[TextFile], cleaning: Cleaning, strict_utf8: bool, work: Work) -> CleanTexts:
    """Writes the cleaned documents of both parts to the work folder.

    The folder may have results of an interrupted run. Its result "cleaned" is the report: the numbers of documents,
    lines and characters "before" cleaning, those that each filter removed, and those "held_out".

    Raises:
        UnusableTextError: nothing is left, no document is held out, or with `strict_utf8` text that is not UTF-8.
    """
    folder = work.folder
    folder.finish("cleaning-texts", {"texts": texts})
    chunks, sizes = cut(texts, "documents")
    tasks = {name: Task(part, strict_utf8, cleaning) for name, part in chunks.items()}
    results = dict(work.run(clean_documents, tasks, "cleaning", sizes))
    counts, dropped = {}, Dropped()
    for name in chunks:
        for reason, values in results[name]["counts"].items():
            counts.setdefault(reason, collections.Counter()).update(values)
        dropped.add(Dropped(**results[name]["dropped"]))
    for warning in text_warnings(dropped, texts):
        log.warning(warning)
    indexes = [np.fromfile(folder.file(f"{name}.index"), np.uint64).reshape(-1, 4) for name in chunks]
    sides = _choose(indexes, cleaning, counts)
    names = [name.replace("documents", "kept") for name in chunks]
    kept = {name: part.tobytes() for name, part in zip(names, _split(sides, indexes), strict=True)}
    for _ in work.run(write_kept, kept, "writing the cleaned text", dict(zip(names, sizes.values(), strict=True))):
        pass
    report = _report(counts, cleaning)
    tell_removed(report)
    if TRAIN not in sides:
        raise UnusableTextError("no document is left to train on; use fewer or weaker filters, or a lower {eval_share}")
    if cleaning.eval_share and EVAL not in sides:
        raise UnusableTextError(
            "{eval_share}={} holds out none of {:,} documents; give a larger share or more documents",
            cleaning.eval_share,
            np.count_nonzero(sides),
        )
    paths = [[folder.file(f"{name}.{part}") for name in names] for part in ("train", "eval")]
    parts = [[TextFile(path, path) for path in part if os.path.getsize(path)] for part in paths]
    folder.finish("cleaned", report)
    return CleanTexts(parts[0], parts[1] if cleaning.eval_share else [])


def _choose(indexes: Sequence[np.ndarray], cleaning: Cleaning, counts: dict[str, collections.Counter]) -> np.ndarray:
    """Returns `DROP`, `TRAIN` or `EVAL` for each document, uint8 [documents], and counts what it drops."""
    hashes = np.concatenate([index[:, 0] for index in indexes])
    is_kept = np.ones(len(hashes), bool)
    if cleaning.remove_duplicates != "none":
        is_kept[:] = False
        is_kept[np.unique(hashes, return_index=True)[1]] = True
        _count(counts, "exact_duplicates", indexes, ~is_kept)
    sides = np.where(is_kept, np.uint8(TRAIN), np.uint8(DROP))
    if cleaning.eval_share:
        sides[is_kept & cleaning.is_held_out(hashes)] = EVAL
        _count(counts, "held_out", indexes, sides == EVAL)
    return sides


def _count(
    counts: dict[str, collections.Counter], name: str, indexes: Sequence[np.ndarray], is_counted: np.ndarray
) -> None:
    counts[name] = collections.Counter()
    for index, is_chosen in zip(indexes, _split(is_counted, indexes), strict=True):
        chosen = index[is_chosen]
        counts[name].update(documents=len(chosen), lines=int(chosen[:, 1].sum()), characters=int(chosen[:, 2].sum()))


def _split(values: np.ndarray, indexes: Sequence[np.ndarray]) -> Iterable[np.ndarray]:
    """Returns the values of all documents in the parts of the indexes."""
    return np.split(values, np.cumsum([len(index) for index in indexes])[:-1])


def _report(counts: dict[str, collections.Counter], cleaning: Cleaning) -> dict[str, dict[str, int]]:
    """Returns the counts of all filters in use, also of those that removed nothing."""
    used = {
        "before": True,
        "short": cleaning.min_document_words,
        "exact_duplicates": cleaning.remove_duplicates != "none",
        "held_out": cleaning.eval_share,
    }
    return {
        name: {unit: counts.get(name, {}).get(unit, 0) for unit in _UNITS} for name, is_used in used.items() if is_used
    }
