"""Steps from documents to shuffled record files, each split into tasks for workers."""

import bisect
import collections
import dataclasses
import functools
import logging
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import NO_CLEANING, Cleaning
from bert_keras.data_prep.corpus.checks import check_documents
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.tokenized_corpus import open_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining.instances import (
    Instance,
    PretrainingDataSettings,
    count_instance,
    instances_of_document,
)
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary, Stream
from bert_keras.data_prep.pretraining.shuffling import (
    MOST_RUNS,
    RUN_BYTES,
    RunWriter,
    files_of_runs,
    merge_runs,
    read_shuffled,
)
from bert_keras.data_prep.records.tfrecord_format import compressing
from bert_keras.data_prep.records.writing import metadata_file, serialize_example
from bert_keras.data_prep.text.chinese_words import CorpusTokenizer, Segmenter, WordMarker, check_words
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.storage import paths
from bert_keras.storage.inspection import FileForm

log = logging.getLogger("bert_keras")

NUM_SHOWN = 3
_LABELS = {
    "next_sentence": ("actual next", "random next"),
    "sentence_order": ("in order", "exchanged"),
    "none": ("one segment",),
}
_LISTS, _LONGEST_LIST = ("input_file", "output_file", "eval_output_file"), 1000  # flags, and characters
_TASKS = 64
_FEWEST_TOKENS, _MOST_TOKENS = 1 << 16, 1 << 22  # per task
_INSTANCES_BETWEEN_RELEASES = 4096


class Tools(NamedTuple):
    """Objects that every process needs."""

    tokenizer: CorpusTokenizer
    vocabulary: MaskingVocabulary
    settings: PretrainingDataSettings

    @classmethod
    def of(cls, tokenizer: FullTokenizer, settings: PretrainingDataSettings) -> "Tools":
        """Returns the tools for some settings; raises an error if the vocabulary or the Chinese words are unusable."""
        vocabulary = MaskingVocabulary.from_vocab(tokenizer.vocab)
        if settings.chinese_words == "none":
            return cls(tokenizer, vocabulary, settings)
        return cls(WordMarker(tokenizer, Segmenter(settings.chinese_words)), vocabulary, settings)


def check_corpus(
    documents: Documents, texts: Sequence[FileForm], tools: Tools, folder: str, text_options: TextOptions
) -> None:
    """Raises UnusableTextError for unusable documents, and warns about others; see `check_documents`."""
    check_documents(documents, [text.file for text in texts], tools.settings, folder, text_options.split_sentences)
    try:
        check_words(documents.tokens, tools.tokenizer)
    except ValueError as error:
        raise UnusableTextError(str(error)) from None


@dataclasses.dataclass(frozen=True)
class Build:
    """A build whose arguments are checked; `folder` is the local folder for unfinished work."""

    texts: list[FileForm]
    output_files: list[str]
    is_gzip: bool
    folder: str
    tools: Tools
    metadata: dict
    progress: Progress
    text_options: TextOptions = RELEASE
    cleaning: Cleaning = NO_CLEANING
    eval_files: list[str] = dataclasses.field(default_factory=list)

    def per_file(self, summaries: Sequence[dict]) -> list[dict]:
        """Returns the metadata of each output, from the summaries of both parts; only one has long lists of files."""
        counts = (len(self.output_files), len(self.eval_files))
        each = [summary for summary, count in zip(summaries, counts, strict=False) for _ in range(count)]
        settings, first = self.metadata["settings"], paths.name(metadata_file(self.output_files[0]))
        short = {name: f"see {first}" for name in _LISTS if len(settings.get(name) or "") > _LONGEST_LIST}
        others = {**self.metadata, "settings": settings | short}
        return [{**(others if number else self.metadata), "summary": summary} for number, summary in enumerate(each)]


def with_eval(summaries: Sequence[dict]) -> dict:
    """Returns the summary of the training part, with that of the held-out part as "eval" if there is one."""
    return summaries[0] | ({"eval": summaries[1]} if len(summaries) > 1 else {})


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
    build: Build, documents: Documents, workers: Workers, folder: WorkFolder, counts: collections.Counter
) -> list[tuple[str, int]]:
    """Makes the examples of all duplicates, counts them, and returns (name, bytes) of each run."""
    num_duplicates = build.tools.settings.dupe_factor
    tasks = {
        f"examples-{duplicate:04}-{first:010}": (duplicate, first, end)
        for duplicate in range(num_duplicates)
        for first, end in _cut(documents, num_duplicates)
    }
    build.progress.start("building instances", len(documents) * num_duplicates, "documents")
    runs, shown = [], []
    for name, result in workers.run(_draw_task, folder, tasks):
        counts.update(result["counts"])
        runs += [tuple(run) for run in result["runs"]]
        shown = shown or result["shown"]
        build.progress.advance(tasks[name][2] - tasks[name][1])
    build.progress.finish()
    for number, instance in enumerate(shown):
        show(number, Instance(*instance), build.tools)
    # Sorted, so that the order of examples with equal keys does not depend on which task finished first.
    return sorted(runs)


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
