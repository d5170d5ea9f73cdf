"""A look at the files of run_sentence_vectors.py."""

import collections

from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import (
    Texts,
    add_equal_texts,
    add_examples,
    counted,
    look_at_files,
    num_words,
    numbers,
    quoted,
    spread,
)
from bert_keras.tasks.vectors.data import Texts as Rows
from bert_keras.tasks.vectors.data import read_texts, split_texts
from bert_keras.tasks.vectors.settings import VectorSettings


def look(settings: VectorSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_sentence_vectors.py; not `is_whole`: only for mistakes."""
    return look_at_files(settings, "run_sentence_vectors", is_whole, read_texts, _describe, split_texts)


def _describe(found: Findings, rows: Rows, settings: VectorSettings) -> Texts:
    texts = Texts(found.path, rows.placed)
    labels = [f"{label}: " for label in rows.labels] or [""] * len(rows.rows)
    first = (label + " | ".join(map(quoted, row)) for label, row in zip(labels[:3], rows.rows, strict=False))
    add_examples(found, first, len(rows.rows), rows.kind)
    if rows.has_scores:
        found.add("labels", f"numbers from {numbers(rows.labels)}")
    elif rows.labels:
        counts = collections.Counter(rows.labels)
        found.add("labels", f"{len(counts):,}: {counted(counts)}")
    lengths = [max(map(num_words, row)) for row in rows.rows]
    sources = texts.sources if len(lengths) == len(texts.sources) else ()  # pairs are made of several inferences
    found.add("words", spread(lengths, sources) + (" (the longer text)" if len(rows.rows[0]) > 1 else ""))
    add_equal_texts(found, texts, rows.labels or None)
    single = [[settings.prefix + text] for row in rows.rows for text in row]
    add_pieces(found, single, open_tokenizer(settings, settings.init_checkpoint), settings.max_seq_length)
    return texts
