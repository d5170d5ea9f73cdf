"""Builds record files of pre-training examples from text files (create_pretraining_data in the original BERT).

1. `data_prep.corpus.tokenized_corpus` tokenizes the text into documents on disk.
2. `data_prep.pretraining.tasks` draws the examples, and writes them in the order in which they were drawn.
3. `data_prep.pretraining.shuffling` leads each example to its place in the record files.

The same settings give the same examples in the same order and files as the original BERT. Differs in memory use:
documents and examples are on disk, in a folder of unfinished work with a note for each finished task, so an interrupted
build continues.
"""

import contextlib
import dataclasses
import functools
import glob
import hashlib
import json
import logging
import numbers
import os
import tempfile
from collections.abc import Callable, Sequence
from typing import Any

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import NO_CLEANING, Cleaning, check_eval
from bert_keras.data_prep.cleaning.text_cleaning import clean_texts
from bert_keras.data_prep.corpus.documents import Documents, inspect_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_lines import TextFile, UnusableTextError
from bert_keras.data_prep.corpus.text_sources import local_texts
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_texts
from bert_keras.data_prep.corpus.workers import ThisProcess, Work, Workers, WorkFolder
from bert_keras.data_prep.pretraining.corpus_checks import (
    check_documents,
    size_text,
    tell_need,
    warn_about_casing,
    warn_about_predictions,
)
from bert_keras.data_prep.pretraining.estimates import tell_room
from bert_keras.data_prep.pretraining.instances import show, summarize
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.shuffling import merge_all
from bert_keras.data_prep.pretraining.tasks import Tools, draw_all, write_all
from bert_keras.data_prep.records.writing import (
    check_record_files,
    code_digest,
    created_folders,
    metadata_file,
    publish,
    tell_replaced,
)
from bert_keras.data_prep.text.chinese_words import Segmenter, WordMarker, check_words
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake
from bert_keras.storage import paths, writing
from bert_keras.storage.inspection import FileForm

log = logging.getLogger("bert_keras")

_BYTES_OF_CORPUS = 1.2  # per byte of text: tokens and sentence starts, stored twice while the chunks are joined
_LISTS, _LONGEST_LIST = ("input_file", "output_file", "eval_output_file"), 1000  # flags, and characters


@dataclasses.dataclass(frozen=True)
class Build:
    """Text files, and how to make record files of pre-training examples from them.

    Attributes:
        input_files: text with one sentence per line and a blank line after each document; UTF-8, or UTF-16 or UTF-32
            with a byte order mark. Also JSON lines, Parquet, Arrow and the output of WikiExtractor. Compressed (gzip,
            bzip2, xz, Zstandard), remote and converted files are copied to the folder of unfinished work first.
        output_files: TFRecord files, local or remote. With one worker, example j goes to file j modulo their number;
            with more, to a random file. NAME.json holds the metadata of the file NAME.
        tokenizer: makes the tokens.
        settings: settings of the examples.
        vocab_file: recorded in the metadata, and never overwritten.
        progress: reports the progress; by default, lines in the log.
        num_workers: number of processes. One gives the examples and order of the original BERT. With more, each
            document of each duplicate has its own random stream, so every number gives the same files.
        is_gzip: compresses the files.
        start_workers: starts other workers instead of `num_workers` processes, given the `Tools`.
        work_dir: local folder for unfinished work; None: the folder of the first output, or the system's temporary
            folder for a remote output.
        text_options: how to read the text, for example to split it into sentences.
        cleaning: what to remove from the text, and the share to hold out.
        eval_files: TFRecord files for the examples of the held-out share.
    """

    input_files: Sequence[str]
    output_files: Sequence[str]
    tokenizer: FullTokenizer
    settings: PretrainingDataSettings
    vocab_file: str | None = None
    progress: Progress = dataclasses.field(default_factory=Progress)
    num_workers: int = 1
    is_gzip: bool = False
    start_workers: Callable[["Tools"], Workers] | None = None
    work_dir: str | None = None
    text_options: TextOptions = RELEASE
    cleaning: Cleaning = NO_CLEANING
    eval_files: Sequence[str] = ()

    def __post_init__(self) -> None:
        for name in ("input_files", "output_files", "eval_files"):
            files = getattr(self, name)
            files = [files] if isinstance(files, str | os.PathLike) else files
            object.__setattr__(self, name, [paths.as_text(file) for file in files or ()])
        for name in ("vocab_file", "work_dir"):
            if getattr(self, name) is not None:
                object.__setattr__(self, name, paths.as_text(getattr(self, name)))
        if not isinstance(self.num_workers, numbers.Integral) or self.num_workers < 1:
            raise Mistake("{num_workers}={!r} is not a valid number of processes; give 1 or more", self.num_workers)

    @functools.cached_property
    def tools(self) -> Tools:
        """Raises an error if the vocabulary or the Chinese words are unusable."""
        vocabulary = MaskingVocabulary.from_vocab(self.tokenizer.vocab)
        if self.settings.chinese_words == "none":
            return Tools(self.tokenizer, vocabulary, self.settings)
        return Tools(WordMarker(self.tokenizer, Segmenter(self.settings.chinese_words)), vocabulary, self.settings)

    @functools.cached_property
    def texts(self) -> list[FileForm]:
        """The forms of the input files; raises ValueError if they are not usable."""
        return inspect_texts(self.input_files, self.text_options)

    @property
    def is_release_order(self) -> bool:
        """bool; whether the examples and their order are those of the original BERT."""
        return self.num_workers == 1 and self.start_workers is None

    @property
    def folder(self) -> str:
        """The local folder for unfinished work."""
        if self.work_dir:
            return os.path.realpath(self.work_dir)
        first = self.output_files[0]
        return tempfile.gettempdir() if paths.is_remote(first) else os.path.dirname(os.path.realpath(first))

    def start(self) -> Any:
        """Starts the `Workers`, or what replaces them."""
        if self.start_workers:
            return self.start_workers(self.tools)
        return ThisProcess(self.tools) if self.num_workers == 1 else Workers(self.num_workers, self.tools)

    @functools.cached_property
    def metadata(self) -> dict[str, Any]:
        """The metadata of the record files, without their examples."""
        tokenizer, settings, facts = self.tokenizer, self.settings, self.tokenizer.facts
        # No settings of text in the format of the original BERT.
        flags: dict[str, Any] = {
            "input_file": ",".join(self.input_files),
            "output_file": ",".join(self.output_files),
            "vocab_file": self.vocab_file,
            **(dataclasses.asdict(self.text_options) if self.text_options != RELEASE else {}),
            **self.cleaning.changes,
        }
        if self.is_gzip:
            flags["compression"] = "gzip"
        if self.eval_files:
            flags["eval_output_file"] = ",".join(self.eval_files)
        if isinstance(self.tools.tokenizer, WordMarker):
            flags["chinese_words_source"] = self.tools.tokenizer.segmenter.source
        flags |= {name: facts[name] for name in ("do_lower_case", "strip_accents")}
        masking = {
            **{f"{name}_id": tokenizer.vocab[f"[{name.upper()}]"] for name in ("cls", "sep", "mask")},
            "vocab_size": tokenizer.vocab_size,
            "masked_lm_prob": settings.masked_lm_prob,
        }
        return {
            "kind": "pretraining",
            "format_version": 1,
            "max_seq_length": settings.max_seq_length,
            "max_predictions_per_seq": settings.max_predictions_per_seq,
            "vocab_size": tokenizer.vocab_size,
            **facts,
            **({"masking": masking} if settings.dynamic_masking else {}),
            "order": "release" if self.is_release_order else "of two or more workers",
            "settings": {**flags, **dataclasses.asdict(settings)},
        }

    def metadata_of_files(self, summaries: Sequence[dict]) -> list[dict]:
        """Returns the metadata of each output, from the summaries of both parts; only one has long lists of files."""
        counts = (len(self.output_files), len(self.eval_files))
        copies = [summary for summary, count in zip(summaries, counts, strict=False) for _ in range(count)]
        settings, first = self.metadata["settings"], paths.name(metadata_file(self.output_files[0]))
        short = {name: f"see {first}" for name in _LISTS if len(settings.get(name) or "") > _LONGEST_LIST}
        others = {**self.metadata, "settings": settings | short}
        return [{**(others if number else self.metadata), "summary": summary} for number, summary in enumerate(copies)]


def build_pretraining_data(build: Build) -> dict:
    """Builds pre-training examples from text files.

    Unfinished work is in a hidden folder in `build.folder`. After a failure with at least one finished task it stays,
    and the same call continues from there. It is removed after success, and if the text can never be used.

    Returns:
        The summary; see `summarize`. Also "cleaning", the report, and "eval", the summary of the held-out part.

    Raises:
        FileNotFoundError, ValueError: the input, the outputs or the vocabulary are not usable.
        OSError: writing failed, for example on a full disk, or a worker died.
    """
    check_build(build)
    workers = build.start()  # before creating anything, because a package may be missing
    files = [paths.real(file) for file in [*build.output_files, *build.eval_files]]
    work_dir = _find_work_dir(build, files)
    with writing.named(build.folder), created_folders([*files, work_dir]), WorkFolder(work_dir) as folder:
        try:
            summaries = _build_files(build, workers, folder, files)
        except BaseException as error:
            if folder.has_results and not isinstance(error, UnusableTextError):
                log.warning("finished work is kept in %s; run the same command to continue, or delete it", work_dir)
            else:
                folder.delete()
            raise
        folder.delete()
    return summaries[0] | ({"eval": summaries[1]} if build.eval_files else {})


def check_build(build: Build, needs_outputs: bool = True) -> None:
    """Raises an error for settings or files that cannot be used, and warns about others."""
    all_files = [*build.output_files, *build.eval_files]
    tokenizer, inputs = build.tools.tokenizer, [text.file for text in build.texts]  # both are checked here
    if isinstance(tokenizer, WordMarker) and tokenizer.segmenter.method == "list":
        inputs.append(build.settings.chinese_words)
    if all_files or needs_outputs:
        check_eval(build.cleaning, build.eval_files)
        check_record_files(all_files, inputs, build.vocab_file)
    tell_replaced(all_files)
    warn_about_casing(build.tokenizer.vocab, build.tokenizer.basic_tokenizer.do_lower_case)
    warn_about_predictions(build.settings)


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


def _build_files(build: Build, workers: Workers, folder: WorkFolder, files: Sequence[str]) -> list[dict]:
    """Builds the examples in the work folder, and gives them their final names; returns the summary of each part."""
    summaries, records = [], {}
    # Some file systems require closed memory maps before the folder is removed.
    with workers, contextlib.ExitStack() as stack:
        if folder.result("corpus") is None:
            num_bytes = sum(text.size for text in build.texts)
            tell_need(_BYTES_OF_CORPUS * num_bytes, build.folder, f"{size_text(num_bytes)} of text")
        folders = [folder]
        if build.eval_files:
            folders.append(stack.enter_context(WorkFolder(folder.file("eval"))))
        works = [Work(workers, part, build.progress) for part in folders]
        corpora, report = tokenize(build, works)
        for documents, _ in corpora:
            stack.callback(documents.close)
        parts = zip(works, corpora, (build.output_files, build.eval_files), strict=False)
        for work, (documents, num_unknown), outputs in parts:
            check_corpus(documents, build)
            tell_room(documents, build.tools, build.is_gzip, build.folder, [paths.real(file) for file in outputs])
            runs, counts, first_instances = draw_all(documents, build.tools, work, len(outputs), build.is_release_order)
            for number, instance in enumerate(first_instances):
                show(number, instance, build.tools.tokenizer, build.settings.sentence_task)
            summaries.append(summarize(counts, documents, num_unknown, build.settings.max_seq_length) | report)
            runs = merge_all(runs, work)
            records |= write_all(runs, work, len(outputs), build.is_gzip)
    publish(files, list(records), list(records.values()), build.metadata_of_files(summaries))
    return summaries


def tokenize(build: Build, works: Sequence[Work]) -> tuple[list[tuple[Documents, int]], dict]:
    """Reads, cleans and tokenizes the text.

    Returns documents and number of `[UNK]` tokens of the training part and, if there is second work, of the held-out
    part; and {"cleaning": the report} with cleaning.
    """
    folder, cleaning, strict_utf8 = works[0].folder, build.cleaning, build.settings.strict_utf8

    @functools.cache
    def get_texts() -> Sequence[Sequence[TextFile]]:
        texts = local_texts(build.texts, works[0], build.text_options)
        if not cleaning.is_needed:
            return [texts]
        return clean_texts(texts, cleaning, build.settings.random_seed, strict_utf8, works[0])

    corpora = [
        tokenize_texts(lambda part=part: get_texts()[part], build.tools.tokenizer, strict_utf8, work)
        for part, work in enumerate(works)
    ]
    for prefix in ("lines-", "documents-", "kept-", "source-"):  # copies, which both parts may need until here
        folder.remove(prefix)
    return corpora, {"cleaning": folder.result("cleaned")} if cleaning.is_needed else {}


def check_corpus(documents: Documents, build: Build) -> None:
    """Raises UnusableTextError for unusable documents, and warns about others; see `check_documents`."""
    check_documents(documents, build.input_files, build.settings, build.text_options.split_sentences)
    try:
        check_words(documents.tokens, build.tools.tokenizer)
    except Mistake as error:
        raise UnusableTextError("{}", error) from None
