"""Builds pre-training examples with several processes; the files do not depend on the number of processes.

1. `data_prep.corpus.tokenized_corpus` tokenizes the text into documents on disk.
2. `data_prep.pretraining.build_steps` makes the examples. Each document of each duplicate has its own random stream.
3. `data_prep.pretraining.shuffling` shuffles the examples into the record files by random keys.

The split of a step into tasks does not depend on the number of processes. The work folder has a note for each finished
task, so an interrupted build continues there.
"""

import contextlib
import glob
import hashlib
import json
import logging
import os
from collections.abc import Callable, Sequence

from bert_keras.data_prep.cleaning.text_cleaning import tokenize_clean
from bert_keras.data_prep.corpus.checks import size_text, tell_need
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining import build_steps
from bert_keras.data_prep.pretraining.build_steps import Build, Tools
from bert_keras.data_prep.pretraining.instances import count_documents, summarize
from bert_keras.data_prep.records.writing import cannot_write, create_folders, missing_folders, publish, remove_empty
from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")

_VERSION = 3  # format of a work folder; a build does not continue from another version
_BYTES_OF_CORPUS = 1.2  # per byte of text: tokens and sentence starts, stored twice while the chunks are joined


def build_with_workers(build: Build, start_workers: Callable[[Tools], Workers]) -> dict:
    """Builds pre-training examples with several processes, and returns the summary.

    Unfinished work is in hidden files: a folder in `build.folder`, and record files next to local outputs. After a
    failure with at least one finished task they stay, and the same call continues from there. They are removed after
    success, and if the text can never be used.
    """
    places = _Places(build)
    workers = start_workers(build.tools)  # before creating anything, because a package may be missing
    new_folders = missing_folders([*places.files, places.work_dir])
    create_folders([*places.files, places.work_dir])
    places.tell_what_is_left()
    with WorkFolder(places.work_dir) as folder:
        try:
            result = _run(build, places, workers, folder)
        except BaseException as error:
            if folder.has_results and not isinstance(error, UnusableTextError):
                log.warning(
                    "finished work is kept in %s; run the same command to continue, or delete it", places.work_dir
                )
            else:
                places.remove_unfinished(folder)
                remove_empty(new_folders)
            if isinstance(error, OSError) and error.errno in writing.FULL:
                raise cannot_write(f'in "{build.folder}"', error) from error
            raise
        places.remove_unfinished(folder)
    return result


class _Places:
    """File locations of a build: the work folder, and the record files under final and unfinished names."""

    def __init__(self, build: Build):
        self.files = [paths.real(file) for file in [*build.output_files, *build.eval_files]]
        made_from = [[paths.real(text.file), text.size, paths.modified(text.file)] for text in build.texts]
        content = json.dumps([_VERSION, build.metadata, made_from, self.files, build.is_gzip])
        digest = hashlib.sha256(content.encode("utf-8")).hexdigest()[:12]
        first = os.path.join(build.folder, paths.name(self.files[0]))
        self.work_dir = _hidden(first, digest, "unfinished")
        self._work_dirs_of_all_builds = _hidden(glob.escape(first), "*", "unfinished")
        self.partials = [
            f"shard-{number:05}.records" if paths.is_remote(file) else _hidden(file, digest, "partial")
            for number, file in enumerate(self.files)
        ]

    def tell_what_is_left(self) -> None:
        """Logs what earlier builds of the same files left; never deletes the work of another build."""
        left = glob.glob(self._work_dirs_of_all_builds)
        folder = os.path.dirname(self.work_dir)
        if self.work_dir in left:
            log.info("continuing from the finished work in %s; checking it first", self.work_dir)
        elif os.path.dirname(self.files[0]) != folder:
            log.info("unfinished work is in %s", self.work_dir)
        others = sorted(set(left) - {self.work_dir})
        if others:
            log.warning("%s: left by a build with other text or settings; delete it if not needed", ", ".join(others))

    def remove_unfinished(self, folder: WorkFolder) -> None:
        """Removes everything except the finished record files; `folder` is the locked work folder."""
        for partial in self.partials:
            for file in glob.glob(glob.escape(os.path.join(self.work_dir, partial)) + "*"):
                paths.remove(file)
        try:
            folder.delete()
        except OSError as error:
            where = error.filename or self.work_dir
            log.warning("%s is not needed any longer, but cannot be removed: %s", where, error.strerror)


def _hidden(file: str, digest: str, ending: str) -> str:
    folder, name = os.path.split(file)
    return os.path.join(folder, f".{name}.{digest}.{ending}")


def _run(build: Build, places: _Places, workers: Workers, folder: WorkFolder) -> dict:
    """Builds the examples in the work folder and publishes them; returns the summary."""
    num_files, summaries, partials, num_records = len(build.output_files), [], [], []
    with contextlib.ExitStack() as stack:
        # Some file systems require closed memory maps before the folder is removed.
        stack.callback(build_steps.close_corpus)
        with workers:
            if folder.result("corpus") is None:
                num_bytes = sum(text.size for text in build.texts)
                tell_need(_BYTES_OF_CORPUS * num_bytes, build.folder, f"{size_text(num_bytes)} of text")
            folders = [folder]
            if build.eval_files:
                folders.append(stack.enter_context(WorkFolder(folder.file("eval"))))
            corpora, report = _tokenize(build, workers, folders)
            for documents, _ in corpora:
                stack.callback(documents.close)
            files_of_parts = (places.partials[:num_files], places.partials[num_files:])
            for corpus, part, files in zip(corpora, folders, files_of_parts, strict=False):
                summary, counts = _write_part(build, corpus, workers, part, files)
                summaries.append(summary | report)
                partials += map(part.file, files)
                num_records += counts
    publish(places.files, partials, num_records, build.per_file(summaries))
    return build_steps.with_eval(summaries)


def _tokenize(
    build: Build, workers: Workers, folders: Sequence[WorkFolder]
) -> tuple[list[tuple[Documents, int]], dict]:
    """Returns documents and number of unknown tokens of each part, and the report of the cleaning if there is one."""
    tools, progress, [folder, *_] = build.tools, build.progress, folders
    shared = (tools.tokenizer, tools.settings.strict_utf8, workers)
    if not build.cleaning.is_needed:
        return [tokenize_corpus(build.texts, *shared, folder, progress, build.text_options)], {}
    return tokenize_clean(build.texts, *shared, folders, progress, build.text_options, build.cleaning)


def _write_part(
    build: Build, corpus: tuple[Documents, int], workers: Workers, folder: WorkFolder, partials: Sequence[str]
) -> tuple[dict, list[int]]:
    """Writes the examples of some documents to files; returns the summary and the number of records in each."""
    (documents, num_unknown), settings = corpus, build.tools.settings
    build_steps.check_corpus(documents, build.texts, build.tools, build.folder, build.text_options)
    counts = count_documents(documents, num_unknown)
    runs = build_steps.draw_all(build, documents, workers, folder, counts)
    result = summarize(counts, settings.max_seq_length)
    runs = build_steps.merge_all(runs, workers, folder, build.progress)
    return result, build_steps.write_all(build, partials, runs, workers, folder, counts["num_instances"])
