"""Reads a tokenizer.json, in which the package tokenizers stores a vocabulary and all rules of a tokenizer."""

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from bert_keras.mistakes import Mistake
from bert_keras.storage import json_files, paths, text_files

TOKENIZER_JSON = "tokenizer.json"
SPECIAL_TOKENS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
# The default of the package.
LONGEST_WORD, LONGEST_WORD_OF_OTHERS = "max_input_chars_per_word", 100

# The keys that are read, and those that change no token.
KEYS_OF_JSON = (
    ("model", "added_tokens", "normalizer", "pre_tokenizer", "post_processor", "truncation"),
    ("version", "padding", "decoder"),
)

_NORMALIZER = "BertNormalizer"


class TokenizerJson:
    """The content of a tokenizer.json.

    Attributes:
        file: its path.
        model: what it says about the vocabulary.

    Raises:
        ValueError: the file is damaged.
    """

    def __init__(self, file: str | os.PathLike):
        self.file = os.fspath(file)
        needed = "give the tokenizer.json or the vocab.txt that came with the model"
        values = json_files.parse_json(text_files.read_text(file, needed), self.file, needed)
        model = values.get("model") if isinstance(values, dict) else None
        if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
            raise Mistake("{} is not a tokenizer.json; {}", file, needed)
        for name in ("added_tokens", "truncation", "post_processor"):
            if not _is_readable(name, values.get(name)):
                raise Mistake("{}: {} has another form than the package tokenizers gives it; {}", file, name, needed)
        self._values, self.model = values, model

    @classmethod
    def from_folder(cls, folder: str | os.PathLike) -> "TokenizerJson | None":
        """Returns the tokenizer.json of a folder; None without one, or if its tokens are not word pieces."""
        file = paths.join(folder, TOKENIZER_JSON)
        found = cls(file) if paths.is_file(file) else None
        return found if found and found.has_word_pieces else None

    @property
    def has_word_pieces(self) -> bool:
        """Whether the tokens are word pieces, as those of a BERT."""
        # Early files do not tell the type.
        return self.model.get("type", "WordPiece") == "WordPiece" and isinstance(self.model["vocab"], dict)

    @property
    def longest_word(self) -> int:
        """The maximum number of characters in a word that is split."""
        found = self.model.get(LONGEST_WORD, LONGEST_WORD_OF_OTHERS)
        return json_files.check_whole(found, self.file, LONGEST_WORD)

    @property
    def added(self) -> Sequence[dict[str, Any]]:
        """The tokens that are found in a text before it is split, with their flags."""
        return self._values.get("added_tokens") or ()

    @functools.cached_property
    def tokens(self) -> list[str]:
        """The tokens in the order of their ids, "" for an id without one."""
        if not self.has_word_pieces:
            raise Mistake("{} has tokens of {}, but a BERT has word pieces", self.file, self.model.get("type"))
        if (prefix := self.model.get("continuing_subword_prefix", "##")) != "##":
            message = '{} marks the later pieces of a word with "{}", but a BERT needs ##'
            raise Mistake(message, self.file, prefix)
        ids = self.model["vocab"] | {token["content"]: token.get("id") for token in self.added}
        given = [*self.model["vocab"].values(), *ids.values()]
        # Some ids may have no token, but their number stays in proportion.
        if not all(type(id_) is int and 0 <= id_ < 10 * len(ids) for id_ in given):
            raise Mistake("{} has tokens with wrong ids; give the tokenizer.json that came with the model", self.file)
        tokens = [""] * (1 + max(ids.values(), default=-1))
        for token, id_ in ids.items():
            tokens[id_] = token
        return tokens

    @property
    def cuts_left(self) -> bool:
        """Whether texts that are too long lose their beginning."""
        return (self._values.get("truncation") or {}).get("direction") == "Left"

    @property
    def post_processor(self) -> str | None:
        """The type of the part that adds [CLS] and [SEP]; None without one."""
        return (self._values.get("post_processor") or {}).get("type")

    def part(self, name: str) -> dict[str, Any]:
        """Returns the part "normalizer" or "pre_tokenizer"; of a sequence of one part, this part."""
        part = self._values.get(name)
        if isinstance(part, dict) and part.get("type") == "Sequence":
            parts = part.get("normalizers") or part.get("pretokenizers")
            part = parts[0] if isinstance(parts, list) and len(parts) == 1 else part
        return part if isinstance(part, dict) else {}

    @property
    def casing(self) -> dict[str, bool]:
        """The settings do_lower_case and strip_accents, as far as the normalizer of a BERT sets them."""
        normalizer = self.part("normalizer")
        found = {"do_lower_case": normalizer.get("lowercase"), "strip_accents": normalizer.get("strip_accents")}
        is_known = normalizer.get("type") == _NORMALIZER
        return {name: value for name, value in found.items() if is_known and isinstance(value, bool)}

    def template(self, key: str) -> list[tuple[Any, Any]]:
        """Returns the parts of the template "single" or "pair", each with the type of its tokens."""
        items = (self._values.get("post_processor") or {}).get(key) or ()
        return [(part.get("id"), part.get("type_id")) for item in items for part in item.values()]

    def check_equal(self, text_file: str, lines: Sequence[str]) -> None:
        """Refuses the lines of a vocab.txt if they have other tokens. Added tokens may be missing at its end."""
        line_ids: Mapping[str, int] = {token: id_ for id_, token in enumerate(lines)}
        _ = self.tokens  # checks the ids
        for token, id_ in sorted(self.model["vocab"].items(), key=lambda item: item[1]):
            if token.strip() and line_ids.get(token.strip()) != id_:
                raise Mistake(
                    "{} has {} with the id {}, and {} has {} there; remove the file that does not belong to the model",
                    self.file,
                    token,
                    id_,
                    paths.name(text_file),
                    lines[id_] if id_ < len(lines) else "no token",
                )


def _is_readable(name: str, part: Any) -> bool:
    """Returns whether a part of a tokenizer.json is missing, or of the types that `TokenizerJson` reads."""
    if name == "added_tokens":
        return _is_list(part, lambda token: isinstance(token.get("content"), str))
    if not isinstance(part, dict | None):
        return False
    templates = [(part or {}).get(key) for key in ("single", "pair")]
    return all(
        _is_list(items, lambda item: all(isinstance(value, dict) for value in item.values())) for items in templates
    )


def _is_list(value: Any, fits: Callable[[dict[str, Any]], bool]) -> bool:
    """Returns whether a value is None, or a list of dicts that fit."""
    return value is None or isinstance(value, list) and all(isinstance(item, dict) and fits(item) for item in value)
