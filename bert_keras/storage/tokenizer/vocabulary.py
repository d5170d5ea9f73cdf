"""Finds and reads vocabularies: a `vocab.txt`, or the `tokenizer.json` that other libraries write."""

import codecs
import functools
import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence

from bert_keras.mistakes import Mistake
from bert_keras.storage import inspection, json_files, paths
from bert_keras.storage.tokenizer.json_file import LONGEST_WORD, TokenizerJson

VOCAB_FILE = "vocab.txt"
TOKENIZER_CONFIG = "tokenizer_config.json"


def vocabulary_in(folder: str | os.PathLike) -> str | None:
    """Returns the path of the `vocab.txt` of a folder, or else of its `tokenizer.json`; None without either.

    A `tokenizer.json` counts only if its tokens are word pieces. Raises ValueError if it is damaged.
    """
    if paths.is_file(file := paths.join(folder, VOCAB_FILE)):
        return file
    found = TokenizerJson.from_folder(folder)
    return found and found.file


def vocabulary_digest(vocab: Mapping[str, int]) -> str:
    """Returns the SHA-256 of a vocabulary: one token per line in the order of ids, blank for an id without a token.

    Equals the digest of the file if no line repeats or has extra white space.
    """
    lines = [""] * (max(vocab.values()) + 1)
    for token, id_ in vocab.items():
        lines[id_] = token
    return hashlib.sha256("".join(f"{line}\n" for line in lines).encode("utf-8")).hexdigest()


class Tokens(list[str]):
    """The tokens of a vocabulary in the order of their ids; functions take them in the place of their file.

    Attributes:
        name: path of the file; for tokens without a file, "the vocabulary".

    Args:
        longest_word: for tokens without a file, see the attribute.
    """

    def __init__(self, tokens: Sequence[str], name: str = "", longest_word: int | None = None):
        super().__init__(tokens)
        self._file, self.name = name, name or "the vocabulary"
        if longest_word is not None:
            self.longest_word = longest_word

    @functools.cached_property
    def longest_word(self) -> int | None:
        """`max_input_chars_per_word` of the tokenizer of the vocabulary: longer words become [UNK].

        The `tokenizer_config.json` or else the `tokenizer.json` in the folder of the file sets it; None without one.
        """
        if not self._file:
            return None
        folder = paths.parent(self._file)
        file = paths.join(folder, TOKENIZER_CONFIG)
        found = json_files.read_optional_object(file).get(LONGEST_WORD)
        if found is not None:
            return json_files.check_whole(found, file, LONGEST_WORD)
        tokenizer = TokenizerJson.from_folder(folder)
        return tokenizer and tokenizer.longest_word


def read_tokens(vocab_file: str | os.PathLike | Sequence[str]) -> Tokens:
    """Returns the tokens of a vocabulary in the order of their ids.

    As in the original BERT, white space around a token is stripped. A blank line uses an id; its token is the empty
    string.
    Differs from the original BERT: a byte order mark does not become part of the first token.

    Args:
        vocab_file: path of a file with one token a line, or of a `tokenizer.json` with word pieces, local or remote; or
            a list of the tokens.

    Raises:
        FileNotFoundError: the file does not exist.
        ValueError: the path is a folder, or the file has no tokens or is damaged.
    """
    if not isinstance(vocab_file, str | os.PathLike):
        return vocab_file if isinstance(vocab_file, Tokens) else Tokens(_checked(vocab_file))
    name = os.fspath(vocab_file)
    if paths.is_dir(name):
        raise Mistake('the vocabulary file "{}" is a folder; give the vocab.txt itself', name)
    try:
        tokens = _checked(TokenizerJson(name).tokens) if _is_json(name) else _tokens_of_lines(name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f'the vocabulary file "{name}" does not exist; give the vocab.txt that came with the model'
        ) from None
    if not any(tokens):
        raise Mistake('the vocabulary file "{}" has no tokens; it needs one token a line', name)
    return Tokens(tokens, name)


def vocabulary_bytes(vocab_file: str | os.PathLike) -> bytes:
    """Returns the content of a `vocab.txt` with the tokens of a file."""
    if not _is_json(vocab_file):
        return paths.read_bytes(vocab_file)
    return "".join(f"{token}\n" for token in read_tokens(vocab_file)).encode()


def _is_json(path: str | os.PathLike) -> bool:
    return os.fspath(path).endswith(".json")


def _tokens_of_lines(name: str) -> list[str]:
    content = paths.read_bytes(name).removeprefix(codecs.BOM_UTF8)
    inspection.check_is_text(content[:4096], name)
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise Mistake(
            "{} line {}: the vocabulary is not UTF-8 (byte 0x{:02x}); save it as UTF-8",
            name,
            line,
            content[error.start],
        ) from None
    return [line.strip() for line in lines]


def _checked(tokens: Sequence[str]) -> list[str]:
    """Returns a list of tokens as a file would give them."""
    if isinstance(tokens, bytes) or not isinstance(tokens, Iterable):
        raise ValueError(f"the vocabulary is {tokens!r}; give a list of tokens, or the path of a vocab.txt")
    for number, token in enumerate(tokens):
        if not isinstance(token, str) or "\n" in token.strip():
            raise ValueError(
                f"token {number} of the vocabulary is {token!r}, but must be a str of one line; give a list of tokens, "
                "or the path of a vocab.txt"
            )
    if not any(token.strip() for token in tokens):
        raise ValueError("the vocabulary has no tokens; give a list of tokens, or the path of a vocab.txt")
    return [token.strip() for token in tokens]
