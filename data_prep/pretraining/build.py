"""Builds record files of pre-training examples from text files (create_pretraining_data in the original BERT).

The same settings give the same examples in the same order and files as the original BERT. Differs in memory use: token
ids are in flat arrays, and finished instances are on disk until they are written in shuffled order.
"""

import contextlib
import dataclasses
import functools
import itertools
import logging
import os
import random
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import NO_CLEANING, Cleaning, check_eval
from bert_keras.data_prep.cleaning.text_cleaning import clean_texts
from bert_keras.data_prep.corpus.documents import Documents, inspect_texts, read_texts
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.text_sources import opened_texts
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, temporary_work
from bert_keras.data_prep.pretraining.build_steps import NUM_SHOWN, Build, Tools, check_corpus, show, with_eval
from bert_keras.data_prep.pretraining.instances import (
    Instance,
    PretrainingDataSettings,
    count_documents,
    count_instance,
    instances_of_document,
    summarize,
)
from bert_keras.data_prep.pretraining.masking import MaskingVocabulary
from bert_keras.data_prep.pretraining.parallel_build import build_with_workers
from bert_keras.data_prep.pretraining.spill import InstanceSpill
from bert_keras.data_prep.records.writing import (
    RecordWriter,
    check_record_files,
    serialize_example,
    tell_replaced,
)
from bert_keras.data_prep.text.chinese_words import WordMarker, count_unknown
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.storage import paths
from bert_keras.storage.vocabulary import vocabulary_digest

log = logging.getLogger("bert_keras")


def build_pretraining_data(
    input_files: Sequence[str],
    output_files: Sequence[str],
    tokenizer: FullTokenizer,
    settings: PretrainingDataSettings,
    vocab_file: str | None = None,
    progress: Progress | None = None,
    num_workers: int = 1,
    is_gzip: bool = False,
    start_workers: Callable | None = None,
    work_dir: str | None = None,
    text_options: TextOptions = RELEASE,
    cleaning: Cleaning = NO_CLEANING,
    eval_files: Sequence[str] = (),
) -> dict:
    """Builds pre-training examples from text files.

    Args:
        input_files: text with one sentence per line and a blank line after each document; UTF-8, or UTF-16 or UTF-32
            with a byte order mark. Also JSON lines, Parquet, Arrow and the output of WikiExtractor. Compressed (gzip,
            bzip2, xz, Zstandard), remote and converted files are copied to `work_dir` first.
        output_files: TFRecord files, local or remote. With one worker, example j goes to file j modulo their number;
            with more, to a random file. NAME.json holds the metadata of the file NAME.
        tokenizer: makes the tokens.
        settings: settings of the examples.
        vocab_file: recorded in the metadata, and never overwritten.
        progress: reports the progress; None: lines in the log.
        num_workers: number of processes. One gives the examples and order of the original BERT. With more, each
            document of each duplicate has its own random stream, so every number gives the same files.
        is_gzip: compresses the files.
        start_workers: starts other workers instead of `num_workers` processes; see `build_with_workers`.
        work_dir: local folder for unfinished work; None: the folder of the first output, or the system's temporary
            folder for a remote output.
        text_options: how to read the text, for example to split it into sentences.
        cleaning: what to remove from the text, and the share to hold out.
        eval_files: TFRecord files for the examples of the held-out share.

    Returns:
        The summary; see `summarize`. Also "cleaning", the report, and "eval", the summary of the held-out part.

    Raises:
        FileNotFoundError, ValueError: the input, the outputs or the vocabulary are not usable.
        OSError: writing failed, for example on a full disk, or a worker died.
    """
    input_files, output_files, all_files = list(input_files), list(output_files), [*output_files, *eval_files]
    check_eval(cleaning, eval_files)
    tools = Tools.of(tokenizer, settings)
    texts = inspect_texts(input_files, text_options)
    words_files, words_flags = _chinese_words(tools, settings)
    check_record_files(all_files, [*input_files, *words_files], vocab_file)
    tell_replaced(all_files)
    warn_about_casing(tokenizer.vocab, tokenizer.basic_tokenizer.do_lower_case)
    _warn_about_predictions(settings)
    _check_num_workers(num_workers)
    start_workers = start_workers or (functools.partial(Workers, num_workers) if num_workers > 1 else None)
    flags = {"input_file": ",".join(input_files), "output_file": ",".join(output_files), "vocab_file": vocab_file}
    flags |= _flags_of_text(text_options, cleaning, eval_files) | words_flags
    build = Build(
        texts,
        output_files,
        is_gzip,
        folder=_work_folder(output_files[0], work_dir),
        tools=tools,
        metadata=_metadata(tokenizer, settings, flags, start_workers is None),
        progress=progress or Progress(),
        text_options=text_options,
        cleaning=dataclasses.replace(cleaning, random_seed=settings.random_seed),
        eval_files=list(eval_files),
    )
    return _build_in_order(build) if start_workers is None else build_with_workers(build, start_workers)


def _chinese_words(tools: Tools, settings: PretrainingDataSettings) -> tuple[list[str], dict]:
    """Returns the files that --chinese_words reads, and its source for the metadata."""
    if not isinstance(tools.tokenizer, WordMarker):
        return [], {}
    segmenter = tools.tokenizer.segmenter
    return [settings.chinese_words] if segmenter.kind == "list" else [], {"chinese_words_source": segmenter.source}


def _flags_of_text(text_options: TextOptions, cleaning: Cleaning, eval_files: Sequence[str]) -> dict:
    """Returns the flags for the metadata; none for text in the format of the original BERT."""
    of_text = {} if text_options == RELEASE else dataclasses.asdict(text_options)
    of_eval = {"eval_output_file": ",".join(eval_files)} if eval_files else {}
    return of_text | cleaning.changes | of_eval


def _check_num_workers(num_workers: int) -> None:
    if num_workers < 1:
        raise ValueError(f"--num_workers={num_workers} is not a valid number of processes; give 1 or more")


def _warn_about_predictions(settings: PretrainingDataSettings) -> None:
    if settings.max_predictions_per_seq < 0.8 * settings.most_predictions:
        log.warning(
            "--max_predictions_per_seq=%d limits the masked tokens: %g of %d tokens would be %d",
            settings.max_predictions_per_seq,
            settings.masked_lm_prob,
            settings.max_seq_length,
            settings.most_predictions,
        )


def _work_folder(output_file: str, work_dir: str | None) -> str:
    if work_dir:
        return os.path.realpath(work_dir)
    return tempfile.gettempdir() if paths.is_remote(output_file) else os.path.dirname(os.path.realpath(output_file))


def _build_in_order(build: Build) -> dict:
    """Builds examples in this process, in the order of the original BERT; returns the summary."""
    with RecordWriter([*build.output_files, *build.eval_files], build.is_gzip, build.folder) as writer:
        parts, report = _read_parts(build)
        summaries = []
        for documents, files in zip(parts, (build.output_files, build.eval_files), strict=False):
            check_corpus(documents, build.texts, build.tools, build.folder, build.text_options)
            summaries.append(_write_part(build, documents, len(files), writer) | report)
        writer.commit(build.per_file(summaries))
    return with_eval(summaries)


def _read_parts(build: Build) -> tuple[list[Documents], dict]:
    """Returns the documents, those that are held out, and the report of the cleaning if there is one."""
    (tokenizer, _, settings), progress = build.tools, build.progress
    with contextlib.ExitStack() as stack:
        texts = stack.enter_context(opened_texts(build.texts, build.folder, progress, build.text_options))
        if not build.cleaning.is_needed:
            return [read_texts(texts, tokenizer, settings.strict_utf8, progress)], {}
        folder, run = stack.enter_context(temporary_work(build.folder)), ThisProcess(None).run
        cleaned = clean_texts(texts, build.cleaning, settings.strict_utf8, folder, run, progress)
        parts = [read_texts(part, tokenizer, settings.strict_utf8, progress) for part in cleaned[:2] if part]
        return parts, {"cleaning": cleaned.report}


def _write_part(build: Build, documents: Documents, num_files: int, writer: RecordWriter) -> dict:
    """Writes the examples of some documents to the next files; returns the summary."""
    (tokenizer, vocabulary, settings), progress = build.tools, build.progress
    rng = random.Random(settings.random_seed)
    counts = count_documents(documents, count_unknown(documents.tokens, tokenizer))
    with InstanceSpill(build.folder) as spill:
        for instance in draw_instances(documents, settings, vocabulary, rng, progress):
            spill.append(instance)
            count_instance(counts, instance)
        spill.shuffle(rng)
        for number, instance in enumerate(itertools.islice(spill.every(), NUM_SHOWN)):
            show(number, instance, build.tools)
        progress.start("writing", len(spill), "instances")
        for number in range(num_files):
            writer.write_file(_records_of(spill.every(num_files, number), settings, progress))
        progress.finish()
    return summarize(counts, settings.max_seq_length)


def _records_of(
    instances: Iterator[Instance], settings: PretrainingDataSettings, progress: Progress
) -> Iterator[bytes]:
    for instance in instances:
        yield serialize_example(instance.features(settings))
        progress.advance()


def draw_instances(
    documents: Documents,
    settings: PretrainingDataSettings,
    vocabulary: MaskingVocabulary,
    rng: random.Random,
    progress: Progress | None = None,
) -> Iterator[Instance]:
    """Shuffles the documents in place and yields the instances of all duplicates, which are not shuffled."""
    progress = progress or Progress()
    documents.shuffle(rng)
    progress.start("building instances", len(documents) * settings.dupe_factor, "documents")
    for _ in range(settings.dupe_factor):
        for index in range(len(documents)):
            yield from instances_of_document(documents, index, settings, vocabulary, rng)
            progress.advance()
    progress.finish()


def warn_about_casing(vocab: Mapping[str, int], do_lower_case: bool) -> None:
    """Warns if the vocabulary was clearly made for the other value of `do_lower_case`."""
    words = [token for token in vocab if len(token) > 1 and token.isalpha()]
    capitalised = [word for word in words if word != word.lower()]
    if do_lower_case and len(capitalised) > len(vocab) / 100:
        log.warning(
            'text is lower-cased, but %d of the %d entries of the vocabulary have capital letters ("%s"); '
            "for a cased vocabulary give --do_lower_case=False",
            len(capitalised),
            len(vocab),
            capitalised[0],
        )
    elif not do_lower_case and not capitalised and any(word != word.upper() for word in words):
        log.warning(
            "text keeps its capital letters, but no word of the vocabulary has any, so that most capitalised words "
            "become [UNK]; for an uncased vocabulary give --do_lower_case=True"
        )


def _metadata(tokenizer, settings: PretrainingDataSettings, flags: dict, is_release_order: bool) -> dict:
    basic_tokenizer = tokenizer.basic_tokenizer
    casing = {"do_lower_case": basic_tokenizer.do_lower_case, "strip_accents": basic_tokenizer.strip_accents}
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
        "vocab_sha256": vocabulary_digest(tokenizer.vocab),
        **casing,
        **({"masking": masking} if settings.dynamic_masking else {}),
        "order": "release" if is_release_order else "of any number of workers from 2 on",
        "settings": {**flags, **casing, **dataclasses.asdict(settings)},
    }
