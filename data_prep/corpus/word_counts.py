"""Counts the words of text files, also with several processes."""

import collections
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_lines import (
    Chunk,
    Dropped,
    cut,
    noting_mistakes,
    pieces_of,
    read_lines,
    text_warnings,
)
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, Workers, WorkFolder, temporary_work
from bert_keras.data_prep.text.same_text import hash_of
from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.storage.inspection import FileForm

log = logging.getLogger("bert_keras")

_MOST_WORDS = 2_000_000  # maximum number of different words to count
_LINES_PER_HELD_OUT = 10


class Words(NamedTuple):
    """The number of occurrences of each word.

    Attributes:
        all: in all lines.
        held_out: in about every tenth line, chosen by the hash of its text.
    """

    all: collections.Counter
    held_out: collections.Counter


def count_words(
    forms: Sequence[FileForm],
    tokenizer: BasicTokenizer,
    num_workers: int = 1,
    strict_utf8: bool = False,
    progress: Progress | None = None,
    options: TextOptions = RELEASE,
) -> Words:
    """Counts the words of inspected text files, local or remote, compressed or not.

    The number of workers does not change the counts. Beyond `_MOST_WORDS` different words, rare ones are dropped with a
    warning. With `strict_utf8`, text that is not UTF-8 raises an error instead of losing the invalid bytes.
    """
    words, dropped, rare = Words(collections.Counter(), collections.Counter()), Dropped(), 0
    start = ThisProcess if num_workers == 1 else functools.partial(Workers, num_workers)
    with temporary_work(None) as folder, start(tokenizer) as workers:
        work = Work(workers, folder, progress or Progress())
        chunks, sizes = cut(local_texts(forms, work, options))
        tasks = {name: (parts, strict_utf8) for name, parts in chunks.items()}
        for result in _in_order(work.run(_count_task, tasks, "reading", sizes), tasks):
            for counts, found in zip(words, result["words"], strict=True):
                counts.update(found)
            dropped.add(Dropped(**result["dropped"]))
            for counts in words:
                rare = max(rare, _drop_rare(counts))
        for warning in text_warnings(dropped, []):
            log.warning(warning)
    if rare:
        log.warning("more than %d different words; dropped those found at most %d times so far", _MOST_WORDS, rare)
    if not words.all:
        raise Mistake("no word was found in {}; give text", ", ".join(form.file for form in forms))
    return words


def _drop_rare(counts: collections.Counter) -> int:
    """Drops the rarest words if there are too many; returns the largest count of a dropped word, or 0."""
    lowest = 0
    while len(counts) > _MOST_WORDS:
        lowest += 1
        for word in [word for word, count in counts.items() if count <= lowest]:
            del counts[word]
    return lowest


def _in_order(results: Iterator[tuple[str, dict]], names: Mapping) -> Iterator[dict]:
    """Yields results in the order of `names`, because dropping rare words depends on the order."""
    early, waiting = {}, collections.deque(names)
    for name, result in results:
        early[name] = result
        while waiting and waiting[0] in early:
            yield early.pop(waiting.popleft())


@noting_mistakes
def _count_task(tokenizer: BasicTokenizer, folder: WorkFolder, name: str, task: tuple[list[Chunk], bool]) -> dict:
    chunks, strict_utf8 = task
    dropped = Dropped()
    texts = Words(collections.Counter(), collections.Counter())  # what is between white space
    for line in read_lines(chunks, dropped, strict_utf8):
        is_held_out = hash_of([line]) % _LINES_PER_HELD_OUT == 0
        for part in pieces_of(line):
            texts.all.update(part.split(" "))
            if is_held_out:
                texts.held_out.update(part.split(" "))
    words = Words(collections.Counter(), collections.Counter())
    for text, count in texts.all.items():
        for word in tokenizer.tokenize(text):
            words.all[word] += count
            if text in texts.held_out:
                words.held_out[word] += texts.held_out[text]
    return {"words": words, "dropped": dataclasses.asdict(dropped)}
