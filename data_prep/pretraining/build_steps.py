"""Steps from documents to shuffled record files, each split into tasks for workers."""

import bisect
import collections
import contextlib
import functools
import itertools
import logging
import random
from array import array
from collections.abc import Iterator
from typing import Any

import numpy as np

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.tokenized_corpus import open_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining.instances import Instance, count_instance, instances_of_document
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, Stream, shuffle
from bert_keras.data_prep.pretraining.plan import Build, Tools
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.shuffling import (
    MOST_RUNS,
    RUN_BYTES,
    RunWriter,
    files_of_runs,
    merge_runs,
    read_shuffled,
    write_ranks,
)
from bert_keras.data_prep.records.tfrecord_format import compressing, frame
from bert_keras.data_prep.records.writing import serialize_example
from bert_keras.storage import paths

log = logging.getLogger("bert_keras")

NUM_SHOWN = 3
_LABELS = {
    "next_sentence": ("actual next", "random next"),
    "sentence_order": ("in order", "exchanged"),
    "none": ("one segment",),
}
_TASKS = 64
_FEWEST_TOKENS, _MOST_TOKENS = 1 << 16, 1 << 22  # per task
_INSTANCES_BETWEEN_RELEASES = 4096
_INSTANCES_AT_ONCE = 1024


def draw_document(documents: Documents, index: int, duplicate: int, tools: Tools) -> Iterator[tuple[int, Instance]]:
    """Yields the instances of one document for one duplicate, from a separate random stream.

    Each comes with a random sort key from 0 to 2**64 - 1.
    """
    rng = Stream(f"{tools.settings.random_seed} {duplicate} {index}")
    for instance in instances_of_document(documents, index, tools.settings, tools.vocabulary, rng):
        yield rng.getrandbits(64), instance


def show(number: int, instance: Instance, tools: Tools) -> None:
    """Logs an instance."""
    tokens = tools.tokenizer.convert_ids_to_tokens(instance.tokens)
    labels = tools.tokenizer.convert_ids_to_tokens(instance.masked_lm_ids)
    masked = [f"{position} {label}" for position, label in zip(instance.masked_lm_positions, labels, strict=True)]
    log.info(
        "instance %d, %s: %s\n  masked: %s",
        number + 1,
        _LABELS[tools.settings.sentence_task][instance.is_random_next],
        " ".join(tokens),
        ", ".join(masked) or "during training",
    )


def draw_all(
    build: Build,
    documents: Documents,
    workers: Workers,
    folder: WorkFolder,
    counts: collections.Counter,
    num_files: int,
) -> list[tuple[str, int]]:
    """Makes the examples of all duplicates, counts them, and returns (name, bytes) of each run."""
    num_duplicates, progress = build.settings.dupe_factor, build.progress
    tasks: dict[str, Any] = {"examples": num_files}
    if build.is_release_order:
        draw = functools.partial(_draw_in_order, progress)
    else:
        draw = _draw_task
        tasks = {
            f"examples-{duplicate:04}-{first:010}": (duplicate, first, end)
            for duplicate in range(num_duplicates)
            for first, end in _cut(documents, num_duplicates)
        }
    progress.start("building instances", len(documents) * num_duplicates, "documents")
    runs, shown = [], []
    for name, result in workers.run(draw, folder, tasks):
        counts.update(result["counts"])
        runs += [tuple(run) for run in result["runs"]]
        shown = shown or result["shown"]
        if not build.is_release_order:
            progress.advance(tasks[name][2] - tasks[name][1])
    progress.finish()
    for number, instance in enumerate(shown):
        show(number, Instance(*instance), build.tools)
    # Sorted, so that the order of examples with equal keys does not depend on which task finished first.
    return sorted(runs)


def draw_instances(
    documents: Documents,
    settings: PretrainingDataSettings,
    vocabulary: MaskingVocabulary,
    rng: random.Random,
    progress: Progress | None = None,
) -> Iterator[Instance]:
    """Shuffles the documents in place and yields the instances of all duplicates, which are not shuffled.

    They are those of the original BERT. `progress` has been started, and advances by a document.
    """
    documents.order = array("Q", documents.order)
    shuffle(documents.order, rng)
    for _ in range(settings.dupe_factor):
        for index in range(len(documents)):
            yield from instances_of_document(documents, index, settings, vocabulary, rng)
            if progress:
                progress.advance()


def _draw_in_order(progress: Progress, tools: Tools, folder: WorkFolder, name: str, num_files: int) -> dict:
    """Makes all examples with one random generator, and gives them the places that it draws, like the original BERT.

    The records are in the order in which they were drawn; the index leads to them in that of the files.
    """
    documents, settings = open_corpus(folder, tools.tokenizer.vocab_size), tools.settings
    rng, counts, shown, ends = random.Random(settings.random_seed), collections.Counter(), [], array("Q", [0])
    with contextlib.closing(documents), folder.create(f"{name}.records") as records:
        instances = draw_instances(documents, settings, tools.vocabulary, rng, progress)
        while batch := list(itertools.islice(instances, _INSTANCES_AT_ONCE)):
            framed = list(frame([serialize_example(instance.features(settings)) for instance in batch]))
            ends.extend(itertools.accumulate(map(len, framed), initial=ends.pop()))
            records.writelines(framed)
            for instance in batch:
                count_instance(counts, instance)
            shown = shown or batch[:NUM_SHOWN]
            documents.release()
    order = array("Q", range(len(ends) - 1))
    shuffle(order, rng)
    with folder.create(f"{name}.index") as index:
        write_ranks(index, np.asarray(order), np.asarray(ends), num_files)
    result = {"counts": counts, "runs": [(name, records.num_bytes)], "shown": shown}
    return folder.finish(name, result, [records, index])


def _cut(documents: Documents, num_duplicates: int) -> list[tuple[int, int]]:
    """Cuts the documents into tasks of similar numbers of tokens: [first, end) of each."""
    num_tokens = len(documents.tokens)
    size = min(_MOST_TOKENS, max(_FEWEST_TOKENS, num_tokens * num_duplicates // _TASKS))
    sentences = (bisect.bisect_left(documents.sentence_starts, place) for place in range(0, num_tokens, size))
    firsts = [bisect.bisect_left(documents.document_starts, sentence) for sentence in sentences]
    bounds = sorted({*firsts, len(documents)})
    return list(zip(bounds, bounds[1:], strict=False))


def _draw_task(tools: Tools, folder: WorkFolder, name: str, task: tuple) -> dict:
    duplicate, first, end = task
    documents = _opened(folder.path, tools.tokenizer.vocab_size)
    runs, counts, shown = RunWriter(folder, name), collections.Counter(), []
    for index in range(first, end):
        for key, instance in draw_document(documents, index, duplicate, tools):
            runs.write(key, serialize_example(instance.features(tools.settings)))
            count_instance(counts, instance)
            if counts["num_instances"] <= NUM_SHOWN and not duplicate and not first:
                shown.append(instance)
            if not counts["num_instances"] % _INSTANCES_BETWEEN_RELEASES:
                documents.release()
    runs.close()
    documents.release()
    named = list(zip(runs.runs, runs.sizes, strict=True))
    return folder.finish(name, {"counts": counts, "runs": named, "shown": shown}, runs.files)


@functools.lru_cache(maxsize=1)
def _opened(path: str, vocab_size: int) -> Documents:
    return open_corpus(WorkFolder(path), vocab_size)


def close_corpus() -> None:
    """Closes the documents that tasks opened in this process."""
    _opened.cache_clear()


def merge_all(
    runs: list[tuple[str, int]], workers: Workers, folder: WorkFolder, progress: Progress
) -> list[tuple[str, int]]:
    """Merges consecutive runs until at most `MOST_RUNS` are left, and returns these."""
    level = 0
    while len(runs) > MOST_RUNS:
        level += 1
        groups = [runs[first : first + MOST_RUNS] for first in range(0, len(runs), MOST_RUNS)]
        tasks = {f"merged-{level}-{number:06}": [run for run, _ in group] for number, group in enumerate(groups)}
        progress.start("sorting", sum(num_bytes for _, num_bytes in runs), "bytes")
        sizes = {}
        for name, result in workers.run(_merge_task, folder, tasks):
            sizes[name] = result["num_bytes"]
            for file in files_of_runs(tasks[name]):
                paths.remove(folder.file(file))
            progress.advance(sizes[name])
        progress.finish()
        runs = [(name, sizes[name]) for name in tasks]
    return runs


def _merge_task(tools: Tools, folder: WorkFolder, name: str, runs: list[str]) -> dict:
    files = merge_runs(folder, name, runs)
    return folder.finish(name, {"num_bytes": files[0].num_bytes}, files, replaces=files_of_runs(runs))


def write_all(
    build: Build, num_shards: int, runs: list[tuple[str, int]], workers: Workers, folder: WorkFolder, total: int
) -> dict[str, int]:
    """Writes the `total` examples to record files in the folder; returns the number of records by path."""
    num_parts = 1 + sum(num_bytes for _, num_bytes in runs) // (num_shards * RUN_BYTES)
    tasks = {
        f"shard-{number:05}": (build.is_gzip, [run for run, _ in runs], number, num_shards, num_parts)
        for number in range(num_shards)
    }
    build.progress.start("writing", total, "instances")
    counts = {}
    for name, result in workers.run(_write_task, folder, tasks):
        counts[name] = result["num_records"]
        build.progress.advance(counts[name])
    build.progress.finish()
    return {folder.file(f"{name}.records"): counts[name] for name in tasks}


def _write_task(tools: Tools, folder: WorkFolder, name: str, task: tuple) -> dict:
    is_gzip, runs, shard, num_shards, num_parts = task
    num_records = 0
    with folder.create(f"{name}.records") as noted, compressing(noted, is_gzip) as file:
        for _, framed in read_shuffled([folder.file(run) for run in runs], shard, num_shards, num_parts):
            file.writelines(framed)
            num_records += len(framed)
    return folder.finish(name, {"num_records": num_records}, [noted])
