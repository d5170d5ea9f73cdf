"""The one answer to "Are these the same texts?", for splits, folds, warnings and the cleaning of raw text.

Case, white space, compatible Unicode forms (NFKC) and invisible characters do not matter, because a tokenizer makes
(nearly) the same tokens of both texts. Punctuation, accents and the order of the words do. The texts of a pair, and
the choices of a question, are compared one by one. A pair in the other order is the same for splits and leaks, but its
label may differ: if A entails B, B need not entail A.
"""

import hashlib
from collections.abc import Iterable
from typing import NamedTuple

from bert_keras.data_prep.text.characters import normalize
from bert_keras.storage.text_files import without_invisible

# The hashes of the texts of an example, in their order.
Key = tuple[int, ...]


class Placed(NamedTuple):
    """The key of an example, and its place, such as "dev.csv line 41"."""

    key: Key
    place: str


class Shared(NamedTuple):
    """An example that is also elsewhere: its number, and the number of the first equal one there."""

    number: int
    other: int


def hash_of(lines: Iterable[str]) -> int:
    """Returns 64 bits of the hash of a text with these lines; it is the same for the same texts."""
    text = _in_one_line(normalize("NFKC", " ".join(lines)).casefold())
    text = _in_one_line(without_invisible(text))
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def key_of(texts: Iterable[str]) -> Key:
    """Returns what identifies an example: the hashes of its texts, in their order."""
    return tuple(hash_of([text]) for text in texts)


def group_numbers(keys: Iterable[Key]) -> list[int]:
    """Returns a number for each key, from 0 in the order of the first ones; keys of the same texts have the same."""
    numbers: dict[Key, int] = {}
    return [numbers.setdefault(_unordered(key), len(numbers)) for key in keys]


def find_shared(keys: Iterable[Key], others: Iterable[Key]) -> list[Shared]:
    """Returns the keys that are also among the others."""
    places: dict[Key, int] = {}
    for number, key in enumerate(others):
        places.setdefault(_unordered(key), number)
    found = ((number, places.get(_unordered(key))) for number, key in enumerate(keys))
    return [Shared(number, other) for number, other in found if other is not None]


def find_contradictions(keys: Iterable[Key], labels: Iterable[object]) -> list[list[int]]:
    """Returns groups of the numbers of equal examples that have different labels."""
    groups: dict[Key, dict[int, object]] = {}
    for number, (key, label) in enumerate(zip(keys, labels, strict=True)):
        groups.setdefault(key, {})[number] = label
    return [[*group] for group in groups.values() if len({*group.values()}) > 1]


def _unordered(key: Key) -> Key:
    return key if len(key) < 2 else tuple(sorted(key))


def _in_one_line(text: str) -> str:
    return " ".join(text.split())
