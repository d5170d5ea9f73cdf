"""Sentence of words and tags from a file. Needs the standard library only."""

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

from bert_keras.data_prep.text.same_text import Placed, key_of


@dataclasses.dataclass(frozen=True)
class Sentence:
    """Sentence of a file; a sentence from another source needs only `words`."""

    words: Sequence[str]
    tags: Sequence[str] | None = None  # one per word, in the BIO scheme for every file format; None without tags
    document: int = 0  # number of the document that contains the sentence
    path: str = ""  # of the file; for data in memory their name
    line_numbers: Sequence[int] = ()  # of each word, from 1; for data in memory the number of the row, from 0
    unit: str = "line"  # "row" for data in memory
    row: Mapping[str, Any] | None = None  # the object of JSON that holds the sentence
    lines: Sequence[str] = ()  # the unchanged lines of the words, unless an object of JSON holds the sentence
    before: Sequence[str] = ()  # the lines between the previous sentence and this one
    skipped: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)  # not words, by the next word
    after: Sequence[str] = ()  # the lines after the last sentence of a file, else empty

    def place(self, word: int = 0) -> str:
        """Returns the place of a word for messages: file and line, and the word number in JSON."""
        if not self.path:
            return f'word {word + 1} of "{" ".join(self.words[:8])}"'
        place = f"{self.path} {self.unit} {self.line_numbers[word]}"
        return place if self.row is None else f"{place} word {word + 1}"

    @property
    def placed(self) -> Placed:
        return Placed(key_of([" ".join(self.words)]), self.place())
