"""Measures what a text will give before its examples are built; nothing is written."""

import contextlib
import dataclasses
import logging

import numpy as np
from rich.table import Table

from bert_keras.data_prep.corpus.documents import Documents
from bert_keras.data_prep.corpus.workers import Work, temporary_work
from bert_keras.data_prep.pretraining.build import Build, check_build, check_corpus, tokenize
from bert_keras.data_prep.pretraining.corpus_checks import differences, lone_and_cut_shares, size_text
from bert_keras.data_prep.pretraining.estimates import sample_documents, size_of_records, use_of_documents
from bert_keras.data_prep.pretraining.settings import PretrainingDataSettings
from bert_keras.data_prep.pretraining.tasks import Tools
from bert_keras.mistakes import Message

log = logging.getLogger("bert_keras")

# Upper ends of the classes of lengths, in tokens of a sentence; the last class is open.
LENGTHS = (4, 8, 16, 32, 64, 128, 256, 512)
_MOST_DOCUMENTS = 1000  # of the sample
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
    cleaning: dict | None = None


def measure_text(build: Build) -> TextStatistics:
    """Reads the whole text, draws examples from a sample of its documents, and warns about what will train badly.

    The tokens are in a temporary folder in `build.work_dir`. A build for this needs no output files, but checks those
    that it has.
    """
    check_build(build, needs_outputs=False)
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(temporary_work(build.work_dir))
        with build.start() as workers:
            [(documents, num_unknown)], report = tokenize(build, [Work(workers, folder, build.progress)])
        stack.callback(documents.close)
        check_corpus(documents, build)
        statistics = dataclasses.replace(_measure(documents, num_unknown, build.tools), **report)
    _warn(statistics, build.settings)
    return statistics


def _measure(documents: Documents, num_unknown: int, tools: Tools) -> TextStatistics:
    counts = sum(
        np.bincount(np.searchsorted(LENGTHS, lengths), minlength=len(LENGTHS) + 1)
        for lengths in differences(documents.sentence_starts)
    )
    sample = sample_documents(documents, tools.settings, _MOST_DOCUMENTS)
    use = use_of_documents(documents, sample, tools.settings)
    single_share, cut_share = lone_and_cut_shares(documents, tools.settings)
    instances = round(tools.settings.dupe_factor * len(documents.tokens) * use.num_pairs / max(1, use.num_read))
    return TextStatistics(
        documents=len(documents),
        sentences=documents.num_sentences,
        tokens=len(documents.tokens),
        unknown_share=num_unknown / len(documents.tokens),
        lengths=[int(count) for count in np.asarray(counts)],
        single_share=single_share,
        cut_share=cut_share,
        unused_share=use.num_unused / max(1, use.num_seen),
        padding_share=1 - use.num_real / max(1, use.num_pairs * tools.settings.max_seq_length),
        instances=instances,
        num_bytes=round(instances * size_of_records(documents, sample, tools)[0]),
    )


def statistics_table(statistics: TextStatistics) -> Table:
    """Returns the statistics as a table."""
    table = Table("", "the text", show_edge=False)
    table.columns[1].justify = "right"
    for name in ("documents", "sentences", "tokens"):
        table.add_row(name, f"{getattr(statistics, name):,}")
    for name, label in _SHARES.items():
        table.add_row(label, f"{100 * getattr(statistics, name):.2f} %")
    table.add_row("expected examples", f"about {statistics.instances:,}")
    table.add_row("disk for the records, not compressed", f"about {size_text(statistics.num_bytes)}")
    table.add_section()
    ends = [f"up to {length} tokens" for length in LENGTHS] + [f"more than {LENGTHS[-1]} tokens"]
    for end, count in zip(ends, statistics.lengths, strict=True):
        table.add_row(f"sentences of {end}", f"{100 * count / statistics.sentences:.1f} %")
    return table


def _warn(statistics: TextStatistics, settings: PretrainingDataSettings) -> None:
    if statistics.unknown_share > _MOST_UNKNOWN:
        log.warning(
            Message(
                "{:.1f} % of the tokens are [UNK]: the vocabulary does not fit the text; compare "
                "{do_lower_case}, or learn a vocabulary with build_vocab.py",
                100 * statistics.unknown_share,
            )
        )
    if statistics.unused_share > _MOST_UNUSED:
        log.warning(
            Message(
                "{:.0f} % of the tokens are in no example; their sentences are too long for "
                "{max_seq_length}={}, so split them, for example with {split_sentences}",
                100 * statistics.unused_share,
                settings.max_seq_length,
            )
        )
    if statistics.padding_share > _MOST_PADDING:
        log.warning(
            Message(
                "{:.0f} % of all positions are padding, because documents are short; a smaller "
                "{max_seq_length} trains faster",
                100 * statistics.padding_share,
            )
        )
