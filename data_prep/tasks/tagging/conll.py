"""Reads sentences of words and tags from CoNLL columns, tables or JSON, and formats predicted tags in the same way."""

import collections
import dataclasses
import itertools
import logging
import os
import re
from collections.abc import Iterator, Sequence

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.tasks.column_names import TAG_NAMES
from bert_keras.data_prep.tasks.tagging.rows import (
    CLASS_LABEL,
    is_table,
    read_json,
    read_table,
    tags_of,
    words_of,
)
from bert_keras.evaluation.entities import NEEDED_TAGS, find_scheme, is_tag, to_bio
from bert_keras.mistakes import Message, Mistake, Setting
from bert_keras.storage import text_files
from bert_keras.storage.inspection import format_by_name
from bert_keras.storage.json_rows import look_for_rows

log = logging.getLogger("bert_keras")

_NEEDED = "give a file of CoNLL columns or JSON lines"
_DOCUMENT_START = "-DOCSTART-"
_NEW_DOCUMENT = re.compile(r"-DOCSTART-|#\s*newdoc\b")
_BLANKS = " \t"
_SHARE_OF_SINGLE_WORDS = 0.9
_COMMENT = "#"
# CoNLL-U: "1-2" numbers a token of several words, "5.1" a word that is not in the text.
_NO_WORD = re.compile(r"[0-9]+[-.][0-9]+")


def read_conll(
    path: str | os.PathLike,
    needs_tags: bool = True,
    word_column: int | None = None,
    tag_column: int | None = None,
    is_bio: bool = True,
    tag_keys: Sequence[str] = TAG_NAMES,
) -> list[Sentence]:
    """Reads the sentences of a file; the log reports their number and their tag scheme.

    Columns: each line has a word, and all lines have the same number of columns. Tabs separate the columns if every
    line has one, otherwise blanks. A blank line ends a sentence; a line -DOCSTART- or `# newdoc` begins a document.
    Other lines before a sentence that begin with # are comments, unless they look like its first word. If the first
    column counts the words of each sentence, as in CoNLL-U and GermEval, lines that it numbers 1-2 or 5.1 are skipped.

    Tables of words (`.csv`, or tabs): a header names the columns of the sentence ("Sentence #"), the word ("Word") and
    the tag ("Tag"), see `rows.sentences_of_words`.

    JSON, see `JsonRows`: objects with "words", "tags" and optionally "document", which is the same for all sentences of
    a document; or with a text and its spans, see `annotations`. `column_names` has other names of these keys.

    Tags may be BIO (IOB2: every entity begins with B-), IOB1 (B- only begins an entity after another of its type),
    IOBES or BILOU, also without types (B, I, O). All become BIO, which keeps every entity that conlleval finds.

    The indices of columns count from 0, or from the end if negative. The default of `word_column` is the first, or the
    second if the first counts the words; that of `tag_column` is the last. Without `needs_tags`, sentences have no tags
    if the last column does not hold tags or is the only column. `tag_keys` are the keys of tags in JSON. Errors
    (ValueError) name file and line.
    """
    path = os.fspath(path)
    has_flags = (word_column, tag_column) != (None, None)
    is_json, text = look_for_rows(path, _NEEDED)
    if is_json:
        if has_flags:
            raise Mistake("{} is JSON, which has no columns; leave out {word_column} and {tag_column}", path)
        sentences = read_json(path, text, tag_keys, needs_tags)
        path = sentences[0].path
    else:
        text = text_files.read_text(path, _NEEDED) if text is None else text
        lines = text_files.unify_line_ends(text).split("\n")
        if format_by_name(path) == "csv" or is_table(lines):
            sentences = read_table(path, text, tag_keys, needs_tags)
            if has_flags:
                raise Mistake("{} has a header that names the columns; leave out {word_column} and {tag_column}", path)
        else:
            sentences = _read_columns(path, lines, word_column, tag_column, needs_tags)
            sentences = _with_tags_of_keys(path, sentences)
    if not sentences:
        raise Mistake("{} has no sentence; it needs one word and its tag on a line", path)
    _warn_of_single_words(path, sentences)
    problem = _problem_with_tags(sentences, tag_keys)
    if problem and needs_tags:
        raise Mistake("{} {}; {}", path, *problem)
    if problem:
        sentences = [dataclasses.replace(sentence, tags=None) for sentence in sentences]
        scheme = f"read without tags: {problem[0]}"
    else:
        sentences, scheme = _to_bio(sentences, is_bio)
    num_words = sum(len(sentence.words) for sentence in sentences)
    num_documents = len({sentence.document for sentence in sentences})
    counts = f"{len(sentences):,} sentences, {num_words:,} words, documents: {num_documents}"
    log.info("%s: %s; %s", path, counts, scheme)
    return sentences


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


def _with_tags_of_keys(path: str, sentences: list[Sentence]) -> list[Sentence]:
    """Returns sentences whose tags are in a column of keys and values, such as SpaceAfter=No|name=B-PER in CoNLL-U.

    The tags are the only key whose values are all tags, and words without it are O; other sentences are returned as
    they are.
    """
    tags = [tag for sentence in sentences for tag in sentence.tags or ()]
    if any(map(is_tag, tags)):
        return sentences
    cells = [dict(_keys_of(tag)) for tag in tags]
    found = collections.defaultdict(set)
    for name, value in itertools.chain.from_iterable(cell.items() for cell in cells):
        found[name].add(value)
    names = [name for name, values in found.items() if all(map(is_tag, values))]
    if not names:
        return sentences
    if len(names) > 1:
        listed = " and ".join(f'"{name}="' for name in names)
        raise Mistake("{} has tags in {} of one column; take all but one of them out", path, listed)
    [name] = names
    num_without = sum(name not in cell for cell in cells)
    log.info('%s: the tags are "%s=" in a column of keys; words without it are O: %d', path, name, num_without)
    values = iter(cell.get(name, "O") for cell in cells)
    return [
        dataclasses.replace(sentence, tags=list(itertools.islice(values, len(sentence.words))))
        for sentence in sentences
    ]


def _keys_of(cell: str) -> Iterator[tuple[str, str]]:
    for part in cell.split("|"):
        name, sign, value = part.partition("=")
        if sign:
            yield name, value


def _warn_of_single_words(path: str, sentences: Sequence[Sentence]) -> None:
    num_single = sum(len(sentence.words) == 1 for sentence in sentences)
    if len(sentences) > 2 and num_single > _SHARE_OF_SINGLE_WORDS * len(sentences):
        advice = "a blank line ends a sentence, so remove those between the words of one"
        if sentences[0].row is not None or format_by_name(path) == "csv":
            advice = "give the words of a sentence together"
        count = f"{num_single:,} of {len(sentences):,} sentences have one word"
        log.warning("%s: %s; if these words belong to longer sentences, %s", path, count, advice)


def _problem_with_tags(sentences: Sequence[Sentence], tag_keys: Sequence[str]) -> tuple[str, str | Message] | None:
    """Returns the problem of the first word without a usable tag, and advice; None if all words have one."""
    is_json = sentences[0].row is not None
    for sentence in sentences:
        if sentence.tags is None:
            needed = f'"{tag_keys[0]}", a list of as many tags' if is_json else "a column of tags"
            if words_of(sentence.row or {}) is None and is_json:
                needed = 'spans of its text, as in "label": [[0, 4, "PER"]]'
            return f"{sentence.unit} {sentence.line_numbers[0]} has only words", f"add {needed}"
        for word, tag in enumerate(sentence.tags):
            if not is_tag(tag):
                line = sentence.place(word).removeprefix(f"{sentence.path} ")
                advice = Message(
                    "convert the file to {}, or name the column of the tags with {tag_column}", NEEDED_TAGS
                )
                if sentence.row is not None and (found := tags_of(sentence.row, sentence.path, tag_keys)):
                    advice = f'convert "{found[0]}" to {NEEDED_TAGS}'
                if tag.lstrip("-").isdecimal():
                    advice = CLASS_LABEL
                return f'{line}: the tag "{tag}" is not one of BIO, IOB1, IOBES or BILOU', advice
    return None


def _to_bio(sentences: list[Sentence], is_bio: bool) -> tuple[list[Sentence], str]:
    """Returns the sentences, with BIO tags if `is_bio`, and a description of their tags for the log."""
    tag_lists = [sentence.tags or () for sentence in sentences]
    scheme = find_scheme(tag_lists)
    if scheme == "BIO" or not is_bio:
        return sentences, "tags are BIO and IOB1 mixed" if scheme == "mixed" else f"tags are {scheme}"
    bio = list(map(to_bio, tag_lists))
    converted = [dataclasses.replace(sentence, tags=tags) for sentence, tags in zip(sentences, bio, strict=True)]
    if scheme != "mixed":
        return converted, f"tags are {scheme}, converted to BIO"
    changed = [
        f'{sentence.place(word)} has "{old}" where an entity begins'
        for sentence, tags, of_bio in zip(sentences, tag_lists, bio, strict=True)
        for word, (old, new) in enumerate(zip(tags, of_bio, strict=True))
        if old != new
    ]
    return converted, f"tags are BIO and IOB1 mixed ({changed[0]}), converted to BIO at {len(changed):,} words"


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


def _read_columns(
    path: str, lines: Sequence[str], word_column: int | None, tag_column: int | None, needs_tags: bool
) -> list[Sentence]:
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
        columns = f"{_in_columns(layout.num_columns)}, counted from 0"
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
            other = f"line {layout.first_line} has {_in_columns(layout.num_columns)}"
            raise Mistake("{} has {}, but {}; all lines need as many", place, _in_columns(len(row)), other)
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


def _in_columns(count: int) -> str:
    return f"{count} column{'s' * (count != 1)}"
