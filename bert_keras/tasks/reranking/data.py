"""Reads queries with their texts: a query, a text that fits and others that do not; or a query, a text and a score."""

import collections
import dataclasses
import hashlib
import json
import logging
from collections.abc import Iterable

import numpy as np

from bert_keras.data_prep.text.model_inputs import encode_pair, pad_rows
from bert_keras.data_prep.text.same_text import Key, Placed, key_of
from bert_keras.data_prep.text.tokenization import FullTokenizer
from bert_keras.mistakes import Mistake, several
from bert_keras.tasks.reranking.settings import RerankerSettings
from bert_keras.tasks.tables.column_names import LIST_PAIRS, RELEVANCE_NAMES, negative_names, usual_name, usual_pair
from bert_keras.tasks.tables.columns import Columns, find_header, without_names
from bert_keras.tasks.tables.header import YES
from bert_keras.tasks.tables.held_out import with_part
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.vectors.data import Roles, guess_roles, read_file

log = logging.getLogger("bert_keras")

# Relevance of a missing text, which pads a query that has fewer texts than others.
NO_TEXT = -1.0
_ROLES: Roles = ("text_column", "text_pair_column"), "label_column"


@dataclasses.dataclass(frozen=True)
class Queries:
    """The queries of a file.

    Attributes:
        path: of the file.
        texts: by query, the relevance of each text: 0, or above 0 for a text that fits.
        rows: (query, text) of each row, or of each text of a row, in the order of the file.
        placed: the queries.
    """

    path: str
    texts: dict[str, dict[str, float]]
    rows: list[tuple[str, str]]
    placed: list[Placed] = dataclasses.field(default_factory=list)

    @property
    def keys(self) -> list[Key]:
        return [placed.key for placed in self.placed]

    @property
    def strata(self) -> None:
        return None

    def take(self, numbers: Iterable[int]) -> "Queries":
        queries, chosen = [*self.texts], [*numbers]
        texts = {queries[number]: self.texts[queries[number]] for number in chosen}
        rows = [row for row in self.rows if row[0] in texts]
        return Queries(self.path, texts, rows, [self.placed[number] for number in chosen])

    @property
    def fitting(self) -> "Queries":
        """The queries that have a text that fits."""
        return self.take(number for number, texts in enumerate(self.texts.values()) if any(texts.values()))

    @property
    def digest(self) -> str:
        """The SHA-256 of queries, texts and relevance."""
        return hashlib.sha256(json.dumps(self.texts).encode("ascii")).hexdigest()

    @property
    def has_wrong_texts(self) -> bool:
        """Whether a query has a text that does not fit."""
        return any(not relevance for texts in self.texts.values() for relevance in texts.values())


def read_queries(path: str, settings: RerankerSettings, has_relevance: bool = True) -> Queries:
    """Reads a file of queries, with the columns of the settings or those with usual names.

    Raises:
        ValueError: a text is missing, or a score is below 0.
    """
    texts = [settings.text_column, settings.text_pair_column, *settings.choice_columns]
    given = [column for column in texts if column]
    if given and None in texts[:2]:
        raise Mistake("the query and its text need a column each; give both {text_column} and {text_pair_column}")
    table = Table(path)
    path = table.path  # for messages
    if not (given or has_relevance) and (listed := usual_pair(table.names, LIST_PAIRS)):
        given = [*listed, *negative_names(table.names)]
        log.info("%s: texts are read from: %s", path, ", ".join(f'"{column}"' for column in given))
    text, pair, label = settings.text_column, settings.text_pair_column, settings.label_column
    columns = Columns(text, pair, label, choices=tuple(settings.choice_columns))
    header = find_header(table, columns, settings.has_header)
    if header.answer != YES and not given:
        raise without_names(table, header, guess_roles(table, _ROLES, has_relevance, is_numbered=True))
    score, wrong = settings.label_column, negative_names(table.names) if header.answer == YES else []
    if score is None and not wrong:
        score = usual_name(table.names, RELEVANCE_NAMES)
    if score is None and len(given) == 2 and not {*wrong} <= {*given} and has_relevance:
        given = list(dict.fromkeys([*given, *wrong]))
        log.info("%s: texts that do not fit: %s", path, ", ".join(f'"{column}"' for column in given[2:]))
    found = read_file(table, given, score, has_labels=has_relevance, has_header=settings.has_header, roles=_ROLES)
    if not (found.has_scores or found.has_pairs):
        raise Mistake(
            "{}: no column of texts for the queries; name the columns with {text_column} and {text_pair_column}", path
        )
    rows = [(row[0], text) for row in found.rows for text in row[1:]]
    if found.has_pairs:
        relevance = [float(not number) for row in found.rows for number in range(len(row) - 1)]
    else:
        relevance = [float(score) for score in found.labels]
    if min(relevance) < 0:
        place = int(np.argmin(relevance))
        raise Mistake(
            '{}: a score is {:g}, but scores of texts must be 0 (does not fit) or above; the query is "{}"',
            path,
            relevance[place],
            rows[place][0],
        )
    queries: dict[str, dict[str, float]] = collections.defaultdict(dict)
    num_changed = 0
    for (query, text), value in zip(rows, relevance, strict=True):
        known = queries[query].get(text, value)
        num_changed += known != value
        queries[query][text] = max(known, value)
    num_texts = sum(map(len, queries.values()))
    log.info("%s: %s with %s", path, several(len(queries), "queries"), several(num_texts, "texts"))
    if num_changed:
        message = "%s: rows whose text has another score in another row, of which the highest counts: %d"
        log.warning(message, path, num_changed)
    places: dict[str, str] = {}
    for row, (_, place) in zip(found.rows, found.placed, strict=True):
        places.setdefault(row[0], place)
    return Queries(path, dict(queries), rows, [Placed(key_of([query]), place) for query, place in places.items()])


def split_queries(settings: RerankerSettings, files: dict[str, Queries]) -> tuple[dict[str, Queries], dict[str, str]]:
    """Divides the queries of a run by `with_part`; the evaluation leaves out those without a text that fits."""
    found, facts = with_part(settings, files, "queries")
    if facts and "eval_file" in found:
        found["eval_file"] = found["eval_file"].fitting
    return found, facts


def check_queries(queries: Queries, name: str, is_mining: bool = False) -> None:
    """Refuses queries, those of the setting `name`, that teach nothing, or on which every model would be perfect.

    `is_mining`: texts that do not fit are not added yet.
    """
    without = [query for query, texts in queries.texts.items() if not any(texts.values())]
    if name == "train_file" and len(without) == len(queries.texts):
        raise Mistake("{}: no text fits its query; give texts with a score above 0", queries.path)
    if name == "eval_file" and without:
        raise Mistake(
            '{}: the query "{}" has no text that fits; add one, or remove the query', queries.path, without[0]
        )
    needed = {
        "train_file": "but training needs texts that do not; give columns with them ({choice_columns}), scores of 0 "
        "({label_column}), or ",
        "eval_file": "so every model would be perfect; give texts that do not fit, or ",
    }
    if name in needed and not (is_mining or queries.has_wrong_texts):
        raise Mistake("{}: all texts fit their queries, " + needed[name] + "{mine_negatives}", queries.path)


def pair_features(
    rows: list[tuple[str, str]], tokenizer: FullTokenizer, max_seq_length: int, what: str
) -> dict[str, np.ndarray]:
    """Returns the features of (query, text) pairs, int32 "input_ids", int8 "input_mask" and "segment_ids" [N, T]."""
    encoded = [encode_pair(tokenizer, query, text, max_seq_length) for query, text in rows]
    if num_cut := sum(cut > 0 for _, _, cut in encoded):
        share = f"{100 * num_cut / len(encoded):.1f} % of the {len(encoded):,} texts of {what}"
        log.info("%s, with their queries, are longer than %d tokens and are cut", share, max_seq_length)
    ids = [ids for ids, _, _ in encoded]
    return pad_rows(ids, [segments.count(0) for _, segments, _ in encoded], max_seq_length)


def list_features(queries: Queries, tokenizer: FullTokenizer, max_seq_length: int, what: str) -> dict[str, np.ndarray]:
    """Returns the features of the texts of each query [B, K, T], and float32 "label_values" [B, K].

    Queries of which no text fits are left out, because their loss has no meaning; the log reports their number.
    """
    kept = {query: texts for query, texts in queries.texts.items() if any(texts.values())}
    if num_without := len(queries.texts) - len(kept):
        log.info("%s: queries without a text that fits, which are left out: %s", what, f"{num_without:,}")
    features = pair_features(
        [(query, text) for query, texts in kept.items() for text in texts], tokenizer, max_seq_length, what
    )
    counts = [len(texts) for texts in kept.values()]
    places = np.full((len(kept), max(counts)), 0)
    labels = np.full(places.shape, NO_TEXT, np.float32)
    start = 0
    for row, (texts, count) in enumerate(zip(kept.values(), counts, strict=True)):
        # A missing text is a copy of the first, which costs less than a row of other length.
        places[row] = start
        places[row, :count] = range(start, start + count)
        labels[row, :count] = list(texts.values())
        start += count
    return {name: values[places] for name, values in features.items()} | {"label_values": labels}
