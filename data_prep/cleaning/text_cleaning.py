"""Cleans texts of any size with several processes, and splits them into a training and a held-out part.

Tasks write the documents that are long enough, with a hash. The main process chooses the documents by their hashes;
other tasks write the chosen ones. The tasks do not depend on the number of processes.
"""

import collections
import itertools
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data_prep.cleaning.filters import Cleaning, log, tell_removed
from bert_keras.data_prep.corpus.text_lines import (
    Chunk,
    Dropped,
    TextFile,
    UnusableTextError,
    cut,
    noting_mistakes,
    read_lines,
    text_warnings,
)
from bert_keras.data_prep.corpus.workers import Work, WorkFolder
from bert_keras.data_prep.text.same_text import hash_of

_UNITS = ("documents", "lines", "characters")
_DROP, _TRAIN, _EVAL = range(3)  # the side of a document


class CleanTexts(NamedTuple):
    """Readable texts to train on and to evaluate on."""

    train: list[TextFile]
    eval: list[TextFile]


class _Task(NamedTuple):
    """Consecutive chunks of the texts, and how to clean them."""

    chunks: list[Chunk]
    strict_utf8: bool
    cleaning: Cleaning


def clean_texts(
    texts: Sequence[TextFile], cleaning: Cleaning, random_seed: int, strict_utf8: bool, work: Work
) -> CleanTexts:
    """Writes the cleaned documents of both parts to the work folder; the seed chooses those to hold out.

    The folder may have results of an interrupted run. Its result "cleaned" is the report: the numbers of documents,
    lines and characters "before" cleaning, those that each filter removed, and those "held_out".

    Raises:
        UnusableTextError: nothing is left, no document is held out, or with `strict_utf8` text that is not UTF-8.
    """
    folder = work.folder
    folder.finish("cleaning-texts", {"texts": texts})
    chunks, sizes = cut(texts, "documents")
    tasks = {name: _Task(part, strict_utf8, cleaning) for name, part in chunks.items()}
    cleaned, dropped = dict(work.run(_clean_documents, tasks, "cleaning", sizes)), Dropped()
    for name in chunks:
        dropped.add(Dropped(**cleaned[name]["dropped"]))
    for warning in text_warnings(dropped, texts):
        log.warning(warning)
    hashes = [_read_index(folder, name)[:, 0].copy() for name in chunks]
    sides = _choose(np.concatenate(hashes), cleaning, random_seed)
    parts = np.split(sides, np.cumsum([len(part) for part in hashes])[:-1])
    kept = {name.replace("documents", "kept"): part.tobytes() for name, part in zip(chunks, parts, strict=True)}
    sizes = dict(zip(kept, sizes.values(), strict=True))
    chosen = dict(work.run(_write_kept, kept, "writing the cleaned text", sizes))
    report = _report([*cleaned.values(), *chosen.values()], cleaning)
    tell_removed(report)
    if _TRAIN not in sides:
        raise UnusableTextError("no document is left to train on; use fewer or weaker filters, or a lower {eval_share}")
    if cleaning.eval_share and _EVAL not in sides:
        raise UnusableTextError(
            "{eval_share}={} holds out none of {:,} documents; give a larger share or more documents",
            cleaning.eval_share,
            np.count_nonzero(sides),
        )
    paths = [[folder.file(f"{name}.{part}") for name in kept] for part in ("train", "eval")]
    train, held_out = ([TextFile(path, path) for path in part if os.path.getsize(path)] for part in paths)
    folder.finish("cleaned", report)
    return CleanTexts(train, held_out)


def _documents_of(folder: WorkFolder, task: _Task, dropped: Dropped) -> Iterator[list[str]]:
    """Yields the lines of each document of a task.

    These start after its first blank line, or with the first text, and end with the first blank line after the task.
    """
    found: Any = folder.result("cleaning-texts")
    first, last = task.chunks[0], task.chunks[-1]
    lines = read_lines(task.chunks, dropped, task.strict_utf8)
    if first.number or first.start:
        has_no_start = all(lines)  # else it stops after a blank line
        vars(dropped).update(vars(Dropped()))  # the task before counts these lines
        if has_no_start:
            return
    others = [Chunk(TextFile(*text)) for text in found["texts"][last.number + 1 :]]
    rest = read_lines([last._replace(start=last.end, end=None), *others], dropped, task.strict_utf8)
    for is_document, document in itertools.groupby(itertools.chain(lines, itertools.takewhile(bool, rest)), bool):
        if is_document:
            yield [*document]


@noting_mistakes
def _clean_documents(context: object, folder: WorkFolder, name: str, task: _Task) -> dict:
    """Writes the documents that stay: their text, and an index."""
    dropped, counts, index = Dropped(), collections.defaultdict(collections.Counter), []
    with folder.create(f"{name}.text") as text:
        for lines in _documents_of(folder, task, dropped):
            num_characters = sum(map(len, lines))
            numbers = {"documents": 1, "lines": len(lines), "characters": num_characters}
            counts["before"].update(numbers)
            if task.cleaning.is_short(lines):
                counts["short"].update(numbers)
                continue
            text.write("".join(f"{line}\n" for line in [*lines, ""]).encode())
            index.append((hash_of(lines), len(lines), num_characters, text.num_bytes))
    with folder.create(f"{name}.index") as file:
        file.write(np.array(index, np.uint64).ravel())
    return folder.finish(name, {"counts": counts, "dropped": vars(dropped)}, [text, file])


def _read_index(folder: WorkFolder, name: str) -> np.ndarray:
    """Returns the hash, lines, characters and last byte of each document of a task, uint64 [documents, 4]."""
    return np.fromfile(folder.file(f"{name}.index"), np.uint64).reshape(-1, 4)


def _choose(hashes: np.ndarray, cleaning: Cleaning, random_seed: int) -> np.ndarray:
    """Returns `_DROP`, `_TRAIN` or `_EVAL` for each document, uint8 [documents]."""
    is_kept = np.ones(len(hashes), bool)
    if cleaning.remove_duplicates != "none":
        is_kept[:] = False
        is_kept[np.unique(hashes, return_index=True)[1]] = True
    sides = np.where(is_kept, np.uint8(_TRAIN), np.uint8(_DROP))
    if cleaning.eval_share:
        sides[is_kept & cleaning.is_held_out(hashes, random_seed)] = _EVAL
    return sides


def _write_kept(context: object, folder: WorkFolder, name: str, sides: bytes) -> dict:
    """Writes the documents of a task to a file for training and one for evaluation; counts all but the first."""
    source, counts = name.replace("kept", "documents"), {}
    index = _read_index(folder, source)
    for reason, side in (("exact_duplicates", _DROP), ("held_out", _EVAL)):
        chosen = index[np.frombuffer(sides, np.uint8) == side]
        numbers = (len(chosen), *chosen[:, 1:3].sum(axis=0).tolist())
        counts[reason] = dict(zip(_UNITS, numbers, strict=True))
    ends = index[:, 3].tolist()
    with (
        open(folder.file(f"{source}.text"), "rb") as text,
        folder.create(f"{name}.train") as train,
        folder.create(f"{name}.eval") as held_out,
    ):
        for side, start, end in zip(sides, [0, *ends], ends, strict=False):
            content = text.read(end - start)
            if side != _DROP:
                (train if side == _TRAIN else held_out).write(content)
    return folder.finish(name, {"counts": counts}, [train, held_out])


def _report(results: Iterable[dict], cleaning: Cleaning) -> dict[str, dict[str, int]]:
    """Returns the counts of all filters in use, also of those that removed nothing."""
    counts = collections.defaultdict(collections.Counter)
    for result in results:
        for reason, numbers in result["counts"].items():
            counts[reason].update(numbers)
    used = {
        "before": True,
        "short": cleaning.min_document_words,
        "exact_duplicates": cleaning.remove_duplicates != "none",
        "held_out": cleaning.eval_share,
    }
    return {name: {unit: counts[name][unit] for unit in _UNITS} for name, is_used in used.items() if is_used}
