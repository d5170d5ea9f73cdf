"""A look at the files of run_reranker.py."""

import itertools

from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import Texts, add_examples, look_at_files, num_words, quoted, spread
from bert_keras.tasks.reranking.data import Queries, check_queries, read_queries, split_queries
from bert_keras.tasks.reranking.settings import RerankerSettings


def look(settings: RerankerSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_reranker.py; not `is_whole`: only for mistakes."""
    return look_at_files(settings, "run_reranker", is_whole, _read, _describe, _split)


def _read(settings: RerankerSettings, name: str) -> Queries:
    queries = read_queries(getattr(settings, name), settings, has_relevance=name != "predict_file")
    check_queries(queries, name, is_mining=bool(settings.mine_negatives))
    return queries


def _split(settings: RerankerSettings, files: dict[str, Queries]) -> None:
    found, facts = split_queries(settings, files)
    for name in found if facts else ():
        check_queries(found[name], name, is_mining=bool(settings.mine_negatives))


def _describe(found: Findings, queries: Queries, settings: RerankerSettings) -> Texts:
    names, texts, has_relevance = [*queries.texts], Texts(found.path, queries.placed), found.setting != "predict_file"
    first = (
        f"{f'{value:g}: ' * has_relevance}{quoted(query)} | {quoted(text)}"
        for query in names
        for text, value in queries.texts[query].items()
    )
    num_texts = sum(map(len, queries.texts.values()))
    add_examples(found, itertools.islice(first, 3), num_texts, "texts")
    counts = f"{len(names):,} with {num_texts / len(names):.1f} texts each"
    if has_relevance:
        fitting = [sum(value > 0 for value in texts.values()) for texts in queries.texts.values()]
        counts += f", of which {sum(fitting) / len(names):.1f} fit"
        counts += f"; {fitting.count(0):,} queries have no text that fits" if 0 in fitting else ""
    found.add("queries", counts)
    found.add("words", f"of queries: {spread([num_words(query) for query in names])}")
    found.add("", f"of texts: {spread([num_words(text) for texts in queries.texts.values() for text in texts])}")
    add_pieces(found, queries.rows, open_tokenizer(settings, settings.init_checkpoint), settings.max_seq_length)
    return texts
