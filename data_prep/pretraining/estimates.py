"""Estimates, from a sample of documents, how many examples a text gives and how much disk they need."""

import dataclasses
import gzip
import itertools
import os
import random
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.pretraining.corpus_checks import tell_need
from bert_keras.data_prep.pretraining.instances import SENTENCE_TASKS, draw_document, draw_segments, stream_of
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.tasks import Tools
from bert_keras.data_prep.records.writing import serialize_example
from bert_keras.storage import paths

_MOST_PAIRS = 2000  # of a document in the sample
_MOST_EXAMPLES = 1000  # built to measure the size of a record
_FEW_DOCUMENTS = 200  # for the space that a build needs


class Use(NamedTuple):
    """What examples use of documents.

    Attributes:
        num_read: tokens read; a token counts once for each duplicate.
        num_pairs: pairs drawn from them.
        num_real: tokens of the pairs.
        num_unused: tokens of the start of documents that no pair has.
        num_seen: all tokens of these starts.
    """

    num_read: int
    num_pairs: int
    num_real: int
    num_unused: int
    num_seen: int


def sample_documents(documents: Documents, settings: PretrainingDataSettings, most: int) -> list[int]:
    """Returns the indices of at most so many documents."""
    if len(documents) <= most:
        return list(range(len(documents)))
    return random.Random(settings.random_seed).sample(range(len(documents)), most)


def use_of_documents(documents: Documents, sample: Sequence[int], settings: PretrainingDataSettings) -> Use:
    """Draws the pairs of a sample of documents."""
    uses = [_use_of_document(documents, index, settings) for index in sample]
    return Use(*(sum(numbers) for numbers in zip(*uses, strict=True)))


def _use_of_document(documents: Documents, index: int, settings: PretrainingDataSettings) -> Use:
    """Draws all duplicates of a document, of a long one only the start."""
    first, end = documents.sentences(index)
    start, stop = documents.sentence_starts[first], documents.sentence_starts[end]
    longest = min(stop - start, _MOST_PAIRS * settings.max_seq_length)
    is_used = np.zeros(longest, bool)
    num_read = num_pairs = num_real = 0
    num_special, _ = SENTENCE_TASKS[settings.sentence_task]
    reach = longest
    for duplicate in range(settings.dupe_factor):
        farthest, drawn = start, 0
        pairs = draw_segments(documents, index, settings, stream_of(index, duplicate, settings))
        for (a, b), second, label in itertools.islice(pairs, _MOST_PAIRS):
            spans = [(a, b)]
            if second and not (label and settings.sentence_task == "next_sentence"):
                spans.append(second)
            for low, high in spans:
                is_used[low - start : high - start] = True
                farthest = max(farthest, high)
            drawn += 1
            num_real += num_special + b - a + (second[1] - second[0] if second else 0)
        is_whole = drawn < _MOST_PAIRS
        num_read += stop - start if is_whole else farthest - start
        num_pairs += drawn
        reach = reach if is_whole else min(reach, farthest - start)
    return Use(num_read, num_pairs, num_real, reach - int(is_used[:reach].sum()), reach)


def size_of_records(documents: Documents, sample: Sequence[int], tools: Tools) -> tuple[float, float]:
    """Returns the mean number of bytes of a record of the first documents of a sample, also after compression."""
    records = (
        serialize_example(instance.features(tools.settings))
        for index in sample
        for _, instance in draw_document(documents, index, 0, tools.settings, tools.vocabulary)
    )
    built = list(itertools.islice(records, _MOST_EXAMPLES))
    content, number = b"".join(built), max(1, len(built))
    return len(content) / number, len(gzip.compress(content, 6)) / number


def tell_room(documents: Documents, tools: Tools, is_gzip: bool, work_place: str, files: Sequence[str]) -> None:
    """Logs the disk space that the examples need: in the place of unfinished work, and on other disks of the files."""
    settings = tools.settings
    sample = sample_documents(documents, settings, _FEW_DOCUMENTS)
    use = use_of_documents(documents, sample, dataclasses.replace(settings, dupe_factor=1))
    instances = settings.dupe_factor * len(documents.tokens) * use.num_pairs / max(1, use.num_read)
    plain, compressed = size_of_records(documents, sample, tools)
    stored = instances * (compressed if is_gzip else plain)
    what = f"about {instances:,.0f} examples"
    # Unfinished work has the examples, then their files, which move to their places on the same disk.
    tell_need(instances * plain + stored, work_place, what)
    others: dict[int, list[str]] = {}
    for folder in (paths.parent(file) for file in files if not paths.is_remote(file)):
        if (disk := os.stat(folder).st_dev) != os.stat(work_place).st_dev:
            others.setdefault(disk, []).append(folder)
    for folders in others.values():
        tell_need(stored * len(folders) / len(files), folders[0], what, "records need")
