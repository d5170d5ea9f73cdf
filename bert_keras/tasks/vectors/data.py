"""Reads the texts to train and evaluate vectors on: scored pairs, pairs and triplets, texts, and texts of classes."""

import collections
import dataclasses
import hashlib
import json
import logging
import re
from collections.abc import Iterable, Sequence
from typing import Any

from bert_keras.data_prep.text.same_text import Key, Placed, key_of
from bert_keras.mistakes import Given, Message, Mistake, Setting, several
from bert_keras.storage import inspection, paths
from bert_keras.storage.json_rows import name_of
from bert_keras.storage.text_files import is_blank
from bert_keras.tasks.tables.column_names import (
    CLASS_NAMES,
    SCORE_NAMES,
    TEXT_NAMES,
    VECTOR_PAIRS,
    folded,
    negative_names,
    usual_name,
    usual_pair,
)
from bert_keras.tasks.tables.columns import Columns, find_header, list_columns, problems_with, without_names
from bert_keras.tasks.tables.examples import INFERENCES
from bert_keras.tasks.tables.guesses import likely_texts
from bert_keras.tasks.tables.header import YES, are_measured, are_numbers
from bert_keras.tasks.tables.held_out import with_part
from bert_keras.tasks.tables.tables import Table
from bert_keras.tasks.tables.user_data import read_own_file
from bert_keras.tasks.vectors.settings import VectorSettings

log = logging.getLogger("bert_keras")

_ENTAILED, _CONTRADICTED = "entailment", "contradiction"
# The settings of the texts and of the score.
Roles = tuple[tuple[str, ...], str]
_ROLES: Roles = ("text_columns",), "score_column"
_LABELS_OF_PAIRS = INFERENCES | {"true", "false", "yes", "no"}
_NUMBER_OF_ROW = re.compile(r"(.*_)?(q|doc|sent|pair|u|gu)?id\d*|index|number|row|line|year")


@dataclasses.dataclass(frozen=True)
class Texts:
    """The texts of a file.

    Attributes:
        kind: "scores", two texts and how similar they are; "pairs", two texts that belong together, and optionally
            further texts that do not; "texts"; or "classes", a text and its class.
        rows: tuples of texts.
        labels: float for "scores", str for "classes", else empty.
        placed: the first two texts of each row of the file.
    """

    kind: str
    rows: list[tuple[str, ...]]
    labels: list[Any]
    placed: list[Placed] = dataclasses.field(default_factory=list)

    @property
    def has_scores(self) -> bool:
        return self.kind == "scores"

    @property
    def has_pairs(self) -> bool:
        return self.kind == "pairs"

    @property
    def keys(self) -> list[Key]:
        return [key_of(row[:1]) for row in self.rows]

    @property
    def strata(self) -> list[list[str]] | None:
        return [[label] for label in self.labels] if self.labels and not self.has_scores else None

    def take(self, numbers: Iterable[int]) -> "Texts":
        chosen = [*numbers]
        labels = [self.labels[number] for number in chosen] if self.labels else []
        rows = [self.rows[number] for number in chosen]
        return Texts(self.kind, rows, labels)

    @property
    def digest(self) -> str:
        """The SHA-256 of the content; the format of the file does not matter."""
        return hashlib.sha256(json.dumps((self.kind, self.rows, self.labels)).encode("ascii")).hexdigest()


def read_texts(settings: VectorSettings, name: str) -> Texts:
    """Reads one of the files of a run, that of the setting `name`, and refuses what it cannot learn or evaluate."""
    table = Table(getattr(settings, name))
    columns = settings.text_columns, settings.score_column, settings.label_column
    texts = read_file(table, *columns, has_labels=name != "predict_file", has_header=settings.has_header)
    log.info("%s: %s of %s", table.path, several(len(texts.rows), "rows"), texts.kind)
    _check(texts, name, settings)
    return texts


def split_texts(settings: VectorSettings, files: dict[str, Texts]) -> tuple[dict[str, Texts], dict[str, str]]:
    """Divides the texts of a run by `with_part`; all rows with the same first text are in one part."""
    found, facts = with_part(settings, files, "rows")
    for name in found if facts else ():
        _check(found[name], name, settings)
    return found, facts


def _check(texts: Texts, name: str, settings: VectorSettings) -> None:
    """Refuses texts, those of the setting `name`, that the run cannot learn or evaluate."""
    if name == "train_file" and not settings.do_train:
        return  # only a part of it is read
    path = name_of(getattr(settings, name) or settings.train_file or "")
    if name == "eval_file" and texts.kind == "texts":
        raise Mistake("{} has only texts; give scored pairs, pairs, or texts and their classes", path)
    if name == "train_file" and texts.has_scores:
        highest = max(texts.labels, key=abs)
        if not (settings.max_score or highest):
            raise Mistake("{}: all scores are 0; give pairs of different similarity", path)
        if settings.max_score and settings.max_score < abs(highest):  # no cosine is above 1
            message = "{max_score}={} is less than the score {:g} in {}; give the highest score, or more"
            raise Mistake(message, settings.max_score, highest, path)
    elif name == "train_file":
        _check_others(texts.rows, path, settings)


def _check_others(rows: Sequence[tuple[str, ...]], path: str, settings: VectorSettings) -> None:
    """Refuses to rank if an example would have no other text to compare its second text, or its only one, with.

    A third text is such another text, even alone.
    """
    if all({*row[2:]} - {*row[:2]} for row in rows):
        return
    if min(len({row[0] for row in rows}), len({row[:2][-1] for row in rows})) < 2:
        raise Mistake(
            "{}: all examples have the same first or the same second text; ranking needs others to compare with", path
        )
    if min(settings.train_batch_size) < 2:
        raise Mistake(
            "{train_batch_size}=1 leaves nothing to rank: each example is compared with the others of its "
            "batch; give 2 or more, such as 32 ({gradient_accumulation_steps} splits a batch to save memory)"
        )


def read_file(
    table: Table,
    text_columns: Sequence[str] = (),
    score: str | None = None,
    label: str | None = None,
    has_labels: bool = True,
    has_header: str = "auto",
    roles: Roles = _ROLES,
) -> Texts:
    """Reads a file of texts: .csv, .tsv or JSON lines with columns, or .txt with a text on each line.

    Args:
        table: the file; it is read to its end.
        text_columns: the columns of the texts; empty: found by their usual names, as `score` and `label` then are.
        score: column of the scores.
        label: column of the classes of single texts; for pairs, of their inference: entailment, contradiction or
            neutral. Such pairs become pairs and triplets, see `_from_inferences`.
        has_labels: False: read only the texts.
        has_header: one of `columns.HEADERS`.
        roles: the settings of the texts and of the score, for messages.
    """
    path, texts = table.path, tuple(text_columns)
    if inspection.ending_of(path) == ".txt" and len(table.names) == 1 and not texts and has_header == "auto":
        texts, has_header = ("0",), "false"
    named = Columns(*texts[:1], label=score or label, choices=texts[1:])
    header = find_header(table, named, has_header)
    if header.answer == YES and not texts:
        texts, score, label = _find_columns(table, score, label, roles, has_labels)
    elif header.answer == YES and len(texts) == 2 and score is None and label is None and has_labels:
        score, label = _scores_of_pairs(table, texts)
    elif not texts and len(table.names) == 1:
        texts = ("0",)
    elif not texts:
        raise without_names(table, header, guess_roles(table, roles, has_labels, is_numbered=True))
    if not has_labels:
        score = label = None
    if score is not None and len(texts) != 2:
        raise Mistake("{}: scores are for two texts, but there are {}: {}", path, len(texts), ", ".join(texts))
    if score is not None and label is not None:
        raise Mistake('{}: there are both scores, "{}", and labels, "{}"; name one column', path, score, label)
    first, second, others = *(*texts, None, None)[:2], texts[2:]
    columns = Columns(first, second, score or label, choices=others)
    if header.answer == YES:
        problems = problems_with(columns, table.names, has_numbers=not table.is_json)
        if problems:  # here, because the texts are named by another setting than those of classes
            message = "{}: {}; its columns are {}; name the texts with {}"
            raise Mistake(message, path, "; ".join(problems), list_columns(table.names), _texts_of(roles))
    if table.is_json and second and second in table.names:  # several texts may fit the first
        table.unfold(second)
    kind = "regression" if score is not None else "single_label"
    examples = read_own_file(table, columns, kind, needs_label=columns.label is not None, has_header=header)
    rows = [(example.text_a, *([example.text_b or ""] if second else []), *example.choices) for example in examples]
    for example, row in zip(examples, rows, strict=True):
        if any(map(is_blank, row)):
            raise Mistake("{}: a text is empty; give a text, or remove the row", example.source)
    labels = [example.label for example in examples]
    placed = [Placed(key_of(row[:2]), example.source) for example, row in zip(examples, rows, strict=True)]
    if score is not None:
        return Texts("scores", rows, labels, placed)
    if second is None:
        return Texts("texts" if label is None else "classes", rows, [] if label is None else labels, placed)
    return Texts("pairs", rows if label is None else _from_inferences(path, label, rows, labels, roles), [], placed)


def _find_columns(
    table: Table, score: str | None, label: str | None, roles: Roles, has_labels: bool
) -> tuple[tuple[str, ...], str | None, str | None]:
    """Returns the columns of the texts, the scores and the labels, by their usual names."""
    path, names = table.path, table.names
    texts: tuple[str, ...] = usual_pair(names, VECTOR_PAIRS) or ()
    if texts:
        texts += tuple(negative_names(names))
    elif text := names[0] if len(names) == 1 else usual_name(names, TEXT_NAMES):
        texts = (text,)
    if not texts:
        guess = guess_roles(table, roles, has_labels and score is None and label is None)
        advice = Message("a guess is {}", Given(guess)) if guess else Message("name them with {}", _texts_of(roles))
        raise Mistake("{}: no column could be a text among {}; {}", path, list_columns(names), advice)
    is_pair = len(texts) == 2
    if len(texts) < 3 and score is None and label is None:
        score = usual_name(names, SCORE_NAMES) if is_pair else None
        label = usual_name(names, CLASS_NAMES) if score is None else None
    is_all_similar = has_labels and is_pair and score is None and label is None
    if is_all_similar and (found := _like_scores(table, names, texts)):
        raise Mistake(
            '{}: the column "{}" may say which pairs are similar, but its name is unusual; give {}={} for numbers, or '
            "name the texts with {} to take all pairs as similar",
            *(path, found, Setting(roles[1]), found, _texts_of(roles)),
        )
    used = [f'"{name}" as a text' for name in texts]
    used += [f'"{name}" as the {role}' for name, role in ((score, "score"), (label, "label")) if name is not None]
    log.info("%s: columns %s; using %s", path, list_columns(names), ", ".join(used))
    return texts, score, label


def _scores_of_pairs(table: Table, texts: Sequence[str]) -> tuple[str | None, str | None]:
    """Returns the columns of the scores and the inferences of pairs that the user has named, by their usual names."""
    score, label = usual_name(table.names, SCORE_NAMES), usual_name(table.names, CLASS_NAMES)
    score = None if score in texts else score
    if label is not None and (score is not None or not _are_inferences(table, label)):
        label = None
    if found := score or label:
        log.info('%s: using "%s" as the %s', table.path, found, "label" if score is None else "score")
    return score, label


def _are_inferences(table: Table, label: str) -> bool:
    place = table.names.index(label)
    return all(str(row[place]) in INFERENCES for row in table.first_cells if len(row) == len(table.names))


def guess_roles(table: Table, roles: Roles, has_labels: bool, is_numbered: bool = False) -> dict[str, str]:
    """Returns the settings that probably name the texts and, with labels, the scores of a table, or none of them."""
    names = [*map(str, range(len(table.names)))] if is_numbered else table.names
    texts = likely_texts(names, table.first_cells)
    if len(texts) < len(roles[0]):
        return {}
    guess = dict(zip(roles[0], texts if roles[0][1:] else [",".join(texts)], strict=False))
    if has_labels and len(texts) == 2 and (found := _like_scores(table, names, texts)):
        guess[roles[1]] = found
    return guess


def _texts_of(roles: Roles) -> Message:
    settings = map(Setting, roles[0])
    return Message("{} and {}", *settings) if roles[0][1:] else Message("{}", *settings)


def _like_scores(table: Table, names: Sequence[str], texts: Sequence[str]) -> str | None:
    """Returns a column besides the texts that has scores or labels of pairs, judged by its first cells, or None."""
    rows = [row for row in table.first_cells if len(row) == len(table.names)]
    for place, name in enumerate(names):
        cells = [str(row[place]).strip().lower() for row in rows]
        values = {*cells}
        if name in texts or _NUMBER_OF_ROW.fullmatch(folded(name)) or len(values) < 2:
            continue
        # Numbers that are all different count something, unless they have fractions.
        can_score = len(values) < len(cells) or values == {"0", "1"} or are_measured(cells)
        if values <= _LABELS_OF_PAIRS or (can_score and are_numbers(cells)):
            return name
    return None


def _from_inferences(
    path: str,
    column: str,
    rows: Sequence[tuple[str, ...]],
    labels: Sequence[Any],
    roles: Roles,
) -> list[tuple[str, ...]]:
    """Makes pairs and triplets of inferences, as Sentence-BERT does.

    A premise and a hypothesis that it entails are a pair. A contradicted hypothesis of the same premise is the third
    text, if there is one.
    """
    if unknown := sorted(set(labels) - INFERENCES):
        raise Mistake(
            '{}: the column "{}" has {}, but labels of pairs must be entailment, contradiction or neutral; '
            "to take it as scores, give {}={}; to take all pairs as similar, name the texts with {}",
            *(path, column, unknown[0], Setting(roles[1]), column, _texts_of(roles)),
        )
    entailed, contradicted = collections.defaultdict(list), collections.defaultdict(list)
    for row, label in zip(rows, labels, strict=True):
        if label in (_ENTAILED, _CONTRADICTED):
            (entailed if label == _ENTAILED else contradicted)[row[0]].append(row[1])
    found = []
    for premise, hypotheses in entailed.items():
        others = contradicted[premise]
        for number, hypothesis in enumerate(hypotheses):
            found.append((premise, hypothesis, *([others[number % len(others)]] if others else [])))
    if not found:
        raise Mistake("{} has no pair with the label entailment; give a file with such pairs", path)
    message = "%s: %s entailed pairs of %s inferences, of which %s have a contradicted text"
    num_triplets = sum(len(row) > 2 for row in found)
    log.info(message, paths.name(path), f"{len(found):,}", f"{len(rows):,}", f"{num_triplets:,}")
    return found
