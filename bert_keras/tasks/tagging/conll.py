"""Reads sentences of words and tags from CoNLL columns, tables or JSON."""

import collections
import dataclasses
import itertools
import logging
import os
from collections.abc import Iterator, Sequence

from bert_keras.data_prep.corpus.sentences import Sentence
from bert_keras.data_prep.text.words import Split, split_words
from bert_keras.mistakes import Message, Mistake, several
from bert_keras.storage import text_files
from bert_keras.storage.inspection import format_by_name
from bert_keras.storage.json_rows import has_json_rows, look_for_rows
from bert_keras.tasks.tables.column_names import TAG_NAMES, folded
from bert_keras.tasks.tagging.conll_columns import read_columns
from bert_keras.tasks.tagging.entities import NEEDED_TAGS, find_scheme, is_tag, to_bio
from bert_keras.tasks.tagging.rows import (
    CLASS_LABEL,
    is_table,
    read_json,
    read_table,
    tags_of,
    words_of,
)

log = logging.getLogger("bert_keras")

_NEEDED = "give a file of CoNLL columns or JSON lines"
_SHARE_OF_SINGLE_WORDS = 0.9


def has_names(path: str | os.PathLike) -> bool:
    """Returns whether names tell where a file has its words and tags, as in JSON and in a table with a header."""
    if has_json_rows(path) or format_by_name(path) == "csv":
        return True
    return is_table(text_files.unify_line_ends(text_files.read_text(path, _NEEDED)).split("\n"))


def read_conll(
    path: str | os.PathLike,
    needs_tags: bool = True,
    word_column: int | None = None,
    tag_column: int | None = None,
    is_bio: bool = True,
    tag_keys: Sequence[str] = TAG_NAMES,
    split: Split = split_words,
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
    if the last column does not hold tags or is the only column. `tag_keys` are the keys of tags in JSON. `split`
    splits a text with spans into words. Errors (ValueError) name file and line.
    """
    path = os.fspath(path)
    has_flags = (word_column, tag_column) != (None, None)
    is_json, text = look_for_rows(path, _NEEDED)
    if is_json:
        if has_flags:
            raise Mistake("{} is JSON, which has no columns; leave out {word_column} and {tag_column}", path)
        sentences = read_json(path, text, tag_keys, needs_tags, split)
        path = sentences[0].path
    else:
        text = text_files.read_text(path, _NEEDED) if text is None else text
        lines = text_files.unify_line_ends(text).split("\n")
        if format_by_name(path) == "csv" or is_table(lines):
            sentences = read_table(path, text, tag_keys, needs_tags, split)
            if has_flags:
                raise Mistake("{} has a header that names the columns; leave out {word_column} and {tag_column}", path)
        else:
            sentences = read_columns(path, lines, word_column, tag_column, needs_tags)
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
    counts = f"{several(len(sentences), 'sentences')}, {several(num_words, 'words')}, documents: {num_documents}"
    log.info("%s: %s; %s", path, counts, scheme)
    return sentences


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
                elif not word and folded(tag) in TAG_NAMES and sentence.row is None:
                    advice = "if this line names the columns, remove it"
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
        for sentence, tags, bio_tags in zip(sentences, tag_lists, bio, strict=True)
        for word, (old, new) in enumerate(zip(tags, bio_tags, strict=True))
        if old != new
    ]
    return converted, f"tags are BIO and IOB1 mixed ({changed[0]}), converted to BIO at {len(changed):,} words"
