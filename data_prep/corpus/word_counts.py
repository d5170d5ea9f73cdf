"""Counts the words of text files, also with several processes."""

import collections
import dataclasses
import functools
import logging
from collections.abc import Iterator, Mapping, Sequence

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_lines import Dropped, pieces_of, read_lines, text_warnings
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.tokenized_corpus import Chunk, cut
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, WorkFolder, temporary_work
from bert_keras.data_prep.text.splitting import BasicTokenizer
from bert_keras.storage.inspection import FileForm

log = logging.getLogger("bert_keras")

_MOST_WORDS = 2_000_000  # maximum number of different words to count


def count_words(
    forms: Sequence[FileForm],
    tokenizer: BasicTokenizer,
    num_workers: int = 1,
    strict_utf8: bool = False,
    progress: Progress | None = None,
    options: TextOptions = RELEASE,
) -> collections.Counter:
    """Counts the words of inspected text files, local or remote, compressed or not.

    The number of workers does not change the counts. Beyond `_MOST_WORDS` different words, rare ones are dropped with a
    warning. With `strict_utf8`, text that is not UTF-8 raises an error instead of losing the invalid bytes.
    """
    progress = progress or Progress()
    counts, dropped, rare = collections.Counter(), Dropped(), 0
    start = ThisProcess if num_workers == 1 else functools.partial(Workers, num_workers)
    with temporary_work(None) as folder, start(tokenizer) as workers:
        chunks = cut(local_texts(forms, folder, workers.run, progress, options))
        tasks = {name: (parts, strict_utf8) for name, parts in chunks.items()}
        progress.start("reading", sum(chunk.size for parts in chunks.values() for chunk in parts), "bytes")
        for name, result in _in_order(workers.run(_count_task, folder, tasks), tasks):
            counts.update(result["words"])
            dropped.add(Dropped(**result["dropped"]))
            if strict_utf8:
                dropped.refuse_invalid()
            lowest = 0
            while len(counts) > _MOST_WORDS:
                lowest += 1
                counts = collections.Counter({word: count for word, count in counts.items() if count > lowest})
            rare = max(rare, lowest)
            progress.advance(sum(chunk.size for chunk in chunks[name]))
        progress.finish()
        for warning in text_warnings(dropped, []):
            log.warning(warning)
    if rare:
        log.warning("more than %d different words; dropped those found at most %d times so far", _MOST_WORDS, rare)
    if not counts:
        raise ValueError(f"no word was found in {', '.join(form.file for form in forms)}; give text")
    return counts


def _in_order(results: Iterator[tuple[str, dict]], names: Mapping) -> Iterator[tuple[str, dict]]:
    """Yields results in the order of `names`, because dropping rare words depends on the order."""
    early = {}
    for name in names:
        while name not in early:
            early.update([next(results)])
        yield name, early.pop(name)


def _count_task(tokenizer: BasicTokenizer, folder: WorkFolder, name: str, task: tuple[list[Chunk], bool]) -> dict:
    chunks, strict_utf8 = task
    pieces, words, dropped = collections.Counter(), collections.Counter(), Dropped()
    for chunk in chunks:
        for _, line in read_lines(chunk.file, dropped, strict_utf8, chunk.start, chunk.end):
            for part in pieces_of(line):
                pieces.update(part.split(" "))
    for piece, count in pieces.items():
        for word in tokenizer.tokenize(piece):
            words[word] += count
    return {"words": words, "dropped": dataclasses.asdict(dropped)}
