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
import tempfile
from collections.abc import Callable, Sequence
from typing import NamedTuple

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.corpus.checks import check_documents, size_text, tell_need, tell_room
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining import build_steps
from bert_keras.data_prep.pretraining.build_steps import BuildingTools
from bert_keras.data_prep.pretraining.summary import Summary
from bert_keras.data_prep.records.writing import cannot_write, create_folders, missing_folders, publish, remove_empty
from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")

_VERSION = 2  # format of a work folder; a build does not continue from another version
_BYTES_OF_CORPUS = 1.2  # per byte of text: tokens and sentence starts, stored twice while the chunks are joined


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
    """Builds pre-training examples with several processes; expects checked arguments.

    Unfinished work is in hidden files: a folder in `work_dir`, and record files next to local outputs. After a failure
    with at least one finished task they stay, and the same call continues from there. They are removed after success,
    and if the text can never be used.

    Args:
        input_files, output_files, is_gzip, progress, work_dir: see `build_pretraining_data`.
        tools: tokenizer, masking vocabulary and settings.
        start_workers: function from the tools to `Workers` or a compatible object.
        metadata: written next to every file, with the summary added.

    Returns:
        The summary; see `Summary.as_dict`.

    Raises:
        UnusableTextError: the text cannot be used.
        ValueError: another process builds the same files, or the workers cannot start.
        OSError: reading or writing failed, for example on a full disk, or a worker died.
    """
    build = _Build.planned(input_files, output_files, is_gzip, metadata, work_dir)
    workers = start_workers(tools)  # before creating anything, because a package may be missing
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
                log.warning("finished work is kept in %s; run the same command to continue, or delete it", build.path)
            else:
                build.remove()
                remove_empty(new_folders)
            if isinstance(error, OSError) and error.errno in writing.FULL:
                raise cannot_write(f'in "{os.path.dirname(build.path)}"', error) from error
            raise
    build.remove()
    return result


class _Build(NamedTuple):
    """File locations of a build; `partials` are the names of `files` until all are complete."""

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
        """Removes everything except the finished record files."""
        for partial in self.partials:
            for file in glob.glob(glob.escape(os.path.join(self.path, partial)) + "*"):
                paths.remove(file)
        try:
            paths.remove_dir(self.path)
        except OSError as error:
            log.warning("%s is not needed any longer, but cannot be removed: %s", self.path, error.strerror)


def work_folder(output_file: str, work_dir: str | None) -> str:
    """Returns the folder for unfinished work: `work_dir`, else that of a local output, else a temporary folder."""
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
        # Some file systems require closed memory maps before the folder is removed.
        stack.callback(build_steps.close_corpus)
        with workers:
            num_bytes = sum(map(paths.size, input_files))
            if folder.result("corpus") is None:
                what = f"{size_text(num_bytes)} of text"
                tell_need(_BYTES_OF_CORPUS * num_bytes, os.path.dirname(folder.path), what)
            documents, num_unknown = tokenize_corpus(
                input_files, tools.tokenizer, settings.strict_utf8, workers, folder, progress
            )
            stack.callback(documents.close)
            check_documents(documents, input_files, settings)
            tell_room(documents, settings, os.path.dirname(folder.path), num_copies=2)
            summary = Summary.of_documents(documents, num_unknown)
            runs = build_steps.draw_all(documents, tools, workers, folder, summary, progress)
            result = summary.as_dict(settings.max_seq_length)
            runs = build_steps.merge_all(runs, workers, folder, progress)
            counts = build_steps.write_all(build.partials, build.is_gzip, runs, summary, workers, folder, progress)
    publish(build.files, [folder.file(partial) for partial in build.partials], counts, {**metadata, "summary": result})
    return result


def _hidden(file: str, digest: str, ending: str) -> str:
    folder, name = os.path.split(file)
    return os.path.join(folder, f".{name}.{digest}.{ending}")


def _tell_what_is_left(build: _Build) -> None:
    """Logs what earlier builds of the same files left; never deletes the work of another build."""
    folder, name = os.path.split(build.path)
    digest = name.split(".")[-2]
    left = glob.glob(os.path.join(glob.escape(folder), glob.escape(name).replace(digest, "*")))
    if build.path in left:
        log.info("continuing from the finished work in %s; checking it first", build.path)
    elif os.path.dirname(build.files[0]) != folder:
        log.info("unfinished work is in %s", build.path)
    others = sorted(set(left) - {build.path})
    if others:
        log.warning("%s: left by a build with other text or settings; delete it if not needed", ", ".join(others))
