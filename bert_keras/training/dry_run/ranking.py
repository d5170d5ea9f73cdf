"""A look at the files of run_sentence_vectors.py, and at those of reranking: texts that belong together."""

import collections
import itertools
from collections.abc import Sequence

from absl import flags

from bert_keras.mistakes import Mistake, Setting
from bert_keras.training.dry_run.findings import Findings
from bert_keras.training.dry_run.opening import ACTIONS, open_settings
from bert_keras.training.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.training.dry_run.statistics import (
    Texts,
    add_equal_texts,
    add_examples,
    add_shared_texts,
    counted,
    num_words,
    numbers,
    shown,
    spread,
)
from bert_keras.training.reranking.data import Queries, check_trainable, read_queries
from bert_keras.training.sentence_vectors.data import Texts as Rows
from bert_keras.training.sentence_vectors.data import read_texts
from bert_keras.training.settings.programs import ClassifierSettings, VectorSettings


def look_at_vectors(values: flags.FlagValues, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_sentence_vectors.py; not `is_whole`: only for mistakes."""
    together, files, texts = Findings(), [], []
    with together.catching():
        settings = open_settings(values, VectorSettings, "run_sentence_vectors")
        for name in _used(settings):
            files.append(Findings(getattr(settings, name), name))
            rows = None
            with files[-1].reading():
                rows = read_texts(settings, name)
            if is_whole and rows:
                texts.append(_describe(files[-1], rows))
                tokenizer = open_tokenizer(settings, settings.init_checkpoint)
                single = [[settings.prefix + text] for row in rows.rows for text in row]
                add_pieces(files[-1], single, tokenizer, settings.max_seq_length)
    add_shared_texts(together, texts)
    return [*files, together]


def _used(settings: VectorSettings | ClassifierSettings) -> list[str]:
    """Returns the names of the settings whose files the run reads."""
    used = [name for name, action in ACTIONS.items() if getattr(settings, action)]
    if missing := next((name for name in used if not getattr(settings, name)), None):
        raise Mistake("{} needs {}; give the file", Setting(ACTIONS[missing]), Setting(missing))
    return used


def _describe(found: Findings, rows: Rows) -> Texts:
    texts = Texts(found.path, rows.rows, [f"row {number:,}" for number in range(1, 1 + len(rows.rows))])
    labels = [f"{label}: " for label in rows.labels] or [""] * len(rows.rows)
    first = (label + " | ".join(map(shown, row)) for label, row in zip(labels[:3], rows.rows, strict=False))
    add_examples(found, first, len(rows.rows), rows.kind)
    if rows.kind == "scores":
        found.add("labels", f"numbers from {numbers(rows.labels)}")
    elif rows.labels:
        counts = collections.Counter(rows.labels)
        found.add("labels", f"{len(counts):,}: {counted(counts)}")
    lengths = [max(map(num_words, row)) for row in rows.rows]
    found.add("words", spread(lengths, texts.sources) + (" (the longer text)" if len(rows.rows[0]) > 1 else ""))
    add_equal_texts(found, texts, rows.labels or None)
    return texts


def look(settings: ClassifierSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of a run with --kind=rerank."""
    together, files, texts = Findings(), [], []
    with together.catching():
        for name in _used(settings):
            files.append(Findings(getattr(settings, name), name))
            queries = None
            with files[-1].reading():
                queries = read_queries(files[-1].path, settings, has_relevance=name != "predict_file")
                if name == "train_file" and not settings.mine_negatives:
                    check_trainable(queries)
            if is_whole and queries:
                texts.append(_describe_queries(files[-1], queries))
                tokenizer = open_tokenizer(settings, settings.init_checkpoint)
                add_pieces(files[-1], queries.rows, tokenizer, settings.max_seq_length)
    add_shared_texts(together, texts)
    return [*files, together]


def _describe_queries(found: Findings, queries: Queries) -> Texts:
    names = [*queries.texts]
    places = [f"query {number:,}" for number in range(1, 1 + len(names))]
    texts = Texts(found.path, ([query] for query in names), places)
    first = (
        f"{value:g}: {shown(query)} | {shown(text)}" for query in names for text, value in queries.texts[query].items()
    )
    add_examples(found, itertools.islice(first, 3), sum(map(len, queries.texts.values())), "texts")
    found.add("queries", _of_queries(queries))
    pairs = [(query, text) for query, of_query in queries.texts.items() for text in of_query]
    found.add("words", f"of queries: {spread([num_words(query) for query in names])}")
    found.add("", f"of texts: {spread([num_words(text) for _, text in pairs])}")
    return texts


def _of_queries(queries: Queries) -> str:
    relevant: Sequence[int] = [sum(value > 0 for value in texts.values()) for texts in queries.texts.values()]
    none = relevant.count(0)
    per_query = sum(map(len, queries.texts.values())) / len(queries.texts)
    counts = f"{len(queries.texts):,} with {per_query:.1f} texts each, of which {sum(relevant) / len(relevant):.1f} fit"
    return counts + (f"; {none:,} queries have no text that fits" if none else "")
