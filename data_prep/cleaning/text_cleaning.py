"""Cleans texts of any size with several processes, and splits them into a training and a held-out part.

Tasks write the documents that are long enough, with a hash. The main process chooses the documents by their hashes;
other tasks write the chosen ones.
"""

import collections
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data_prep.cleaning.filters import Cleaning, log, tell_removed
from bert_keras.data_prep.cleaning.tasks import DROP, EVAL, TRAIN, Task, clean_documents, write_kept
from bert_keras.data_prep.corpus.text_lines import Dropped, TextFile, UnusableTextError, text_warnings
from bert_keras.data_prep.corpus.workers import Work, in_groups

CHUNK_BYTES = 4 << 20
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
    chunks, sizes = {}, {}
    ranges = (
        (number, start, min(size, start + CHUNK_BYTES))
        for number, size in enumerate(os.path.getsize(text.path) for text in texts)
        for start in range(0, size, CHUNK_BYTES)
    )
    for group in in_groups(ranges, lambda each: each[2] - each[1], CHUNK_BYTES):
        name = f"{len(chunks):06}"
        chunks[name] = Task(group[0][0], group[0][1], group[-1][0], group[-1][2], strict_utf8, cleaning)
        sizes[name] = sum(end - start for _, start, end in group)
    results = _run(clean_documents, "documents-", chunks, sizes, work, "cleaning")
    counts, dropped = {}, Dropped()
    for name in chunks:
        for reason, values in results[name]["counts"].items():
            counts.setdefault(reason, collections.Counter()).update(values)
        dropped.add(Dropped(**results[name]["dropped"]))
    for warning in text_warnings(dropped, texts):
        log.warning(warning)
    indexes = {name: np.fromfile(folder.file(f"documents-{name}.index"), np.uint64).reshape(-1, 4) for name in chunks}
    sides = _choose(indexes, cleaning, counts)
    tasks, first = {}, 0
    for name, index in indexes.items():
        tasks[name] = sides[first : first + len(index)].tobytes()
        first += len(index)
    _run(write_kept, "kept-", tasks, sizes, work, "writing the cleaned text")
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
    parts = [
        [
            TextFile(path := folder.file(f"kept-{name}.{part}"), path)
            for name in chunks
            if os.path.getsize(folder.file(f"kept-{name}.{part}"))
        ]
        for part in ("train", "eval")
    ]
    folder.finish("cleaned", report)
    return CleanTexts(parts[0], parts[1] if cleaning.eval_share else [])


def _run(
    function: Callable,
    prefix: str,
    tasks: Mapping[str, Any],
    sizes: Mapping[str, int],
    work: Work,
    doing: str,
) -> dict[str, dict]:
    results, named = {}, {f"{prefix}{name}": task for name, task in tasks.items()}
    for name, result in work.run(function, named, doing, sum(sizes.values())):
        if "dropped" in result and tasks[name.removeprefix(prefix)].strict_utf8:
            Dropped(**result["dropped"]).refuse_invalid()
        results[name.removeprefix(prefix)] = result
        work.progress.advance(sizes[name.removeprefix(prefix)])
    return results


def _choose(indexes: dict[str, np.ndarray], cleaning: Cleaning, counts: dict[str, collections.Counter]) -> np.ndarray:
    """Returns `DROP`, `TRAIN` or `EVAL` for each document, uint8 [documents], and counts what it drops."""
    hashes = np.concatenate([index[:, 0] for index in indexes.values()])
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
    counts: dict[str, collections.Counter], name: str, indexes: dict[str, np.ndarray], is_counted: np.ndarray
) -> None:
    counts[name], first = collections.Counter(), 0
    for index in indexes.values():
        chosen = index[is_counted[first : first + len(index)]]
        counts[name].update(documents=len(chosen), lines=int(chosen[:, 1].sum()), characters=int(chosen[:, 2].sum()))
        first += len(index)


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
