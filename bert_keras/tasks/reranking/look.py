"""A look at the files of run_reranker.py."""

import itertools

from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import Texts, add_examples, look_at_files, num_words, shown, spread
from bert_keras.tasks.reranking.data import Queries, check_queries, read_queries
from bert_keras.tasks.reranking.settings import RerankerSettings


def look(settings: RerankerSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_reranker.py; not `is_whole`: only for mistakes."""
    return look_at_files(settings, "run_reranker", is_whole, _read, _describe)


def _read(settings: RerankerSettings, name: str) -> Queries:
    queries = read_queries(getattr(settings, name), settings, has_relevance=name != "predict_file")
    check_queries(queries, name, is_mining=bool(settings.mine_negatives))
    return queries


def _describe(found: Findings, queries: Queries, settings: RerankerSettings) -> Texts:
    names, texts = [*queries.texts], Texts(found.path, queries.placed)
    first = (
        f"{value:g}: {shown(query)} | {shown(text)}" for query in names for text, value in queries.texts[query].items()
    )
    num_texts = sum(map(len, queries.texts.values()))
    add_examples(found, itertools.islice(first, 3), num_texts, "texts")
    fitting = [sum(value > 0 for value in texts.values()) for texts in queries.texts.values()]
    mean, mean_fitting = num_texts / len(names), sum(fitting) / len(names)
    without = f"; {fitting.count(0):,} queries have no text that fits" if 0 in fitting else ""
    found.add("queries", f"{len(names):,} with {mean:.1f} texts each, of which {mean_fitting:.1f} fit{without}")
    found.add("words", f"of queries: {spread([num_words(query) for query in names])}")
    found.add("", f"of texts: {spread([num_words(text) for texts in queries.texts.values() for text in texts])}")
    add_pieces(found, queries.rows, open_tokenizer(settings, settings.init_checkpoint), settings.max_seq_length)
    return texts
