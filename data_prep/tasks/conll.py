"""Reads sentences of words and tags from CoNLL columns or JSON lines, and formats predicted tags in the same way."""

import dataclasses
import json
import logging
import os
import re
from collections.abc import Sequence

from bert_keras.data_prep.corpus.sentences import Sentence, is_json_lines
from bert_keras.data_prep.tasks.conll_columns import BLANKS, DOCUMENT_START, read_columns
from bert_keras.data_prep.tasks.tag_schemes import NEEDED_TAGS, find_scheme, is_tag, to_bio
from bert_keras.storage import text_files
from bert_keras.storage.json_files import parse_json

log = logging.getLogger("bert_keras")

_NEEDED_JSON = 'it needs {"words": [...], "tags": [...]}'


def read_conll(
    path: str | os.PathLike,
    needs_tags: bool = True,
    word_column: int | None = None,
    tag_column: int | None = None,
    is_bio: bool = True,
) -> list[Sentence]:
    """Reads the sentences of a file; the log reports their number and their tag scheme.

    Columns: each line has a word, and all lines have the same number of columns. Tabs separate the columns if every
    line has one, otherwise blanks. A blank line ends a sentence; a line -DOCSTART- or `# newdoc` begins a document.
    Other lines before a sentence that begin with # are comments, unless they look like its first word. If the first
    column counts the words of each sentence, as in CoNLL-U and GermEval, lines that it numbers 1-2 or 5.1 are skipped.

    JSON lines (`.jsonl`, `.json`): an object on each line with "words", "tags" and optionally "document", which is the
    same for all sentences of a document.

    Tags may be BIO (IOB2: every entity begins with B-), IOB1 (B- only begins an entity after another of its type),
    IOBES or BILOU, also without types (B, I, O). All become BIO, which keeps every entity that conlleval finds.

    Args:
        path: the file; UTF-8, or UTF-16 or UTF-32 with a byte order mark.
        needs_tags: whether tags are required. Otherwise the sentences have no tags if the last column does not hold
            tags or is the only column.
        word_column: index of the column of the words, from 0, or from the end if negative; None: the first, or the
            second if the first counts the words.
        tag_column: the same for the tags; None: the last.
        is_bio: whether to convert the tags to BIO.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the file is not text, has no sentence or a varying number of columns, lacks a tag or has an unknown
            one; names file and line.
    """
    path = os.fspath(path)
    text = text_files.read_text(path, "give a file of CoNLL columns or JSON lines")
    text = re.sub("\r+\n|\r", "\n", text)
    if is_json_lines(path):
        if word_column is not None or tag_column is not None:
            raise ValueError(f"{path} is JSON lines, which have no columns; leave out --word_column and --tag_column")
        sentences = _read_json_lines(path, text)
    else:
        sentences = read_columns(path, text, word_column, tag_column, needs_tags)
    if not sentences:
        needed = "one object of words and tags on a line" if is_json_lines(path) else "one word and its tag on a line"
        raise ValueError(f"{path} has no sentence; it needs {needed}")
    problem = _problem_with_tags(sentences)
    if problem and needs_tags:
        raise ValueError(f"{path} {'; '.join(problem)}")
    if problem:
        sentences = [dataclasses.replace(sentence, tags=None) for sentence in sentences]
        scheme = f"read without tags: {problem[0]}"
    else:
        sentences, scheme = _to_bio(sentences, is_bio)
    log.info(
        "%s: %s sentences, %s words, documents: %d; %s",
        path,
        f"{len(sentences):,}",
        f"{sum(len(sentence.words) for sentence in sentences):,}",
        len({sentence.document for sentence in sentences}),
        scheme,
    )
    return sentences


def format_columns(sentences: Sequence[Sentence], predicted_tags: Sequence[Sequence[str]]) -> str:
    """Returns the file of the sentences with the predicted tags as an additional last column.

    Blank lines and comments stay. To keep the number of columns equal, -DOCSTART- lines with several columns get the
    tag O, and skipped lines get `_`.

    Args:
        sentences: all sentences of one file, from `read_conll`.
        predicted_tags: a tag for each word.
    """
    lines = []
    for sentence, tags in zip(sentences, predicted_tags, strict=True):
        blank = "\t" if "\t" in sentence.lines[0] else " "
        lines += [_format_separator(line, blank) for line in sentence.before]
        for word, (line, tag) in enumerate(zip(sentence.lines, tags, strict=True)):
            lines += [f"{other}{blank}_" for other in sentence.skipped.get(word, ())]
            lines.append(line.rstrip(BLANKS) + blank + tag)
        lines += [f"{other}{blank}_" for other in sentence.skipped.get(len(sentence.lines), ())]
        lines += [_format_separator(line, blank) for line in sentence.after]
    return "\n".join(lines).rstrip("\n") + "\n"


def format_json_lines(
    sentences: Sequence[Sentence], predicted_tags: Sequence[Sequence[str]], confidences: Sequence[Sequence[float]]
) -> str:
    """Returns the JSON lines of the sentences with "predicted_tags" and "confidences" added.

    Args:
        sentences: all sentences of one file, from `read_conll`.
        predicted_tags: a tag for each word.
        confidences: the probability of each of these tags.
    """
    lines = []
    for sentence, tags, probabilities in zip(sentences, predicted_tags, confidences, strict=True):
        added = {"predicted_tags": list(tags), "confidences": [round(float(value), 6) for value in probabilities]}
        lines.append(json.dumps(json.loads(sentence.lines[0]) | added, ensure_ascii=False) + "\n")
    return "".join(lines)


def _read_json_lines(path, text):
    sentences, document, last_key = [], 0, None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        values = _parse_json_line(path, number, line)
        key = values.get("document")
        document += int(bool(sentences) and key != last_key)
        last_key = key
        words = values["words"]
        place = {"path": path, "line_numbers": [number] * len(words), "lines": [line]}
        sentences.append(Sentence(words, values.get("tags"), document, **place))
    return sentences


def _parse_json_line(path, number, line):
    values, place = parse_json(line, path, _NEEDED_JSON, number), f"{path} line {number}"
    if not isinstance(values, dict) or "words" not in values:
        raise ValueError(f'{place} has no "words"; {_NEEDED_JSON}')
    for name in ("words", "tags"):
        texts = values.get(name)
        if texts is None and name == "tags":
            continue
        if not isinstance(texts, list) or not texts or not all(isinstance(text, str) for text in texts):
            raise ValueError(f'{place}: "{name}" is {json.dumps(texts)[:60]}, but must be a list of at least one text')
        if len(texts) != len(values["words"]):
            raise ValueError(
                f"{place} has {len(values['words'])} words but {len(texts)} tags; every word needs one tag"
            )
    return values


def _problem_with_tags(sentences):
    """Returns the problem of the first word without a usable tag, and advice; None if all words have one."""
    for sentence in sentences:
        line = f"line {sentence.line_numbers[0]}"
        if sentence.tags is None:
            needed = "a list of as many tags" if is_json_lines(sentence.path) else "a column of tags"
            return f"{line} has only words", f"add {needed}"
        for word, tag in enumerate(sentence.tags):
            if not is_tag(tag):
                line = sentence.place(word).removeprefix(f"{sentence.path} ")
                advice = f"convert the file to {NEEDED_TAGS}"
                if not is_json_lines(sentence.path):
                    advice += ", or name the column of the tags with --tag_column"
                return f'{line}: the tag "{tag}" is not one of BIO, IOB1, IOBES or BILOU', advice
    return None


def _to_bio(sentences, is_bio):
    """Returns the sentences, with BIO tags if `is_bio`, and a description of their tags for the log."""
    scheme = find_scheme([sentence.tags for sentence in sentences])
    if scheme == "BIO" or not is_bio:
        return sentences, "tags are BIO and IOB1 mixed" if scheme == "mixed" else f"tags are {scheme}"
    converted, num_changed, first = [], 0, ""
    for sentence in sentences:
        tags = to_bio(sentence.tags)
        for word, (old, new) in enumerate(zip(sentence.tags, tags, strict=True)):
            if old != new:
                num_changed += 1
                first = first or f'{sentence.place(word)} has "{old}" where an entity begins'
        converted.append(dataclasses.replace(sentence, tags=tags))
    if scheme != "mixed":
        return converted, f"tags are {scheme}, converted to BIO"
    return converted, f"tags are BIO and IOB1 mixed ({first}), converted to BIO at {num_changed:,} words"


def _format_separator(line, blank):
    is_row = line.startswith(DOCUMENT_START) and len(line.split()) > 1
    return line.rstrip(BLANKS) + blank + "O" if is_row else line
