"""Reads tagged sentences from rows: lists of words, texts with spans, or one word and its sentence in each row."""

import dataclasses
import itertools
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.words import Split, split_words
from bert_keras.mistakes import Mistake, some_of
from bert_keras.storage.csv_rows import Row, iterate_rows
from bert_keras.storage.inspection import ending_of
from bert_keras.storage.json_rows import JsonRows
from bert_keras.tasks.tables.column_names import (
    DOCUMENT_NAMES,
    PREDICTED_TAGS,
    TAG_NAMES,
    TEXT_NAMES,
    WORD_NAMES,
    folded,
    usual_name,
)
from bert_keras.tasks.tables.labels import read_list
from bert_keras.tasks.tagging.annotations import SPAN_NAMES, AnnotatedText, find_unit, read_annotated, to_tags
from bert_keras.tasks.tagging.entities import is_tag
from bert_keras.tasks.tagging.word_tables import Source, check_cells, roles_of, sentences_of_words

log = logging.getLogger("bert_keras")

NEEDED_JSON = 'it needs {"words": [...], "tags": [...]}, or {"text": ..., "label": [[start, end, type], ...]}'
_TABLES = (".csv", ".tsv", ".txt")
_ROWS_LOOKED_AT = 20
CLASS_LABEL = (
    "if the numbers are the ids of Hugging Face's ClassLabel, write their names, which are in "
    'dataset.features["ner_tags"].feature.names'
)


def read_json(
    path: str, text: str | None, tag_keys: Sequence[str], needs_tags: bool, split: Split = split_words
) -> list[Sentence]:
    """Reads the sentences of rows of JSON, see `read_conll`; `text` is their content if it is read."""
    found = JsonRows(path, NEEDED_JSON, text)
    rows = list(found.objects())  # only then, their unit is known
    return sentences_of_objects(Source(found.path, found.unit, split), rows, tag_keys, needs_tags)


def read_table(
    path: str, text: str, tag_keys: Sequence[str], needs_tags: bool, split: Split = split_words
) -> list[Sentence]:
    """Reads the sentences of the text of a CSV or TSV file: a word in each row, or lists in the cells."""
    rows = iterate_rows(path, None if ending_of(path) in _TABLES else False, text)
    names = [cell.strip() for cell in next(rows).cells]
    source, roles, rows = Source(path, split=split), roles_of(names), list(rows)
    if {"sentence", "word"} <= set(roles) or not _has_lists(names, (row.cells for row in rows), tag_keys):
        return sentences_of_words(source, names, rows, tag_keys, needs_tags)
    objects = []
    for row in rows:
        check_cells(source, names, row, {})
        objects.append((row.line, dict(zip(names, map(_list_or_text, row.cells), strict=True))))
    return sentences_of_objects(source, objects, tag_keys, needs_tags)


def is_table(lines: Sequence[str]) -> bool:
    """Returns whether the first of the lines of a file names columns that tabs separate, of words or of lists."""
    names = lines[0].split("\t")
    roles, known = set(roles_of(names)), {folded(name) for name in names}
    is_list = "tag" in roles or bool(known & set(SPAN_NAMES))
    return {"sentence", "word"} <= roles or (is_list and _has_lists(names, (line.split("\t") for line in lines[1:])))


def _has_lists(names: Sequence[str], rows: Iterable[Sequence[str]], tag_keys: Sequence[str] = TAG_NAMES) -> bool:
    """Returns whether cells of the first row are lists, or a text with a tag for each word; see `_in_lists`."""
    looked_at = itertools.islice(rows, _ROWS_LOOKED_AT)
    first = [dict(zip(names, map(_list_or_text, cells), strict=False)) for cells in looked_at]
    return any(isinstance(value, list) for row in _in_lists(first, tag_keys)[:1] for value in row.values())


def _in_lists(rows: Sequence[dict[str, Any]], tag_keys: Sequence[str]) -> Sequence[dict[str, Any]]:
    """Returns rows with lists of words and tags in place of texts that have a tag for each word between blanks.

    If all of these texts are single words, each is a word of a sentence, and nothing changes.
    """
    found = [_with_lists(row, tag_keys) for row in rows]
    return found if any(len(words_of(row) or ()) > 1 for row in found) else rows


def _with_lists(row: dict[str, Any], tag_keys: Sequence[str]) -> dict[str, Any]:
    if words_of(row) is not None:
        return row
    text = row.get(usual_name(row, (*WORD_NAMES, *TEXT_NAMES)) or "")
    words: Any = text.split() if isinstance(text, str) else text
    if not _are_texts(words):
        return row
    for name in row:
        tags = row[name].split() if isinstance(row[name], str) else row[name]
        if folded(name) not in tag_keys or not _are_texts(tags):
            continue
        is_meant = isinstance(text, str) and tags is row[name] and all(map(is_tag, tags))  # but for their number
        if is_meant or len(tags) == len(words):
            return {**row, "words": words, name: tags}
    return row


def _list_or_text(cell: str) -> Any:
    found = read_list(cell)
    return (cell or None) if found is None else [list(part) if isinstance(part, tuple) else part for part in found]


def sentences_of_objects(
    source: Source, rows: Sequence[tuple[int, dict[str, Any]]], tag_keys: Sequence[str], needs_tags: bool
) -> list[Sentence]:
    """Returns the sentences of objects, with their lines, of a file or of data in memory."""
    names = tuple(dict.fromkeys(name for _, row in rows for name in row))
    roles = roles_of(names)
    if "word" in roles and "sentence" in roles and isinstance(rows[0][1].get(names[roles["word"]]), str):
        cells = (Row(line, [_cell(row.get(name)) for name in names]) for line, row in rows)
        return sentences_of_words(source, names, cells, tag_keys, needs_tags)
    objects = _in_lists([row for _, row in rows], tag_keys)
    rows = [(line, row) for (line, _), row in zip(rows, objects, strict=True)]
    texts = [_words_or_text(row, source.place(line), tag_keys) for line, row in rows]
    texts = _without_refused(source.path, texts, needs_tags)
    tagged = _tagged(source, texts)
    name_of_document = usual_name(names, DOCUMENT_NAMES) or ""
    sentences, document, last_key = [], 0, None
    for (line, row), one in zip(rows, tagged, strict=True):
        if one is None:
            continue
        key = row.get(name_of_document)
        document += int(bool(sentences) and key != last_key)
        last_key = key
        numbers = [source.number(line)] * len(one[0])
        sentences.append(Sentence(*one, document, source.path, numbers, source.unit, row))
    return sentences


def tagged_rows(
    sentences: Sequence[Sentence], predicted_tags: Sequence[Sequence[str]], confidences: Sequence[Sequence[float]]
) -> list[dict]:
    """Returns the objects of the sentences' JSON, with "predicted_tags" and "confidences" (probabilities).

    Objects of texts get their words, and their tags if they have spans.
    """
    rows = []
    for sentence, tags, probabilities in zip(sentences, predicted_tags, confidences, strict=True):
        row = dict(sentence.row or {})
        if words_of(row) != list(sentence.words):
            row |= {"words": list(sentence.words)} | ({} if sentence.tags is None else {"tags": list(sentence.tags)})
        rounded = [round(float(value), 6) for value in probabilities]
        rows.append(row | {"predicted_tags": list(tags), "confidences": rounded})
    return rows


def _cell(value: Any) -> str:
    """Returns a value of JSON as the text of a cell; an empty cell of a column of whole numbers makes them floats."""
    if value is None:
        return ""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


def _words_or_text(
    row: Mapping[str, Any], place: str, tag_keys: Sequence[str]
) -> tuple[list[str], list[str] | None] | AnnotatedText:
    """Returns the words and the tags (None without them) of a row, or its text with spans."""
    words = words_of(row)
    tags = tags_of(row, place, tag_keys) if words is not None else None
    if tags is None:
        text = read_annotated(row, place)
        if text is not None and (words is None or text.spans is not None):
            return text
    if words is None and (key := usual_name(row, WORD_NAMES)) is not None:
        found = json.dumps(row[key], ensure_ascii=False)[:60]
        raise Mistake('{}: "{}" is {}, but must be a list of at least one text', place, key, found)
    if words is None:
        raise Mistake('{} has no "words", but {}; {}', place, some_of([*row], 10) or "nothing", NEEDED_JSON)
    if tags is not None and len(tags[1]) != len(words):
        found = f"{len(words)} words but {len(tags[1])} {tags[0]}"
        raise Mistake("{} has {}; every word needs one tag", place, found)
    return words, None if tags is None else tags[1]


def words_of(row: Mapping[str, Any]) -> list[str] | None:
    """Returns the words that a row of JSON lists; None if it has none."""
    keys = {folded(key): key for key in row}
    found = (row[keys[name]] for name in WORD_NAMES if name in keys)
    return next((words for words in found if _are_texts(words)), None)


def tags_of(row: Mapping[str, Any], place: str, tag_keys: Sequence[str]) -> tuple[str, list[str]] | None:
    """Returns the key and the tags of a row of words; predicted tags, if wanted, precede others."""
    keys = {folded(key): key for key in row if row[key] is not None}
    names = [keys[name] for name in tag_keys if name in keys]
    if PREDICTED_TAGS in names:
        names = [PREDICTED_TAGS]
    flat = [name for name in names if not _may_be_spans(row[name], row)]
    good = [name for name in flat if _are_texts(row[name])]
    if len(good) > 1 and any(row[name] != row[good[0]] for name in good):
        listed = " and ".join(f'"{name}"' for name in good)
        raise Mistake("{} has different tags in {}; keep one of them", place, listed)
    if good:
        return good[0], row[good[0]]
    if not flat:
        return None
    name = flat[0]
    problem = f'{place}: "{name}" is {json.dumps(row[name], ensure_ascii=False)[:60]}'
    if isinstance(row[name], list) and any(isinstance(value, int | float) for value in row[name]):
        raise Mistake("{}, but a tag is a text such as B-PER; {}", problem, CLASS_LABEL)
    raise Mistake("{}, but must be a list of at least one text", problem)


def _are_texts(values: Any) -> bool:
    return isinstance(values, list) and bool(values) and all(isinstance(value, str) for value in values)


def _may_be_spans(value: Any, row: Mapping[str, Any]) -> bool:
    if not isinstance(value, list):
        return False
    return any(isinstance(part, list | dict) for part in value) or (not value and "text" in row)


def _without_refused(path: str, texts: Sequence[Any], needs_tags: bool) -> list[Any]:
    """Returns None for each text whose annotation does not count; without `needs_tags`, only its tags are left out."""
    refused = [text for text in texts if isinstance(text, AnnotatedText) and text.refusal]
    if not refused:
        return list(texts)
    first = f"{refused[0].place} ({refused[0].refusal})"
    if needs_tags and len(refused) == len(texts):
        raise Mistake("{} has no annotation that counts, the first is {}; give a file with some", path, first)
    what = "left out, because their annotation does not count" if needs_tags else "read without tags"
    log.warning("%s: texts that are %s: %d of %d; the first is %s", path, what, len(refused), len(texts), first)

    def kept(text: Any) -> Any:
        if not isinstance(text, AnnotatedText) or not text.refusal:
            return text
        return None if needs_tags else dataclasses.replace(text, spans=None)

    return list(map(kept, texts))


def _tagged(source: Source, texts: Sequence[Any]) -> list[tuple[list[str], list[str] | None] | None]:
    """Returns the words and tags of each text; one line of the log tells how spans became tags."""
    texts = [
        dataclasses.replace(text, split=source.split) if isinstance(text, AnnotatedText) else text for text in texts
    ]
    annotated = [text for text in texts if isinstance(text, AnnotatedText)]
    unit, num_cut, tagged = find_unit(annotated), 0, []
    for text in texts:
        if isinstance(text, AnnotatedText):
            words, tags, num = to_tags(text, unit)
            if not words:
                raise Mistake("{} has no word in its text; give a text, or remove the row", text.place)
            num_cut += num
            text = words, tags
        tagged.append(text)
    num_spans = sum(len(text.spans or ()) for text in annotated)
    if num_spans:
        spans = f"spans: {num_spans:,}, their offsets count {unit}"
        cut = f"words that are cut where a span begins or ends: {num_cut:,}"
        log.info("%s: %s; texts are split into words as for prediction, %s", source.path, spans, cut)
    return tagged
