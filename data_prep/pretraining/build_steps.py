"""Steps from documents to shuffled record files, each split into tasks for workers."""

import bisect
import contextlib
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.tokenized_corpus import open_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining.instances import Instance, PretrainingDataSettings, instances_of_document
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, Stream
from bert_keras.data_prep.pretraining.shuffling import (
    MOST_RUNS,
    RUN_BYTES,
    RunWriter,
    files_of_run,
    merge_runs,
    read_shuffled,
)
from bert_keras.data_prep.pretraining.summary import Summary
from bert_keras.data_prep.records.tfrecord_format import TFRecordFile
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


class BuildingTools(NamedTuple):
    """Objects that every process needs."""

    tokenizer: object
    vocabulary: MaskingVocabulary
    settings: PretrainingDataSettings

    @property
    def vocab_size(self) -> int:
        """int; every id is below it."""
        return max(self.tokenizer.vocab.values()) + 1


def draw_document(
    documents: Documents, index: int, number_of_pass: int, tools: BuildingTools
) -> Iterator[tuple[int, Instance]]:
    """Makes the instances of one document for one duplicate, from a separate random stream.

    Args:
        documents: all documents, in the order of the text.
        index: index of the document.
        number_of_pass: index of the duplicate, from 0.
        tools: tokenizer, masking vocabulary and settings.

    Yields:
        A random sort key from 0 to 2**64 - 1, and the instance.
    """
    rng = Stream(f"{tools.settings.random_seed} {number_of_pass} {index}")
    for instance in instances_of_document(documents, index, tools.settings, tools.vocabulary, rng):
        yield rng.getrandbits(64), instance


def show(number: int, instance: Instance, tools: BuildingTools) -> None:
    """Logs an instance."""
    tokens = tools.tokenizer.convert_ids_to_tokens(instance.tokens)
    labels = tools.tokenizer.convert_ids_to_tokens(instance.masked_lm_ids)
    log.info(
        "instance %d, %s: %s\n  masked: %s",
        number + 1,
        _LABELS[tools.settings.sentence_task][instance.is_random_next],
        " ".join(tokens),
        ", ".join(f"{position} {label}" for position, label in zip(instance.masked_lm_positions, labels, strict=True))
        or "during training",
    )


def draw_all(
    documents: Documents,
    tools: BuildingTools,
    workers: Workers,
    folder: WorkFolder,
    summary: Summary,
    progress: Progress,
) -> list[tuple[str, int]]:
    """Makes the examples of all duplicates, adds them to the summary, and returns (name, bytes) of each run."""
    num_passes = tools.settings.dupe_factor
    tasks = {
        f"examples-{number_of_pass:04}-{first:010}": (number_of_pass, first, end)
        for number_of_pass in range(num_passes)
        for first, end in _cut(documents, num_passes)
    }
    progress.start("building instances", len(documents) * num_passes, "documents")
    runs, shown = [], []
    for name, result in workers.run(_draw_task, folder, tasks):
        summary.add_counts(result["counts"])
        runs += [tuple(run) for run in result["runs"]]
        shown = shown or result["shown"]
        progress.advance(tasks[name][2] - tasks[name][1])
    progress.finish()
    for number, instance in enumerate(shown):
        show(number, Instance(*instance), tools)
    # Sorted, so that the order of examples with equal keys does not depend on which task finished first.
    return sorted(runs)


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
            for run in tasks[name]:
                for file in files_of_run(run):
                    paths.remove(folder.file(file))
            progress.advance(sizes[name])
        progress.finish()
        runs = [(name, sizes[name]) for name in tasks]
    return runs


def _merge_task(tools: BuildingTools, folder: WorkFolder, name: str, runs: list[str]) -> dict:
    files = merge_runs(folder, name, runs)
    replaced = [file for run in runs for file in files_of_run(run)]
    return folder.finish(name, {"num_bytes": files[0].num_bytes}, files, replaced)


def close_corpus() -> None:
    """Closes the documents that tasks opened in this process."""
    _opened.cache_clear()


def _cut(documents: Documents, num_passes: int) -> list[tuple[int, int]]:
    """Cuts the documents into tasks of similar numbers of tokens: [first, end) of each."""
    num_tokens = len(documents.tokens)
    size = min(_MOST_TOKENS, max(_FEWEST_TOKENS, num_tokens * num_passes // _TASKS))
    sentences = (bisect.bisect_left(documents.sentence_starts, place) for place in range(0, num_tokens, size))
    firsts = [bisect.bisect_left(documents.document_starts, sentence) for sentence in sentences]
    bounds = sorted({*firsts, len(documents)})
    return list(zip(bounds, bounds[1:], strict=False))


def _draw_task(tools: BuildingTools, folder: WorkFolder, name: str, task: tuple) -> dict:
    number_of_pass, first, end = task
    settings, documents = tools.settings, _opened(folder.path, tools.vocab_size)
    runs, summary, shown = RunWriter(folder, name), Summary(), []
    for index in range(first, end):
        for key, instance in draw_document(documents, index, number_of_pass, tools):
            runs.write(key, serialize_example(instance.features(settings)))
            summary.add(instance)
            if summary.num_instances <= NUM_SHOWN and not number_of_pass and not first:
                shown.append(instance)
            if not summary.num_instances % _INSTANCES_BETWEEN_RELEASES:
                documents.release()
    runs.close()
    documents.release()
    named = list(zip(runs.runs, runs.sizes, strict=True))
    return folder.finish(name, {"counts": summary.counts(), "runs": named, "shown": shown}, runs.files)


@functools.lru_cache(maxsize=1)
def _opened(path: str, vocab_size: int) -> Documents:
    return open_corpus(WorkFolder(path), vocab_size)


def write_all(
    partials: Sequence[str],
    is_gzip: bool,
    runs: list[tuple[str, int]],
    summary: Summary,
    workers: Workers,
    folder: WorkFolder,
    progress: Progress,
) -> list[int]:
    """Writes the record files and returns the number of records in each."""
    num_shards = len(partials)
    num_parts = 1 + sum(num_bytes for _, num_bytes in runs) // (num_shards * RUN_BYTES)
    tasks = {
        f"shard-{number:05}": (partial, is_gzip, [run for run, _ in runs], number, num_shards, num_parts)
        for number, partial in enumerate(partials)
    }
    progress.start("writing", summary.num_instances, "instances")
    counts = {}
    for name, result in workers.run(_write_task, folder, tasks):
        counts[name] = result["num_records"]
        progress.advance(counts[name])
    progress.finish()
    return [counts[name] for name in tasks]


def _write_task(tools: BuildingTools, folder: WorkFolder, name: str, task: tuple) -> dict:
    partial, is_gzip, runs, *shares = task
    num_records = 0
    with folder.create(partial) as noted, contextlib.closing(TFRecordFile(noted, is_gzip)) as file:
        for _, framed in read_shuffled([folder.file(run) for run in runs], *shares):
            file.write(framed)
            num_records += len(framed)
    return folder.finish(name, {"num_records": num_records}, [noted])
