"""Mines hard negatives: for each query, the texts that vectors find most similar and that do not fit."""

import dataclasses
import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from bert_keras.evaluation.ranking import unit_vectors
from bert_keras.prediction import Vectorizer
from bert_keras.tasks.reranking.data import Queries

log = logging.getLogger("bert_keras")

_SCORES_AT_A_TIME = 1 << 24


def mine_negatives(queries: Queries, vectors: Vectorizer, count: int) -> Queries:
    """Adds to each query the `count` most similar texts of other queries, with the relevance 0.

    A text that has the words of one of the query's own texts, or of the query, is never added.
    """
    texts = list(dict.fromkeys(text for query_texts in queries.texts.values() for text in query_texts))
    words = [_words(text) for text in texts]
    found = dict(queries.texts)
    text_vectors, query_vectors = _unit(vectors, texts), _unit(vectors, list(found))
    step = max(1, _SCORES_AT_A_TIME // len(texts))
    num_added = 0
    for start in range(0, len(found), step):
        scores = query_vectors[start : start + step] @ text_vectors.T
        for query, row in zip(list(found)[start : start + step], scores, strict=True):
            own = {_words(text) for text in found[query]} | {_words(query)}
            added: dict[str, float] = {}
            for number in np.argsort(-row, stable=True).tolist():
                if len(added) == count:
                    break
                if words[number] not in own:
                    own.add(words[number])
                    added[texts[number]] = 0.0
            found[query] = found[query] | added
            num_added += len(added)
    log.info("%s: hard negatives that were added, up to %d for a query: %s", queries.path, count, f"{num_added:,}")
    return dataclasses.replace(queries, texts=found)


def _words(text: str) -> str:
    return " ".join(text.casefold().split())


def _unit(vectors: Vectorizer, texts: Sequence[str]) -> np.ndarray:
    """Returns the vectors of texts with the length 1, float32 [N, H]."""
    answers: Any = vectors.pipe(texts)  # of single texts, so each has a vector
    return unit_vectors([answer.vector for answer in answers]).astype(np.float32)
