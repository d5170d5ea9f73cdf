"""Reads sentences in columns, one word on each line: CoNLL-2003, GermEval, CoNLL-U and similar formats."""

import dataclasses
import itertools
import logging
import re

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.tasks.tag_schemes import is_tag

log = logging.getLogger("bert_keras")

DOCUMENT_START = "-DOCSTART-"
BLANKS = " \t"

_COMMENT = "#"
_NEW_DOCUMENT = re.compile(r"#\s*newdoc\b")
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
    path: str, text: str, word_column: int | None = None, tag_column: int | None = None, needs_tags: bool = True
) -> list[Sentence]:
    """Reads the sentences of a file of columns.

    Args:
        path: the file, for messages.
        text: the content of the file, with line feeds.
        word_column: index of the column of the words, from 0, or from the end if negative; None: the first, or the
            second if the first counts the words of each sentence.
        tag_column: the same for the tags; None: the last.
        needs_tags: whether the column of the tags is required.

    Raises:
        ValueError: the number of columns varies, or a requested column or a word is missing (names file and line).
    """
    lines = text.split("\n")
    is_row = [bool(line.strip(BLANKS)) and not line.startswith(DOCUMENT_START) for line in lines]
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
            document += any(line.startswith(DOCUMENT_START) or _NEW_DOCUMENT.match(line) for line in between)
        start = end
    if sentences and not is_row[-1]:
        sentences[-1] = dataclasses.replace(sentences[-1], after=between)
    return [sentence for sentence in sentences if sentence.words]


def _find_layout(path, lines, is_row, word_column, tag_column, needs_tags):
    rows = [number for number, is_one in enumerate(is_row) if is_one]
    rows = [number for number in rows if not lines[number].startswith(_COMMENT)] or rows
    is_tabbed = all("\t" in lines[number] for number in rows)
    num_columns = len(_split(lines[rows[0]], is_tabbed))
    is_numbered = num_columns > 1 and _is_numbered(lines, is_row, is_tabbed)
    layout = _Layout(is_tabbed, rows[0] + 1, num_columns, is_numbered)
    word = _resolve(path, layout, "word_column", word_column, int(is_numbered))
    tag = -1 if tag_column is None else tag_column
    if not needs_tags and not -num_columns <= tag < num_columns:
        tag = None
    else:
        tag = _resolve(path, layout, "tag_column", tag, -1)
    if tag == word and tag_column is not None and needs_tags and num_columns > 1:
        raise ValueError(f"{path}: --word_column and --tag_column are both column {word}; give each its own column")
    layout = dataclasses.replace(layout, word=word, tag=None if tag == word else tag)
    if is_numbered or word_column is not None or tag_column is not None:
        _tell_layout(path, lines, rows, layout, tag_column)
    return layout


def _resolve(path, layout, flag, column, default):
    """Returns the index of a column from 0."""
    column = default if column is None else column
    if not -layout.num_columns <= column < layout.num_columns:
        raise ValueError(
            f"{path} line {layout.first_line} has {_in_columns(layout.num_columns)}, counted from 0, so --{flag}="
            f"{column} is not one of them"
        )
    return column % layout.num_columns


def _is_numbered(lines, is_row, is_tabbed):
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


def _tell_layout(path, lines, rows, layout, tag_column):
    log.info(
        "%s: %d columns, counted from 0; column %d has the words%s",
        *(path, layout.num_columns, layout.word),
        "" if layout.tag is None else f" and column {layout.tag} the tags",
    )
    other = None if layout.tag is None else layout.tag - 1
    if tag_column is None and layout.is_numbered and other is not None and other > layout.word:
        rows = [_split(lines[number], layout.is_tabbed) for number in rows]
        if all(len(row) == layout.num_columns and is_tag(row[other]) for row in rows):
            log.warning("%s: column %d also has tags; --tag_column=%d reads these", path, other, other)


def _leave_out_comments(path, lines, is_row, layout):
    """Clears `is_row` for lines before a sentence that begin with # and do not look like a word."""
    count = 0
    for number, line in enumerate(lines):
        if is_row[number] and line.startswith(_COMMENT) and not (number and is_row[number - 1]):
            row = _split(line, layout.is_tabbed)
            if len(row) != layout.num_columns or _lacks_tag(row, lines[layout.first_line - 1], layout):
                is_row[number] = False
                count += 1
    if count:
        log.info("%s: %s comment lines (#) are skipped", path, f"{count:,}")


def _lacks_tag(row, usual_line, layout):
    """Returns whether a line has no tag in the column where a usual line has one."""
    if layout.tag is None or row == _split(usual_line, layout.is_tabbed):
        return False
    return is_tag(_split(usual_line, layout.is_tabbed)[layout.tag]) and not is_tag(row[layout.tag])


def _make_sentence(path, lines, start, end, layout, document, before):
    rows, numbers, skipped = [], [], {}
    for number in range(start, end):
        row = _split(lines[number], layout.is_tabbed)
        if layout.is_numbered and _NO_WORD.fullmatch(row[0]):
            skipped.setdefault(len(rows), []).append(lines[number])
            continue
        _check_row(path, row, number + 1, layout)
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


def _split(line, is_tabbed):
    if is_tabbed:
        return [column.strip(" ") for column in line.rstrip(BLANKS).split("\t")]
    return re.split(f"[{BLANKS}]+", line.strip(BLANKS))


def _check_row(path, row, number, layout):
    """Rejects a line without a word, or with another number of columns than the first line."""
    if len(row) != layout.num_columns:
        raise ValueError(
            f"{path} line {number} has {_in_columns(len(row))}, but line {layout.first_line} has "
            f"{_in_columns(layout.num_columns)}; all lines need as many"
        )
    if not row[layout.word]:
        raise ValueError(
            f"{path} line {number} has no word in column {layout.word}, counted from 0; put the word there"
        )


def _in_columns(count):
    return f"{count} column{'s' * (count != 1)}"
