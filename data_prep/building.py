"""Pre-training examples built by several processes, the same files whatever their number.

Text becomes documents on disk (`data_prep.corpus`); documents become examples, each document of each pass with its own
random stream; examples are shuffled into the record files by random keys (`data_prep.record_shuffle`). Every step is
cut into tasks, in the same way for any number of processes. The note of a finished task is in the work folder, so that
a build that was interrupted continues there.
"""

import bisect
import contextlib
import functools
import glob
import hashlib
import json
import logging
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from data_prep.corpus import open_corpus, tokenize_corpus
from data_prep.corpus_checks import check_documents, tell_need, tell_room
from data_prep.documents import Documents
from data_prep.instances import Instance, PretrainingDataSettings, instances_of_document
from data_prep.masking import MaskingVocabulary, Stream
from data_prep.progress import Progress
from data_prep.record_shuffle import MOST_RUNS, RUN_BYTES, RunWriter, files_of_run, merge_runs, read_shuffled
from data_prep.records import (
    cannot_write,
    create_folders,
    missing_folders,
    publish,
    remove_empty,
    serialize_example,
)
from data_prep.summary import Summary
from data_prep.text_lines import UnusableTextError
from data_prep.tfrecords import TFRecordFile
from data_prep.workers import Workers, WorkFolder
from storage import paths, writing

log = logging.getLogger("bert_keras")

NUM_SHOWN = 3
_LABELS = {
    "next_sentence": ("actual next", "random next"),
    "sentence_order": ("in order", "exchanged"),
    "none": ("one segment",),
}
_VERSION = 2  # of what a work folder holds; a build does not continue from another one
_TASKS = 64
_FEWEST_TOKENS, _MOST_TOKENS = 1 << 16, 1 << 22  # of a task
_INSTANCES_BETWEEN_RELEASES = 4096
_BYTES_OF_CORPUS = 1.2  # for a byte of text: its tokens and where sentences start, twice while they are joined


class BuildingTools(NamedTuple):
    """What every process needs."""

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
    """Makes the instances of one document in one pass from a random stream of its own.

    Args:
        documents: all documents, in the order of the text.
        index: which document.
        number_of_pass: from 0.
        tools: see there.

    Yields:
        A random key, from 0 to 2**64 - 1, by which instances are put into their final order; the instance.
    """
    rng = Stream(f"{tools.settings.random_seed} {number_of_pass} {index}")
    for instance in instances_of_document(documents, index, tools.settings, tools.vocabulary, rng):
        yield rng.getrandbits(64), instance


def build_with_workers(
    input_files: Sequence[str],
    output_files: Sequence[str],
    tools: BuildingTools,
    start_workers: Callable[[BuildingTools], Workers],
    is_gzip: bool,
    metadata: dict,
    progress: Progress,
    work_dir: str | None = None,
) -> dict:
    """Builds pre-training examples with several processes; the arguments have been checked.

    Unfinished work is in hidden files: a folder in `work_dir`, and record files next to local outputs. After a failure
    they stay, and the same call continues from there. They are removed after success, and where the text can never be
    used.

    Args:
        input_files, output_files, is_gzip, progress, work_dir: as of `build_pretraining_data`.
        tools: see there.
        start_workers: starts those who do the work, given the tools: `Workers`, or something that acts like them.
        metadata: is written beside every file, with the summary added.

    Returns:
        The summary: see `Summary.as_dict`.

    Raises:
        UnusableTextError: the text cannot serve.
        OSError: reading or writing failed, as on a full disk, or a worker died.
    """
    build = _Build.planned(input_files, output_files, is_gzip, metadata, work_dir)
    workers = start_workers(tools)  # before anything is created, since a package may be missing
    new_folders = missing_folders([*build.files, build.path])
    create_folders([*build.files, build.path])
    _tell_what_is_left(build)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(WorkFolder(build.path))
        try:
            result = _run(build, tools, workers, folder, input_files, metadata, progress)
        except BaseException as error:
            is_kept = folder.has_results and not isinstance(error, UnusableTextError)
            stack.close()
            if is_kept:
                log.warning(
                    "finished work is kept in %s: the same command continues from there; else delete it", build.path
                )
            else:
                build.remove()
                remove_empty(new_folders)
            if isinstance(error, OSError) and error.errno in writing.FULL:
                raise cannot_write(f'in "{os.path.dirname(build.path)}"', error) from error
            raise
    build.remove()
    return result


class _Build(NamedTuple):
    """Where a build puts its files.

    Attributes:
        path: the work folder.
        files: the record files.
        partials: what they are called until all are complete: an absolute path, or a name in the work folder.
        is_gzip: whether they are compressed.
    """

    path: str
    files: list[str]
    partials: list[str]
    is_gzip: bool

    @classmethod
    def planned(cls, input_files, output_files, is_gzip, metadata, work_dir) -> "_Build":
        files = [paths.real(file) for file in output_files]
        made_from = [[paths.real(file), paths.size(file), paths.modified(file)] for file in input_files]
        content = json.dumps([_VERSION, metadata, made_from, files, is_gzip])
        digest = hashlib.sha256(content.encode("utf-8")).hexdigest()[:12]
        path = _hidden(os.path.join(work_folder(files[0], work_dir), paths.name(files[0])), digest, "unfinished")
        partials = [
            f"shard-{number:05}.records" if paths.is_remote(file) else _hidden(file, digest, "partial")
            for number, file in enumerate(files)
        ]
        return cls(path, files, partials, is_gzip)

    def remove(self) -> None:
        """Removes all but the finished record files."""
        for partial in self.partials:
            for file in glob.glob(glob.escape(os.path.join(self.path, partial)) + "*"):
                paths.remove(file)
        try:
            paths.remove_dir(self.path)
        except OSError as error:
            log.warning("%s is not needed any longer, but cannot be removed: %s", self.path, error.strerror)


def work_folder(output_file: str, work_dir: str | None) -> str:
    """Returns the local folder for unfinished work: the one given, or that of the output, or one of the system."""
    if work_dir:
        return os.path.realpath(work_dir)
    return tempfile.gettempdir() if paths.is_remote(output_file) else os.path.dirname(os.path.realpath(output_file))


def _run(
    build: _Build,
    tools: BuildingTools,
    workers: Workers,
    folder: WorkFolder,
    input_files: Sequence[str],
    metadata: dict,
    progress: Progress,
) -> dict:
    """Builds the examples in the work folder and publishes them; returns the summary."""
    settings = tools.settings
    with contextlib.ExitStack() as stack:
        # Memory maps are closed before the folder is removed, which some file systems require.
        stack.callback(_opened.cache_clear)
        with workers:
            num_bytes = sum(map(paths.size, input_files))
            if folder.result("corpus") is None:
                what = f"{num_bytes / 1e9:,.2f} GB of text"
                tell_need(_BYTES_OF_CORPUS * num_bytes, os.path.dirname(folder.path), what)
            documents, num_unknown = tokenize_corpus(
                input_files, tools.tokenizer, settings.strict_utf8, workers, folder, progress
            )
            stack.callback(documents.close)
            check_documents(documents, input_files, settings)
            tell_room(documents, settings, os.path.dirname(folder.path), num_copies=2)
            summary = Summary.of_documents(documents, num_unknown)
            runs = _draw_all(documents, tools, workers, folder, summary, progress)
            result = summary.as_dict(settings.max_seq_length)
            runs = _merge_all(runs, workers, folder, progress)
            counts = _write_all(build, runs, summary, workers, folder, progress)
    publish(build.files, [folder.file(partial) for partial in build.partials], counts, {**metadata, "summary": result})
    return result


def show(number: int, instance: Instance, tools: BuildingTools) -> None:
    """Writes an instance to the log."""
    tokens = tools.tokenizer.convert_ids_to_tokens(instance.tokens)
    labels = tools.tokenizer.convert_ids_to_tokens(instance.masked_lm_ids)
    log.info(
        "instance %d, %s: %s\n  masked: %s",
        number + 1,
        _LABELS[tools.settings.sentence_task][instance.is_random_next],
        " ".join(tokens),
        ", ".join(f"{position} {label}" for position, label in zip(instance.masked_lm_positions, labels, strict=True))
        or "when it is read",
    )


def _hidden(file: str, digest: str, ending: str) -> str:
    folder, name = os.path.split(file)
    return os.path.join(folder, f".{name}.{digest}.{ending}")


def _tell_what_is_left(build: _Build) -> None:
    """Says what earlier builds of the files have left; the user decides about what this one does not continue."""
    folder, name = os.path.split(build.path)
    digest = name.split(".")[-2]
    left = glob.glob(os.path.join(glob.escape(folder), glob.escape(name).replace(digest, "*")))
    if build.path in left:
        log.info("continuing from what is finished in %s", build.path)
    elif os.path.dirname(build.files[0]) != folder:
        log.info("unfinished work is in %s", build.path)
    others = sorted(set(left) - {build.path})
    if others:
        log.warning("%s: left by a build of other text or settings; delete it if it is not wanted", ", ".join(others))


def _draw_all(
    documents: Documents,
    tools: BuildingTools,
    workers: Workers,
    folder: WorkFolder,
    summary: Summary,
    progress: Progress,
) -> list[tuple[str, int]]:
    """Makes the examples of all passes, adds them to the summary, and returns their runs with the bytes of each."""
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
    # Sorted, so that two examples with the same key come in the same order whatever was finished first.
    return sorted(runs)


def _merge_all(
    runs: list[tuple[str, int]], workers: Workers, folder: WorkFolder, progress: Progress
) -> list[tuple[str, int]]:
    """Merges runs that follow each other until there are few enough to be read at the same time; returns those."""
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


def _cut(documents: Documents, num_passes: int) -> list[tuple[int, int]]:
    """Cuts the documents into tasks of about equally many tokens: [first, end) of each."""
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


def _write_all(
    build: _Build,
    runs: list[tuple[str, int]],
    summary: Summary,
    workers: Workers,
    folder: WorkFolder,
    progress: Progress,
) -> list[int]:
    """Writes the record files and returns how many records each holds."""
    num_shards = len(build.partials)
    num_parts = 1 + sum(num_bytes for _, num_bytes in runs) // (num_shards * RUN_BYTES)
    tasks = {
        f"shard-{number:05}": (partial, build.is_gzip, [run for run, _ in runs], number, num_shards, num_parts)
        for number, partial in enumerate(build.partials)
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
