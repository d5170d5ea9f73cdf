"""Reads and formats columns of words and tags, as in the files of CoNLL."""

import dataclasses
import itertools
import logging
import re
from collections.abc import Sequence

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.mistakes import Message, Mistake, Setting, several
from bert_keras.tasks.tagging.entities import is_tag

log = logging.getLogger("bert_keras")

_DOCUMENT_START = "-DOCSTART-"
_NEW_DOCUMENT = re.compile(r"-DOCSTART-|#\s*newdoc\b")
_BLANKS = " \t"
_COMMENT = "#"
# CoNLL-U: "1-2" numbers a token of several words, "5.1" a word that is not in the text.
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


@dataclasses.dataclass(frozen=True)
class _Layout:
    """The columns of a file; `word` and `tag` count them from 0.

    `first_line` is the number of the line that determines `num_columns`. `is_numbered` is true if the first column
    counts the words of each sentence from 1.
    """

    is_tabbed: bool
    first_line: int
    num_columns: int
    is_numbered: bool = False
    word: int = 0
    tag: int | None = None


def read_columns(
    path: str, lines: Sequence[str], word_column: int | None, tag_column: int | None, needs_tags: bool
) -> list[Sentence]:
    """Returns the sentences of the lines of a file, see `read_conll`."""
    is_row = [bool(line.strip(_BLANKS)) and not line.startswith(_DOCUMENT_START) for line in lines]
    if not any(is_row):
        return []
    layout = _find_layout(path, lines, is_row, word_column, tag_column, needs_tags)
    _leave_out_comments(path, lines, is_row, layout)
    sentences, between, document, start = [], [], 0, 0
    for is_sentence, group in itertools.groupby(is_row):
        end = start + len(list(group))
        if is_sentence:
            sentences.append(_make_sentence(path, lines, start, end, layout, document, between))
        else:
            between = lines[start:end]
            document += any(map(_NEW_DOCUMENT.match, between))
        start = end
    if sentences and not is_row[-1]:
        sentences[-1] = dataclasses.replace(sentences[-1], after=between)
    return [sentence for sentence in sentences if sentence.words]


def format_columns(sentences: Sequence[Sentence], predicted_tags: Sequence[Sequence[str]]) -> str:
    """Returns the file of all its sentences, from `read_conll`, with the predicted tags as an additional last column.

    Blank lines and comments stay. To keep the number of columns equal, -DOCSTART- lines with several columns get the
    tag O, and skipped lines get `_`.
    """
    lines = []
    for sentence, tags in zip(sentences, predicted_tags, strict=True):
        blank = "\t" if "\t" in sentence.lines[0] else " "
        lines += [_format_separator(line, blank) for line in sentence.before]
        for word, (line, tag) in enumerate(zip(sentence.lines, tags, strict=True)):
            lines += [f"{other}{blank}_" for other in sentence.skipped.get(word, ())]
            lines.append(line.rstrip(_BLANKS) + blank + tag)
        lines += [f"{other}{blank}_" for other in sentence.skipped.get(len(sentence.lines), ())]
        lines += [_format_separator(line, blank) for line in sentence.after]
    return "\n".join(lines).rstrip("\n") + "\n"


def _format_separator(line: str, blank: str) -> str:
    is_row = line.startswith(_DOCUMENT_START) and len(line.split()) > 1
    return line.rstrip(_BLANKS) + blank + "O" if is_row else line


def _find_layout(
    path: str,
    lines: Sequence[str],
    is_row: Sequence[bool],
    word_column: int | None,
    tag_column: int | None,
    needs_tags: bool,
) -> _Layout:
    rows = [number for number, is_one in enumerate(is_row) if is_one]
    rows = [number for number in rows if not lines[number].startswith(_COMMENT)] or rows
    is_tabbed = all("\t" in lines[number] for number in rows)
    num_columns = len(_split(lines[rows[0]], is_tabbed))
    is_numbered = num_columns > 1 and _is_numbered(lines, is_row, is_tabbed)
    layout = _Layout(is_tabbed, rows[0] + 1, num_columns, is_numbered)
    word = _resolve(path, layout, "word_column", int(is_numbered) if word_column is None else word_column)
    tag = -1 if tag_column is None else tag_column
    if not needs_tags and not -num_columns <= tag < num_columns:
        tag = None
    else:
        tag = _resolve(path, layout, "tag_column", tag)
    if tag == word and tag_column is not None and needs_tags and num_columns > 1:
        raise Mistake("{}: {word_column} and {tag_column} are both column {}; give each its own column", path, word)
    layout = dataclasses.replace(layout, word=word, tag=None if tag == word else tag)
    if is_numbered or word_column is not None or tag_column is not None:
        _tell_layout(path, [lines[number] for number in rows], layout, tag_column)
    return layout


def _resolve(path: str, layout: _Layout, flag: str, column: int) -> int:
    """Returns the index of a column from 0."""
    if not -layout.num_columns <= column < layout.num_columns:
        columns = f"{several(layout.num_columns, 'columns')}, counted from 0"
        raise Mistake(
            "{} line {} has {}, so {}={} is not one of them", path, layout.first_line, columns, Setting(flag), column
        )
    return column % layout.num_columns


def _is_numbered(lines: Sequence[str], is_row: Sequence[bool], is_tabbed: bool) -> bool:
    """Returns whether the first column counts the words of each sentence from 1, and the second has words."""
    longest, are_all_tags = 0, True
    for is_sentence, group in itertools.groupby(zip(lines, is_row, strict=True), lambda pair: pair[1]):
        if not is_sentence:
            continue
        group = [line for line, _ in group]
        rows = [_split(line, is_tabbed) for line in itertools.dropwhile(lambda line: line.startswith(_COMMENT), group)]
        numbers = [row[0] for row in rows if not _NO_WORD.fullmatch(row[0])]
        if numbers != [str(number) for number in range(1, len(numbers) + 1)]:
            return False
        longest = max(longest, len(numbers))
        are_all_tags = are_all_tags and all(len(row) == 2 and is_tag(row[1]) for row in rows)
    return longest > 1 and not are_all_tags


def _tell_layout(path: str, rows: Sequence[str], layout: _Layout, tag_column: int | None) -> None:
    tags = "" if layout.tag is None else f" and column {layout.tag} the tags"
    message = "%s: %d columns, counted from 0; column %d has the words%s"
    log.info(message, path, layout.num_columns, layout.word, tags)
    other = None if layout.tag is None else layout.tag - 1
    if tag_column is None and layout.is_numbered and other is not None and other > layout.word:
        cells = [_split(line, layout.is_tabbed) for line in rows]
        if all(len(row) == layout.num_columns and is_tag(row[other]) for row in cells):
            log.warning(Message("{}: column {} also has tags; {tag_column}={} reads these", path, other, other))


def _leave_out_comments(path: str, lines: Sequence[str], is_row: list[bool], layout: _Layout) -> None:
    """Clears `is_row` for lines before a sentence that begin with # and do not look like a word."""
    count = 0
    usual = _split(lines[layout.first_line - 1], layout.is_tabbed)
    tag = layout.tag if layout.tag is not None and is_tag(usual[layout.tag]) else None
    for number, line in enumerate(lines):
        if is_row[number] and line.startswith(_COMMENT) and not (number and is_row[number - 1]):
            row = _split(line, layout.is_tabbed)
            if len(row) != layout.num_columns or (tag is not None and not is_tag(row[tag])):
                is_row[number] = False
                count += 1
    if count:
        log.info("%s: %s comment lines (#) are skipped", path, f"{count:,}")


def _make_sentence(
    path: str, lines: Sequence[str], start: int, end: int, layout: _Layout, document: int, before: Sequence[str]
) -> Sentence:
    rows, skipped = [], {}
    numbers: list[int] = []
    for number in range(start, end):
        row = _split(lines[number], layout.is_tabbed)
        if layout.is_numbered and _NO_WORD.fullmatch(row[0]):
            skipped.setdefault(len(rows), []).append(lines[number])
            continue
        place = f"{path} line {number + 1}"
        if len(row) != layout.num_columns:
            other = f"line {layout.first_line} has {several(layout.num_columns, 'columns')}"
            raise Mistake("{} has {}, but {}; all lines need as many", place, several(len(row), "columns"), other)
        if not row[layout.word]:
            raise Mistake("{} has no word in column {}, counted from 0; put the word there", place, layout.word)
        rows.append(row)
        numbers.append(number)
    return Sentence(
        words=[row[layout.word] for row in rows],
        tags=None if layout.tag is None else [row[layout.tag] for row in rows],
        document=document,
        path=path,
        line_numbers=[number + 1 for number in numbers],
        lines=[lines[number] for number in numbers],
        before=before,
        skipped=skipped,
    )


def _split(line: str, is_tabbed: bool) -> list[str]:
    if is_tabbed:
        return [column.strip(" ") for column in line.rstrip(_BLANKS).split("\t")]
    return re.split(f"[{_BLANKS}]+", line.strip(_BLANKS))
