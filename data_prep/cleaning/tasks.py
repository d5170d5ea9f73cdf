"""The tasks of cleaning texts, which workers run.

A task has the documents that start in its chunk of text. The chunks do not depend on the number of processes.
"""

import collections
import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from bert_keras.data_prep.cleaning.filters import Cleaning
from bert_keras.data_prep.corpus.text_lines import Chunk, Dropped, TextFile, noting_mistakes, read_lines
from bert_keras.data_prep.corpus.workers import WorkFolder
from bert_keras.data_prep.text.same_text import hash_of

DROP, TRAIN, EVAL = range(3)  # the side of a document


class Task(NamedTuple):
    """Consecutive chunks of the texts, and how to clean them."""

    chunks: list[Chunk]
    strict_utf8: bool
    cleaning: Cleaning


def _documents_of(folder: WorkFolder, task: Task, dropped: Dropped) -> Iterator[list[str]]:
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
def clean_documents(context: object, folder: WorkFolder, name: str, task: Task) -> dict:
    """Writes the documents that stay: their text, and an index.

    The index has the hash, lines, characters and last byte of each document, uint64 [documents, 4].
    """
    dropped, counts, index = Dropped(), collections.defaultdict(collections.Counter), []
    with folder.create(f"{name}.text") as text:
        for lines in _documents_of(folder, task, dropped):
            _add(counts["before"], lines)
            if task.cleaning.is_short(lines):
                _add(counts["short"], lines)
                continue
            text.write("".join(f"{line}\n" for line in [*lines, ""]).encode())
            index.append((hash_of(lines), len(lines), sum(map(len, lines)), text.num_bytes))
    with folder.create(f"{name}.index") as file:
        file.write(np.array(index, np.uint64).ravel())
    return folder.finish(name, {"counts": counts, "dropped": vars(dropped)}, [text, file])


def _add(counts: collections.Counter, lines: list[str]) -> None:
    counts.update(documents=1, lines=len(lines), characters=sum(map(len, lines)))


def write_kept(context: object, folder: WorkFolder, name: str, sides: bytes) -> dict:
    """Writes the documents of a chunk to one file for each side."""
    source = folder.file(name.replace("kept-", "documents-"))
    ends = np.fromfile(f"{source}.index", np.uint64).reshape(-1, 4)[:, 3].tolist()
    with (
        open(f"{source}.text", "rb") as text,
        folder.create(f"{name}.train") as train,
        folder.create(f"{name}.eval") as held_out,
    ):
        for side, start, end in zip(sides, [0, *ends], ends, strict=False):
            content = text.read(end - start)
            if side != DROP:
                (train if side == TRAIN else held_out).write(content)
    return folder.finish(name, {}, [train, held_out])
