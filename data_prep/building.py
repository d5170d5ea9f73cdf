"""Pre-training examples built by several processes, the same files whatever their number.

Text becomes documents on disk (`data_prep.corpus`); documents become examples, each document of each pass with a random
stream of its own; examples are shuffled into the record files by random keys (`data_prep.record_shuffle`). Every step
is cut into tasks, in the same way for any number of processes, and a task that is finished is never done again.
"""

import bisect
import contextlib
import functools
import glob
import hashlib
import json
import logging
import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from data_prep.corpus import open_corpus, tokenize_corpus
from data_prep.documents import Documents
from data_prep.instances import Instance, PretrainingDataSettings, instances_of_document
from data_prep.masking import MaskingVocabulary, Stream
from data_prep.progress import Progress
from data_prep.record_shuffle import RUN_BYTES, RunWriter, read_shuffled
from data_prep.records import create_folder, missing_folders, publish, remove_empty, serialize_example
from data_prep.summary import Summary
from data_prep.tfrecords import TFRecordFile
from data_prep.workers import Workers, WorkFolder

log = logging.getLogger("bert_keras")

NUM_SHOWN = 3
_LABELS = {
    "next_sentence": ("actual next", "random next"),
    "sentence_order": ("in order", "exchanged"),
    "none": ("one segment",),
}
_VERSION = 1  # of what a work folder holds; a new one makes all of it anew
_TASKS = 64
_FEWEST_TOKENS, _MOST_TOKENS = 1 << 16, 1 << 22  # of a task
_INSTANCES_BETWEEN_RELEASES = 4096


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
) -> dict:
    """Builds pre-training examples with several processes; the arguments have been checked.

    What is unfinished lies in hidden files beside the outputs. After a failure it stays, and the same call goes on from
    there.

    Args:
        input_files, output_files, is_gzip, progress: as of `build_pretraining_data`.
        tools: see there.
        start_workers: starts those who do the work, given the tools: `Workers`, or something that acts like them.
        metadata: is written beside every file, with the summary added.

    Returns:
        The summary: see `Summary.as_dict`.

    Raises:
        ValueError: the text cannot serve.
        OSError: writing failed, as on a full disk, or a worker died.
    """
    files = [os.path.realpath(file) for file in output_files]
    made_from = [[os.path.realpath(file), os.path.getsize(file), os.stat(file).st_mtime_ns] for file in input_files]
    content = json.dumps([_VERSION, metadata, made_from, files, is_gzip])
    digest = hashlib.sha256(content.encode("utf-8")).hexdigest()[:12]
    new_folders = missing_folders(files)
    for file in files:
        create_folder(os.path.dirname(file))
    path = _hidden(files[0], digest, "unfinished")
    _tell_what_is_left(files[0], path)
    partials = [_hidden(file, digest, "partial") for file in files]
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(WorkFolder(path))
        try:
            with start_workers(tools) as workers:
                documents, num_unknown = tokenize_corpus(
                    input_files, tools.tokenizer, tools.settings.strict_utf8, workers, folder, progress
                )
                check_documents(documents, input_files)
                summary = Summary.of_documents(documents, num_unknown)
                _draw_all(documents, tools, workers, folder, summary, progress)
                counts = _write_all(partials, is_gzip, summary, workers, folder, progress)
            result = summary.as_dict(tools.settings.max_seq_length)
            publish(files, partials, counts, {**metadata, "summary": result})
        except ValueError:
            stack.close()
            shutil.rmtree(path)
            for partial in filter(os.path.exists, partials):
                os.remove(partial)
            remove_empty(new_folders)
            raise
        except BaseException as error:
            log.warning("what is finished is kept in %s: the same command goes on from there; else delete it", path)
            if isinstance(error, OSError) and error.strerror:
                place = os.path.dirname(path)
                raise OSError(f'cannot write in "{place}": {error.strerror}; it needs room there') from error
            raise
    shutil.rmtree(path)
    return result


def check_documents(documents: Documents, input_files: Sequence[str]) -> None:
    """Refuses a corpus without documents, warns of a corpus of one, and says what was read.

    Raises:
        ValueError: there is no document.
    """
    if not documents:
        raise ValueError(
            f"no document was found in {', '.join(input_files)}; the text needs one sentence a line and a blank line "
            "after each document"
        )
    log.info(
        "read %s documents, %s sentences, %s tokens from %d files",
        *(f"{count:,}" for count in (len(documents), documents.num_sentences, len(documents.tokens))),
        len(input_files),
    )
    if len(documents) == 1:
        log.warning(
            "the text is a single document, so that random next sentences come from it as well, as in the release: "
            "next-sentence prediction cannot be learnt from it; put a blank line after each document"
        )


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


def _tell_what_is_left(file: str, path: str) -> None:
    """Says what earlier builds of a file have left; what this one does not go on with is for the user to decide."""
    left = glob.glob(_hidden(glob.escape(file), "*", "unfinished"))
    if path in left:
        log.info("going on with what is finished in %s", path)
    others = sorted(set(left) - {path})
    if others:
        log.warning("%s: left by a build of other text or settings; delete it if it is not wanted", ", ".join(others))


def _draw_all(
    documents: Documents,
    tools: BuildingTools,
    workers: Workers,
    folder: WorkFolder,
    summary: Summary,
    progress: Progress,
) -> None:
    """Makes the examples of all passes, in runs that lie in the folder, and adds them to the summary."""
    num_passes = tools.settings.dupe_factor
    tasks = {
        f"examples-{number_of_pass:04}-{first:010}": (number_of_pass, first, end)
        for number_of_pass in range(num_passes)
        for first, end in _cut(documents, num_passes)
    }
    progress.start("building instances", len(documents) * num_passes, "documents")
    runs, num_bytes, shown = [], 0, []
    for name, result in workers.run(_draw_task, folder, tasks):
        summary.add_counts(result["counts"])
        runs += [f"{name}.{number}" for number in range(len(result["run_sizes"]))]
        num_bytes += sum(result["run_sizes"])
        shown = shown or result["shown"]
        progress.advance(tasks[name][2] - tasks[name][1])
    progress.finish()
    for number, instance in enumerate(shown):
        show(number, Instance(*instance), tools)
    # Sorted, so that two examples with the same key come in the same order whatever was finished first.
    folder.finish("examples", {"runs": sorted(runs), "num_bytes": num_bytes})


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
    runs, summary, shown = RunWriter(folder.file(name)), Summary(), []
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
    return folder.finish(name, {"counts": summary.counts(), "run_sizes": runs.sizes, "shown": shown})


@functools.lru_cache(maxsize=1)
def _opened(path: str, vocab_size: int) -> Documents:
    return open_corpus(WorkFolder(path), vocab_size)


def _write_all(
    partials: Sequence[str], is_gzip: bool, summary: Summary, workers: Workers, folder: WorkFolder, progress: Progress
) -> list[int]:
    """Writes the record files and returns how many records each holds."""
    tasks = {f"shard-{number:05}": (number, partial, len(partials), is_gzip) for number, partial in enumerate(partials)}
    for name, (_, partial, *_) in tasks.items():
        if not os.path.exists(partial):
            folder.forget(name)
    progress.start("writing", summary.num_instances, "instances")
    counts = {}
    for name, result in workers.run(_write_task, folder, tasks):
        counts[name] = result["num_records"]
        progress.advance(counts[name])
    progress.finish()
    return [counts[name] for name in tasks]


def _write_task(tools: BuildingTools, folder: WorkFolder, name: str, task: tuple) -> dict:
    number, partial, num_shards, is_gzip = task
    examples = folder.result("examples")
    runs = [folder.file(run) for run in examples["runs"]]
    num_parts = 1 + examples["num_bytes"] // (num_shards * RUN_BYTES)
    num_records = 0
    with contextlib.closing(TFRecordFile(partial, is_gzip)) as file:
        for framed in read_shuffled(runs, number, num_shards, num_parts):
            file.write(framed)
            num_records += len(framed)
    return folder.finish(name, {"num_records": num_records})
