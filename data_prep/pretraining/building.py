"""Builds pre-training examples in a folder of unfinished work, so that an interrupted build continues.

1. `data_prep.corpus.tokenized_corpus` tokenizes the text into documents on disk.
2. `data_prep.pretraining.build_steps` makes the examples. One process draws them like the original BERT, from one
   random generator. With more, each document of each duplicate has its own random stream, and each example a random
   key.
3. `data_prep.pretraining.shuffling` puts the examples into the record files in the order of their places or keys.

The split of a step into tasks does not depend on the number of processes. The work folder has a note for each finished
task.
"""

import contextlib
import glob
import hashlib
import json
import logging
import os
from collections.abc import Sequence

from bert_keras.data_prep.cleaning.text_cleaning import tokenize_clean
from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.text_lines import UnusableTextError
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import Workers, WorkFolder
from bert_keras.data_prep.pretraining import build_steps
from bert_keras.data_prep.pretraining.corpus_checks import check_documents, size_text, tell_need
from bert_keras.data_prep.pretraining.estimates import tell_room
from bert_keras.data_prep.pretraining.instances import count_documents, summarize
from bert_keras.data_prep.pretraining.plan import Build
from bert_keras.data_prep.records.writing import code_digest, created_folders, publish
from bert_keras.data_prep.text.chinese_words import check_words
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, writing

log = logging.getLogger("bert_keras")

_BYTES_OF_CORPUS = 1.2  # per byte of text: tokens and sentence starts, stored twice while the chunks are joined


def build_in_folder(build: Build) -> dict:
    """Builds pre-training examples, and returns the summary.

    Unfinished work is in a hidden folder in `build.folder`. After a failure with at least one finished task it stays,
    and the same call continues from there. It is removed after success, and if the text can never be used.
    """
    workers = build.start()  # before creating anything, because a package may be missing
    files = [paths.real(file) for file in [*build.output_files, *build.eval_files]]
    work_dir = _find_work_dir(build, files)
    with writing.named(build.folder), created_folders([*files, work_dir]), WorkFolder(work_dir) as folder:
        try:
            result = _run(build, files, workers, folder)
        except BaseException as error:
            if folder.has_results and not isinstance(error, UnusableTextError):
                log.warning("finished work is kept in %s; run the same command to continue, or delete it", work_dir)
            else:
                folder.delete()
            raise
        folder.delete()
    return result


def _find_work_dir(build: Build, files: Sequence[str]) -> str:
    """Returns the folder for unfinished work, and logs what earlier builds of the same files left.

    Never deletes the work of another build.
    """
    made_from = [[paths.real(text.file), text.size, paths.modified(text.file)] for text in build.texts]
    # Random replacements follow the order of the vocabulary's lines, which differs from that of ids if lines repeat.
    order = [*build.tokenizer.vocab.values()]
    content = json.dumps([code_digest(), build.metadata, made_from, files, order])
    digest, prefix = hashlib.sha256(content.encode("utf-8")).hexdigest()[:12], f".{paths.name(files[0])}."
    work_dir = os.path.join(build.folder, f"{prefix}{digest}.unfinished")
    writing.remove_left_over(build.folder, prefix)
    left = glob.glob(os.path.join(glob.escape(build.folder), f"{glob.escape(prefix)}*.unfinished"))
    if work_dir in left:
        log.info("continuing from the finished work in %s; checking it first", work_dir)
    elif os.path.dirname(files[0]) != build.folder:
        log.info("unfinished work is in %s", work_dir)
    if others := sorted(set(left) - {work_dir}):
        log.warning("%s: left by a build with other text, settings or code; delete it if not needed", ", ".join(others))
    return work_dir


def _run(build: Build, files: Sequence[str], workers: Workers, folder: WorkFolder) -> dict:
    """Builds the examples in the work folder and publishes them; returns the summary."""
    summaries, records = [], {}
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
            corpora, report = tokenize(build, workers, folders)
            for documents, _ in corpora:
                stack.callback(documents.close)
            for corpus, part, outputs in zip(corpora, folders, (build.output_files, build.eval_files), strict=False):
                summary, written = _write_part(build, corpus, workers, part, [paths.real(file) for file in outputs])
                summaries.append(summary | report)
                records |= written
    publish(files, list(records), list(records.values()), build.per_file(summaries))
    return summaries[0] | ({"eval": summaries[1]} if build.eval_files else {})


def tokenize(build: Build, workers: Workers, folders: Sequence[WorkFolder]) -> tuple[list[tuple[Documents, int]], dict]:
    """Returns documents and number of unknown tokens of each part, and the report of the cleaning if there is one."""
    progress, shared = build.progress, (build.tools.tokenizer, build.settings.strict_utf8, workers)
    if not build.cleaning.is_needed:
        return [tokenize_corpus(build.texts, *shared, folders[0], progress, build.text_options)], {}
    return tokenize_clean(build.texts, *shared, folders, progress, build.text_options, build.seeded_cleaning)


def check_corpus(documents: Documents, build: Build) -> None:
    """Raises UnusableTextError for unusable documents, and warns about others; see `check_documents`."""
    check_documents(documents, build.input_files, build.settings, build.text_options.split_sentences)
    try:
        check_words(documents.tokens, build.tools.tokenizer)
    except Mistake as error:
        raise UnusableTextError("{}", error) from None


def _write_part(
    build: Build, corpus: tuple[Documents, int], workers: Workers, folder: WorkFolder, files: Sequence[str]
) -> tuple[dict, dict[str, int]]:
    """Writes the examples of some documents to files of the folder; returns the summary and the records in each."""
    documents, num_unknown = corpus
    check_corpus(documents, build)
    tell_room(documents, build, files)
    counts = count_documents(documents, num_unknown)
    runs = build_steps.draw_all(build, documents, workers, folder, counts, len(files))
    result = summarize(counts, build.settings.max_seq_length)
    runs = build_steps.merge_all(runs, workers, folder, build.progress)
    return result, build_steps.write_all(build, len(files), runs, workers, folder, counts["num_instances"])
