"""Reads tables with one word in each row and a column that says its sentence, and checks the order of the rows."""

import dataclasses
from collections.abc import Iterable, Mapping, Sequence

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.words import Split, split_words
from bert_keras.mistakes import Mistake
from bert_keras.storage import text_files
from bert_keras.storage.csv_rows import Row
from bert_keras.tasks.tables.column_names import (
    DOCUMENT_NAMES,
    PREDICTED_TAGS,
    SENTENCE_NAMES,
    TAG_NAMES,
    WORD_NAMES,
    WORD_NUMBER_NAMES,
    folded,
)


@dataclasses.dataclass(frozen=True)
class Source:
    """The file of rows: its path or the name of data in memory, how to name a line, and how to split a text."""

    path: str
    unit: str = "line"
    split: Split = split_words

    def number(self, line: int) -> int:
        return line - (self.unit == "row")

    def place(self, line: int) -> str:
        return f"{self.path} {self.unit} {self.number(line)}"


def roles_of(names: Sequence[str], tag_keys: Sequence[str] = TAG_NAMES) -> dict[str, int]:
    """Returns the index of the column of each role: word, tag, sentence, document and number of the word.

    The first of the `tag_keys` that is a name has the tags.
    """
    known = [folded(name) for name in names]
    roles = {"sentence": SENTENCE_NAMES, "word": WORD_NAMES, "tag": tag_keys}
    roles |= {"document": DOCUMENT_NAMES, "number": WORD_NUMBER_NAMES}
    found = {role: [known.index(name) for name in usual if name in known] for role, usual in roles.items()}
    return {role: places[0] for role, places in found.items() if places}


def sentences_of_words(
    source: Source, names: Sequence[str], rows: Iterable[Row], tag_keys: Sequence[str], needs_tags: bool
) -> list[Sentence]:
    """Returns the sentences of a table with one word in each row, and a column that says its sentence.

    A sentence begins where this column has another value that is not empty. A value that returns after another, and a
    number of a word that goes back, show that the rows are not in order: an error.
    """
    roles = roles_of(names, tag_keys)
    missing = [name for name in ("sentence", "word", "tag") if name not in roles and (needs_tags or name != "tag")]
    if missing:
        raise Mistake(
            "{} has the columns {}, but a table of words needs columns such as Sentence #, "
            "Word, {}; rename its columns, or give CoNLL columns (.txt) or JSON lines",
            source.path,
            ", ".join(names),
            PREDICTED_TAGS if PREDICTED_TAGS in tag_keys else "Tag",
        )
    groups: list[tuple[tuple[str, str], list[Row]]] = []
    ends: dict[tuple[str, str], int] = {}
    number = None
    for row in rows:
        check_cells(source, names, row, roles)
        cells = {role: row.cells[place].strip() for role, place in roles.items()}
        last = groups[-1][0] if groups else ("", "")
        key = cells.get("document") or last[0], cells["sentence"] or last[1]
        if not groups or key != last:
            if key in ends:
                document_note, advice = f' of the document "{key[0]}"', "sort the rows by sentence"
                if "document" not in roles:
                    document_note = ""
                    advice += ", or, if sentences of several documents have equal numbers, add a column document"
                raise Mistake(
                    '{} continues the sentence "{}"{}, whose words ended in {} {}; {}',
                    *(source.place(row.line), key[1], document_note, source.unit, ends[key], advice),
                )
            groups.append((key, []))
            number = None
        groups[-1][1].append(row)
        ends[key] = source.number(row.line)
        number = _check_number(source, row.line, cells.get("number", ""), number, key[1])
    if groups and not any(name for _, name in ends):
        raise Mistake(
            '{}: the column "{}" is empty in every row; write there which sentence each word belongs to',
            source.path,
            names[roles["sentence"]],
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


def check_cells(source: Source, names: Sequence[str], row: Row, roles: Mapping[str, int]) -> None:
    """Refuses a row of other length, a header that is repeated, and a row without a word."""
    place = source.place(row.line)
    if len(row.cells) != len(names):
        raise Mistake("{}: {} cells, but the header has {}", place, len(row.cells), len(names))
    if [cell.strip() for cell in row.cells] == list(names):
        raise Mistake("{} repeats the header, as in files that were joined; remove this line", place)
    if "word" in roles and text_files.is_blank(row.cells[roles["word"]]):
        raise Mistake('{} has no word in the column "{}"; put the word there', place, names[roles["word"]])


def _check_number(source: Source, line: int, cell: str, last: float | None, sentence: str) -> float | None:
    """Returns the number of a word in its sentence, which must not go back; None if the column has other values."""
    try:
        number = float(cell)
    except ValueError:
        return None
    if last is not None and number < last:
        raise Mistake(
            '{}: word number {:g} of the sentence "{}" follows number {:g}; sort the rows by sentence and word',
            source.place(line),
            number,
            sentence,
            last,
        )
    return number
