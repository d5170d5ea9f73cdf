"""Finds and reads vocabularies: a `vocab.txt`, or the `tokenizer.json` that other libraries write."""

import codecs
import os
from collections.abc import Sequence
from typing import Any

from bert_keras.storage import json_files, paths, text_files

VOCABULARY_FILE = "vocab.txt"
TOKENIZER_JSON = "tokenizer.json"


def vocabulary_in(folder: str | os.PathLike) -> str | None:
    """Returns the path of the `vocab.txt` of a folder, or else of its `tokenizer.json`; None without either.

    A `tokenizer.json` counts only if its tokens are word pieces. Raises ValueError if it is damaged.
    """
    file, json_file = (paths.join(folder, name) for name in (VOCABULARY_FILE, TOKENIZER_JSON))
    if paths.is_file(file):
        return file
    return json_file if paths.is_file(json_file) and _has_word_pieces(read_tokenizer_json(json_file)) else None


def name_of(vocab_file: str | os.PathLike | Sequence[str]) -> str:
    """Returns the name of a vocabulary for messages: its path, or "the vocabulary" for a list of tokens."""
    return os.fspath(vocab_file) if isinstance(vocab_file, str | os.PathLike) else "the vocabulary"


def read_tokens(vocab_file: str | os.PathLike | Sequence[str]) -> list[str]:
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
        return _checked(vocab_file)
    name = os.fspath(vocab_file)
    if paths.is_dir(name):
        raise ValueError(f'the vocabulary file "{name}" is a folder; give the vocab.txt itself')
    try:
        tokens = _tokens_of_json(name) if _is_json(name) else _tokens_of_lines(name)
    except FileNotFoundError:
        raise FileNotFoundError(
            f'the vocabulary file "{name}" does not exist; give the vocab.txt that came with the model'
        ) from None
    if not any(tokens):
        raise ValueError(f'the vocabulary file "{name}" has no tokens; it needs one token a line')
    return tokens


def vocabulary_bytes(vocab_file: str | os.PathLike) -> bytes:
    """Returns the content of a `vocab.txt` with the tokens of a file."""
    if not _is_json(vocab_file):
        return paths.read_bytes(vocab_file)
    return "".join(f"{token}\n" for token in read_tokens(vocab_file)).encode()


def read_tokenizer_json(path: str | os.PathLike) -> dict[str, Any]:
    """Returns the content of a `tokenizer.json`. Raises ValueError if it is damaged."""
    needed = "give the tokenizer.json or the vocab.txt that came with the model"
    values = json_files.parse_json(text_files.read_text(path, needed), os.fspath(path), needed)
    model = values.get("model") if isinstance(values, dict) else None
    if not isinstance(model, dict) or not isinstance(model.get("vocab"), dict | list):
        raise ValueError(f"{path} is not a tokenizer.json; {needed}")
    return values


def _is_json(path):
    return os.fspath(path).endswith(".json")


def _has_word_pieces(values):
    # Early files do not tell the type.
    return values["model"].get("type", "WordPiece") == "WordPiece" and isinstance(values["model"]["vocab"], dict)


def _tokens_of_json(name):
    values = read_tokenizer_json(name)
    if not _has_word_pieces(values):
        raise ValueError(f"{name} has tokens of {values['model'].get('type')}, but a BERT has word pieces")
    prefix = values["model"].get("continuing_subword_prefix", "##")
    if prefix != "##":
        raise ValueError(f'{name} marks the later pieces of a word with "{prefix}", but a BERT needs ##')
    ids = dict(values["model"]["vocab"])
    for token in values.get("added_tokens") or ():
        ids[token.get("content")] = token.get("id")
    # Some ids may have no token, but their number stays in proportion.
    if not all(type(id_) is int and 0 <= id_ < 10 * len(ids) for id_ in ids.values()):
        raise ValueError(f"{name} has tokens with wrong ids; give the tokenizer.json that came with the model")
    tokens = [""] * (1 + max(ids.values(), default=-1))
    for token, id_ in ids.items():
        tokens[id_] = token
    return _checked(tokens)


def _tokens_of_lines(name):
    content = paths.read_bytes(name).removeprefix(codecs.BOM_UTF8)
    try:
        lines = content.decode("utf-8").removesuffix("\n").split("\n")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ValueError(
            f"{name} line {line}: the vocabulary is not UTF-8 (byte 0x{content[error.start]:02x}); save it as UTF-8"
        ) from None
    return [line.strip() for line in lines]


def _checked(tokens):
    """Returns a list of tokens as a file would give them."""
    for number, token in enumerate(tokens):
        if not isinstance(token, str) or "\n" in token.strip():
            raise ValueError(
                f"token {number} of the vocabulary is {token!r}, but must be a str of one line; give a list of tokens, "
                "or the path of a vocab.txt"
            )
    if not any(token.strip() for token in tokens):
        raise ValueError("the vocabulary has no tokens; give a list of tokens, or the path of a vocab.txt")
    return [token.strip() for token in tokens]
