"""A sentence of words and tags, as a file has it.

Needs the standard library only.
"""

import dataclasses
from collections.abc import Mapping, Sequence

from bert_keras.storage.text_files import COMPRESSED_ENDINGS

JSON_ENDINGS = (".jsonl", ".json")


@dataclasses.dataclass(frozen=True)
class Sentence:
    """A sentence of a file; only its words are needed where it comes from elsewhere.

    Attributes:
        words: list of str.
        tags: list of str, one for each word, in the scheme BIO whatever the file has; None where it has none.
        document: number of the document that it is part of.
        path: the file.
        line_numbers: the line of each word, from 1.
        lines: the lines of the words as they are: one for each word, or one of JSON.
        before: the lines between the sentence before and this one.
        skipped: lines within the sentence that are not words, by the number of the word that they are before.
        after: the lines after the last sentence of a file, else empty.
    """

    words: Sequence[str]
    tags: Sequence[str] | None = None
    document: int = 0
    path: str = ""
    line_numbers: Sequence[int] = ()
    lines: Sequence[str] = ()
    before: Sequence[str] = ()
    skipped: Mapping[int, Sequence[str]] = dataclasses.field(default_factory=dict)
    after: Sequence[str] = ()

    def place(self, word: int = 0) -> str:
        """Returns where a word is, for messages: file and line, and in JSON lines the number of the word."""
        if not self.path:
            return f'word {word + 1} of "{" ".join(self.words[:8])}"'
        place = f"{self.path} line {self.line_numbers[word]}"
        return f"{place} word {word + 1}" if is_json_lines(self.path) else place


def is_json_lines(path: str) -> bool:
    """Returns whether a file is read as JSON lines: by the end of its name."""
    path = path.lower()
    for compressed in COMPRESSED_ENDINGS:
        path = path.removesuffix(compressed)
    return path.endswith(JSON_ENDINGS)
