"""Reads tagged sentences from rows: lists of words, texts with spans, or one word and its sentence in each row."""

import dataclasses
import json
import logging
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.tasks.column_names import (
    DOCUMENT_NAMES,
    PREDICTED_TAGS,
    SENTENCE_NAMES,
    TAG_NAMES,
    WORD_NAMES,
    WORD_NUMBER_NAMES,
    folded,
)
from bert_keras.data_prep.tasks.tables import Row
from bert_keras.data_prep.tasks.tagging.annotations import AnnotatedText, find_unit, read_annotated, to_tags
from bert_keras.storage import text_files
from bert_keras.storage.json_rows import JsonRows

log = logging.getLogger("bert_keras")

NEEDED_JSON = 'it needs {"words": [...], "tags": [...]}, or {"text": ..., "label": [[start, end, type], ...]}'
CLASS_LABEL = (
    "if the numbers are the ids of Hugging Face's ClassLabel, write their names, which are in "
    'dataset.features["ner_tags"].feature.names'
)


@dataclasses.dataclass(frozen=True)
class Source:
    """The file of rows: its path or the name of data in memory, and how to name a line of it."""

    path: str
    unit: str = "line"

    def number(self, line: int) -> int:
        return line - (self.unit == "row")

    def place(self, line: int) -> str:
        return f"{self.path} {self.unit} {self.number(line)}"


def read_json(path: str | os.PathLike, tag_keys: Sequence[str], needs_tags: bool) -> list[Sentence]:
    """Reads the sentences of rows of JSON; see `read_conll`."""
    found = JsonRows(path, NEEDED_JSON)
    rows = []
    for line, row in found:
        if isinstance(row, ValueError):
            raise row
        rows.append((line, row))
    source = Source(found.path, found.unit)
    names = tuple(dict.fromkeys(name for _, row in rows for name in row))
    roles = roles_of(names)
    if "word" in roles and "sentence" in roles and isinstance(rows[0][1].get(names[roles["word"]]), str):
        cells = (Row(line, [_cell(row.get(name)) for name in names]) for line, row in rows)
        return sentences_of_words(source, names, cells, needs_tags)
    texts = [_words_or_text(row, source.place(line), tag_keys) for line, row in rows]
    texts = _without_refused(source.path, texts, needs_tags)
    tagged = _tagged(source.path, texts)
    sentences, document, last_key = [], 0, None
    for (line, row), one in zip(rows, tagged, strict=True):
        if one is None:
            continue
        document += int(bool(sentences) and row.get("document") != last_key)
        last_key = row.get("document")
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


def roles_of(names: Sequence[str]) -> dict[str, int]:
    """Returns the index of the column of each role: word, tag, sentence, document and number of the word."""
    known = [folded(name) for name in names]
    roles = {"sentence": SENTENCE_NAMES, "word": WORD_NAMES, "tag": TAG_NAMES}
    roles |= {"document": DOCUMENT_NAMES, "number": WORD_NUMBER_NAMES}
    found = {role: [known.index(name) for name in usual if name in known] for role, usual in roles.items()}
    return {role: places[0] for role, places in found.items() if places}


def sentences_of_words(source: Source, names: Sequence[str], rows: Iterable[Row], needs_tags: bool) -> list[Sentence]:
    """Returns the sentences of a table with one word in each row, and a column that says its sentence.

    A sentence begins where this column has another value that is not empty. A value that returns after another, and a
    number of a word that goes back, show that the rows are not in order: an error.
    """
    roles = roles_of(names)
    missing = [name for name in ("sentence", "word", "tag") if name not in roles and (needs_tags or name != "tag")]
    if missing:
        raise ValueError(
            f"{source.path} has the columns {', '.join(names)}, but a table of words needs columns such as Sentence #, "
            "Word, Tag; rename its columns, or give CoNLL columns (.txt) or JSON lines"
        )
    groups: list[tuple[tuple[str, str], list[Row]]] = []
    ends: dict[tuple[str, str], int] = {}
    number = None
    for row in rows:
        _check_cells(source, names, row, roles)
        cells = {role: row.cells[place].strip() for role, place in roles.items()}
        last = groups[-1][0] if groups else ("", "")
        key = cells.get("document") or last[0], cells["sentence"] or last[1]
        if not groups or key != last:
            if key in ends:
                raise ValueError(_out_of_order(source, row.line, key, ends[key], "document" in roles))
            groups.append((key, []))
            number = None
        groups[-1][1].append(row)
        ends[key] = source.number(row.line)
        number = _check_number(source, row.line, cells.get("number", ""), number, key[1])
    if groups and not any(name for _, name in ends):
        raise ValueError(
            f'{source.path}: the column "{names[roles["sentence"]]}" is empty in every row; write there which sentence '
            "each word belongs to"
        )
    return _sentences_of_groups(source, groups, roles, len(names))


def _sentences_of_groups(
    source: Source, groups: Sequence[tuple[tuple[str, str], list[Row]]], roles: Mapping[str, int], num_columns: int
) -> list[Sentence]:
    word, tag = roles["word"], roles.get("tag")
    # As CoNLL columns: the word first, the tag last.
    others = [place for place in range(num_columns) if place not in (roles["sentence"], word, tag)]
    kept = [word, *others, *([] if tag is None else [tag])]
    sentences, document = [], 0
    for number, ((name, _), rows) in enumerate(groups):
        document += int(number > 0 and name != groups[number - 1][0][0])
        sentences.append(
            Sentence(
                words=[row.cells[word].strip() for row in rows],
                tags=None if tag is None else [row.cells[tag].strip() for row in rows],
                document=document,
                path=source.path,
                line_numbers=[source.number(row.line) for row in rows],
                unit=source.unit,
                lines=["\t".join(" ".join(row.cells[place].split()) for place in kept) for row in rows],
                before=[""] if number else [],
            )
        )
    return sentences


def _check_cells(source: Source, names: Sequence[str], row: Row, roles: Mapping[str, int]) -> None:
    place = source.place(row.line)
    if len(row.cells) != len(names):
        raise ValueError(f"{place}: {len(row.cells)} cells, but the header has {len(names)}")
    if [cell.strip() for cell in row.cells] == list(names):
        raise ValueError(f"{place} repeats the header, as in files that were joined; remove this line")
    if text_files.is_blank(row.cells[roles["word"]]):
        raise ValueError(f'{place} has no word in the column "{names[roles["word"]]}"; put the word there')


def _out_of_order(source: Source, line: int, key: tuple[str, str], last: int, has_documents: bool) -> str:
    of_document = f' of the document "{key[0]}"' if has_documents else ""
    advice = "sort the rows by sentence" + (
        "" if has_documents else ", or, if sentences of several documents have equal numbers, add a column document"
    )
    return (
        f'{source.place(line)} continues the sentence "{key[1]}"{of_document}, whose words ended in {source.unit} '
        f"{last}; {advice}"
    )


def _check_number(source: Source, line: int, cell: str, last: float | None, sentence: str) -> float | None:
    """Returns the number of a word in its sentence, which must not go back; None if the column has other values."""
    try:
        number = float(cell)
    except ValueError:
        return None
    if last is not None and number < last:
        raise ValueError(
            f'{source.place(line)}: word number {number:g} of the sentence "{sentence}" follows number {last:g}; sort '
            "the rows by sentence and word"
        )
    return number


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
    if words is None:
        raise _unusable(row, place)
    if tags is not None and len(tags[1]) != len(words):
        found = f"{len(words)} words but {len(tags[1])} {tags[0]}"
        raise ValueError(f"{place} has {found}; every word needs one tag")
    return words, None if tags is None else tags[1]


def words_of(row: Mapping[str, Any]) -> list[str] | None:
    """Returns the words that a row of JSON lists; None if it has none."""
    keys = {folded(key): key for key in row}
    found = (row[keys[name]] for name in WORD_NAMES if name in keys)
    return next((words for words in found if _are_texts(words)), None)


def _unusable(row: Mapping[str, Any], place: str) -> ValueError:
    keys = {folded(key): key for key in row}
    key = next((keys[name] for name in WORD_NAMES if name in keys), None)
    if key is None:
        return ValueError(f'{place} has no "words", but {", ".join(row) or "nothing"}; {NEEDED_JSON}')
    found = json.dumps(row[key], ensure_ascii=False)[:60]
    return ValueError(f'{place}: "{key}" is {found}, but must be a list of at least one text')


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
        raise ValueError(f"{place} has different tags in {listed}; keep one of them")
    if good:
        return good[0], row[good[0]]
    if not flat:
        return None
    name = flat[0]
    problem = f'{place}: "{name}" is {json.dumps(row[name], ensure_ascii=False)[:60]}'
    if isinstance(row[name], list) and any(isinstance(value, int | float) for value in row[name]):
        raise ValueError(f"{problem}, but a tag is a text such as B-PER; {CLASS_LABEL}")
    raise ValueError(f"{problem}, but must be a list of at least one text")


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
        raise ValueError(f"{path} has no annotation that counts, the first is {first}; give a file with some")
    what = "left out, because their annotation does not count" if needs_tags else "read without tags"
    log.warning("%s: texts that are %s: %d of %d; the first is %s", path, what, len(refused), len(texts), first)

    def kept(text: Any) -> Any:
        if not isinstance(text, AnnotatedText) or not text.refusal:
            return text
        return None if needs_tags else dataclasses.replace(text, spans=None)

    return list(map(kept, texts))


def _tagged(path: str, texts: Sequence[Any]) -> list[tuple[list[str], list[str] | None] | None]:
    """Returns the words and tags of each text; one line of the log tells how spans became tags."""
    annotated = [text for text in texts if isinstance(text, AnnotatedText)]
    unit, num_cut, tagged = find_unit(annotated), 0, []
    for text in texts:
        if isinstance(text, AnnotatedText):
            words, tags, num = to_tags(text, unit)
            if not words:
                raise ValueError(f"{text.place} has no word in its text; give a text, or remove the row")
            num_cut += num
            text = words, tags
        tagged.append(text)
    num_spans = sum(len(text.spans or ()) for text in annotated)
    if num_spans:
        spans = f"spans: {num_spans:,}, their offsets count {unit}"
        cut = f"words that are cut where a span begins or ends: {num_cut:,}"
        log.info("%s: %s; texts are split into words as for prediction, %s", path, spans, cut)
    return tagged
