"""Sentences of words and tags, from CoNLL columns or JSON lines, and predicted tags back into the same form.

Needs the standard library only.
"""

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
    """Reads the sentences of a file, and says in a line of the log how many there are and how they are tagged.

    Columns: a word on each line, with as many columns as there are; separated by tabs where every line has one, else by
    blanks. A blank line ends a sentence; a line -DOCSTART- or `# newdoc` begins a document. Other lines before a
    sentence that begin with # and do not look like its first word are comments. Where the first column counts the words
    of each sentence, as in CoNLL-U and GermEval, ranges such as 1-2 in it are skipped. JSON lines (`.jsonl`, `.json`):
    an object on each line with "words", "tags" and optionally "document", the same for all sentences of a document.

    Tags may be BIO (IOB2: every entity begins with B-), IOB1 (only one that follows another of its type does), IOBES or
    BILOU, also without types (B, I, O). All become BIO, which keeps every entity that conlleval finds.

    Args:
        path: the file; UTF-8, or UTF-16 with a byte order mark.
        needs_tags: whether it must be tagged. A file to predict need not be: where the last column does not hold tags,
            or there is only one, its sentences have none.
        word_column: number of the column of the words, from 0, or from the end where negative; None: the first, or the
            second where the first counts the words.
        tag_column: the same of the tags; None: the last.
        is_bio: whether to turn the tags into BIO.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not text, has no sentence or lines of other columns, lacks a tag or has one of another scheme;
            the line is named.
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
        scheme = f"taken to have no tags: {problem[0]}"
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
    """Returns the file that the sentences were read from with the predicted tags as one more column, the last.

    Blank lines, comments and -DOCSTART- lines stay; the latter get the tag O, so that all lines have as many columns.

    Args:
        sentences: all of one file, from `read_conll`.
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
    """Returns the JSON lines that the sentences were read from with "predicted_tags" and "confidences" added.

    Args:
        sentences: all of one file, from `read_conll`.
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
    """Returns what is wrong with the first word without a tag that can be used, and what to do; None: all have one."""
    for sentence in sentences:
        line = f"line {sentence.line_numbers[0]}"
        if sentence.tags is None:
            needed = "a list of as many tags" if is_json_lines(sentence.path) else "a column of tags"
            return f"{line} has words alone", f"add {needed}"
        for word, tag in enumerate(sentence.tags):
            if not is_tag(tag):
                line = sentence.place(word).removeprefix(f"{sentence.path} ")
                advice = f"convert the file to {NEEDED_TAGS}"
                if not is_json_lines(sentence.path):
                    advice += ", or name the column of the tags with --tag_column"
                return f'{line}: the tag "{tag}" is not one of BIO, IOB1, IOBES or BILOU', advice
    return None


def _to_bio(sentences, is_bio):
    """Turns the tags of a file into BIO; also returns what there is to say of them."""
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
        return converted, f"tags are {scheme}, turned into BIO"
    return converted, f"tags are BIO and IOB1 mixed ({first}), turned into BIO at {num_changed:,} words"


def _format_separator(line, blank):
    is_row = line.startswith(DOCUMENT_START) and len(line.split()) > 1
    return line.rstrip(BLANKS) + blank + "O" if is_row else line
