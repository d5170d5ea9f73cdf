"""Sentences of words and tags, from CoNLL columns or JSON lines, and predicted tags back into the same form.

Needs the standard library only.
"""

import dataclasses
import itertools
import json
import logging
import os
import re
from collections.abc import Sequence

from data_prep.tables import decode_utf8

log = logging.getLogger("bert_keras")

JSON_ENDINGS = (".jsonl", ".json")

_DOCUMENT_START = "-DOCSTART-"
_BLANKS = " \t"
_TAG = re.compile(r"O|[BI]-.+", re.DOTALL)
_NEEDED_TAGS = "tags O, B-<type> and I-<type>"


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence as it stands in a file; only its words are needed where it comes from elsewhere.

    Attributes:
        words: list of str.
        tags: list of str, one for each word, in the scheme BIO whatever the file has; None where it has none.
        document: number of the document that it is part of.
        path: the file.
        line_numbers: the line of each word, from 1.
        lines: the lines of the words as they are: one for each word, or one of JSON.
        before: the lines between the sentence before and this one.
        after: the lines after the last sentence of a file, else empty.
    """

    words: Sequence[str]
    tags: Sequence[str] | None = None
    document: int = 0
    path: str = ""
    line_numbers: Sequence[int] = ()
    lines: Sequence[str] = ()
    before: Sequence[str] = ()
    after: Sequence[str] = ()

    def place(self, word: int = 0) -> str:
        """Returns where a word stands, for messages: file and line, and in JSON lines the number of the word."""
        if not self.path:
            return f'word {word + 1} of "{" ".join(self.words[:8])}"'
        place = f"{self.path} line {self.line_numbers[word]}"
        return f"{place} word {word + 1}" if is_json_lines(self.path) else place


def read_conll(path: str | os.PathLike, needs_tags: bool = True) -> list[Sentence]:
    """Reads the sentences of a file, and says in a line of the log how many there are and how they are tagged.

    Columns: a word on each line, first its text and last its tag, between them as many columns as there are; separated
    by tabs where every line has one, else by blanks; a blank line ends a sentence and a line -DOCSTART- begins a
    document. JSON lines (`.jsonl`, `.json`): an object on each line with "words", "tags" and optionally "document",
    whatever stays the same from line to line within a document.

    Tags may be BIO (IOB2: every entity begins with B-) or IOB1 (only one that follows another of its type does); IOB1,
    and tags that mix the two, are turned into BIO, which keeps every entity that conlleval finds.

    Args:
        path: the file, in UTF-8.
        needs_tags: whether it must be tagged. A file to predict need not be: where the last column is no column of
            tags, or there is only one, its sentences have none.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: it is not UTF-8, has no sentence or lines of other columns, lacks a tag or has one that is neither
            BIO nor IOB1; the line is named.
    """
    path = os.fspath(path)
    text = _read_text(path)
    sentences = _read_json_lines(path, text) if is_json_lines(path) else _read_columns(path, text)
    if not sentences:
        needed = "one object of words and tags on a line" if is_json_lines(path) else "one word and its tag on a line"
        raise ValueError(f"{path} holds no sentence; it needs {needed}")
    problem = _problem_with_tags(sentences)
    if problem and needs_tags:
        raise ValueError(f"{path} {'; '.join(problem)}")
    if problem:
        sentences = [dataclasses.replace(sentence, tags=None) for sentence in sentences]
        scheme = f"taken to have no tags: {problem[0]}"
    else:
        sentences, scheme = _to_bio(sentences)
    log.info(
        "%s: %s sentences, %s words, documents: %d; %s",
        path,
        f"{len(sentences):,}",
        f"{sum(len(sentence.words) for sentence in sentences):,}",
        len({sentence.document for sentence in sentences}),
        scheme,
    )
    return sentences


def find_scheme(sentences: Sequence[Sentence]) -> str:
    """Returns the scheme of the tags: "BIO", "IOB1", or "mixed" where some entities begin as in one, some as in other.

    Where no entity tells them apart it is BIO.
    """
    beginnings = {sentence.tags[word][0] for sentence in sentences for word in _beginnings(sentence.tags)}
    if "I" not in beginnings:
        return "BIO"
    return "mixed" if "B" in beginnings else "IOB1"


def format_columns(sentences: Sequence[Sentence], predicted_tags: Sequence[Sequence[str]]) -> str:
    """Returns the file that the sentences were read from with the predicted tags as one more column, the last.

    Blank lines and -DOCSTART- lines stay; the latter get the tag O, so that all lines have as many columns.

    Args:
        sentences: all of one file, from `read_conll`.
        predicted_tags: a tag for each word.
    """
    lines = []
    for sentence, tags in zip(sentences, predicted_tags, strict=True):
        blank = "\t" if "\t" in sentence.lines[0] else " "
        lines += [_format_separator(line, blank) for line in sentence.before]
        lines += [line.rstrip(_BLANKS) + blank + tag for line, tag in zip(sentence.lines, tags, strict=True)]
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


def is_json_lines(path: str) -> bool:
    """Returns whether a file is read as JSON lines: by the end of its name."""
    return path.lower().endswith(JSON_ENDINGS)


def _read_text(path):
    if os.path.isdir(path):
        raise ValueError(f"{path} is a folder; give the file of sentences itself")
    try:
        with open(path, "rb") as file:
            content = file.read()
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}; give a file of CoNLL columns or JSON lines") from None
    return decode_utf8(content, path).replace("\r\n", "\n").replace("\r", "\n")


def _read_columns(path, text):
    lines = text.split("\n")
    is_word = [bool(line.strip(_BLANKS)) and not line.startswith(_DOCUMENT_START) for line in lines]
    is_tabbed = all("\t" in line for line in itertools.compress(lines, is_word))
    sentences, between, document, expected = [], [], 0, None
    start = 0
    for is_sentence, group in itertools.groupby(is_word):
        end = start + len(list(group))
        if is_sentence:
            rows = [_split(line, is_tabbed) for line in lines[start:end]]
            expected = expected or (start + 1, len(rows[0]))
            _check_rows(path, rows, start + 1, expected)
            sentences.append(
                Sentence(
                    words=[row[0] for row in rows],
                    tags=[row[-1] for row in rows] if expected[1] > 1 else None,
                    document=document,
                    path=path,
                    line_numbers=range(start + 1, end + 1),
                    lines=lines[start:end],
                    before=between,
                )
            )
        else:
            between = lines[start:end]
            document += any(line.startswith(_DOCUMENT_START) for line in between)
        start = end
    if sentences and not is_word[-1]:
        sentences[-1] = dataclasses.replace(sentences[-1], after=between)
    return sentences


def _split(line, is_tabbed):
    if is_tabbed:
        return [column.strip(" ") for column in line.rstrip(_BLANKS).split("\t")]
    return re.split(f"[{_BLANKS}]+", line.strip(_BLANKS))


def _check_rows(path, rows, first_line, expected):
    """Refuses lines of other columns than the first line of the file, a pair of its number and of theirs."""
    for number, row in enumerate(rows, first_line):
        if len(row) != expected[1]:
            raise ValueError(
                f"{path} line {number} has {_in_columns(len(row))}, but line {expected[0]} has "
                f"{_in_columns(expected[1])}; all lines need as many, first the word and last its tag"
            )
        if not row[0]:
            raise ValueError(f"{path} line {number} begins with a tab, so that it has no word; put the word there")


def _in_columns(count):
    return f"{count} column{'s' * (count != 1)}"


def _read_json_lines(path, text):
    sentences, document, last_key = [], 0, None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        values = _parse_json_line(f"{path} line {number}", line)
        key = values.get("document")
        document += int(bool(sentences) and key != last_key)
        last_key = key
        words = values["words"]
        place = {"path": path, "line_numbers": [number] * len(words), "lines": [line]}
        sentences.append(Sentence(words, values.get("tags"), document, **place))
    return sentences


def _parse_json_line(place, line):
    try:
        values = json.loads(line)
        json.dumps(values, ensure_ascii=False).encode("utf-8")  # where half of a surrogate pair shows
    except ValueError as error:
        raise ValueError(
            f'{place} is not JSON of Unicode text ({error}); it needs {{"words": [...], "tags": [...]}}'
        ) from None
    if not isinstance(values, dict) or "words" not in values:
        raise ValueError(f'{place} has no "words"; it needs {{"words": [...], "tags": [...]}}')
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
            needed = "a list of as many tags" if is_json_lines(sentence.path) else "the tag as last column"
            return f"{line} has words alone", f"put beside them {needed}"
        for word, tag in enumerate(sentence.tags):
            if not _TAG.fullmatch(tag):
                line = sentence.place(word).removeprefix(f"{sentence.path} ")
                return f'{line}: the tag "{tag}" is neither of BIO nor of IOB1', f"convert the file to {_NEEDED_TAGS}"
    return None


def _beginnings(tags):
    """Yields the places of the tags that differ from the one before in being an entity, or in its type."""
    for place, (previous, tag) in enumerate(zip(["O", *tags], tags, strict=False)):
        if tag != "O" and previous[2:] != tag[2:]:
            yield place


def _to_bio(sentences):
    """Turns the tags of a file into BIO; also returns what there is to say of them."""
    scheme = find_scheme(sentences)
    if scheme == "BIO":
        return sentences, "tags are BIO"
    converted, num_changed, first = [], 0, ""
    for sentence in sentences:
        tags = list(sentence.tags)
        for word in _beginnings(sentence.tags):
            if tags[word][0] == "I":
                num_changed += 1
                first = first or f'{sentence.place(word)} has "{tags[word]}" where an entity begins'
                tags[word] = "B" + tags[word][1:]
        converted.append(dataclasses.replace(sentence, tags=tags))
    if scheme == "IOB1":
        return converted, "tags are IOB1, turned into BIO"
    return converted, f"tags are BIO and IOB1 mixed ({first}), turned into BIO at {num_changed:,} words"


def _format_separator(line, blank):
    is_row = line.startswith(_DOCUMENT_START) and len(line.split()) > 1
    return line.rstrip(_BLANKS) + blank + "O" if is_row else line
