"""The tasks that turn documents into shuffled record files, which workers run.

One process draws the examples like the original BERT, from one random generator. With more, each document of each
duplicate has its own random stream, and each example a random key. The tasks do not depend on the number of processes.
"""

import bisect
import collections
import contextlib
import functools
import itertools
import random
from array import array
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.tokenized_corpus import open_corpus
from bert_keras.data_prep.corpus.workers import Work, WorkFolder
from bert_keras.data_prep.pretraining.instances import Instance, count_instance, draw_document, draw_instances
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, shuffle
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.shuffling import RUN_BYTES, RunWriter, read_shuffled, write_ranks
from bert_keras.data_prep.records.tfrecord_format import compressing, frame
from bert_keras.data_prep.records.writing import serialize_example
from bert_keras.data_prep.text.chinese_words import CorpusTokenizer

_NUM_SHOWN = 3
_TASKS = 64
_FEWEST_TOKENS, _MOST_TOKENS = 1 << 16, 1 << 22  # per task
_INSTANCES_BETWEEN_RELEASES = 4096
_INSTANCES_AT_ONCE = 1024


class Tools(NamedTuple):
    """Objects that every process needs."""

    tokenizer: CorpusTokenizer
    vocabulary: MaskingVocabulary
    settings: PretrainingDataSettings


def draw_all(
    documents: Documents, tools: Tools, work: Work, num_files: int, is_release_order: bool
) -> tuple[list[tuple[str, int]], collections.Counter, list[Instance]]:
    """Makes the examples of all duplicates.

    Returns (name, bytes) of each run, the counts of the examples, and the first ones.
    """
    num_duplicates, counts = tools.settings.dupe_factor, collections.Counter()
    tasks: dict[str, Any] = {
        f"examples-{duplicate:04}-{first:010}": (duplicate, first, end)
        for duplicate in range(num_duplicates)
        for first, end in _cut(documents, num_duplicates)
    }
    draw, sizes = _draw_task, {name: end - first for name, (_, first, end) in tasks.items()}
    if is_release_order:
        draw, tasks = functools.partial(_draw_in_order, work.progress), {"examples": num_files}
        sizes = {"examples": len(documents) * num_duplicates}
    runs, first_instances = [], []
    for _, result in work.run(draw, tasks, "building instances", sizes, "documents"):
        counts.update(result["counts"])
        runs += [tuple(run) for run in result["runs"]]
        first_instances = first_instances or result["shown"]
    # Sorted, so that the order of examples with equal keys does not depend on which task finished first.
    return sorted(runs), counts, [Instance(*instance) for instance in first_instances]


def _draw_in_order(progress: Progress, tools: Tools, folder: WorkFolder, name: str, num_files: int) -> dict:
    """Makes all examples with one random generator, and gives them the places that it draws, like the original BERT.

    The records are in the order in which they were drawn; the index leads to them in that of the files.
    """
    settings, counts, first_instances = tools.settings, collections.Counter(), []
    rng, ends = random.Random(settings.random_seed), array("Q", [0])
    with (
        contextlib.closing(open_corpus(folder, tools.tokenizer.vocab_size)) as documents,
        folder.create(f"{name}.records") as records,
    ):
        instances = draw_instances(documents, settings, tools.vocabulary, rng, progress)
        while batch := list(itertools.islice(instances, _INSTANCES_AT_ONCE)):
            framed = list(frame([serialize_example(instance.features(settings)) for instance in batch]))
            ends.extend(itertools.accumulate(map(len, framed), initial=ends.pop()))
            records.writelines(framed)
            for instance in batch:
                count_instance(counts, instance)
            first_instances = first_instances or batch[:_NUM_SHOWN]
            documents.release()
    order = array("Q", range(len(ends) - 1))
    shuffle(order, rng)
    with folder.create(f"{name}.index") as index:
        write_ranks(index, np.asarray(order), np.asarray(ends), num_files)
    result = {"counts": counts, "runs": [(name, records.num_bytes)], "shown": first_instances}
    return folder.finish(name, result, [records, index])


def _cut(documents: Documents, num_duplicates: int) -> list[tuple[int, int]]:
    """Cuts the documents into tasks of similar numbers of tokens: [first, end) of each."""
    num_tokens = len(documents.tokens)
    size = min(_MOST_TOKENS, max(_FEWEST_TOKENS, num_tokens * num_duplicates // _TASKS))
    sentences = (bisect.bisect_left(documents.sentence_starts, place) for place in range(0, num_tokens, size))
    firsts = [bisect.bisect_left(documents.document_starts, sentence) for sentence in sentences]
    bounds = sorted({*firsts, len(documents)})
    return list(zip(bounds, bounds[1:], strict=False))


def _draw_task(tools: Tools, folder: WorkFolder, name: str, task: tuple[int, int, int]) -> dict:
    duplicate, first, end = task
    settings, counts, first_instances, runs = tools.settings, collections.Counter(), [], RunWriter(folder, name)
    with contextlib.closing(open_corpus(folder, tools.tokenizer.vocab_size)) as documents:
        for index in range(first, end):
            for key, instance in draw_document(documents, index, duplicate, settings, tools.vocabulary):
                runs.write(key, serialize_example(instance.features(settings)))
                count_instance(counts, instance)
                if counts["instances"] <= _NUM_SHOWN and not duplicate and not first:
                    first_instances.append(instance)
                if not counts["instances"] % _INSTANCES_BETWEEN_RELEASES:
                    documents.release()
    runs.close()
    return folder.finish(name, {"counts": counts, "runs": runs.runs, "shown": first_instances}, runs.files)


def write_all(runs: Sequence[tuple[str, int]], work: Work, num_files: int, is_gzip: bool) -> dict[str, int]:
    """Writes the examples of the runs to record files in the work folder; returns the number of records by path."""
    num_parts = 1 + sum(num_bytes for _, num_bytes in runs) // (num_files * RUN_BYTES)
    tasks = {
        f"shard-{number:05}": (is_gzip, [run for run, _ in runs], number, num_files, num_parts)
        for number in range(num_files)
    }
    results = dict(work.run(_write_task, tasks, "writing", dict.fromkeys(tasks, 1), "files"))
    return {work.folder.file(f"{name}.records"): results[name]["num_records"] for name in tasks}


def _write_task(tools: Tools, folder: WorkFolder, name: str, task: tuple) -> dict:
    is_gzip, runs, *share = task
    num_records = 0
    with folder.create(f"{name}.records") as noted, compressing(noted, is_gzip) as file:
        for _, framed in read_shuffled([folder.file(run) for run in runs], *share):
            file.writelines(framed)
            num_records += len(framed)
    return folder.finish(name, {"num_records": num_records}, [noted])
