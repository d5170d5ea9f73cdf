"""Measures what a text will give before its examples are built; nothing is written."""

import contextlib
import dataclasses
import datetime
import functools
import io
import itertools
import logging
import math
import random
import tempfile
import time
from collections.abc import Callable, Sequence

import numpy as np
from rich.table import Table

from bert_keras.cli.progress import Progress
from bert_keras.data_prep.cleaning.filters import NO_CLEANING, Cleaning
from bert_keras.data_prep.cleaning.text_cleaning import tokenize_clean
from bert_keras.data_prep.corpus.checks import differences, lone_and_cut_shares, size_text
from bert_keras.data_prep.corpus.documents import Documents, check_text_files
from bert_keras.data_prep.corpus.raw_text import RELEASE, TextOptions
from bert_keras.data_prep.corpus.tokenized_corpus import tokenize_corpus
from bert_keras.data_prep.corpus.workers import ThisProcess, Workers, WorkFolder
from bert_keras.data_prep.pretraining.build_steps import Tools, check_corpus
from bert_keras.data_prep.pretraining.instances import (
    SENTENCE_TASKS,
    PretrainingDataSettings,
    draw_segments,
    instances_of_document,
)
from bert_keras.data_prep.pretraining.masking import Stream
from bert_keras.data_prep.records.writing import serialize_example
from bert_keras.data_prep.text.tokenization import FullTokenizer

log = logging.getLogger("bert_keras")

# Upper ends of the classes of the histogram, in tokens of a sentence; the last class is open.
LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512)
_MOST_DOCUMENTS = 1000  # of the sample
_MOST_PAIRS = 2000  # of a document in the sample
_BAR = 20  # characters of the longest bar
_SECONDS = 2.0  # of building examples, to measure the speed
_MOST_UNKNOWN, _MOST_UNUSED, _MOST_PADDING = 0.01, 0.2, 0.5
_SHARES = {
    "unknown_share": "unknown ([UNK]), of the tokens",
    "single_share": "of one sentence, of the documents",
    "cut_share": "cut off: too long a sentence, of the tokens",
    "unused_share": "unused: in no example, of the tokens",
    "padding_share": "padding, of all positions",
}


@dataclasses.dataclass(frozen=True)
class TextStatistics:
    """Contents of a text, and needs of its examples; shares are from 0 to 1.

    Attributes:
        documents, sentences, tokens: numbers in the text.
        unknown_share: of the tokens that are [UNK].
        lengths: number of sentences with at most `LENGTHS` tokens, and with more.
        single_share: of the documents that have a single sentence.
        cut_share: of the tokens that no example has, because their sentence is longer than an example.
        unused_share: of the tokens that are in no example of their document, of all duplicates; from a sample.
        padding_share: of all positions; from a sample.
        instances, num_bytes: expected examples, and size of their records without compression; from a sample.
        seconds: expected time of the build: reading took so long here, and building was measured on a sample.
        cleaning: what was removed and held out, before all other numbers; see `clean_texts`.
    """

    documents: int
    sentences: int
    tokens: int
    unknown_share: float
    lengths: list[int]
    single_share: float
    cut_share: float
    unused_share: float
    padding_share: float
    instances: int
    num_bytes: int
    seconds: float
    cleaning: dict | None = None


def measure_text(
    input_files: Sequence[str],
    tokenizer: FullTokenizer,
    settings: PretrainingDataSettings,
    text_options: TextOptions = RELEASE,
    num_workers: int = 1,
    start_workers: Callable | None = None,
    work_dir: str | None = None,
    progress: Progress | None = None,
    cleaning: Cleaning = NO_CLEANING,
) -> TextStatistics:
    """Reads the whole text, draws examples from a sample of its documents, and warns about what will train badly.

    The arguments are those of `build_pretraining_data`. The tokens are in a temporary folder in `work_dir`.
    """
    tools = Tools.of(tokenizer, settings)
    check_text_files(list(input_files), text_options)
    if start_workers is None:
        start_workers = functools.partial(Workers, num_workers) if num_workers > 1 else ThisProcess
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(tempfile.TemporaryDirectory(prefix=".bert-keras-", dir=work_dir))
        folder = stack.enter_context(WorkFolder(path))
        started = time.perf_counter()
        with start_workers(tools) as workers:
            shared = (tools.tokenizer, settings.strict_utf8, workers)
            progress, report = progress or Progress(), {}
            if cleaning.is_needed:
                cleaning = dataclasses.replace(cleaning, random_seed=settings.random_seed)
                corpora, report = tokenize_clean(input_files, *shared, [folder], progress, text_options, cleaning)
                [(documents, num_unknown)] = corpora
            else:
                documents, num_unknown = tokenize_corpus(input_files, *shared, folder, progress, text_options)
        seconds = time.perf_counter() - started
        stack.callback(documents.close)
        check_corpus(documents, input_files, tools, path, text_options)
        statistics = _measure(documents, num_unknown, tools, seconds, num_workers)
        statistics = dataclasses.replace(statistics, **report)
    _warn(statistics, settings)
    return statistics


def _measure(documents: Documents, num_unknown: int, tools: Tools, seconds: float, num_workers: int) -> TextStatistics:
    counts = sum(
        np.bincount(np.searchsorted(LENGTHS, lengths), minlength=len(LENGTHS) + 1)
        for lengths in differences(documents.sentence_starts)
    )
    sample = list(range(len(documents)))
    if len(sample) > _MOST_DOCUMENTS:
        sample = random.Random(tools.settings.random_seed).sample(sample, _MOST_DOCUMENTS)
    uses = [_use_of_document(documents, index, tools.settings) for index in sample]
    num_read, num_pairs, num_real, num_unused, num_seen = (sum(use) for use in zip(*uses, strict=True))
    record, speed = _speed_of_building(documents, sample, tools)
    single_share, cut_share = lone_and_cut_shares(documents, tools.settings)
    instances = round(tools.settings.dupe_factor * len(documents.tokens) * num_pairs / max(1, num_read))
    return TextStatistics(
        documents=len(documents),
        sentences=documents.num_sentences,
        tokens=len(documents.tokens),
        unknown_share=num_unknown / len(documents.tokens),
        lengths=[int(count) for count in np.asarray(counts)],
        single_share=single_share,
        cut_share=cut_share,
        unused_share=num_unused / max(1, num_seen),
        padding_share=1 - num_real / max(1, num_pairs * tools.settings.max_seq_length),
        instances=instances,
        num_bytes=round(instances * record),
        seconds=seconds + instances / max(1.0, speed) / max(1, num_workers),
    )


def statistics_table(statistics: TextStatistics) -> Table:
    """Returns the statistics as a table, with the lengths of the sentences as bars."""
    table = Table("", "the text", show_edge=False)
    table.columns[1].justify = "right"
    for name in ("documents", "sentences", "tokens"):
        table.add_row(name, f"{getattr(statistics, name):,}")
    for name, label in _SHARES.items():
        table.add_row(label, f"{100 * getattr(statistics, name):.2f} %")
    table.add_row("expected examples", f"about {statistics.instances:,}")
    table.add_row("disk for the records, not compressed", f"about {size_text(statistics.num_bytes)}")
    table.add_row("time of the build", f"about {datetime.timedelta(seconds=math.ceil(statistics.seconds))}")
    table.add_section()
    most = max(statistics.lengths)
    ends = [f"up to {length} tokens" for length in LENGTHS] + [f"more than {LENGTHS[-1]} tokens"]
    for end, count in zip(ends, statistics.lengths, strict=True):
        bar = "\u2588" * round(_BAR * count / most)
        table.add_row(f"sentences of {end}", f"{bar} {100 * count / statistics.sentences:5.1f} %")
    return table


def draw_lengths(statistics: TextStatistics, max_seq_length: int) -> bytes:
    """Returns a picture (PNG) of the sentences' lengths, with the class in which `max_seq_length` ends marked."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(6.4, 3.2), dpi=200, layout="constrained")
    axes = figure.add_subplot()
    shares = [100 * count / statistics.sentences for count in statistics.lengths]
    starts = [1, *(length + 1 for length in LENGTHS)]
    names = [f"{start} to {end}" for start, end in zip(starts, LENGTHS, strict=False)] + [f"{starts[-1]} or more"]
    bars = axes.bar(names, shares, color="#2563eb")
    axes.bar_label(bars, [f"{share:.1f} %" for share in shares], fontsize=8, padding=2)
    place = int(np.searchsorted(LENGTHS, max_seq_length)) + (0.5 if max_seq_length in LENGTHS else 0)
    axes.axvline(place, color="#ea580c", linestyle="--", linewidth=1.4, label=f"--max_seq_length={max_seq_length}")
    axes.set_title(f"{statistics.sentences:,} sentences, {statistics.tokens:,} tokens", fontsize=11, loc="left")
    axes.set_xlabel("tokens of a sentence")
    axes.set_ylabel("% of the sentences")
    axes.set_ylim(0, 1.15 * max(shares))
    axes.tick_params(axis="x", labelsize=8, rotation=20)
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False, loc="upper right")
    picture = io.BytesIO()
    # Without metadata, the same numbers give the same bytes with every version of matplotlib.
    FigureCanvasAgg(figure).print_png(picture, metadata={"Software": None})
    return picture.getvalue()


def _use_of_document(
    documents: Documents, index: int, settings: PretrainingDataSettings
) -> tuple[int, int, int, int, int]:
    """Draws all duplicates of a document, of a long one only the start.

    Returns the number of tokens read, of pairs drawn from them, and of the pairs' tokens; then the number of tokens of
    the start that no pair has, and of all tokens of the start.
    """
    first, end = documents.sentences(index)
    start, stop = documents.sentence_starts[first], documents.sentence_starts[end]
    longest = min(stop - start, _MOST_PAIRS * settings.max_seq_length)
    is_used = np.zeros(longest, bool)
    num_read = num_pairs = num_real = 0
    num_special, _ = SENTENCE_TASKS[settings.sentence_task]
    reach = longest
    for duplicate in range(settings.dupe_factor):
        rng = Stream(f"{settings.random_seed} {duplicate} {index}")
        farthest, drawn = start, 0
        for (a, b), second, label in itertools.islice(draw_segments(documents, index, settings, rng), _MOST_PAIRS):
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
    return num_read, num_pairs, num_real, reach - int(is_used[:reach].sum()), reach


def _speed_of_building(documents: Documents, sample: list[int], tools: Tools) -> tuple[float, float]:
    """Builds examples for a short time; returns the bytes of a record, and the examples a second."""
    num_built = num_bytes = 0
    started = time.perf_counter()
    for index in sample:
        rng = Stream(f"{tools.settings.random_seed} 0 {index}")
        for instance in instances_of_document(documents, index, tools.settings, tools.vocabulary, rng):
            num_bytes += len(serialize_example(instance.features(tools.settings)))
            num_built += 1
            if time.perf_counter() - started > _SECONDS:
                break
        if time.perf_counter() - started > _SECONDS:
            break
    seconds = time.perf_counter() - started
    return num_bytes / max(1, num_built), num_built / max(1e-9, seconds)


def _warn(statistics: TextStatistics, settings: PretrainingDataSettings) -> None:
    if statistics.unknown_share > _MOST_UNKNOWN:
        log.warning(
            "%.1f %% of the tokens are [UNK]: the vocabulary does not fit the text; compare --do_lower_case, or learn "
            "a vocabulary with build_vocab.py",
            100 * statistics.unknown_share,
        )
    if statistics.unused_share > _MOST_UNUSED:
        log.warning(
            "%.0f %% of the tokens are in no example; their sentences are too long for --max_seq_length=%d, so split "
            "them, for example with --split_sentences",
            100 * statistics.unused_share,
            settings.max_seq_length,
        )
    if statistics.padding_share > _MOST_PADDING:
        log.warning(
            "%.0f %% of all positions are padding, because documents are short; a smaller --max_seq_length trains "
            "faster",
            100 * statistics.padding_share,
        )
