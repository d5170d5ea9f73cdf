"""A look at the files of run_reranker.py."""

import itertools
from collections.abc import Sequence

from bert_keras.tasks.dry_run.findings import Findings
from bert_keras.tasks.dry_run.opening import files_used, open_settings
from bert_keras.tasks.dry_run.pieces import add_pieces, open_tokenizer
from bert_keras.tasks.dry_run.statistics import (
    Texts,
    add_examples,
    add_shared_texts,
    num_words,
    shown,
    spread,
)
from bert_keras.tasks.reranking.data import Queries, check_trainable, read_queries
from bert_keras.tasks.reranking.settings import RerankerSettings


def look(settings: RerankerSettings, is_whole: bool) -> list[Findings]:
    """Looks at the files of run_reranker.py; not `is_whole`: only for mistakes."""
    together, files, texts = Findings(), [], []
    with together.catching():
        settings = open_settings(settings, "run_reranker")
        settings.check_effects()
        for name in files_used(settings):
            files.append(Findings(getattr(settings, name), name))
            queries = None
            with files[-1].reading():
                queries = read_queries(files[-1].path, settings, has_relevance=name != "predict_file")
                if name == "train_file" and not settings.mine_negatives:
                    check_trainable(queries)
            if is_whole and queries:
                texts.append(_describe_queries(files[-1], queries, has_relevance=name != "predict_file"))
                tokenizer = open_tokenizer(settings, settings.init_checkpoint)
                add_pieces(files[-1], queries.rows, tokenizer, settings.max_seq_length)
    add_shared_texts(together, texts)
    return [*files, together]


def _describe_queries(found: Findings, queries: Queries, has_relevance: bool) -> Texts:
    names = [*queries.texts]
    places = [f"query {number:,}" for number in range(1, 1 + len(names))]
    texts = Texts(found.path, ([query] for query in names), places)
    first = (
        f"{f'{value:g}: ' * has_relevance}{shown(query)} | {shown(text)}"
        for query in names
        for text, value in queries.texts[query].items()
    )
    add_examples(found, itertools.islice(first, 3), sum(map(len, queries.texts.values())), "texts")
    found.add("queries", _of_queries(queries, has_relevance))
    pairs = [(query, text) for query, of_query in queries.texts.items() for text in of_query]
    found.add("words", f"of queries: {spread([num_words(query) for query in names])}")
    found.add("", f"of texts: {spread([num_words(text) for _, text in pairs])}")
    return texts


def _of_queries(queries: Queries, has_relevance: bool) -> str:
    relevant: Sequence[int] = [sum(value > 0 for value in texts.values()) for texts in queries.texts.values()]
    none = relevant.count(0)
    per_query = sum(map(len, queries.texts.values())) / len(queries.texts)
    counts = f"{len(queries.texts):,} with {per_query:.1f} texts each"
    if not has_relevance:
        return counts
    counts += f", of which {sum(relevant) / len(relevant):.1f} fit"
    return counts + (f"; {none:,} queries have no text that fits" if none else "")
