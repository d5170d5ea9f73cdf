"""Sentence of words and tags from a file. Needs the standard library only."""

import dataclasses
import os
from collections.abc import Mapping, Sequence

from bert_keras.storage.inspection import format_by_name


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Sentence of a file; a sentence from another source needs only `words`."""

    words: Sequence[str]
    tags: Sequence[str] | None = None  # one per word, in the BIO scheme for every file format; None without tags
    document: int = 0  # number of the document that contains the sentence
    path: str = ""
    line_numbers: Sequence[int] = ()  # of each word, from 1
    lines: Sequence[str] = ()  # the unchanged lines of the words: one per word, or one line of JSON
    before: Sequence[str] = ()  # the lines between the previous sentence and this one
    skipped: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)  # not words, by the next word
    after: Sequence[str] = ()  # the lines after the last sentence of a file, else empty

    def place(self, word: int = 0) -> str:
        """Returns the place of a word for messages: file and line, and the word number in JSON lines."""
        if not self.path:
            return f'word {word + 1} of "{" ".join(self.words[:8])}"'
        place = f"{self.path} line {self.line_numbers[word]}"
        return f"{place} word {word + 1}" if is_json_lines(self.path) else place


def is_json_lines(path: str | os.PathLike) -> bool:
    """Returns whether a file has JSON lines, judged by its name without the ending of a compression."""
    return format_by_name(path) == "json"
